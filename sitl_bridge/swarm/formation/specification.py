"""The ``formation:`` section of a scenario file, and the checked plan computed from it.

Positions are m NED from the common origin, angles deg, times s since the formation's start.  Files that the
section names (the leader's CSV or plan, roles) are relative to the scenario's directory.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import BaseModel, Field, model_validator

from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.errors import FieldError, UserError, about
from sitl_bridge.base.quantities import STRICT, Degrees, Seconds
from sitl_bridge.base.rotations import matrix_from_euler
from sitl_bridge.base.user_file import load_class
from sitl_bridge.core.simulation.events import affected_vehicles
from sitl_bridge.swarm.formation.choreography import Choreography
from sitl_bridge.swarm.formation.events import AnyFormationEvent, FormationEventSpecification
from sitl_bridge.swarm.formation.files import plan_positions, read_csv
from sitl_bridge.swarm.formation.formation import Formation, FormationBehaviour, LeaderLoss
from sitl_bridge.swarm.formation.patterns import NAMES, pattern
from sitl_bridge.swarm.formation.roles import BEACON, SCHEMES, Follower, Leader
from sitl_bridge.swarm.formation.trajectory import Limits, Trajectory, path_through
from sitl_bridge.swarm.radio import Kind, RadioSpecification, hops

Motion = Annotated[float, Field(ge=0.01, le=1e4)]
"""Limit in m/s, m/s^2 or deg/s, in a range that suits any vehicle."""
Distance = Annotated[float, Field(ge=0.01, le=1e5)]
Coordinate = Annotated[float, Field(ge=-1e5, le=1e5)]
Point = Annotated[tuple[Coordinate, Coordinate, Coordinate], Field(description="m north, east, down")]


CHANCE_LOSS_PROBABILITY = 1e-6
"""Probability of a chance loss of successive beacons, for the leader's time-out."""

GRAPH: Kind = "star"
"""Default graph of the radio."""

MOST_VEHICLES = 3000
MOST_WAYPOINTS = 1000

MAX_VEHICLE_SECONDS = 300_000.0
"""Largest plan, in vehicle seconds, which is checked in rows of 0.1 s: five minutes of 1,000 vehicles, nine
hours of nine."""

SETTLING = 5.0
"""Default duration of a flight after the end of path and moves, s."""


class Waypoint(BaseModel):
    """A point of the leader's path."""

    model_config = STRICT

    position: Point
    hold: Seconds = Field(0.0, description="s of rest there; 0 for no stop")


class PathSection(BaseModel):
    """Path of the centre of the formation: one of waypoints, csv and plan."""

    model_config = STRICT

    speed: Motion = Field(2.0, description="m/s, largest speed")
    acceleration: Motion = Field(1.0, description="m/s^2, largest acceleration")
    yaw: Degrees | Literal["along"] = Field("along", description="deg, or along the path")
    turn_rate: Motion = Field(20.0, description="deg/s of a turn on the spot")
    waypoints: tuple[Waypoint, ...] = Field((), max_length=MOST_WAYPOINTS, description="in order")
    csv: Path | None = Field(None, description="file with columns t,px,py,pz,vx,vy,vz,ax,ay,az,yaw")
    plan: Path | None = Field(None, description="QGroundControl plan; its planned home is the origin")

    @model_validator(mode="after")
    def _one_path(self) -> PathSection:
        if sum((bool(self.waypoints), self.csv is not None, self.plan is not None)) != 1:
            raise ValueError("takes one of waypoints, csv and plan")
        return self

    def trajectory(self, directory: Path) -> Trajectory:
        """Return the path of the centre.

        Raises:
            UserError: for an invalid CSV file or plan.
        """
        if self.csv is not None:
            return read_csv(directory / self.csv)
        waypoints = self.waypoints
        if self.plan is not None:
            waypoints = tuple(Waypoint(position=at) for at in plan_positions(directory / self.plan))
            if len(waypoints) > MOST_WAYPOINTS:
                raise UserError(f"{directory / self.plan}: has more than {MOST_WAYPOINTS} positions")
        return path_through(
            np.array([w.position for w in waypoints]),
            speed=self.speed,
            acceleration=self.acceleration,
            holds=[w.hold for w in waypoints],
            yaw=None if self.yaw == "along" else math.radians(self.yaw),
            turn_rate=math.radians(self.turn_rate),
        )


class PatternSection(BaseModel):
    """A pattern: a named one, or offsets."""

    model_config = STRICT

    pattern: str | None = Field(None, description=f"one of {', '.join(NAMES)}")
    offsets: tuple[Point, ...] | None = Field(
        None, max_length=MOST_VEHICLES, description="m forward, right, down of the centre, the leader's first"
    )
    spacing: Distance = Field(4.0, description="m, of a named pattern")
    name: str | None = Field(None, max_length=200, description="in reports; default: the pattern's")

    @model_validator(mode="after")
    def _one_pattern(self) -> PatternSection:
        if (self.pattern is None) == (self.offsets is None):
            raise ValueError("takes either pattern or offsets")
        return self

    @property
    def label(self) -> str:
        """Name for reports."""
        return self.name or self.pattern or "offsets"

    def slots(self, count: int) -> Floats:
        """Return the slots (count, 3) m in the formation's frame.

        Raises:
            UserError: for an unsuitable pattern or offsets.
        """
        if self.pattern is not None:
            return pattern(self.pattern, count, self.spacing)
        slots = np.array(self.offsets, dtype=np.float64).reshape(-1, 3)
        if len(slots) != count:
            raise UserError(f"{len(slots)} offsets for {count} vehicles")
        return slots


