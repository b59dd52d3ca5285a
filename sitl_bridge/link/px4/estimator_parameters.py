"""PX4 parameters of the estimator and its preflight checks, from an airframe's sensors.

Number, position, delay and noise of the sensors; noise only if PX4's defaults assume less.
"""

from __future__ import annotations

import math

import numpy as np

from sitl_bridge.base.arrays import Records
from sitl_bridge.core.sensors.error_model import SensorSpecification
from sitl_bridge.core.sensors.gps import GpsSpecification
from sitl_bridge.core.sensors.imu import ImuSpecification
from sitl_bridge.core.sensors.magnetometer import MagnetometerSpecification
from sitl_bridge.core.sensors.perception.lidar import LidarSpecification
from sitl_bridge.core.sensors.perception.view import PerceptionSpecification
from sitl_bridge.core.sensors.perception.visual_odometry import VisualOdometrySpecification
from sitl_bridge.core.sensors.pressure import AirspeedSpecification, BarometerSpecification
from sitl_bridge.core.sensors.ranging import OpticalFlowSpecification, RangeFinderSpecification
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.vehicle.control_effectiveness import Parameters
from sitl_bridge.core.vehicle.perception_settings import odometry

PREDICTION_PERIOD = 0.01
"""EKF2_PREDICT_US, s: EKF2_*_NOISE are standard deviations of a mean over this period."""
MAX_DELAY = 300.0
"""Largest EKF2_*_DELAY, ms."""
DEFAULT_MAX_DELAY = 200.0
"""Default of EKF2_DELAY_MAX, ms."""
DEFAULT_INTEGRATION_RATE = 250
"""IMU_INTEG_RATE in px4-rc.simulator, Hz."""
MOST_RATE = 1000
EKF_POSITION_NOISE, EKF_VELOCITY_NOISE = 0.5, 0.3
"""Defaults of EKF2_GPS_P_NOISE, m, and EKF2_GPS_V_NOISE, m/s."""

STEP_DISTANCE = 0.02
"""Distance flown at 5 m/s between two inertial samples, m, to which EKF2 rounds the time of a fix; the
messages' rounding of 1e-7 deg, 11 mm, is smaller."""

HEIGHT_BAROMETER = 0
"""EKF2_HGT_REF."""
MAGNETOMETER_NONE = 5
"""EKF2_MAG_TYPE."""
FLOW_NOISE, FLOW_GATE = 0.15, 3.0
"""Defaults of EKF2_OF_N_MIN (rad/s) and EKF2_OF_GATE (standard deviations)."""
GATE = 5.0
"""Default of EKF2_GPS_P_GATE and EKF2_GPS_V_GATE, standard deviations."""
BIAS_DEVIATIONS = 4.0
"""Standard deviations of a bias within its EKF2 limit; the commander warns at 0.75 of the limit (3
deviations)."""


def estimator_parameters(airframe: Airframe) -> Parameters:
    """Return the EKF2_*, SENS_* and SYS_HAS_* parameters of an airframe's sensors."""
    inertial = [s for s in airframe.sensors if isinstance(s, ImuSpecification)]
    receivers = [s for s in airframe.sensors if isinstance(s, GpsSpecification)]
    found = _inertial(inertial)
    found |= _magnetometers([s for s in airframe.sensors if isinstance(s, MagnetometerSpecification)])
    found |= _satellites(receivers)
    barometers = [s for s in airframe.sensors if isinstance(s, BarometerSpecification)]
    found |= {"SYS_HAS_BARO": len(barometers)}
    for barometer in barometers:
        found["EKF2_BARO_DELAY"] = _delay(barometer.latency)
    for sensor in airframe.sensors:
        if isinstance(sensor, RangeFinderSpecification):
            found |= _range_finder(airframe, sensor)
        elif isinstance(sensor, OpticalFlowSpecification):
            found |= _flow(sensor)
        elif isinstance(sensor, AirspeedSpecification):
            found |= {"SYS_HAS_NUM_ASPD": 1, "EKF2_ASP_DELAY": _delay(sensor.latency)}
    external = odometry(airframe)
    if external is not None:
        found |= _external_vision(*external)
    fused = SensorSpecification | VisualOdometrySpecification | LidarSpecification
    latest = 1e3 * max(s.latency for s in airframe.sensors if isinstance(s, fused))
    if latest > DEFAULT_MAX_DELAY:
        found["EKF2_DELAY_MAX"] = min(math.ceil(latest) + 50.0, 1000.0)
    return found


def _external_vision(sensor: PerceptionSpecification, control: int) -> Parameters:
    """External vision: position, velocity where there is one, and the heading of one in the world's axes.

    PX4 turns another, whose frame is level and has any heading, to its own (ev_pos_control.cpp, FRD), so the
    magnetometer takes the drift of its heading away.  Noises stay PX4's, which are above the sensor's.
    """
    return {
        "EKF2_EV_CTRL": control,
        "EKF2_EV_DELAY": _delay(sensor.latency),
        **_place("EKF2_EV_POS", sensor.position),
    }


