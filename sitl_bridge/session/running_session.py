"""Flies vehicles of a session whose time passes by itself: plans, and commands of page and bus."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.base.errors import UserError
from sitl_bridge.base.json_data import ReadJson
from sitl_bridge.core.world.geography import Projection
from sitl_bridge.link.hil.link_status import ServerStatus
from sitl_bridge.link.hil.server import LockstepServer
from sitl_bridge.link.mavlink import common as mavlink
from sitl_bridge.live.run.messages import VEHICLE_COMMANDS, SetPointCommand
from sitl_bridge.plan.plan import Plan
from sitl_bridge.session.linked import HEARTBEATS, SimulatedVehicles
from sitl_bridge.session.missions.environment import FAILED, SUCCEEDED
from sitl_bridge.session.missions.log_stamp import stamp
from sitl_bridge.session.missions.time_gate import MissionGate
from sitl_bridge.session.monitor import POLL, deliver_all
from sitl_bridge.session.plan_flight import Say, fly_plans
from sitl_bridge.session.stacks import CENTRED, CHUNK, ROUND, STEP, STICKS, Target
from sitl_bridge.session.vehicle_run import VehicleRun

LOOK = 0.1
"""s of wall time between looks whether the session ends."""
LONG_LOOK = 50
"""Steps between looks at a plan's flight: 0.2 s, the interval of PX4's reports of its state."""
LAST_LOOK = 0.5
"""s of wall time in which page and bus, which ask for the state by themselves, see the end of a flight."""
FIRST = 1_000_000
"""us of simulated time at which a plan begins to look at its vehicle."""
SILENCE = 5_000_000
"""us of simulated time for which a flight stack may send nothing, in addition to the wall time after which it
counts as silent."""
LOST_AFTER, LOST_AFTER_WALL = 1.0, 0.5
"""s of simulated time without a position, and of wall time in which simulated time waits for it, after both
of which a vehicle counts as lost: a busy machine is no reason."""
FIXES, FIX_RATE, FIX_LIMIT = 10, 5.0, 10.0
"""Global positions over which that of a vehicle's origin is averaged, their rate in Hz, and s of simulated
time in which they arrive."""
VELOCITY_HOLDS = 500_000
"""us of simulated time for which a commanded velocity holds, as of ROS's controllers (ros2_control's
diff_drive_controller, ``cmd_vel_timeout``)."""
STICKS_HOLD = 1_000_000
"""us of simulated time for which commanded sticks hold."""
STICKS_REST = 125
"""Steps between the last motion of sticks and a command: a flight stack takes it for the pilot's override."""
SET_POINTS = [kind for kind, command in VEHICLE_COMMANDS.items() if issubclass(command, SetPointCommand)]
"""Commands with set-points."""
GLOBAL_POSITION: int = mavlink.MAVLINK_MSG_ID_GLOBAL_POSITION_INT
LOCAL_POSITION: int = mavlink.MAVLINK_MSG_ID_LOCAL_POSITION_NED
ATTITUDE: int = mavlink.MAVLINK_MSG_ID_ATTITUDE


