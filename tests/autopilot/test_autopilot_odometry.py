"""Odometry in the built-in stack's estimator: frames, alignment, latency, resets, and flights without GPS."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pymavlink.dialects.v20 import common as mavlink
from support.estimator_bench import Bench, fly_path
from support.px4_flights import WITHOUT_GPS, fly_without_gps

from sitl_bridge.autopilot.estimation import correction
from sitl_bridge.autopilot.estimation.inertial import propagate_covariance
from sitl_bridge.autopilot.estimation.records import GPS_SPEED, OFFSET, STATES
from sitl_bridge.autopilot.modes import flight_modes
from sitl_bridge.autopilot.records import ODOMETRY_POSITION, ODOMETRY_VELOCITY
from sitl_bridge.autopilot.stack import StackArrays, StackVehicle
from sitl_bridge.autopilot.stack_fleet import StackFleet
from sitl_bridge.autopilot.stack_fleet_step import hand_over
from sitl_bridge.base.kernels.array_at import handles_of
from sitl_bridge.core.sensors.perception.visual_odometry import VisualOdometrySpecification
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.world import World, WorldSpecification

NAN = math.nan
TICKS = 1e6 / 48_000
"""Updates of the commander in a second."""


# ------------------------------------------------------------------ messages


def measured(message: Any) -> Any:
    """What the stack reads from a message of the simulator link."""
    airframe = load_airframe("iris_vio")
    stacks = StackArrays.of([StackVehicle(airframe)], World())
    frame = message.pack(mavlink.MAVLink(None, srcSystem=1, srcComponent=51))
    hand_over(np.frombuffer(frame, np.uint8).copy(), handles_of(stacks), 0, np.zeros(16))
    assert stacks.readers[0]["garbage"] == 0
    return stacks.readers[0]["measurement"]


def odometry(frame: int, child: int) -> Any:
    pose, twist = [0.0] * 21, [0.0] * 21
    for k, place in enumerate((0, 6, 11)):
        pose[place], twist[place] = 0.5 + k, 2.5 + k
    return mavlink.MAVLink_odometry_message(
        123_456, frame, child, 1, 2, 3, [0.5, -0.5, 0.5, 0.5], 4, 5, 6, NAN, NAN, NAN, pose, twist, 7
    )


def test_odometry_is_read_from_the_simulator_link() -> None:
    m = measured(odometry(mavlink.MAV_FRAME_LOCAL_FRD, mavlink.MAV_FRAME_BODY_FRD))
    assert (m["odometry_fresh"], m["odometry_time"], m["odometry_resets"]) == (1, 123_456, 7)
    assert m["odometry_position"].tolist() == [1, 2, 3]
    assert m["odometry_attitude"].tolist() == [0.5, -0.5, 0.5, 0.5]
    assert m["odometry_velocity"].tolist() == [4, 5, 6]
    assert m["odometry_position_variance"].tolist() == [0.5, 1.5, 2.5]
    assert m["odometry_velocity_variance"].tolist() == [2.5, 3.5, 4.5]


def test_odometry_in_frames_that_are_not_known_is_not_used() -> None:
    assert measured(odometry(mavlink.MAV_FRAME_BODY_FRD, mavlink.MAV_FRAME_BODY_FRD))["odometry_fresh"] == 0
    local = measured(odometry(mavlink.MAV_FRAME_LOCAL_NED, mavlink.MAV_FRAME_LOCAL_NED))
    assert local["odometry_fresh"] == 1
    assert np.isnan(local["odometry_velocity"]).all()


# ------------------------------------------------------------------ the offset as a state


def bench() -> Any:
    """The estimator of a vehicle that has begun to fly, with an offset whose covariance is a random one."""

    def position(t: NDArray[np.float64]) -> NDArray[np.float64]:
        u = np.clip((t - 2.0) / 4.0, 0.0, 1.5)
        return np.stack([2.0 * u**4, 3.0 * u**5, -0.1 - u**4], 1)

    vehicle = Bench(load_airframe("iris"), fly_path(position, lambda t: 0.3 + 0.0 * t, 6.0, 9.8), [1])
    vehicle.fly(4.0)
    e = vehicle.estimators[0]
    random = np.random.default_rng(2)
    root = random.standard_normal((STATES + 3, STATES + 3))
    dense = root @ root.T
    e["covariance"], e["odometry_cross"] = dense[:STATES, :STATES], dense[STATES:, :STATES]
    e["odometry_covariance"] = dense[STATES:, STATES:]
    e["odometry_known"] = 1
    return vehicle, dense


@pytest.mark.slow
def test_a_correction_takes_the_offset_as_a_state_beside_the_others() -> None:
    """Against the textbook's update of all 29 states."""
    vehicle, dense = bench()
    e = vehicle.estimators[0]
    e["past_age"], e["correction"], e["odometry_correction"] = 0.0, 0.0, 0.0
    terms = {7: 1.0, 4: -0.1, 2: 0.3, OFFSET + 1: -1.0}
    row = np.zeros(STATES + 3)
    e["term_count"] = 0
    for index, value in terms.items():
        correction.set_term(e, np.int64(index), value)
        row[index] = value
    before = np.linspace(-0.1, 0.1, STATES + 3)
    e["correction"], e["odometry_correction"] = before[:STATES], before[STATES:]
    correction.fuse(e, 0.7, 0.5, np.int64(-1), 0.0)
    total = row @ dense @ row + 0.5
    gain = dense @ row / total
    expected = before + gain * (0.7 - row @ before)
    after = dense - np.outer(gain, gain) * total
    assert np.concatenate([e["correction"], e["odometry_correction"]]) == pytest.approx(expected, rel=1e-9)
    assert e["covariance"] == pytest.approx(after[:STATES, :STATES], rel=1e-9, abs=1e-9)
    assert e["odometry_cross"] == pytest.approx(after[STATES:, :STATES], rel=1e-9, abs=1e-9)
    assert e["odometry_covariance"] == pytest.approx(after[STATES:, STATES:], rel=1e-9, abs=1e-9)
    offset = e["odometry_offset"].copy()
    correction.inject_correction(e)
    assert e["odometry_offset"] - offset == pytest.approx(expected[STATES:])


