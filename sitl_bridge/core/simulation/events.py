"""Faults and changes of a flight, each as one class: what a user writes, and what it does to a simulation.

Scenario files, the message bus, the live page, tests and replays use these classes.  To add a fault, write a
class with a ``kind``, its effect in ``begin`` and ``end``, and a place in ``AnyEvent``; one that changes
while it lasts also needs a field of a record that a kernel reads.  Events of a formation, such as a vehicle
that leaves it, are in swarm/formation/events.py; a scenario file has one list of all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from sitl_bridge.base.arrays import Records
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.field_paths import kinds
from sitl_bridge.base.json_data import JsonObject, ReadJson
from sitl_bridge.base.quantities import STRICT, Degrees, Seconds, Share, Vector
from sitl_bridge.base.user_file import UserClass, failure_text
from sitl_bridge.core.dynamics.scene_start import start_state
from sitl_bridge.core.dynamics.vibration import damage_propeller
from sitl_bridge.core.sensors.gps import GPS, JAMMING, SPOOF_DRIFT, SPOOF_OFFSET
from sitl_bridge.core.sensors.records import FAULT_NONE, FAULT_OFF, FAULT_STUCK
from sitl_bridge.core.sensors.registry import KIND_NAMES
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.world.wind import Gust, Length, Moment, PassingSpeed, Speed, Upward, WindSpecification

if TYPE_CHECKING:
    from sitl_bridge.core.simulation.simulation import Fault, Simulation

Need = Literal["dynamics", "sensors", "processes"]
"""Part that a simulation must have for an event to have an effect."""
STALL = 1.0
"""s of simulated time for which a flight stack may stop to answer after a signal to its process."""


def _require_time(schema: JsonObject) -> None:
    """A file names time and kind of an event; a program that lets it happen at once need not."""
    schema["required"] = ["at", "kind", *(n for n in schema.get("required", ()) if n not in ("at", "kind"))]


def _set_time(event: ScheduledEvent) -> ScheduledEvent:
    if "at" not in event.model_fields_set:
        raise PydanticCustomError("missing", "Field required: at, s of simulated time since the start")
    return event


class ScheduledEvent(BaseModel):
    """An event at a time."""

    model_config = STRICT | ConfigDict(json_schema_extra=_require_time)
    needs: ClassVar[Need] = "dynamics"
    is_fault: ClassVar[bool] = True
    """Whether something breaks: not for what a sound vehicle copes with."""

    at: Seconds = Field(0.0, description="s of simulated time since the start")

    def problem(self, _airframe: Airframe) -> str:
        """Why it cannot happen to a vehicle; empty if it can."""
        return ""

    @property
    def silences(self) -> float:
        """For how many s a flight stack may stop to answer after it, if it has no end; 0 for never."""
        return 0.0


class VehicleEvent(ScheduledEvent):
    """An event of vehicles."""

    vehicles: tuple[int | str, ...] | None = Field(None, description="numbers or names; default: all")

    def begin(self, simulation: Simulation, vehicle: int) -> None:
        """Change a vehicle of a simulation, between two steps.

        Raises:
            UserError: if it cannot happen to the vehicle.
        """
        raise TypeError(f"{type(self).__name__}: no effect on vehicle {simulation.names[vehicle]} is known")


class PassingEvent(VehicleEvent):
    """An event of vehicles that may have an end."""

    lasts: Annotated[Seconds, Field(gt=0.0)] | None = Field(
        None, description="duration in s; default: to the end of the flight"
    )

    @property
    def part(self) -> tuple[str | int, ...]:
        """Part that breaks: a fault of the same part goes on when this one ends; empty if none does."""
        return ()

    def end(self, simulation: Simulation, vehicle: int) -> None:
        """Put right what ``begin`` changed.

        Raises:
            UserError: if it cannot happen to the vehicle.
        """
        raise TypeError(
            f"{type(self).__name__}: vehicle {simulation.names[vehicle]} does not recover from it"
        )


class _OneMotor(PassingEvent):
    motor: int = Field(1, ge=1, description="PX4's number: the first motor of the airframe is 1")

    def problem(self, airframe: Airframe) -> str:
        """Why it cannot happen to the vehicle."""
        count = len(airframe.rotors)
        return "" if self.motor <= count else f"{airframe.name} has motors 1 to {count}"

    @property
    def part(self) -> tuple[str | int, ...]:
        """The motor with its propeller."""
        return ("motor", self.motor)

    def begin(self, simulation: Simulation, vehicle: int) -> None:
        """Reduce the thrust, on top of a fault of the motor's other kind."""
        self._set(simulation, vehicle, [*simulation.faults[vehicle], self])

    def end(self, simulation: Simulation, vehicle: int) -> None:
        """Restore the thrust, up to what other faults of the motor leave."""
        self._set(simulation, vehicle, simulation.faults[vehicle])

    def _set(self, simulation: Simulation, vehicle: int, faults: Iterable[Fault]) -> None:
        """Give the rotor the thrust and imbalance that the last loss and the last damage leave."""
        count = int(simulation.vehicles[vehicle]["rotor_count"])
        if self.motor > count:
            raise UserError(f"the vehicle has motors 1 to {count}, not {self.motor}")
        thrust, lost = 1.0, 0.0
        for fault in faults:
            if fault.part == self.part:
                thrust = fault.thrust if isinstance(fault, MotorLoss) else thrust
                lost = fault.lost if isinstance(fault, PropellerDamage) else lost
        state = simulation.states[vehicle]
        damage_propeller(simulation.vehicles[vehicle], state, self.motor - 1, lost)
        state["rotor_health"][self.motor - 1] *= thrust


