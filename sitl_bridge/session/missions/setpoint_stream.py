"""Offboard control: a stream of setpoints in the *vehicle's* time.

MAVSDK repeats the last setpoint 20 times per second of wall time.  For a vehicle that is simulated 25 times
faster than real time this is less than one setpoint per second, and PX4 reports a lost stream.  Here a
setpoint is sent at each change of the vehicle's clock, so the rate follows the speed of the simulation.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeAlias

from mavsdk.asyncio import MavsdkError
from mavsdk.plugins.offboard import (
    AccelerationNed,
    Attitude,
    AttitudeRate,
    PositionGlobalYaw,
    PositionNedYaw,
    VelocityBodyYawspeed,
    VelocityNedYaw,
)
from mavsdk.plugins.telemetry import FlightMode

from sitl_bridge.session.missions.mavsdk_vehicle import STATE_LIMIT, Vehicle, reason

Setpoint: TypeAlias = (
    PositionNedYaw | PositionGlobalYaw | VelocityNedYaw | VelocityBodyYawspeed | Attitude | AttitudeRate
)
"""One of MAVSDK's setpoints, or a pair (PositionNedYaw, VelocityNedYaw) of a position with feed-forward."""


class OffboardControl:
    """Offboard mode within a ``with`` block; Hold mode after it.

    Example::

        async with OffboardControl(vehicle, PositionNedYaw(0, 0, 0, 0)) as control:
            await vehicle.arm()
            await control.go_to(PositionNedYaw(0, 0, -5, 0))

    Args:
        vehicle: in the air, or on the ground: then arm it within the block, so that PX4 has setpoints when it
            arms and does not disarm while it waits for the first.
        setpoint: the first one; sent before the mode is requested, as PX4 requires.
    """

    def __init__(self, vehicle: Vehicle, setpoint: Setpoint) -> None:
        self.vehicle = vehicle
        self._source: Callable[[], Setpoint] = lambda: setpoint
        self._setters = {
            PositionNedYaw: vehicle.offboard.set_position_ned,
            VelocityNedYaw: vehicle.offboard.set_velocity_ned,
            VelocityBodyYawspeed: vehicle.offboard.set_velocity_body,
            AccelerationNed: vehicle.offboard.set_acceleration_ned,
            Attitude: vehicle.offboard.set_attitude,
            AttitudeRate: vehicle.offboard.set_attitude_rate,
        }
        self._stream: asyncio.Task[None] | None = None
        self._turns = contextlib.ExitStack()
        self.sent = 0

    async def __aenter__(self) -> Self:
        self._turns.enter_context(self.vehicle.streaming())
        try:
            await self._send(self._source())
        except BaseException:
            self._turns.close()
            raise
        self._stream = asyncio.create_task(self._pump())
        self.vehicle.offboard_active = True
        try:
            await self._start_mode()
        except BaseException:
            await self._stop_stream()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The stream continues until PX4 holds; if it ended before, PX4 would report a lost stream.
        try:
            if self.vehicle.mode == FlightMode.OFFBOARD:
                async with asyncio.timeout(5.0):
                    await self.vehicle.offboard.stop()
        except MavsdkError as refusal:
            if kind is None:
                self.vehicle.fail(f"the autopilot did not change from Offboard to Hold: {reason(refusal)}")
        except TimeoutError:
            if kind is None:
                self.vehicle.fail(
                    "the autopilot did not answer the command to change from Offboard to Hold within 5 s"
                )
        finally:
            await self._stop_stream()

    async def _start_mode(self) -> None:
        vehicle = self.vehicle
        deadline = vehicle.time + STATE_LIMIT
        # PX4 requires setpoints for more than a second before (user guide, "Offboard Mode").
        await vehicle.sleep(1.5)
        while True:
            try:
                await vehicle.offboard.start()
                break
            except MavsdkError as refusal:
                if vehicle.time > deadline:
                    vehicle.fail(f"the autopilot refuses offboard mode: {reason(refusal)}")
                await vehicle.sleep(0.2)
        await vehicle.wait(
            "the autopilot to report offboard mode",
            lambda: vehicle.mode == FlightMode.OFFBOARD,
            limit=STATE_LIMIT,
        )

    async def _pump(self) -> None:
        last = self.vehicle.time
        while True:
            await self.vehicle.changed()
            if self.vehicle.time != last:
                last = self.vehicle.time
                await self._send(self._source())

    async def _stop_stream(self) -> None:
        self.vehicle.offboard_active = False
        self._turns.close()
        if self._stream is not None:
            self._stream.cancel()
            await asyncio.wait([self._stream])

    async def _send(self, setpoint: Setpoint) -> None:
        if isinstance(setpoint, tuple):
            sending = self.vehicle.offboard.set_position_velocity_ned(*setpoint)
        else:
            sending = self._setters[type(setpoint)](setpoint)
        await self.vehicle.confirmed(sending)
        self.sent += 1

    async def wait(
        self,
        what: str,
        condition: Callable[[], bool],
        limit: float,
        state: Callable[[], str] | None = None,
    ) -> None:
        """As :meth:`Vehicle.wait`; fails if PX4 leaves offboard mode or disarms, or if the stream fails."""

        def stop_or_condition() -> bool:
            if self._stream is not None and self._stream.done():
                self._stream.result()  # raises the error of the stream
            return condition()

        await self.vehicle.wait(
            what,
            stop_or_condition,
            limit,
            modes={FlightMode.OFFBOARD},
            must_stay_armed=True,
            state=state,
        )

    async def hold(self, setpoint: Setpoint, seconds: float) -> None:
        """Stream one setpoint for ``seconds`` of the vehicle's time."""
        await self.follow(lambda _time: setpoint, seconds)

    async def follow(self, setpoint_at: Callable[[float], Setpoint], seconds: float) -> None:
        """Stream a setpoint that changes with time.

        Args:
            setpoint_at: setpoint at a time in s since the call, on the vehicle's clock.
            seconds: s of the vehicle's clock until this function returns; the stream continues like this
                until another is requested.

        Raises:
            MissionFailedError: see :meth:`wait`.
        """
        start = self.vehicle.time
        self._source = lambda: setpoint_at(self.vehicle.time - start)
        await self.wait(
            f"{seconds:g} s of setpoints to pass",
            lambda: self.vehicle.time - start >= seconds,
            limit=seconds + 5.0,
        )

    async def go_to(
        self,
        setpoint: PositionNedYaw,
        *,
        tolerance: float = 0.5,
        settle: float = 1.0,
        limit: float = 60.0,
    ) -> None:
        """Fly to a PositionNedYaw and wait until the vehicle was within ``tolerance`` m for ``settle`` s.

        Raises:
            MissionFailedError: after ``limit`` s of the vehicle's time, with the remaining distance.
        """
        vehicle = self.vehicle
        target = (setpoint.north_m, setpoint.east_m, setpoint.down_m)
        self._source = lambda: setpoint
        inside_since = math.nan

        def settled() -> bool:
            nonlocal inside_since
            if math.dist(vehicle.position, target) > tolerance:
                inside_since = math.nan
            elif math.isnan(inside_since):
                inside_since = vehicle.time
            return vehicle.time - inside_since >= settle

        await self.wait(
            f"the vehicle to reach {target[0]:g} m north, {target[1]:g} m east, {-target[2]:g} m up "
            f"within {tolerance:g} m",
            settled,
            limit,
            state=lambda: f"{math.dist(vehicle.position, target):.2f} m remain",
        )
