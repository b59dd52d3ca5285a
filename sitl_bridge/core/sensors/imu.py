"""Accelerometer and gyroscope of one inertial measurement unit."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

from pydantic import Field

from sitl_bridge.base.arrays import Floats, Records
from sitl_bridge.base.constants import STANDARD_GRAVITY
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.base.kernels.random_streams import normal
from sitl_bridge.base.kernels.rotations import product
from sitl_bridge.base.quantities import NonNegative, Positive
from sitl_bridge.core.dynamics.records import State, Vehicle
from sitl_bridge.core.dynamics.vibration import vibration
from sitl_bridge.core.sensors.error_model import ErrorSpecification, SensorSpecification, read_axis
from sitl_bridge.core.sensors.records import Sensor, SensorState
from sitl_bridge.core.world.atmosphere import air
from sitl_bridge.core.world.records import Environment

IMU = 1

ZERO_CELSIUS = 273.15
REFERENCE_TEMPERATURE = 25.0
"""deg C."""
ACCELEROMETER_RANGE = 16.0 * STANDARD_GRAVITY
GYROSCOPE_RANGE = math.radians(2000.0)
"""m/s^2 and rad/s, of PX4's simulated inertial sensor (SimulatorMavlink.cpp)."""

# Indices in ``parameter``.
PASSED = 0  # share of the vibration
MISALIGNMENT = 1  # rad
DRIFT = 2  # m/s^2/K and rad/s/K
HEATING = 4  # K, and share of the warm-up time in a period
WARM = 8  # K at the start
BANDWIDTH = 6  # Hz, inf for none
INTERVAL = 7  # s, over which samples are means of the vibration; 0 for none
MEANS = 9  # number of means of two samples that PX4 forms of the accelerometer's
# Indices in ``memory``.
TURN = 0  # three small angles of the accelerometer's axes, three of the gyroscope's, rad
COEFFICIENT = 6  # three of the accelerometer's bias, three of the gyroscope's
WARMTH = 12  # K above the air
MORE = 13  # three: m/s^2 by which a sample on the link is more, because of these means
SHARPENED = 16  # six: state of ``_sharpen``
SHARPNESS = 0.6
"""See ``_sharpen``."""


class ImuSpecification(SensorSpecification):
    """An inertial measurement unit.

    Temperature drift is zero at 25 deg C, at which data sheets state biases.  The flight stack does not know
    ``rotation``, which acts as a mounting error.  The default ranges are those of PX4's simulated
    inertial sensor (SimulatorMavlink.cpp: 16 g, 2000 deg/s).
    """

    code = IMU
    # specific force m/s^2 and angular rate rad/s, body FRD, temperature deg C
    values: ClassVar = {"specific_force": slice(0, 3), "angular_velocity": slice(3, 6), "temperature": 6}

    kind: Literal["imu"]
    instance: int = Field(0, ge=0, le=2, description="sensor id on the simulator link; 0 drives the lockstep")
    accelerometer: ErrorSpecification = Field(description="m/s^2")
    gyroscope: ErrorSpecification = Field(description="rad/s")
    misalignment: NonNegative = Field(
        0.0, le=10.0, description="deg, deviation of the sensor's axes from their nominal ones, drawn once"
    )
    accelerometer_drift: NonNegative = Field(
        0.0, description="m/s^2/K, deviation of the bias's temperature coefficient, drawn once per axis"
    )
    gyroscope_drift: NonNegative = Field(0.0, description="rad/s/K, likewise")
    self_heating: NonNegative = Field(0.0, description="K above the air, once warm")
    warm_up_time: Positive = Field(120.0, description="s, time constant of the self-heating")
    powered: NonNegative = Field(0.0, description="s for which the unit has warmed up at the start")
    isolation: float = Field(
        0.0, ge=0.0, le=1.0, description="share of the vehicle's vibration that the mount keeps away"
    )
    bandwidth: Positive | None = Field(
        None, description="Hz, -3 dB of the second-order filter between the vehicle's vibration and a sample"
    )
    averaging: bool = Field(
        False,
        description="whether a sample is the mean of the vibration since the last one, as PX4's drivers form"
        " it of a unit's samples at some kHz; else the vibration at its time",
    )
    accelerometer_range: Positive = Field(ACCELEROMETER_RANGE, description="m/s^2")
    gyroscope_range: Positive = Field(GYROSCOPE_RANGE, description="rad/s")

    def _fill(self, sensor: Records) -> None:
        self.accelerometer.fill(sensor, (0, 1, 2), self.period)
        self.gyroscope.fill(sensor, (3, 4, 5), self.period)
        sensor["parameter"][PASSED] = 1.0 - self.isolation
        sensor["parameter"][MISALIGNMENT] = math.radians(self.misalignment)
        sensor["parameter"][DRIFT : DRIFT + 2] = self.accelerometer_drift, self.gyroscope_drift
        sensor["parameter"][HEATING : HEATING + 2] = self.self_heating, self.period / self.warm_up_time
        sensor["parameter"][WARM] = self.self_heating * -math.expm1(-self.powered / self.warm_up_time)
        sensor["parameter"][BANDWIDTH] = self.bandwidth or math.inf
        if self.averaging:
            sensor["parameter"][INTERVAL], sensor["parameter"][MEANS] = self.period, _means(self.instance)
        sensor["limit"][0:3], sensor["limit"][3:6] = self.accelerometer_range, self.gyroscope_range


