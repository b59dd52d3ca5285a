"""Effects of scheduled faults and changes on a simulation, between two of its steps.

The lockstep server of a flight, and simulations within one process, run the same actions at the same times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import singledispatch

import numpy as np

from sitl_bridge.core.dynamics.vibration import damage_propeller
from sitl_bridge.core.sensors.sensor_faults import end_spoofing, jam, set_fault, spoof
from sitl_bridge.core.simulation.simulation import Simulation
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.vehicle.event_specification import (
    GustEvent,
    JammingEvent,
    MotorEvent,
    PassingEvent,
    PayloadEvent,
    PropellerEvent,
    ScheduledEvent,
    SensorEvent,
    SpoofingEvent,
    StackEvent,
    VehicleEvent,
    WindEvent,
    concerned,
)
from sitl_bridge.core.world.world import WorldSpecification

Action = Callable[[], None]
StackAction = Callable[[StackEvent, int], None]
"""Executes an event of a vehicle's flight stack."""
EventWitness = Callable[[ScheduledEvent, bool, Sequence[int]], None]
"""Takes an event when it begins (True) or ends (False), and the numbers of the vehicles it concerns."""


def unwitnessed(_event: ScheduledEvent, _begins: bool, _vehicles: Sequence[int]) -> None:
    """Take no notice of events."""


@dataclass(frozen=True)
class _Stage:
    """Targets of events.

    Attributes:
        simulation: of the vehicles.
        airframes: of the vehicles.
        names: of the vehicles in events.
        say: receives a line for each event.
        on_stack: executes events of flight stacks.
        witness: takes each event as it begins and ends.
    """

    simulation: Simulation
    airframes: Sequence[Airframe]
    names: Sequence[str]
    say: Callable[[str], None]
    on_stack: StackAction | None
    witness: EventWitness


def actions(
    events: Iterable[ScheduledEvent],
    simulation: Simulation,
    airframes: Sequence[Airframe],
    say: Callable[[str], None],
    on_stack: StackAction | None = None,
    *,
    names: Sequence[str] | None = None,
    witness: EventWitness = unwitnessed,
) -> list[tuple[float, Action]]:
    """Actions of events: s since the start, and a function to call between two steps.

    Gusts have no actions: they are part of the wind from the start.

    Args:
        events: without problems.
        simulation: of the events.
        airframes: of its vehicles.
        say: receives a line for each event.
        on_stack: executes events of flight stacks; None if these are not processes.
        names: of the vehicles in events; None for those of the simulation.
        witness: takes each event as it begins and ends.
    """
    called = simulation.names if names is None else names
    stage = _Stage(simulation, airframes, called, say, on_stack, witness)
    made: list[tuple[float, Action]] = []
    for event in events:
        if isinstance(event, GustEvent):
            continue
        made.append((event.at, _beginning(event, stage)))
        if isinstance(event, PassingEvent) and event.lasts is not None:
            made.append((event.at + event.lasts, _ending(event, stage)))
    return made


