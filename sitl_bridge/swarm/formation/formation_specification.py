"""The specification of a formation, and the checked plan that follows from it.

Positions are m NED from the common origin, angles deg, times s since the formation's start.  A specification
holds data only: whatever a scenario file names in other files, the reader of files has put into it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

from sitl_bridge.errors import FieldError, UserError, about
from sitl_bridge.quantities import Degrees, Positive, Seconds
from sitl_bridge.swarm.formation.choreography import Choreography
from sitl_bridge.swarm.formation.conduct import Conduct, LeaderLoss
from sitl_bridge.swarm.formation.formation import Formation
from sitl_bridge.swarm.formation.formation_events import AnyFormationEvent, FormationEventSpecification
from sitl_bridge.swarm.formation.patterns import NAMES, pattern, rotation
from sitl_bridge.swarm.formation.records import BEACON
from sitl_bridge.swarm.formation.roles import SCHEMES, FlownLeader, Follower, Leader
from sitl_bridge.swarm.formation.trajectory import Limits, Trajectory, still, through
from sitl_bridge.swarm.neighbour_graph import Kind, hops
from sitl_bridge.swarm.point_mass import PointMass
from sitl_bridge.swarm.radio import RadioSpecification
from sitl_bridge.vehicle.event_specification import concerned

Array: TypeAlias = NDArray[np.float64]
Motion = Annotated[float, Field(ge=0.01, le=1e4)]
"""m/s, m/s^2, deg/s of a limit: slow enough and quick enough for any vehicle."""
Distance = Annotated[float, Field(ge=0.01, le=1e5)]
Coordinate = Annotated[float, Field(ge=-1e5, le=1e5)]
Point = Annotated[tuple[Coordinate, Coordinate, Coordinate], Field(description="m north, east, down")]

_STRICT = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

SILENT_BY_CHANCE = 1e-6
"""Probability of losing so many beacons in a row that a leader which is there counts as lost."""

GRAPH: Kind = "star"
"""Of the radio, where none is given."""

MOST_VEHICLES = 3000
MOST_WAYPOINTS = 1000

MOST_VEHICLE_SECONDS = 300_000.0
"""Of a plan, which is checked in rows of 0.1 s: five minutes of 1,000 vehicles, nine hours of nine."""

SETTLING = 5.0
"""s that a flight lasts beyond the path and the last move where the file does not say how long."""


class Waypoint(BaseModel):
    """A point of the leader's path."""

    model_config = _STRICT

    position: Point
    hold: Seconds = Field(0.0, description="s of rest there; 0 goes through without a stop")


class LeaderMotion(BaseModel):
    """How the centre of the formation moves along its path."""

    model_config = _STRICT

    speed: Motion = Field(2.0, description="m/s, at most")
    acceleration: Motion = Field(1.0, description="m/s^2, at most")
    yaw: Degrees | Literal["along"] = Field("along", description="deg, or along the path")
    turn_rate: Motion = Field(20.0, description="deg/s of a turn on the spot")


class LeaderPathSpecification(LeaderMotion):
    """Path of the centre of the formation: waypoints, a finished trajectory, or none for a flown leader."""

    model_config = ConfigDict(**_STRICT, arbitrary_types_allowed=True)

    waypoints: tuple[Waypoint, ...] = Field((), max_length=MOST_WAYPOINTS)
    trajectory: Trajectory | None = Field(None, description="with a yaw of its own")
    flown: bool = Field(False, description="somebody else flies the leader; the others follow where it is")

    @model_validator(mode="after")
    def _one_path(self) -> LeaderPathSpecification:
        if sum((bool(self.waypoints), self.trajectory is not None, self.flown)) != 1:
            raise ValueError("takes one of waypoints, trajectory and flown")
        return self


