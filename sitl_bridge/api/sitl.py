"""Vehicles that a program flies step by step in simulated time, with PX4 or the built-in flight stack."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from numpy.typing import ArrayLike
from pydantic import TypeAdapter, ValidationError

from sitl_bridge.analysis.evaluation.measures import validate_limits
from sitl_bridge.analysis.evaluation.verdict import Verdict
from sitl_bridge.api.airframe_choice import AirframeChoice
from sitl_bridge.api.compiling import compilation_shown
from sitl_bridge.api.pool import FlightPool, needs_processes
from sitl_bridge.api.stacks import Stacks
from sitl_bridge.api.vehicle_arrays import place_vehicles, validate_parameters, validate_seed, validate_speed
from sitl_bridge.api.vehicles import Vehicles
from sitl_bridge.api.was_attribute import was_attribute
from sitl_bridge.api.world_choice import WindChoice, World, WorldChoice, world_of
from sitl_bridge.autopilot.control.gains import ControllerChoice
from sitl_bridge.base.errors import ConfigurationError, UserError
from sitl_bridge.base.json_data import ReadJson
from sitl_bridge.base.user_file import require_not_loading
from sitl_bridge.core.dynamics.proximity import Proximity
from sitl_bridge.core.simulation.events import (
    AnyEvent,
    EventSpecification,
    GustEvent,
    PassingEvent,
    ScheduledEvent,
    WindEvent,
    problems,
)
from sitl_bridge.core.vehicle.stack_choice import Choice
from sitl_bridge.core.world.wind import WindSpecification
from sitl_bridge.link.px4.given_parameters import load_parameters
from sitl_bridge.live.bus.address import BusAddress
from sitl_bridge.plan.plan_file import load_fence
from sitl_bridge.session.settings import FlightSettings, VehicleSettings, choose_autopilot

FaultChoice = AnyEvent | ReadJson
"""A fault of ``sb.faults``, or an event as a scenario file has it."""

_EVENT: TypeAdapter[EventSpecification] = TypeAdapter(EventSpecification)


class Flight(Vehicles):
    """Vehicles with their flight stacks, ready to arm; use it in a ``with`` block.

    Args:
        settings: of the flight.
        faults: scheduled ones, at s from when the vehicles are ready.
        pool: that makes the flight stacks.
        linked: whether these are processes that are reached over MAVLink.
        alone: whether it is one vehicle, without a vehicle axis.
        owns_pool: whether the pool ends with the flight, and starts those of the next ``reset`` ahead.
        controllers: of vehicles flown in this process; None for the settings'.
        files: whether a flight in this process writes a run directory.
        record: whether a flight in this process keeps truth and logs at all.

    Raises:
        UserError: for what cannot be flown, and for vehicles that do not become ready.
    """

    def __init__(
        self,
        settings: FlightSettings,
        faults: Sequence[EventSpecification],
        pool: FlightPool,
        *,
        linked: bool,
        alone: bool,
        owns_pool: bool = False,
        controllers: Sequence[ControllerChoice] | None = None,
        files: bool = True,
        record: bool = True,
    ) -> None:
        self._settings, self._faults, self._pool = settings, tuple(faults), pool
        self._linked, self._owns_pool, self._controllers = linked, owns_pool, controllers
        self._files, self._kept = files, record
        self._seed_step, self._published = 0, False
        super().__init__([self._open()], range(len(settings.vehicles)), alone)

    def _open(self) -> Stacks:
        with compilation_shown():
            stacks = self._pool.open(
                self._settings,
                linked=self._linked,
                controllers=self._controllers,
                files=self._files,
                record=self._kept,
            )
        if self._settings.fence is not None:
            for vehicle in range(len(self._settings.vehicles)):
                stacks.commands.upload(vehicle, self._settings.fence)
        stacks.schedule(self._faults)
        if self._owns_pool and self._linked:
            # Programs that change the seed mostly count on.
            following = replace(self._settings, seed=max(0, self._settings.seed + self._seed_step))
            self._pool.prepare(following, instead=True)
        return stacks

    # ------------------------------------------------------------------ vehicles and flight stacks

    @property
    def vehicle(self) -> Vehicles:
        """The only vehicle.

        Raises:
            UserError: for several.
        """
        if len(self) != 1:
            raise UserError(f"vehicle: there are several; take sitl[name] of {', '.join(self.names)}")
        return self[0]

    @property
    def flown_by(self) -> str:
        """The flight stack, in words."""
        return self._stacks.flown_by

    @property
    def seed(self) -> int:
        """Of all random numbers."""
        return self._settings.seed

    @property
    def stacks(self) -> Stacks:
        """The simulation and flight stacks beneath, for programs that extend them."""
        return self._stacks

    def reset(self, seed: int | None = None) -> None:
        """Put all vehicles back to the start, ready to arm.

        The flight so far ends without a verdict, unless it was asked for.  What follows is what a new Sitl of
        that seed does: to the byte with the built-in stack in this process; with PX4 a fresh one flies,
        which was started ahead if ``warm`` is 1 or more.

        Args:
            seed: of all random numbers from now on; None keeps the seed.

        Raises:
            UserError: for an invalid seed, for vehicles that do not become ready, and within ``publish``.
        """
        if self._published:
            raise UserError("reset: the flight is on the bus; end the `with` block of publish() first")
        if seed is not None:
            self._seed_step = validate_seed(seed) - self._settings.seed
            self._settings = replace(self._settings, seed=validate_seed(seed))
        self._stacks.close()
        self._flight[0] = self._open()

    # ------------------------------------------------------------------ what happens to them

    def fault(self, event: FaultChoice | ScheduledEvent) -> RunningFault:
        """Let something break now: ``sitl.fault(sb.faults.MotorLoss(motor=2))``.

        Args:
            event: of ``sb.faults``, or as a scenario file has it; its ``at`` counts as now.

        Returns:
            the fault, which ends at the end of a ``with`` block or by its ``end``; else it lasts, as long as
            the event says or to the end of the flight.

        Raises:
            UserError: for an event that cannot happen.
        """
        found = events_of([{"at": 0.0, **event}], self._settings)[0] if isinstance(event, Mapping) else event
        return RunningFault(self._stacks, found)

    def set_wind(self, wind: WindChoice) -> None:
        """Let another wind blow from now on.

        Args:
            wind: as of a World, but no wind of the user's own.

        Raises:
            UserError: for an invalid wind.
        """
        specification = World(wind=wind).specification.wind
        if not isinstance(specification, WindSpecification):
            raise UserError("set_wind: a wind of your own blows from the start; give it to the World")
        self._stacks.happen(WindEvent(at=0.0, kind="wind_change", wind=specification), begins=True)

    @contextmanager
    def publish(self, address: str, *, speed: float = 1.0, logs: str | Path = ".") -> Iterator[str]:
        """Publish the flight on MQTT and take commands from there, within a ``with`` block.

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
        from sitl_bridge.live.run.outlet import RunContext

        source = self._stacks.source
        before = source.speed
        source.set_speed(speed)
        run = RunContext(source, Path(logs), name=self._settings.name)
        with Bus(run, BusAddress.parse(address)) as bus:
            self._published = True
            try:
                yield str(bus.address)
            finally:
                self._published = False
                source.set_speed(before)

    # ------------------------------------------------------------------ the end

    @property
    def directory(self) -> Path:
        """Run directory, with logs and, at the end, summary.

        Raises:
            UserError: when nothing is written.
        """
        return self._stacks.directory

    @was_attribute
    def verdict(self, reason: str = "") -> Verdict:
        """End the flight and judge it; ``verdict().check()`` raises what went wrong.  Safe to call twice.

        Args:
            reason: why it failed, where the program knows better.
        """
        return self._stacks.finish(reason).verdict

    def close(self) -> None:
        """End the flight without judging it; safe to call twice."""
        self._stacks.close()
        if self._owns_pool:
            self._pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._files and self._kept and (kind is None or issubclass(kind, Exception)):
                named = error is None or isinstance(error, UserError)
                self.verdict(str(error or "") if named else f"{type(error).__name__}: {error}")
        finally:
            self.close()


