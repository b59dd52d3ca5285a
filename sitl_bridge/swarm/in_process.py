"""A formation with the built-in flight stack: full dynamics and sensors, all vehicles in this process.

The formation uses the vehicles' own estimates, as with PX4, and sends setpoints as offboard targets.  The
truth stays in the simulation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sitl_bridge.autopilot.commander_data import OffboardTarget
from sitl_bridge.autopilot.modes.flight_modes import FLAG_CUSTOM, OFFBOARD
from sitl_bridge.autopilot.stack_fleet import StackFleet, StackVehicle
from sitl_bridge.base.arrays import Floats, Mask
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.rotations import euler_arrays
from sitl_bridge.core.dynamics.proximity import Proximity
from sitl_bridge.core.simulation.events import (
    OnEvent,
    ScheduledEvent,
    Timeline,
    actions,
    ignore_event,
    with_gusts,
)
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.world.world import World, WorldSpecification
from sitl_bridge.link.mavlink import common as mavlink
from sitl_bridge.swarm.formation.events import EventQueue
from sitl_bridge.swarm.formation.formation import true_slot_errors
from sitl_bridge.swarm.formation.patterns import closest_pair
from sitl_bridge.swarm.formation.specification import FormationPlan
from sitl_bridge.swarm.interface import Setpoints, States, fly
from sitl_bridge.swarm.quick_simulation import FormationRecording, FormationResult, play_due

ARRIVAL_DISTANCE = 0.5
"""Distance from its target at which a vehicle has arrived, m."""
SETPOINT_INTERVAL = 50_000
"""Interval between setpoints, us; the fleet's commanders apply them at their own rate."""
OFFBOARD_MODE = (float(FLAG_CUSTOM), float(OFFBOARD.main), *[0.0] * 5)
"""Parameters of MAV_CMD_DO_SET_MODE."""


class BuiltInFleet:
    """Vehicles of the built-in flight stack behind the interface of a formation.

    Args:
        fleet: of vehicles on the ground.
        origins: (n, 3) m NED from the common origin: start positions, the origins of the vehicles' estimates.
    """

    def __init__(self, fleet: StackFleet, origins: Floats) -> None:
        self.fleet, self.origins = fleet, np.asarray(origins, dtype=np.float64)
        self.alive = np.ones(len(fleet), dtype=np.bool_)
        self._back: dict[int, int] = {}

    def stop(self, vehicle: int, back: int | None = None) -> None:
        """Make a vehicle silent and send it no setpoints until ``back`` us, or permanently.

        Its flight stack then reacts to the loss of offboard setpoints.
        """
        self.alive[vehicle] = False
        if back is not None:
            self._back[vehicle] = back

    def _restore(self) -> None:
        """Restore the vehicles whose time has come, in offboard mode at their present positions."""
        for vehicle in [v for v, back in self._back.items() if self.fleet.time >= back]:
            del self._back[vehicle]
            self.alive[vehicle] = True
            here = self.fleet.stacks.estimates["position"] + self.origins
            zero = np.zeros_like(here)
            stay = Setpoints(here, zero, zero, np.full(len(here), np.nan))
            self.command(stay, np.arange(len(here)) == vehicle)
            self._order(vehicle, mavlink.MAV_CMD_DO_SET_MODE, OFFBOARD_MODE)

    def states(self) -> States:
        """Return the states by the vehicles' own estimates."""
        self._restore()
        found = self.fleet.stacks.estimates
        angles = euler_arrays(found["attitude"])
        return States(
            self.fleet.time,
            found["position"] + self.origins,
            found["velocity"].copy(),
            angles[:, 2],
            self.alive.copy(),
            angles[:, :2],
        )

    def command(self, setpoints: Setpoints, vehicles: Mask | None = None) -> None:
        """Send each vehicle its target, in its own frame.

        Args:
            setpoints: of all vehicles, in the common frame.
            vehicles: (n,) vehicles to send to; None for all that are present.
        """
        position = setpoints.position - self.origins
        for i in np.flatnonzero(self.alive if vehicles is None else vehicles).tolist():
            target = OffboardTarget(
                (position[i, 0], position[i, 1], position[i, 2]),
                (setpoints.velocity[i, 0], setpoints.velocity[i, 1], setpoints.velocity[i, 2]),
                (setpoints.acceleration[i, 0], setpoints.acceleration[i, 1], setpoints.acceleration[i, 2]),
                float(setpoints.yaw[i]),
            )
            self.fleet.pilots[i].commander.offboard(target, self.fleet.time)

    def advance(self, time: int) -> None:
        """Advance to ``time`` us or slightly later, in whole updates of the commanders."""
        while self.fleet.time < time:
            self.fleet.advance()

    def take_off(self, places: Floats, yaw: float | Floats, *, limit: float = 90.0) -> None:
        """Arm all, and climb in offboard mode to (n, 3) m NED from the common origin, with a heading in rad.

        Raises:
            UserError: for a vehicle that cannot arm or does not arrive within ``limit`` s.
        """
        end = self.fleet.time + round(1e6 * limit)
        commanders = [pilot.commander for pilot in self.fleet.pilots]
        self._until(lambda: not any(c.arming_problems for c in commanders), None, end, "be ready to arm")
        zero = np.zeros_like(places)
        setpoints = Setpoints(places, zero, zero, np.full(len(places), yaw))
        self.command(setpoints)
        for i in range(len(commanders)):
            self._order(i, mavlink.MAV_CMD_DO_SET_MODE, OFFBOARD_MODE)
            self._order(i, mavlink.MAV_CMD_COMPONENT_ARM_DISARM, (1.0, *[0.0] * 6))
        self._until(lambda: self._far(places) < ARRIVAL_DISTANCE, setpoints, end, "be at their places")

    def _order(self, vehicle: int, command: int, params: Sequence[float]) -> None:
        """Send a command to a vehicle.

        Raises:
            UserError: if it is not accepted.
        """
        result = self.fleet.pilots[vehicle].commander.command(command, list(params), self.fleet.time)
        if result != mavlink.MAV_RESULT_ACCEPTED:
            raise UserError(f"vehicle {vehicle} rejected command {command} with result {result}")

    def _far(self, places: Floats) -> float:
        return float(np.linalg.norm(self.states().position - places, axis=1).max())

    def _until(self, condition: Callable[[], bool], setpoints: Setpoints | None, end: int, what: str) -> None:
        while not condition():
            if self.fleet.time > end:
                raise UserError(f"the vehicles did not come to {what} in time")
            if setpoints is not None:
                self.command(setpoints)
            self.fleet.advance()


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