class PatternSpecification(BaseModel):
    """A pattern: a named one, or offsets of one's own."""

    model_config = _STRICT

    pattern: str | None = Field(None, description=f"one of {', '.join(NAMES)}")
    offsets: tuple[Point, ...] | None = Field(
        None, max_length=MOST_VEHICLES, description="m forward, right, down of the centre, the leader's first"
    )
    spacing: Distance = Field(4.0, description="m, of a named pattern")
    name: str | None = Field(None, max_length=200, description="in reports; the pattern's without")

    @model_validator(mode="after")
    def _one_pattern(self) -> PatternSpecification:
        if (self.pattern is None) == (self.offsets is None):
            raise ValueError("takes either a pattern or offsets")
        return self

    @property
    def label(self) -> str:
        """Name for reports."""
        return self.name or self.pattern or "offsets"

    def slots(self, count: int) -> Array:
        """(count, 3) m in the formation's frame.

        Raises:
            UserError: for a pattern or offsets that do not suit.
        """
        if self.pattern is not None:
            return pattern(self.pattern, count, self.spacing)
        slots = np.array(self.offsets, dtype=np.float64).reshape(-1, 3)
        if len(slots) != count:
            raise UserError(f"{len(slots)} offsets for {count} vehicles")
        return slots


class MoveTiming(BaseModel):
    """When a pattern is taken."""

    model_config = _STRICT

    at: Seconds = Field(description="s at which the move to it begins, or later where another is not over")
    duration: Annotated[Seconds, Field(gt=0.0)] | None = Field(
        None, description="s of the move; as short as the limits allow without"
    )


class MoveSpecification(PatternSpecification, MoveTiming):
    """A pattern that is taken at a time."""


class LeaderLossSpecification(BaseModel):
    """What is done without a leader."""

    model_config = _STRICT

    policy: LeaderLoss = Field(
        "next", description="next in line leads on; or all hold, or return to their start"
    )
    timeout: Annotated[Seconds, Field(gt=0.0)] | None = Field(
        None, description="s of silence; follows from the graph without"
    )
    line: tuple[int, ...] = Field((), description="of succession; by number without")


class MoveLimits(BaseModel):
    """What a move from pattern to pattern keeps to, beside the motion of the centre."""

    model_config = _STRICT

    speed: Motion = Field(2.0, description="m/s")
    acceleration: Motion = Field(1.5, description="m/s^2")


class LimitsSpecification(BaseModel):
    """What a plan must keep to, or it is refused before take-off."""

    model_config = _STRICT

    separation: Distance = Field(1.0, description="m between any two")
    speed: Motion = Field(6.0, description="m/s")
    acceleration: Motion = Field(4.0, description="m/s^2")
    height: tuple[Coordinate, Coordinate] = Field((1.0, 120.0), description="m above the origin")
    moves: MoveLimits = Field(MoveLimits(), description="from pattern to pattern")


class RolesSpecification(BaseModel):
    """Roles of a user's own, in place of the scheme's."""

    model_config = _STRICT

    leader: type[Leader] | None = None
    follower: type[Follower] | None = None
    options: dict[str, float | int | str | bool] = Field(
        default_factory=dict, description="arguments of the follower's class"
    )


class QuickSpecification(BaseModel):
    """The point masses of the quick simulator; see PointMass."""

    model_config = _STRICT

    position_gain: Positive = Field(PointMass.position_gain, description="1/s")
    velocity_lag: Seconds = Field(PointMass.velocity_lag, description="s; 0 follows at once")
    max_speed: Motion = Field(PointMass.max_speed, description="m/s")
    max_acceleration: Motion = Field(PointMass.max_acceleration, description="m/s^2")
    rate: float = Field(50.0, ge=0.1, le=250.0, description="Hz of setpoints")

    def model(self) -> PointMass:
        """As the simulator takes it."""
        return PointMass(self.position_gain, self.velocity_lag, self.max_speed, self.max_acceleration)