class SessionVehicles(SimulatedVehicles):
    """Vehicles of a running session: its time stands still while a program acts, and passes in ``advance``.

    One thread uses it, between the first ``meet`` and ``close``.

    Args:
        vehicles: with open monitors.
    """

    steps_to_look = LONG_LOOK

    def __init__(self, vehicles: Sequence[VehicleRun], server: LockstepServer) -> None:
        super().__init__(vehicles, server)
        self._closed, self._go = threading.Event(), threading.Event()
        self._heard = 0
        self._seen: ServerStatus | None = None
        self._reporting = [True] * len(vehicles)
        self._rated = False

    def close(self) -> None:
        """Let time pass by itself again; safe to call twice."""
        self._closed.set()
        self._go.set()

    def meet(self, at: int) -> Callable[[], None]:
        """Stop time ``at`` us after the start, and let it pass until then; returns what waits for that."""
        met, go, before = threading.Event(), threading.Event(), self._go

        def here() -> None:
            met.set()
            go.wait()

        self._go = go
        if self._closed.is_set():
            go.set()
        self._server.at_answers(at, here)
        before.set()

        def wait() -> None:
            while not met.wait(LOOK) and not self._closed.is_set():
                if not self._server.running:
                    go.set()
                    raise UserError("the simulation stopped")
            if self._closed.is_set():
                raise UserError("the mission was interrupted")
            self._look()

        return wait

    def send_again(self) -> None:
        """Send heartbeats and the targets in force as time passes by itself, on the simulation's thread."""
        self._look()
        self.send_heartbeat()
        self.send_targets()

    def stay(self) -> None:
        """Stay the ground station as time passes by itself, which vehicles count as lost otherwise.

        On the simulation's thread, until ``close``.
        """
        if not self._closed.is_set():
            self.send_again()
            self._server.at_answers(self.now + HEARTBEATS, self.stay)

    def _look(self) -> None:
        """Read what the vehicles report, where time stands still."""
        status = self._seen = self._server.status()
        links = [status.links[vehicle.number] for vehicle in self._vehicles]
        found = [link.connected and not link.stalled for link in links]
        here = [monitor for monitor, there in zip(self._monitors, found, strict=True) if there]
        deliver_all([(monitor, ()) for monitor in here if monitor.prompt])
        if self._rated:
            found = [there and self._fresh(i) for i, there in enumerate(found)]
        self._reporting = found

    def _fresh(self, vehicle: int) -> bool:
        """Whether the last position is no older than LOST_AFTER; a late one is waited for."""
        monitor, end = self._monitors[vehicle], time.monotonic() + LOST_AFTER_WALL
        while self.now * 1e-6 - monitor.status().position_time > LOST_AFTER:
            if time.monotonic() > end or not self._reporting[vehicle]:
                return False
            time.sleep(POLL)
            monitor.poll()
        return True

    @property
    def now(self) -> int:
        """us of simulated time since the start."""
        return self._present.elapsed

    @property
    def _present(self) -> ServerStatus:
        return self._server.status() if self._seen is None else self._seen

    def pass_time(self, steps: int) -> None:
        """Let time pass."""
        self.send_heartbeat()
        self.meet(self.now + steps * STEP)()
        if not all(monitor.status().silent for monitor in self._monitors):
            self._heard = self.now
        elif self.now - self._heard > SILENCE:
            stacks = "flight stack has" if len(self._monitors) == 1 else "flight stacks have"
            raise UserError(f"the {stacks} sent no telemetry for 5 s")

    def reports(self, vehicle: int) -> bool:
        """Whether its flight stack is connected, answers, and sends its positions."""
        return self._reporting[vehicle]

    def request_states(self, rate: float, attitudes: float) -> None:
        """Request positions and attitudes at rates in Hz, from vehicles that stand, and find their origins.

        Each has its own local origin, the place of its first fix, which is found from its global positions.
        Messages round these to 1e-7 deg and 1 mm; the error of the receivers remains.

        Raises:
            UserError: for a vehicle that sends no positions.
        """
        origin = self._server.simulation.world.specification.origin
        projection = Projection.from_degrees(origin.latitude, origin.longitude, origin.altitude)
        for monitor in self._monitors:
            monitor.keep(GLOBAL_POSITION)
            monitor.request_rates({LOCAL_POSITION: rate, ATTITUDE: attitudes, GLOBAL_POSITION: FIX_RATE})
        everybody = range(len(self._vehicles))
        fixes: list[list[NDArray[np.float64]]] = [[] for _ in everybody]

        def fixed(i: int) -> bool:
            monitor = self._monitors[i]
            fix = monitor.take(GLOBAL_POSITION)
            if fix is not None and np.isfinite(monitor.status().attitude[0]):
                place = projection.position((fix.lat * 1e-7, fix.lon * 1e-7, fix.alt * 1e-3))
                fixes[i].append(np.array(place) - monitor.status().position)
            return len(fixes[i]) >= FIXES

        silent = self.wait(everybody, fixed, FIX_LIMIT)
        if silent:
            raise UserError(f"{self.title(silent[0])} sends no positions")
        self.origins = np.array([np.mean(found, axis=0) for found in fixes])
        self._rated = True


