"""What flies vehicles of a session whose time passes by itself: plans, and commands of page and bus."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from sitl_bridge.base.errors import UserError
from sitl_bridge.link.hil.server import LockstepServer
from sitl_bridge.plan.plan import Plan
from sitl_bridge.session.linked import STEP, LinkedVehicles
from sitl_bridge.session.missions.environment import FAILED, SUCCEEDED
from sitl_bridge.session.missions.log_stamp import stamp
from sitl_bridge.session.missions.time_gate import MissionGate
from sitl_bridge.session.plan_flight import fly_plans
from sitl_bridge.session.stacks import READY_LIMIT, ROUND
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


class SessionVehicles(LinkedVehicles):
    """Vehicles of a running session: its time stands still while a program acts, and passes in ``advance``.

    One thread uses it, between ``begin`` and ``close``.

    Args:
        vehicles: with open monitors.
        server: of the session.
    """

    steps_to_look = LONG_LOOK

    def __init__(self, vehicles: Sequence[VehicleRun], server: LockstepServer) -> None:
        super().__init__(
            [vehicle.settings.name for vehicle in vehicles],
            [vehicle.settings.airframe.name for vehicle in vehicles],
            [vehicle.settings.position for vehicle in vehicles],
        )
        self.use_links(vehicles)
        self._vehicles, self._server = vehicles, server
        self._closed, self._go = threading.Event(), threading.Event()
        self._heard = 0

    def begin(self, at: int | None = None) -> None:
        """Let time stand still as soon as possible, or when ``at`` us have passed since the start."""
        self._meet(self.now if at is None else at)()

    def begin_later(self, at: int) -> Callable[[], None]:
        """As ``begin``, to be waited for by calling what it returns."""
        return self._meet(at)

    def close(self) -> None:
        """Let time pass by itself again; safe to call twice."""
        self._closed.set()
        self._go.set()

    def _meet(self, at: int) -> Callable[[], None]:
        """Stop time ``at`` us after the start, and let it pass until then; returns what waits for that."""
        met, go, before = threading.Event(), threading.Event(), self._go

        def here() -> None:
            met.set()
            go.wait()

        self._go = go
        if self._closed.is_set():
            go.set()
        self._server.at(at * 1e-6, here)
        before.set()

        def wait() -> None:
            while not met.wait(LOOK):
                if self._closed.is_set() or not self._server.running:
                    go.set()
                    raise UserError("the simulation stopped")
            for vehicle in self._vehicles:
                vehicle.monitor.synchronise()

        return wait

    @property
    def now(self) -> int:
        """us of simulated time."""
        return round(self._server.status().time * 1e6)

    def pass_time(self, steps: int) -> None:
        """Let time pass."""
        self.greet()
        self._meet(self.now + steps * STEP)()
        monitors = [vehicle.monitor for vehicle in self._vehicles]
        if not any(monitor.status().silent for monitor in monitors):
            self._heard = self.now
        elif self.now - self._heard > SILENCE:
            raise UserError("the flight stack has sent no telemetry for 5 s")

    @property
    def place(self) -> tuple[float, float]:
        """Deg latitude and longitude of the world's origin."""
        origin = self._server.simulation.world.specification.origin
        return origin.latitude, origin.longitude

    def is_armed(self, vehicle: int) -> bool:
        """Whether a vehicle's motors may turn."""
        return self._server.status().links[self._vehicles[vehicle].number].armed

    def on_ground(self, vehicle: int) -> bool:
        """Whether a vehicle stands on something."""
        return bool(self._server.simulation.states[self._vehicles[vehicle].number]["in_contact"])