def test_the_offsets_covariance_moves_as_that_of_another_constant() -> None:
    vehicle, _ = bench()
    e = vehicle.estimators[0]
    constants = slice(GPS_SPEED, GPS_SPEED + 3)
    e["walk"][constants] = 0.0
    e["odometry_cross"] = e["covariance"][constants]
    vehicle.fly(0.016)
    propagate_covariance(e)
    assert e["odometry_cross"] == pytest.approx(e["covariance"][constants], rel=1e-9, abs=1e-9)


# ------------------------------------------------------------------ flights in this process


def with_odometry(**changes: Any) -> Airframe:
    airframe = load_airframe("iris_vio")
    sensors = tuple(
        s.model_copy(update=changes) if isinstance(s, VisualOdometrySpecification) else s
        for s in airframe.sensors
    )
    return airframe.model_copy(update={"sensors": sensors})


class Flight:
    """Vehicles that hover 2.5 m high at 20 s."""

    def __init__(self, airframe: Airframe, count: int = 1, seed: int = 5, **parameters: float) -> None:
        members = [
            StackVehicle(
                airframe,
                name=str(k),
                position=(0.0, 30.0 * k, 0.0),
                yaw=2.0 * k - 1.0,
                parameters=dict(parameters),
            )
            for k in range(count)
        ]
        self.fleet = StackFleet(World(WorldSpecification()), members, seed=seed)
        self.estimates = self.fleet.stacks.estimates
        self.states = self.fleet.simulation.states
        self.fly(9.0)
        self.order(400, 1.0)
        self.fly(1.0)
        self.order(22)
        self.fly(10.0)

    def order(self, command: int, *first: float) -> None:
        for pilot in self.fleet.pilots:
            params = [*first, *[NAN] * (7 - len(first))]
            assert pilot.commander.command(command, params, self.fleet.time) == 0

    def fly(self, seconds: float) -> None:
        self.fleet.advance(round(seconds * TICKS))

    def steer(self, seconds: float, pitch: float, roll: float = 0.0, yaw: float = 0.0) -> None:
        """Fly by the sticks in Position."""
        for tick in range(round(seconds * TICKS)):
            for pilot in self.fleet.pilots:
                pilot.commander.manual_control(pitch, roll, 0.5, yaw, self.fleet.time)
                if tick == 1 and pilot.commander.mode is not flight_modes.POSITION_CONTROL:
                    self.order(176, 1.0, 3.0)
            self.fleet.advance()

    def stop_gps(self) -> None:
        self.order(420, 4.0, 1.0, 0.0)

    def errors(self) -> NDArray[np.float64]:
        """(n, 3) m, of the position less its place at the first call."""
        error = self.estimates["position"] - self.states["position"]
        if not hasattr(self, "_first"):
            self._first = error.copy()
        return np.asarray(error - self._first)


