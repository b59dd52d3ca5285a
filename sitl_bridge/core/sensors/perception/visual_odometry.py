"""Visual odometry: the estimate of a camera's program that follows the vehicle's motion, errors included.

The true motion is distorted as a program that integrates from picture to picture distorts it.  No picture is
made.
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field, field_validator

from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.quantities import NonNegative, Vector
from sitl_bridge.base.rotations import matrix_from_euler, quaternion_from_matrix
from sitl_bridge.core.sensors.perception.view import Arrays, PerceptionSpecification, Processor, Rate, View


class VisualOdometrySpecification(PerceptionSpecification):
    """An estimate of the sensor's place, from the place and heading at which it starts.

    Position and heading drift as random walks over the distance flown.  The defaults are of VINS-Mono without
    loop closure on EuRoC (Delmerico and Scaramuzza, ICRA 2018): 0.1 to 0.3 m off after flights of 60 to
    130 m, which is 0.02 m times the square root of the metres.
    """

    sees_vehicles: ClassVar[bool] = False
    kind: Literal["visual_odometry"]
    rate: Rate = Field(30.0, description="Hz")
    drift: NonNegative = Field(
        0.02, description="m, standard deviation of each position after 1 m; grows with the root of the way"
    )
    yaw_drift: NonNegative = Field(
        0.05, description="deg, standard deviation of the heading after 1 m; grows with the root of the way"
    )
    noise: NonNegative = Field(0.005, description="m, standard deviation of each position by itself")
    angle_noise: NonNegative = Field(0.1, description="deg, standard deviation of each angle by itself")
    velocity_noise: NonNegative = Field(0.03, description="m/s, standard deviation of each velocity")
    world_axes: bool = Field(
        False,
        description="its axes are the world's, north, east, down from the origin, as a motion-capture"
        " system's: PX4 fuses its heading, too",
    )
    resets: tuple[NonNegative, ...] = Field(
        (), description="s since the start, at which it recognises the place and its drift goes to zero"
    )

    @field_validator("rotation")
    @classmethod
    def _validate_mounting(cls, rotation: Vector) -> Vector:
        if any(rotation):
            raise ValueError("visual odometry reports the body's attitude: leave rotation out")
        return rotation

    @property
    def exposure(self) -> float:
        """s over which velocity is measured: from picture to picture."""
        return 1.0 / self.rate

    def measure(self, view: View) -> Arrays:
        """The true motion: position (3,) m NED, attitude (3, 3) body to NED, velocity (3,) m/s NED."""
        times = view.time - np.array([self.exposure * 1e6, 0.0])
        position, rotation = view.poses.at(times)
        place = position + rotation @ np.array(self.position)
        velocity = (place[1] - place[0]) / self.exposure
        return {"position": place[1], "attitude": rotation[1], "velocity": velocity}

    def processor(self) -> Processor:
        """Errors that distort the true motion."""
        return DriftingEstimate(self).update


class DriftingEstimate:
    """The estimate of one vehicle's motion.

    Args:
        sensor: whose errors it has.
    """

    def __init__(self, sensor: VisualOdometrySpecification) -> None:
        self._sensor = sensor
        self._origin: tuple[Floats, Floats] | None = None
        """Place where it began, m NED, and its frame's axes to NED (3, 3): level, x along the heading."""
        self._last = np.zeros(3)
        self._estimate = np.zeros(3)
        self._yaw_error = 0.0
        self._resets = sorted(sensor.resets)
        self._count = 0

    def update(self, view: View, arrays: Arrays) -> Arrays:
        """The estimate at a time.

        Returns:
            in its own frame (x ahead at the start, y right, z down), or NED: position (3,) in m, attitude
            (4,) from body as w, x, y, z; in body axes: velocity (3,) in m/s; and reset_counter.
        """
        sensor, random = self._sensor, view.random
        place, rotation = arrays["position"].astype(float), arrays["attitude"].astype(float)
        if self._origin is None:
            start = place, matrix_from_euler(0.0, 0.0, math.atan2(rotation[1, 0], rotation[0, 0]))
            self._origin = (np.zeros(3), np.eye(3)) if sensor.world_axes else start
            self._last = self._estimate = place - self._origin[0]
        begin, axes = self._origin
        true = axes.T @ (place - begin)
        step = true - self._last
        root = math.sqrt(float(np.linalg.norm(step)))
        walk = random.standard_normal(4)
        self._yaw_error += math.radians(sensor.yaw_drift) * root * walk[3]
        error = matrix_from_euler(0.0, 0.0, self._yaw_error)
        self._estimate = self._estimate + error @ step + sensor.drift * root * walk[:3]
        self._last = true
        while self._resets and self._resets[0] * 1e6 <= view.time - view.start:
            self._resets.pop(0)
            self._estimate, self._yaw_error = true, 0.0
            self._count += 1
        noise = random.standard_normal((3, 3))
        angles = math.radians(sensor.angle_noise) * noise[1]
        attitude = matrix_from_euler(0.0, 0.0, self._yaw_error) @ axes.T @ rotation @ _small(angles)
        velocity = rotation.T @ arrays["velocity"].astype(float)
        return {
            "position": self._estimate + sensor.noise * noise[0],
            "attitude": quaternion_from_matrix(attitude),
            "velocity": velocity + sensor.velocity_noise * noise[2],
            "reset_counter": np.array(self._count % 256, np.uint8),
        }


def _small(angles: Floats) -> Floats:
    """(3, 3) rotation by small angles in rad, to first order."""
    x, y, z = angles
    return np.array([[1.0, -z, y], [z, 1.0, -x], [-y, x, 1.0]])
