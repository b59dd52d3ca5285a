"""What PX4's estimator and its preflight checks are told about an airframe's sensors.

Which there are, where they sit, how late they are, and how noisy where PX4's defaults assume better ones.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.sensors.error_model import SensorSpecification
from sitl_bridge.sensors.gps import GpsSpecification
from sitl_bridge.sensors.imu import ImuSpecification
from sitl_bridge.sensors.magnetometer import MagnetometerSpecification
from sitl_bridge.sensors.pressure import AirspeedSpecification, BarometerSpecification
from sitl_bridge.sensors.ranging import OpticalFlowSpecification, RangeFinderSpecification
from sitl_bridge.vehicle.airframe import Airframe
from sitl_bridge.vehicle.control_effectiveness import Parameters

PREDICTION_PERIOD = 0.01
"""s, EKF2_PREDICT_US: EKF2_*_NOISE are deviations of a mean over this period."""
STATED_SPEED_ACCURACY = 0.25
"""m/s that PX4 takes every receiver of this link to state (SimulatorMavlink.cpp, handle_message_hil_gps)."""
LATEST = 300.0
"""ms, greatest EKF2_*_DELAY."""
BUFFERED = 200.0
"""ms, EKF2_DELAY_MAX's default."""
DEFAULT_INTEGRATION_RATE = 250
"""Hz, IMU_INTEG_RATE as px4-rc.simulator sets it."""
MOST_RATE = 1000
EKF_POSITION_NOISE = 0.5
"""m, EKF2_GPS_P_NOISE's default."""

MOVED_IN_A_STEP = 0.02
"""m that a vehicle flies at 5 m/s between two inertial samples, to which EKF2 rounds the time of a fix; the
messages' rounding of 1e-7 deg, 11 mm, is less."""

HEIGHT_BAROMETER, HEIGHT_GPS = 0, 1
"""EKF2_HGT_REF."""
MAGNETOMETER_NONE = 5
"""EKF2_MAG_TYPE."""
ACCELEROMETER_MOST, GYROSCOPE_MOST = 1.0, 0.1
"""m/s^2 and rad/s, greatest EKF2_ACC_NOISE and EKF2_GYR_NOISE."""
FLOW_NOISE, FLOW_GATE = 0.15, 3.0
"""rad/s and deviations, EKF2_OF_N_MIN and EKF2_OF_GATE's defaults."""
GATE = 5.0
"""Deviations, EKF2_GPS_P_GATE and EKF2_GPS_V_GATE's default."""
BIASES_COVERED = 4.0
"""Deviations of a bias that its limit in EKF2 covers; commander warns at 0.75 of the limit (3 deviations)."""


def estimator_parameters(airframe: Airframe) -> Parameters:
    """EKF2_*, SENS_* and SYS_HAS_* that follow from an airframe's sensors."""
    inertial = [s for s in airframe.sensors if isinstance(s, ImuSpecification)]
    receivers = [s for s in airframe.sensors if isinstance(s, GpsSpecification)]
    found = _inertial(inertial, _overstated(receivers))
    found |= _magnetometers([s for s in airframe.sensors if isinstance(s, MagnetometerSpecification)])
    found |= _satellites(receivers)
    barometers = [s for s in airframe.sensors if isinstance(s, BarometerSpecification)]
    found |= {"SYS_HAS_BARO": len(barometers)}
    for barometer in barometers:
        found |= {"EKF2_BARO_DELAY": _delay(barometer.latency)} | _pressure(barometer)
    for sensor in airframe.sensors:
        if isinstance(sensor, RangeFinderSpecification):
            found |= _range_finder(airframe, sensor)
        elif isinstance(sensor, OpticalFlowSpecification):
            found |= _flow(sensor)
        elif isinstance(sensor, AirspeedSpecification):
            found |= {"SYS_HAS_NUM_ASPD": 1, "EKF2_ASP_DELAY": _delay(sensor.latency)}
    latest = max(s.latency for s in airframe.sensors if isinstance(s, SensorSpecification)) * 1e3
    if latest > BUFFERED:
        found["EKF2_DELAY_MAX"] = min(math.ceil(latest) + 50.0, 1000.0)
    return found


