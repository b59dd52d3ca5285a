"""Height over the ground under the sticks: the rules of MPC_ALT_MODE, and a flight over hills."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from support.px4_flights import follow_terrain

from sitl_bridge.autopilot.estimate import EstimatedState
from sitl_bridge.autopilot.modes.tasks.sticks import TerrainHold
from sitl_bridge.autopilot.parameters import Parameters

HEIGHT = 5.0
"""m over the ground at the start, at a down of -20 m."""


class Flight:
    """A vehicle at a down of -20 m, whose height setpoint may move with the ground."""

    def __init__(self, **parameters: int) -> None:
        known = Parameters()
        for name, value in parameters.items():
            known.set(name, value)
        self.state = EstimatedState()
        self.state.z, self.state.height_above_ground = -20.0, HEIGHT
        self.terrain = TerrainHold(known.values, self.state)
        self.z = -20.0

    def over(self, height: float, speed: float = 0.0, moved: bool = False) -> float:
        """The height setpoint, m down, once the ground is ``height`` m below the vehicle."""
        self.state.height_above_ground, self.state.vx = height, speed
        self.z = self.terrain.follow(self.z, moved)
        return self.z


def test_terrain_following_moves_the_setpoint_by_as_much_as_the_ground() -> None:
    flight = Flight(MPC_ALT_MODE=1, MPC_POS_MODE=0)
    assert flight.over(HEIGHT, 3.0, moved=True) == -20.0
    assert flight.over(HEIGHT + 2.0, 3.0, moved=True) == pytest.approx(-18.0)
    assert flight.over(HEIGHT - 1.0, 3.0, moved=True) == pytest.approx(-21.0)


def test_with_smoothed_sticks_and_in_altitude_mode_0_the_height_is_kept() -> None:
    """PX4's FlightTaskManualAltitudeSmoothVel overwrites the setpoint unless the terrain is held."""
    for parameters in ({"MPC_ALT_MODE": 1, "MPC_POS_MODE": 4}, {"MPC_ALT_MODE": 0, "MPC_POS_MODE": 0}):
        flight = Flight(**parameters)
        assert flight.over(HEIGHT) == flight.over(HEIGHT + 2.0) == -20.0


def test_terrain_hold_applies_while_the_vehicle_stands() -> None:
    """Up to MPC_HOLD_MAX_XY (0.8 m/s), from half of it on."""
    flight = Flight()
    assert flight.over(HEIGHT) == -20.0
    assert flight.over(HEIGHT + 0.5, 0.7) == pytest.approx(-19.5)
    assert flight.over(HEIGHT + 2.0, 0.9) == pytest.approx(-19.5), "too fast"
    assert flight.over(HEIGHT + 3.0, 0.5) == pytest.approx(-19.5), "not yet slow enough"
    # From here the height over the ground is held, with the error of the height as it was.
    assert flight.over(HEIGHT + 3.0, 0.3) == pytest.approx(-19.5)
    assert flight.over(HEIGHT + 4.0, 0.3) == pytest.approx(-18.5)
    assert flight.over(HEIGHT + 9.0, 0.0, moved=True) == pytest.approx(-18.5)


def test_without_a_height_over_the_ground_or_after_a_reset_nothing_jumps() -> None:
    flight = Flight(MPC_ALT_MODE=1, MPC_POS_MODE=0)
    flight.over(HEIGHT)
    assert flight.over(math.nan) == -20.0
    assert flight.over(HEIGHT + 7.0) == -20.0
    flight.state.resets += 1
    assert flight.over(HEIGHT - 2.0) == -20.0
    assert flight.over(HEIGHT - 1.0) == pytest.approx(-19.0)


@pytest.mark.slow
def test_the_built_in_stack_follows_the_terrain_and_lands_on_it(tmp_path: Path) -> None:
    follow_terrain("builtin", tmp_path)
