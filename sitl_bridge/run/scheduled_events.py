"""What befalls a flight at set times: failing motors and sensors, dropped payloads, wind, dead flight stacks.

Specifications as scenario files have them, and what they do to a simulation between two steps.  What a
formation is asked to do is in its own section, see formation/scenario.py.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from sitl_bridge.errors import UserError
from sitl_bridge.quantities import Degrees, Seconds, Vector
from sitl_bridge.sensors.sensor_faults import end_spoofing, find_sensor, jam, set_fault, spoof
from sitl_bridge.simulation import Simulation
from sitl_bridge.vehicle.airframe import Airframe
from sitl_bridge.world.wind import Gust, Length, Moment, PassingSpeed, Speed, Upward, WindSpecification

_STRICT = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
Share = Annotated[float, Field(ge=0.0, le=1.0)]


class _Event(BaseModel):
    """Something at a time."""

    model_config = _STRICT

    at: Seconds = Field(description="s of simulated time since the start")

    def problem(self, _airframe: Airframe) -> str:
        """Why it cannot befall a vehicle; empty where it can."""
        return ""

    def begin(self, simulation: Simulation, vehicle: int) -> None:
        """Let it befall a vehicle, between two steps."""

    def end(self, simulation: Simulation, vehicle: int) -> None:
        """Mend it."""


class _VehicleEvent(_Event):
    """Something that befalls vehicles."""

    vehicles: tuple[int | str, ...] | None = Field(None, description="numbers or names; all without")


class _PassingEvent(_VehicleEvent):
    """Something that befalls vehicles and may pass."""

    lasts: Annotated[Seconds, Field(gt=0.0)] | None = Field(None, description="s; for good without")


class MotorEvent(_PassingEvent):
    """A rotor loses thrust and torque; without any left, its motor stops."""

    kind: Literal["motor_loss"]
    motor: int = Field(1, ge=1, description="as PX4 counts: the first of the airframe is 1")
    thrust: Share = Field(0.0, description="share left")

    def problem(self, airframe: Airframe) -> str:
        """Whether the vehicle has what is to fail."""
        count = len(airframe.rotors)
        return "" if self.motor <= count else f"{airframe.name} has motors 1 to {count}"

    def begin(self, simulation: Simulation, vehicle: int) -> None:
        """Between two steps."""
        simulation.states[vehicle]["rotor_health"][self.motor - 1] = self.thrust

    def end(self, simulation: Simulation, vehicle: int) -> None:
        """Between two steps."""
        simulation.states[vehicle]["rotor_health"][self.motor - 1] = 1.0


class SensorEvent(_PassingEvent):
    """A sensor falls silent or repeats its last reading; sensor gps, off, is the loss of GPS."""

    kind: Literal["sensor_fault"]
    sensor: str = Field(description="kind, as in airframe files")
    instance: int = Field(0, ge=0)
    fault: Literal["off", "stuck"] = "off"

    def problem(self, airframe: Airframe) -> str:
        """Whether the vehicle has what is to fail."""
        try:
            find_sensor(airframe.sensor_records(), self.sensor, self.instance)
        except UserError as error:
            return str(error)
        return ""

    def begin(self, simulation: Simulation, vehicle: int) -> None:
        """Between two steps."""
        rows = simulation.sensors[vehicle], simulation.sensor_states[vehicle]
        set_fault(*rows, self.sensor, self.instance, self.fault)

    def end(self, simulation: Simulation, vehicle: int) -> None:
        """Between two steps."""
        rows = simulation.sensors[vehicle], simulation.sensor_states[vehicle]
        set_fault(*rows, self.sensor, self.instance, "none")


class _GpsEvent(_PassingEvent):
    """Something that befalls satellite receivers."""

    def problem(self, airframe: Airframe) -> str:
        """Whether the vehicle has what is to fail."""
        kinds = {sensor.kind for sensor in airframe.sensors}
        return "" if "gps" in kinds else f"{airframe.name} has no satellite receiver"


class JammingEvent(_GpsEvent):
    """Satellite signals are jammed."""

    kind: Literal["gps_jamming"]
    level: Share = Field(1.0, description="1 = no signal")

    def begin(self, simulation: Simulation, vehicle: int) -> None:
        """Between two steps."""
        jam(simulation.sensors[vehicle], simulation.sensor_states[vehicle], self.level)

    def end(self, simulation: Simulation, vehicle: int) -> None:
        """Between two steps."""
        jam(simulation.sensors[vehicle], simulation.sensor_states[vehicle], 0.0)


class SpoofingEvent(_GpsEvent):
    """Satellite signals are spoofed: the fix walks away."""

    kind: Literal["gps_spoofing"]
    velocity: Vector = Field(description="m/s north, east, down")

    def begin(self, simulation: Simulation, vehicle: int) -> None:
        """Between two steps."""
        spoof(simulation.sensors[vehicle], simulation.sensor_states[vehicle], self.velocity)

    def end(self, simulation: Simulation, vehicle: int) -> None:
        """Between two steps."""
        end_spoofing(simulation.sensors[vehicle], simulation.sensor_states[vehicle])


class PayloadEvent(_VehicleEvent):
    """The payload is dropped: mass, inertia and the centre of gravity change at once."""

    kind: Literal["payload_drop"]

    def problem(self, airframe: Airframe) -> str:
        """Whether the vehicle has what is to fail."""
        return "" if airframe.carried is not None else f"{airframe.name} carries no payload"


class StackEvent(_VehicleEvent):
    """The flight stack's process is killed, or stopped for some seconds of wall time."""

    kind: Literal["stack_killed", "stack_stopped"]
    seconds: Annotated[float, Field(gt=0.0, le=600.0)] = Field(5.0, description="of wall time, when stopped")