def _inertial(sensors: list[ImuSpecification], overstated: float) -> Parameters:
    """Number, place and rate of the inertial sensors, and their errors where PX4's defaults assume less.

    EKF2 adds (deviation * dt)^2 a prediction of dt = 10 ms to the variance of velocity and angle
    (covariance.cpp), so a density N is a deviation N/sqrt(dt); a bias that walks with density B likewise.

    The gain of a Kalman filter depends on the ratio of these to the noise of what it measures.  The latter is
    overstated on this link, so both white noises are told as much too large, as far as PX4's ranges go: EKF2
    then weighs inertial sensors and fixes as their true noises ask for.

    Args:
        sensors: of the airframe.
        overstated: of :func:`_overstated`.
    """
    first = next(sensor for sensor in sensors if sensor.instance == 0)
    accelerometer, gyroscope = _error(first, slice(0, 3)), _error(first, slice(3, 6))
    root = math.sqrt(PREDICTION_PERIOD)
    limits = ((accelerometer[0], ACCELEROMETER_MOST), (gyroscope[0], GYROSCOPE_MOST))
    scale = min([overstated] + [most * root / noise for noise, most in limits if noise > 0.0])
    scale = max(scale, 1.0)
    found: Parameters = {"EKF2_MULTI_IMU": len(sensors), "SENS_IMU_MODE": 0}
    found |= _place("EKF2_IMU_POS", first.position)
    if first.rate != DEFAULT_INTEGRATION_RATE:
        found["IMU_INTEG_RATE"] = min(round(first.rate), MOST_RATE)
    for name, needed, default, most in (
        ("EKF2_ACC_NOISE", scale * accelerometer[0] / root, 0.35, ACCELEROMETER_MOST),
        ("EKF2_GYR_NOISE", scale * gyroscope[0] / root, 0.015, GYROSCOPE_MOST),
        ("EKF2_ACC_B_NOISE", accelerometer[1] / root, 0.003, 0.01),
        ("EKF2_GYR_B_NOISE", gyroscope[1] / root, 0.001, 0.01),
        ("EKF2_ABIAS_INIT", accelerometer[2], 0.2, 0.5),
        ("EKF2_GBIAS_INIT", gyroscope[2], 0.1, 0.2),
        ("EKF2_ABL_LIM", BIASES_COVERED * accelerometer[3], 0.4, 0.8),
        ("EKF2_GYR_B_LIM", BIASES_COVERED * gyroscope[3], 0.15, 0.4),
    ):
        value = round(min(needed, most), 5)
        if value > default:
            found[name] = value
    return found


def _overstated(receivers: list[GpsSpecification]) -> float:
    """How many times its velocity noise the first receiver states; 1 without one."""
    if not receivers:
        return 1.0
    record = min(receivers, key=lambda sensor: sensor.instance).pack()
    noise = float(np.hypot(record["noise"][:2], record["bias_start"][:2]).max())
    return max(STATED_SPEED_ACCURACY / noise, 1.0) if noise > 0.0 else 1.0


def _error(sensor: ImuSpecification, axes: slice) -> tuple[float, float, float, float]:
    """White noise and bias walk as densities, deviation of the bias at the start and later; the worst axis.

    A bias without correlation time walks for ever; what it reaches in an hour counts for later.
    """
    record: NDArray[np.void] = sensor.pack()
    root = math.sqrt(sensor.period)
    step, left, constant = (record[name][axes] for name in ("bias_step", "bias_decay", "turn_on_sigma"))
    spread = np.where(
        left < 1.0, step / np.sqrt(np.maximum(1.0 - left**2, 1e-300)), step * math.sqrt(3600.0) / root
    )
    return (
        float(record["noise"][axes].max()) * root,
        float(step.max()) / root,
        float(np.hypot(record["bias_start"][axes], constant).max()),
        float(np.hypot(spread, constant).max()),
    )


def _magnetometers(sensors: list[MagnetometerSpecification]) -> Parameters:
    """Preflight checks expect one; without one the heading comes from moving.

    Up to v1.15 they count only those that an estimator uses, so that two would never be found
    (magnetometerCheck.cpp).
    """
    if not sensors:
        return {"SYS_HAS_MAG": 0, "EKF2_MAG_TYPE": MAGNETOMETER_NONE}
    first = min(sensors, key=lambda sensor: sensor.instance)
    return {"SYS_HAS_MAG": 1, "EKF2_MAG_DELAY": _delay(first.latency)}


