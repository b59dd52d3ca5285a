"""Estimator settings from an airframe's sensors and its location: every number of the error model.

All values follow from the airframe file, the number formats of the link and the world; none is tuned.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from sitl_bridge.autopilot import records
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
from sitl_bridge.base.arrays import Records
from sitl_bridge.base.constants import STANDARD_GRAVITY
from sitl_bridge.core.sensors.gps import GpsSpecification
from sitl_bridge.core.sensors.imu import INTERVAL
from sitl_bridge.core.sensors.perception.visual_odometry import VisualOdometrySpecification
from sitl_bridge.core.sensors.registry import KINDS
from sitl_bridge.core.vehicle.perception_settings import odometry
from sitl_bridge.core.world.atmosphere import GAS_CONSTANT, LAPSE_RATE
from sitl_bridge.core.world.earth import SEMI_MAJOR_AXIS

if TYPE_CHECKING:
    from sitl_bridge.core.vehicle.airframe import Airframe
    from sitl_bridge.core.world.world import World

CLIPPED = 0.999
"""Share of its range from which on an accelerometer counts as saturated (PX4's PX4Accelerometer.cpp)."""
GATE = 5.0
"""Gates in standard deviations, as PX4's EKF2_GPS_P_GATE and others.  For magnetometer and flow PX4 uses 3,
with assumed noise far above the sensors'.  With the true noise, a gate of 3 would reject one good sample in
370."""
VELOCITY_RESOLUTION = 0.01
"""Resolution of the velocity in HIL_GPS (cm/s), m/s."""
POSITION_RESOLUTION = math.radians(1e-7) * SEMI_MAJOR_AXIS
"""Resolution of latitude and longitude in HIL_GPS (1e-7 deg), m."""
ALTITUDE_RESOLUTION = 1e-3
"""Resolution of the altitude in HIL_GPS (mm), m."""
RANGE_RESOLUTION = 0.01
"""Resolution of the distance in DISTANCE_SENSOR (cm), m."""
FIELD_RESOLUTION = 1e-9
"""Resolution of the World Magnetic Model's table, T."""
SHAKEN_DENSITIES = (0.35**2 * 0.01, 0.015**2 * 0.01)
"""Least noise densities of a unit that vibration reaches, (m/s)^2/s and rad^2/s: those of PX4's estimator, by
EKF2_ACC_NOISE, EKF2_GYR_NOISE and EKF2_PREDICT_US."""
REST_DEVIATIONS = 6.0
"""Standard deviations within which an inertial sample counts as rest; noise exceeds them once in months at
250 Hz."""
REST_VELOCITY = 0.01
"""Standard deviation of the initial velocity of a standing vehicle, m/s."""
GROUND_UNEVENNESS = 0.02
"""Standard deviation of the ground height below the sensor from the plane of the landing gear, m: short
grass."""
MIN_NOISE_DENSITY = 1e-14
"""Noise density of an ideal inertial unit, (m/s^2)^2/Hz and (rad/s)^2/Hz: rounding to single precision."""
LIDAR_DRIFT = 0.02
"""m, standard deviation of lidar odometry after 1 m: the default of visual odometry, which drifts more."""
MIN_TIME_STEP = 0.004
"""Shortest time step for which the ring of past states covers the sensor latencies, s."""


def estimator_record(airframe: Airframe, world: World) -> Records:
    """Return the estimator record of one vehicle before its first sample.

    The estimator knows the airframe's sensors, the local gravity and magnetic field (both from Earth models
    that flight stacks carry) and the air temperature, which a barometer's thermometer measures.  The position
    comes from GNSS fixes.

    Args:
        airframe: the airframe; the first instance of each sensor kind is used.

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
    estimator["prior"][VELOCITY : VELOCITY + 3] = REST_VELOCITY**2
    estimator["prior"][POSITION : POSITION + 3] = REST_VELOCITY**2
    estimator["attitude"] = (1.0, 0.0, 0.0, 0.0)
    estimator["gate"] = GATE
    for name in ("fused_at", "gps_at", "range_at", "assumed_at", "saturated_at"):
        estimator[name] = -math.inf
    estimator["rejected_since"] = math.inf
    # Highest instance first, so that the lowest instance of a kind overrides the others.
    sensors = sorted(airframe.sensor_records(), key=lambda record: -int(record["instance"]))
    for sensor in sensors:
        if sensor["kind"] == KINDS["imu"].code:
            _set_inertial(estimator, sensor)
    for sensor in sensors:
        if sensor["kind"] == KINDS["magnetometer"].code:
            _set_magnetometer(estimator, sensor)
        elif sensor["kind"] == KINDS["barometer"].code:
            _set_barometer(estimator, sensor, environment)
        elif sensor["kind"] == KINDS["gps"].code:
            _set_gps(estimator, sensor, airframe, float(environment["latitude"]))
        elif sensor["kind"] == KINDS["range_finder"].code:
            _set_range_finder(estimator, sensor)
        elif sensor["kind"] == KINDS["optical_flow"].code:
            _set_flow(estimator, sensor)
    _set_odometry(estimator, airframe)
    lowest = max((point[2] for point in airframe.contact.points), default=0.0)
    estimator["nominal"][GROUND] = lowest - estimator["imu_position"][2]
    estimator["prior"][GROUND] = GROUND_UNEVENNESS**2
    estimator["stride"] = max(1, math.ceil(float(estimator["latency"].max()) / (MIN_TIME_STEP * (RING - 4))))
    return estimator


def _fit(estimator: Records, source: int, sensor: Records, noisy: bool) -> None:
    """Let a sensor correct the estimate."""
    estimator["fitted"][source] = 1
    estimator["noisy"][source] = noisy
    estimator["latency"][source] = sensor["latency"] * 1e-6


def _set_drift(estimator: Records, first: int, sensor: Records, axes: slice) -> None:
    """Set prior and dynamics of a sensor's bias errors (hector eq. 11b; RotorS eqs 14 and 15).

    With a turn-on bias on top, the sum is no Gauss-Markov process.  It is modelled as a random walk without
    decay, which is an upper bound.
    """
    period = float(sensor["period"]) * 1e-6
    decay, turn_on = sensor["bias_decay"][axes], sensor["turn_on_sigma"][axes]
    target = slice(first, first + len(decay))
    estimator["prior"][target] = sensor["bias_start"][axes] ** 2 + turn_on**2
    estimator["walk"][target] = sensor["bias_step"][axes] ** 2 / period
    estimator["decay_rate"][target] = np.where(turn_on > 0.0, 0.0, -np.log(decay) / period)


def _set_inertial(estimator: Records, sensor: Records) -> None:
    """Set noise densities, biases, position and rest limits of the inertial unit."""
    period = float(sensor["period"]) * 1e-6
    noise = sensor["noise"][:6]
    shaken = bool(sensor["parameter"][INTERVAL] > 0.0)
    least = SHAKEN_DENSITIES if shaken else (MIN_NOISE_DENSITY, MIN_NOISE_DENSITY)
    estimator["force_noise"] = np.maximum(noise[:3] ** 2 * period, least[0])
    estimator["rate_noise"] = np.maximum(noise[3:] ** 2 * period, least[1])
    estimator["noisy"][records.SOURCES :] = noise[:3].min() > 0.0, noise[3:].min() > 0.0
    estimator["force_limit"] = CLIPPED * sensor["limit"][:3]
    _set_drift(estimator, ACCELEROMETER, sensor, slice(0, 3))
    _set_drift(estimator, GYROSCOPE, sensor, slice(3, 6))
    prior = estimator["prior"]
    estimator["force_rest"] = REST_DEVIATIONS * math.sqrt(
        float((noise[:3] ** 2 + prior[ACCELEROMETER : ACCELEROMETER + 3]).max())
    )
    estimator["force_jump"] = REST_DEVIATIONS * math.sqrt(2.0) * float(noise[:3].max())
    estimator["rate_rest"] = REST_DEVIATIONS * math.sqrt(
        float((noise[3:] ** 2 + prior[GYROSCOPE : GYROSCOPE + 3]).max())
    )
    estimator["imu_position"] = sensor["position"]
    estimator["rate_variance"] = (noise[3:] ** 2).max()


def _set_magnetometer(estimator: Records, sensor: Records) -> None:
    """Set noise of a magnetometer sample and hard-iron bias."""
    _fit(estimator, records.MAGNETIC_HEADING, sensor, sensor["noise"][0] > 0.0)
    estimator["magnetometer_variance"] = float((sensor["noise"][:3] ** 2).max())
    _set_drift(estimator, MAGNETOMETER, sensor, slice(0, 3))
    estimator["prior"][MAGNETOMETER : MAGNETOMETER + 3] += FIELD_RESOLUTION**2


def _set_barometer(estimator: Records, sensor: Records, environment: Records) -> None:
    """Set noise of a barometer sample and the drift since the start; the initial bias cancels.

    The variance of the bias change since the start, 2 s^2 (1 - exp(-t/tau)), stays below that of the walk, 2
    s^2 t/tau.
    """
    _fit(estimator, records.BARO_HEIGHT, sensor, sensor["noise"][0] > 0.0)
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


def _set_gps(estimator: Records, sensor: Records, airframe: Airframe, latitude: float) -> None:
    """Set the error model of the GNSS receiver (hector): its position error integrates its velocity error.

    The small difference between the drift's decay and the integrated velocity makes the true position
    observable.  A constant velocity error shifts that position by the error times the correlation time, so
    the rounding of the link must be modelled correctly.  For a noise-free velocity the rounding is a constant
    error.  Noise of standard deviation s makes it white and reduces its constant part, of variance q^2/12, by
    exp(-4 pi^2 s^2/q^2) (Widrow and Kollar, "Quantization Noise", 2008: quantisation with Gaussian dither).
    """
    instance = int(sensor["instance"])
    specification = next(
        s for s in airframe.sensors if isinstance(s, GpsSpecification) and s.instance == instance
    )
    period = float(sensor["period"]) * 1e-6
    for source in (records.GPS_POSITION, records.GPS_VELOCITY):
        estimator["fitted"][source] = 1
        estimator["latency"][source] = sensor["latency"] * 1e-6
    white = sensor["noise"][:3] ** 2
    estimator["noisy"][records.GPS_POSITION] = sensor["noise"][:3].min() >= VELOCITY_RESOLUTION
    arm = sensor["position"] - estimator["imu_position"]
    estimator["gps_position"] = arm
    # The antenna's velocity about the inertial unit is known to the accuracy of the gyroscope.
    turning = estimator["rate_variance"] * (arm**2).sum()
    estimator["gps_velocity_variance"] = white + VELOCITY_RESOLUTION**2 / 12.0 + turning
    steps = np.array([POSITION_RESOLUTION, POSITION_RESOLUTION * math.cos(latitude), ALTITUDE_RESOLUTION])
    estimator["gps_position_variance"] = sensor["noise"][3:6] ** 2 + steps**2 / 12.0
    estimator["gps_coupling"] = period * white
    estimator["gps_drift_variance"] = specification.position_deviation() ** 2
    estimator["prior"][GPS_DRIFT : GPS_DRIFT + 3] = estimator["gps_drift_variance"]
    estimator["gps_drift_decay"] = sensor["parameter"][0]
    estimator["gps_period"] = period
    estimator["gps_accuracy"] = specification.eph, specification.epv
    _set_drift(estimator, GPS_SPEED, sensor, slice(0, 3))
    dither = white / VELOCITY_RESOLUTION**2
    estimator["prior"][GPS_SPEED : GPS_SPEED + 3] += (
        VELOCITY_RESOLUTION**2 / 12.0 * np.exp(-4.0 * math.pi**2 * dither)
    )


def _set_range_finder(estimator: Records, sensor: Records) -> None:
    """Set noise and position of the range finder; a drifting bias counts as noise."""
    _fit(estimator, records.RANGE_HEIGHT, sensor, sensor["noise"][0] >= RANGE_RESOLUTION)
    estimator["range_variance"] = (
        sensor["parameter"][3] + sensor["turn_on_sigma"][0] ** 2 + RANGE_RESOLUTION**2 / 12.0
    )
    estimator["range_position"] = sensor["position"] - estimator["imu_position"]


def _set_flow(estimator: Records, sensor: Records) -> None:
    """Set position and combined noise of flow sensor and its gyroscope."""
    _fit(estimator, records.FLOW_VELOCITY, sensor, sensor["noise"][:2].min() > 0.0)
    variance = sensor["noise"][:5] ** 2 + sensor["bias_start"][:5] ** 2 + sensor["turn_on_sigma"][:5] ** 2
    estimator["flow_variance"] = variance[:2] + variance[2:4]
    estimator["flow_position"] = sensor["position"] - estimator["imu_position"]


def _set_odometry(estimator: Records, airframe: Airframe) -> None:
    """Set place, drift and use of the sensor that sends ODOMETRY; its noise comes with each sample."""
    found = odometry(airframe)
    if found is None:
        return
    sensor, control = found
    exposure, drift = 0.0, LIDAR_DRIFT
    if isinstance(sensor, VisualOdometrySpecification):
        exposure, drift = sensor.exposure, sensor.drift
    for source in (records.ODOMETRY_POSITION, records.ODOMETRY_VELOCITY):
        estimator["fitted"][source] = 1
        estimator["latency"][source] = sensor.latency + 0.5 * exposure
    estimator["odometry_control"] = control
    estimator["odometry_exposure"] = exposure
    estimator["odometry_drift"] = drift
    estimator["odometry_position"] = np.array(sensor.position) - estimator["imu_position"]
