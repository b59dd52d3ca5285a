"""Flights of the built-in stack repeat to the bit, however busy the machine is."""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.paths import MISSIONS

from sitl_bridge.api.flights import flight_settings
from sitl_bridge.session.mission_file import takes_turns
from sitl_bridge.session.session import Session
from sitl_bridge.session.settings import FlightOptions

INSTANCE = 60
BURSTS = """
import time
while True:
    end = time.monotonic() + 0.03
    while time.monotonic() < end:
        pass
    time.sleep(0.01)
"""
"""A program that takes a processor again and again, for longer than a turn lasts."""


@contextlib.contextmanager
def busy(programs: int) -> Iterator[None]:
    """Programs that disturb the schedule within the block."""
    running = [subprocess.Popen([sys.executable, "-c", BURSTS]) for _ in range(programs)]
    try:
        yield
    finally:
        for program in running:
            program.kill()
            program.wait()


@contextlib.contextmanager
def on_one_processor() -> Iterator[None]:
    """Everything that is started within the block takes turns on one processor."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def truth(mission: Path, runs: Path, seed: int, arguments: tuple[str, ...] = ()) -> str:
    """Digest of truth.npy of a flight as fast as possible."""
    options = FlightOptions(
        autopilot="builtin", instance=INSTANCE, seed=seed, speed=float("inf"), runs=runs, arguments=arguments
    )
    with Session(flight_settings(mission, options)) as session:
        assert session.fly(), session.conclude().reason
    console = (session.directory.path / "console.log").read_text(encoding="utf-8")
    assert "has not let simulated time go on" not in console
    return hashlib.sha256(session.directory.truth.read_bytes()).hexdigest()


def test_a_plan_is_flown_to_the_same_bytes_beside_busy_programs(tmp_path: Path) -> None:
    plan = MISSIONS / "campaigns" / "hop.plan"
    alone = truth(plan, tmp_path / "alone", seed=5)
    with busy(2):
        assert truth(plan, tmp_path / "beside", seed=5) == alone


def repeats_on_one_processor(mission: Path, runs: Path) -> bool:
    alone = truth(mission, runs / "alone", seed=5)
    with on_one_processor():
        return truth(mission, runs / "beside", seed=5) == alone


@pytest.mark.slow
def test_several_vehicles_repeat_by_plans_of_their_own(tmp_path: Path) -> None:
    plan = MISSIONS / "campaigns" / "hop.plan"
    two = tmp_path / "two.yaml"
    two.write_text(
        f"vehicles: [{{name: a, airframe: iris, mission: {plan}}},"
        f" {{name: b, airframe: iris, mission: {plan}, position: [8, 0, 0]}}]"
    )
    assert repeats_on_one_processor(two, tmp_path)


@pytest.mark.slow
def test_vehicles_that_avoid_one_another_repeat(tmp_path: Path) -> None:
    assert repeats_on_one_processor(MISSIONS / "crossing_pair.yaml", tmp_path)


@pytest.mark.slow
def test_setpoints_and_commands_of_a_script_repeat_too(tmp_path: Path) -> None:
    script, short = MISSIONS / "offboard_square.py", ("--side", "4")
    alone = truth(script, tmp_path / "alone", 3, short)
    with busy(2):
        assert truth(script, tmp_path / "beside", 3, short) == alone


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "mission", ["square.plan", "hover.py", "orbit.py", "return_to_launch.py", "offboard_velocity.py"]
)
def test_missions_repeat_with_every_seed(tmp_path: Path, mission: str, seed: int) -> None:
    alone = truth(MISSIONS / mission, tmp_path / "alone", seed)
    with busy(8):
        assert truth(MISSIONS / mission, tmp_path / "beside", seed) == alone


def test_which_missions_take_turns(tmp_path: Path) -> None:
    plain = tmp_path / "plain.py"
    plain.write_text("from mavsdk.asyncio import Mavsdk\n")
    assert takes_turns(MISSIONS / "square.plan")
    assert takes_turns(MISSIONS / "hover.py")
    assert not takes_turns(MISSIONS / "hover.py", Path(sys.executable))
    assert not takes_turns(plain)
