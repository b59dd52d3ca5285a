"""The estimator against real sensor models on known paths: is it right, and is it as sure as it should be."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
import scipy
from numpy.typing import NDArray
from support.estimator_bench import Bench, Path, fly_path, rotation

from sitl_bridge.autopilot.estimation.correction import fuse, least_variance, set_term
from sitl_bridge.autopilot.estimation.records import ESTIMATOR, STATES
from sitl_bridge.autopilot.estimation.records import POSITION as PLACE
from sitl_bridge.autopilot.estimation.records import VELOCITY as SPEED
from sitl_bridge.autopilot.records import (
    ABOVE_GROUND,
    ATTITUDE,
    BARO_HEIGHT,
    FLOW_VELOCITY,
    GLOBAL,
    GPS_POSITION,
    GPS_VELOCITY,
    HEADING,
    HEIGHT,
    MAGNETIC_HEADING,
    POSITION,
    RANGE_HEIGHT,
    VELOCITY,
)
from sitl_bridge.core.sensors.records import FAULT_NONE, FAULT_OFF, FAULT_STUCK
from sitl_bridge.core.sensors.registry import KINDS
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.world import World, WorldSpecification

REST = 5.0
"""s on the ground before the paths move."""
GRAVITY = float(World().environment[0]["gravity"])
SEEDS = list(range(20))
CHANCE = 0.001
"""Of a right filter to fail a chi-square test; the seeds are fixed, so it either does or does not."""
BY_CHANCE = 3
"""Samples that a right filter may reject: with gates of 5 standard deviations, 6e-7 of them; about half a
million are fused in a minute by all seeds, and more than 3 of these are rejected in one test of 5000."""
STANDING = 0.055
"""m, height of the iris' centre of gravity above the ground it stands on."""


def eased(t: NDArray[np.float64], start: float, seconds: float) -> NDArray[np.float64]:
    """0 before ``start``, 1 ``seconds`` later, with three continuous derivatives."""
    s = np.clip((t - start) / seconds, 0.0, 1.0)
    out: NDArray[np.float64] = s**4 * (35 - 84 * s + 70 * s**2 - 20 * s**3)
    return out


def swinging(t: NDArray[np.float64]) -> NDArray[np.float64]:
    return 0.7 + eased(t, REST, 4.0) * np.sin(0.3 * (t - REST))


def northward(t: NDArray[np.float64]) -> NDArray[np.float64]:
    return 0.0 * t


@cache
def wandering(seconds: float) -> Path:
    """A climb to 10 m and loops of up to 9 m/s and 7 m/s^2 with turns of the heading."""

    def position(t: NDArray[np.float64]) -> NDArray[np.float64]:
        s, u = eased(t, REST, 4.0), t - REST
        north = s * 15.0 * np.sin(0.5 * u)
        east = s * 10.0 * np.sin(0.8 * u) * np.cos(0.3 * u)
        return np.stack([north, east, -STANDING - s * (10.0 + 3.0 * np.sin(0.4 * u))], 1)

    return fly_path(position, swinging, seconds, GRAVITY)