class MotorLoss(_OneMotor):
    """A rotor loses thrust and torque; with no share left its motor has no power, and the rotor runs down."""

    kind: Literal["motor_loss"] = Field("motor_loss", description="kind of event")
    thrust: Share = Field(0.0, description="remaining share")

    def end(self, simulation: Simulation, vehicle: int) -> None:
        """Restore the thrust, of a broken rotor, too."""
        super().end(simulation, vehicle)
        simulation.states[vehicle]["rotor_broken"][self.motor - 1] = 0


class PropellerDamage(_OneMotor):
    """A propeller loses the tip of one blade: less thrust and torque, and vibration by its imbalance."""

    kind: Literal["propeller_damage"] = Field("propeller_damage", description="kind of event")
    lost: Share = Field(0.1, description="share of the blade's length")


def find_sensor(sensors: Records, kind: str, instance: int = 0) -> int:
    """Return the index of a sensor in its vehicle's row.

    Args:
        sensors: (MAX_SENSORS,) SENSOR of one vehicle, ``simulation.sensors[i]``.
        kind: as in airframe files, e.g. ``"gps"``.
        instance: sensor id on the simulator link.

    Raises:
        UserError: with the vehicle's sensors, if it has no such sensor.
    """
    there = [(KIND_NAMES.get(int(s["kind"]), ""), int(s["instance"])) for s in sensors]
    if (kind, instance) not in there:
        known = ", ".join(f"{name} {number}" for name, number in there if name)
        raise UserError(f"the vehicle has no sensor {kind!r} {instance}; it has {known or 'none'}")
    return there.index((kind, instance))


class SensorFault(PassingEvent):
    """A sensor stops or repeats its last sample; sensor gps with fault off is the loss of GPS."""

    needs = "sensors"

    kind: Literal["sensor_fault"] = Field("sensor_fault", description="kind of event")
    sensor: str = Field(description="kind, as in airframe files", examples=list(KIND_NAMES.values()))
    instance: int = Field(0, ge=0, description="number among the sensors of the kind, from 0")
    fault: Literal["off", "stuck"] = Field("off", description="no samples, or repetition of the last one")

    def problem(self, airframe: Airframe) -> str:
        """Why it cannot happen to the vehicle."""
        try:
            find_sensor(airframe.sensor_records(), self.sensor, self.instance)
        except UserError as error:
            return str(error)
        return ""

    @property
    def part(self) -> tuple[str | int, ...]:
        """The sensor."""
        return (self.sensor, self.instance)

    @property
    def silences(self) -> float:
        """For ever, of the inertial sensor: without it PX4 sends no motor commands."""
        return math.inf if self.sensor == "imu" and self.fault == "off" else 0.0

    def begin(self, simulation: Simulation, vehicle: int) -> None:
        """Switch the sensor off, or freeze its reading."""
        self._set(simulation, vehicle, FAULT_OFF if self.fault == "off" else FAULT_STUCK)

    def end(self, simulation: Simulation, vehicle: int) -> None:
        """Clear the fault."""
        self._set(simulation, vehicle, FAULT_NONE)

    def _set(self, simulation: Simulation, vehicle: int, fault: int) -> None:
        row = find_sensor(simulation.sensors[vehicle], self.sensor, self.instance)
        simulation.sensor_states[vehicle]["fault"][row] = fault


