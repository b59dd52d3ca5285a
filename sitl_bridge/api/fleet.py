"""A fleet on the built-in flight stack in this process: commands by their meaning, simulated time, arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sitl_bridge.api.airframe_choice import AirframeChoice
from sitl_bridge.api.compiling import compilation_shown
from sitl_bridge.api.fleet_commands import FleetCommands, Message
from sitl_bridge.api.truth_table import Recording
from sitl_bridge.api.vehicle_arrays import Array, checked_seed, placed
from sitl_bridge.api.world_choice import WorldChoice, world_of
from sitl_bridge.autopilot.control.gains import ControllerChoice
from sitl_bridge.autopilot.stack_fleet import StackFleet as Core
from sitl_bridge.autopilot.stack_fleet import StackVehicle
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.user_file import refuse_while_loading
from sitl_bridge.core.dynamics.proximity import Proximity
from sitl_bridge.core.sensors.sensor_host import SensorHost
from sitl_bridge.live.bus.address import BusAddress
from sitl_bridge.live.bus.run_source import FleetRun
from sitl_bridge.swarm.in_process import BuiltInFleet
from sitl_bridge.swarm.interface import Setpoints


class Fleet(FleetCommands):
    """n vehicles with their sensors and built-in flight stacks, advanced together in this process.

    Positions are NED in m from the world's origin, for commands and states alike.  ``position``, ``velocity``
    and so on are the truth; ``estimated_position`` and so on are the estimates.  Simulated time
    passes only within ``run``, ``run_until``, ``arm``, ``takeoff``, ``land`` and ``return_home``.  The same
    seed and the same calls give the same bytes.

    Args:
        airframes: one or several, by name, file or as objects.
        positions: (n, 2) m north and east of the world's origin of the points where the vehicles stand; None
            places them in a row towards the east.
        spacing: m between neighbours in that row.
        yaw: rad from north, clockwise; one for all or (n,).
        world: the world they fly in.
        controller: ``"hector_pid"``, ``"lee"``, ``"rotors"`` or ``"FILE.py:CLASS"``; or a class derived from
            ``Controller``, or a function that takes a ``Vehicle`` and returns one; a list gives each vehicle
            its own.  None takes the airframe's.
        parameters: of the flight stack, by PX4's names, changed from their defaults.
        seed: of all random numbers.
        names: of the vehicles, different ones; they name the random streams.  None numbers them.
        proximity: contact and downwash between vehicles; None for neither.
        logs: directory for a ULog and the custom sensors' tables of each vehicle; None keeps none.

    Attributes:
        messages: status texts of all vehicles so far.

    Raises:
        UserError: for arguments that contradict one another.
    """

    def __init__(
        self,
        airframes: AirframeChoice | Sequence[AirframeChoice],
        *,
        positions: ArrayLike | None = None,
        spacing: float = 5.0,
        yaw: ArrayLike = 0.0,
        world: WorldChoice = None,
        controller: ControllerChoice | Sequence[ControllerChoice] = None,
        parameters: Mapping[str, int | float] | None = None,
        seed: int = 0,
        names: Sequence[str] | None = None,
        proximity: Proximity | None = None,
        logs: str | Path | None = None,
    ) -> None:
        refuse_while_loading("a Fleet")
        found, called, places, headings = placed(airframes, names, positions, spacing, yaw)
        self.airframes, self.names = tuple(found), tuple(called)
        directory = None if logs is None else Path(logs)
        members = [
            StackVehicle(
                airframe,
                name,
                (place[0], place[1], place[2]),
                float(heading),
                choice,
                dict(parameters or {}),
                None if directory is None else directory / f"{name}.ulg",
                directory,
            )
            for airframe, name, place, heading, choice in zip(
                found, called, places, headings, _controllers(controller, len(found)), strict=True
            )
        ]
        if directory is not None:
            directory.mkdir(parents=True, exist_ok=True)
        with compilation_shown():
            self._fleet = Core(world_of(world).build(), members, seed=checked_seed(seed), proximity=proximity)
            self._fleet.prepare()
        self._core = self._fleet.simulation
        self._interface = BuiltInFleet(self._fleet, places)
        self._targets = Setpoints.none(len(found))
        self._led = np.zeros(len(found), np.bool_)
        """Vehicles that follow ``_targets``."""
        self._run: FleetRun | None = None
        self.messages: list[Message] = []

    @property
    def _hosts(self) -> tuple[SensorHost, ...]:
        return self._fleet.hosts

    def _set_recorder(self, recorder: Recording | None) -> None:
        self._fleet.record(recorder)

    # ------------------------------------------------------------------ time

    def reset(self, seed: int | None = None, *, logs: str | Path | None = None) -> None:
        """Put all vehicles back to the start, ready to fly again at once.

        Simulation, estimators, commanders and MAVLink state begin anew in place: what follows is byte for
        byte what a new fleet of that seed does.  A recording that is under way ends.

        Args:
            seed: of all random numbers from now on; None keeps the seed.
            logs: new directory for ULogs and the custom sensors' tables; None writes none.

        Raises:
            UserError: within ``publish``, and for an invalid seed.
        """
        if self._run is not None:
            raise UserError("reset: the fleet is on the bus; end the `with` block of publish() first")
        if self._recording is not None:
            self._recording.close()
        directory = None if logs is None else Path(logs)
        if directory is not None:
            directory.mkdir(parents=True, exist_ok=True)
        self._fleet.reset(None if seed is None else checked_seed(seed), directory)
        self._interface = BuiltInFleet(self._fleet, self._interface.origins)
        self._targets = Setpoints.none(len(self))
        self._led[:] = False
        self.messages = []

    def run(self, seconds: float, each: Callable[[Fleet], None] | None = None) -> None:
        """Let simulated time pass, in whole steps.

        Args:
            seconds: of simulated time.
            each: called with the fleet at every update of the flight stacks' commanders, 48 ms apart; it may
                give commands that take no time.

        Raises:
            UserError: for a vehicle whose motion diverges, and when a user's controller or sensor fails.
        """
        if not 0.0 <= seconds < float("inf"):
            raise UserError(f"run: {seconds!r} s is not a duration")
        left = round(seconds / self.step_size)
        while left > 0:
            left -= self._advance(left, each)

    def run_until(self, condition: Callable[[Fleet], Any], limit: float = 60.0) -> None:
        """Let simulated time pass until ``condition(fleet)`` is true, checked every 48 ms.

        Args:
            condition: true for a single value, or for all vehicles of an (n,) array.
            limit: s of simulated time.

        Raises:
            UserError: if it stays false for that time.
        """
        end = self.time + limit
        while not np.all(condition(self)):
            if self.time >= end:
                raise UserError(f"run_until: the condition has not become true within {limit:g} s")
            self._advance(self._fleet.steps_to_update)

    def _advance(self, most: int, each: Callable[[Fleet], None] | None = None) -> int:
        """Advance to the next update of the commanders, or by ``most`` steps; returns how many."""
        if each is not None:
            each(self)
        count = min(most, self._fleet.steps_to_update)
        if self._led.any():
            self._interface.command(self._targets, self._led)
        if self._run is None:
            self._fleet.advance_steps(count)
        else:
            self._run.advance_steps(count)
        self._collect()
        return count

    def _collect(self) -> None:
        """Take over the vehicles' status texts."""
        for name, pilot in zip(self.names, self._fleet.pilots, strict=True):
            texts = pilot.commander.texts
            while texts:
                level, text = texts.popleft()
                self.messages.append(Message(self.time, name, level, text))

    # ------------------------------------------------------------------ the vehicles' estimates

    @property
    def estimated_position(self) -> Array:
        """(n, 3) m NED from the world's origin, by the vehicles' own estimates."""
        return self._interface.states().position

    @property
    def estimated_velocity(self) -> Array:
        """(n, 3) m/s NED, by the vehicles' own estimates."""
        return self._interface.states().velocity

    @property
    def estimated_attitude(self) -> Array:
        """(n, 4) quaternion w, x, y, z, body FRD to NED, by the vehicles' own estimates."""
        attitude: Array = self._fleet.stacks.estimates["attitude"].copy()
        return attitude

    @property
    def armed(self) -> NDArray[np.bool_]:
        """(n,)."""
        return np.array([pilot.commander.armed for pilot in self._fleet.pilots])

    @property
    def modes(self) -> tuple[str, ...]:
        """Flight modes, in PX4's words."""
        return tuple(pilot.commander.mode.name for pilot in self._fleet.pilots)

    @property
    def battery(self) -> Array:
        """(n,) share of the charge, 0..1; nan before the first sample."""
        return np.array([pilot.commander.battery_state.remaining for pilot in self._fleet.pilots])

    @property
    def arming_problems(self) -> tuple[tuple[str, ...], ...]:
        """The reasons why each vehicle cannot arm; empty if it can."""
        return tuple(tuple(pilot.commander.arming_problems) for pilot in self._fleet.pilots)

    @property
    def core(self) -> Core:
        """The underlying simulation and flight stacks, for programs that extend them."""
        return self._fleet

    @property
    def distance_left(self) -> Array:
        """(n,) m from the estimated positions to the commanded ones; nan without a command."""
        left: Array = np.linalg.norm(self.estimated_position - self._targets.position, axis=1)
        return np.where(self._led, left, np.nan)

    def arrived(self, within: float = 0.5) -> NDArray[np.bool_]:
        """(n,) whether a vehicle's estimated position is at the commanded one.

        Args:
            within: m.
        """
        near: NDArray[np.bool_] = self.distance_left < within
        return near

    # ------------------------------------------------------------------ the bus

    @contextmanager
    def publish(self, address: str, *, speed: float = 1.0, logs: str | Path = ".") -> Iterator[str]:
        """Publish the fleet on MQTT and take commands from there, within a ``with`` block.

        Args:
            address: ``embedded``, ``embedded:PORT`` or ``mqtt[s]://USER@HOST:PORT``.
            speed: simulated over wall time; ``inf`` for as fast as it goes.
            logs: directory for the logs of the bus's process.

        Yields:
            the broker's URL.

        Raises:
            UserError: for an invalid address, and a port that is in use.
        """
        from sitl_bridge.live.bus.bus import Bus  # MQTT takes time to load, which only this needs

        run = FleetRun(self._fleet, speed)
        with Bus(run, BusAddress.parse(address), run="fleet", directory=Path(logs) / "bus") as bus:
            self._run = run
            try:
                yield bus.url
            finally:
                self._run = None

    # ------------------------------------------------------------------ end

    def close(self) -> None:
        """Finish the vehicles' logs and a recording; safe to call twice."""
        if self._recording is not None:
            self._recording.close()
        self._fleet.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()


def _controllers(given: ControllerChoice | Sequence[ControllerChoice], count: int) -> list[ControllerChoice]:
    """One choice a vehicle.

    Raises:
        UserError: for a list of another length.
    """
    if given is None or isinstance(given, str) or callable(given):
        return [given] * count
    listed = list(given)
    if len(listed) != count:
        raise UserError(f"controller: one or {count} are needed, not {len(listed)}")
    return listed
