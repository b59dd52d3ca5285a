"""What the estimator is told of an airframe's sensors and of the place: every figure of its error model.

All figures follow from the airframe's file, the link's number formats and the world; nothing is tuned.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.autopilot.estimation.records import (
    ACCELEROMETER,
    BAROMETER,
    ESTIMATOR,
    GPS_DRIFT,
    GPS_SPEED,
    GROUND,
    GYROSCOPE,
    MAGNETOMETER,
    POSITION,
    RING,
    VELOCITY,
)
from sitl_bridge.autopilot.records import (
    BARO_HEIGHT,
    FLOW_VELOCITY,
    GPS_POSITION,
    GPS_VELOCITY,
    MAGNETIC_HEADING,
    RANGE_HEIGHT,
    SOURCES,
)
from sitl_bridge.sensors import records as kinds
from sitl_bridge.sensors.gps import GpsSpecification
from sitl_bridge.world.atmosphere import GAS_CONSTANT, LAPSE_RATE, STANDARD_GRAVITY
from sitl_bridge.world.earth import SEMI_MAJOR_AXIS

if TYPE_CHECKING:
    from sitl_bridge.vehicle.airframe import Airframe
    from sitl_bridge.world.world import World

GATE = 5.0
"""Standard deviations within which a measurement is believed, EKF2_GPS_P_GATE and others (PX4).  PX4 takes 3
for magnetometer and flow with noise assumed far above the sensors'; with the sensors' own, 3 would refuse
one good sample in 370."""
LINK_VELOCITY = 0.01
"""m/s, step of the velocity in HIL_GPS (cm/s)."""
LINK_POSITION = math.radians(1e-7) * SEMI_MAJOR_AXIS
"""m, step of latitude and longitude in HIL_GPS (1e-7 deg)."""
LINK_ALTITUDE = 1e-3
"""m, step of the altitude in HIL_GPS (mm)."""
LINK_RANGE = 0.01
"""m, step of the distance in DISTANCE_SENSOR (cm)."""
FIELD_STEP = 1e-9
"""T, to which the World Magnetic Model is tabulated."""
REST_DEVIATIONS = 6.0
"""Of an inertial sample from rest that are still rest; beyond by chance once in months at 250 Hz."""
REST_VELOCITY = 0.01
"""m/s, deviation from rest of a vehicle that stands when it is switched on."""
GROUND_UNEVENNESS = 0.02
"""m, deviation of the ground below the sensor from the plane the legs stand on: short grass."""
LEAST_NOISE = 1e-14
"""(m/s^2)^2/Hz and (rad/s)^2/Hz, of an ideal unit: the rounding to single precision on the link."""
STEP = 0.004
"""s, the shortest step for which the ring of past states reaches back far enough."""


def estimator_record(airframe: Airframe, world: World, start_time: int) -> NDArray[np.void]:
    """The estimator of one vehicle before its first sample.

    It is told the airframe's sensors, gravity and magnetic field of the place (both models of the Earth that
    flight stacks carry) and the temperature of the air, which a barometer's thermometer tells; where it is,
    it learns from its fixes.

    Args:
        airframe: whose sensors it reads, the first instance of each kind.
        world: where it starts.
        start_time: us of simulated time.

    Returns:
        () ESTIMATOR.
    """
    estimator = np.zeros((), ESTIMATOR)
    environment = world.environment[0]
    field = environment["magnetic_field"]
    strength = math.hypot(field[0], field[1])
    estimator["gravity"] = environment["gravity"]
    estimator["magnetic_north"] = field[:2] / strength
    estimator["magnetic_strength"] = strength
    estimator["magnetic_slope"] = field[2] / strength
    estimator["temperature"] = environment["sea_level_temperature"] - LAPSE_RATE * environment["height"]
    estimator["start_time"] = start_time
    estimator["prior"][VELOCITY : VELOCITY + 3] = REST_VELOCITY**2
    estimator["prior"][POSITION : POSITION + 3] = REST_VELOCITY**2
    estimator["attitude"] = (1.0, 0.0, 0.0, 0.0)
    estimator["gate"] = GATE
    for name in ("fused_at", "gps_at", "range_at", "assumed_at", "shock_at"):
        estimator[name] = -math.inf
    estimator["refused_since"] = math.inf
    # The highest instance first, so that the lowest of a kind has the last word.
    records = sorted(airframe.sensor_records(), key=lambda record: -int(record["instance"]))
    for sensor in records:
        if sensor["kind"] == kinds.IMU:
            _inertial(estimator, sensor)
    for sensor in records:
        if sensor["kind"] == kinds.MAGNETOMETER:
            _magnetometer(estimator, sensor)
        elif sensor["kind"] == kinds.BAROMETER:
            _barometer(estimator, sensor, environment)
        elif sensor["kind"] == kinds.GPS:
            _gps(estimator, sensor, airframe, float(environment["latitude"]))
        elif sensor["kind"] == kinds.RANGE_FINDER:
            _range_finder(estimator, sensor)
        elif sensor["kind"] == kinds.OPTICAL_FLOW:
            _flow(estimator, sensor)
    lowest = max((point[2] for point in airframe.contact.points), default=0.0)
    estimator["nominal"][GROUND] = lowest - estimator["imu_position"][2]
    estimator["prior"][GROUND] = GROUND_UNEVENNESS**2
    estimator["stride"] = max(1, math.ceil(float(estimator["latency"].max()) / (STEP * (RING - 4))))
    return estimator


def _drift(estimator: NDArray[np.void], first: int, sensor: NDArray[np.void], axes: slice) -> None:
    """Prior and dynamics of the errors that are a sensor's biases (hector eq. 11b; RotorS eqs 14 and 15).

    A turn-on bias besides makes the sum no Gauss-Markov process; it is then let walk without fading, which
    bounds it from above.
    """
    period = float(sensor["period"]) * 1e-6
    decay, turn_on = sensor["bias_decay"][axes], sensor["turn_on_sigma"][axes]
    target = slice(first, first + len(decay))
    estimator["prior"][target] = sensor["bias_start"][axes] ** 2 + turn_on**2
    estimator["walk"][target] = sensor["bias_step"][axes] ** 2 / period
    estimator["fading"][target] = np.where(turn_on > 0.0, 0.0, -np.log(decay) / period)


def _inertial(estimator: NDArray[np.void], sensor: NDArray[np.void]) -> None:
    """Noise densities, biases and place of the inertial unit, and what its samples are at rest."""
    period = float(sensor["period"]) * 1e-6
    noise = sensor["noise"][:6]
    estimator["force_noise"] = np.maximum(noise[:3] ** 2 * period, LEAST_NOISE)
    estimator["rate_noise"] = np.maximum(noise[3:] ** 2 * period, LEAST_NOISE)
    estimator["noisy"][SOURCES:] = noise[:3].min() > 0.0, noise[3:].min() > 0.0
    estimator["force_limit"] = sensor["limit"][:3]
    _drift(estimator, ACCELEROMETER, sensor, slice(0, 3))
    _drift(estimator, GYROSCOPE, sensor, slice(3, 6))
    prior = estimator["prior"]
    estimator["force_rest"] = REST_DEVIATIONS * math.sqrt(
        float((noise[:3] ** 2 + prior[ACCELEROMETER : ACCELEROMETER + 3]).max())
    )
    estimator["rate_rest"] = REST_DEVIATIONS * math.sqrt(
        float((noise[3:] ** 2 + prior[GYROSCOPE : GYROSCOPE + 3]).max())
    )
    estimator["imu_position"] = sensor["position"]
    estimator["rate_variance"] = (noise[3:] ** 2).max()


def _magnetometer(estimator: NDArray[np.void], sensor: NDArray[np.void]) -> None:
    """Noise of a sample and hard iron."""
    estimator["fitted"][MAGNETIC_HEADING] = 1
    estimator["noisy"][MAGNETIC_HEADING] = sensor["noise"][0] > 0.0
    estimator["latency"][MAGNETIC_HEADING] = sensor["latency"] * 1e-6
    estimator["magnetometer_variance"] = float((sensor["noise"][:3] ** 2).max())
    _drift(estimator, MAGNETOMETER, sensor, slice(0, 3))
    estimator["prior"][MAGNETOMETER : MAGNETOMETER + 3] += FIELD_STEP**2


def _barometer(estimator: NDArray[np.void], sensor: NDArray[np.void], environment: NDArray[np.void]) -> None:
    """Noise of a sample and the drift of the reading after the start, whose own bias cancels.

    The bias' change since the start, 2 s^2 (1 - exp(-t/tau)), stays below the walk 2 s^2 t/tau.
    """
    estimator["fitted"][BARO_HEIGHT] = 1
    estimator["noisy"][BARO_HEIGHT] = sensor["noise"][0] > 0.0
    estimator["latency"][BARO_HEIGHT] = sensor["latency"] * 1e-6
    estimator["pressure_variance"] = sensor["noise"][0] ** 2
    estimator["pressure_position"] = sensor["position"] - estimator["imu_position"]
    temperature = float(estimator["temperature"])
    ratio = temperature / float(environment["sea_level_temperature"])
    pressure = float(environment["sea_level_pressure"]) * ratio ** (
        STANDARD_GRAVITY / (GAS_CONSTANT * LAPSE_RATE)
    )
    metres = temperature * GAS_CONSTANT / (STANDARD_GRAVITY * pressure)
    estimator["pressure_slope"] = metres
    period = float(sensor["period"]) * 1e-6
    estimator["walk"][BAROMETER] = float(sensor["bias_step"][0]) ** 2 / period * metres**2


def _gps(estimator: NDArray[np.void], sensor: NDArray[np.void], airframe: Airframe, latitude: float) -> None:
    """Error model of the receiver (hector, "GPS Receiver"): its position error integrates its velocity error.

    The slight difference between the drift's decay and the integrated velocity tells the true position; any
    constant error of the velocity is taken for as much, times the correlation time, in position.  So the
    link's rounding must be told for what it is.  Of a velocity without noise it is a constant error; noise of
    a deviation s makes it white, and leaves of the constant part of variance q^2/12 no more than
    exp(-4 pi^2 s^2/q^2) (Widrow and Kollar, "Quantization Noise", 2008: quantisation with Gaussian dither).
    """
    instance = int(sensor["instance"])
    specification = next(
        s for s in airframe.sensors if isinstance(s, GpsSpecification) and s.instance == instance
    )
    period = float(sensor["period"]) * 1e-6
    for source in (GPS_POSITION, GPS_VELOCITY):
        estimator["fitted"][source] = 1
        estimator["latency"][source] = sensor["latency"] * 1e-6
    white = sensor["noise"][:3] ** 2
    estimator["noisy"][GPS_POSITION] = sensor["noise"][:3].min() >= LINK_VELOCITY
    arm = sensor["position"] - estimator["imu_position"]
    estimator["gps_position"] = arm
    # The velocity of the antenna about the inertial unit is known as well as the gyroscope tells.
    turning = estimator["rate_variance"] * (arm**2).sum()
    estimator["gps_velocity_variance"] = white + LINK_VELOCITY**2 / 12.0 + turning
    steps = np.array([LINK_POSITION, LINK_POSITION * math.cos(latitude), LINK_ALTITUDE])
    estimator["gps_position_variance"] = sensor["noise"][3:6] ** 2 + steps**2 / 12.0
    estimator["gps_coupling"] = period * white
    estimator["gps_drift_variance"] = specification.position_deviation() ** 2
    estimator["prior"][GPS_DRIFT : GPS_DRIFT + 3] = estimator["gps_drift_variance"]
    estimator["gps_fading"] = sensor["parameter"][0]
    estimator["gps_period"] = period
    estimator["gps_accuracy"] = specification.eph, specification.epv
    _drift(estimator, GPS_SPEED, sensor, slice(0, 3))
    dither = white / LINK_VELOCITY**2
    estimator["prior"][GPS_SPEED : GPS_SPEED + 3] += (
        LINK_VELOCITY**2 / 12.0 * np.exp(-4.0 * math.pi**2 * dither)
    )


def _range_finder(estimator: NDArray[np.void], sensor: NDArray[np.void]) -> None:
    """Noise and place; a drifting bias counts as noise."""
    estimator["fitted"][RANGE_HEIGHT] = 1
    estimator["noisy"][RANGE_HEIGHT] = sensor["noise"][0] >= LINK_RANGE
    estimator["latency"][RANGE_HEIGHT] = sensor["latency"] * 1e-6
    estimator["range_variance"] = (
        sensor["parameter"][3] + sensor["turn_on_sigma"][0] ** 2 + LINK_RANGE**2 / 12.0
    )
    estimator["range_position"] = sensor["position"] - estimator["imu_position"]


def _flow(estimator: NDArray[np.void], sensor: NDArray[np.void]) -> None:
    """Noise of flow and camera gyroscope together, place."""
    estimator["fitted"][FLOW_VELOCITY] = 1
    estimator["noisy"][FLOW_VELOCITY] = sensor["noise"][:2].min() > 0.0
    estimator["latency"][FLOW_VELOCITY] = sensor["latency"] * 1e-6
    variance = sensor["noise"][:5] ** 2 + sensor["bias_start"][:5] ** 2 + sensor["turn_on_sigma"][:5] ** 2
    estimator["flow_variance"] = variance[:2] + variance[2:4]
    estimator["flow_position"] = sensor["position"] - estimator["imu_position"]