class _GpsEvent(PassingEvent):
    needs = "sensors"

    def problem(self, airframe: Airframe) -> str:
        """Why it cannot happen to the vehicle."""
        there = {sensor.kind for sensor in airframe.sensors}
        return "" if "gps" in there else f"{airframe.name} has no satellite receiver"

    @property
    def part(self) -> tuple[str | int, ...]:
        """The signals."""
        return (type(self).__name__,)

    @staticmethod
    def _receivers(simulation: Simulation, vehicle: int) -> NDArray[np.intp]:
        rows = np.flatnonzero(simulation.sensors[vehicle]["kind"] == GPS)
        if len(rows) == 0:
            raise UserError("the vehicle has no satellite receiver")
        return rows


class GpsJamming(_GpsEvent):
    """Satellite signals are jammed."""

    kind: Literal["gps_jamming"] = Field("gps_jamming", description="kind of event")
    level: Share = Field(1.0, description="1 = no signal")

    def begin(self, simulation: Simulation, vehicle: int) -> None:
        """Jam all receivers."""
        rows = self._receivers(simulation, vehicle)
        simulation.sensor_states[vehicle]["memory"][rows, JAMMING] = self.level

    def end(self, simulation: Simulation, vehicle: int) -> None:
        """Clear the sky."""
        simulation.sensor_states[vehicle]["memory"][self._receivers(simulation, vehicle), JAMMING] = 0.0


class GpsSpoofing(_GpsEvent):
    """Satellite signals are spoofed: the fix moves away.

    An ``offset`` alone is the discontinuity of a real receiver in Linkugel and Schilling 2013, section 4.
    """

    kind: Literal["gps_spoofing"] = Field("gps_spoofing", description="kind of event")
    velocity: Vector = Field(description="of the fix, m/s north, east, down")
    offset: Vector = Field((0.0, 0.0, 0.0), description="by which the fix jumps at once, m north, east, down")

    def begin(self, simulation: Simulation, vehicle: int) -> None:
        """Move the fix of all receivers away, at once and gradually."""
        rows, memory = self._receivers(simulation, vehicle), simulation.sensor_states[vehicle]["memory"]
        memory[rows, SPOOF_DRIFT : SPOOF_DRIFT + 3] = self.velocity
        memory[rows, SPOOF_OFFSET : SPOOF_OFFSET + 3] += self.offset

    def end(self, simulation: Simulation, vehicle: int) -> None:
        """Let the fix jump back to the truth."""
        rows, memory = self._receivers(simulation, vehicle), simulation.sensor_states[vehicle]["memory"]
        memory[rows, SPOOF_DRIFT : SPOOF_DRIFT + 3] = 0.0
        memory[rows, SPOOF_OFFSET : SPOOF_OFFSET + 3] = 0.0


class PayloadDrop(VehicleEvent):
    """The payload is dropped: mass, inertia and the centre of gravity change at once."""

    is_fault = False

    kind: Literal["payload_drop"] = Field("payload_drop", description="kind of event")

    def problem(self, airframe: Airframe) -> str:
        """Why it cannot happen to the vehicle."""
        return "" if airframe.carried is not None else f"{airframe.name} carries no payload"

    def begin(self, simulation: Simulation, vehicle: int) -> None:
        """Drop it."""
        loaded = simulation.airframes[vehicle]
        if loaded is None or loaded.carried is None:
            raise UserError("the vehicle carries no payload")
        empty = loaded.without_payload()
        # The empty vehicle's centre of gravity relative to the loaded one's: the shift of every position.
        moved = np.array(loaded.rotors[0].position) - np.array(empty.rotors[0].position)
        simulation.change_vehicle(vehicle, empty.vehicle(), empty.sensor_records(), moved)
        simulation.airframes[vehicle] = empty


class CustomFault:
    """Base of a user's own fault.  The options of the event are the constructor's arguments.

    Beginning and end of one fault may come on two objects: what the end needs is in the simulation.
    """

    def begin(self, simulation: Simulation, vehicle: int) -> None:
        """Change a vehicle between two steps, mostly ``simulation.states[vehicle]``.

        Args:
            simulation: of all vehicles; its records ``vehicles``, ``states``, ``sensors`` and
                ``sensor_states`` are of core/dynamics/records.py and core/sensors/records.py.
            vehicle: its index.
        """
        raise NotImplementedError

    def end(self, simulation: Simulation, vehicle: int) -> None:
        """Put right what ``begin`` changed; needed for a fault that has an end."""
        raise NotImplementedError


