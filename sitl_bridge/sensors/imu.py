"""Accelerometer and gyroscope of one inertial measurement unit."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from sitl_bridge.kernels.compiled import compiled
from sitl_bridge.quantities import Positive
from sitl_bridge.sensors.axes import to_sensor
from sitl_bridge.sensors.error_model import ErrorSpecification, SensorSpecification, reading
from sitl_bridge.sensors.records import IMU
from sitl_bridge.world.atmosphere import air

ZERO_CELSIUS = 273.15
STANDARD_GRAVITY = 9.80665


class ImuSpecification(SensorSpecification):
    """An inertial measurement unit.

    The default ranges are those of PX4's simulated inertial sensor (SimulatorMavlink.cpp: 16 g, 2000 deg/s).
    """

    kind: Literal["imu"]
    instance: int = Field(0, ge=0, le=2, description="sensor id on the simulator link; 0 drives the lockstep")
    accelerometer: ErrorSpecification = Field(description="m/s^2")
    gyroscope: ErrorSpecification = Field(description="rad/s")
    accelerometer_range: Positive = Field(16.0 * STANDARD_GRAVITY, description="m/s^2")
    gyroscope_range: Positive = Field(math.radians(2000.0), description="rad/s")

    def pack(self) -> NDArray[np.void]:
        """() SENSOR."""
        sensor = self.record(IMU)
        sensor["axis_count"] = 6
        self.accelerometer.fill(sensor, (0, 1, 2), self.period)
        self.gyroscope.fill(sensor, (3, 4, 5), self.period)
        sensor["limit"][0:3], sensor["limit"][3:6] = self.accelerometer_range, self.gyroscope_range
        return sensor


@compiled
def sample_imu(state: Any, environment: Any, sensor: Any, memory: Any, out: Any) -> None:
    """Sample specific force and angular rate at the sensor, in its axes, at the end of the step.

    f = f_cg + dw/dt x r + w x (w x r) (rigid body).  Instantaneous values, not means over the step: PX4
    integrates samples by the trapezoidal rule (src/lib/.../Integrator.hpp), which is exact to second order
    for instantaneous values; means would lag by half a step.
    """
    p = state.angular_velocity[0]
    q = state.angular_velocity[1]
    r = state.angular_velocity[2]
    dp = state.angular_acceleration[0]
    dq = state.angular_acceleration[1]
    dr = state.angular_acceleration[2]
    x = sensor.position[0]
    y = sensor.position[1]
    z = sensor.position[2]
    cx = q * z - r * y
    cy = r * x - p * z
    cz = p * y - q * x
    ax, ay, az = to_sensor(
        sensor,
        state.specific_force[0] + dq * z - dr * y + q * cz - r * cy,
        state.specific_force[1] + dr * x - dp * z + r * cx - p * cz,
        state.specific_force[2] + dp * y - dq * x + p * cy - q * cx,
    )
    gx, gy, gz = to_sensor(sensor, p, q, r)
    out[0] = reading(sensor, memory, 0, ax)
    out[1] = reading(sensor, memory, 1, ay)
    out[2] = reading(sensor, memory, 2, az)
    out[3] = reading(sensor, memory, 3, gx)
    out[4] = reading(sensor, memory, 4, gy)
    out[5] = reading(sensor, memory, 5, gz)
    temperature, _, _ = air(environment, state.position[2])
    out[6] = temperature - ZERO_CELSIUS
