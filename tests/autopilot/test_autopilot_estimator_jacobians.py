"""The estimator's linearisations against differences of what they linearise."""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.estimator_bench import STEP, Bench, fly_path, product, rotation, rotation_vector

from sitl_bridge.autopilot.estimation import sensor_models
from sitl_bridge.autopilot.estimation.inertial import propagate_covariance, recall_state
from sitl_bridge.autopilot.estimation.records import STATES
from sitl_bridge.autopilot.records import (
    BARO_HEIGHT,
    FLOW_VELOCITY,
    MAGNETIC_HEADING,
    RANGE_HEIGHT,
)
from sitl_bridge.core.vehicle.airframe_file import load_airframe

AGE = 0.12
SIZES = np.array([1e-3] * 3 + [1e-2] * 3 + [1e-1] * 3 + [1e-3] * 3 + [1e-2] * 3 + [1e-1] * 6)
"""Of the perturbations, by error: rad, m/s, m, rad/s, m/s^2, m, m/s."""
SIZES = np.concatenate([SIZES, [1e-7] * 3, [0.1, 0.1]])


@cache
def manoeuvring() -> Bench:
    """A vehicle with every sensor in a hard turn, tilted, above ground it measures."""

    def position(t: NDArray[np.float64]) -> NDArray[np.float64]:
        u = np.clip((t - 2.0) / 4.0, 0.0, 1.5)
        rise = u**4 * (35 - 84 * u + 70 * u**2 - 20 * u**3)
        return np.stack([2.0 * rise, 4.0 * u**5, -0.1 - 3.0 * rise], 1)

    def yaw(t: NDArray[np.float64]) -> NDArray[np.float64]:
        return 0.7 + 0.5 * np.clip((t - 2.0) / 4.0, 0.0, 1.5) ** 4

    airframe = load_airframe("iris_full")
    places = {"gps": (-0.3, 0.2, -0.4), "range_finder": (0.1, 0.1, 0.0), "optical_flow": (0.0, 0.1, 0.1)}
    sensors = tuple(
        s.model_copy(update={"position": places[s.kind]}) if s.kind in places else s for s in airframe.sensors
    )
    bench = Bench(airframe.model_copy(update={"sensors": sensors}), fly_path(position, yaw, 10.0, 9.8), [1])
    bench.fly(6.0)
    bench.estimators["fitted"] = 0
    for name in ("rate_noise", "force_noise", "walk", "decay_rate"):
        bench.estimators[name] = 0.0
    return bench


def moved(bench: Bench, index: int, size: float) -> Bench:
    """A copy whose state, now and in memory of the past, has an error of ``size``."""
    other = deepcopy(bench)
    e = other.estimators
    body = rotation(e["attitude"][0]).T @ e["force_before"][0]
    if index < 3:
        half = np.zeros(4)
        half[0], half[1 + index] = np.cos(0.5 * size), np.sin(0.5 * size)
        e["attitude"][0] = product(half, e["attitude"][0])
    else:
        e["nominal"][0, index] += size
    # As ``inject_correction`` keeps the sums of corrections.
    if index < 3:
        e["attitude_correction_sum"][0, index] += size
    elif index < 6:
        e["velocity_correction_sum"][0, index - 3] += size
        e["position_correction_sum"][0, index - 3] -= e["clock"][0] * size
    elif index < 9:
        e["position_correction_sum"][0, index - 6] += size
    if 12 <= index < 15:
        body[index - 12] -= size
    # The integration's trapezoid begins with the last sample as it would have been seen.
    e["force_before"][0] = rotation(e["attitude"][0]) @ body
    return other


def difference(a: Bench, b: Bench) -> NDArray[np.float64]:
    """(STATES,) of b less a."""
    out: NDArray[np.float64] = b.estimators["nominal"][0] - a.estimators["nominal"][0]
    out[:3] = rotation_vector(
        product(b.estimators["attitude"][0], a.estimators["attitude"][0] * [1, -1, -1, -1])
    )
    return out


def row(estimator: Any) -> NDArray[np.float64]:
    """(STATES,) the terms at hand."""
    out = np.zeros(STATES)
    for k in range(int(estimator["term_count"])):
        out[estimator["term_index"][k]] += estimator["term_value"][k]
    return out


@pytest.mark.parametrize("index", range(15))
def test_the_covariance_grows_as_errors_do(index: int) -> None:
    start = manoeuvring()
    first, second = deepcopy(start), moved(start, index, SIZES[index])
    error = difference(first, second)
    first.estimators["covariance"][0] = np.outer(error, error)
    first.estimators["pending_time"] = 0.0
    first.estimators["pending_force"] = 0.0
    first.estimators["pending_rotation"] = 0.0
    for bench in (first, second):
        bench.fly(5 * STEP * 1e-6)
    propagate_covariance(first.estimators[0])
    after = difference(first, second)
    found = first.estimators["covariance"][0]
    assert np.abs(after - error)[:9].max() > 0.0 or index >= 6
    # What the second order of a turn by 1 mrad leaves over.
    expected = np.outer(after, after)
    assert np.abs(found - expected).max() < 3e-3 * np.abs(expected).max()
    scale = SIZES / SIZES[index]
    assert np.abs((found - expected) / SIZES[index] ** 2 / np.outer(scale, scale)).max() < 5e-3


