"""Scenarios as data: who flies where, among what, knowing how much; refused where they cannot fly."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from sitl_bridge.errors import ConfigurationError
from sitl_bridge.swarm.avoidance.controller_settings import (
    AttitudeModel,
    ControllerSettings,
    NotNegative,
    Positive,
)
from sitl_bridge.swarm.avoidance.neighbours import (
    Obstacle,
    full_graph,
    obstacle_entities,
    priority_graph,
)
from sitl_bridge.swarm.avoidance.references import Reference, Route, Table
from sitl_bridge.swarm.avoidance.separation import separation
from sitl_bridge.world.wind import MOST_WIND

Coordinate = Annotated[float, Field(allow_inf_nan=False, ge=-1e5, le=1e5)]
Point = tuple[Coordinate, Coordinate, Coordinate]
Row = tuple[NotNegative, Coordinate, Coordinate, Coordinate]
WindSpeed = Annotated[float, Field(ge=-MOST_WIND, le=MOST_WIND)]
Name = Annotated[str, Field(min_length=1, max_length=40, pattern=r"^[A-Za-z0-9_-]+$")]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class VehiclePlan(_Part):
    """One vehicle and its reference, which need not keep clear of others.

    Attributes:
        name: by which others know it.
        route: points m NED, the first where it starts; straight legs from rest to rest.
        table: instead of a route: rows of time s, north, east, down m; a smooth course through them.
        speed, acceleration: m/s, m/s^2 on a route's legs.
        depart: s at its first point before the route begins.
        yaw: rad.
    """

    name: Name
    route: Annotated[tuple[Point, ...], Field(max_length=500)] = ()
    table: Annotated[tuple[Row, ...], Field(max_length=5000)] = ()
    speed: Positive = 2.0
    acceleration: Positive = 1.5
    depart: NotNegative = 0.0
    yaw: Annotated[float, Field(ge=-math.pi, le=math.pi)] = 0.0

    def start(self) -> tuple[float, float, float]:
        """m NED of where it starts."""
        return self.route[0] if self.route else self.table[0][1:]

    def reference(self) -> Reference:
        """The reference itself."""
        if self.route:
            return Route(
                self.route,
                speed=self.speed,
                acceleration=self.acceleration,
                yaw=self.yaw,
                depart=self.depart,
            )
        rows = np.array(self.table)
        return Table(rows[:, 0].tolist(), rows[:, 1:], yaw=self.yaw)


class Circle(_Part):
    """Vehicles evenly on a circle that all swap places with those opposite.

    Attributes:
        count: vehicles, named v1, v2 and so on, clockwise from north.
        radius: m.
        altitude: m above the origin.
        speed, acceleration: m/s, m/s^2.
    """

    count: Annotated[int, Field(ge=2, le=64)]
    radius: Annotated[float, Field(ge=0.01, le=1e5)]
    altitude: Annotated[float, Field(ge=0.0, le=1e5)] = 5.0
    speed: Positive = 2.0
    acceleration: Positive = 1.5

    def vehicles(self) -> tuple[VehiclePlan, ...]:
        """Their plans."""
        plans = []
        for i in range(self.count):
            angle = math.tau * i / self.count
            north, east = self.radius * math.cos(angle), self.radius * math.sin(angle)
            plans.append(
                VehiclePlan(
                    name=f"v{i + 1}",
                    route=((north, east, -self.altitude), (-north, -east, -self.altitude)),
                    speed=self.speed,
                    acceleration=self.acceleration,
                )
            )
        return tuple(plans)


class SpherePlan(_Part):
    """A ball; m NED, m."""

    kind: Literal["sphere"]
    centre: Point
    radius: Positive

    def obstacle(self) -> Obstacle:
        """For the controller."""
        return Obstacle.sphere(self.centre, self.radius)


class CylinderPlan(_Part):
    """An upright cylinder; m NED of its middle, m."""

    kind: Literal["cylinder"]
    centre: Point
    radius: Positive
    height: Positive

    def obstacle(self) -> Obstacle:
        """For the controller."""
        return Obstacle.cylinder(self.centre, self.radius, self.height)


class BoxPlan(_Part):
    """A box along the axes; m NED of its middle, m edges."""

    kind: Literal["box"]
    centre: Point
    edges: tuple[Positive, Positive, Positive]

    def obstacle(self) -> Obstacle:
        """For the controller."""
        return Obstacle.box(self.centre, self.edges)


class Noise(_Part):
    """How wrong a vehicle is about itself; white within a tick unless correlated.

    Attributes:
        position, velocity, attitude: standard deviations an axis, m, m/s, rad.
        correlation: s, time constant of the errors of position and velocity; 0 is white.
    """

    position: NotNegative = 0.0
    velocity: NotNegative = 0.0
    attitude: NotNegative = 0.0
    correlation: NotNegative = 0.0


class Link(_Part):
    """How broadcasts travel.

    Attributes:
        rate: Hz at which each vehicle speaks.
        delay: s.
        loss: share of all words that a receiver does not get.
    """

    rate: Annotated[float, Field(ge=0.1, le=1000.0)] = 50.0
    delay: NotNegative = 0.0
    loss: Annotated[float, Field(ge=0.0, le=0.99)] = 0.0


class FlightPlan(_Part):
    """How a flight stack flies it; nothing of a run without one.

    Attributes:
        airframe: name or file, of every vehicle.
        position_deviation: m an axis, by which a vehicle is wrong about its place in the common frame for
            longer than a few reports; None takes it from the airframe's receiver.  Distances are widened by
            it as by any other uncertainty (eq. 15).
    """

    airframe: str = "iris_rtk"
    position_deviation: NotNegative | None = None


class Scenario(_Part):
    """A flight of several vehicles.

    Attributes:
        name: for reports.
        duration: s.
        vehicles: their plans; or
        circle: of vehicles that swap places.
        obstacles: spheres, cylinders, boxes.
        priority: names in falling priority (section 4.7); empty: all avoid all.
        noise, link: what vehicles know of themselves and of others.
        wind: m/s NED, steady.
        controller: settings of every vehicle's controller; an attitude model among them goes before the one
            identified on the airframe that flies.
        flight: how a flight stack flies it.
        tolerance: m from the goal within which a vehicle has arrived.
    """

    name: Name
    duration: Annotated[float, Field(ge=0.1, le=3600.0)]
    vehicles: Annotated[tuple[VehiclePlan, ...], Field(max_length=64)] = ()
    circle: Circle | None = None
    obstacles: Annotated[
        tuple[Annotated[SpherePlan | CylinderPlan | BoxPlan, Field(discriminator="kind")], ...],
        Field(max_length=64),
    ] = ()
    priority: tuple[Name, ...] = ()
    noise: Noise = Noise()
    link: Link = Link()
    wind: tuple[WindSpeed, WindSpeed, WindSpeed] = (0.0, 0.0, 0.0)
    controller: ControllerSettings = ControllerSettings()
    flight: FlightPlan = FlightPlan()
    tolerance: Positive = 0.3

    def plans(self) -> tuple[VehiclePlan, ...]:
        """Of all vehicles, the circle's too."""
        return self.vehicles + (self.circle.vehicles() if self.circle else ())

    def bodies(self) -> tuple[Obstacle, ...]:
        """The obstacles as the controller takes them."""
        return tuple(obstacle.obstacle() for obstacle in self.obstacles)

    def with_model(self, model: AttitudeModel) -> Scenario:
        """The same with an identified attitude model, unless it says its own."""
        if "model" in self.controller.model_fields_set:
            return self
        return self.model_copy(update={"controller": self.controller.model_copy(update={"model": model})})

    def graph(self) -> dict[str, tuple[str, ...]]:
        """Whom each vehicle avoids."""
        names = [plan.name for plan in self.plans()]
        return priority_graph(names, self.priority) if self.priority else full_graph(names)


