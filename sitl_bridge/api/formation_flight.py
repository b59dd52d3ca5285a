"""Formations flown by the built-in stack in this process, by the commands of every other flight.

The formation uses the vehicles' own estimates, as with PX4; the truth judges it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sitl_bridge.api.in_process import InProcessStacks
from sitl_bridge.api.vehicles import Vehicles
from sitl_bridge.autopilot.stack_fleet import StackFleet
from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.rotations import euler_arrays
from sitl_bridge.core.simulation.events import OnEvent, Timeline, actions, ignore_event, with_gusts
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.session.scenario import LoadedScenario
from sitl_bridge.session.settings import FlightSettings, VehicleSettings
from sitl_bridge.session.stacks import Target
from sitl_bridge.swarm.formation.events import EventQueue
from sitl_bridge.swarm.formation.formation import true_slot_errors
from sitl_bridge.swarm.formation.patterns import closest_pair
from sitl_bridge.swarm.formation.specification import FormationPlan
from sitl_bridge.swarm.interface import Setpoints, States, fly
from sitl_bridge.swarm.quick_simulation import FormationRecording, FormationResult, play_due

ARRIVAL_DISTANCE = 0.5
"""Distance from its place at which a vehicle has arrived, m."""
TAKE_OFF_LIMIT = 90.0
"""s of simulated time for that."""
SETPOINT_INTERVAL = 50_000
"""Interval between setpoints, us; the fleet's commanders apply them at their own rate."""
NOTHING = (0.0, 0.0, 0.0)


class SteeredStacks:
    """Vehicles of a flight in this process behind the interface of a formation.

    Args:
        stacks: of vehicles on the ground.
    """

    def __init__(self, stacks: InProcessStacks) -> None:
        self._stacks = stacks
        self._vehicles = Vehicles([stacks], range(len(stacks.names)), alone=False)
        self.alive = np.ones(len(stacks.names), dtype=np.bool_)
        self._back: dict[int, int] = {}

    def stop(self, vehicle: int, back: int | None = None) -> None:
        """Make a vehicle silent and send it no setpoints until ``back`` us, or permanently.

        Its flight stack then reacts to the loss of offboard setpoints.
        """
        self.alive[vehicle] = False
        self._stacks.targets[vehicle] = None
        if back is not None:
            self._back[vehicle] = back

    def states(self) -> States:
        """Return the states by the vehicles' own estimates; those whose time has come are back, unless
        they have landed."""
        stacks = self._stacks
        for vehicle in [v for v, back in self._back.items() if stacks.now >= back]:
            del self._back[vehicle]
            self.alive[vehicle] = stacks.is_armed(vehicle)
            if self.alive[vehicle]:
                self._vehicles[vehicle].follow(stacks.estimates[vehicle], NOTHING, NOTHING)
        found = stacks.fleet.stacks.estimates
        angles = euler_arrays(found["attitude"])
        return States(
            stacks.now,
            stacks.estimates,
            found["velocity"].copy(),
            angles[:, 2],
            self.alive.copy(),
            angles[:, :2],
        )

    def command(self, setpoints: Setpoints) -> None:
        """Let the vehicles that are present follow setpoints."""
        rows = zip(
            setpoints.position.tolist(),
            setpoints.velocity.tolist(),
            setpoints.acceleration.tolist(),
            setpoints.yaw.tolist(),
            strict=True,
        )
        for i, (position, velocity, acceleration, yaw) in enumerate(rows):
            if self.alive[i]:
                self._stacks.targets[i] = Target(tuple(position), tuple(velocity), tuple(acceleration), yaw)

    def advance(self, time: int) -> None:
        """Advance to ``time`` us or slightly later, in whole updates of the commanders."""
        while self._stacks.now < time:
            self._stacks.advance(self._stacks.steps_to_look)

    def take_off(self, places: Floats, yaw: float | Floats) -> None:
        """Arm all, and climb in offboard mode to (n, 3) m NED from the common origin, with a heading in rad.

        Raises:
            UserError: for a vehicle that cannot arm or does not arrive.
        """
        vehicles = self._vehicles
        vehicles.arm()
        vehicles.follow(places, NOTHING, NOTHING, np.broadcast_to(yaw, len(places)))
        vehicles.run_until(lambda v: v.distance_left < ARRIVAL_DISTANCE, limit=TAKE_OFF_LIMIT)