class Timeline:
    """Actions at simulated times, for a loop that advances a simulation within this process.

    Args:
        start: us from which the times of the actions are counted.
        actions: s since then, and a function.
    """

    def __init__(self, start: int, actions: Iterable[tuple[float, Action]] = ()) -> None:
        timed = [(start + round(1e6 * seconds), action) for seconds, action in actions]
        self._pending = sorted(timed, key=lambda pair: pair[0])

    def run_due(self, now: int) -> None:
        """Run the actions that are due at ``now`` (us), in order; before the step that begins then."""
        while self._pending and self._pending[0][0] <= now:
            self._pending.pop(0)[1]()

    def steps_to_next(self, now: int, step: int) -> int | None:
        """Steps of ``step`` us from ``now`` to the next action; None if there is none."""
        return max(1, -((now - self._pending[0][0]) // step)) if self._pending else None


@singledispatch
def begin(event: ScheduledEvent, simulation: Simulation, vehicle: int) -> None:
    """Apply an event to a vehicle."""
    raise TypeError(f"{type(event).__name__}: no effect on vehicle {simulation.names[vehicle]} is known")


@singledispatch
def end(event: ScheduledEvent, simulation: Simulation, vehicle: int) -> None:
    """End an event with a duration."""
    raise TypeError(f"{type(event).__name__}: vehicle {simulation.names[vehicle]} does not recover from it")


@begin.register
def _(event: MotorEvent, simulation: Simulation, vehicle: int) -> None:
    simulation.states[vehicle]["rotor_health"][event.motor - 1] = event.thrust


@end.register
def _(event: MotorEvent, simulation: Simulation, vehicle: int) -> None:
    simulation.states[vehicle]["rotor_health"][event.motor - 1] = 1.0


@begin.register
def _(event: PropellerEvent, simulation: Simulation, vehicle: int) -> None:
    damage_propeller(simulation.vehicles[vehicle], simulation.states[vehicle], event.motor - 1, event.lost)


@end.register
def _(event: PropellerEvent, simulation: Simulation, vehicle: int) -> None:
    damage_propeller(simulation.vehicles[vehicle], simulation.states[vehicle], event.motor - 1, 0.0)


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


def _beginning(event: ScheduledEvent, stage: _Stage) -> Action:
    vehicles = concerned(event, stage.names)

    def execute() -> None:
        stage.say(f"at {event.at:g} s: {_text(event, stage.names)}")
        stage.witness(event, True, vehicles)
        if isinstance(event, StackEvent):
            for vehicle in vehicles:
                if stage.on_stack is None:
                    raise TypeError(f"{event.kind}: flight stacks have no processes here")
                stage.on_stack(event, vehicle)
        else:
            change(event, True, stage.simulation, vehicles, stage.airframes)

    return execute


def change(
    event: ScheduledEvent,
    begins: bool,
    simulation: Simulation,
    vehicles: Sequence[int],
    airframes: Sequence[Airframe],
) -> None:
    """Change a simulation as an event does when it begins, or when it ends.

    Args:
        event: none of a flight stack.
        begins: whether it begins.
        simulation: between two steps.
        vehicles: numbers of those that the event concerns.
        airframes: of all vehicles.
    """
    if isinstance(event, WindEvent):
        simulation.world.set_wind(event.wind, simulation.time)
        return
    for vehicle in vehicles:
        if isinstance(event, PayloadEvent):
            _drop_payload(simulation, vehicle, airframes[vehicle])
        else:
            (begin if begins else end)(event, simulation, vehicle)


def _drop_payload(simulation: Simulation, vehicle: int, loaded: Airframe) -> None:
    empty = loaded.without_payload()
    # The empty vehicle's centre of gravity relative to the loaded one's: the shift of every position.
    moved = np.array(loaded.rotors[0].position) - np.array(empty.rotors[0].position)
    simulation.change_vehicle(vehicle, empty.vehicle(), empty.sensor_records(), moved)


def _ending(event: PassingEvent, stage: _Stage) -> Action:
    def finish() -> None:
        stage.say(f"over: {_text(event, stage.names)}")
        vehicles = concerned(event, stage.names)
        stage.witness(event, False, vehicles)
        change(event, False, stage.simulation, vehicles, stage.airframes)

    return finish


def _text(event: ScheduledEvent, names: Sequence[str]) -> str:
    figures = event.model_dump(exclude={"at", "kind", "vehicles", "lasts"}, exclude_none=True)
    if isinstance(event, StackEvent) and event.kind == "stack_killed":
        figures.clear()
    kind = str(getattr(event, "kind", "")).replace("_", " ")
    values = ", ".join(f"{name} {value}" for name, value in figures.items())
    if not isinstance(event, VehicleEvent):
        return f"{kind} ({values})"
    vehicles = ", ".join(names[i] for i in concerned(event, names))
    return f"{kind}{f' ({values})' if values else ''}: vehicle {vehicles}"


def with_gusts(world: WorldSpecification, events: Iterable[ScheduledEvent]) -> WorldSpecification:
    """A world with the gusts among the events in its wind."""
    gusts = tuple(event.gust() for event in events if isinstance(event, GustEvent))
    if not gusts:
        return world
    wind = world.wind.model_copy(update={"gusts": world.wind.gusts + gusts})
    return world.model_copy(update={"wind": wind})