@cache
def hovering(seconds: float) -> Path:
    """A climb to 5 m, and staying there."""

    def position(t: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.stack([0 * t, 0 * t, -STANDING - 5.0 * eased(t, REST, 4.0)], 1)

    return fly_path(position, northward, seconds, GRAVITY)


@cache
def rushing(seconds: float) -> Path:
    """A climb to 10 m, and north at 10 m/s from 14 s on."""

    def position(t: NDArray[np.float64]) -> NDArray[np.float64]:
        u = np.clip(t - REST - 4.0, 0.0, None)
        s = np.clip(u / 5.0, 0.0, 1.0)
        # The integral of a smooth rise of the speed within 5 s.
        north = 10.0 * (5.0 * (s**4 * 2.5 - 3 * s**5 + s**6) + np.clip(u - 5.0, 0.0, None))
        return np.stack([north, 0 * t, -STANDING - 10.0 * eased(t, REST, 4.0)], 1)

    return fly_path(position, northward, seconds, GRAVITY)


def iris() -> Airframe:
    return load_airframe("iris")


def without(airframe: Airframe, kind: str) -> Airframe:
    return airframe.model_copy(update={"sensors": tuple(s for s in airframe.sensors if s.kind != kind)})


def irises(path: Path, count: int = len(SEEDS), *, lacking: str = "") -> Bench:
    """Irises with the first ``count`` of SEEDS on a path, all sensors of one kind left out if it is given."""
    return Bench(without(iris(), lacking) if lacking else iris(), path, SEEDS[:count])


def bounds(degrees: int, count: int = 1) -> tuple[float, float]:
    """Within which the mean over ``count`` of chi-squares with ``degrees`` of freedom lies."""
    low, high = (
        float(scipy.stats.chi2.ppf(p, degrees * count)) / count for p in (CHANCE / 2, 1 - CHANCE / 2)
    )
    return low, high


def nees(bench: Bench) -> NDArray[np.float64]:
    """(n,) normalised estimation error squared of tilt, velocity, position and biases, 15 degrees."""
    errors = bench.errors()
    solved = np.linalg.solve(bench.estimators["covariance"][:, :15, :15], errors[..., None])[..., 0]
    out: NDArray[np.float64] = (errors * solved).sum(axis=1)
    return out


def fail(bench: Bench, kind: int, fault: int) -> None:
    bench.memories["fault"][:, bench.slot(kind)] = fault


def all_valid(bench: Bench, bits: int) -> bool:
    return bool(((bench.estimates["valid"] & bits) == bits).all())


def none_valid(bench: Bench, bits: int) -> bool:
    return bool(((bench.estimates["valid"] & bits) == 0).all())


def moved_sensors(airframe: Airframe) -> Airframe:
    """The airframe with sensors far from the centre of gravity."""
    places = {"imu": (0.1, -0.2, 0.05), "gps": (-0.3, 0.2, -0.4)}
    sensors = tuple(
        s.model_copy(update={"position": places[s.kind]}) if s.kind in places else s for s in airframe.sensors
    )
    return airframe.model_copy(update={"sensors": sensors})


@pytest.mark.parametrize("name", ["iris", "firefly", "hector", "iris_full", "moved"])
def test_errors_are_as_large_as_the_covariance_says(name: str) -> None:
    airframe = moved_sensors(iris()) if name == "moved" else load_airframe(name)
    bench = Bench(airframe, wandering(61.0), SEEDS)
    low, high = bounds(15, len(SEEDS))
    bench.fly(2.0)
    for _ in range(6):
        bench.fly(9.5)
        assert low < nees(bench).mean() < high
    assert bench.estimates["rejected"].sum() <= BY_CHANCE
    assert not bench.estimates["resets"].any()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["iris", "firefly", "hector", "iris_full"])
def test_errors_stay_as_large_as_the_covariance_says_for_five_minutes(name: str) -> None:
    bench = Bench(load_airframe(name), wandering(301.0), list(range(100, 140)))
    low, high = bounds(15, 40)
    inside = []
    bench.fly(1.5)
    for _ in range(9):
        bench.fly(30.0)
        inside.append(low < nees(bench).mean() < high)
    # Errors half a minute apart are not independent, so a seed that strays shows more than once.
    assert sum(inside) >= 8


@pytest.mark.parametrize("name", ["iris", "hector", "iris_full"])
def test_innovations_are_as_large_as_their_variance_says(name: str) -> None:
    bench = Bench(load_airframe(name), wandering(61.0), SEEDS)
    bench.fly(10.0)
    sums = np.zeros(6)
    counts = np.zeros(6)
    axes = {GPS_POSITION: 3, GPS_VELOCITY: 3, BARO_HEIGHT: 1, MAGNETIC_HEADING: 1}
    if name == "iris_full":
        axes |= {RANGE_HEIGHT: 1, FLOW_VELOCITY: 2}
    before = bench.estimates["fused"].copy()
    while bench.seconds < 60.0:
        bench.fly(0.2)
        for source, count in axes.items():
            new = bench.estimates["fused"][:, source] > before[:, source]
            r = bench.estimates["innovation"][new, source, :count]
            s = bench.estimates["innovation_variance"][new, source, :count]
            sums[source] += (r**2 / s).sum()
            counts[source] += r.size
        before = bench.estimates["fused"].copy()
    for source in axes:
        low, high = bounds(int(counts[source]))
        assert counts[source] > 2000
        assert low < sums[source] < high


