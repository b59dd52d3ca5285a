"""Starting the built-in flight stack as a process of its own, and its configuration.

What runs in that process is main.py.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, field_validator

from sitl_bridge.base.output_file import write_whole
from sitl_bridge.base.system.child_process import ChildProcess
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.world.scene_specification import SceneSpecification
from sitl_bridge.core.world.wind import WindSpecification
from sitl_bridge.core.world.world import WorldSpecification

LOG_ENDED = "log ended: "
"""Begins the line that the process prints when its log cannot be written any more."""


class Configuration(BaseModel):
    """Configuration of a flight stack process, in a JSON file."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    airframe: Airframe  # the vehicle
    # where it flies; of it the stack knows the magnetic field and gravity, as PX4 does
    world: WorldSpecification = Field(default_factory=WorldSpecification)
    instance: int = Field(0, ge=0, le=254)  # decides the ports and the system id, as PX4's ``-i``
    simulator: str = "127.0.0.1"  # address of the simulator
    step: int = Field(4000, gt=0)  # us between inertial samples
    controller: str | None = None  # choice, None for the airframe's
    parameters: dict[str, int | float] = Field(default_factory=dict)  # changed from their defaults

    @field_validator("world")
    @classmethod
    def _place_alone(cls, world: WorldSpecification) -> WorldSpecification:
        """The world without wind and scene, which the stack does not know."""
        return world.model_copy(update={"wind": WindSpecification(), "scene": SceneSpecification()})


class StackProcess(ChildProcess):
    """A running built-in flight stack.

    Args:
        directory: its working directory, which is there and holds no other run.
        on_line: called with each line it prints, from a thread.

    Raises:
        UserError: when it cannot be started.
    """

    def __init__(
        self,
        configuration: Configuration,
        directory: Path,
        on_line: Callable[[str], None] = lambda _line: None,
    ) -> None:
        file = directory / "configuration.json"
        write_whole(file, configuration.model_dump_json(by_alias=True, exclude_unset=True))
        command = [sys.executable, "-u", "-m", "sitl_bridge.autopilot", file.name]
        name = "the built-in flight stack"
        super().__init__(name, command, directory.absolute(), dict(os.environ), on_line, batch=True)
