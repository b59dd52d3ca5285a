"""Vehicles moved along a known path with real sensor models and an estimator; for the estimator's tests."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.autopilot.estimation.estimator import update
from sitl_bridge.autopilot.estimation.records import ESTIMATOR
from sitl_bridge.autopilot.estimation.sensor_settings import estimator_record
from sitl_bridge.autopilot.records import ESTIMATE, MEASUREMENT
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.base.kernels.random_streams import stream
from sitl_bridge.core.dynamics.records import STATE
from sitl_bridge.core.sensors.records import MAX_SENSORS, SENSOR, SENSOR_STATE
from sitl_bridge.core.sensors.registry import KINDS
from sitl_bridge.core.sensors.sample import sample_sensors, start_sensor
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.world.world import World

STEP = 4000
START = 1_000_000_000
SLOT_KINDS = tuple(
    KINDS[kind].code for kind in ("imu", "magnetometer", "barometer", "gps", "range_finder", "optical_flow")
)


@compiled
def _measure(m: Any, memories: Any, slots: Any, time: int) -> None:
    """Samples that arrived in this step, rounded as HIL_GPS rounds it."""
    m.time = time
    imu = memories[slots[0]]
    m.imu_fresh = imu.fresh
    for i in range(3):
        m.accelerometer[i] = imu.values[i]
        m.gyroscope[i] = imu.values[3 + i]
    m.magnetometer_fresh = memories[slots[1]].fresh if slots[1] >= 0 else 0
    if m.magnetometer_fresh:
        for i in range(3):
            m.magnetometer[i] = memories[slots[1]].values[i]
    m.barometer_fresh = memories[slots[2]].fresh if slots[2] >= 0 else 0
    if m.barometer_fresh:
        m.pressure = memories[slots[2]].values[0]


@compiled
def _measure_rest(m: Any, memories: Any, slots: Any) -> None:
    """Samples that come behind the inertial frame and are read with the next one."""
    m.gps_fresh = memories[slots[3]].fresh if slots[3] >= 0 else 0
    if m.gps_fresh:
        fix = memories[slots[3]].values
        m.gps_time = memories[slots[3]].time
        unit = math.radians(1e-7)
        m.latitude = np.rint(fix[0] / unit) * unit
        m.longitude = np.rint(fix[1] / unit) * unit
        m.altitude = np.rint(fix[2] * 1e3) * 1e-3
        for i in range(3):
            m.gps_velocity[i] = fix[3 + i]
        m.eph = np.rint(fix[6] * 1e2) * 1e-2
        m.epv = np.rint(fix[7] * 1e2) * 1e-2
        m.fix = int(fix[8])
        m.satellites = int(fix[9])
    m.range_fresh = memories[slots[4]].fresh if slots[4] >= 0 else 0
    if m.range_fresh:
        m.range = np.rint(memories[slots[4]].values[0] * 1e2) * 1e-2
    m.flow_fresh = memories[slots[5]].fresh if slots[5] >= 0 else 0
    if m.flow_fresh:
        flow = memories[slots[5]].values
        m.flow[0], m.flow[1] = flow[0], flow[1]
        for i in range(3):
            m.flow_gyroscope[i] = flow[2 + i]
        m.flow_interval = flow[5]
        m.flow_quality = flow[7]


@compiled
def _fly(
    vehicles: Any, states: Any, path: Any, environment: Any, sensors: Any, memories: Any, slots: Any,
    measurements: Any, estimators: Any, estimates: Any, offsets: Any, stamp_error: int,
    time: int, first: int, last: int,
) -> None:  # fmt: skip
    for k in range(first, last):
        time += 4000
        for i in range(states.shape[0]):
            state = states[i]
            for a in range(3):
                state.position[a] = path[k, a]
                state.velocity[a] = path[k, 3 + a]
                state.angular_velocity[a] = path[k, 10 + a]
                state.specific_force[a] = path[k, 13 + a]
                state.angular_acceleration[a] = path[k, 16 + a]
            for a in range(4):
                state.attitude[a] = path[k, 6 + a]
            sample_sensors(vehicles[0], state, environment[0], sensors[i], memories[i], time, 4000)
            m = measurements[i]
            _measure(m, memories[i], slots, time)
            update(m, estimators[i], estimates[i], 0.004)
            _measure_rest(m, memories[i], slots)
            m.latitude += offsets[i, 0]
            m.longitude += offsets[i, 1]
            m.altitude += offsets[i, 2]
            m.gps_time += stamp_error
            if m.gps_fresh:
                for a in range(3):
                    m.gps_velocity[a] = np.rint(m.gps_velocity[a] * 1e2) * 1e-2


@dataclass
class Path:
    """A motion: (steps, 19) position, velocity, attitude, rate, specific force, angular acceleration."""

    rows: NDArray[np.float64]


def rotation(q: NDArray[np.float64]) -> NDArray[np.float64]:
    """(..., 3, 3) body to NED of (..., 4)."""
    w, x, y, z = np.moveaxis(q, -1, 0)
    return np.stack(
        [
            np.stack([1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)], -1),
            np.stack([2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)], -1),
            np.stack([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)], -1),
        ],
        -2,
    )


def product(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Quaternion product (..., 4)."""
    w, x, y, z = np.moveaxis(a, -1, 0)
    s, t, u, v = np.moveaxis(b, -1, 0)
    return np.stack(
        [
            w * s - x * t - y * u - z * v,
            w * t + x * s + y * v - z * u,
            w * u - x * v + y * s + z * t,
            w * v + x * u - y * t + z * s,
        ],
        -1,
    )


