"""Every axis of every sensor against its figures: stationary variance and Allan deviation over all times."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import yaml
from pydantic import TypeAdapter
from support.paths import ROOT
from support.sensor_bench import STEP, Bench, allan

from sitl_bridge.core.sensors.registry import SensorUnion

AIRFRAMES = sorted((ROOT / "airframes").glob("*.yaml"))
SUITES = sorted((ROOT / "airframes" / "sensors").glob("*.yaml"))
PERIOD = STEP * 1e-6
SAMPLES = 400_000
CLUSTERS = (1, 10, 100, 1000)
WHITE, BIAS, TIME_CONSTANT = 0.02, 0.01, 0.4
ERROR = {"noise_deviation": WHITE, "bias_deviation": BIAS, "bias_correlation_time": TIME_CONSTANT}
EXACT: dict[str, Any] = {}

# Each sensor with the quantities of its own that carry an error, and where they stand in its values.
QUANTITIES: list[tuple[str, str, dict[str, Any], tuple[int, ...]]] = [
    ("imu", "accelerometer", {"gyroscope": EXACT}, (0, 1, 2)),
    ("imu", "gyroscope", {"accelerometer": EXACT}, (3, 4, 5)),
    ("magnetometer", "error", {}, (0, 1, 2)),
    ("barometer", "error", {}, (0,)),
    ("gps", "velocity", {}, (3, 4, 5)),
    ("airspeed", "error", {}, (0,)),
    ("range_finder", "error", {}, (0,)),
    ("optical_flow", "flow", {"gyroscope": EXACT}, (0, 1)),
    ("optical_flow", "gyroscope", {"flow": EXACT}, (2, 3, 4)),
    ("battery", "voltage", {"current": EXACT}, (0,)),
    ("battery", "current", {"voltage": EXACT}, (1,)),
]
ADAPTER: TypeAdapter[Any] = TypeAdapter(SensorUnion)


def allan_of_gauss_markov(white: float, bias: float, left: float, size: int) -> float:
    """What it must be: white samples plus a stationary process of covariance bias^2 left^|k|.

    From the definition, AVAR = Var(mean) - Cov(mean, next mean), by summing the covariances of all pairs.
    """
    lag = np.arange(size)
    variance = np.sum(np.where(lag == 0, 1.0, 2.0) * (size - lag) * left**lag) / size**2
    # Sample i of one cluster and j of the next are size + j - i apart.
    covariance = np.sum(left ** (1 + lag)) * np.sum(left**lag)
    return math.sqrt(white**2 / size + bias**2 * (variance - covariance / size**2))


def scatter(size: int, samples: int) -> float:
    """Five deviations of an Allan deviation from so many clusters (IEEE 952-1997, C.1.4)."""
    return 5.0 / math.sqrt(2.0 * (samples / size - 1.0))


def bench(kind: str, quantity: str, others: dict[str, Any], error: dict[str, Any]) -> Bench:
    fields = {"kind": kind, "rate": 1.0 / PERIOD, quantity: error} | others
    made = Bench(ADAPTER.validate_python(fields))
    made.state["position"] = (0.0, 0.0, -1.5)  # above the ground, for those who look at it
    made.state["battery_voltage"], made.state["battery_current"] = 12.0, 10.0
    return made


def test_the_formula_agrees_with_the_definition_on_a_short_case() -> None:
    left, size = 0.7, 3
    index = np.arange(2 * size)
    covariance = left ** np.abs(index[:, None] - index[None, :]) * 0.5**2 + 0.2**2 * np.eye(2 * size)
    weights = np.repeat([1.0, -1.0], size) / size
    expected = math.sqrt(0.5 * weights @ covariance @ weights)
    assert allan_of_gauss_markov(0.2, 0.5, left, size) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("kind", "quantity", "others", "columns"), QUANTITIES)
def test_every_axis_has_the_variance_and_allan_deviation_of_its_figures(
    kind: str, quantity: str, others: dict[str, Any], columns: tuple[int, ...]
) -> None:
    samples = bench(kind, quantity, others, ERROR).run(SAMPLES)
    assert len(samples) == SAMPLES
    left = math.exp(-PERIOD / TIME_CONSTANT)
    independent = SAMPLES * PERIOD / (2.0 * TIME_CONSTANT)
    for column in columns:
        values = samples[:, column]
        variance = WHITE**2 + BIAS**2
        bound = 5.0 * math.sqrt(2.0 * (WHITE**4 / SAMPLES + BIAS**4 / independent)) / variance
        assert np.var(values) == pytest.approx(variance, rel=bound)
        for size in CLUSTERS:
            expected = allan_of_gauss_markov(WHITE, BIAS, left, size)
            assert allan(values, size) == pytest.approx(expected, rel=scatter(size, SAMPLES)), size


@pytest.mark.parametrize(("kind", "quantity", "others", "columns"), QUANTITIES)
def test_a_density_falls_with_the_root_of_time_and_a_walk_rises_with_it(
    kind: str, quantity: str, others: dict[str, Any], columns: tuple[int, ...]
) -> None:
    density, walk = 1e-3, 2e-3
    made = bench(kind, quantity, others, {"noise_density": density, "random_walk": walk})
    samples = made.run(SAMPLES)
    for column in columns:
        for size in (1, 25, 2500):
            tau = size * PERIOD
            # IEEE 952-1997, C.1.1 and C.1.4: angle random walk N/sqrt(tau), rate random walk K sqrt(tau/3);
            # the walk is drawn in steps, which matters for clusters of one sample alone (factor 3/2).
            slope = walk**2 * tau / 3.0 * (1.0 + 0.5 / size**2)
            expected = math.sqrt(density**2 / tau + slope)
            assert allan(samples[:, column], size) == pytest.approx(expected, rel=scatter(size, SAMPLES))


def imu_figures() -> list[tuple[str, str, dict[str, Any]]]:
    """Distinct inertial figures of the airframes that come with the package, read from the files."""
    found: dict[str, tuple[str, str, dict[str, Any]]] = {}
    for path in [*AIRFRAMES, *SUITES]:
        # An airframe with a base gives only the sensors and figures that differ, or the name of a suite.
        given = yaml.load(path.read_bytes(), yaml.CSafeLoader).get("sensors", ())
        for sensor in () if isinstance(given, str) else given:
            if sensor["kind"] == "imu":
                for quantity in sorted({"accelerometer", "gyroscope"} & sensor.keys()):
                    found.setdefault(str(sensor[quantity]), (path.stem, quantity, sensor[quantity]))
    return list(found.values())


@pytest.mark.parametrize(("airframe", "quantity", "figures"), imu_figures())
def test_shipped_inertial_sensors_have_the_allan_deviation_their_files_promise(
    airframe: str, quantity: str, figures: dict[str, Any]
) -> None:
    del airframe
    other = {"accelerometer": "gyroscope", "gyroscope": "accelerometer"}[quantity]
    samples = bench("imu", quantity, {other: EXACT}, figures).run(SAMPLES)
    first = 0 if quantity == "accelerometer" else 3
    tau = figures["bias_correlation_time"]
    if "random_walk" in figures:
        bias = figures["random_walk"] * math.sqrt(tau / 2.0)  # Crassidis 2006, as RotorS's IMU plugin
    else:
        bias = figures["bias_deviation"]
    density = np.broadcast_to(figures["noise_density"], 3)
    for axis in range(3):
        for size in (1, 100, 2500):
            white = density[axis] / math.sqrt(PERIOD)
            expected = allan_of_gauss_markov(white, bias, math.exp(-PERIOD / tau), size)
            measured = allan(samples[:, first + axis], size)
            assert measured == pytest.approx(expected, rel=scatter(size, SAMPLES)), (axis, size)
