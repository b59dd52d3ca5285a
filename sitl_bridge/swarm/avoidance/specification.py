"""The specification of an avoidance scenario: routes, obstacles, errors; refused where it cannot be flown."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Annotated

import numpy as np
from pydantic import Field

from sitl_bridge.base.constants import STANDARD_GRAVITY
from sitl_bridge.base.errors import ConfigurationError
from sitl_bridge.base.field_paths import FieldPath
from sitl_bridge.base.quantities import Degrees
from sitl_bridge.core.sensors.gps import GpsSpecification
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.world.world import WorldSpecification
from sitl_bridge.swarm.avoidance.controller_settings import (
    AttitudeModel,
    ControllerSettings,
    NotNegative,
    Positive,
    Section,
)
from sitl_bridge.swarm.avoidance.neighbours import (
    Obstacle,
    obstacle_entities,
    priority_graph,
)
from sitl_bridge.swarm.avoidance.references import Route
from sitl_bridge.swarm.avoidance.separation import separation
from sitl_bridge.swarm.interface import LANDING_SEPARATION
from sitl_bridge.swarm.radio import RadioSpecification

Coordinate = Annotated[float, Field(allow_inf_nan=False, ge=-1e5, le=1e5)]
Point = tuple[Coordinate, Coordinate, Coordinate]
Name = Annotated[str, Field(min_length=1, max_length=40, pattern=r"^[A-Za-z0-9_-]+$")]

LED_GRAPHS = ("star", "inwards")
"""Graphs of the radio that are about a leader."""


class RouteSpecification(Section):
    """The reference of one vehicle, which need not keep clear of others."""

    name: Name = Field(description="of the vehicle")
    points: Annotated[tuple[Point, ...], Field(min_length=1, max_length=500)] = Field(
        description="m north, east, down; straight legs from rest to rest, the first point is the start"
    )
    speed: Positive = Field(2.0, description="m/s between points")
    acceleration: Positive = Field(1.5, description="m/s^2 between points")
    depart: NotNegative = Field(0.0, description="s at the first point before the vehicle leaves it")
    yaw: Degrees = Field(0.0, description="deg")

    @property
    def heading(self) -> float:
        """rad from north."""
        return math.radians(self.yaw)

    def start(self) -> tuple[float, float, float]:
        """m NED of where it starts."""
        return self.points[0]

    def goal(self) -> tuple[float, float, float]:
        """m NED of where its reference ends."""
        return self.points[-1]

    def reference(self) -> Route:
        """The reference itself."""
        return Route(
            self.points,
            speed=self.speed,
            acceleration=self.acceleration,
            yaw=self.heading,
            depart=self.depart,
        )


class SwapCircle(Section):
    """Vehicles v1, v2, ... clockwise from north on a circle, which swap places with those opposite."""

    count: Annotated[int, Field(ge=2, le=64)] = Field(description="vehicles")
    radius: Annotated[float, Field(ge=0.01, le=1e5)] = Field(description="m")
    altitude: Annotated[float, Field(ge=0.0, le=1e5)] = Field(5.0, description="m above the origin")
    speed: Positive = Field(2.0, description="m/s")
    acceleration: Positive = Field(1.5, description="m/s^2")

    def routes(self) -> tuple[RouteSpecification, ...]:
        """Of its vehicles."""
        routes = []
        for i in range(self.count):
            angle = math.tau * i / self.count
            north, east = self.radius * math.cos(angle), self.radius * math.sin(angle)
            routes.append(
                RouteSpecification(
                    name=f"v{i + 1}",
                    points=((north, east, -self.altitude), (-north, -east, -self.altitude)),
                    speed=self.speed,
                    acceleration=self.acceleration,
                )
            )
        return tuple(routes)


class Noise(Section):
    """Errors of a vehicle's own estimate in ``simulate``; white from tick to tick unless correlated."""

    position: NotNegative = Field(0.0, description="m, standard deviation of each axis")
    velocity: NotNegative = Field(0.0, description="m/s, standard deviation of each axis")
    attitude: Annotated[float, Field(ge=0.0, le=90.0)] = Field(
        0.0, description="deg, standard deviation of each axis"
    )
    correlation: NotNegative = Field(
        0.0, description="s, time constant of the errors of position and velocity; 0 is white"
    )