@pytest.mark.parametrize("roll", [0.0, 0.12])
@pytest.mark.parametrize("yaw", [0.0, 1.5, 3.1, -2.0])
def test_a_vehicle_at_rest_finds_its_attitude_and_biases(roll: float, yaw: float) -> None:
    rest = np.zeros((1000, 19))
    rest[:, 6:10] = [
        math.cos(roll / 2) * math.cos(yaw / 2),
        math.sin(roll / 2) * math.cos(yaw / 2),
        math.sin(roll / 2) * math.sin(yaw / 2),
        math.cos(roll / 2) * math.sin(yaw / 2),
    ]
    rest[:, 13:16] = rotation(rest[0, 6:10]).T @ [0.0, 0.0, -GRAVITY]
    bench = Bench(load_airframe("firefly"), Path(rest), SEEDS)
    assert none_valid(bench, ATTITUDE | HEADING | HEIGHT | VELOCITY | POSITION | GLOBAL)
    bench.fly(1.2)
    low, high = bounds(3, len(SEEDS))
    errors = bench.errors()
    covariance = bench.estimators["covariance"]
    for part in (slice(0, 3), slice(9, 12), slice(12, 15)):
        solved = np.linalg.solve(covariance[:, part, part], errors[:, part, None])[..., 0]
        assert low < (errors[:, part] * solved).sum(axis=1).mean() < high
    # A turn-on bias of 0.5 deg/s, seen through 250 samples with 0.3 deg/s of noise each.
    assert np.abs(errors[:, 9:12]).max() < 4.5 * 3.394e-4
    bench.fly(2.0)
    assert all_valid(bench, ATTITUDE | HEADING | HEIGHT | VELOCITY | POSITION | GLOBAL)


def test_a_moved_vehicle_waits_with_the_alignment() -> None:
    bench = irises(Path(wandering(61.0).rows[4000:]), 3)
    bench.fly(3.0)
    assert not bench.estimators["aligned"].any()
    assert none_valid(bench, ATTITUDE)


def test_without_satellites_a_standing_vehicle_stays_level_and_says_that_it_has_no_position() -> None:
    bench = irises(hovering(301.0), 5, lacking="gps")
    bench.path = np.repeat(bench.path[:1], 75000, axis=0)
    bench.fly(300.0)
    assert all_valid(bench, ATTITUDE | HEADING | HEIGHT)
    assert none_valid(bench, POSITION | VELOCITY | GLOBAL)
    assert np.abs(bench.errors()[:, :2]).max() < 5.0 * 0.0156 / GRAVITY
    assert np.abs(bench.errors()[:, 3:6]).max() < 0.02


def test_without_satellites_a_flying_vehicle_keeps_its_tilt() -> None:
    bench = irises(wandering(301.0), 5, lacking="gps")
    bench.fly(300.0)
    assert none_valid(bench, POSITION | VELOCITY | GLOBAL)
    # Loops with 7 m/s^2 are the worst for the assumption of level flight on average.
    assert np.degrees(np.abs(bench.errors()[:, :2])).max() < 5.0


def test_without_a_magnetometer_there_is_no_heading() -> None:
    bench = irises(hovering(31.0), 3, lacking="magnetometer")
    bench.fly(20.0)
    assert none_valid(bench, HEADING)
    assert all_valid(bench, ATTITUDE | HEIGHT)