class CustomEvent(PassingEvent, UserClass):
    """A fault of your own, a class in a Python file."""

    needs = "sensors"

    kind: Literal["custom"] = Field("custom", description="kind of event")

    def problem(self, _airframe: Airframe) -> str:
        """Why the class cannot be loaded."""
        try:
            made = type(self.make(CustomFault, "fault"))
        except UserError as error:
            return str(error)
        needed = ("begin",) if self.lasts is None else ("begin", "end")
        missing = [name for name in needed if getattr(made, name) is getattr(CustomFault, name)]
        return f"{self.file}: {self.class_name} defines no {missing[0]}" if missing else ""

    def begin(self, simulation: Simulation, vehicle: int) -> None:
        """Begin the user's fault."""
        with self._name_failures():
            self.make(CustomFault, "fault").begin(simulation, vehicle)

    def end(self, simulation: Simulation, vehicle: int) -> None:
        """End it."""
        with self._name_failures():
            self.make(CustomFault, "fault").end(simulation, vehicle)

    @contextmanager
    def _name_failures(self) -> Iterator[None]:
        try:
            yield
        except UserError:
            raise
        except Exception as error:
            what = f"{self.file}: {self.class_name} failed: {failure_text(error)}"
            raise UserError(what) from error


class StackEvent(VehicleEvent):
    """The flight stack's process is killed, or stopped for some seconds of wall time."""

    needs = "processes"

    kind: Literal["stack_killed", "stack_stopped"] = Field(description="kind of event")
    seconds: Annotated[float, Field(gt=0.0, le=600.0)] = Field(
        5.0, description="s of wall time for which it is stopped"
    )

    @property
    def silences(self) -> float:
        """For a moment, after which it is missed."""
        return STALL


class GustEvent(ScheduledEvent):
    """A 1-cosine gust on all vehicles, as in the wind of a world."""

    is_fault = False

    kind: Literal["gust"] = Field("gust", description="kind of event")
    speed: Annotated[Speed, Field(gt=0.0)] = Field(description="m/s")
    direction: Degrees = Field(0.0, description="deg from which it comes")
    upward: Upward = Field(0.0, description="m/s")
    length: Length = Field(30.0, description="m")
    passing_speed: PassingSpeed = Field(10.0, description="m/s")
    hold: Moment | None = Field(2.0, description="s at full strength")

    def gust(self) -> Gust:
        """The gust of a wind."""
        fields = {name: getattr(self, name) for name in Gust.model_fields if name != "start"}
        return Gust(start=self.at, **fields)


class WindEvent(ScheduledEvent):
    """The wind changes to another."""

    is_fault = False

    kind: Literal["wind_change"] = Field("wind_change", description="kind of event")
    wind: WindSpecification = Field(description="new wind")

    def problem(self, _airframe: Airframe) -> str:
        """Why its recorded wind cannot be read; empty if it can."""
        try:
            self.wind.load_series()
        except UserError as error:
            return str(error)
        return ""


_Horizontal = Annotated[float, Field(ge=-100_000.0, le=100_000.0)]
_Speed = Annotated[float, Field(ge=-1000.0, le=1000.0)]


class TeleportEvent(VehicleEvent):
    """Move the vehicle to a position, level; its flight stack is not informed.

    A command of the message bus; scenarios have none, because no other vehicle may be there by then.
    """

    kind: Literal["teleport"] = Field("teleport", description="kind of event")
    position: tuple[_Horizontal, _Horizontal, Annotated[float, Field(ge=-20_000.0, le=0.0)]] = Field(
        description="m NED, lowest point of the vehicle"
    )
    velocity: tuple[_Speed, _Speed, _Speed] = Field((0.0, 0.0, 0.0), description="m/s NED")
    yaw: Degrees = Field(0.0, description="deg")

    def begin(self, simulation: Simulation, vehicle: int) -> None:
        """Move it, as at the start of a run; rotors, battery and faults keep their states.

        Raises:
            UserError: if another vehicle is at that position.
        """
        state = simulation.states[vehicle]
        fresh, around = start_state(
            simulation.vehicles[vehicle],
            simulation.world.environment[0],
            np.array(self.position),
            math.radians(self.yaw),
            simulation.world.scene.names,
        )
        apart = np.linalg.norm(simulation.states["position"] - fresh["position"], axis=1)
        reach = simulation.vehicles["contact_radius"]
        too_near = apart < reach + reach[vehicle]
        too_near[vehicle] = False
        if too_near.any():
            other = int(np.argmax(too_near))
            raise UserError(
                f"vehicle {simulation.names[other]} is only {apart[other]:.2f} m from that position"
            )
        for name in (
            "position",
            "attitude",
            "contact_anchor",
            "contact_touching",
            "in_contact",
            "groundless",
            "floor",
            "near_count",
        ):
            state[name] = fresh[name]
        simulation.surfaces[vehicle] = around
        state["velocity"] = self.velocity
        state["angular_velocity"] = 0.0