def check_scenario(scenario: Scenario) -> None:
    """Refuse a scenario made in code, as the reader of files does.

    Raises:
        ConfigurationError: with every fault.
    """
    faults = [message for _, message in flight_faults(scenario)]
    if faults:
        raise ConfigurationError(f"scenario {scenario.name}", faults)


def flight_faults(scenario: Scenario) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Why a scenario cannot be flown: place in the file and reason, of each fault."""
    plans = scenario.plans()
    if not plans:
        yield ("vehicles",), "there is no vehicle: give vehicles, a circle, or both"
        return
    names = [plan.name for plan in plans]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield ("vehicles",), f"two vehicles are called {name!r}"
    for i, name in enumerate(scenario.priority):
        if name not in names:
            known = ", ".join(sorted(names))
            yield ("priority", i), f"priority: there is no vehicle {name!r}; the vehicles are {known}"
        elif name in scenario.priority[:i]:
            yield ("priority", i), f"priority: {name!r} is given more than once"
    flyable = []
    for i, plan in enumerate(plans):
        where = ("vehicles", i) if i < len(scenario.vehicles) else ("circle",)
        if bool(plan.route) == bool(plan.table):
            yield where, f"{plan.name}: give either a route or a table"
        elif plan.table and not _is_table(plan):
            yield where, f"{plan.name}: the table needs two rows or more with rising times"
        else:
            flyable.append((where, plan))
            yield from _reference_faults(where, plan, scenario)
    minimum = scenario.controller.distances.minimum
    for (_, first), (where, second) in itertools.combinations(flyable, 2):
        apart = math.dist(first.start(), second.start())
        if apart < minimum:
            yield where, f"{first.name} and {second.name} start {apart:.2f} m apart; {minimum} m must be kept"
        ends = (goal(first), goal(second))
        apart = math.dist(*ends)
        if apart < minimum:
            yield where, f"{first.name} and {second.name} end {apart:.2f} m apart; {minimum} m must be kept"


def _is_table(plan: VehiclePlan) -> bool:
    times = [row[0] for row in plan.table]
    return len(times) >= 2 and all(a < b for a, b in itertools.pairwise(times))


def goal(plan: VehiclePlan) -> tuple[float, float, float]:
    """m NED of where a vehicle's reference ends."""
    return plan.route[-1] if plan.route else plan.table[-1][1:]