def rotation_vector(q: NDArray[np.float64]) -> NDArray[np.float64]:
    """(..., 3) rad of (..., 4)."""
    q = np.where(q[..., :1] < 0.0, -q, q)
    sine = np.linalg.norm(q[..., 1:], axis=-1, keepdims=True)
    angle = 2.0 * np.arctan2(sine, q[..., :1])
    vector: NDArray[np.float64] = q[..., 1:] * np.where(sine > 1e-12, angle / np.maximum(sine, 1e-300), 2.0)
    return vector


def fly_path(position: Any, yaw: Any, seconds: float, gravity: float) -> Path:
    """Path of a multirotor without drag: its thrust axis lies along the specific force.

    Args:
        position: function of times (k,) in s to (k, 3) m NED.
        yaw: function of times (k,) to (k,) rad.
        seconds: of flight.
        gravity: m/s^2.
    """

    def attitude(t: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        h = 1e-3
        force = (position(t + h) - 2 * position(t) + position(t - h)) / h**2 - [0.0, 0.0, gravity]
        down = -force / np.linalg.norm(force, axis=1, keepdims=True)
        psi = yaw(t)
        heading = np.stack([np.cos(psi), np.sin(psi), 0 * psi], 1)
        right = np.cross(down, heading)
        right /= np.linalg.norm(right, axis=1, keepdims=True)
        matrix = np.stack([np.cross(right, down), right, down], 2)
        w = 0.5 * np.sqrt(np.maximum(1 + np.trace(matrix, axis1=1, axis2=2), 1e-12))
        vector = np.stack(
            [
                matrix[:, 2, 1] - matrix[:, 1, 2],
                matrix[:, 0, 2] - matrix[:, 2, 0],
                matrix[:, 1, 0] - matrix[:, 0, 1],
            ],
            1,
        ) / (4 * w[:, None])
        return np.concatenate([w[:, None], vector], 1), np.einsum("kji,kj->ki", matrix, force)

    t: NDArray[np.float64] = 0.004 * np.arange(1, round(seconds / 0.004) + 1, dtype=np.float64)
    q, force = attitude(t)
    h = 1e-3
    after, before = attitude(t + h)[0], attitude(t - h)[0]
    inverse = [1.0, -1.0, -1.0, -1.0]
    rate = rotation_vector(product(before * inverse, after)) / (2 * h)
    acceleration = (
        rotation_vector(product(q * inverse, after)) - rotation_vector(product(before * inverse, q))
    ) / h**2
    p = position(t)
    v = (position(t + h) - position(t - h)) / (2 * h)
    return Path(np.concatenate([p, v, q, rate, force, acceleration], 1))


class Bench:
    """n vehicles of one airframe on one path, each with its own sensor noise.

    Args:
        airframe: whose sensors fly.
        path: what all of them do.
        seeds: one a vehicle.
    """

    def __init__(self, airframe: Airframe, path: Path, seeds: list[int], world: World | None = None) -> None:
        n = len(seeds)
        self.world = world or World()
        self.path = path.rows
        self.vehicles = airframe.vehicle().reshape(1)
        self.states = np.zeros(n, STATE)
        records = airframe.sensor_records()
        self.sensors = np.zeros((n, MAX_SENSORS), SENSOR)
        self.memories = np.zeros((n, MAX_SENSORS), SENSOR_STATE)
        self.slots = np.full(len(SLOT_KINDS), -1)
        for k, sensor in enumerate(records):
            if sensor["kind"] in SLOT_KINDS and sensor["instance"] == 0:
                self.slots[SLOT_KINDS.index(int(sensor["kind"]))] = k
            for i, seed in enumerate(seeds):
                self.sensors[i, k] = sensor
                random = stream(seed, "0", "sensor", int(sensor["kind"]), int(sensor["instance"]))
                self.memories[i, k] = start_sensor(sensor, random, START)
        self.measurements = np.zeros(n, MEASUREMENT)
        self.estimators = np.zeros(n, ESTIMATOR)
        self.estimators[:] = estimator_record(airframe, self.world)
        self.estimates = np.zeros(n, ESTIMATE)
        self.offsets = np.zeros((n, 3))
        self.stamp_error = 0
        self.step = 0

    @property
    def seconds(self) -> float:
        """s flown."""
        return self.step * STEP * 1e-6

    def fly(self, seconds: float) -> None:
        """Go on along the path."""
        last = self.step + round(seconds * 1e6 / STEP)
        if last > len(self.path):
            raise ValueError("the path ends before")
        _fly(
            self.vehicles, self.states, self.path, self.world.environment, self.sensors, self.memories,
            self.slots, self.measurements, self.estimators, self.estimates, self.offsets,
            self.stamp_error, START + self.step * STEP, self.step, last,
        )  # fmt: skip
        self.step = last

    def errors(self) -> NDArray[np.float64]:
        """(n, 15) true less estimated tilt (NED), velocity, position, gyroscope and accelerometer bias."""
        truth = self.path[self.step - 1].copy()
        e = self.estimators
        # The filter's position and velocity are those of the inertial unit.
        place = self.sensors[0, self.slots[0]]["position"]
        matrix = rotation(truth[6:10])
        truth[0:3] += matrix @ place
        truth[3:6] += matrix @ np.cross(truth[10:13], place)
        out = np.zeros((len(e), 15))
        conjugate = e["attitude"] * [1.0, -1.0, -1.0, -1.0]
        out[:, 0:3] = rotation_vector(product(np.broadcast_to(truth[6:10], conjugate.shape), conjugate))
        out[:, 3:6] = truth[3:6] - e["nominal"][:, 3:6]
        origins = np.array([self.origin(i) for i in range(len(e))])
        out[:, 6:9] = truth[0:3] - origins - e["nominal"][:, 6:9]
        imu = self.memories[:, self.slots[0]]
        bias = imu["bias"] + imu["turn_on"]
        out[:, 9:12] = bias[:, 3:6] - e["nominal"][:, 9:12]
        out[:, 12:15] = bias[:, 0:3] - e["nominal"][:, 12:15]
        return out

    def origin(self, i: int) -> NDArray[np.float64]:
        """(3,) m, local origin of vehicle i in the world's frame."""
        if not self.estimators[i]["origin_known"]:
            start: NDArray[np.float64] = self.path[0, :3]
            return start
        latitude, longitude, altitude = self.estimators[i]["origin"]
        return self.world.ned(math.degrees(latitude), math.degrees(longitude), altitude)

    def slot(self, kind: int) -> int:
        """Sensor slot of the first instance of a kind."""
        return int(self.slots[SLOT_KINDS.index(kind)])
