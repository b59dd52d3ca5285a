"""The world as a user describes it in Python: place, air, wind and objects."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Self, TypeAlias

from sitl_bridge.base.errors import UserError
from sitl_bridge.base.field_paths import name_faults_of
from sitl_bridge.base.json_data import JsonObject
from sitl_bridge.core.world import world as core
from sitl_bridge.core.world.custom_wind import Velocity, WindField
from sitl_bridge.core.world.scene_specification import SceneObject, SceneSpecification
from sitl_bridge.core.world.wind import WindSpecification, parse_wind
from sitl_bridge.core.world.world_file import load_world

WindChoice: TypeAlias = (
    str | tuple[float, float, float] | WindSpecification | Velocity | WindField | type[WindField] | None
)

SceneChoice: TypeAlias = str | Path | SceneSpecification | Sequence[SceneObject] | None


class World:
    """A world in which vehicles fly.  Every simulation and fleet gets a copy of its own.

    Args:
        wind: ``"8@270,turbulence=light"`` as on the command line (m/s at degrees it comes from); the velocity
            of the air in m/s NED, ``(4, 0, 0)``; a ``WindSpecification``; or a wind of your own:
            ``lambda t, place: (4.0, 0.0, 0.0)`` or a class derived from WindField, m/s NED at a time in s and
            a place in m NED; None for calm air.
        origin: deg latitude, deg longitude and m above mean sea level of the origin of all NED positions,
            which lies on the ground; None for the home of PX4's simulators.
        scene: its objects, ``[sb.scene.Box((1, 2, 3), position=(5, 0, -1.5))]``; a
            ``SceneSpecification``; or a world file, YAML or SDF, whose other fields count where they are
            not given here; None for level ground alone.
        figures: further fields of a world file, such as ``sea_level_temperature`` in K.

    Raises:
        UserError: for an invalid value.
    """

    def __init__(
        self,
        wind: WindChoice = None,
        *,
        origin: tuple[float, float, float] | None = None,
        scene: SceneChoice = None,
        **figures: object,
    ) -> None:
        fields: JsonObject = dict(figures)
        if isinstance(scene, str | Path):
            found = load_world(Path(scene))
            fields = {name: getattr(found, name) for name in found.model_fields_set} | fields
        elif scene is not None:
            fields["scene"] = _scene(scene)
        if origin is not None:
            fields["origin"] = dict(zip(("latitude", "longitude", "altitude"), origin, strict=True))
        if wind is not None:
            fields["wind"] = _wind(wind)
        with name_faults_of("World"):
            self.specification = core.WorldSpecification.model_validate(fields)

    @classmethod
    def load(cls, file: str | Path) -> Self:
        """A world from its file.

        Raises:
            ConfigurationError: with every fault of the file.
        """
        return cls.of(load_world(Path(file)))

    @classmethod
    def of(cls, specification: core.WorldSpecification) -> Self:
        """A world with these fields."""
        made = cls()
        made.specification = specification
        return made

    @property
    def notes(self) -> tuple[str, ...]:
        """Parts of the scene's files that were not read, or were approximated."""
        return self.specification.scene.notes

    def build(self) -> core.World:
        """The world as a simulation takes it.

        Raises:
            UserError: when a recorded wind cannot be read.
        """
        return core.World(self.specification)


def _scene(scene: SceneSpecification | Sequence[SceneObject]) -> SceneSpecification:
    if isinstance(scene, SceneSpecification):
        return scene
    for thing in scene:
        if not isinstance(thing, SceneObject):
            raise UserError(f"scene: {thing!r} is not an object of a scene; give sb.scene.Box(...)")
    return SceneSpecification.model_validate({"objects": tuple(scene)})


def _wind(wind: WindChoice) -> object:
    if isinstance(wind, str):
        return parse_wind(wind)
    if isinstance(wind, Sequence):
        try:
            north, east, down = (float(part) for part in wind)
        except (TypeError, ValueError) as error:
            raise UserError(f"wind: {wind!r} is not an air velocity: three figures in m/s NED") from error
        direction = math.degrees(math.atan2(-east, -north)) % 360.0
        return {"steady": {"speed": math.hypot(north, east), "direction": direction, "upward": -down}}
    return wind


WorldChoice: TypeAlias = World | str | Path | None
"""A world as an object or by its file; None for calm air at the default place."""


def world_of(choice: WorldChoice) -> World:
    """The world that a user names.

    Raises:
        UserError: for an invalid file, or a value that is not a world.
    """
    if choice is None:
        return World()
    if isinstance(choice, World):
        return choice
    if isinstance(choice, str | Path):
        return World.load(choice)
    raise UserError(f"world: {choice!r} is neither a World nor a world file; write World(wind=...)")