def test_an_outage_of_satellites_drops_the_position_and_ends_without_a_jump() -> None:
    bench = irises(wandering(121.0))
    bench.fly(20.0)
    before = bench.estimates["position_deviation"][:, :2].max()
    fail(bench, KINDS["gps"].code, FAULT_OFF)
    bench.fly(4.5)
    assert all_valid(bench, POSITION | VELOCITY)
    bench.fly(1.0)
    assert none_valid(bench, POSITION | VELOCITY)
    assert all_valid(bench, ATTITUDE | HEADING | HEIGHT)
    bench.fly(24.5)
    assert bench.estimates["position_deviation"][:, :2].min() > 2.0 * before
    low, high = bounds(15, len(SEEDS))
    assert low < nees(bench).mean() < high
    fail(bench, KINDS["gps"].code, FAULT_NONE)
    bench.fly(20.0)
    assert all_valid(bench, POSITION | VELOCITY)
    assert not bench.estimates["resets"].any()
    assert low < nees(bench).mean() < high


def test_a_jump_of_the_fix_is_refused_and_then_followed() -> None:
    bench = irises(wandering(61.0))
    bench.fly(20.0)
    bench.offsets[:, 0] = 20.0 / 6.37e6
    bench.fly(5.0)
    assert (bench.estimates["rejected"][:, GPS_POSITION] == 25).all()
    assert (bench.estimates["test_ratio"][:, GPS_POSITION] > 1.0).all()
    assert np.abs(bench.errors()[:, 6]).max() < 1.0
    bench.fly(3.0)
    assert (bench.estimates["resets"] == 1).all()
    assert np.abs(bench.errors()[:, 6] + 20.0).max() < 1.5
    assert (bench.estimates["test_ratio"][:, GPS_POSITION] < 1.0).all()
    # Nothing else followed the false fix.
    assert np.abs(bench.errors()[:, 3:6]).max() < 0.3
    assert np.abs(bench.errors()[:, 8]).max() < 2.0


def test_a_single_false_fix_changes_nothing() -> None:
    ends = []
    for jump in (0.0, 100.0 / 6.37e6):
        bench = irises(hovering(31.0), 3)
        bench.fly(20.0)
        bench.offsets[:, 0] = jump
        bench.fly(0.2)
        bench.offsets[:, 0] = 0.0
        bench.fly(5.0)
        ends.append(bench.estimates["position"])
        assert (bench.estimates["rejected"][:, GPS_POSITION] == (jump > 0.0)).all()
    assert np.abs(ends[0] - ends[1]).max() < 0.05


@pytest.mark.parametrize(
    ("kind", "source"),
    [
        (KINDS["gps"].code, GPS_POSITION),
        (KINDS["barometer"].code, BARO_HEIGHT),
        (KINDS["magnetometer"].code, MAGNETIC_HEADING),
    ],
)
def test_a_sensor_that_is_stuck_is_no_longer_listened_to(kind: int, source: int) -> None:
    bench = irises(wandering(61.0), 5)
    bench.fly(20.0)
    fail(bench, kind, FAULT_STUCK)
    bench.fly(3.0)
    fused = bench.estimates["fused"][:, source].copy()
    bench.fly(5.0)
    assert (bench.estimates["fused"][:, source] == fused).all()
    assert not bench.estimates["resets"].any()
    assert np.degrees(np.abs(bench.errors()[:, :3])).max() < 1.5
    fail(bench, kind, FAULT_NONE)
    bench.fly(5.0)
    assert (bench.estimates["fused"][:, source] > fused).all()


def test_silent_inertial_sensors_leave_nothing_valid() -> None:
    bench = irises(hovering(31.0), 2)
    bench.fly(15.0)
    fail(bench, KINDS["imu"].code, FAULT_OFF)
    bench.fly(0.4)
    assert all_valid(bench, ATTITUDE)
    bench.fly(0.2)
    assert (bench.estimates["valid"] == 0).all()


def test_inertial_biases_are_found() -> None:
    bench = Bench(load_airframe("firefly"), wandering(61.0), SEEDS)
    imu = bench.memories[:, bench.slot(KINDS["imu"].code)]
    before = np.sqrt(((imu["bias"] + imu["turn_on"])[:, :6] ** 2).mean(axis=0))
    assert before[:3].min() > 0.04
    assert before[3:].min() > 0.005
    bench.fly(60.0)
    after = np.sqrt((bench.errors()[:, 9:] ** 2).mean(axis=0))
    assert after[3:].max() < 0.4 * before[:3].min()
    assert after[:3].max() < 0.1 * before[3:].min()