def fly_built_in(
    plan: FormationPlan,
    airframes: Sequence[Airframe],
    seed: int = 1,
    *,
    world: WorldSpecification | None = None,
    proximity: Proximity | None = None,
    tables: Path | None = None,
    events: Sequence[ScheduledEvent] = (),
    names: Sequence[str] = (),
    say: Callable[[str], None] = print,
    record: Callable[[StackFleet, Proximity], OnEvent] | None = None,
) -> Flown:
    """Take off and fly a formation with the built-in stack, in one process, with contact and downwash.

    Args:
        plan: of ``load_formation`` or ``plan_formation``, with the formation's events.
        airframes: one per vehicle.
        seed: of all random streams.
        world: the world; the default one if None.
        proximity: interaction of the vehicles; the default one if None.
        tables: directory for the tables of custom sensors; None writes none.
        events: scheduled faults and changes, from the start on the ground; none of flight stacks' processes.
        names: of the vehicles, used by the events; numbers if empty.
        say: prints a line for each event.
        record: called before the first step; attaches a recorder, and returns what notes the events.
    """
    place = World(with_gusts(world or WorldSpecification(), events))
    ground = plan.places * (1.0, 1.0, 0.0)
    members = [
        StackVehicle(airframe, name=str(i), position=(float(p[0]), float(p[1]), 0.0), tables=tables)
        for i, (airframe, p) in enumerate(zip(airframes, ground, strict=True))
    ]
    effects = proximity or Proximity()
    with StackFleet(place, members, seed=seed, proximity=effects) as fleet:
        on_event = ignore_event if record is None else record(fleet, effects)
        due = actions(events, fleet.simulation, say, names=names or None, on_event=on_event)
        fleet.timeline = Timeline(fleet.time, due)
        interface = BuiltInFleet(fleet, ground)
        interface.take_off(plan.places, float(plan.path.yaw[0]))
        return _flown(plan, interface)


def _flown(plan: FormationPlan, interface: BuiltInFleet) -> Flown:
    """Fly a formation whose vehicles are at their places."""
    fleet = interface.fleet
    formation, queue = plan.formation(), EventQueue(plan.events)
    recording = FormationRecording(formation)
    separation, true = [], []

    def watch(states: States, setpoints: Setpoints) -> None:
        if not formation.started_at:
            formation.start()
        play_due(queue, formation, states.time, interface.stop)
        position = fleet.simulation.states["position"]
        if recording(states, setpoints):
            true.append(position.copy())
        separation.append(closest_pair(position)[0])

    until = fleet.time + formation.behaviour.notice + round(1e6 * plan.duration)
    fly(formation, interface, until, SETPOINT_INTERVAL, watch)
    result = recording.result(plan)
    return Flown(
        result,
        true_slot_errors(result.tracks(), np.stack(true)),
        min(separation),
        int(fleet.simulation.proximity[0]["count"]),
        tuple(fleet.errors.lines),
    )
