"""A vehicle of a scenario, or several alike: airframe, place, autopilot and mission, as data."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from sitl_bridge.quantities import Degrees, Positive, Vector

Choice = Literal["auto", "px4", "builtin"]
"""Of a flight stack; auto: PX4 where it is found, else the built-in one."""

LAST_INSTANCE = 254
"""Highest instance of a flight stack: its MAVLink system id is one more, and 255 is the ground station's."""

_STRICT = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class GridSpecification(BaseModel):
    """Places of several vehicles: row by row to the east, each row south of the one before."""

    model_config = _STRICT

    spacing: Positive = Field(3.0, description="m between neighbours")
    columns: int | None = Field(
        None, ge=1, le=LAST_INSTANCE + 1, description="vehicles in a row; near a square without"
    )


class VehicleSpecification(BaseModel):
    """A line of a scenario file: one vehicle, or several alike, with file names and settings as written."""

    model_config = _STRICT

    name: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9_\-]{1,40}$",
        description="of several, beginning of their names; the vehicle's number without",
    )
    count: int = Field(1, ge=1, le=LAST_INSTANCE + 1, description="number of vehicles")
    airframe: str = Field("iris", description="name, or file beside the scenario")
    position: Vector = Field(
        (0.0, 0.0, 0.0), description="m north, east, down; of several vehicles, the first one's"
    )
    grid: GridSpecification = Field(GridSpecification(), description="places of several vehicles")
    yaw: Degrees = Field(0.0, description="deg from north")
    autopilot: Choice = Field(
        "auto", description="flight stack; auto: PX4 where it is found, else the built-in one"
    )
    controller: str | None = Field(
        None, description="of the built-in stack: hector_pid, lee, or FILE.py:CLASS; the airframe's without"
    )
    parameters: dict[str, int | float] = Field(
        default_factory=dict, description="of the flight stack, by name"
    )
    mission: Path | None = Field(None, description="plan or script that each of them flies")
    arguments: tuple[str, ...] = Field((), description="of the script")
    python: str | None = Field(None, description="interpreter of the script, a path or a program's name")

    def positions(self) -> Iterator[tuple[float, float, float]]:
        """m NED, of each of them."""
        columns = self.grid.columns or math.ceil(math.sqrt(self.count))
        north, east, down = self.position
        for i in range(self.count):
            row, column = divmod(i, columns)
            yield north - row * self.grid.spacing, east + column * self.grid.spacing, down