class AvoidanceSettings(Section):
    """Vehicles on routes that cross, which avoid one another and obstacles."""

    duration: Annotated[float, Field(ge=0.1, le=3600.0)] = Field(
        description="s within which every vehicle is to arrive"
    )
    routes: Annotated[tuple[RouteSpecification, ...], Field(max_length=64)] = Field(
        (), description="one a vehicle"
    )
    circle: SwapCircle | None = Field(None, description="of further vehicles, which swap places")
    scene: bool = Field(
        True,
        description="whether the static objects of the world's scene near the routes are obstacles;"
        " other than spheres, upright cylinders and level boxes are taken as the box that holds them",
    )
    priority: tuple[Name, ...] = Field(
        (), description="names of vehicles in falling priority; empty: all avoid all (section 4.7)"
    )
    noise: Noise = Field(Noise(), description="of the vehicles' own estimates, in simulate")
    position_deviation: NotNegative | None = Field(
        None,
        description="m an axis, lasting error of a vehicle's position; safety distances grow by it (eq. 15);"
        " without: of the airframe's receiver",
    )
    controller: ControllerSettings = Field(ControllerSettings(), description="of every vehicle")
    tolerance: Positive = Field(0.3, description="m from the goal within which a vehicle has arrived")

    def plans(self) -> tuple[RouteSpecification, ...]:
        """Routes of all vehicles, the circle's too."""
        return self.routes + (self.circle.routes() if self.circle else ())


class AvoidanceSpecification(AvoidanceSettings):
    """An avoidance scenario, whole."""

    name: Name = Field(description="for reports")
    radio: RadioSpecification = Field(RadioSpecification(), description="between the vehicles")
    world: WorldSpecification = Field(WorldSpecification(), description="in which they fly")
    obstacles: tuple[Obstacle, ...] = Field((), description="of the world's scene")

    def wind(self) -> tuple[float, float, float]:
        """Steady wind in m/s NED."""
        north, east, down = self.world.wind.pack(0)[0]["steady"].tolist()
        return north, east, down

    def with_model(self, model: AttitudeModel) -> AvoidanceSpecification:
        """The same with an identified attitude model, unless it says its own."""
        if "model" in self.controller.model_fields_set:
            return self
        return self.model_copy(update={"controller": self.controller.model_copy(update={"model": model})})

    def graph(self) -> dict[str, tuple[str, ...]]:
        """Whom each vehicle avoids."""
        names = [plan.name for plan in self.plans()]
        return priority_graph(names, self.priority)


def check_scenario(scenario: AvoidanceSpecification) -> None:
    """Refuse a scenario made in code, as the reader of files does.

    Raises:
        ConfigurationError: with every fault.
    """
    faults = [message for _, message in flight_faults(scenario)]
    if faults:
        raise ConfigurationError(f"scenario {scenario.name}", faults)


def flight_faults(scenario: AvoidanceSpecification) -> Iterator[tuple[FieldPath, str]]:
    """Why a scenario cannot be flown: place in the file and reason, of each fault."""
    plans = scenario.plans()
    if not plans:
        yield ("routes",), "there is no vehicle: give routes, a circle, or both"
        return
    names = [plan.name for plan in plans]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield ("routes",), f"two vehicles are called {name!r}"
    for i, name in enumerate(scenario.priority):
        if name not in names:
            known = ", ".join(sorted(names))
            yield ("priority", i), f"priority: there is no vehicle {name!r}; the vehicles are {known}"
        elif name in scenario.priority[:i]:
            yield ("priority", i), f"priority: {name!r} is given more than once"
    kind = scenario.radio.graph
    if kind in LED_GRAPHS:
        yield (
            ("radio", "graph"),
            f"{kind} is about a leader, and avoidance has none; take complete, nearest, ring, chain or links",
        )
    for i, link in enumerate(scenario.radio.links):
        if not all(0 <= number < len(plans) for number in link):
            yield ("radio", "links", i), f"the vehicles are numbered 0 to {len(plans) - 1}"
    places: list[FieldPath] = [
        ("routes", i) if i < len(scenario.routes) else ("circle",) for i in range(len(plans))
    ]
    for where, plan in zip(places, plans, strict=True):
        yield from _reference_faults(where, plan, scenario)
    minimum = scenario.controller.distances.minimum
    for (_, first), (where, second) in itertools.combinations(zip(places, plans, strict=True), 2):
        apart = math.dist(first.start(), second.start())
        if apart < minimum:
            yield where, f"{first.name} and {second.name} start {apart:.2f} m apart; {minimum} m must be kept"
        apart = math.dist(first.goal(), second.goal())
        if apart < minimum:
            yield where, f"{first.name} and {second.name} end {apart:.2f} m apart; {minimum} m must be kept"