def _means(instance: int) -> int:
    """Number of means of two samples that PX4 forms of an accelerometer's, which it takes for instantaneous.

    VehicleIMU.cpp integrates all by the trapezoidal rule, PX4Accelerometer::updateFIFO that of ID 0 before.
    """
    return 2 if instance == 0 else 1


def leave_unsharpened(sensors: Records) -> Records:
    """Sensors (s,) SENSOR for a flight stack without PX4's means, which takes samples as they are."""
    taken = sensors.copy()
    taken["parameter"][taken["kind"] == IMU, MEANS] = 0.0
    return taken


@compiled
def start_imu(sensor: Sensor, memory: SensorState) -> None:
    """Draw misalignments and temperature coefficients; an ideal unit draws nothing from its stream."""
    memory.memory[WARMTH] = sensor.parameter[WARM]
    for deviation, first in (
        (sensor.parameter[MISALIGNMENT], TURN),
        (sensor.parameter[MISALIGNMENT], TURN + 3),
        (sensor.parameter[DRIFT], COEFFICIENT),
        (sensor.parameter[DRIFT + 1], COEFFICIENT + 3),
    ):
        if deviation > 0.0:
            for axis in range(3):
                number = normal(memory.random)
                memory.memory[first + axis] = deviation * number


@compiled
def _rotate_slightly(
    memory: SensorState, first: int, x: float, y: float, z: float
) -> tuple[float, float, float]:
    """A vector in axes that are turned by small angles."""
    a, b, c = memory.memory[first], memory.memory[first + 1], memory.memory[first + 2]
    return x + c * y - b * z, y + a * z - c * x, z + b * x - a * y


@compiled
def _drift(sensor: Sensor, memory: SensorState, temperature: float, out: Floats) -> None:
    """Warm the unit up, and add what its temperature (deg C) does to its biases."""
    heating = sensor.parameter[HEATING]
    memory.memory[WARMTH] += sensor.parameter[HEATING + 1] * (heating - memory.memory[WARMTH])
    out[6] = temperature + memory.memory[WARMTH]
    for axis in range(6):
        change = memory.memory[COEFFICIENT + axis] * (out[6] - REFERENCE_TEMPERATURE)
        limit = sensor.limit[axis]
        out[axis] = min(max(out[axis] + change, -limit), limit)


@compiled
def _sharpen(sensor: Sensor, memory: SensorState, broad: Floats, lines: Floats) -> None:
    """Find by how much more a sample is sent, so that PX4's means leave the vibration as a real unit has it.

    Of a line at 100 Hz two means leave a tenth at 250 Hz.  Lines come sharpened, their frequency being known;
    of broad noise a mean's inverse has a pole at -1, and with one at -SHARPNESS, 0.97 and 0.63 of what is at
    50 and 100 Hz are left by two.  It makes 16 times of what is at half the rate.

    Args:
        broad: (3,) m/s^2 body, of turbulent air.
        lines: (3,) m/s^2 body, that lines need more.
    """
    a, m, means = SHARPNESS, memory.memory, sensor.parameter[MEANS]
    noise = product(sensor.rotation, broad[0], broad[1], broad[2])
    more = product(sensor.rotation, lines[0], lines[1], lines[2])
    for axis in range(3):
        at = SHARPENED + axis
        m[at] = (1.0 + a) * noise[axis] - a * m[at]
        m[at + 3] = (1.0 + a) * m[at] - a * m[at + 3]
        m[MORE + axis] = more[axis] + (m[at + 3] if means > 1.0 else m[at]) - noise[axis]