AnyEvent = (
    MotorLoss
    | PropellerDamage
    | SensorFault
    | GpsJamming
    | GpsSpoofing
    | PayloadDrop
    | CustomEvent
    | StackEvent
    | GustEvent
    | WindEvent
)
EventSpecification = Annotated[AnyEvent, Field(discriminator="kind"), AfterValidator(_set_time)]
"""An event of a file."""
EVENTS: dict[str, type[ScheduledEvent]] = {kind: made for made in get_args(AnyEvent) for kind in kinds(made)}
"""The class of each kind that a scenario may have."""
COMMANDED: dict[str, type[VehicleEvent]] = {
    kind: made
    for kind, made in (EVENTS | {"teleport": TeleportEvent}).items()
    if issubclass(made, VehicleEvent) and made is not CustomEvent and made.needs != "processes"
}
"""The class of each command that begins, and for some ends, an event of a vehicle at once.

A user's own is none: whoever reaches the bus must not execute files.
"""


def event_of_command(name: str, data: ReadJson) -> tuple[VehicleEvent, bool]:
    """The event of a command of ``COMMANDED``, and whether it begins.

    Raises:
        ValidationError: for fields that the event does not have.
    """
    fields = {key: value for key, value in data.items() if key not in ("version", "request_id", "ends")}
    return COMMANDED[name].model_validate({"at": 0.0, "kind": name, **fields}), not data.get("ends", False)


def affected_vehicles(event: ScheduledEvent, names: Sequence[str]) -> list[int]:
    """Numbers of the vehicles of an event.

    Raises:
        UserError: for a vehicle that does not exist.
    """
    if not isinstance(event, VehicleEvent) or event.vehicles is None:
        return list(range(len(names)))
    found = []
    for vehicle in event.vehicles:
        if isinstance(vehicle, str) and vehicle in names:
            found.append(names.index(vehicle))
        elif isinstance(vehicle, int) and 0 <= vehicle < len(names):
            found.append(vehicle)
        else:
            raise UserError(f"there is no vehicle {vehicle!r}; there are {len(names)}, from {names[0]!r} on")
    return found


def event_faults(
    events: Iterable[ScheduledEvent], names: Sequence[str], airframes: Sequence[Airframe]
) -> list[tuple[int, str]]:
    """Events that cannot happen: number and reason."""
    found = []
    for i, event in enumerate(events):
        try:
            for vehicle in affected_vehicles(event, names) if isinstance(event, VehicleEvent) else [0]:
                problem = event.problem(airframes[vehicle])
                if problem:
                    prefix = f"vehicle {names[vehicle]}: " if isinstance(event, VehicleEvent) else ""
                    found.append((i, f"{prefix}{problem}"))
        except UserError as error:
            found.append((i, str(error)))
    return found


def problems(
    events: Sequence[ScheduledEvent], names: Sequence[str], airframes: Sequence[Airframe]
) -> list[str]:
    """Messages about events that cannot happen."""
    faults = event_faults(events, names, airframes)
    return [f"events[{i}] at {events[i].at:g} s: {reason}" for i, reason in faults]


def gusts_of(events: Iterable[ScheduledEvent]) -> tuple[Gust, ...]:
    """The gusts among the events, which are part of the wind from the start."""
    return tuple(event.gust() for event in events if isinstance(event, GustEvent))


# ------------------------------------------------------------------------------ when they happen

Action = Callable[[], None]
StackAction = Callable[[StackEvent, int], None]
"""Executes an event of a vehicle's flight stack."""
OnEvent = Callable[[ScheduledEvent, bool, Sequence[int]], None]
"""Takes an event when it begins (True) or ends (False), and the numbers of the vehicles it affects."""


def ignore_event(_event: ScheduledEvent, _begins: bool, _vehicles: Sequence[int]) -> None:
    """Do nothing."""


