"""Control allocation: exact where the rotors can, within their limits where they cannot, attitude first."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linprog
from support.paths import AIRFRAMES

from sitl_bridge.autopilot.control.allocation import allocate, allocation_record, density_at
from sitl_bridge.autopilot.records import IDLE, OFF, TRAJECTORY, WRENCH
from sitl_bridge.base.kernels.record import Packed
from sitl_bridge.core.dynamics.performance import static_thrusts
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.world import World

NAMES = sorted(path.stem for path in AIRFRAMES.glob("*.yaml"))
Floats = NDArray[np.float64]
WORLD = World()


@functools.cache
def known(name: str) -> Packed:
    """The allocation of an airframe."""
    return allocation_record(load_airframe(name), WORLD)


def nothing_asked() -> Packed:
    """A wrench of zeros."""
    return np.zeros((), WRENCH)


shares = st.floats(-1.0, 1.0)


class Given:
    """What an airframe's rotors give for a share of full thrust and shares of the greatest moments."""

    def __init__(self, name: str, thrust: float, roll: float, pitch: float, yaw: float) -> None:
        self.record = known(name).copy()
        self.n = int(self.record["rotor_count"])
        self.effect = self.record["effectiveness"][:, : self.n]
        self.low, self.high = self.record["thrust_min"][: self.n], self.record["thrust_max"][: self.n]
        # Each moment with the rotors that add to it at their most, the others at their least.
        most = np.where(self.effect > 0.0, self.effect * self.high, self.effect * self.low).sum(axis=1)
        self.wanted = most * (thrust, roll, pitch, yaw)
        self.wrench = nothing_asked()
        self.wrench["thrust"], self.wrench["moment"] = self.wanted[0], self.wanted[1:]
        self.controls = np.full(16, 9.0)
        allocate(self.record[()], self.wrench[()], TRAJECTORY, self.controls)
        self.thrusts = self._thrusts(self.controls[: self.n])
        self.wrench_given = self.effect @ self.thrusts

    def _thrusts(self, commands: Floats) -> Floats:
        """Thrusts by the record's own curve, read backwards; below its least command a rotor rests."""
        share = np.linspace(0.0, 1.0, self.record["curve"].shape[1])
        roots = np.array([np.interp(c, self.record["curve"][k], share) for k, c in enumerate(commands)])
        turning = commands >= self.record["curve"][: self.n, 0]
        return np.where(turning, self.low + (self.high - self.low) * roots**2, 0.0)

    def could_turn(self) -> bool:
        """Whether some thrusts within the limits have these roll and pitch moments, by linear programming."""
        found = linprog(
            np.zeros(self.n),
            A_eq=self.effect[1:3],
            b_eq=self.wanted[1:3],
            bounds=list(zip(self.low, self.high, strict=True)),
        )
        return bool(found.status == 0)


@settings(max_examples=150)
@given(st.sampled_from(NAMES), st.floats(0.0, 1.0), shares, shares, shares)
def test_commands_never_leave_the_limits(
    name: str, thrust: float, roll: float, pitch: float, yaw: float
) -> None:
    result = Given(name, 2.0 * thrust, 3.0 * roll, 3.0 * pitch, 3.0 * yaw)
    assert result.controls[: result.n].min() >= 0.0
    assert result.controls[: result.n].max() <= 1.0
    assert (result.controls[result.n :] == 0.0).all()


@settings(max_examples=150)
@given(st.sampled_from(NAMES), st.floats(0.0, 1.0), shares, shares, shares)
def test_what_is_said_to_be_unmet_is_what_is_missing(
    name: str, thrust: float, roll: float, pitch: float, yaw: float
) -> None:
    result = Given(name, thrust, roll, pitch, yaw)
    unmet = np.array([float(result.wrench["unmet_thrust"]), *result.wrench["unmet_moment"]])
    np.testing.assert_allclose(
        result.wrench_given + unmet, result.wanted, atol=1e-7 * float(result.high.sum())
    )


@settings(max_examples=150)
@given(st.sampled_from(NAMES), st.floats(0.3, 0.6), shares, shares, shares)
def test_a_wrench_the_rotors_can_give_is_given_exactly(
    name: str, thrust: float, roll: float, pitch: float, yaw: float
) -> None:
    result = Given(name, thrust, 0.1 * roll, 0.1 * pitch, 0.1 * yaw)
    inverse = result.record["inverse"][: result.n]
    alone = inverse @ result.wanted
    if (alone >= result.low).all() and (alone <= result.high).all():
        np.testing.assert_allclose(result.wrench_given, result.wanted, atol=1e-9 * result.high.sum())