class Sitl(Flight):
    """Vehicles with their flight stacks, ready to arm; a program advances simulated time and commands them.

    Use it in a ``with`` block.  It is all of its vehicles: ``sitl.arm()`` arms each, ``sitl["b"].land()``
    lands one.  The built-in stack flies within this process, hundreds of times faster than real time, and the
    same seed and calls give the same bytes; PX4 flies in lockstep as a process of its own.

    Args:
        airframes: one, or a list of several: by name, file or as objects.  One that is not in a list is flown
            without a vehicle axis: ``sitl.position`` is (3,).
        autopilot: ``"builtin"``, ``"px4"``, or ``"auto"`` for PX4 where it is found.
        px4: PX4 checkout or build; None looks for one.
        world: the world they fly in; None for calm air over level ground.
        seed: of all random numbers.
        names: of the vehicles, different ones; they name the random streams.  None numbers them.
        positions: (n, 2) m north and east of the world's origin of the points where the vehicles stand; None
            places them in a row towards the east.
        spacing: m between neighbours in that row.
        yaw: rad from north, clockwise; one for all or (n,).
        controller: of the built-in stack: ``"hector_pid"``, ``"lee"``, ``"rotors"`` or ``"FILE.py:CLASS"``;
            in this process also a class derived from ``Controller``, or a function that takes a
            ``VehicleModel`` and returns one; a list gives each vehicle its own.  None takes the airframe's.
        parameters: of the flight stacks, by PX4's names, changed from their defaults.
        params: parameters of a real vehicle: a file of QGroundControl (.params) or MAVProxy (.parm).  Those
            of its flight are flown; a warning says which are not, and why.
        params_win: whether that file overrides what follows from the airframe.
        faults: scheduled ones, at s from when the vehicles are ready.
        proximity: contact and downwash between vehicles; None for neither, ``"auto"`` for both where there
            are several.
        speed: simulated over wall time; inf for as fast as it goes.
        mavlink: whether the built-in stack, too, is a process that MAVSDK and QGroundControl reach.
        limits: of measures by name, with which the flight succeeds.
        runs: where run directories are made, with logs and summary; None keeps all in memory, but makes them
            in ``runs`` for flight stacks that are processes.
        record: whether a flight within this process keeps truth and logs at all; without, there is neither
            ``truth`` nor verdict, and long flights of many vehicles take no memory.
        name: of the run directory.
        fence: a plan whose geofence and rally points all vehicles get, once they are ready.
        wait: whether it begins when all vehicles can arm; without, once their flight stacks have started and
            read their parameters, for programs that send the position themselves.  ``arm`` waits in any case.
        warm: PX4s that start and settle in the background for the next resets, with the seed that follows
            if the seeds count on.

    Raises:
        UserError: for arguments that contradict one another, and for vehicles that do not become ready.
    """

    def __init__(
        self,
        airframes: AirframeChoice | Sequence[AirframeChoice] = "iris",
        *,
        autopilot: Choice = "builtin",
        px4: str | Path | None = None,
        world: WorldChoice = None,
        seed: int = 0,
        names: Sequence[str] | None = None,
        positions: ArrayLike | None = None,
        spacing: float = 5.0,
        yaw: ArrayLike = 0.0,
        controller: ControllerChoice | Sequence[ControllerChoice] = None,
        parameters: Mapping[str, int | float] | None = None,
        params: str | Path | None = None,
        params_win: bool = False,
        faults: Sequence[FaultChoice] = (),
        proximity: Proximity | str | None = "auto",
        speed: float = math.inf,
        mavlink: bool = False,
        limits: Mapping[str, float | None] | None = None,
        runs: str | Path | None = None,
        record: bool = True,
        name: str = "sitl",
        fence: str | Path | None = None,
        wait: bool = True,
        warm: int = 0,
    ) -> None:
        require_not_loading("a Sitl")
        speed, given = validate_speed(speed), validate_parameters(parameters or {})
        file = load_parameters(params, wins=params_win)
        found, called, places, headings = place_vehicles(airframes, names, positions, spacing, yaw)
        controllers = _controllers(controller, len(found))
        chosen = choose_autopilot(
            "px4" if px4 is not None and autopilot == "builtin" else autopilot,
            None if px4 is None else Path(px4),
        )
        if proximity == "auto":
            proximity = Proximity() if len(found) > 1 else None
        elif isinstance(proximity, str):
            raise UserError(f"proximity: {proximity!r} is neither 'auto' nor a Proximity nor None")
        settings = FlightSettings(
            tuple(
                VehicleSettings(
                    airframe,
                    name=vehicle,
                    position=place,
                    yaw=heading,
                    autopilot="px4" if chosen.kind == "px4" else "builtin",
                    controller=choice if isinstance(choice, str) else None,
                    parameters=given,
                    parameter_file=file,
                )
                for airframe, vehicle, place, heading, choice in zip(
                    found, called, places, headings, controllers, strict=True
                )
            ),
            name,
            world=world_of(world).specification,
            seed=validate_seed(seed),
            speed=speed,
            px4=None if chosen.px4 is None else Path(chosen.px4.root),
            runs=Path("runs" if runs is None else runs),
            on_stall="wait",
            proximity=proximity,
            limits=validate_limits(limits or {}, "limits"),
            fence=None if fence is None else load_fence(fence),
            wait=wait,
        )
        outside = [fault for vehicle in settings.vehicles for fault in settings.fence_faults(vehicle)]
        if outside:
            raise ConfigurationError("cannot fly", outside)
        for note in settings.given_notes([chosen] * len(found)):
            warnings.warn(note, RuntimeWarning, stacklevel=2)
        events = events_of(faults, settings)
        linked = mavlink or chosen.kind == "px4" or not math.isinf(speed) or needs_processes(settings, events)
        if linked and any(choice is not None and not isinstance(choice, str) for choice in controllers):
            raise UserError("controller: a flight stack of its own process takes a name or FILE.py:CLASS")
        alone = isinstance(airframes, str | Path) or not isinstance(airframes, Sequence)
        super().__init__(
            settings,
            events,
            FlightPool(warm),
            owns_pool=True,
            linked=linked,
            alone=alone,
            controllers=controllers,
            files=runs is not None,
            record=record,
        )