def test_a_late_fix_is_taken_in_at_its_own_time() -> None:
    along = []
    for stamp_error in (0, 124_000):
        bench = irises(rushing(41.0))
        bench.stamp_error = stamp_error
        bench.fly(40.0)
        along.append(bench.errors()[:, 6])
        assert bench.estimates["velocity"][0, 0] == pytest.approx(10.0, abs=0.15)
    deviation = bench.estimates["position_deviation"][:, 0].mean()
    assert abs(along[0].mean()) < 3.3 * deviation / math.sqrt(len(SEEDS))
    # 10 m/s for 0.124 s, part of which the filter takes for drift of the receiver.
    assert along[1].mean() > 5.0 * deviation / math.sqrt(len(SEEDS))


def test_five_minutes_of_hover_stay_within_half_a_metre() -> None:
    bench = irises(hovering(311.0))
    bench.fly(10.0)
    errors = []
    for _ in range(60):
        bench.fly(5.0)
        errors.append(np.linalg.norm(bench.errors()[:, 6:9], axis=1))
    # Beyond five deviations lies one sample in two million.
    assert bench.estimates["rejected"].sum() <= 1e-5 * bench.estimates["fused"].sum()
    # Of a receiver whose own error has a deviation of 0.6 m.
    assert np.max(errors) < 0.5
    assert np.sqrt(np.mean(np.square(errors))) < 0.2


def test_a_height_that_strayed_returns_to_the_barometer_where_nothing_else_tells_it() -> None:
    bench = irises(hovering(61.0), 5, lacking="gps")
    bench.fly(20.0)
    bench.estimators["nominal"][:, 5] += 20.0
    bench.fly(6.0)
    assert (bench.estimates["rejected"][:, BARO_HEIGHT] > 0).all()
    bench.fly(3.0)
    assert (bench.estimates["resets"] == 1).all()
    assert bench.estimates["position"][:, 2] == pytest.approx(-5.0, abs=0.5)
    assert bench.estimates["velocity"][:, 2] == pytest.approx(0.0, abs=0.2)


@pytest.mark.parametrize("temperature", [258.15, 308.15])
def test_the_barometers_height_is_right_in_cold_and_hot_air(temperature: float) -> None:
    world = World(WorldSpecification(sea_level_temperature=temperature, sea_level_pressure=99000.0))
    bench = Bench(without(iris(), "gps"), hovering(31.0), SEEDS, world)
    bench.fly(30.0)
    assert bench.estimates["position"][:, 2] == pytest.approx(-5.0, abs=0.1)
    assert not bench.estimates["rejected"].any()


def test_range_finder_and_flow_hold_height_and_velocity_without_satellites() -> None:
    bench = Bench(without(load_airframe("iris_full"), "gps"), hovering(61.0), SEEDS)
    bench.fly(60.0)
    assert all_valid(bench, VELOCITY | POSITION | HEIGHT | ABOVE_GROUND)
    assert none_valid(bench, GLOBAL)
    assert bench.estimates["height_above_ground"] == pytest.approx(5.0 + STANDING, abs=0.05)
    low, high = bounds(3, len(SEEDS))
    errors = bench.errors()[:, 3:6]
    covariance = bench.estimators["covariance"][:, 3:6, 3:6]
    solved = np.linalg.solve(covariance, errors[..., None])[..., 0]
    assert low < (errors * solved).sum(axis=1).mean() < high
    assert np.linalg.norm(bench.errors()[:, 6:8], axis=1).max() < 2.0