class MoveSection(PatternSection):
    """A pattern and the time at which the formation changes to it."""

    at: Seconds = Field(description="s at which the move begins, or later if another is not over")
    duration: Annotated[Seconds, Field(gt=0.0)] | None = Field(
        None, description="s of the move; default: the shortest within the limits"
    )


class LeaderLossSpecification(BaseModel):
    """Reaction to the loss of the leader."""

    model_config = STRICT

    policy: LeaderLoss = Field(
        "next", description="the next in line leads; or all hold, or return to their start"
    )
    timeout: Annotated[Seconds, Field(gt=0.0)] | None = Field(
        None, description="s of silence; default: from the graph"
    )
    line: tuple[int, ...] = Field((), description="of succession; default: by number")


class MoveLimits(BaseModel):
    """Limits of a move between patterns, without the motion of the centre."""

    model_config = STRICT

    speed: Motion = Field(2.0, description="m/s")
    acceleration: Motion = Field(1.5, description="m/s^2")


class LimitsSpecification(BaseModel):
    """Limits of a plan; a plan that violates them is rejected before take-off."""

    model_config = STRICT

    separation: Distance = Field(1.0, description="m between any two")
    speed: Motion = Field(6.0, description="m/s")
    acceleration: Motion = Field(4.0, description="m/s^2")
    height: tuple[Coordinate, Coordinate] = Field((1.0, 120.0), description="m above the origin")
    moves: MoveLimits = Field(MoveLimits(), description="between patterns")


class RolesSection(BaseModel):
    """Custom roles: classes of a Python file, derived from Leader and Follower."""

    model_config = STRICT

    file: Path | None = Field(None, description="Python file of the classes named here")
    leader: str | None = Field(None, description="name of the leader's class; default: that of the scheme")
    follower: str | None = Field(
        None, description="name of the followers' class; default: that of the scheme"
    )
    options: dict[str, float | int | str | bool] = Field(
        default_factory=dict, description="arguments of the followers' class, also of the scheme's"
    )

    @model_validator(mode="after")
    def _file_of_classes(self) -> Self:
        if self.file is None and (self.leader or self.follower):
            raise ValueError("give the file of the class")
        return self


class FormationSection(BaseModel):
    """A formation: number of vehicles, the leader's path, patterns and scheme."""

    model_config = STRICT

    heading: Degrees | Literal["leader"] = Field(
        "leader", description="deg of the pattern, or the leader's yaw"
    )
    scheme: Literal["centralised", "leader_follower", "consensus", "velocity"] = Field(
        "leader_follower",
        description="all fly one plan; or follow the leader's position; or agree with their neighbours; or"
        " follow by a velocity in proportion to the slot error (options gain in 1/s, max_speed in m/s)",
    )
    leader_loss: LeaderLossSpecification = Field(
        LeaderLossSpecification(), description="reaction to the loss of the leader"
    )
    limits: LimitsSpecification = Field(LimitsSpecification(), description="of the plan")
    duration: Seconds | None = Field(None, description="s; default: until path and moves are over")
    count: int | None = Field(
        None, ge=1, le=MOST_VEHICLES, description="number of vehicles; default: that of the section vehicles"
    )
    start: PatternSection = Field(
        PatternSection(pattern="grid", spacing=3.0), description="slots in which the vehicles take off"
    )
    leader: PathSection = Field(description="path of the formation's centre")
    patterns: tuple[MoveSection, ...] = Field(min_length=1, max_length=1000, description="patterns over time")
    roles: RolesSection | None = Field(None, description="custom roles, in place of the scheme's")

    def role_classes(self, directory: Path) -> tuple[type[Leader], type[Follower]]:
        """Return the scheme's classes, or the user's; executes the user's file.

        Raises:
            UserError: if the file or a class is missing.
        """
        lead, follow = SCHEMES[self.scheme]
        own = self.roles
        if own is None or own.file is None:
            return lead, follow
        if own.leader is not None:
            lead = load_class(directory / own.file, own.leader, Leader, "leader of a formation")
        if own.follower is not None:
            follow = load_class(directory / own.file, own.follower, Follower, "follower of a formation")
        return lead, follow