class RunningFault:
    """A fault that has begun; it ends with its ``with`` block or by ``end``.

    Args:
        stacks: of the flight.
        event: that begins now.

    Raises:
        UserError: for an event that cannot happen.
    """

    def __init__(self, stacks: Stacks, event: ScheduledEvent) -> None:
        self._stacks, self._event, self._over = stacks, event, False
        stacks.happen(event, begins=True)

    def end(self) -> None:
        """Put right what broke; safe to call twice.

        Raises:
            UserError: for what does not recover.
        """
        if self._over:
            return
        self._over = True
        if not isinstance(self._event, PassingEvent):
            raise UserError(f"{type(self._event).__name__}: there is no recovery from it")
        self._stacks.happen(self._event, begins=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_rest: object) -> None:
        if kind is None:
            self.end()


def events_of(
    given: Sequence[FaultChoice | ScheduledEvent], settings: FlightSettings
) -> tuple[EventSpecification, ...]:
    """Events as a scenario file lists them, or objects of them.

    Raises:
        ConfigurationError: with what is wrong, by event.
    """
    events: list[Any] = []
    faults = []
    listed: Sequence[object] = given
    for i, event in enumerate(listed):
        if isinstance(event, ScheduledEvent):
            events.append(event)
            continue
        if not isinstance(event, Mapping):
            faults.append(f"faults[{i}]: {event!r} is neither of sb.faults nor an event as in a scenario")
            continue
        try:
            events.append(_EVENT.validate_python(dict(event)))
        except ValidationError as error:
            faults += [
                f"faults[{'.'.join(map(str, (i, *fault['loc'])))}]: {fault['msg']}"
                for fault in error.errors()
            ]
    names = [vehicle.name for vehicle in settings.vehicles]
    faults += problems(events, names, [vehicle.airframe for vehicle in settings.vehicles])
    faults += [
        f"faults: a gust at {event.at:g} s is part of the world's wind; name it there (wind: gusts:)"
        for event in events
        if isinstance(event, GustEvent)
    ]
    if faults:
        raise ConfigurationError("faults", faults)
    return tuple(events)


def _controllers(given: ControllerChoice | Sequence[ControllerChoice], count: int) -> list[ControllerChoice]:
    if given is None or isinstance(given, str) or callable(given):
        return [given] * count
    listed = list(given)
    if len(listed) != count:
        raise UserError(f"controller: one or {count} are needed, not {len(listed)}")
    return listed