class GustEvent(_Event):
    """A 1-cosine gust on all vehicles, as in the wind of a world."""

    kind: Literal["gust"]
    speed: Annotated[Speed, Field(gt=0.0)] = Field(description="m/s")
    direction: Degrees = Field(0.0, description="deg, where it comes from")
    upward: Upward = Field(0.0, description="m/s")
    length: Length = Field(30.0, description="m")
    passing_speed: PassingSpeed = Field(10.0, description="m/s")
    hold: Moment | None = Field(2.0, description="s at full strength")

    def gust(self) -> Gust:
        """As the wind takes it."""
        figures = {name: getattr(self, name) for name in Gust.model_fields if name != "start"}
        return Gust(start=self.at, **figures)


class WindEvent(_Event):
    """Another wind blows from then on."""

    kind: Literal["wind_change"]
    wind: WindSpecification


EventSpecification = Annotated[
    MotorEvent
    | SensorEvent
    | JammingEvent
    | SpoofingEvent
    | PayloadEvent
    | StackEvent
    | GustEvent
    | WindEvent,
    Field(discriminator="kind"),
]


def concerned(event: _Event, names: Sequence[str]) -> list[int]:
    """Vehicles that an event befalls.

    Raises:
        UserError: for one that there is not.
    """
    if not isinstance(event, _VehicleEvent) or event.vehicles is None:
        return list(range(len(names)))
    found = []
    for who in event.vehicles:
        if isinstance(who, str) and who in names:
            found.append(names.index(who))
        elif isinstance(who, int) and 0 <= who < len(names):
            found.append(who)
        else:
            raise UserError(f"there is no vehicle {who!r}; there are {len(names)}, from {names[0]!r} on")
    return found


def event_faults(
    events: Iterable[_Event], names: Sequence[str], airframes: Sequence[Airframe]
) -> list[tuple[int, str]]:
    """Events that cannot happen: number and reason."""
    found = []
    for i, event in enumerate(events):
        try:
            for vehicle in concerned(event, names):
                problem = event.problem(airframes[vehicle])
                if problem:
                    found.append((i, f"vehicle {names[vehicle]}: {problem}"))
        except UserError as error:
            found.append((i, str(error)))
    return found


