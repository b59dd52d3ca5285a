"""Downward range finder and optical flow: what the ground below looks like from the vehicle."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from sitl_bridge.base.arrays import Floats, Records
from sitl_bridge.base.kernels.compiled import compiled, on_demand
from sitl_bridge.base.kernels.rotations import product, to_body, to_ned, transposed_product
from sitl_bridge.base.quantities import Positive
from sitl_bridge.core.dynamics.records import State
from sitl_bridge.core.sensors.axes import point_position, point_velocity, ray_distance
from sitl_bridge.core.sensors.error_model import ErrorSpecification, SensorSpecification, read_axis
from sitl_bridge.core.sensors.records import Sensor, SensorState
from sitl_bridge.core.world.records import Environment

RANGE_FINDER = 6
OPTICAL_FLOW = 7

CONE_RAYS = 8
"""Rays on the rim of the cone; with the one on its axis the nine of hector_quadrotor's sonar."""


class RangeFinderSpecification(SensorSpecification):
    """A range finder along the sensor's z axis (downward unless rotated), beam or cone."""

    code = RANGE_FINDER
    # m, nan: no return; then least and greatest m, variance m^2
    values: ClassVar = {"distance": 0}

    kind: Literal["range_finder"]
    instance: Literal[0] = 0
    error: ErrorSpecification = Field(description="m")
    minimum: Positive = Field(0.03, description="m (hector_quadrotor's sonar)")
    maximum: Positive = Field(3.0, description="m (hector_quadrotor's sonar)")
    cone: float = Field(0.0, ge=0.0, lt=120.0, description="deg, full opening angle; 0 = a beam")

    @model_validator(mode="after")
    def _validate_order(self) -> RangeFinderSpecification:
        if self.minimum >= self.maximum:
            raise ValueError("minimum must be less than maximum")
        return self

    def _fill(self, sensor: Records) -> None:
        self.error.fill(sensor, (0,), self.period)
        variance = float(sensor["noise"][0]) ** 2 + float(sensor["bias_start"][0]) ** 2
        sensor["parameter"][:4] = self.minimum, self.maximum, math.radians(self.cone) / 2.0, variance


class OpticalFlowSpecification(SensorSpecification):
    """A downward optical flow camera with its own gyroscope; integrates between its samples."""

    code = OPTICAL_FLOW
    # integrated rad, s, 0..255; at 6 the distance in m, nan: none
    values: ClassVar = {"flow": slice(0, 2), "gyroscope": slice(2, 5), "interval": 5, "quality": 7}

    kind: Literal["optical_flow"]
    instance: Literal[0] = 0
    flow: ErrorSpecification = Field(description="rad, of one integrated sample")
    gyroscope: ErrorSpecification = Field(description="rad, of one integrated sample")
    maximum_height: Positive = Field(30.0, description="m above which the texture is lost")

    def _fill(self, sensor: Records) -> None:
        self.flow.fill(sensor, (0, 1), self.period)
        self.gyroscope.fill(sensor, (2, 3, 4), self.period)
        sensor["parameter"][0] = self.maximum_height


@compiled
def distance_along(environment: Environment, sensor: Sensor, state: State, tilt: float, turn: float) -> float:
    """Distance in m to what a ray ``tilt`` rad off the sensor's z axis meets, ground or object; inf: none."""
    north, east, down = point_position(sensor, state)
    x = math.sin(tilt) * math.cos(turn)
    y = math.sin(tilt) * math.sin(turn)
    z = math.cos(tilt)
    u, v, w = transposed_product(sensor.rotation, x, y, z)
    n, e, slope = to_ned(state.attitude, u, v, w)
    scene = environment.scene
    if scene.shape_count > 0 or scene.groundless != 0:
        return ray_distance(scene, (north, east, down), (n, e, slope))
    if slope <= 0.0:
        return math.inf
    return max(-down, 0.0) / slope


@on_demand
def sample_range_finder(
    environment: Environment, state: State, sensor: Sensor, memory: SensorState, out: Floats
) -> None:
    """Least distance over the rays of the cone (hector, "Ultrasonic Sensor"); nan where nothing returns."""
    distance = distance_along(environment, sensor, state, 0.0, 0.0)
    half = sensor.parameter[2]
    if half > 0.0:
        for ray in range(CONE_RAYS):
            turn = ray * 2.0 * math.pi / CONE_RAYS
            distance = min(distance, distance_along(environment, sensor, state, half, turn))
    measured = read_axis(sensor, memory, 0, distance)
    out[0] = measured
    if not sensor.parameter[0] <= measured <= sensor.parameter[1]:
        out[0] = math.nan
    out[1] = sensor.parameter[0]
    out[2] = sensor.parameter[1]
    out[3] = sensor.parameter[3]


@on_demand
def integrate_flow(
    environment: Environment, state: State, sensor: Sensor, memory: SensorState, seconds: float
) -> None:
    """Add one step to the flow and the rotation seen since the last sample.

    Flow about x = w_x - v_y/d, about y = w_y + v_x/d: right-handed rotation about an axis makes positive
    flow about it, motion along +y negative and along +x positive flow (MAVLink HIL_OPTICAL_FLOW).
    """
    p, q, r = state.angular_velocity
    p, q, r = product(sensor.rotation, p, q, r)
    distance = distance_along(environment, sensor, state, 0.0, 0.0)
    n, e, d = point_velocity(sensor, state)
    u, v, w = to_body(state.attitude, n, e, d)
    x, y, _ = product(sensor.rotation, u, v, w)
    memory.memory[0] += (p - y / max(distance, 0.01)) * seconds
    memory.memory[1] += (q + x / max(distance, 0.01)) * seconds
    memory.memory[2] += p * seconds
    memory.memory[3] += q * seconds
    memory.memory[4] += r * seconds
    memory.memory[5] += seconds


@compiled
def forget_flow(memory: SensorState) -> None:
    """Drop what was integrated: a camera that is off sees nothing of what happens meanwhile."""
    for axis in range(6):
        memory.memory[axis] = 0.0


@on_demand
def sample_optical_flow(
    environment: Environment, state: State, sensor: Sensor, memory: SensorState, out: Floats
) -> None:
    """Integrated flow and rotation since the last sample; quality 0 where the ground is out of sight."""
    for axis in range(5):
        out[axis] = read_axis(sensor, memory, axis, memory.memory[axis])
        memory.memory[axis] = 0.0
    out[5] = memory.memory[5]
    memory.memory[5] = 0.0
    distance = distance_along(environment, sensor, state, 0.0, 0.0)
    out[6] = math.nan
    out[7] = 0.0
    if distance <= sensor.parameter[0]:
        out[7] = 255.0
