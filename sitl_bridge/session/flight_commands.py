"""Commands of users to flight stacks during a flight: arming and take-off, over the monitors' links."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

from sitl_bridge.base.errors import UserError
from sitl_bridge.link.mavlink import common as mavlink
from sitl_bridge.link.px4.vehicle_status import VehicleMessage
from sitl_bridge.live.bus.client_link import StackReport
from sitl_bridge.session.monitor import Monitor

AUTOPILOT = 1
"""Component of a flight stack."""
RESULTS = {
    1: "temporarily rejected",
    2: "denied",
    3: "unsupported",
    4: "failed",
    6: "cancelled",
}
"""MAV_RESULT."""
ANSWER_LIMIT = 5.0
"""s of wall time in which a flight stack must answer."""
REASONS = 0.5
"""s of wall time in which the reasons of a refusal arrive."""
POLL = 0.02


class LinkedVehicle(Protocol):
    """A vehicle whose flight stack is reached over its monitor."""

    @property
    def monitor(self) -> Monitor:
        """The link."""
        ...

    @property
    def messages(self) -> list[VehicleMessage]:
        """Texts of the flight stack so far."""
        ...


@dataclass(frozen=True)
class StackLink:
    """A flight stack without a vehicle of a session."""

    monitor: Monitor
    messages: list[VehicleMessage]


class FlightCommands:
    """Sends commands one after another, on a thread of its own.

    Args:
        vehicles: with open monitors.
    """

    def __init__(self, vehicles: Sequence[LinkedVehicle]) -> None:
        self._vehicles = vehicles
        self._closed = False
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="flight-commands")

    def ask(self, kind: str, data: Mapping[str, Any], vehicle: int | None) -> Future[None]:
        """Execute a command of the bus; the future completes with the flight stack's answer.

        Raises:
            UserError: for a command of the whole run.
        """
        if vehicle is None:
            raise UserError(f"{kind} is for one vehicle")
        return self._executor.submit(self._execute, kind, dict(data), vehicle)

    def close(self) -> None:
        """Drop commands that wait; safe to call twice."""
        self._closed = True
        self._executor.shutdown(wait=True, cancel_futures=True)

    def _execute(self, kind: str, data: Mapping[str, Any], vehicle: int) -> None:
        if kind == "arm":
            armed = bool(data.get("armed", True))
            self._arm(vehicle, armed)
        elif kind == "takeoff":
            self._set_parameter(vehicle, "MIS_TAKEOFF_ALT", float(data.get("height", 2.5)))
            self._arm(vehicle, True)
            self._command(vehicle, "take off", mavlink.MAV_CMD_NAV_TAKEOFF)
        else:
            raise UserError(f"no command {kind!r} for flight stacks")

    def _arm(self, vehicle: int, armed: bool) -> None:
        what = "arm" if armed else "disarm"
        self._command(vehicle, what, mavlink.MAV_CMD_COMPONENT_ARM_DISARM, 1.0 if armed else 0.0, *[0.0] * 6)

    def _set_parameter(self, vehicle: int, name: str, value: float) -> None:
        monitor = self._vehicles[vehicle].monitor
        kind = mavlink.MAV_PARAM_TYPE_REAL32
        monitor.deliver(
            [
                mavlink.MAVLink_param_set_message(
                    monitor.system_id, AUTOPILOT, name.encode("ascii"), value, kind
                )
            ]
        )

    def _command(self, vehicle: int, what: str, number: int, *params: float) -> None:
        """Give a MAV_CMD and wait for the answer.

        Raises:
            UserError: for a refusal, with the flight stack's reasons, and if no answer comes.
        """
        aircraft = self._vehicles[vehicle]
        monitor, said = aircraft.monitor, len(aircraft.messages)
        filled = [*params, *[math.nan] * (7 - len(params))]
        monitor.acknowledged.pop(number, None)
        monitor.deliver(
            [mavlink.MAVLink_command_long_message(monitor.system_id, AUTOPILOT, number, 0, *filled)]
        )
        end = time.monotonic() + ANSWER_LIMIT
        result = None
        while result in (None, mavlink.MAV_RESULT_IN_PROGRESS):
            if time.monotonic() > end or self._closed:
                raise UserError(f"the flight stack has not answered to {what} within {ANSWER_LIMIT:g} s")
            time.sleep(POLL)  # the monitors' thread reads the link
            result = monitor.acknowledged.get(number)
        if result != mavlink.MAV_RESULT_ACCEPTED:
            time.sleep(REASONS)
            reasons = "; ".join(message.text for message in aircraft.messages[said:])
            raise UserError(f"cannot {what}: {reasons or RESULTS.get(int(result or 0), f'result {result}')}")


LAST_MESSAGES = 4
"""Texts of each flight stack in a report."""


def stack_reports(stacks: Sequence[LinkedVehicle]) -> list[StackReport]:
    """What the flight stacks report of themselves; of one without a monitor nothing."""
    return [
        StackReport(
            stack.monitor.status().mode, [(m.time, m.level, m.text) for m in stack.messages[-LAST_MESSAGES:]]
        )
        for stack in stacks
    ]