def test_the_covariance_stays_symmetric_and_positive_definite() -> None:
    bench = Bench(load_airframe("iris_full"), wandering(61.0), SEEDS[:5])
    events: dict[int, Any] = {
        20: lambda: bench.offsets.__setitem__((slice(None), 0), 50.0 / 6.37e6),
        32: lambda: fail(bench, KINDS["gps"].code, FAULT_OFF),
        40: lambda: fail(bench, KINDS["gps"].code, FAULT_NONE),
        45: lambda: fail(bench, KINDS["barometer"].code, FAULT_OFF),
        50: lambda: fail(bench, KINDS["magnetometer"].code, FAULT_OFF),
    }
    for second in range(60):
        bench.fly(1.0)
        events.get(second, lambda: None)()
        covariance = bench.estimators["covariance"]
        if second < 2:
            continue
        assert (covariance == covariance.transpose(0, 2, 1)).all()
        # A receiver whose velocity has no constant error has none to be estimated.
        there = np.diagonal(covariance[0]) > 0.0
        assert not covariance[:, ~there].any()
        covariance = covariance[:, there][:, :, there]
        scale = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
        # Of the correlations, for the errors' units differ by many orders of magnitude.
        correlation = covariance / scale[:, :, None] / scale[:, None, :]
        assert np.linalg.eigvalsh(correlation).min() > 0.0
    assert (bench.estimates["resets"] > 0).all()


def test_a_vehicle_estimates_the_same_bytes_alone_and_among_others() -> None:
    many = Bench(iris(), wandering(61.0), [3, 4, 5, 6])
    alone = Bench(iris(), wandering(61.0), [5])
    for bench in (many, alone):
        bench.fly(30.0)
    assert many.estimators[2].tobytes() == alone.estimators[0].tobytes()
    assert many.estimates[2].tobytes() == alone.estimates[0].tobytes()
    assert many.estimates[1].tobytes() != alone.estimates[0].tobytes()


def test_velocity_and_position_are_those_of_the_centre_of_gravity() -> None:
    bench = Bench(moved_sensors(iris()), wandering(61.0), SEEDS)
    bench.fly(40.0)
    truth = bench.path[bench.step - 1]
    assert bench.estimates["velocity"].mean(axis=0) == pytest.approx(truth[3:6], abs=0.05)
    assert bench.estimates["angular_velocity"].mean(axis=0) == pytest.approx(truth[10:13], abs=0.02)
    force = rotation(truth[6:10]) @ truth[13:16]
    there = np.cross(truth[16:19], [0.1, -0.2, 0.05]) + np.cross(
        truth[10:13], np.cross(truth[10:13], [0.1, -0.2, 0.05])
    )
    expected = force + rotation(truth[6:10]) @ there + [0.0, 0.0, GRAVITY]
    assert bench.estimates["acceleration"].mean(axis=0) == pytest.approx(expected, abs=0.15)


def test_a_fix_from_before_a_blow_leaves_a_covariance() -> None:
    """Of a fix at 0.12 s of age and a blow since, of which a barometer has taken a part away already."""
    random = np.random.default_rng(2)
    estimator = np.zeros(1, ESTIMATOR)[0]
    mixed = random.standard_normal((STATES, STATES))
    covariance = 1e-4 * mixed @ mixed.T
    down, jump = 2, (4.7e-2, 2.7e-3, 1.6e-4)
    v, p = SPEED + down, PLACE + down
    covariance[np.ix_((v, p), (v, p))] += [jump[:2], jump[1:]]
    barometer = covariance[p].copy()
    covariance -= np.outer(barometer, barometer) / (covariance[p, p] + 1e-4)
    estimator["covariance"] = covariance
    estimator["gain"] = random.standard_normal(STATES)
    wanted = 2.0 * estimator["gain"] @ np.linalg.solve(covariance, estimator["gain"])
    assert least_variance(estimator) == pytest.approx(wanted)
    estimator["past_age"], estimator["past_jump"][down] = 0.12, jump
    for term in (v, p):
        estimator["term_count"] = 0
        set_term(estimator, term, 1.0)
        fuse(estimator, 0.0, 1e-6, -1, 0.0)
        assert np.linalg.eigvalsh(estimator["covariance"]).min() > 0.0