class FlownMission:
    """A mission that this program flies itself, on a thread of its own.

    With the built-in stack time stands still after it.

    Args:
        fly: flies it, and says lines for the user.
        shown: whether something shows the flight, and is to see its end.
        end: what is said after it.
    """

    gate: MissionGate | None = None

    def __init__(
        self,
        vehicles: Sequence[VehicleRun],
        server: LockstepServer,
        fly: Callable[[SessionVehicles, Say], None],
        say: Say,
        *,
        shown: bool,
        end: str = "mission succeeded",
    ) -> None:
        self._end = end
        self._limit = server.limit_time()
        self._repeats = all(vehicle.monitor.prompt for vehicle in vehicles)
        self._stacks = SessionVehicles(vehicles, server)
        self._fly, self._say, self._shown = fly, say, shown
        self._reason = "the mission was interrupted"
        self._status: int | None = None
        begun = self._stacks.meet(max(FIRST, self._stacks.now))
        self._thread = threading.Thread(target=self._run, args=(begun,), name="mission", daemon=True)
        self._thread.start()

    def poll(self) -> int | None:
        """Exit status as of a mission's process; None while it flies."""
        return self._status

    def reason(self) -> str:
        """Why it failed."""
        return self._reason

    def steers(self, vehicle: int) -> bool:
        """Whether it sends a vehicle set-points, with which others would be at odds."""
        return self._status is None and self._stacks.targets[vehicle] is not None

    def give_up(self, vehicle: int) -> None:
        """Steer a vehicle no more, which another sends set-points from now on."""
        self._stacks.taken_over.add(vehicle)

    def release_time(self) -> None:
        """Let time pass for others, after the end; safe to call twice."""
        self._limit.release()

    def stop(self) -> None:
        """End it; safe to call twice."""
        self._stacks.close()
        self._thread.join(timeout=5.0)

    def _run(self, begun: Callable[[], None]) -> None:
        stacks, status = self._stacks, FAILED
        try:
            begun()
            stacks.wait_until_ready(range(len(stacks.names)))
            stacks.advance(-(stacks.now % -ROUND) // STEP)  # so that one seed repeats closely
            self._fly(stacks, self._tell)
            self._tell(self._end)
            status = SUCCEEDED
        except UserError as error:
            self._reason = str(error)
            self._tell(f"mission failed: {error}")
        finally:
            if self._repeats:
                self._limit.run_until(stacks.now)
            stacks.close()
            if self._shown:
                time.sleep(LAST_LOOK)
            self._status = status

    def _tell(self, line: str) -> None:
        self._say(f"{stamp(self._stacks.now * 1e-6)} {line}")


def fly_plan(plan: Plan, stacks: SessionVehicles, say: Say) -> None:
    """Fly the plan of one vehicle; it holds its place when that fails.

    Raises:
        UserError: as ``fly_plans``.
    """
    try:
        fly_plans(stacks, {0: plan}, say=say)
    except UserError:
        with contextlib.suppress(UserError):
            if stacks.is_armed(0) and not stacks.on_ground(0):
                stacks.set_mode([0], "Hold")
        raise


class SetPoints:
    """Set-points and sticks of page, bus and ROS for a vehicle, repeated while time passes by itself.

    A remote control stays on, with its sticks centred: a flight stack that has had one misses it.

    Args:
        stacks: the vehicle alone, whose time passes by itself.
        before: what the vehicle followed before; None for nothing.

    Attributes:
        mode: in which the vehicle follows; empty while it follows nothing.
    """

    def __init__(self, stacks: SessionVehicles, server: LockstepServer, before: SetPoints | None) -> None:
        self._stacks, self._server = stacks, server
        self._expires = math.inf
        self.ended, self.mode = False, ""
        if before is not None:
            stacks.sticks[0] = before._stacks.sticks[0]

    def follow(self, kind: str, data: ReadJson) -> None:
        """Follow a command from now on."""
        now, target = self._server.status().elapsed, None
        self.mode, self._expires = mode_for(kind, data), math.inf
        if kind == "sticks":
            forward, right, throttle, clockwise = (
                float(data.get(name, centre)) for name, centre in zip(STICKS, CENTRED, strict=True)
            )
            self._stacks.sticks[0] = forward, right, throttle, clockwise
            self._expires = now + STICKS_HOLD
        elif kind == "goto":
            yaw = data.get("yaw")
            target = Target(tuple(data["position"]), yaw=math.nan if yaw is None else float(yaw))
        else:
            rate = float(data.get("yaw_rate", 0.0))
            target = Target(velocity=tuple(data["velocity"]), yaw_rate=rate, body=True)
            self._expires = now + VELOCITY_HOLDS
        self._stacks.targets[0] = target

    def centre(self) -> bool:
        """Centre the sticks; whether they were not."""
        held, moved = self._stacks.sticks, self._stacks.sticks[0] not in (None, CENTRED)
        held[0] = CENTRED if moved else held[0]
        return moved

    def let_go(self) -> None:
        """Follow nothing more."""
        self.centre()
        self.mode, self._stacks.targets[0] = "", None
        self.ended = self.ended or self._stacks.sticks[0] is None

    def repeat(self) -> None:
        """Send them until they end or the vehicle leaves their mode; on the simulation's thread."""
        now = self._server.status().elapsed
        if self.mode and self._stacks.mode(0) != self.mode:
            self.let_go()
        if self.ended:
            return
        if now > self._expires:
            self.centre()
            if self._stacks.targets[0] is not None:
                self._stacks.targets[0] = Target(velocity=(0.0, 0.0, 0.0), yaw_rate=0.0, body=True)
        self._stacks.send_again()
        self._server.at_answers(now + CHUNK * STEP, self.repeat)


def mode_for(kind: str, data: ReadJson) -> str:
    """The flight mode in which a vehicle follows a command."""
    return str(data.get("mode", "Position")) if kind == "sticks" else "Offboard"


class FlightCommands:
    """Hands commands of page, bus and ROS to flight stacks, one after another, on a thread of its own.

    Args:
        vehicles: with open monitors.
    """

    def __init__(self, vehicles: Sequence[VehicleRun], server: LockstepServer) -> None:
        self._vehicles, self._server = vehicles, server
        self._asked: SessionVehicles | None = None
        self._followed: dict[int, SetPoints] = {}
        self._greeted: dict[int, SessionVehicles] = {}
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="flight-commands")

    def ask(self, kind: str, data: ReadJson, vehicle: int | None) -> Future[None]:
        """Execute a command of the bus; the future completes with the flight stack's answer.

        Raises:
            UserError: for a command of the whole run, and while time stands still.
        """
        if vehicle is None:
            raise UserError(f"{kind} is for one vehicle")
        if self._server.status().paused:
            raise UserError(f"{kind}: simulated time stands still, and no flight stack answers; resume it")
        if self._goes_on(kind, data, vehicle):
            done: Future[None] = Future()
            done.set_result(None)
            return done
        return self._executor.submit(self._execute, kind, dict(data), vehicle)

    def _goes_on(self, kind: str, data: ReadJson, vehicle: int) -> bool:
        """Let a vehicle that follows already follow another command of the same mode; whether it does."""
        followed = self._followed.get(vehicle)
        if kind not in SET_POINTS or followed is None or followed.mode != mode_for(kind, data):
            return False
        followed.follow(kind, data)
        return True

    def close(self) -> None:
        """Drop commands that wait; safe to call twice."""
        self._executor.shutdown(wait=False, cancel_futures=True)
        for station in list(self._greeted.values()):
            station.close()
        for followed in self._followed.values():
            followed.ended = True
        if self._asked is not None:
            self._asked.close()
        self._executor.shutdown(wait=True)

    def _execute(self, kind: str, data: ReadJson, vehicle: int) -> None:
        if self._goes_on(kind, data, vehicle):  # by a command that was under way
            return
        if vehicle not in self._greeted:
            station = self._greeted[vehicle] = SessionVehicles([self._vehicles[vehicle]], self._server)
            self._server.call(station.stay)
        stacks = self._asked = SessionVehicles([self._vehicles[vehicle]], self._server)
        followed = self._followed.get(vehicle)
        try:
            stacks.meet(stacks.now)()
            if kind != "sticks" and followed is not None and followed.centre():
                stacks.advance(STICKS_REST)
            if kind in SET_POINTS:
                self._follow(stacks, kind, data, vehicle)
                return
            on = kind == "takeoff" or (kind == "arm" and bool(data.get("armed", True)))
            if on:
                stacks.leave_last_mode([0])
            if kind == "arm":
                stacks.switch_motors([0], on=on)
            elif kind == "takeoff":
                stacks.switch_motors([0], on=True)
                stacks.take_off([0], float(data.get("height", 2.5)))
            elif kind == "land":
                stacks.set_mode([0], "Land", "land")
            else:
                raise UserError(f"no command {kind!r} for flight stacks")
            if followed is not None and not (kind == "arm" and on):
                followed.let_go()
        finally:
            stacks.close()

    def _follow(self, stacks: SessionVehicles, kind: str, data: ReadJson, vehicle: int) -> None:
        """Let a vehicle follow commands, the first of which is given."""
        if not stacks.is_armed(0):
            raise UserError(f"{kind}: {stacks.title(0)} is not armed; let it take off first")
        before = self._followed.get(vehicle)
        followed = SetPoints(stacks, self._server, before)
        followed.follow(kind, data)
        stacks.set_mode([0], followed.mode, "follow commands")
        if before is not None:
            before.ended = True
        self._followed[vehicle] = followed
        self._server.call(followed.repeat)