def _reference_faults(
    where: tuple[Any, ...], plan: VehiclePlan, scenario: Scenario
) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Why the reference of one vehicle cannot be followed, alone."""
    reference = plan.reference()
    if reference.duration > scenario.duration:
        yield (
            where,
            f"{plan.name}: its reference takes {reference.duration:.1f} s of {scenario.duration} s",
        )
    samples = reference.sample(np.arange(0.0, reference.duration + 0.05, 0.05))
    limits = scenario.controller.limits
    # What a level-headed vehicle can do: all of the tilt at hover thrust, whichever way it heads.
    able = 9.80665 * math.tan(math.radians(limits.tilt))
    asked = float(np.hypot(samples[:, 6], samples[:, 7]).max())
    if asked > able:
        yield (
            where,
            f"{plan.name}: asks for {asked:.1f} m/s^2; {limits.tilt} deg of tilt give {able:.1f} m/s^2",
        )
    speed = float(np.linalg.norm(samples[:, 3:6], axis=1).max())
    if speed > limits.speed:
        yield where, f"{plan.name}: goes {speed:.1f} m/s; the controller's limit is {limits.speed} m/s"
    up, down = float((-samples[:, 8]).max()), float(samples[:, 8].max())
    if up > limits.thrust_max - 9.80665 or down > 9.80665 - limits.thrust_min:
        yield where, f"{plan.name}: asks for more vertical acceleration than the thrust limits give"
    if not scenario.obstacles:
        return
    distances = scenario.controller.distances
    entities = obstacle_entities(scenario.bodies(), distances)
    normal = np.zeros(3)
    for what, point in (("starts", plan.start()), ("ends", goal(plan))):
        for i, entity in enumerate(entities):
            clear = separation(entity, np.array(point), 0.0, normal)
            if clear < distances.obstacle_minimum:
                yield (
                    where,
                    f"{plan.name}: {what} {clear:.2f} m from the surface of obstacles[{i}]; "
                    f"{distances.obstacle_minimum} m must be kept",
                )
