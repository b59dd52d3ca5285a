"""A kinematic vehicle for tests of the commander: a point that follows setpoints with a first-order lag.

It knows nothing of rotors: a velocity is taken on with a time constant, thrust is told from what is asked,
and the ground holds the vehicle up.  What controllers make of setpoints is tested with the real dynamics.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from sitl_bridge.autopilot import records
from sitl_bridge.autopilot.commander import Commander
from sitl_bridge.autopilot.commander_data import VehicleFacts
from sitl_bridge.autopilot.parameters import Parameters
from sitl_bridge.plan.plan_upload import MissionItem

PERIOD = 50_000  # us
LATITUDE, LONGITUDE, ALTITUDE = 47.397742, 8.545594, 488.0
METRES_PER_DEGREE = 111_195.0  # sphere of 6,371 km
ALL_VALID = (
    records.ATTITUDE | records.HEADING | records.HEIGHT | records.VELOCITY | records.POSITION | records.GLOBAL
)
GRAVITY = 9.80665
HOVER = 0.5
LAG = 0.25  # s


class Point:
    """A commander and the point it flies."""

    def __init__(self, **parameters: float) -> None:
        self.parameters = Parameters()
        self.commander = Commander(VehicleFacts(hover_thrust=HOVER), self.parameters)
        for name, value in parameters.items():
            self.parameters.set(name, value)
        self.now = 10_000_000
        self.position = np.zeros(3)
        self.velocity = np.zeros(3)
        self.yaw = 0.3
        self.roll = 0.0
        self.valid = ALL_VALID
        self.eph = 0.3
        self.estimate: Any = np.zeros((), records.ESTIMATE)[()]
        self.setpoint: Any = np.zeros((), records.SETPOINT)
        self.thrust = 0.0
        self.station = True
        self.texts: list[str] = []
        self.reached: list[int] = []
        self.trace: list[tuple[float, float, float]] = []

    # ------------------------------------------------------------------ running

    def step(self) -> None:
        """50 ms."""
        self.now += PERIOD
        if self.station and self.now % 1_000_000 == 0:
            self.commander.ground_station_seen(self.now)
        self._fill_estimate()
        self.commander.update(self.now, self.estimate, self.setpoint, self.thrust)
        self._move(PERIOD * 1e-6)
        self.trace.append((float(self.position[0]), float(self.position[1]), float(self.position[2])))
        while self.commander.texts:
            self.texts.append(self.commander.texts.popleft()[1])
        while self.commander.reached:
            self.reached.append(self.commander.reached.popleft())

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds / (PERIOD * 1e-6))):
            self.step()

    def until(self, condition: Callable[[], bool], limit: float) -> float:
        """Run until the condition holds and return the seconds it took; fail after ``limit`` s."""
        begun = self.now
        while not condition():
            self.step()
            if (self.now - begun) * 1e-6 > limit:
                raise AssertionError(
                    f"not within {limit} s: mode {self.commander.mode.name}, position {self.position}, "
                    f"texts {self.texts[-6:]}"
                )
        return (self.now - begun) * 1e-6

    def do(self, command: int, *params: float, at: dict[int, float] | None = None) -> int:
        """A command; parameters not given are nan, ``at`` sets some by number."""
        full = [*params, *[math.nan] * (7 - len(params))]
        for number, value in (at or {}).items():
            full[number - 1] = value
        return self.commander.command(command, full, self.now)

    # ------------------------------------------------------------------ common flights

    @property
    def height(self) -> float:
        return -float(self.position[2])

    def ready(self) -> Point:
        """Wait until it can arm."""
        self.until(lambda: not self.commander.arming_problems, 5.0)
        return self

    def airborne(self, height: float = 10.0) -> Point:
        """Hold at a height."""
        self.ready()
        self.parameters.set("MIS_TAKEOFF_ALT", height)
        assert self.do(22) == 0
        assert self.do(400, 1.0) == 0
        self.until(lambda: self.commander.mode.name == "Hold" and abs(self.height - height) < 0.3, 60.0)
        self.run(3.0)
        return self

    # ------------------------------------------------------------------ the world

    def _fill_estimate(self) -> None:
        e = self.estimate
        e["time"] = self.now
        e["valid"] = self.valid
        e["attitude"] = attitude(self.roll, 0.0, self.yaw)
        e["velocity"] = self.velocity
        e["position"] = self.position
        e["height_above_ground"] = math.nan
        e["origin"] = (math.radians(LATITUDE), math.radians(LONGITUDE), ALTITUDE)
        e["position_deviation"] = (self.eph / math.sqrt(2.0), self.eph / math.sqrt(2.0), 0.3)
        e["velocity_deviation"] = (0.1, 0.1, 0.1)

    def _move(self, dt: float) -> None:
        level = int(self.setpoint["level"])
        wanted = np.zeros(3)
        weight = 0.0
        if level == records.TRAJECTORY:
            wanted, weight = self._followed()
        elif level in (records.LEVEL_ATTITUDE, records.LEVEL_RATES):
            weight = float(self.setpoint["thrust"]) / HOVER
            wanted = self.velocity + np.array([0.0, 0.0, GRAVITY * (1.0 - weight) * LAG])
        if level <= records.IDLE:
            wanted = self.velocity + np.array([0.0, 0.0, GRAVITY * LAG])
        self.velocity += (wanted - self.velocity) * min(1.0, dt / LAG)
        self.position += self.velocity * dt
        if self.position[2] >= 0.0:
            self.position[2] = 0.0
            self.velocity[:2] = 0.0
            self.velocity[2] = min(self.velocity[2], 0.0)
            if level == records.TRAJECTORY and weight < 1.0:
                self.velocity[2] = 0.0
        self.thrust = max(0.0, min(1.0, weight * HOVER))

    def _followed(self) -> tuple[Any, float]:
        """Velocity taken on, and the thrust over weight it needs."""
        position = np.array(self.setpoint["position"])
        velocity = np.array(self.setpoint["velocity"])
        acceleration = np.array(self.setpoint["acceleration"])
        forward = np.where(np.isfinite(acceleration), acceleration, 0.0)
        wanted = np.where(np.isfinite(velocity), velocity, 0.0) + LAG * forward
        held = np.isfinite(position)
        wanted = np.where(held, wanted + 1.0 * (position - self.position), wanted)
        free = ~np.isfinite(velocity) & ~held
        wanted = np.where(free, self.velocity + forward * LAG, wanted)
        yaw = float(self.setpoint["yaw"])
        if math.isfinite(yaw):
            self.yaw = yaw
        weight = 1.0 - (wanted[2] - self.velocity[2]) / LAG / GRAVITY
        return wanted, weight


def attitude(roll: float, pitch: float, yaw: float) -> tuple[float, float, float, float]:
    """Quaternion of Euler angles in rad."""
    cr, sr = math.cos(roll / 2), math.sin(roll / 2)
    cp, sp = math.cos(pitch / 2), math.sin(pitch / 2)
    cy, sy = math.cos(yaw / 2), math.sin(yaw / 2)
    return (
        cr * cp * cy + sr * sp * sy,
        sr * cp * cy - cr * sp * sy,
        cr * sp * cy + sr * cp * sy,
        cr * cp * sy - sr * sp * cy,
    )


def place(north: float, east: float) -> tuple[float, float]:
    """Degrees of a point in m from the origin, on WGS-84 near 47.4 degrees."""
    # Degree lengths at this latitude by Helmert's series (Snyder 1987): 111,173.6 m and 75,497.6 m.
    return LATITUDE + north / 111_173.6, LONGITUDE + east / 75_497.6


def item(
    seq: int, command: int, north: float = 0.0, east: float = 0.0, height: float = 10.0, **more: Any
) -> MissionItem:
    """A mission item at a place around home, height relative to it."""
    latitude, longitude = place(north, east)
    return MissionItem(seq, 6, command, x=latitude, y=longitude, z=height, **more)


def act(seq: int, command: int, *params: float) -> MissionItem:
    """A mission item without a position."""
    names = ("param1", "param2", "param3", "param4", "x", "y", "z")
    values: dict[str, Any] = dict(zip(names, [*params, *[0.0] * (7 - len(params))], strict=True))
    return MissionItem(seq, 2, command, **values)