def problems(events: Sequence[_Event], names: Sequence[str], airframes: Sequence[Airframe]) -> list[str]:
    """Events that cannot happen, in words."""
    faults = event_faults(events, names, airframes)
    return [f"events[{i}] at {events[i].at:g} s: {reason}" for i, reason in faults]


Action = Callable[[], None]


def actions(
    events: Iterable[_Event],
    simulation: Simulation,
    airframes: Sequence[Airframe],
    say: Callable[[str], None],
    process: Callable[[int], int | None],
) -> list[tuple[float, Action]]:
    """What to run when: s since the start, and an action for between two steps.

    Gusts are not among them: they are part of the wind from the start.

    Args:
        events: without problems.
        simulation: what they befall.
        airframes: of its vehicles.
        say: takes a line for each.
        process: process id of a vehicle's flight stack, None where there is none.
    """
    made: list[tuple[float, Action]] = []
    for event in events:
        if isinstance(event, GustEvent):
            continue
        made.append((event.at, _beginning(event, simulation, airframes, say, process)))
        if isinstance(event, _PassingEvent) and event.lasts is not None:
            made.append((event.at + event.lasts, _ending(event, simulation, say)))
    return made


def _beginning(
    event: _Event,
    simulation: Simulation,
    airframes: Sequence[Airframe],
    say: Callable[[str], None],
    process: Callable[[int], int | None],
) -> Action:
    who = concerned(event, simulation.names)

    def begin() -> None:
        say(f"at {event.at:g} s: {_words(event, simulation)}")
        if isinstance(event, WindEvent):
            simulation.world.set_wind(event.wind, simulation.time)
            return
        for vehicle in who:
            if isinstance(event, StackEvent):
                _signal(event, process(vehicle))
            elif isinstance(event, PayloadEvent):
                _drop_payload(simulation, vehicle, airframes[vehicle])
            else:
                event.begin(simulation, vehicle)

    return begin


def _drop_payload(simulation: Simulation, vehicle: int, loaded: Airframe) -> None:
    empty = loaded.without_payload()
    # The empty vehicle's centre of gravity, seen from the loaded one's: what every position lost to it.
    moved = np.array(loaded.rotors[0].position) - np.array(empty.rotors[0].position)
    simulation.change_vehicle(vehicle, empty.vehicle(), empty.sensor_records(), moved)


def _ending(event: _PassingEvent, simulation: Simulation, say: Callable[[str], None]) -> Action:
    def end() -> None:
        say(f"over: {_words(event, simulation)}")
        for vehicle in concerned(event, simulation.names):
            event.end(simulation, vehicle)

    return end


def _words(event: _Event, simulation: Simulation) -> str:
    told = event.model_dump(exclude={"at", "kind", "vehicles", "lasts"}, exclude_none=True)
    if isinstance(event, StackEvent) and event.kind == "stack_killed":
        told.clear()
    kind = str(getattr(event, "kind", "")).replace("_", " ")
    figures = ", ".join(f"{name} {value}" for name, value in told.items())
    if not isinstance(event, _VehicleEvent):
        return f"{kind} ({figures})"
    who = ", ".join(simulation.names[i] for i in concerned(event, simulation.names))
    return f"{kind}{f' ({figures})' if figures else ''}: vehicle {who}"


def _signal(event: StackEvent, process: int | None) -> None:
    if process is None:
        return
    if event.kind == "stack_killed":
        os.kill(process, signal.SIGKILL)
        return
    os.kill(process, signal.SIGSTOP)
    timer = threading.Timer(event.seconds, _continue, (process,))
    timer.daemon = True
    timer.start()


def _continue(process: int) -> None:
    try:
        os.kill(process, signal.SIGCONT)
    except ProcessLookupError:
        return


def with_gusts(wind: WindSpecification, events: Iterable[_Event]) -> WindSpecification:
    """A wind with the gusts among the events."""
    gusts = tuple(event.gust() for event in events if isinstance(event, GustEvent))
    return wind.model_copy(update={"gusts": wind.gusts + gusts}) if gusts else wind
