"""Barometer and airspeed sensor: static and differential pressure."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

from pydantic import Field

from sitl_bridge.base.arrays import Floats, Records
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.base.kernels.rotations import product, to_body
from sitl_bridge.base.quantities import NonNegative, Positive, Vector
from sitl_bridge.core.dynamics.records import State, Vehicle
from sitl_bridge.core.sensors.axes import point_position, point_velocity
from sitl_bridge.core.sensors.error_model import ErrorSpecification, SensorSpecification, Share, read_axis
from sitl_bridge.core.sensors.imu import ZERO_CELSIUS
from sitl_bridge.core.sensors.records import Sensor, SensorState
from sitl_bridge.core.world.atmosphere import air, pressure_altitude
from sitl_bridge.core.world.records import Environment

BAROMETER = 3
AIRSPEED = 5


class BarometerSpecification(SensorSpecification):
    """A static pressure sensor; PX4 publishes one sample as two sensors."""

    code = BAROMETER
    # Pa absolute, deg C, m
    values: ClassVar = {"pressure": 0, "temperature": 1, "pressure_altitude": 2}

    kind: Literal["barometer"]
    instance: Literal[0] = 0
    error: ErrorSpecification = Field(description="Pa")
    airflow: Vector = Field(
        (0.0, 0.0, 0.0),
        description="share of the dynamic pressure along each body axis that acts on the static port"
        "; PX4 corrects it with EKF2_PCOEF_* once they are measured in flight, and as shipped does not",
    )

    rotor_wash: Share = Field(
        0.0,
        description="pressure at the port by the rotors' flow, share of the disc loading; negative: suction",
    )
    ground_cushion: NonNegative = Field(
        0.0,
        le=10.0,
        description="pressure at the port by the air that the rotors dam up over the ground, over the disc"
        " loading times the ground effect",
    )

    def _fill(self, sensor: Records) -> None:
        self.error.fill(sensor, (0,), self.period)
        sensor["parameter"][:3] = self.airflow
        sensor["parameter"][3:5] = self.rotor_wash, self.ground_cushion


class AirspeedSpecification(SensorSpecification):
    """A pitot tube along the sensor's x axis with a differential pressure sensor."""

    code = AIRSPEED
    # Pa, deg C
    values: ClassVar = {"differential_pressure": 0, "temperature": 1}

    kind: Literal["airspeed"]
    instance: Literal[0] = 0
    error: ErrorSpecification = Field(description="Pa")
    pressure_range: Positive | None = Field(None, description="Pa, largest magnitude")

    def _fill(self, sensor: Records) -> None:
        self.error.fill(sensor, (0,), self.period)
        if self.pressure_range is not None:
            sensor["limit"][0] = self.pressure_range


@compiled
def _flow(state: State, sensor: Sensor) -> tuple[float, float, float]:
    """Return the velocity of the sensor through the air, body axes, m/s."""
    n, e, d = point_velocity(sensor, state)
    return to_body(state.attitude, n - state.wind[0], e - state.wind[1], d - state.wind[2])


@compiled
def _rotor_pressure(vehicle: Vehicle, state: State, sensor: Sensor, down: float) -> float:
    """Pressure of the rotors' flow at the port in Pa.

    The pressure jump through a rotor's disc is its loading T/A (momentum theory).  Over ground, thrust
    grows by 1/(1 - (R/4z)^2) (Cheeseman and Bennett, ARC R&M 3021, 1955), here of one disc with the area
    of all; the same share of the loading is dammed up below.
    """
    thrust, area = 0.0, 0.0
    for k in range(vehicle.rotor_count):
        thrust += state.rotor_thrust[k]
        area += math.pi * vehicle.rotor_radius[k] * vehicle.rotor_radius[k]
    if area <= 0.0:
        return 0.0
    share = sensor.parameter[3]
    if sensor.parameter[4] > 0.0:
        radius = math.sqrt(area / math.pi)
        ratio = radius / (4.0 * max(state.floor - down, 0.5 * radius))
        share += sensor.parameter[4] * (1.0 / (1.0 - ratio * ratio) - 1.0)
    return share * thrust / area


@compiled
def sample_barometer(
    vehicle: Vehicle, state: State, environment: Environment, sensor: Sensor, memory: SensorState, out: Floats
) -> None:
    """Sample the static pressure with the port's dynamic-pressure error, dp = 1/2 rho sum(k_i v_i^2)."""
    _, _, down = point_position(sensor, state)
    temperature, pressure, density = air(environment, down)
    u, v, w = _flow(state, sensor)
    k = sensor.parameter
    pressure += 0.5 * density * (k[0] * u * u + k[1] * v * v + k[2] * w * w)
    if sensor.parameter[3] != 0.0 or sensor.parameter[4] != 0.0:
        pressure += _rotor_pressure(vehicle, state, sensor, down)
    out[0] = read_axis(sensor, memory, 0, pressure)
    out[1] = temperature - ZERO_CELSIUS
    out[2] = pressure_altitude(out[0])


@compiled
def sample_airspeed(
    state: State, environment: Environment, sensor: Sensor, memory: SensorState, out: Floats
) -> None:
    """Sample the differential pressure of a pitot tube, 1/2 rho u |u| (incompressible)."""
    _, _, down = point_position(sensor, state)
    temperature, _, density = air(environment, down)
    u, v, w = _flow(state, sensor)
    along, _, _ = product(sensor.rotation, u, v, w)
    out[0] = read_axis(sensor, memory, 0, 0.5 * density * along * abs(along))
    out[1] = temperature - ZERO_CELSIUS