def _satellites(sensors: list[GpsSpecification]) -> Parameters:
    """Place, delay and velocity noise of the first receiver; without one PX4 must not wait for it.

    EKF2 takes the greatest of EKF2_GPS_V_NOISE and the accuracy the receiver states (0.25 m/s on this link,
    SimulatorMavlink.cpp), half as much again for the vertical.  PX4's default of 0.3 m/s guards against
    receivers that state too good a figure; here the figure is known.  Of positions it takes the greatest of
    EKF2_GPS_P_NOISE, 0.5 m by default, and what the receiver states: where that is less, as of RTK, it is
    told.
    """
    if not sensors:
        return {"SYS_HAS_GPS": 0, "EKF2_GPS_CTRL": 0, "EKF2_HGT_REF": HEIGHT_BAROMETER}
    first = min(sensors, key=lambda sensor: sensor.instance)
    record = first.pack()
    noise = np.hypot(record["noise"][:3], record["bias_start"][:3]) / (1.0, 1.0, 1.5)
    found: Parameters = {
        "SYS_HAS_GPS": 1,
        "EKF2_GPS_DELAY": _delay(first.latency),
        "EKF2_GPS_V_NOISE": round(min(max(float(noise.max()), 0.01), 5.0), 3),
    }
    if first.eph < EKF_POSITION_NOISE:
        found["EKF2_GPS_P_NOISE"] = round(float(np.hypot(first.eph, MOVED_IN_A_STEP)), 3)
    return found | _place("EKF2_GPS_POS", first.position)


def _range_finder(airframe: Airframe, sensor: RangeFinderSpecification) -> Parameters:
    """A downward range finder, and what it reads while the vehicle stands."""
    ground = max(point[2] for point in airframe.contact.points)
    found: Parameters = {
        "SYS_HAS_NUM_DIST": 1,
        "EKF2_RNG_DELAY": _delay(sensor.latency),
        "EKF2_MIN_RNG": round(max(ground - sensor.position[2], 0.01), 3),
    }
    return found | _place("EKF2_RNG_POS", sensor.position)


def _flow(sensor: OpticalFlowSpecification) -> Parameters:
    """An optical flow camera: fused, how high it sees, and how far off a good sample may be.

    EKF2's gate of 3 deviations of 0.15 rad/s would reject a good sample of a 50 Hz camera every few minutes;
    it is opened to 5 deviations of the true noise, as PX4's own gates of GPS are.  The flow is turned by the
    gyroscope's angle, whose noise adds to it.
    """
    record = sensor.pack()
    noise = float(np.hypot(record["noise"][:2].max(), record["noise"][2:5].max())) / sensor.period
    gate = GATE * noise / FLOW_NOISE
    found: Parameters = {
        "EKF2_OF_CTRL": 1,
        "EKF2_OF_GATE": round(max(gate, FLOW_GATE), 2),
        "EKF2_OF_DELAY": _delay(sensor.latency),
        "SENS_FLOW_MAXHGT": min(max(sensor.maximum_height, 1.0), 100.0),
    }
    return found | _place("EKF2_OF_POS", sensor.position)


def _pressure(sensor: BarometerSpecification) -> Parameters:
    """EKF2_PCOEF_*: the static port's error is taken as known, as after the flight tests PX4 asks for."""
    x, y, z = (min(max(share, -0.5), 0.5) for share in sensor.airflow)
    found: Parameters = {"EKF2_PCOEF_XP": x, "EKF2_PCOEF_XN": x}
    found |= {"EKF2_PCOEF_YP": y, "EKF2_PCOEF_YN": y, "EKF2_PCOEF_Z": z}
    return {name: value for name, value in found.items() if value != 0.0}


def _delay(latency: float) -> float:
    """EKF2_*_DELAY in ms; PX4 stamps samples of this link when they arrive."""
    return round(min(latency * 1e3, LATEST), 1)


def _place(name: str, position: tuple[float, float, float]) -> Parameters:
    return {f"{name}_{axis}": value for axis, value in zip("XYZ", position, strict=True) if value != 0.0}
