"""Vehicles flown by flight stacks in processes of their own: PX4, or the built-in one, over MAVLink.

Commands go over the monitors' links, so the ports of MAVSDK and QGroundControl stay free.
"""

from __future__ import annotations

import math
import struct
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.api.stacks import CHUNK, Flown, Message, MissionProgress, Stacks, Target
from sitl_bridge.api.truth_table import TruthTable
from sitl_bridge.base.errors import UserError
from sitl_bridge.core.sensors.sensor_host import SensorHost
from sitl_bridge.core.simulation.events import (
    EventSpecification,
    ScheduledEvent,
    StackEvent,
    apply_event,
)
from sitl_bridge.core.simulation.simulation import Simulation
from sitl_bridge.link.hil.server import LockstepServer
from sitl_bridge.link.mavlink import common as mavlink
from sitl_bridge.link.mavlink.decoder import AUTOPILOT, parameter_bytes
from sitl_bridge.link.px4.versions import PARAMETER_INTERVAL
from sitl_bridge.plan.plan import POSITION_FRAMES, Plan
from sitl_bridge.plan.plan_upload import UploadRow, fence_rows, mission_rows, rally_rows
from sitl_bridge.session.flight_commands import Request
from sitl_bridge.session.ready_session import ReadySession
from sitl_bridge.session.vehicle_run import VehicleRun

T = TypeVar("T")

ANSWER_LIMIT = 5.0
"""s of simulated time for the answer to a command."""
ATTEMPTS = 3
WALL_LIMIT, WALL_LOOK = 10.0, 0.005
"""s of wall time for the answer of PX4's storage of missions and parameters, which works in wall time, and
between looks for it."""
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
COMPLETE: int = mavlink.MISSION_STATE_COMPLETE
REQUEST, REQUEST_FLOAT, ACK, CURRENT, REACHED, PARAM_VALUE = (
    mavlink.MAVLINK_MSG_ID_MISSION_REQUEST_INT,
    mavlink.MAVLINK_MSG_ID_MISSION_REQUEST,
    mavlink.MAVLINK_MSG_ID_MISSION_ACK,
    mavlink.MAVLINK_MSG_ID_MISSION_CURRENT,
    mavlink.MAVLINK_MSG_ID_MISSION_ITEM_REACHED,
    mavlink.MAVLINK_MSG_ID_PARAM_VALUE,
)


