"""Flight stacks in processes of their own, PX4 or the built-in one, commanded over MAVLink.

Commands go over the monitors' links, so the ports of MAVSDK and QGroundControl stay free.
"""

from __future__ import annotations

import math
import struct
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.base.errors import UserError
from sitl_bridge.link.hil.link_status import ServerStatus
from sitl_bridge.link.hil.server import LockstepServer
from sitl_bridge.link.mavlink import common as mavlink
from sitl_bridge.link.mavlink.decoder import AUTOPILOT, parameter_bytes
from sitl_bridge.link.mavlink.message import MavlinkMessage
from sitl_bridge.link.px4.vehicle_status import RESULTS
from sitl_bridge.link.px4.versions import PARAMETER_INTERVAL
from sitl_bridge.plan.plan import Plan
from sitl_bridge.plan.plan_upload import (
    FENCE,
    MISSION,
    RALLY,
    MissionItem,
    fence_items,
    mission_items,
    rally_items,
)
from sitl_bridge.session.monitor import Monitor, deliver_all
from sitl_bridge.session.stacks import CHUNK, STEP, FlightStacks, Message, MissionProgress, Target
from sitl_bridge.session.vehicle_run import VehicleRun

T = TypeVar("T")

ANSWER_LIMIT = 5.0
"""s of simulated time for the answer to a command."""
ATTEMPTS = 3
WALL_LIMIT, WALL_LOOK = 10.0, 0.005
"""s of wall time for the answer of PX4's storage of missions and parameters, which works in wall time, and
between looks for it."""
ANSWER_TIME = 1_000_000
"""us of simulated time that PX4 has in any case for such an answer: a busy machine is no silence."""
STORED = 1.0
"""s of wall time in which PX4 loads an uploaded plan; it reports a fence that is being loaded as invalid."""
REASONS = 5 * CHUNK
"""Steps in which the reasons of a refusal arrive after the answer."""
SETPOINTS_BEFORE = 10 * CHUNK
"""Steps with set-points before the switch to Offboard; PX4 demands that they come at 2 Hz already."""
IGNORE_POSITION, IGNORE_VELOCITY, IGNORE_ACCELERATION = 0b111, 0b111 << 3, 0b111 << 6
IGNORE_YAW, IGNORE_YAW_RATE = 1 << 10, 1 << 11
"""POSITION_TARGET_TYPEMASK."""
ATTITUDE_ONLY, RATES_ONLY = 0b0000_0111, 0b1000_0000
"""ATTITUDE_TARGET_TYPEMASK, both with thrust."""
LONGEST_EXTRAPOLATION = 0.3
"""s over which a position is extrapolated with its velocity."""
HEARTBEATS = 1_000_000
"""us of simulated time between heartbeats."""
GROUND_STATION = mavlink.MAVLink_heartbeat_message(
    mavlink.MAV_TYPE_GCS, mavlink.MAV_AUTOPILOT_INVALID, 0, 0, mavlink.MAV_STATE_ACTIVE, 3
)
COMPLETE: int = mavlink.MISSION_STATE_COMPLETE
REQUEST, REQUEST_FLOAT, ACK, CURRENT, REACHED, PARAM_VALUE = (
    mavlink.MAVLINK_MSG_ID_MISSION_REQUEST_INT,
    mavlink.MAVLINK_MSG_ID_MISSION_REQUEST,
    mavlink.MAVLINK_MSG_ID_MISSION_ACK,
    mavlink.MAVLINK_MSG_ID_MISSION_CURRENT,
    mavlink.MAVLINK_MSG_ID_MISSION_ITEM_REACHED,
    mavlink.MAVLINK_MSG_ID_PARAM_VALUE,
)


