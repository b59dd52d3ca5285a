"""What scheduled faults and changes do to a flight, between two steps of its simulation."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import singledispatch

import numpy as np

from sitl_bridge.sensors.sensor_faults import end_spoofing, jam, set_fault, spoof
from sitl_bridge.simulation import Simulation
from sitl_bridge.vehicle.airframe import Airframe
from sitl_bridge.vehicle.event_specification import (
    GustEvent,
    JammingEvent,
    MotorEvent,
    PassingEvent,
    PayloadEvent,
    ScheduledEvent,
    SensorEvent,
    SpoofingEvent,
    StackEvent,
    VehicleEvent,
    WindEvent,
    concerned,
)
from sitl_bridge.world.wind import WindSpecification

Action = Callable[[], None]


def actions(
    events: Iterable[ScheduledEvent],
    simulation: Simulation,
    airframes: Sequence[Airframe],
    say: Callable[[str], None],
    process: Callable[[int], int | None],
) -> list[tuple[float, Action]]:
    """What to run when: s since the start, and an action for between two steps.

    Gusts are not among them: they are part of the wind from the start.

    Args:
        events: without problems.
        simulation: in which they happen.
        airframes: of its vehicles.
        say: takes a line for each.
        process: process id of a vehicle's flight stack, None where there is none.
    """
    made: list[tuple[float, Action]] = []
    for event in events:
        if isinstance(event, GustEvent):
            continue
        made.append((event.at, _beginning(event, simulation, airframes, say, process)))
        if isinstance(event, PassingEvent) and event.lasts is not None:
            made.append((event.at + event.lasts, _ending(event, simulation, say)))
    return made


@singledispatch
def begin(event: ScheduledEvent, simulation: Simulation, vehicle: int) -> None:
    """Let an event happen to a vehicle."""
    raise TypeError(f"{type(event).__name__}: no effect on vehicle {simulation.names[vehicle]} is known")


@singledispatch
def end(event: ScheduledEvent, simulation: Simulation, vehicle: int) -> None:
    """End an event that passes."""
    raise TypeError(f"{type(event).__name__}: vehicle {simulation.names[vehicle]} does not recover from it")


@begin.register
def _(event: MotorEvent, simulation: Simulation, vehicle: int) -> None:
    simulation.states[vehicle]["rotor_health"][event.motor - 1] = event.thrust


@end.register
def _(event: MotorEvent, simulation: Simulation, vehicle: int) -> None:
    simulation.states[vehicle]["rotor_health"][event.motor - 1] = 1.0


@begin.register
def _(event: SensorEvent, simulation: Simulation, vehicle: int) -> None:
    rows = simulation.sensors[vehicle], simulation.sensor_states[vehicle]
    set_fault(*rows, event.sensor, event.instance, event.fault)


@end.register
def _(event: SensorEvent, simulation: Simulation, vehicle: int) -> None:
    rows = simulation.sensors[vehicle], simulation.sensor_states[vehicle]
    set_fault(*rows, event.sensor, event.instance, "none")


@begin.register
def _(event: JammingEvent, simulation: Simulation, vehicle: int) -> None:
    jam(simulation.sensors[vehicle], simulation.sensor_states[vehicle], event.level)


@end.register
def _(event: JammingEvent, simulation: Simulation, vehicle: int) -> None:
    del event
    jam(simulation.sensors[vehicle], simulation.sensor_states[vehicle], 0.0)


@begin.register
def _(event: SpoofingEvent, simulation: Simulation, vehicle: int) -> None:
    spoof(simulation.sensors[vehicle], simulation.sensor_states[vehicle], event.velocity)


@end.register
def _(event: SpoofingEvent, simulation: Simulation, vehicle: int) -> None:
    del event
    end_spoofing(simulation.sensors[vehicle], simulation.sensor_states[vehicle])


def _beginning(
    event: ScheduledEvent,
    simulation: Simulation,
    airframes: Sequence[Airframe],
    say: Callable[[str], None],
    process: Callable[[int], int | None],
) -> Action:
    who = concerned(event, simulation.names)

    def happen() -> None:
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
                begin(event, simulation, vehicle)

    return happen


def _drop_payload(simulation: Simulation, vehicle: int, loaded: Airframe) -> None:
    empty = loaded.without_payload()
    # The empty vehicle's centre of gravity, seen from the loaded one's: what every position lost to it.
    moved = np.array(loaded.rotors[0].position) - np.array(empty.rotors[0].position)
    simulation.change_vehicle(vehicle, empty.vehicle(), empty.sensor_records(), moved)


def _ending(event: PassingEvent, simulation: Simulation, say: Callable[[str], None]) -> Action:
    def pass_over() -> None:
        say(f"over: {_words(event, simulation)}")
        for vehicle in concerned(event, simulation.names):
            end(event, simulation, vehicle)

    return pass_over


def _words(event: ScheduledEvent, simulation: Simulation) -> str:
    told = event.model_dump(exclude={"at", "kind", "vehicles", "lasts"}, exclude_none=True)
    if isinstance(event, StackEvent) and event.kind == "stack_killed":
        told.clear()
    kind = str(getattr(event, "kind", "")).replace("_", " ")
    figures = ", ".join(f"{name} {value}" for name, value in told.items())
    if not isinstance(event, VehicleEvent):
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


def with_gusts(wind: WindSpecification, events: Iterable[ScheduledEvent]) -> WindSpecification:
    """A wind with the gusts among the events."""
    gusts = tuple(event.gust() for event in events if isinstance(event, GustEvent))
    return wind.model_copy(update={"gusts": wind.gusts + gusts}) if gusts else wind