def _inertial(sensors: list[ImuSpecification]) -> Parameters:
    """Return number, position and rate of the inertial sensors, and noise above PX4's defaults.

    EKF2 adds (deviation * dt)^2 per prediction of dt = 10 ms to the variance of velocity and angle
    (covariance.cpp), so a density N is a deviation N/sqrt(dt); likewise a bias random walk of density B.

    """
    first = next(sensor for sensor in sensors if sensor.instance == 0)
    accelerometer, gyroscope = _error(first, slice(0, 3)), _error(first, slice(3, 6))
    root = math.sqrt(PREDICTION_PERIOD)
    found: Parameters = {"EKF2_MULTI_IMU": len(sensors), "SENS_IMU_MODE": 0}
    found |= _place("EKF2_IMU_POS", first.position)
    if first.rate != DEFAULT_INTEGRATION_RATE:
        found["IMU_INTEG_RATE"] = min(round(first.rate), MOST_RATE)
    for name, needed, default, most in (
        ("EKF2_ACC_NOISE", accelerometer[0] / root, 0.35, 1.0),
        ("EKF2_GYR_NOISE", gyroscope[0] / root, 0.015, 0.1),
        ("EKF2_ACC_B_NOISE", accelerometer[1] / root, 0.003, 0.01),
        ("EKF2_GYR_B_NOISE", gyroscope[1] / root, 0.001, 0.01),
        ("EKF2_ABIAS_INIT", accelerometer[2], 0.2, 0.5),
        ("EKF2_GBIAS_INIT", gyroscope[2], 0.1, 0.2),
        ("EKF2_ABL_LIM", BIAS_DEVIATIONS * accelerometer[3], 0.4, 0.8),
        ("EKF2_GYR_B_LIM", BIAS_DEVIATIONS * gyroscope[3], 0.15, 0.4),
    ):
        value = round(min(needed, most), 5)
        if value > default:
            found[name] = value
    return found


def _error(sensor: ImuSpecification, axes: slice) -> tuple[float, float, float, float]:
    """Return densities of white noise and bias walk, initial and later bias deviation, on the worst axis.

    A bias without correlation time is an unbounded random walk; its deviation after an hour counts as the
    later one.
    """
    record: Records = sensor.pack()
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
    """Return the number of magnetometers for the preflight checks; without one, motion gives the heading.

    Up to v1.15 the checks count only those used by an estimator, so that two would never be found
    (magnetometerCheck.cpp).
    """
    if not sensors:
        return {"SYS_HAS_MAG": 0, "EKF2_MAG_TYPE": MAGNETOMETER_NONE}
    first = min(sensors, key=lambda sensor: sensor.instance)
    return {"SYS_HAS_MAG": 1, "EKF2_MAG_DELAY": _delay(first.latency)}


def _satellites(sensors: list[GpsSpecification]) -> Parameters:
    """Return position, delay and noise of the first receiver; without one PX4 must not wait for it.

    EKF2 takes 1.5 times the velocity's noise for the vertical.  For positions it uses the larger of
    EKF2_GPS_P_NOISE, 0.5 m by default, and the stated accuracy; if the latter is smaller, as for RTK, the
    parameter is set to it.
    """
    if not sensors:
        return {"SYS_HAS_GPS": 0, "EKF2_GPS_CTRL": 0, "EKF2_HGT_REF": HEIGHT_BAROMETER}
    first = min(sensors, key=lambda sensor: sensor.instance)
    record = first.pack()
    noise = np.hypot(record["noise"][:3], record["bias_start"][:3]) / (1.0, 1.0, 1.5)
    found: Parameters = {"SYS_HAS_GPS": 1, "EKF2_GPS_DELAY": _delay(first.latency)}
    if noise.max() > EKF_VELOCITY_NOISE:
        found["EKF2_GPS_V_NOISE"] = round(min(float(noise.max()), 5.0), 3)
    if first.eph < EKF_POSITION_NOISE:
        found["EKF2_GPS_P_NOISE"] = round(float(np.hypot(first.eph, STEP_DISTANCE)), 3)
    return found | _place("EKF2_GPS_POS", first.position)


def _range_finder(airframe: Airframe, sensor: RangeFinderSpecification) -> Parameters:
    """Return the parameters of a downward range finder and its reading on the ground."""
    ground = max(point[2] for point in airframe.contact.points)
    found: Parameters = {
        "SYS_HAS_NUM_DIST": 1,
        "EKF2_RNG_DELAY": _delay(sensor.latency),
        "EKF2_MIN_RNG": round(max(ground - sensor.position[2], 0.01), 3),
    }
    # EKF2 corrects a beam that is pitched from straight down, positive to the front (EKF2_RNG_PITCH).
    beam = sensor.pack()["rotation"][2]
    if abs(beam[0]) > 1e-9 and abs(beam[1]) < 1e-9:
        found["EKF2_RNG_PITCH"] = round(min(max(math.atan2(beam[0], beam[2]), -0.75), 0.75), 4)
    return found | _place("EKF2_RNG_POS", sensor.position)


def _flow(sensor: OpticalFlowSpecification) -> Parameters:
    """Return the parameters of an optical flow camera: fusion, largest height, innovation gate.

    EKF2's gate of 3 standard deviations of 0.15 rad/s would reject a good sample of a 50 Hz camera every few
    minutes; it is widened to 5 standard deviations of the true noise, as PX4's own GNSS gates.  The
    gyroscope's angle compensates the flow, so its noise is added.
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
    eighths = round(sensor.rotation[2] / 45.0) % 8
    if eighths != 0:  # of a turn about the vertical; PX4 turns the flow back into the body's axes
        found["SENS_FLOW_ROT"] = eighths
    return found | _place("EKF2_OF_POS", sensor.position)


def _delay(latency: float) -> float:
    """Return EKF2_*_DELAY in ms; PX4 stamps samples of this link on arrival."""
    return round(min(latency * 1e3, MAX_DELAY), 1)


def _place(name: str, position: tuple[float, float, float]) -> Parameters:
    return {f"{name}_{axis}": value for axis, value in zip("XYZ", position, strict=True) if value != 0.0}