def test_it_hovers_without_gps_as_long_as_there_is_odometry() -> None:
    flight = Flight(load_airframe("iris_vio"), 2)
    with flight.fleet:
        flight.errors()
        flight.stop_gps()
        place = flight.states["position"].copy()
        for _ in range(20):
            flight.fly(1.0)
            assert np.abs(flight.states["position"] - place).max() < 0.15
        assert np.abs(flight.errors()).max() < 0.1
        assert all(pilot.commander.mode is flight_modes.AUTO_LOITER for pilot in flight.fleet.pilots)
        # EKF2_EV_CTRL takes effect in flight: without odometry the position is lost.
        for pilot in flight.fleet.pilots:
            pilot.parameters.set("EKF2_EV_CTRL", 0)
        flight.fly(7.0)
        assert all(pilot.commander.mode is flight_modes.DESCEND for pilot in flight.fleet.pilots)


def test_errors_are_as_large_as_the_covariance_says_with_and_without_gps() -> None:
    flight = Flight(load_airframe("iris_vio"), 6)
    velocity = []
    with flight.fleet:
        flight.errors()
        for part in range(2):
            for pitch, roll, yaw in ((0.8, 0.3, 0.0), (-0.8, 0.0, 0.2), (0.0, 0.0, 0.0)):
                flight.steer(4.0, pitch, roll, yaw)
                error = flight.estimates["velocity"] - flight.states["velocity"]
                velocity.append(error / flight.estimates["velocity_deviation"])
            if part == 0:
                before = flight.errors()
                flight.stop_gps()
        rejected = flight.estimates["rejected"].sum(axis=0)
        fused = flight.estimates["fused"].sum(axis=0)
        moved = flight.errors() - before
    assert rejected[ODOMETRY_POSITION] + rejected[ODOMETRY_VELOCITY] < 1e-3 * fused[ODOMETRY_POSITION]
    assert 0.5 < float(np.mean(np.square(velocity))) < 2.0
    # Of 30 m flown without GPS, by a drift of 0.02 m after 1 m.
    assert np.abs(moved[:, :2]).max() < 4.0 * 0.02 * math.sqrt(30.0)


def test_a_reset_of_the_odometry_moves_nothing() -> None:
    """With a drift of 0.3 m after 1 m, its position jumps when the drift goes to zero."""
    flight = Flight(with_odometry(drift=0.3, resets=(26.0,)))
    with flight.fleet:
        flight.steer(5.0, 0.8)
        reader = flight.fleet.stacks.readers[0]
        jumps, steps = [], []
        before = flight.estimates[0]["position"] - flight.states[0]["position"]
        last = reader["measurement"]["odometry_position"].copy()
        for _ in range(60):
            flight.steer(0.05, 0.0)
            error = flight.estimates[0]["position"] - flight.states[0]["position"]
            steps.append(float(np.abs(error - before).max()))
            jumps.append(float(np.linalg.norm(reader["measurement"]["odometry_position"] - last)))
            before, last = error, reader["measurement"]["odometry_position"].copy()
        assert reader["measurement"]["odometry_resets"] == 1
        assert max(jumps) > 0.7
        assert max(steps) < 0.1
        assert flight.estimates[0]["resets"] == 0


def test_only_what_the_control_bits_ask_for_is_fused() -> None:
    for airframe, bits in (("iris_vio", 7), ("iris_lidar_odometry", 3), ("iris", 0)):
        stacks = StackArrays.of([StackVehicle(load_airframe(airframe))], World())
        assert stacks.estimators[0]["odometry_control"] == bits
    flight = Flight(load_airframe("iris_vio"), EKF2_EV_CTRL=1)
    with flight.fleet:
        assert flight.estimates[0]["fused"][ODOMETRY_POSITION] > 300
        assert flight.estimates[0]["fused"][ODOMETRY_VELOCITY] == 0
        assert flight.estimates[0]["innovation"][ODOMETRY_POSITION][2] == 0.0


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("case", WITHOUT_GPS, ids=lambda case: case[0])
def test_it_hovers_and_flies_a_square_while_gps_is_jammed(
    case: tuple[str, float, float, int], tmp_path: Path
) -> None:
    if "lidar" in case[0]:
        pytest.importorskip("small_gicp")
    fly_without_gps(case, "builtin", tmp_path)