def _text(event: ScheduledEvent, names: Sequence[str]) -> str:
    values: JsonObject = event.model_dump(exclude={"at", "kind", "vehicles", "lasts"}, exclude_none=True)
    if isinstance(event, StackEvent) and event.kind == "stack_killed":
        values.clear()
    kind = str(getattr(event, "kind", "")).replace("_", " ")
    listed = ", ".join(f"{name} {value}" for name, value in values.items())
    if not isinstance(event, VehicleEvent):
        return f"{kind} ({listed})"
    vehicles = ", ".join(names[i] for i in affected_vehicles(event, names))
    return f"{kind}{f' ({listed})' if listed else ''}: vehicle {vehicles}"


def apply_event(event: ScheduledEvent, begins: bool, simulation: Simulation, vehicles: Sequence[int]) -> None:
    """Change a simulation as an event does when it begins, or when it ends.

    Of faults of one part the last to begin counts; when it ends, the others go on.  An end without its
    beginning, as the bus may command, ends all faults of the kind and part.

    Args:
        event: none of a flight stack.
        begins: whether it begins.
        simulation: between two steps.
        vehicles: numbers of those that the event affects.

    Raises:
        UserError: if it cannot happen to one of them.
    """
    if isinstance(event, WindEvent):
        simulation.world.set_wind(event.wind, simulation.time)
        return
    for vehicle in vehicles:
        faults = simulation.faults[vehicle]
        if begins and isinstance(event, VehicleEvent):
            event.begin(simulation, vehicle)
            if isinstance(event, PassingEvent) and event.part:
                faults.append(event)
        elif isinstance(event, PassingEvent):
            same = [fault for fault in faults if type(fault) is type(event) and fault.part == event.part]
            for ended in [event] if event in same else same:
                faults.remove(ended)
            event.end(simulation, vehicle)
            for fault in faults:
                if fault.part == event.part:
                    fault.begin(simulation, vehicle)


def actions(
    events: Iterable[ScheduledEvent],
    simulation: Simulation,
    say: Callable[[str], None],
    on_stack: StackAction | None = None,
    *,
    names: Sequence[str] | None = None,
    on_event: OnEvent = ignore_event,
) -> list[tuple[float, Action]]:
    """Actions of events: s since the start, and a function to call between two steps.

    Gusts are part of the wind from the start; their actions only say and note that they begin.

    Args:
        events: without problems.
        say: receives a line for each event.
        on_stack: executes events of flight stacks; None if these are not processes.
        names: of the vehicles in events; None for those of the simulation.
        on_event: takes each event as it begins and ends.
    """
    called = simulation.names if names is None else names

    def happen(event: ScheduledEvent, begins: bool) -> None:
        say(f"at {event.at:g} s: {_text(event, called)}" if begins else f"over: {_text(event, called)}")
        vehicles = affected_vehicles(event, called)
        on_event(event, begins, vehicles)
        if not isinstance(event, StackEvent):
            apply_event(event, begins, simulation, vehicles)
            return
        for vehicle in vehicles:
            if on_stack is None:
                raise TypeError(f"{event.kind}: flight stacks have no processes here")
            on_stack(event, vehicle)

    made: list[tuple[float, Action]] = []
    for event in events:
        made.append((event.at, partial(happen, event, True)))
        if isinstance(event, PassingEvent) and event.lasts is not None:
            made.append((event.at + event.lasts, partial(happen, event, False)))
    return made


class Timeline:
    """Actions at simulated times, for a loop that advances a simulation within this process.

    Args:
        start: us from which the times of the actions are counted.
        actions: s since then, and a function.
    """

    def __init__(self, start: int, actions: Iterable[tuple[float, Action]] = ()) -> None:
        self._pending: list[tuple[int, Action]] = []
        self.add(start, actions)

    def add(self, start: int, actions: Iterable[tuple[float, Action]]) -> None:
        """Add actions, whose times are counted from ``start`` us."""
        self._pending += [(start + round(1e6 * seconds), action) for seconds, action in actions]
        self._pending.sort(key=lambda pair: pair[0])

    def run_due(self, now: int) -> None:
        """Run the actions that are due at ``now`` (us), in order; before the step that begins then."""
        while self._pending and self._pending[0][0] <= now:
            self._pending.pop(0)[1]()

    def steps_to_next(self, now: int, step: int) -> int | None:
        """Steps of ``step`` us from ``now`` to the next action; None if there is none."""
        return max(1, -((now - self._pending[0][0]) // step)) if self._pending else None