class FormationSettings(BaseModel):
    """What a formation's specification and its section of a scenario file have in common."""

    model_config = _STRICT

    heading: Degrees | Literal["leader"] = Field(
        "leader", description="deg of the pattern, or the leader's yaw"
    )
    scheme: Literal["centralised", "leader_follower", "consensus"] = Field(
        "leader_follower",
        description="all fly one plan; or follow the leader's position; or agree with their neighbours",
    )
    leader_loss: LeaderLossSpecification = Field(
        LeaderLossSpecification(), description="what happens without a leader"
    )
    limits: LimitsSpecification = Field(LimitsSpecification(), description="of the plan")
    duration: Seconds | None = Field(None, description="s; until the path and the moves are over without")
    quick: QuickSpecification = Field(QuickSpecification(), description="point masses of simulate")


class FormationSpecification(FormationSettings):
    """A formation: how many vehicles, along which path, in which patterns, by which scheme."""

    count: int = Field(ge=1, le=MOST_VEHICLES)
    start: PatternSpecification = PatternSpecification(pattern="grid", spacing=3.0)
    leader: LeaderPathSpecification
    patterns: tuple[MoveSpecification, ...] = Field(min_length=1, max_length=1000)
    roles: RolesSpecification | None = None
    events: tuple[FormationEventSpecification, ...] = Field(
        (), max_length=1000, description="of vehicles by number"
    )


@dataclass(frozen=True)
class FormationPlan:
    """A formation ready to be flown by any fleet, checked.

    Attributes:
        specification: what it was made of.
        radio: between the vehicles.
        path: of the centre.
        heading: rad of the formation's frame, None where it turns with the path.
        choreography: the moves.
        limits: of the show.
        seed: of the run.
        duration: s.
    """

    specification: FormationSpecification
    radio: RadioSpecification
    path: Trajectory
    heading: float | None
    choreography: Choreography
    limits: Limits
    seed: int
    duration: float

    def with_events(self, events: Iterable[AnyFormationEvent], names: Sequence[str]) -> FormationPlan:
        """The same plan with other events, whose vehicles are given by number or by ``names``."""
        numbered = [event.model_copy(update={"vehicles": tuple(concerned(event, names))}) for event in events]
        return replace(self, specification=self.specification.model_copy(update={"events": tuple(numbered)}))

    @property
    def places(self) -> Array:
        """(n, 3) m NED where the vehicles are to be, at rest, before the start."""
        heading = float(self.path.yaw[0]) if self.heading is None else self.heading
        places: Array = self.path.position[0] + self.choreography.start @ rotation(heading).T
        return places

    def formation(self) -> Formation:
        """The formation, not started."""
        made = self.specification
        leader, follower = _roles(made, self.path, self.heading)
        return Formation(
            self.choreography,
            leader,
            follower,
            topology=self.radio.topology(GRAPH),
            radio=self.radio.radio(made.count, BEACON, self.seed),
            conduct=self._conduct(),
        )

    def _conduct(self) -> Conduct:
        made = self.specification
        period = 1.0 / self.radio.rate
        wait = _patience(self.radio, self.choreography)
        loss = made.leader_loss
        return Conduct(
            beacon_period=round(1e6 * period),
            notice=round(1e6 * (wait + 0.5)),
            leader_loss=loss.policy,
            timeout=round(1e6 * (wait if loss.timeout is None else loss.timeout)),
            stagger=round(1e6 * max(0.3, self.radio.delay + 2.0 * period)),
            line=loss.line,
        )


