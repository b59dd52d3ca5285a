"""Commands to the vehicles of a ready session by their meaning, over MAVLink, for PX4 and the built-in stack.

Simulated time stands still between the commands.  They go over the monitors' links, so the ports of MAVSDK
and QGroundControl stay free.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.base.errors import UserError
from sitl_bridge.link.mavlink import common as mavlink
from sitl_bridge.session.flight_commands import AUTOPILOT, Request, set_parameter
from sitl_bridge.session.ready_session import ReadySession

CHUNK = 12
"""Steps between looks at what vehicles report: 48 ms, about PX4's 20 Hz of setpoints."""
ANSWER_LIMIT = 5.0
"""s of simulated time for the answer to a command."""
ATTEMPTS = 3
POSITION_ONLY, VELOCITY_ONLY = 0b0000_1001_1111_1000, 0b0000_1001_1100_0111
"""POSITION_TARGET_TYPEMASK with the yaw in force, without its rate."""
IGNORE_YAW = 0b0000_0100_0000_0000
ATTITUDE_ONLY, RATES_ONLY = 0b0000_0111, 0b1000_0000
"""ATTITUDE_TARGET_TYPEMASK, both with thrust."""
OFFBOARD_MODE, CUSTOM = 6.0, 1.0
SETPOINTS_BEFORE = 10
"""Setpoints before the switch to Offboard; PX4 demands that they come at 2 Hz already."""