class LinkedStacks(Stacks):
    """A flight of a session that is ready.

    Args:
        session: started and settled.
    """

    def __init__(self, session: ReadySession) -> None:
        super().__init__(session.settings)
        self.session = session
        assert session.ready_at is not None
        self.ready_at = session.ready_at
        self._flown: Flown | None = None
        self._free = False
        for aircraft in session.vehicles:
            aircraft.monitor.keep(REQUEST, REQUEST_FLOAT, ACK, CURRENT, REACHED, PARAM_VALUE)

    # ------------------------------------------------------------------ the simulation

    @property
    def flown_by(self) -> str:
        """The flight stack, in words."""
        flown_by = self.session.vehicles[0].autopilot
        if flown_by.px4 is None:
            return f"{flown_by.name}, not PX4"
        return f"PX4 {flown_by.px4.version} of {flown_by.px4.root}"

    @property
    def directory(self) -> Path:
        """Run directory."""
        return self.session.directory.path

    @property
    def simulation(self) -> Simulation:
        """Of the vehicles."""
        return self.session.simulation

    @property
    def hosts(self) -> tuple[SensorHost, ...]:
        """What runs the sensors that are sampled between steps."""
        return tuple(self.session.server.hosts)

    @property
    def source(self) -> LockstepServer:
        """The run as outlets see it."""
        return self.session.server

    @property
    def now(self) -> int:
        """us of simulated time."""
        return self.session.now

    @property
    def track(self) -> TruthTable:
        """The true motion since the vehicles were ready."""
        if self._flown is None:
            self.session.refresh_log()
        rows = TruthTable.load(self.session.directory.truth, self.names).rows
        return TruthTable(rows[rows["time"][:, 0] > self.ready_at].reshape(-1), self.names, self.ready_at)

    def advance(self, steps: int) -> None:
        """Let time pass, with the targets in force, and read what the vehicles report."""
        self._hold()
        while steps > 0:
            for i, (target, sticks) in enumerate(zip(self.targets, self.sticks, strict=True)):
                messages = [] if target is None else [self._setpoint(i, target)]
                if sticks is not None:
                    forward, right, throttle, turn = (round(1000 * value) for value in sticks)
                    system, _ = self._address(i)
                    messages.append(
                        mavlink.MAVLink_manual_control_message(system, forward, right, throttle, turn, 0)
                    )
                self._deliver(i, *messages)
            count = min(steps, CHUNK)
            self.session.advance(count)
            steps -= count
            for aircraft in self.session.vehicles:
                aircraft.monitor.poll()

    def _hold(self) -> None:
        """Let time stand still again after it passed by itself."""
        self.refuse_ended()
        if self._free:
            self._free = False
            self.session.hold()

    def _wait(self, answer: Callable[[], T | None], limit: float = WALL_LIMIT) -> T | None:
        """What PX4 answers within ``limit`` s of wall time, while simulated time passes step by step."""
        end = time.monotonic() + limit
        while time.monotonic() < end:
            self.advance(1)
            found = answer()
            if found is not None:
                return found
            time.sleep(WALL_LOOK)
        return None

    # ------------------------------------------------------------------ the flight stacks

    def _aircraft(self, vehicle: int) -> VehicleRun:
        return self.session.vehicles[vehicle]

    def _name(self, vehicle: int) -> str:
        return f"vehicle {self.names[vehicle]} ({self.airframes[vehicle].name})"

    def _deliver(self, vehicle: int, *messages: Any) -> None:
        self._aircraft(vehicle).monitor.deliver(messages)

    def _address(self, vehicle: int) -> tuple[int, int]:
        return self._aircraft(vehicle).monitor.system_id, AUTOPILOT

    @property
    def messages(self) -> list[Message]:
        """Status texts so far, oldest first."""
        start = self.ready_at * 1e-6
        found = [
            Message(m.time - start, aircraft.settings.name, m.level, m.text)
            for aircraft in self.session.vehicles
            for m in aircraft.messages
        ]
        return sorted(found, key=lambda m: m.time) if len(self.names) > 1 else found

    def is_armed(self, vehicle: int) -> bool:
        """Whether a vehicle's motors may turn."""
        return self.session.server.status().links[vehicle].armed

    def mode(self, vehicle: int) -> str:
        """Flight mode of a vehicle, by PX4's name."""
        return self._aircraft(vehicle).monitor.status().mode

    @property
    def estimates(self) -> NDArray[np.float64]:
        """(n, 3) m NED from the world's origin, by the vehicles' own estimates."""
        own = np.array([a.monitor.status().position for a in self.session.vehicles])
        places: NDArray[np.float64] = self.origins + own
        return places

    @property
    def batteries(self) -> NDArray[np.float64]:
        """(n,) share of the charge."""
        return np.array([a.monitor.status().battery_remaining for a in self.session.vehicles])

    def problems(self, vehicle: int) -> Sequence[str]:
        """Why a vehicle cannot arm; empty if it can."""
        status = self._aircraft(vehicle).monitor.status()
        return () if status.can_arm or status.armed else status.waits_for

    def command(self, vehicle: int, what: str, number: int, params: Sequence[float]) -> None:
        """Give a vehicle a MAV_CMD, and wait for its answer."""
        self._hold()
        if number == mavlink.MAV_CMD_DO_SET_MODE and (self.targets[vehicle] or self.sticks[vehicle]):
            self.advance(SETPOINTS_BEFORE)
        request = Request(self._aircraft(vehicle), number, params)
        for attempt in range(ATTEMPTS):
            request.send(attempt)
            end = self.now + round(ANSWER_LIMIT * 1e6)
            while self.now < end:
                self.advance(CHUNK)
                if request.result == mavlink.MAV_RESULT_ACCEPTED:
                    return
                if request.result is not None:
                    self.advance(REASONS)
                    raise UserError(f"{self._name(vehicle)} refuses to {what}: {request.reasons}")
        raise UserError(f"{self._name(vehicle)} does not answer to {what}")

    def _setpoint(self, vehicle: int, target: Target) -> Any:
        """A target as a message."""
        address, now = self._address(vehicle), (self.now - self.simulation.start) // 1000
        if target.attitude is not None or target.rates is not None:
            return mavlink.MAVLink_set_attitude_target_message(
                now,
                *address,
                RATES_ONLY if target.attitude is None else ATTITUDE_ONLY,
                list(target.attitude or (1.0, 0.0, 0.0, 0.0)),
                *(target.rates or (0.0, 0.0, 0.0)),
                target.thrust,
            )
        mask, zero = IGNORE_YAW_RATE, (0.0, 0.0, 0.0)
        place = zero
        if target.position is None:
            mask |= IGNORE_POSITION
        else:
            north, east, down = (np.array(target.position) - self.origins[vehicle]).tolist()
            place = (north, east, down)
        mask |= IGNORE_VELOCITY if target.velocity is None else 0
        mask |= IGNORE_ACCELERATION if target.acceleration is None else 0
        mask |= 0 if math.isfinite(target.yaw) else IGNORE_YAW
        return mavlink.MAVLink_set_position_target_local_ned_message(
            now,
            *address,
            mavlink.MAV_FRAME_BODY_NED if target.body else mavlink.MAV_FRAME_LOCAL_NED,
            mask,
            *place,
            *(target.velocity or zero),
            *(target.acceleration or zero),
            target.yaw if math.isfinite(target.yaw) else 0.0,
            0.0,
        )

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
            raise UserError(f"{self._name(vehicle)} has no parameter {name}, or does not answer")
        return found

    def _parameter_answer(self, vehicle: int, name: str, request: Any) -> tuple[float, int] | None:
        monitor = self._aircraft(vehicle).monitor

        def answer() -> tuple[float, int] | None:
            message = monitor.take(PARAM_VALUE)
            if message is None or message.param_id != name:
                return None
            kind: int = message.param_type
            code = "<f" if kind == mavlink.MAV_PARAM_TYPE_REAL32 else "<i"
            return float(struct.unpack(code, parameter_bytes(message))[0]), kind

        self._hold()
        for _ in range(ATTEMPTS):
            self._deliver(vehicle, request)
            found = self._wait(answer, 1.0)
            if found is not None:
                return found
        return None

    def set_parameter(self, vehicle: int, name: str, value: float) -> None:
        """Set a parameter; PX4's modules use it PARAMETER_INTERVAL later."""
        present, kind = self._read_parameter(vehicle, name)
        if kind == mavlink.MAV_PARAM_TYPE_REAL32:
            wanted = float(np.float32(value))
            sent = wanted
        else:
            wanted = float(int(value))
            (sent,) = struct.unpack("<f", struct.pack("<i", int(value)))
        if present == wanted:
            return
        request = mavlink.MAVLink_param_set_message(*self._address(vehicle), name.encode("ascii"), sent, kind)
        found = self._parameter_answer(vehicle, name, request)
        if found is None or found[0] != wanted:
            raise UserError(f"{self._name(vehicle)} does not take {name} = {value:g}")
        self.advance(round(PARAMETER_INTERVAL * 1e6 / self.simulation.step))

    def upload(self, vehicle: int, plan: Plan) -> None:
        """Give a vehicle a plan's fence, rally points and mission."""
        for name, kind, rows in (
            ("geofence", mavlink.MAV_MISSION_TYPE_FENCE, fence_rows(plan)),
            ("rally points", mavlink.MAV_MISSION_TYPE_RALLY, rally_rows(plan)),
            ("mission", mavlink.MAV_MISSION_TYPE_MISSION, mission_rows(plan)),
        ):
            self._upload(vehicle, name, kind, rows)
        self._wait(lambda: None, STORED)

    def _upload(self, vehicle: int, name: str, kind: int, rows: Sequence[UploadRow]) -> None:
        """Upload one part by the mission protocol (mavlink.io, microservices, mission)."""
        monitor, address = self._aircraft(vehicle).monitor, self._address(vehicle)
        for number in (REQUEST, REQUEST_FLOAT, ACK, CURRENT, REACHED):
            monitor.take(number)
        end = time.monotonic() + WALL_LIMIT
        self._hold()
        said = len(self._aircraft(vehicle).messages)
        self._deliver(vehicle, mavlink.MAVLink_mission_count_message(*address, len(rows), kind))

        def answer() -> Any:
            return monitor.take(ACK) or monitor.take(REQUEST) or monitor.take(REQUEST_FLOAT)

        while time.monotonic() < end:
            message = self._wait(answer)
            if message is None:
                break
            if getattr(message, "mission_type", kind) != kind:
                continue
            if message.get_type() != "MISSION_ACK":
                end = time.monotonic() + WALL_LIMIT
                self._deliver(vehicle, _item(address, message.seq, kind, rows[message.seq]))
            elif message.type == mavlink.MAV_MISSION_ACCEPTED:
                return
            else:
                self.advance(REASONS)
                texts = "; ".join(m.text for m in list(self._aircraft(vehicle).messages)[said:])
                why = texts or f"MAV_MISSION_RESULT {message.type}"
                raise UserError(f"{self._name(vehicle)} refuses the plan's {name}: {why}")
        raise UserError(f"{self._name(vehicle)} does not answer to the upload of the plan's {name}")

    def mission(self, vehicle: int) -> MissionProgress:
        """How far a vehicle is in its mission."""
        monitor = self._aircraft(vehicle).monitor
        current, reached = monitor.take(CURRENT, forget=False), monitor.take(REACHED, forget=False)
        if current is None:
            return MissionProgress()
        last = reached is not None and reached.seq + 1 == current.total
        return MissionProgress(current.seq, last or getattr(current, "mission_state", 0) == COMPLETE)

    def send(self, vehicle: int, message: Any) -> None:
        """Send a vehicle a MAVLink message."""
        self._hold()
        self._deliver(vehicle, message)

    def received(self, vehicle: int, number: int) -> Any:
        """The last MAVLink message of an id."""
        monitor = self._aircraft(vehicle).monitor
        monitor.keep(number)
        monitor.poll()
        return monitor.take(number, forget=False)

    @property
    def urls(self) -> tuple[str, ...]:
        """Where MAVSDK reaches each vehicle; from the first use on, simulated time passes by itself."""
        self._free = True
        self.session.run_freely()
        return tuple(vehicle.url for vehicle in self.settings.vehicles)

    # ------------------------------------------------------------------ faults and the end

    def schedule(self, events: Sequence[EventSpecification]) -> None:
        """Let events happen, at their times from now on."""
        self.session.schedule(events)

    def happen(self, event: ScheduledEvent, *, begins: bool) -> None:
        """Let an event begin or end now, or at the next step where time passes by itself."""
        vehicles = self.affected(event)

        def now() -> None:
            self.session.note_event(event, begins, vehicles)
            if not isinstance(event, StackEvent):
                apply_event(event, begins, self.simulation, vehicles)

        if isinstance(event, StackEvent) and begins:
            for vehicle in vehicles:
                self._aircraft(vehicle).fail(event)
        self.session.call(now)

    def finish(self, reason: str) -> Flown:
        """End and judge the flight, and write its summary."""
        if self._flown is None:
            self.ended = True
            outcome = self.session.end(reason)
            files = [("run directory", self.directory)]
            files += [(name, outcome.logs[name]) for name in ("summary", "picture") if name in outcome.logs]
            self._flown = Flown(outcome.run, outcome.verdict, files)
        return self._flown

    def close(self) -> None:
        """End the flight without judging it."""
        self.ended = True
        self.session.stop()


def _item(address: tuple[int, int], sequence: int, kind: int, row: UploadRow) -> Any:
    """A row of a plan as MISSION_ITEM_INT."""
    p1, p2, p3, p4, x, y, z = row.params
    scale = 1e7 if row.frame in POSITION_FRAMES else 1.0
    return mavlink.MAVLink_mission_item_int_message(
        *address,
        sequence,
        row.frame,
        row.command,
        int(sequence == 0),
        int(row.auto_continue),
        p1,
        p2,
        p3,
        p4,
        0 if math.isnan(x) else round(x * scale),
        0 if math.isnan(y) else round(y * scale),
        0.0 if math.isnan(z) else z,
        kind,
    )
