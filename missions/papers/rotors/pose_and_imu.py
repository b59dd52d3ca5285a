"""RotorS's estimator of a pose sensor and an inertial unit: the filter of equations 12 to 18, section 2.3.

F. Furrer, M. Burri, M. Achtelik, R. Siegwart, "RotorS - A modular Gazebo MAV simulator framework", 2016.  The
paper runs the MSF package, a filter of these equations.  Errors of the state are dp, dv (m, m/s NED), dtheta
(rad, body) and those of both biases (m/s^2, rad/s, body).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import sitl_bridge as sb
from sitl_bridge.api.models import ImuSpecification
from sitl_bridge.base.rotations import matrix_from_quaternion, quaternion_product

from .hovering import STEP, TAKE_OFF, Pose

Array = NDArray[np.float64]

TURN_ON = (0.196, 0.0087)
"""m/s^2 and rad/s, deviations of the ADIS16448's turn-on biases in RotorS."""
GRAVITY = 9.8
"""m/s^2, of basic.world and of ``WORLD``."""
P, V, A, BA, BW = (slice(3 * k, 3 * k + 3) for k in range(5))


def inertial_unit() -> ImuSpecification:
    """RotorS's ADIS16448, a sample a step, with the accelerometer's turn-on bias, too."""
    unit = next(s for s in sb.Airframe.load("firefly").sensors if isinstance(s, ImuSpecification))
    biased = unit.accelerometer.model_copy(update={"turn_on_deviation": TURN_ON[0]})
    return unit.model_copy(update={"rate": 1.0 / STEP, "accelerometer": biased})


def cross(vector: Array) -> Array:
    """(3, 3) matrix of the cross product with a vector from the left."""
    x, y, z = vector
    return np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])


def small_turn(angles: Array) -> Array:
    """(4,) quaternion of a rotation vector in rad."""
    angle = float(np.linalg.norm(angles))
    return np.array([np.cos(0.5 * angle), *(0.5 * np.sinc(0.5 * angle / np.pi) * angles)])


class PoseAndImu:
    """Error-state Kalman filter, which begins at the take-off with the first pose and without biases.

    Args:
        pose: the pose sensor, one measurement a step.
        unit: the inertial unit, whose noise the filter knows.
    """

    def __init__(self, pose: Pose, unit: ImuSpecification) -> None:
        self.pose, self.steps = pose, 0
        self.x, self.attitude = np.zeros(15), np.array([1.0, 0.0, 0.0, 0.0])
        self.covariance = np.zeros((15, 15))
        accelerometer, gyroscope = unit.accelerometer, unit.gyroscope
        noises = [
            0.0, accelerometer.noise_density, gyroscope.noise_density,
            accelerometer.random_walk, gyroscope.random_walk,
        ]  # fmt: skip
        self.process = np.diag(np.repeat(np.square(noises), 3)) * STEP
        self.measured = np.diag(np.repeat(np.square(pose.noise), 3))

    def state(self, simulation: sb.Simulation) -> tuple[Array, Array, Array, Array]:
        """Position and velocity, m and m/s NED, attitude, and rates, rad/s FRD; once a step."""
        position, attitude = self.pose.measure(simulation)
        imu = simulation.sensor("imu")
        rates = imu["angular_velocity"][0]
        if self.steps * STEP < TAKE_OFF:
            self._begin(position, attitude)
        else:
            self._predict(imu["specific_force"][0], rates)
            self._correct(position, attitude)
        self.steps += 1
        return self.x[P], self.x[V], self.attitude, rates - self.x[BW]

    def _begin(self, position: Array, attitude: Array) -> None:
        self.x, self.attitude = np.concatenate([position, np.zeros(12)]), attitude
        first = (self.pose.noise[0], 0.1, self.pose.noise[1], *TURN_ON)
        self.covariance = np.diag(np.repeat(np.square(first), 3))

    def _predict(self, force: Array, rates: Array) -> None:
        """The dynamics below eq. 16, over a step, and their errors'."""
        rotation, force, rates = matrix_from_quaternion(self.attitude), force - self.x[BA], rates - self.x[BW]
        acceleration = rotation @ force + (0.0, 0.0, GRAVITY)
        slope = np.zeros((15, 15))
        slope[P, V] = np.eye(3)
        slope[V, A], slope[V, BA] = -rotation @ cross(force), -rotation
        slope[A, A], slope[A, BW] = -cross(rates), -np.eye(3)
        change = np.eye(15) + STEP * slope + 0.5 * STEP**2 * slope @ slope
        self.covariance = change @ self.covariance @ change.T + self.process
        self.x[P] += STEP * self.x[V] + 0.5 * STEP**2 * acceleration
        self.x[V] += STEP * acceleration
        self.attitude = quaternion_product(self.attitude, small_turn(STEP * rates))

    def _correct(self, position: Array, attitude: Array) -> None:
        """Equations 17 and 18: the position, and the attitude as a small rotation from the predicted one."""
        turn = quaternion_product(self.attitude * (1.0, -1.0, -1.0, -1.0), attitude)
        innovation = np.concatenate([position - self.x[P], 2.0 * np.sign(turn[0]) * turn[1:]])
        sees = np.zeros((6, 15))
        sees[:3, P], sees[3:, A] = np.eye(3), np.eye(3)
        gain = self.covariance @ sees.T @ np.linalg.inv(sees @ self.covariance @ sees.T + self.measured)
        error = gain @ innovation
        keep = np.eye(15) - gain @ sees
        self.covariance = keep @ self.covariance @ keep.T + gain @ self.measured @ gain.T
        turned = quaternion_product(self.attitude, small_turn(error[A]))
        self.attitude = turned / np.linalg.norm(turned)
        error[A] = 0.0
        self.x = self.x + error