def _reference_faults(
    where: FieldPath, plan: RouteSpecification, scenario: AvoidanceSpecification
) -> Iterator[tuple[FieldPath, str]]:
    reference = plan.reference()
    if reference.duration > scenario.duration:
        yield (
            where,
            f"{plan.name}: its reference takes {reference.duration:.1f} s of {scenario.duration} s",
        )
    samples = reference.sample(np.arange(0.0, reference.duration + 0.05, 0.05))
    limits = scenario.controller.limits
    # What a level-headed vehicle can do: all of the tilt at hover thrust, whichever way it heads.
    able = STANDARD_GRAVITY * math.tan(math.radians(limits.tilt))
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
    if up > limits.thrust_max - STANDARD_GRAVITY or down > STANDARD_GRAVITY - limits.thrust_min:
        yield where, f"{plan.name}: asks for more vertical acceleration than the thrust limits give"
    if not scenario.obstacles:
        return
    distances = scenario.controller.distances
    entities = obstacle_entities(scenario.obstacles, distances)
    normal = np.zeros(3)
    for what, point in (("starts", plan.start()), ("ends", plan.goal())):
        for i, entity in enumerate(entities):
            clear = separation(entity, entity["position"], np.array(point), normal)
            if clear < distances.obstacle_minimum:
                yield (
                    where,
                    f"{plan.name}: {what} {clear:.2f} m from the surface of "
                    f"{scenario.obstacles[i].name}; "
                    f"{distances.obstacle_minimum} m must be kept",
                )


FRAME_DEVIATION = 0.03
"""m that an estimate is off beside its receiver's error: in motion, and in a frame of rounded messages."""

LEAST_HEIGHT = 1.0
"""m above the ground below which no reference may lead."""


def lasting_deviation(scenario: AvoidanceSpecification, airframe: Airframe) -> float:
    """m, of an axis of the error of a vehicle's place in the common frame that lasts beyond some reports.

    As the scenario says, else what the airframe's receiver errs by and FRAME_DEVIATION together.

    Raises:
        ConfigurationError: for an airframe without receiver.
    """
    if scenario.position_deviation is not None:
        return scenario.position_deviation
    receivers = [sensor for sensor in airframe.sensors if isinstance(sensor, GpsSpecification)]
    if not receivers:
        raise ConfigurationError(
            f"scenario {scenario.name}",
            [f"avoidance: {airframe.name} has no satellite receiver; give position_deviation"],
        )
    drift = receivers[0].position_deviation()
    noise = receivers[0].pack()["noise"][3:6]
    return math.hypot(float(np.hypot(drift, noise).max()), FRAME_DEVIATION)


def check_launch(scenario: AvoidanceSpecification, deviation: float, source: str) -> None:
    """Refuse a scenario that flight stacks cannot begin or end safely.

    Args:
        deviation: of ``lasting_deviation``.
        source: for the message.

    Raises:
        ConfigurationError: with every fault.
    """
    faults = list(_launch_faults(scenario, deviation))
    if faults:
        raise ConfigurationError(source, faults)


def _launch_faults(scenario: AvoidanceSpecification, deviation: float) -> Iterator[str]:
    plans, keep = scenario.plans(), scenario.controller.distances
    needed = keep.minimum + 2.0 * keep.spread * deviation
    why = f"{needed:.2f} m keep {keep.minimum} m where places are known to {deviation:.2f} m"
    for plan in plans:
        reference = plan.reference()
        down = reference.sample(np.arange(0.0, reference.duration + 0.05, 0.05))[:, 2].max()
        if down > -LEAST_HEIGHT:
            yield f"{plan.name}: leads {-down:.1f} m above the ground; {LEAST_HEIGHT} m must be kept"
    for first, second in itertools.combinations(plans, 2):
        beside = math.dist(first.start()[:2], second.start()[:2])
        if beside < LANDING_SEPARATION:
            yield (
                f"{first.name} and {second.name} would stand {beside:.2f} m apart below their first points; "
                f"{LANDING_SEPARATION} m must be kept on the ground"
            )
        for what, apart in (
            ("start", math.dist(first.start(), second.start())),
            ("end", math.dist(first.goal(), second.goal())),
        ):
            if apart < needed:
                yield f"{first.name} and {second.name} {what} {apart:.2f} m apart; {why}"
