"""The ``formation:`` section of a scenario file.

Files that the section names (offsets, the leader's CSV or plan, roles) are read here, relative to the
scenario's directory; the resulting specification contains only data.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from pydantic import BaseModel, Field, model_validator

from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.errors import ConfigurationError, UserError, about
from sitl_bridge.base.input_file import read_rows
from sitl_bridge.base.quantities import STRICT
from sitl_bridge.base.user_file import load_class
from sitl_bridge.base.yaml_file import load
from sitl_bridge.plan.plan import EARTH_RADIUS, GLOBAL, GLOBAL_INT
from sitl_bridge.plan.plan_file import load_plan
from sitl_bridge.swarm.formation.roles import Follower, Leader
from sitl_bridge.swarm.formation.specification import (
    MOST_VEHICLES,
    MOST_WAYPOINTS,
    FormationSettings,
    FormationSpecification,
    LeaderMotion,
    LeaderPathSpecification,
    MoveSpecification,
    MoveTiming,
    PatternSpecification,
    RolesSpecification,
    Waypoint,
)
from sitl_bridge.swarm.trajectory_file import read_csv


def load_offsets(path: Path, count: int) -> Floats:
    """Slots from a file: CSV with the header ``forward,right,down``, or YAML with a list ``offsets``.

    Args:
        path: of the file; ``.csv`` is read as CSV, any other as YAML.
        count: of vehicles.

    Returns:
        (count, 3) m, formation frame, the leader's first.

    Raises:
        ConfigurationError: with the line of every fault.
    """
    rows, lines = _csv_offsets(path) if path.suffix.lower() == ".csv" else _yaml_offsets(path)
    faults: list[str] = []
    offsets = []
    for row, line in zip(rows, lines, strict=True):
        try:
            values = [float(value) for value in row]
        except (TypeError, ValueError):
            values = []
        if len(values) != 3 or not all(math.isfinite(value) for value in values):
            faults.append(f"line {line}: must be three finite numbers: forward, right, down in m")
        offsets.append(values)
    if len(rows) != count:
        faults.append(f"line {lines[-1] if lines else 1}: {len(rows)} slots for {count} vehicles")
    if faults:
        raise ConfigurationError(str(path), faults)
    return np.array(offsets, dtype=np.float64).reshape(count, 3)


def _csv_offsets(path: Path) -> tuple[list[Any], list[int]]:
    table = read_rows(path)
    if not table or [cell.strip() for cell in table[0][0]] != ["forward", "right", "down"]:
        raise ConfigurationError(str(path), ["line 1: the header must be forward,right,down"])
    return [row for row, _ in table[1:]], [line for _, line in table[1:]]


def _yaml_offsets(path: Path) -> tuple[list[Any], list[int]]:
    data, lines = load(path)
    rows = data.get("offsets")
    if not isinstance(rows, list) or set(data) != {"offsets"}:
        raise ConfigurationError(str(path), ["line 1: must be a list `offsets` of [forward, right, down]"])
    return [r if isinstance(r, list) else [] for r in rows], [lines["offsets", i] for i in range(len(rows))]


class PathSection(LeaderMotion):
    """Path of the centre of the formation: one of waypoints, csv and plan; or flown by another program."""

    waypoints: tuple[Waypoint, ...] = Field((), max_length=MOST_WAYPOINTS, description="in order")
    csv: Path | None = Field(None, description="file with columns t,px,py,pz,vx,vy,vz,ax,ay,az,yaw")
    plan: Path | None = Field(None, description="QGroundControl plan; its planned home is the origin")
    flown: bool = Field(False, description="another program flies the leader; the others follow it")

    @model_validator(mode="after")
    def _one_path(self) -> PathSection:
        if sum((bool(self.waypoints), self.csv is not None, self.plan is not None, self.flown)) != 1:
            raise ValueError("takes one of waypoints, csv, plan and flown")
        return self

    def specification(self, directory: Path) -> LeaderPathSpecification:
        """The specification with the content of the files.

        Raises:
            UserError: for an invalid CSV file or plan.
        """
        motion = {name: getattr(self, name) for name in LeaderMotion.model_fields}
        if self.csv is not None:
            return LeaderPathSpecification(trajectory=read_csv(directory / self.csv), **motion)
        waypoints = self.waypoints if self.plan is None else plan_waypoints(directory / self.plan)
        return LeaderPathSpecification(waypoints=waypoints, flown=self.flown, **motion)


class PatternSection(PatternSpecification):
    """A pattern: a named one, or offsets, given here or in a file."""

    file: Path | None = Field(None, description="CSV or YAML of offsets forward, right, down in m")

    @model_validator(mode="after")
    def _one_pattern(self) -> PatternSection:
        if sum(given is not None for given in (self.pattern, self.offsets, self.file)) != 1:
            raise ValueError("takes one of pattern, offsets and file")
        return self

    def data(self, directory: Path, count: int) -> dict[str, Any]:
        """Fields of the specification, with the offsets of the file.

        Raises:
            ConfigurationError: for a faulty file.
        """
        fields = {name: getattr(self, name) for name in type(self).model_fields if name != "file"}
        if self.file is not None:
            offsets = load_offsets(directory / self.file, count).tolist()
            fields |= {"offsets": offsets, "name": self.name or str(self.file)}
        return fields


class MoveSection(PatternSection, MoveTiming):
    """A pattern and the time at which the formation changes to it."""


class RolesSection(BaseModel):
    """Custom roles: classes of a Python file, derived from Leader and Follower."""

    model_config = STRICT

    file: Path = Field(description="Python file")
    leader: str | None = Field(None, description="name of the leader's class; default: that of the scheme")
    follower: str | None = Field(
        None, description="name of the followers' class; default: that of the scheme"
    )
    options: dict[str, float | int | str | bool] = Field(
        default_factory=dict, description="arguments of the followers' class"
    )

    def specification(self, directory: Path) -> RolesSpecification:
        """The specification with the classes; executes the file.

        Raises:
            UserError: if the file or a class is missing.
        """
        file = directory / self.file
        return RolesSpecification(
            leader=_role(file, self.leader, Leader, "leader of a formation"),
            follower=_role(file, self.follower, Follower, "follower of a formation"),
            options=self.options,
        )


Role = TypeVar("Role", Leader, Follower)


def _role(file: Path, name: str | None, base: type[Role], what: str) -> type[Role] | None:
    return None if name is None else load_class(file, name, base, what)


class FormationSection(FormationSettings):
    """A formation: number of vehicles, the leader's path, patterns and scheme."""

    count: int | None = Field(
        None, ge=1, le=MOST_VEHICLES, description="number of vehicles; default: that of the section vehicles"
    )
    start: PatternSection = Field(
        PatternSection(pattern="grid", spacing=3.0), description="slots in which the vehicles take off"
    )
    leader: PathSection = Field(description="path of the formation's centre")
    patterns: tuple[MoveSection, ...] = Field(min_length=1, max_length=1000, description="patterns over time")
    roles: RolesSection | None = Field(None, description="custom roles, in place of the scheme's")

    def specification(self, directory: Path, count: int) -> FormationSpecification:
        """The specification with the content of the files.

        Args:
            directory: to which the files are relative.
            count: of vehicles.

        Raises:
            UserError: for an invalid file.
        """
        settings = {name: getattr(self, name) for name in FormationSettings.model_fields}
        with about("leader"):
            leader = self.leader.specification(directory)
        with about("start"):
            start = PatternSpecification(**self.start.data(directory, count))
        patterns = []
        for i, move in enumerate(self.patterns):
            with about("patterns", i):
                patterns.append(MoveSpecification(**move.data(directory, count)))
        with about("roles"):
            roles = None if self.roles is None else self.roles.specification(directory)
        return FormationSpecification(
            count=count, start=start, leader=leader, patterns=tuple(patterns), roles=roles, **settings
        )


def plan_waypoints(file: Path) -> tuple[Waypoint, ...]:
    """Positions of a plan's items in m NED from its planned home, on PX4's sphere.

    Raises:
        UserError: for a plan without a planned home or without positions.
    """
    plan = load_plan(file)
    latitude, longitude, altitude = plan.home
    if not math.isfinite(latitude):
        raise UserError(f"{file}: has no planned home, which is the origin of the formation")
    if math.isnan(altitude) and any(item.frame in (GLOBAL, GLOBAL_INT) for item in plan.legs):
        raise UserError(f"{file}: the planned home has no altitude, but items have altitudes above sea level")
    points = []
    for item in plan.legs:
        north = math.radians(item.point[0] - latitude) * EARTH_RADIUS
        east = math.radians(item.point[1] - longitude) * EARTH_RADIUS * math.cos(math.radians(latitude))
        height = item.params[6] - (altitude if item.frame in (GLOBAL, GLOBAL_INT) else 0.0)
        points.append(Waypoint(position=(north, east, -height)))
    if not points:
        raise UserError(f"{file}: has no item with a position for the leader")
    return tuple(points)