class LinkedVehicles(FlightStacks):
    """Flight stacks behind links.

    Args:
        names, kinds, origins: as of ``FlightStacks``.
        monitors: over whose links they are commanded, one a vehicle; they are open.
    """

    _greeted = -HEARTBEATS

    def __init__(
        self,
        names: Sequence[str],
        kinds: Sequence[str],
        origins: Sequence[Sequence[float]],
        monitors: Sequence[Monitor],
    ) -> None:
        super().__init__(names, kinds, origins)
        self._monitors = monitors
        for monitor in monitors:
            monitor.keep(REQUEST, REQUEST_FLOAT, ACK, CURRENT, REACHED, PARAM_VALUE)

    # ------------------------------------------------------------------ time

    @abstractmethod
    def pass_time(self, steps: int) -> None:
        """Let ``steps`` of STEP pass.

        Raises:
            UserError: when the simulation or a flight stack fails.
        """

    def advance(self, steps: int) -> None:
        """Let time pass, with the targets in force, and read what the vehicles report."""
        self.take_control()
        while steps > 0:
            if self.steering is not None:
                self.steering()
            sent = self.send_targets()
            count = min(steps, self.chunk) if sent or self.steering is not None else steps
            self.pass_time(count)
            steps -= count
            for monitor in self._monitors:
                monitor.poll()

    def send_targets(self) -> bool:
        """Send the targets and sticks in force; returns whether there are any."""
        sent: dict[int, list[MavlinkMessage]] = {}
        for i, (target, sticks) in enumerate(zip(self.targets, self.sticks, strict=True)):
            messages = [] if target is None else [self._setpoint(i, target)]
            if sticks is not None:
                forward, right, throttle, turn = (round(1000 * value) for value in sticks)
                system, _ = self._address(i)
                messages.append(
                    mavlink.MAVLink_manual_control_message(system, forward, right, throttle, turn, 0)
                )
            if messages:
                sent[i] = messages
        self._deliver_all(sent)
        return bool(sent)

    def send_heartbeat(self) -> None:
        """Be a ground station to the flight stacks, without which some refuse to arm."""
        if self.now - self._greeted >= HEARTBEATS:
            self._greeted = self.now
            self._deliver_all({i: [GROUND_STATION] for i in range(len(self.names))})

    def _wait(
        self, answer: Callable[[], T | None], limit: float = WALL_LIMIT, simulated: int = ANSWER_TIME
    ) -> T | None:
        """Return PX4's answer within ``limit`` s of wall time and ``simulated`` us, in which time passes."""
        end, least = time.monotonic() + limit, self.now + simulated
        while (found := answer()) is None and (time.monotonic() < end or self.now < least):
            self.advance(1)
            time.sleep(WALL_LOOK)
        return found

    # ------------------------------------------------------------------ what they report

    def _deliver(self, vehicle: int, *messages: MavlinkMessage) -> None:
        self._deliver_all({vehicle: messages})

    def _deliver_all(self, messages: Mapping[int, Sequence[MavlinkMessage]]) -> None:
        """Send messages to vehicles by their numbers; those that do not report get none."""
        deliver_all([(self._monitors[i], sent) for i, sent in messages.items() if self.reports(i)])

    def _address(self, vehicle: int) -> tuple[int, int]:
        return self._monitors[vehicle].system_id, AUTOPILOT

    @property
    def messages(self) -> list[Message]:
        """Status texts so far, oldest first."""
        start = self.ready_at * 1e-6
        found = [
            Message(m.time - start, name, m.level, m.text)
            for name, monitor in zip(self.names, self._monitors, strict=True)
            for m in monitor.messages
        ]
        return sorted(found, key=lambda m: m.time) if len(self.names) > 1 else found

    def mode(self, vehicle: int) -> str:
        """Flight mode of a vehicle, by PX4's name."""
        return self._monitors[vehicle].status().mode

    @property
    def estimates(self) -> NDArray[np.float64]:
        """(n, 3) m NED from the world's origin, by the vehicles' own estimates, extrapolated to now."""
        reports = [monitor.status() for monitor in self._monitors]
        age = np.array([self.now * 1e-6 - report.position_time for report in reports])
        own = np.array([report.position for report in reports])
        moved = np.clip(age, 0.0, LONGEST_EXTRAPOLATION)[:, None] * self.velocities
        places: NDArray[np.float64] = self.origins + own + moved
        return places

    @property
    def velocities(self) -> NDArray[np.float64]:
        """(n, 3) m/s NED."""
        return np.array([monitor.status().velocity for monitor in self._monitors])

    @property
    def attitudes(self) -> NDArray[np.float64]:
        """(n, 3) rad roll, pitch, yaw; nan before ``want_states``."""
        return np.array([monitor.status().attitude for monitor in self._monitors])

    @property
    def batteries(self) -> NDArray[np.float64]:
        """(n,) share of the charge."""
        return np.array([monitor.status().battery_remaining for monitor in self._monitors])

    def problems(self, vehicle: int) -> Sequence[str]:
        """Why a vehicle cannot arm; empty if it can."""
        status = self._monitors[vehicle].status()
        return () if status.can_arm or status.armed else status.waits_for

    def mission(self, vehicle: int) -> MissionProgress:
        """How far a vehicle is in its mission."""
        monitor = self._monitors[vehicle]
        current, reached = monitor.take(CURRENT, forget=False), monitor.take(REACHED, forget=False)
        if current is None:
            return MissionProgress()
        last = reached is not None and reached.seq + 1 == current.total
        return MissionProgress(current.seq, last or getattr(current, "mission_state", 0) == COMPLETE)

    # ------------------------------------------------------------------ commands

    def command(self, vehicles: Sequence[int], what: str, number: int, params: Sequence[float] = ()) -> None:
        """Give vehicles a MAV_CMD at the same time, and wait for their answers."""
        self.take_control()
        is_mode = number == mavlink.MAV_CMD_DO_SET_MODE
        if is_mode and any(self.targets[i] or self.sticks[i] for i in vehicles):
            self.advance(SETPOINTS_BEFORE)
        filled = [*params, *[0.0] * (7 - len(params))]
        monitors = {i: self._monitors[i] for i in vehicles}
        said = {i: len(monitor.messages) for i, monitor in monitors.items()}
        waiting = list(vehicles)
        for attempt in range(ATTEMPTS):
            sent = {}
            for i in waiting:
                monitors[i].acknowledged.pop(number, None)
                sent[i] = [mavlink.MAVLink_command_long_message(*self._address(i), number, attempt, *filled)]
            self._deliver_all(sent)
            end, again = self.now + round(ANSWER_LIMIT * 1e6), []
            while waiting and self.now < end:
                self.advance(CHUNK)
                for i in tuple(waiting):
                    result = monitors[i].acknowledged.get(number, mavlink.MAV_RESULT_IN_PROGRESS)
                    if result == mavlink.MAV_RESULT_IN_PROGRESS:
                        continue
                    waiting.remove(i)
                    if result == mavlink.MAV_RESULT_ACCEPTED:
                        continue
                    last = not is_mode or attempt == ATTEMPTS - 1
                    if result != mavlink.MAV_RESULT_TEMPORARILY_REJECTED or last:
                        why = self._said(i, said[i]) or RESULTS.get(result, f"result {result}")
                        raise UserError(f"{self.title(i)} refuses to {what}: {why}")
                    again.append(i)
            if again:
                self._wait(lambda: None, STORED, 0)  # it may still be loading the plan
            waiting += again
            if not waiting:
                return
        raise UserError(f"{self.title(waiting[0])} does not answer to {what}")

    def set_mode(self, vehicles: Sequence[int], name: str, what: str = "") -> None:
        """Switch vehicles to a flight mode, which ``mode`` tells from now on."""
        super().set_mode(vehicles, name, what)
        for i in vehicles:
            self._monitors[i].take_mode(name)

    def _said(self, vehicle: int, since: int) -> str:
        """Return the texts of a flight stack on a refusal, after its first ``since`` texts."""
        self.advance(REASONS)
        said = self._monitors[vehicle].messages[since:]
        return "; ".join(dict.fromkeys(m.text for m in said if m.level < mavlink.MAV_SEVERITY_INFO))

    def _setpoint(self, vehicle: int, target: Target) -> MavlinkMessage:
        address, now = self._address(vehicle), self.now // 1000
        if target.attitude is not None or target.rates is not None:
            return mavlink.MAVLink_set_attitude_target_message(
                now,
                *address,
                RATES_ONLY if target.attitude is None else ATTITUDE_ONLY,
                list(target.attitude or (1.0, 0.0, 0.0, 0.0)),
                *(target.rates or (0.0, 0.0, 0.0)),
                target.thrust,
            )
        mask, zero = 0, (0.0, 0.0, 0.0)
        place = zero
        if target.position is None:
            mask |= IGNORE_POSITION
        else:
            place = self.own_place(vehicle, target.position)
        mask |= IGNORE_VELOCITY if target.velocity is None else 0
        mask |= IGNORE_ACCELERATION if target.acceleration is None else 0
        mask |= 0 if math.isfinite(target.yaw) else IGNORE_YAW
        mask |= 0 if math.isfinite(target.yaw_rate) else IGNORE_YAW_RATE
        return mavlink.MAVLink_set_position_target_local_ned_message(
            now,
            *address,
            mavlink.MAV_FRAME_BODY_NED if target.body else mavlink.MAV_FRAME_LOCAL_NED,
            mask,
            *place,
            *(target.velocity or zero),
            *(target.acceleration or zero),
            target.yaw if math.isfinite(target.yaw) else 0.0,
            target.yaw_rate if math.isfinite(target.yaw_rate) else 0.0,
        )

    def send(self, vehicle: int, message: MavlinkMessage) -> None:
        """Send a vehicle a MAVLink message."""
        self.take_control()
        self._deliver(vehicle, message)

    def received(self, vehicle: int, number: int) -> MavlinkMessage | None:
        """The last MAVLink message of an id."""
        monitor = self._monitors[vehicle]
        monitor.keep(number)
        monitor.poll()
        return monitor.take(number, forget=False)

    def parameter(self, vehicle: int, name: str) -> float:
        """A parameter."""
        return self._read_parameter(vehicle, name)[0]

    def _read_parameter(self, vehicle: int, name: str) -> tuple[float, int]:
        """Value and MAV_PARAM_TYPE."""
        request = mavlink.MAVLink_param_request_read_message(
            *self._address(vehicle), name.encode("ascii"), -1
        )
        found = self._parameter_answer(vehicle, name, request)
        if found is None:
            raise UserError(f"{self.title(vehicle)} has no parameter {name}, or does not answer")
        return found

    def _parameter_answer(self, vehicle: int, name: str, request: MavlinkMessage) -> tuple[float, int] | None:
        monitor = self._monitors[vehicle]

        def answer() -> tuple[float, int] | None:
            message = monitor.take(PARAM_VALUE)
            if message is None or message.param_id != name:
                return None
            kind: int = message.param_type
            code = "<f" if kind == mavlink.MAV_PARAM_TYPE_REAL32 else "<i"
            return float(struct.unpack(code, parameter_bytes(message))[0]), kind

        self.take_control()
        for _ in range(ATTEMPTS):
            self._deliver(vehicle, request)
            found = self._wait(answer, 1.0)
            if found is not None:
                return found
        return None

    def set_parameter(self, vehicles: Sequence[int], name: str, value: float) -> None:
        """Set a parameter of vehicles; PX4's modules use it PARAMETER_INTERVAL later."""
        if any([self._set_parameter(i, name, value) for i in vehicles]):  # noqa: C419  (all are set)
            self.advance(round(PARAMETER_INTERVAL * 1e6 / STEP))

    def _set_parameter(self, vehicle: int, name: str, value: float) -> bool:
        """Set a parameter; returns whether it had another value."""
        present, kind = self._read_parameter(vehicle, name)
        if kind == mavlink.MAV_PARAM_TYPE_REAL32:
            wanted = float(np.float32(value))
            sent = wanted
        else:
            wanted = float(int(value))
            (sent,) = struct.unpack("<f", struct.pack("<i", int(value)))
        if present == wanted:
            return False
        request = mavlink.MAVLink_param_set_message(*self._address(vehicle), name.encode("ascii"), sent, kind)
        found = self._parameter_answer(vehicle, name, request)
        if found is None or found[0] != wanted:
            raise UserError(f"{self.title(vehicle)} does not take {name} = {value:g}")
        return True

    def upload(self, vehicle: int, plan: Plan) -> None:
        """Give a vehicle a plan's fence, rally points and mission, if it has one."""
        for name, kind, items in (
            ("geofence", FENCE, fence_items(plan)),
            ("rally points", RALLY, rally_items(plan)),
            *([("mission", MISSION, mission_items(plan))] if plan.items else []),
        ):
            self._upload(vehicle, name, kind, items)
        if not self._monitors[vehicle].prompt:
            self._wait(lambda: None, STORED, 0)

    def _upload(self, vehicle: int, name: str, kind: int, items: Sequence[MissionItem]) -> None:
        """Upload one part by the mission protocol (mavlink.io, microservices, mission)."""
        monitor, address = self._monitors[vehicle], self._address(vehicle)
        for number in (REQUEST, REQUEST_FLOAT, ACK, CURRENT, REACHED):
            monitor.take(number)
        said = len(self._monitors[vehicle].messages)
        monitor.post([mavlink.MAVLink_mission_count_message(*address, len(items), kind)])

        def answer() -> MavlinkMessage | None:
            return monitor.take(ACK) or monitor.take(REQUEST) or monitor.take(REQUEST_FLOAT)

        while (message := self._wait(answer)) is not None:
            if getattr(message, "mission_type", kind) != kind:
                continue
            if message.get_type() != "MISSION_ACK":
                monitor.post([items[message.seq].message(address)])
            elif message.type == mavlink.MAV_MISSION_ACCEPTED:
                return
            else:
                why = self._said(vehicle, said) or f"MAV_MISSION_RESULT {message.type}"
                raise UserError(f"{self.title(vehicle)} refuses the plan's {name}: {why}")
        raise UserError(f"{self.title(vehicle)} does not answer to the upload of the plan's {name}")


class SimulatedVehicles(LinkedVehicles):
    """Vehicles of a run.

    Args:
        vehicles: with open monitors.
    """

    def __init__(self, vehicles: Sequence[VehicleRun], server: LockstepServer) -> None:
        super().__init__(
            [vehicle.settings.name for vehicle in vehicles],
            [vehicle.settings.airframe.name for vehicle in vehicles],
            [vehicle.settings.position for vehicle in vehicles],
            [vehicle.monitor for vehicle in vehicles],
        )
        self._vehicles, self._server = vehicles, server

    @property
    def _present(self) -> ServerStatus:
        return self._server.status()

    @property
    def place(self) -> tuple[float, float]:
        """Deg latitude and longitude of the world's origin."""
        origin = self._server.simulation.world.specification.origin
        return origin.latitude, origin.longitude

    def is_armed(self, vehicle: int) -> bool:
        """Whether a vehicle's motors may turn."""
        return self._present.links[self._vehicles[vehicle].number].armed

    def on_ground(self, vehicle: int) -> bool:
        """Whether a vehicle stands on something."""
        return bool(self._server.simulation.states[self._vehicles[vehicle].number]["in_contact"])