class PlanMission:
    """A plan that one vehicle of a session flies, on a thread of its own.

    With the built-in stack time stands still after it.

    Args:
        vehicle: that flies it.
        server: of the session.
        plan: that it flies.
        say: receives lines for the user.
        shown: whether something shows the flight, and is to see its end.
    """

    gate: MissionGate | None = None

    def __init__(
        self,
        vehicle: VehicleRun,
        server: LockstepServer,
        plan: Plan,
        say: Callable[[str], None],
        *,
        shown: bool,
    ) -> None:
        self._vehicle, self._limit = vehicle, server.limit_time()
        self._stacks = SessionVehicles([vehicle], server)
        self._plan, self._say, self._shown = plan, say, shown
        self._reason = "the mission was interrupted"
        self._status: int | None = None
        begun = self._stacks.begin_later(FIRST)
        self._thread = threading.Thread(target=self._run, args=(begun,), name="plan", daemon=True)
        self._thread.start()

    def poll(self) -> int | None:
        """Exit status as of a mission's process; None while it flies."""
        return self._status

    def reason(self) -> str:
        """Why it failed."""
        return self._reason

    def free(self) -> None:
        """Let time pass for others, after the end; safe to call twice."""
        self._limit.release()

    def stop(self) -> None:
        """End it; safe to call twice."""
        self._stacks.close()
        self._thread.join(timeout=5.0)

    def _run(self, begun: Callable[[], None]) -> None:
        status = FAILED
        try:
            begun()
            self._fly()
            status = SUCCEEDED
        except UserError as error:
            self._reason = str(error)
            self._tell(f"mission failed: {error}")
            with contextlib.suppress(UserError):
                if self._stacks.is_armed(0) and not self._stacks.on_ground(0):
                    self._stacks.set_mode(0, "Hold")
        finally:
            if self._vehicle.monitor.prompt:  # where flights repeat to the bit
                self._limit.run_until(self._stacks.now)
            self._stacks.close()
            if self._shown:
                time.sleep(LAST_LOOK)
            self._status = status

    def _fly(self) -> None:
        stacks = self._stacks
        if stacks.wait([0], lambda i: not stacks.problems(i), READY_LIMIT):
            raise stacks.not_ready([0], READY_LIMIT)
        stacks.advance(-(stacks.now % -ROUND) // STEP)  # so that one seed repeats closely
        fly_plans(stacks, {0: self._plan}, say=self._tell)
        self._tell("mission succeeded")

    def _tell(self, line: str) -> None:
        self._say(f"{stamp(self._stacks.now * 1e-6)} {line}")


class FlightCommands:
    """Hands commands of page and bus to flight stacks, one after another, on a thread of its own.

    Args:
        vehicles: with open monitors.
        server: of the session.
    """

    def __init__(self, vehicles: Sequence[VehicleRun], server: LockstepServer) -> None:
        self._vehicles, self._server = vehicles, server
        self._present: SessionVehicles | None = None
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="flight-commands")

    def ask(self, kind: str, data: Mapping[str, Any], vehicle: int | None) -> Future[None]:
        """Execute a command of the bus; the future completes with the flight stack's answer.

        Raises:
            UserError: for a command of the whole run, and while time stands still.
        """
        if vehicle is None:
            raise UserError(f"{kind} is for one vehicle")
        if self._server.status().paused:
            raise UserError(f"{kind}: simulated time stands still, and no flight stack answers; resume it")
        return self._executor.submit(self._execute, kind, dict(data), vehicle)

    def close(self) -> None:
        """Drop commands that wait; safe to call twice."""
        self._executor.shutdown(wait=False, cancel_futures=True)
        if self._present is not None:
            self._present.close()
        self._executor.shutdown(wait=True)

    def _execute(self, kind: str, data: Mapping[str, Any], vehicle: int) -> None:
        stacks = self._present = SessionVehicles([self._vehicles[vehicle]], self._server)
        try:
            stacks.begin()
            if kind == "arm":
                stacks.switch_motors(0, on=bool(data.get("armed", True)))
            elif kind == "takeoff":
                stacks.switch_motors(0, on=True)
                stacks.take_off([0], float(data.get("height", 2.5)))
            else:
                raise UserError(f"no command {kind!r} for flight stacks")
        finally:
            stacks.close()
