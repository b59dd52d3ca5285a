"""Stereo pair and VI-sensor: two cameras that expose together, and an IMU on the same clock."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field, model_validator

from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.quantities import NonNegative, Positive, Vector
from sitl_bridge.core.sensors.perception.camera import Colored, FieldOfView, ImagingSpecification
from sitl_bridge.core.sensors.perception.view import Arrays, Processor, Rate, View


class PairSpecification(ImagingSpecification):
    """Two equal cameras side by side; ``position`` is the middle between them."""

    baseline: Positive = Field(0.12, description="m between the cameras, along the sensor's y axis")

    @property
    def shifts(self) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
        """m from the sensor to the left and to the right camera, in its axes."""
        half = 0.5 * self.baseline
        return (0.0, -half, 0.0), (0.0, half, 0.0)

    def measure(self, view: View) -> Arrays:
        """``left`` and ``right`` images, (height, width) or (height, width, 3), uint8."""
        left, right = self.shifts
        return {"left": self.image(view, left), "right": self.image(view, right)}


class StereoCameraSpecification(PairSpecification):
    """A stereo pair.

    The defaults are XTDrone's (sitl_config/models/stereo_camera): 752 x 480, colour, 90 deg, 30 Hz, baseline
    0.12 m, after the Aptina MT9V034.
    """

    kind: Literal["stereo_camera"]
    rate: Rate = Field(30.0, description="Hz, pairs a second")
    color: Colored = True
    field_of_view: FieldOfView = 90.0


class VisualInertialSpecification(PairSpecification):
    """A stereo pair and an IMU on one clock; an IMU sample coincides with every pair.

    The defaults are RotorS's VI-sensor: a pair of 752 x 480 over 80 deg, baseline 0.11 m, and the ADIS16448's
    noise: white, with a bias that begins at a random value and walks.  The IMU's axes are the sensor's.
    """

    kind: Literal["vi_sensor"]
    baseline: Positive = Field(0.11, description="m between the cameras, along the sensor's y axis")
    imu_samples: int = Field(10, ge=1, le=100, description="of the IMU, a pair of images")
    imu_position: Vector = Field(
        (0.0, 0.0, 0.0), description="m, of the IMU from the middle of the cameras, in the sensor's axes"
    )
    gyroscope_noise: NonNegative = Field(3.394e-4, description="rad/s/sqrt(Hz), white, two-sided")
    gyroscope_walk: NonNegative = Field(3.8785e-5, description="rad/s^2/sqrt(Hz), random walk of the bias")
    gyroscope_turn_on: NonNegative = Field(0.0087, description="rad/s, deviation of the bias at the start")
    accelerometer_noise: NonNegative = Field(0.004, description="m/s^2/sqrt(Hz), white, two-sided")
    accelerometer_walk: NonNegative = Field(0.006, description="m/s^3/sqrt(Hz), random walk of the bias")
    accelerometer_turn_on: NonNegative = Field(0.196, description="m/s^2, deviation of the bias at the start")

    @model_validator(mode="after")
    def _not_too_fast(self) -> VisualInertialSpecification:
        if self.imu_rate > 1000.0:
            raise ValueError(f"imu_samples at this rate are {self.imu_rate:g} Hz; 1000 Hz is the most")
        return self

    @property
    def imu_rate(self) -> float:
        """Hz."""
        return self.rate * self.imu_samples

    @property
    def exposure(self) -> float:
        """s: the IMU's samples go back to the pair before."""
        return max(1.0 / self.rate, super().exposure)

    def measure(self, view: View) -> Arrays:
        """``left`` and ``right`` images, and the IMU's samples since the last pair.

        Those are ``imu_time`` (k,) in s, 0 at the sample's time and negative before, ``specific_force``
        (k, 3) in m/s^2 and ``angular_velocity`` (k, 3) in rad/s, in the sensor's axes.
        """
        age = np.arange(self.imu_samples - 1.0, -1.0, -1.0) / self.imu_rate
        force, rate = self.inertial_values(view, view.time - age * 1e6)
        # A density, two-sided, gives a sample the variance density^2 times the rate (RotorS, Kalibr).
        scale = np.sqrt(self.imu_rate)
        force += self.accelerometer_noise * scale * view.random.standard_normal(force.shape)
        rate += self.gyroscope_noise * scale * view.random.standard_normal(rate.shape)
        return {**super().measure(view), "imu_time": -age, "specific_force": force, "angular_velocity": rate}

    def processor(self) -> Processor:
        """Adds the IMU's biases, which go on from sample to sample.

        db/dt is white noise (RotorS; Kalibr's IMU noise model).
        """
        step, biases = np.sqrt(1.0 / self.imu_rate), dict[str, Floats]()
        walks = {
            "specific_force": (self.accelerometer_walk, self.accelerometer_turn_on),
            "angular_velocity": (self.gyroscope_walk, self.gyroscope_turn_on),
        }

        def add_biases(view: View, arrays: Arrays) -> Arrays:
            changed = dict(arrays)
            for name, (walk, turn_on) in walks.items():
                values = arrays[name].astype(float)
                if name not in biases:
                    biases[name] = turn_on * view.random.standard_normal(3)
                steps = walk * step * view.random.standard_normal(values.shape)
                way = biases[name] + np.cumsum(steps, axis=0)
                biases[name] = way[-1]
                changed[name] = values + way
            return changed

        return add_biases

    def inertial_values(self, view: View, time: Floats) -> tuple[Floats, Floats]:
        """True specific force and angular velocity (k, 3) at the IMU, in the sensor's axes."""
        force, rate, acceleration = view.poses.inertial_at(time).reshape(-1, 3, 3).transpose(1, 0, 2)
        mounting = self.mounting()
        arm = np.array(self.position) + mounting @ np.array(self.imu_position)
        force = force + np.cross(acceleration, arm) + np.cross(rate, np.cross(rate, arm))
        return force @ mounting, rate @ mounting
