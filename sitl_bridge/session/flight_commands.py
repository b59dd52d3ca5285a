"""Commands of users to flight stacks during a flight: arming and take-off, over the monitors' links."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from sitl_bridge.base.errors import UserError
from sitl_bridge.link.mavlink import common as mavlink
from sitl_bridge.live.bus.client_link import StackReport
from sitl_bridge.session.vehicle_run import VehicleRun

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


class Request:
    """A MAV_CMD for a flight stack.

    Args:
        vehicle: with an open monitor.
        number: of the command.
        params: seven at most; the others are nan.
    """

    def __init__(self, vehicle: VehicleRun, number: int, params: Sequence[float]) -> None:
        self._vehicle, self._number = vehicle, number
        self._params = [*params, *[math.nan] * (7 - len(params))]
        self._said = len(vehicle.messages)

    def send(self, attempt: int = 0) -> None:
        """Send it, for the first or another time."""
        monitor = self._vehicle.monitor
        monitor.acknowledged.pop(self._number, None)
        monitor.deliver(
            [
                mavlink.MAVLink_command_long_message(
                    monitor.system_id, AUTOPILOT, self._number, attempt, *self._params
                )
            ]
        )

    @property
    def result(self) -> int | None:
        """The flight stack's final MAV_RESULT; None before it has answered."""
        result = self._vehicle.monitor.acknowledged.get(self._number)
        return None if result == mavlink.MAV_RESULT_IN_PROGRESS else result

    @property
    def reasons(self) -> str:
        """What the flight stack said since, else its result in words."""
        texts = "; ".join(message.text for message in self._vehicle.messages[self._said :])
        return texts or RESULTS.get(int(self.result or 0), f"result {self.result}")


def set_parameter(vehicle: VehicleRun, name: str, value: float) -> None:
    """Send a parameter of type float to a flight stack."""
    monitor, kind = vehicle.monitor, mavlink.MAV_PARAM_TYPE_REAL32
    monitor.deliver(
        [mavlink.MAVLink_param_set_message(monitor.system_id, AUTOPILOT, name.encode("ascii"), value, kind)]
    )


class FlightCommands:
    """Sends commands one after another, on a thread of its own.

    Args:
        vehicles: with open monitors.
    """

    def __init__(self, vehicles: Sequence[VehicleRun]) -> None:
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
            set_parameter(self._vehicles[vehicle], "MIS_TAKEOFF_ALT", float(data.get("height", 2.5)))
            self._arm(vehicle, True)
            self._command(vehicle, "take off", mavlink.MAV_CMD_NAV_TAKEOFF)
        else:
            raise UserError(f"no command {kind!r} for flight stacks")

    def _arm(self, vehicle: int, armed: bool) -> None:
        what = "arm" if armed else "disarm"
        self._command(vehicle, what, mavlink.MAV_CMD_COMPONENT_ARM_DISARM, 1.0 if armed else 0.0, *[0.0] * 6)

    def _command(self, vehicle: int, what: str, number: int, *params: float) -> None:
        """Give a MAV_CMD and wait for the answer.

        Raises:
            UserError: for a refusal, with the flight stack's reasons, and if no answer comes.
        """
        request = Request(self._vehicles[vehicle], number, params)
        request.send()
        end = time.monotonic() + ANSWER_LIMIT
        while request.result is None:
            if time.monotonic() > end or self._closed:
                raise UserError(f"the flight stack has not answered to {what} within {ANSWER_LIMIT:g} s")
            time.sleep(POLL)  # the monitors' thread reads the link
        if request.result != mavlink.MAV_RESULT_ACCEPTED:
            time.sleep(REASONS)
            raise UserError(f"cannot {what}: {request.reasons}")


LAST_MESSAGES = 4
"""Texts of each flight stack in a report."""


def stack_reports(stacks: Sequence[VehicleRun]) -> list[StackReport]:
    """What the flight stacks report of themselves."""
    return [
        StackReport(
            stack.monitor.status().mode, [(m.time, m.level, m.text) for m in stack.messages[-LAST_MESSAGES:]]
        )
        for stack in stacks
    ]