class LinkCommands:
    """Commands, and the simulated time that they take.

    Args:
        session: ready.
    """

    def __init__(self, session: ReadySession) -> None:
        self.session = session
        n = len(session.vehicles)
        self._targets = np.full((n, 3), np.nan)
        self._velocities = np.full((n, 3), np.nan)
        self._yaw = np.full(n, np.nan)
        self._attitudes = np.full((n, 4), np.nan)
        self._rates = np.full((n, 3), np.nan)
        self._thrust = np.zeros(n)

    # ------------------------------------------------------------------ time

    def advance(self, steps: int = CHUNK) -> None:
        """Let time pass, with the setpoints that are in force, and read what the vehicles report."""
        while steps > 0:
            self._send_setpoints()
            count = min(steps, CHUNK)
            self.session.advance(count)
            steps -= count
            for aircraft in self.session.vehicles:
                aircraft.monitor.poll()

    def wait(self, done: Callable[[], bool], limit: float, what: str, state: Callable[[], str]) -> None:
        """Let time pass until a condition holds.

        Raises:
            UserError: when it does not within ``limit`` s of simulated time.
        """
        end = self.session.server.status().time + limit
        while not done():
            if self.session.server.status().time >= end:
                raise UserError(f"not {what} within {limit:g} s of simulated time: {state()}")
            self.advance()

    # ------------------------------------------------------------------ commands

    def command(self, vehicle: int, what: str, number: int, *params: float) -> None:
        """Give a vehicle a MAV_CMD.

        Raises:
            UserError: when it refuses or does not answer, with its last words.
        """
        request = Request(self.session.vehicles[vehicle], number, params)
        for attempt in range(ATTEMPTS):
            request.send(attempt)
            end = self.session.server.status().time + ANSWER_LIMIT
            while self.session.server.status().time < end:
                self.advance()
                if request.result == mavlink.MAV_RESULT_ACCEPTED:
                    return
                if request.result is not None:
                    self.advance(5 * CHUNK)  # the reasons come after the answer
                    raise UserError(f"{self._name(vehicle)} refuses to {what}: {request.reasons}")
        raise UserError(f"{self._name(vehicle)} does not answer to {what}")

    def set_parameter(self, vehicle: int, name: str, value: float) -> None:
        """Set a parameter of type float."""
        set_parameter(self.session.vehicles[vehicle], name, value)
        self.advance()

    def target(
        self,
        vehicle: int,
        position: Sequence[float] | None = None,
        velocity: Sequence[float] | None = None,
        yaw: float = math.nan,
    ) -> None:
        """Send setpoints from now on, and switch to Offboard.

        Args:
            vehicle: number.
            position: m NED from the vehicle's own start.
            velocity: m/s NED; beside no position.
            yaw: rad; nan keeps the heading.
        """
        self.release(vehicle)
        if position is not None:
            self._targets[vehicle] = position
        if velocity is not None:
            self._velocities[vehicle] = velocity
        self._yaw[vehicle] = yaw
        self._follow(vehicle)

    def attitude_target(
        self,
        vehicle: int,
        thrust: float,
        attitude: Sequence[float] | None = None,
        rates: Sequence[float] | None = None,
    ) -> None:
        """Send setpoints of attitude or rates from now on, and switch to Offboard.

        Args:
            vehicle: number.
            thrust: 0..1 of full thrust.
            attitude: quaternion w, x, y, z, body FRD to NED.
            rates: rad/s FRD; beside no attitude.
        """
        self.release(vehicle)
        self._thrust[vehicle] = thrust
        if attitude is not None:
            self._attitudes[vehicle] = attitude
        if rates is not None:
            self._rates[vehicle] = rates
        self._follow(vehicle)

    def _follow(self, vehicle: int) -> None:
        """Switch to Offboard, where a vehicle is not in it."""
        if self.session.vehicles[vehicle].monitor.status().mode != "Offboard":
            self.advance(SETPOINTS_BEFORE * CHUNK)
            self.command(
                vehicle, "fly by setpoints", mavlink.MAV_CMD_DO_SET_MODE, CUSTOM, OFFBOARD_MODE, *[0.0] * 5
            )

    def release(self, vehicle: int) -> None:
        """Send no more setpoints."""
        self._targets[vehicle] = self._velocities[vehicle] = np.nan
        self._attitudes[vehicle] = self._rates[vehicle] = np.nan

    def target_of(self, vehicle: int) -> NDArray[np.float64]:
        """(3,) m NED from the vehicle's own start, of the setpoint in force; nan without one."""
        target: NDArray[np.float64] = self._targets[vehicle].copy()
        return target

    def _send_setpoints(self) -> None:
        for i, aircraft in enumerate(self.session.vehicles):
            position, velocity, yaw = self._targets[i], self._velocities[i], float(self._yaw[i])
            by_place = bool(np.isfinite(position).all())
            if not by_place and not np.isfinite(velocity).all():
                self._send_attitude(i)
                continue
            mask = POSITION_ONLY if by_place else VELOCITY_ONLY
            if not math.isfinite(yaw):
                mask, yaw = mask | IGNORE_YAW, 0.0
            monitor = aircraft.monitor
            monitor.deliver(
                [
                    mavlink.MAVLink_set_position_target_local_ned_message(
                        round(1e3 * self.session.server.status().time),
                        monitor.system_id,
                        AUTOPILOT,
                        mavlink.MAV_FRAME_LOCAL_NED,
                        mask,
                        *(float(x) for x in np.nan_to_num(position)),
                        *(float(x) for x in np.nan_to_num(velocity)),
                        *[0.0] * 3,
                        yaw,
                        0.0,
                    )
                ]
            )

    def _send_attitude(self, vehicle: int) -> None:
        attitude, rates = self._attitudes[vehicle], self._rates[vehicle]
        upright = bool(np.isfinite(attitude).all())
        if not upright and not np.isfinite(rates).all():
            return
        monitor = self.session.vehicles[vehicle].monitor
        monitor.deliver(
            [
                mavlink.MAVLink_set_attitude_target_message(
                    round(1e3 * self.session.server.status().time),
                    monitor.system_id,
                    AUTOPILOT,
                    ATTITUDE_ONLY if upright else RATES_ONLY,
                    attitude.tolist() if upright else [1.0, 0.0, 0.0, 0.0],
                    *(float(x) for x in np.nan_to_num(rates)),
                    float(self._thrust[vehicle]),
                )
            ]
        )

    def _name(self, vehicle: int) -> str:
        aircraft = self.session.vehicles[vehicle]
        return f"vehicle {aircraft.settings.name} ({aircraft.settings.airframe.name})"
