"""A vehicle of a scenario, or several identical ones: airframe, position, autopilot and mission, as data."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, Field

from sitl_bridge.base.quantities import STRICT, Degrees, Positive, Vector
from sitl_bridge.core.vehicle.stack_choice import LAST_INSTANCE, Choice


class GridSpecification(BaseModel):
    """Positions of several vehicles: rows to the east, each row south of the one before."""

    model_config = STRICT

    spacing: Positive = Field(3.0, description="m between neighbours")
    columns: int | None = Field(
        None, ge=1, le=LAST_INSTANCE + 1, description="vehicles per row; default: nearly a square"
    )


class VehicleSpecification(BaseModel):
    """An entry of a scenario file: one vehicle or several identical ones, as in the file."""

    model_config = STRICT

    name: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9_\-]{1,40}$",
        description="name, or first part of the names of several vehicles; default: the vehicle's number",
    )
    count: int = Field(1, ge=1, le=LAST_INSTANCE + 1, description="number of vehicles")
    airframe: str = Field("iris", description="name of an airframe, or a file relative to the scenario")
    position: Vector = Field(
        (0.0, 0.0, 0.0), description="m north, east, down; of several vehicles, that of the first one"
    )
    grid: GridSpecification = Field(GridSpecification(), description="positions of several vehicles")
    yaw: Degrees = Field(0.0, description="deg from north")
    autopilot: Choice = Field(
        "auto", description="flight stack; auto: PX4 if it is found, else the built-in stack"
    )
    controller: str | None = Field(
        None,
        description="of the built-in stack: hector_pid, lee, rotors, FILE.py:CLASS; default: the airframe's",
    )
    parameters: dict[str, int | float] = Field(
        default_factory=dict, description="parameters of the flight stack, by name"
    )
    params: Path | None = Field(
        None, description="parameters of a real vehicle: .params of QGroundControl, .parm of MAVProxy"
    )
    params_win: bool = Field(False, description="whether that file overrides what follows from the airframe")
    mission: Path | None = Field(None, description="plan or script of each vehicle")
    arguments: tuple[str, ...] = Field((), description="arguments of the script")
    python: str | None = Field(None, description="interpreter of the script, a path or a program's name")

    def positions(self) -> Iterator[tuple[float, float, float]]:
        """m NED of each vehicle."""
        columns = self.grid.columns or math.ceil(math.sqrt(self.count))
        north, east, down = self.position
        for i in range(self.count):
            row, column = divmod(i, columns)
            yield north - row * self.grid.spacing, east + column * self.grid.spacing, down
