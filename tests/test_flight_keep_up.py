"""A mission says how far simulated time may run, and is heard to the end."""

from __future__ import annotations

from collections.abc import Callable

from sitl_bridge.flight.mission_process import MissionProcess

MISSION = """
from sitl_bridge.flight.keep_up import Announcer
announcer = Announcer()
assert announcer.heard
announcer.until(150_000)
announcer.until(None)
announcer.until(1 << 40)
import os; os.write(announcer._file, b"nonsense\\n")
"""


def test_every_word_of_a_mission_is_passed_on_and_its_end_lets_time_run(
    wait_for: Callable[..., None],
) -> None:
    told: list[int | None] = []
    said: list[str] = []
    mission = MissionProcess(["-c", MISSION], {}, said.append, limit=told.append)
    wait_for(lambda: mission.poll() is not None, "its end")
    mission.stop()
    wait_for(lambda: len(told) == 4, "its last word")
    assert told == [150_000, None, 1 << 40, None]
    assert mission.poll() == 0, said