@settings(max_examples=300)
@example("iris", 0.0, 0.5, 0.515625, 0.0)  # whole Newton steps go round in circles
@given(st.sampled_from(NAMES), st.floats(0.0, 1.0), shares, shares, shares)
@example("asymmetric_quadrotor", 0.0, 1.0, 0.0, 0.0)
@example("asymmetric_quadrotor", 0.0, 0.0, -1.0, 0.0)
def test_roll_and_pitch_are_met_whenever_any_thrusts_meet_them(
    name: str, thrust: float, roll: float, pitch: float, yaw: float
) -> None:
    result = Given(name, thrust, roll, pitch, yaw)
    missing = np.abs(result.wrench_given[1:3] - result.wanted[1:3]).max()
    if result.could_turn():
        assert missing < 1e-6 * result.high.sum()
    else:
        # Then they fall short of it in its own direction, and by no more than they must.
        share = result.wrench_given[1:3] @ result.wanted[1:3] / (result.wanted[1:3] @ result.wanted[1:3])
        np.testing.assert_allclose(
            result.wrench_given[1:3], share * result.wanted[1:3], atol=1e-6 * result.high.sum()
        )
        assert not _with_moments(result, 1.001 * share).could_turn()


def _with_moments(result: Given, share: float) -> Given:
    result.wanted = result.wanted * (1.0, share, share, 1.0)
    return result


@settings(max_examples=100)
@given(st.sampled_from(NAMES), st.floats(0.2, 0.8), shares, shares)
def test_thrust_gives_way_to_roll_and_pitch_and_yaw_to_thrust(
    name: str, thrust: float, roll: float, yaw: float
) -> None:
    plain = Given(name, thrust, 0.3 * roll, 0.0, 0.0)
    turning = Given(name, thrust, 0.3 * roll, 0.0, yaw)
    np.testing.assert_allclose(
        turning.wrench_given[:3], plain.wrench_given[:3], atol=1e-7 * float(plain.high.sum())
    )


@pytest.mark.parametrize("name", NAMES)
def test_more_of_a_moment_asked_for_is_never_less_given(name: str) -> None:
    for axis in range(4):
        given_ = []
        for share in np.linspace(0.0, 1.2, 25):
            asked = [0.5, 0.0, 0.0, 0.0]
            asked[axis] = float(share)
            given_.append(Given(name, *asked).wrench_given[axis])
        assert np.diff(given_).min() > -1e-9


@pytest.mark.parametrize("name", NAMES)
def test_commands_give_their_thrust_in_the_physics(name: str) -> None:
    airframe = load_airframe(name)
    for share in (0.2, 0.4, 0.6, 0.9):
        result = Given(name, share, 0.0, 0.0, 0.0)
        for k, command in enumerate(result.controls[: result.n]):
            if command > 0.05:
                thrust = static_thrusts(airframe.record, float(command), density_at(WORLD))[k]
                assert thrust == pytest.approx(result.thrusts[k], abs=2e-3 * result.high[k])


def test_rotors_stand_still_when_off_and_turn_slowly_at_idle() -> None:
    record, wrench, controls = known("iris").copy(), nothing_asked(), np.ones(16)
    wrench["thrust"] = 10.0
    allocate(record[()], wrench[()], OFF, controls)
    assert (controls == 0.0).all()
    allocate(record[()], wrench[()], IDLE, controls)
    assert (controls[:4] > 0.0).all()
    assert (controls[:4] < 0.15).all()


def test_dc_motors_that_would_carry_much_of_the_vehicle_rest_at_idle() -> None:
    record, wrench, controls = known("hector").copy(), nothing_asked(), np.ones(16)
    airframe = load_airframe("hector")
    least = static_thrusts(airframe.record, 0.02, density_at(WORLD)).sum()
    assert least > 0.3 * airframe.mass * 9.81
    allocate(record[()], wrench[()], IDLE, controls)
    assert (controls == 0.0).all()


def test_a_failed_motor_gets_no_command_at_any_level() -> None:
    record, wrench, controls = known("firefly").copy(), nothing_asked(), np.ones(16)
    record["failed"][2] = 1
    wrench["thrust"] = 15.0
    for level in (OFF, IDLE, TRAJECTORY):
        allocate(record[()], wrench[()], level, controls)
        assert controls[2] == 0.0
    assert (np.delete(controls[:6], 2) > 0.2).all()


def test_a_wrench_that_is_no_number_commands_nothing_outside_the_limits() -> None:
    for broken in (np.nan, np.inf, -np.inf):
        record, wrench, controls = known("iris").copy(), nothing_asked(), np.ones(16)
        wrench["thrust"], wrench["moment"] = broken, (broken, 0.0, broken)
        allocate(record[()], wrench[()], TRAJECTORY, controls)
        assert ((controls >= 0.0) & (controls <= 1.0)).all()