@dataclass(frozen=True)
class Flown:
    """Result of a formation flight.

    Attributes:
        result: by the vehicles' estimates.
        true_error: (k, n) m, true distances from the slots at the result's rows.
        separation: m, smallest true distance of any two vehicles.
        contacts: between vehicles.
        errors: of tables that could no longer be written.
    """

    result: FormationResult
    true_error: Floats
    separation: float
    contacts: int
    errors: tuple[str, ...] = ()

    @property
    def worst_steady_error(self) -> float:
        """Largest true error in m with a steady centre; nan if it was never steady."""
        rows = self.true_error[self.result.steady]
        return float(np.nanmax(rows)) if np.isfinite(rows).any() else float("nan")


def fly_formation(
    scenario: LoadedScenario,
    airframes: Sequence[Airframe] = (),
    *,
    tables: Path | None = None,
    say: Callable[[str], None] = print,
    record: Callable[[StackFleet], OnEvent] | None = None,
) -> Flown:
    """Take off and fly a formation with the built-in stack, in one process.

    Args:
        scenario: with a formation; its events count from the start on the ground, and concern no processes
            of flight stacks.  The vehicles stand below their places.
        airframes: one per vehicle; those of the scenario if empty.
        tables: directory for the tables of custom sensors; None writes none.
        say: prints a line for each event.
        record: called before the first step; attaches a recorder, and returns what notes the events.
    """
    plan, members = scenario.formation, scenario.vehicles
    assert plan is not None
    frames = airframes or [member.airframe for member in members]
    settings = FlightSettings(
        tuple(
            VehicleSettings(frame, member.name, (float(place[0]), float(place[1]), 0.0))
            for frame, member, place in zip(frames, members, plan.places, strict=True)
        ),
        scenario.name,
        world=with_gusts(scenario.world, scenario.events),
        seed=scenario.seed,
        proximity=scenario.proximity,
    )
    stacks = InProcessStacks(settings, record=False, tables=tables)
    try:
        fleet = stacks.fleet
        on_event = ignore_event if record is None else record(fleet)
        due = actions(scenario.events, fleet.simulation, say, names=stacks.names, on_event=on_event)
        fleet.timeline = Timeline(fleet.time, due)
        return _flown(plan, stacks)
    finally:
        stacks.close()


def _flown(plan: FormationPlan, stacks: InProcessStacks) -> Flown:
    """Take off and fly a formation."""
    interface, simulation = SteeredStacks(stacks), stacks.simulation
    interface.take_off(plan.places, float(plan.path.yaw[0]))
    formation, queue = plan.formation(), EventQueue(plan.events)
    recording = FormationRecording(formation)
    separation, true = [], []

    def watch(states: States, setpoints: Setpoints) -> None:
        if not formation.started_at:
            formation.start()
        play_due(queue, formation, states.time, interface.stop)
        position = simulation.states["position"]
        if recording(states, setpoints):
            true.append(position.copy())
        separation.append(closest_pair(position)[0])

    until = stacks.now + formation.behaviour.notice + round(1e6 * plan.duration)
    fly(formation, interface, until, SETPOINT_INTERVAL, watch)
    result = recording.result(plan)
    return Flown(
        result,
        true_slot_errors(result.tracks(), np.stack(true)),
        min(separation),
        int(simulation.proximity[0]["count"]),
        tuple(stacks.fleet.errors.lines),
    )