def _patience(radio: RadioSpecification, choreography: Choreography) -> float:
    """s of silence after which the leader counts as lost.

    Over each link a message takes the delay, the wait for the next beacon and the repetitions that losses
    cost in the mean; in addition, so many may be lost in a row as have a probability of SILENT_BY_CHANCE.

    Raises:
        UserError: for a graph that leaves a vehicle out.
    """
    topology = radio.topology(GRAPH)
    everybody = np.ones(choreography.count, dtype=np.bool_)
    far = 1
    for move in choreography.moves:
        away = hops(topology.edges(move.end, everybody, [0]), choreography.count, 0)
        if away.min() < 0:
            deaf = int(np.argmin(away))
            raise UserError(
                f"over the graph {topology.kind} no message of the leader, vehicle 0, reaches vehicle {deaf};"
                " add links, or take another graph"
            )
        far = max(far, int(away.max()))
    row = math.ceil(math.log(SILENT_BY_CHANCE) / math.log(radio.loss)) if radio.loss > 0.0 else 0
    tries = 1.0 + 1.0 / (1.0 - radio.loss)
    return max(1.0, far * (radio.delay + tries / radio.rate) + row / radio.rate)


def _roles(made: FormationSpecification, path: Trajectory, heading: float | None) -> tuple[Leader, Follower]:
    lead, follow = SCHEMES[made.scheme]
    options: dict[str, Any] = {}
    if made.roles is not None:
        options = made.roles.options
        if made.roles.leader is not None:
            lead = made.roles.leader
        if made.roles.follower is not None:
            follow = made.roles.follower
    try:
        leader = FlownLeader(heading) if made.leader.flown else lead(path, heading)
        return leader, follow(**options)
    except TypeError as error:
        raise UserError(f"the formation's roles do not take their arguments: {error}") from error


def plan_formation(
    made: FormationSpecification, radio: RadioSpecification | None = None, seed: int = 0
) -> FormationPlan:
    """Plan a formation and check the plan.

    Args:
        made: what is to be flown.
        radio: between the vehicles; a perfect one where none is given.
        seed: of its losses.

    Raises:
        UnsafeShowError: for a plan that breaks its limits, with where and when.
        UserError: for patterns or paths that do not suit.
    """
    for i, event in enumerate(made.events):
        for vehicle in event.vehicles:
            if not isinstance(vehicle, int) or not 0 <= vehicle < made.count:
                last = made.count - 1
                raise FieldError(
                    ("events", i), f"there is no vehicle {vehicle!r}; they are numbered 0 to {last}"
                )
    with about("leader"):
        path = leader_path(made.leader)
    heading = None if made.heading == "leader" else math.radians(made.heading)
    bounds = made.limits
    moves = Limits(bounds.separation, bounds.moves.speed, bounds.moves.acceleration)
    with about("start"):
        choreography = Choreography(made.start.slots(made.count), moves)
    for i, move in enumerate(made.patterns):
        with about("patterns", i):
            choreography.add(
                move.label,
                move.slots(made.count),
                round(1e6 * move.at),
                duration=None if move.duration is None else round(1e6 * move.duration),
            )
    over = max(path.duration, choreography.moves[-1].over * 1e-6) + SETTLING
    duration = over if made.duration is None else made.duration
    if over * made.count > MOST_VEHICLE_SECONDS:
        raise FieldError(
            ("leader",),
            f"{made.count} vehicles for {over:.0f} s are more than a plan holds; it holds"
            f" {MOST_VEHICLE_SECONDS:.0f} vehicle seconds",
        )
    radio = radio or RadioSpecification()
    with about("radio"):
        _patience(radio, choreography)
    limits = Limits(bounds.separation, bounds.speed, bounds.acceleration, bounds.height)
    if not made.leader.flown:
        choreography.check(path, heading, limits, min(duration, over))
    return FormationPlan(made, radio, path, heading, choreography, limits, seed, duration)


def leader_path(made: LeaderPathSpecification) -> Trajectory:
    """The path of the centre; of a leader that somebody else flies, just the origin."""
    if made.flown:
        return still((0.0, 0.0, 0.0))
    if made.trajectory is not None:
        return made.trajectory
    return through(
        np.array([w.position for w in made.waypoints]),
        speed=made.speed,
        acceleration=made.acceleration,
        holds=[w.hold for w in made.waypoints],
        yaw=None if made.yaw == "along" else math.radians(made.yaw),
        turn_rate=math.radians(made.turn_rate),
    )