@compiled
def sample_imu(
    vehicle: Vehicle, state: State, environment: Environment, sensor: Sensor, memory: SensorState, out: Floats
) -> None:
    """Sample specific force and angular rate at the sensor, in its axes, at the end of the step.

    f = f_cg + dw/dt x r + w x (w x r) (rigid body); the gyroscope adds the Earth's rotation.  Instantaneous
    values, not means over the step: PX4 integrates samples by the trapezoidal rule
    (src/lib/.../Integrator.hpp), which is exact to second order for instantaneous values; means would lag by
    half a step.
    """
    p, q, r = state.angular_velocity
    dp, dq, dr = state.angular_acceleration
    x, y, z = sensor.position
    cx = q * z - r * y
    cy = r * x - p * z
    cz = p * y - q * x
    fx = state.specific_force[0] + dq * z - dr * y + q * cz - r * cy
    fy = state.specific_force[1] + dr * x - dp * z + r * cx - p * cz
    fz = state.specific_force[2] + dp * y - dq * x + p * cy - q * cx
    if state.vibrating != 0:
        passed, interval, means = (
            sensor.parameter[PASSED],
            sensor.parameter[INTERVAL],
            sensor.parameter[MEANS],
        )
        for axis in range(6):
            out[axis] = 0.0
        vibration(vehicle, state, sensor.position[:], sensor.parameter[BANDWIDTH], interval, means, out[:])
        fx += passed * out[0]
        fy += passed * out[1]
        fz += passed * out[2]
        p += passed * out[3]
        q += passed * out[4]
        r += passed * out[5]
        if means > 0.0:
            for axis in range(3):
                out[axis] = state.buffet_past[axis] + passed * state.buffet_felt[axis]
                out[3 + axis] = passed * out[6 + axis]
            _sharpen(sensor, memory, out[0:3], out[3:6])
        for axis in range(6, 9):
            out[axis] = 0.0
    elif sensor.parameter[MEANS] > 0.0:
        for axis in range(9):
            memory.memory[MORE + axis] = 0.0
    qw, qx, qy, qz = state.attitude
    north, down = environment.earth_rate
    p += north * (1.0 - 2.0 * (qy * qy + qz * qz)) + down * 2.0 * (qx * qz - qw * qy)
    q += north * 2.0 * (qx * qy - qw * qz) + down * 2.0 * (qy * qz + qw * qx)
    r += north * 2.0 * (qx * qz + qw * qy) + down * (1.0 - 2.0 * (qx * qx + qy * qy))
    ax, ay, az = product(sensor.rotation, fx, fy, fz)
    gx, gy, gz = product(sensor.rotation, p, q, r)
    if sensor.parameter[MISALIGNMENT] > 0.0:
        ax, ay, az = _rotate_slightly(memory, TURN, ax, ay, az)
        gx, gy, gz = _rotate_slightly(memory, TURN + 3, gx, gy, gz)
    out[0] = read_axis(sensor, memory, 0, ax)
    out[1] = read_axis(sensor, memory, 1, ay)
    out[2] = read_axis(sensor, memory, 2, az)
    out[3] = read_axis(sensor, memory, 3, gx)
    out[4] = read_axis(sensor, memory, 4, gy)
    out[5] = read_axis(sensor, memory, 5, gz)
    temperature, _, _ = air(environment, state.position[2])
    out[6] = temperature - ZERO_CELSIUS
    if sensor.parameter[DRIFT] + sensor.parameter[DRIFT + 1] + sensor.parameter[HEATING] > 0.0:
        _drift(sensor, memory, out[6], out)
