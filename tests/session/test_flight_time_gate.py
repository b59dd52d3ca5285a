"""A mission limits how far and how fast simulated time runs, and both end with it."""

from __future__ import annotations

import asyncio
import gc
import math
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from types import SimpleNamespace

import pytest
from support.standing_vehicle import standing_vehicle

from sitl_bridge.link.hil.time_limits import TimeLimit
from sitl_bridge.session.mission_process import MissionProcess
from sitl_bridge.session.missions import mavsdk_vehicle
from sitl_bridge.session.missions.time_gate import (
    ATTEMPTS,
    REQUEST_SPEED,
    STALE,
    UNANNOUNCED_SPEED,
    MissionGate,
    TimeGate,
    in_real_time,
)

Wait = Callable[..., None]


class Recorded(TimeLimit):
    """Limits that are only noted."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, float | int | None]] = []

    def run_until(self, time_us: int | None, _timeout: float = 0.0) -> None:
        self.calls.append(("until", time_us))

    def at_most(self, speed: float) -> None:
        self.calls.append(("speed", speed))

    def release(self) -> None:
        self.calls.append(("release", None))


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Pair:
    """Both ends in one process."""

    def __init__(self) -> None:
        self.limits, self.clock = Recorded(), Clock()
        self.simulation = MissionGate(self.limits)
        self.mission = TimeGate(str(os.dup(self.simulation.mission_end)), self.clock)
        self.simulation.start()

    def end(self) -> list[tuple[str, float | int | None]]:
        """All calls, once the mission has closed its end."""
        self.mission.end()
        assert self.simulation.ended.wait(10.0)
        return self.limits.calls


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.end()


UNANNOUNCED, FREE, RELEASE = ("speed", UNANNOUNCED_SPEED), ("speed", math.inf), ("release", None)

MISSION = """
from sitl_bridge.session.missions.time_gate import time_gate
gate = time_gate()
assert gate.open
gate.allow("vehicle", 150_000)
gate.allow("vehicle", None)
gate._send(b"nonsense 1")
gate._send(b"until x")
gate.allow("vehicle", 1 << 40)
"""


def test_every_limit_of_a_mission_is_passed_on_and_ends_with_its_process(wait_for: Wait) -> None:
    limits, said = Recorded(), list[str]()
    mission = MissionProcess(["-c", MISSION], {}, said.append, gate=MissionGate(limits))
    wait_for(lambda: mission.poll() is not None, "its end")
    assert mission.poll() == 0, said
    wait_for(lambda: RELEASE in limits.calls, "the end of all limits")
    mission.stop()
    until = [("until", time) for time in (150_000, None, 1 << 40)]
    assert limits.calls == [UNANNOUNCED, FREE, *until, RELEASE]


def test_a_block_begins_when_its_speed_is_in_force_and_the_speed_ends_with_it(pair: Pair) -> None:
    seen = []

    async def mission() -> None:
        async with pair.mission.request():
            seen.append(pair.limits.calls[-1])
            async with pair.mission.at_most(0.5):
                seen.append(pair.limits.calls[-1])
            seen.append(pair.limits.calls[-1])
        seen.append(pair.limits.calls[-1])

    asyncio.run(mission())
    assert seen == [("speed", REQUEST_SPEED), ("speed", 0.5), ("speed", REQUEST_SPEED), FREE]


def test_a_failed_or_cancelled_block_ends_its_speed_too(pair: Pair) -> None:
    async def mission() -> None:
        with pytest.raises(ValueError, match="in the block"):
            async with pair.mission.request():
                raise ValueError("in the block")
        assert pair.limits.calls[-1] == FREE

        async def endless() -> None:
            async with pair.mission.request():
                entered.set()
                await asyncio.Event().wait()

        entered = asyncio.Event()
        task = asyncio.create_task(endless())
        await entered.wait()
        assert pair.limits.calls[-1] == ("speed", REQUEST_SPEED)
        task.cancel()
        await asyncio.wait([task])
        assert pair.limits.calls[-1] == FREE

    asyncio.run(mission())


def test_the_slowest_of_requests_at_the_same_time_counts(pair: Pair) -> None:
    async def one(speed: float) -> None:
        async with pair.mission.at_most(speed):
            await asyncio.sleep(0)

    async def mission() -> None:
        async with pair.mission.at_most(0.25):
            await asyncio.gather(*(one(speed) for speed in (1.0, 2.0, 3.0)))
            assert pair.limits.calls[-1] == ("speed", 0.25)

    asyncio.run(mission())
    assert pair.limits.calls[-1] == FREE


def test_a_mission_that_dies_within_a_block_leaves_no_limit(pair: Pair) -> None:
    async def mission() -> None:
        pair.mission.allow("vehicle", 1000)
        async with pair.mission.request():
            assert pair.end()[-1] == RELEASE

    asyncio.run(mission())


def test_a_simulation_that_has_gone_stops_no_mission(pair: Pair) -> None:
    async def mission() -> None:
        pair.simulation.close()
        async with pair.mission.request():
            pass
        pair.mission.allow("vehicle", 1000)
        assert not pair.mission.open

    asyncio.run(mission())


def test_a_mission_that_does_not_use_the_gate_is_slow_until_its_vehicles_are_armed(pair: Pair) -> None:
    limits = Recorded()
    silent = MissionGate(limits)
    silent.limit_speed(armed=False)
    silent.limit_speed(armed=True)
    silent.limit_speed(armed=False)
    assert limits.calls == [UNANNOUNCED, UNANNOUNCED, FREE, UNANNOUNCED]

    async def mission() -> None:
        async with pair.mission.request():
            pair.simulation.limit_speed(armed=True)
            assert pair.limits.calls[-1] == ("speed", REQUEST_SPEED), "one that uses it decides itself"

    asyncio.run(mission())
    silent.start()
    assert silent.ended.wait(10.0)
    silent.limit_speed(armed=False)
    assert limits.calls[-1] == RELEASE, "nor is one that has ended"


def test_time_runs_as_far_as_the_vehicle_allows_that_is_furthest_behind(pair: Pair) -> None:
    gate = pair.mission
    gate.allow("a", 1000)
    gate.allow("b", 900)
    gate.allow("a", 2000)
    gate.allow("b", 1900)
    gate.allow("b", None)
    assert [call for call in pair.end() if call[0] == "until"] == [
        ("until", time) for time in (1000, 900, 1900, 2000)
    ]


def test_a_vehicle_that_has_fallen_silent_is_not_waited_for(pair: Pair) -> None:
    gate = pair.mission
    gate.allow("a", 1000)
    gate.allow("lost", 1000)
    pair.clock.now += 2 * STALE
    gate.allow("a", 3000)
    gate.allow("lost", 2500)
    assert [call for call in pair.end() if call[0] == "until"] == [
        ("until", time) for time in (1000, 3000, 2500)
    ]


def test_an_answer_to_a_cancelled_request_is_not_taken_for_another(pair: Pair) -> None:
    async def mission() -> None:
        async def asked() -> None:
            async with pair.mission.request():
                pass

        task = asyncio.create_task(asked())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        async with pair.mission.request():
            assert pair.limits.calls[-1] == ("speed", REQUEST_SPEED)
            async with pair.mission.at_most(0.5):
                assert pair.limits.calls[-1] == ("speed", 0.5)

    asyncio.run(mission())


@pytest.mark.parametrize("number", ["", "x", "-1", "999999"])
def test_without_a_simulation_the_gate_does_nothing(number: str) -> None:
    gate = TimeGate(number)

    async def mission() -> None:
        gate.allow("vehicle", 1000)
        async with gate.request():
            pass

    asyncio.run(mission())
    assert not gate.open


def test_a_descriptor_that_is_no_socket_is_no_simulation() -> None:
    with tempfile.TemporaryFile() as file:
        assert not TimeGate(str(file.fileno())).open
        assert os.get_inheritable(file.fileno()) is False


def test_time_runs_half_a_second_ahead_of_a_vehicles_reports_and_a_little_on_when_they_are_lost(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mavsdk_vehicle, "REFRESH", 0.001)

    async def mission() -> None:
        async with standing_vehicle(monkeypatch, 10.0, pair.mission, answers=0) as (_, reports):
            for seconds in (10.05, 10.15, 10.2):
                await reports.attitude(seconds)
            await reports.answer(20)
            await reports.attitude(12.0)

    asyncio.run(mission())
    assert [call for call in pair.end() if call[0] == "until"] == [
        ("until", round(1e6 * seconds)) for seconds in (10.5, 10.65, 11.15, 11.65, 12.5)
    ]


class Plugin:
    """As of mavsdk.asyncio."""

    def __init__(self, limits: Recorded) -> None:
        self._limits = limits

    async def upload(self, items: int) -> object:
        return items, self._limits.calls[-1]

    async def set_position(self) -> object:
        return self._limits.calls[-1]

    async def subscribe_progress(self) -> AsyncIterator[int]:
        yield 1

    def destroy(self) -> str:
        return "gone"


def test_the_requests_of_a_plugin_are_made_in_real_time_its_streams_are_not_held(pair: Pair) -> None:
    whole = in_real_time(Plugin(pair.limits), pair.mission)
    partly = in_real_time(Plugin(pair.limits), pair.mission, ("upload",))

    async def mission() -> None:
        assert await whole.upload(3) == (3, ("speed", REQUEST_SPEED))
        assert await whole.set_position() == ("speed", REQUEST_SPEED)
        assert await partly.upload(items=4) == (4, ("speed", REQUEST_SPEED))
        assert await partly.set_position() == FREE
        assert [number async for number in whole.subscribe_progress()] == [1]
        assert whole.destroy() == "gone"

    asyncio.run(mission())


def test_turns_end_in_a_request_to_a_component_on_board_and_in_no_other(pair: Pair) -> None:
    gate = pair.mission
    gate.turn = 4000

    async def mission() -> None:
        gate.allow("vehicle", 4000)
        async with gate.request():
            gate.idle()
        gate.allow("vehicle", 8000)
        async with gate.request_on_board():
            gate.idle()

    asyncio.run(mission())
    assert [call for call in pair.end() if call[0] == "until"] == [("until", 8000)]


def test_with_real_vehicles_a_plugin_stays_as_it_is() -> None:
    plugin = Plugin(Recorded())
    assert in_real_time(plugin, TimeGate("")) is plugin


class Busy:
    """A plug-in whose vehicle answers only after some failures; the last of ``results`` repeats."""

    def __init__(self, failures: int, *results: str) -> None:
        self.left, self.results, self.calls = failures, list(results or ("TIMEOUT",)), 0

    async def upload(self) -> str:
        self.calls += 1
        self.left -= 1
        if self.left >= 0:
            error = RuntimeError("retries exceeded")
            result = self.results.pop(0) if len(self.results) > 1 else self.results[0]
            error.result = SimpleNamespace(name=result)  # type: ignore[attr-defined]
            raise error
        return "uploaded"


def test_a_request_that_times_out_on_a_busy_machine_is_made_again(
    pair: Pair, capsys: pytest.CaptureFixture[str]
) -> None:
    slow, dead, refused = Busy(ATTEMPTS - 1), Busy(ATTEMPTS), Busy(1, "DENIED")

    async def mission() -> None:
        assert await in_real_time(slow, pair.mission).upload() == "uploaded"
        for plugin in (dead, refused):
            with pytest.raises(RuntimeError, match="retries exceeded"):
                await in_real_time(plugin, pair.mission).upload()

    asyncio.run(mission())
    assert (slow.calls, dead.calls, refused.calls) == (ATTEMPTS, ATTEMPTS, 1)
    assert f"upload: no answer: attempt {ATTEMPTS} of {ATTEMPTS}" in capsys.readouterr().err


def test_a_repeated_request_waits_for_the_end_of_the_one_before(
    pair: Pair, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sitl_bridge.session.missions.time_gate.TRANSFER_LIMIT", 0.0)
    busy = Busy(2, "TIMEOUT", "PROTOCOL_ERROR")

    async def mission() -> None:
        assert await in_real_time(busy, pair.mission).upload() == "uploaded"
        with pytest.raises(RuntimeError, match="retries exceeded"):
            await in_real_time(Busy(1, "PROTOCOL_ERROR"), pair.mission).upload()

    asyncio.run(mission())
    assert busy.calls == 3
    assert "upload: still at the one before: attempt 3 of " in capsys.readouterr().err


def test_a_request_that_is_cancelled_ends_before_its_connection_is_closed(pair: Pair) -> None:
    ended = []

    class Waiting:
        async def hold(self) -> None:
            await asyncio.sleep(0.2)
            ended.append("hold")

    async def mission() -> None:
        request = asyncio.ensure_future(in_real_time(Waiting(), pair.mission).hold())
        await asyncio.sleep(0.05)
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        assert ended == ["hold"]

    asyncio.run(mission())


def test_a_request_that_fails_after_its_task_was_cancelled_prints_nothing(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    begun = asyncio.Event()

    class Deaf:
        async def hold(self) -> None:
            begun.set()
            await asyncio.sleep(0.05)
            raise OSError("no answer")

    async def cancel_a_request(gate: TimeGate) -> None:
        request = asyncio.create_task(in_real_time(Deaf(), gate).hold())
        await begun.wait()
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request

    asyncio.run(cancel_a_request(pair.mission))
    gc.collect()
    assert caplog.messages == []