@dataclass(frozen=True)
class FormationPlan:
    """A checked formation, ready for any fleet."""

    specification: FormationSection  # its section of the scenario
    roles: tuple[type[Leader], type[Follower]]  # classes of the leader and of the followers
    radio: RadioSpecification  # between the vehicles
    path: Trajectory  # of the centre
    heading: float | None  # rad of the formation's frame, None if it turns with the path
    choreography: Choreography  # the moves
    limits: Limits  # of the show
    seed: int  # of the run
    duration: float  # s
    events: tuple[FormationEventSpecification, ...] = ()  # of vehicles by number

    def with_events(self, events: Iterable[AnyFormationEvent], names: Sequence[str]) -> FormationPlan:
        """Return the same plan with other events, whose vehicles are given by number or by ``names``."""
        numbered = [
            event.model_copy(update={"vehicles": tuple(affected_vehicles(event, names))}) for event in events
        ]
        return replace(self, events=tuple(numbered))

    @property
    def places(self) -> Floats:
        """Start positions (n, 3) m NED of the vehicles, at rest."""
        heading = float(self.path.yaw[0]) if self.heading is None else self.heading
        frame = matrix_from_euler(0.0, 0.0, heading)
        places: Floats = self.path.position[0] + self.choreography.start @ frame.T
        return places

    def formation(self) -> Formation:
        """Return the formation, not started."""
        made = self.specification
        lead, follow = self.roles
        try:
            leader = lead(self.path, self.heading)
            follower = follow(**({} if made.roles is None else made.roles.options))
        except TypeError as error:
            raise UserError(f"invalid arguments of the formation's roles: {error}") from error
        return Formation(
            self.choreography,
            leader,
            follower,
            topology=self.radio.topology(GRAPH),
            radio=self.radio.radio(self.choreography.count, BEACON, self.seed),
            behaviour=self._behaviour(),
        )

    def _behaviour(self) -> FormationBehaviour:
        made = self.specification
        period = 1.0 / self.radio.rate
        wait = _leader_timeout(self.radio, self.choreography)
        loss = made.leader_loss
        return FormationBehaviour(
            beacon_period=round(1e6 * period),
            notice=round(1e6 * (wait + 0.5)),
            leader_loss=loss.policy,
            timeout=round(1e6 * (wait if loss.timeout is None else loss.timeout)),
            stagger=round(1e6 * max(0.3, self.radio.delay + 2.0 * period)),
            line=loss.line,
        )


def _leader_timeout(radio: RadioSpecification, choreography: Choreography) -> float:
    """Return the silence in s after which the leader counts as lost.

    Each link adds the delay, the wait for the next beacon and the mean number of repetitions by losses; in
    addition, as many successive losses are allowed as have a probability of CHANCE_LOSS_PROBABILITY.
    """
    topology = radio.topology(GRAPH)
    everybody = np.ones(choreography.count, dtype=np.bool_)
    far = 1
    for move in choreography.moves:
        away = hops(topology.edges(move.end, everybody, [0]), choreography.count, 0)
        if away.min() < 0:
            deaf = int(np.argmin(away))
            raise UserError(
                f"with the graph {topology.kind}, vehicle {deaf} receives nothing from the leader, vehicle 0;"
                " add links, or use another graph"
            )
        far = max(far, int(away.max()))
    row = math.ceil(math.log(CHANCE_LOSS_PROBABILITY) / math.log(radio.loss)) if radio.loss > 0.0 else 0
    tries = 1.0 + 1.0 / (1.0 - radio.loss)
    return max(1.0, far * (radio.delay + tries / radio.rate) + row / radio.rate)


def plan_formation(
    made: FormationSection,
    count: int,
    directory: Path,
    radio: RadioSpecification | None = None,
    seed: int = 0,
) -> FormationPlan:
    """Plan a formation and check the plan.

    Args:
        directory: to which the files are relative.
        radio: between the vehicles; a perfect one by default.
        seed: of its losses.

    Raises:
        UnsafeShowError: for a plan that violates its limits, with place and time.
        UserError: for unsuitable patterns, paths or files.
    """
    with about("roles"):
        roles = made.role_classes(directory)
    with about("leader"):
        path = made.leader.trajectory(directory)
    heading = None if made.heading == "leader" else math.radians(made.heading)
    bounds = made.limits
    moves = Limits(bounds.separation, bounds.moves.speed, bounds.moves.acceleration)
    with about("start"):
        choreography = Choreography(made.start.slots(count), moves)
    for i, move in enumerate(made.patterns):
        with about("patterns", i):
            choreography.add(
                move.label,
                move.slots(count),
                round(1e6 * move.at),
                duration=None if move.duration is None else round(1e6 * move.duration),
            )
    over = max(path.duration, choreography.moves[-1].over * 1e-6) + SETTLING
    duration = over if made.duration is None else made.duration
    if over * count > MAX_VEHICLE_SECONDS:
        raise FieldError(
            ("leader",),
            f"{count} vehicles for {over:.0f} s exceed the limit of a plan,"
            f" {MAX_VEHICLE_SECONDS:.0f} vehicle seconds",
        )
    radio = radio or RadioSpecification()
    with about("radio"):
        _leader_timeout(radio, choreography)
    limits = Limits(bounds.separation, bounds.speed, bounds.acceleration, bounds.height)
    choreography.check(path, heading, limits, min(duration, over))
    return FormationPlan(made, roles, radio, path, heading, choreography, limits, seed, duration)