@pytest.mark.parametrize("index", range(21))
def test_a_late_fix_depends_on_the_present_errors_as_said(index: int) -> None:
    start = manoeuvring()
    first, second = deepcopy(start), moved(start, index, SIZES[index])
    then = [
        (
            b.estimators["nominal"][0].copy(),
            b.estimators["attitude"][0].copy(),
            b.estimators["rate_before"][0] - b.estimators["nominal"][0, 9:12],
        )
        for b in (first, second)
    ]
    for bench in (first, second):
        bench.estimators["ring_count"] = 0
        bench.fly(AGE)
    error = difference(first, second)

    def measured(state: Any) -> NDArray[np.float64]:

        nominal, attitude, rate = state
        matrix = rotation(attitude)
        arm = first.estimators["gps_position"][0]
        velocity = nominal[3:6] + matrix @ np.cross(rate, arm) + nominal[18:21]
        out: NDArray[np.float64] = np.concatenate([velocity, nominal[6:9] + matrix @ arm + nominal[15:18]])
        return out

    seen = measured(then[1]) - measured(then[0])
    e = first.estimators[0]
    # The state then is the first but one in the ring; put it back for ``recall_state``.
    fresh = deepcopy(start)
    fresh.fly(AGE)
    e = fresh.estimators[0]
    assert recall_state(e, AGE)
    lever = measured(then[0])
    nominal = then[0][0]
    for axis in range(3):
        e["past_displacement"][axis] += lever[3 + axis] - nominal[6 + axis] - nominal[15 + axis]
        e["past_force"][axis] -= lever[axis] - nominal[3 + axis] - nominal[18 + axis]
    for axis in range(3):
        sensor_models.gps_velocity_terms(e, axis)
        velocity = row(e) @ error
        sensor_models.gps_position_terms(e, axis)
        position = row(e) @ error
        # The gyroscope's bias turns the attitude within the age, which is left out, as is its lever arm.
        left_out = 0.55 * SIZES[index] if 9 <= index < 12 else 0.0
        if 12 <= index < 15:
            # The attitude within the age is taken for that at its start.
            left_out = 0.05 * AGE * SIZES[index]
        # Half the age's square times an accelerometer's bias in the position is left out, too.
        position_left_out = 0.5 * AGE**2 * SIZES[index] if 12 <= index < 15 else 0.2 * left_out
        assert velocity == pytest.approx(seen[axis], abs=left_out + 2e-3 * SIZES[index])
        assert position == pytest.approx(seen[3 + axis], abs=position_left_out + 2e-3 * SIZES[index])


@pytest.mark.parametrize("index", range(STATES))
@pytest.mark.parametrize(
    ("source", "take"),
    [
        (BARO_HEIGHT, sensor_models.fuse_pressure),
        (MAGNETIC_HEADING, sensor_models.fuse_magnetic_field),
        (RANGE_HEIGHT, sensor_models.fuse_range),
        (FLOW_VELOCITY, sensor_models.fuse_flow),
    ],
)
def test_a_measurement_depends_on_the_errors_as_said(source: int, take: Any, index: int) -> None:
    start = manoeuvring()
    m = start.measurements[0].copy()
    assert not np.isnan(m["range"])
    innovations: list[NDArray[np.float64]] = []
    expected = np.zeros((2, STATES))
    for bench in (deepcopy(start), moved(start, index, SIZES[index])):
        # A covariance too small for the state to move.
        bench.estimators["covariance"][0] = 1e-18 * np.eye(STATES)
        bench.estimators["gate"] = 1e9
        if not innovations and source == FLOW_VELOCITY:
            expected = _flow_rows(deepcopy(bench), m)
        take(bench.estimators[0], bench.estimates[0], m, source, 0.0)
        innovations.append(bench.estimates["innovation"][0, source].copy())
        if len(innovations) == 1 and source != FLOW_VELOCITY:
            expected[0] = row(bench.estimators[0])
    assert np.abs(expected).max() > 0.0
    change = innovations[1] - innovations[0]
    for axis in range(2 if source == FLOW_VELOCITY else 1):
        # What the second order and the noise of the sample at hand leave over, of the whole kind of error.
        kind = expected[axis, index // 3 * 3 : index // 3 * 3 + 3]
        size = SIZES[index] * max(float(np.abs(kind).max()), 1e-3)
        assert change[axis] == pytest.approx(-expected[axis, index] * SIZES[index], abs=0.05 * size)


def _flow_rows(bench: Bench, m: Any) -> NDArray[np.float64]:
    """(2, STATES) of the flow's two axes; taking the flow leaves those of the second behind."""
    e, x = bench.estimators[0], bench.estimates[0]
    sensor_models.fuse_flow(e, x, m, FLOW_VELOCITY, 0.0)
    second = row(e)
    matrix = rotation(e["past_attitude"])
    arm = matrix @ e["flow_position"]
    around = matrix @ np.cross(e["past_rate"], e["flow_position"])
    distance = float((e["nominal"][25] - e["past_position"][2] - arm[2]) / matrix[2, 2])
    sensor_models.flow_terms(e, 0, 1.0, distance, (arm[0], arm[1], arm[2], around[0], around[1], around[2]))
    return np.array([row(e), second])
