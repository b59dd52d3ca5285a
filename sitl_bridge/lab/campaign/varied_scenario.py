"""A scenario with other values in some of its fields, its world's and its airframes'.

A path begins in the scenario file.  Below ``world`` it leads into the world, also where the scenario names a
world file; below ``vehicles[i]`` into the vehicle's entry, and from there into its airframe.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from sitl_bridge.base.errors import ConfigurationError, FieldError, UserError
from sitl_bridge.base.field_paths import FieldPath, suggestion
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.vehicle.vehicle_specification import VehicleSpecification
from sitl_bridge.lab.campaign.distribution import Value
from sitl_bridge.session.scenario import LoadedScenario, assemble, scenario_world

Model = TypeVar("Model", bound=BaseModel)
SOURCE = "varied by a campaign"
"""Source of a figure that its airframe has none for."""
OPEN = ("parameters", "arguments", "position", "grid")
"""Fields of a vehicle's entry that have fields of their own."""


def with_value(model: Model, path: FieldPath, value: Value) -> Model:
    """A copy of a model with another value at a path, validated.

    Raises:
        FieldError: for a path that does not exist, or a value that the field does not take.
    """
    changed: Model = _changed(model, path, value, ())
    return changed


def _changed(thing: Any, path: FieldPath, value: Value, above: FieldPath) -> Any:
    if not path:
        return value
    head, *rest = path
    here = (*above, head)
    if isinstance(thing, BaseModel):
        return _changed_model(thing, head, tuple(rest), value, above)
    if isinstance(thing, tuple | list) and isinstance(head, int):
        if head >= len(thing):
            raise FieldError(here, f"there are only {len(thing)}; the first is [0]")
        return type(thing)(
            _changed(inner, tuple(rest), value, here) if i == head else inner for i, inner in enumerate(thing)
        )
    if isinstance(thing, Mapping) and isinstance(head, str):
        if rest and head not in thing:
            raise FieldError(here, "is not in the scenario; give it a value there")
        return {**thing, head: _changed(thing.get(head), tuple(rest), value, here)}
    if thing is None:
        raise FieldError(above, "is not set in the scenario; give it a value there, which is then varied")
    raise FieldError(here, f"{type(thing).__name__} has no such part")


def _changed_model(
    model: BaseModel, head: str | int, rest: FieldPath, value: Value, above: FieldPath
) -> BaseModel:
    fields = type(model).model_fields
    by_name = {info.alias or name: name for name, info in fields.items()}
    here = (*above, head)
    if not isinstance(head, str) or head not in by_name:
        raise FieldError(here, f"unknown field{suggestion(str(head), by_name)}")
    inner = _changed(getattr(model, by_name[head]), rest, value, here)
    # Only what was given, because some defaults follow from other fields.
    given = {alias: getattr(model, name) for alias, name in by_name.items() if name in model.model_fields_set}
    try:
        return type(model).model_validate({**given, head: inner})
    except ValidationError as error:
        first = error.errors()[0]
        raise FieldError((*above, *(p for p in first["loc"] if p != "section")), first["msg"]) from error


def in_airframe(path: FieldPath) -> bool:
    """Whether a path leads from a vehicle's entry into its airframe."""
    if len(path) < 3 or path[0] != "vehicles":
        return False
    head = path[2]
    return head not in VehicleSpecification.model_fields or (len(path) > 3 and head not in OPEN)


def varied_scenario(
    base: LoadedScenario,
    file: Path,
    values: Mapping[FieldPath, Value],
    seed: int,
    airframe_of: Callable[[str], Airframe],
) -> LoadedScenario:
    """The scenario with other values.

    Args:
        base: as loaded.
        file: its file, to which files are relative.
        values: by path.
        seed: of the run; a value of ``seed`` replaces it.
        airframe_of: loads the airframe of a name or file.

    Raises:
        FieldError: for a path that does not exist, or a value that its field does not take.
        ConfigurationError: for a combination of values that makes no scenario.
    """
    made, world = base.specification, base.world
    airframes: dict[int, list[tuple[FieldPath, Value]]] = {}
    below_world: list[tuple[FieldPath, Value]] = []
    for path, value in values.items():
        if in_airframe(path):
            group = path[1]
            if not isinstance(group, int) or group >= len(made.vehicles):
                raise FieldError(path[:2], f"the scenario has {len(made.vehicles)} entries of vehicles")
            airframes.setdefault(group, []).append((path, value))
        elif path[0] == "world" and len(path) > 1:
            below_world.append((path, value))
        else:
            made = with_value(made, path, value)
    if ("world",) in values:
        world = scenario_world(made.world, file, base.document)
    for path, value in below_world:
        world = _placed(path[:1], path[1:], world, value)

    def load(group: int, source: str) -> Airframe:
        airframe = airframe_of(source)
        for path, value in airframes.get(group, ()):
            empty = airframe.unloaded()
            sources = {str(path[2]): SOURCE} | empty.sources
            sourced = empty.model_copy(update={"sources": sources})
            airframe = _placed(path[:2], path[2:], sourced, value).loaded()
        return airframe

    used = made.seed if ("seed",) in values else seed
    return assemble(made, base.document, file, seed=used, world=world, airframes=load)


def _placed(above: FieldPath, path: FieldPath, model: Model, value: Value) -> Model:
    try:
        return with_value(model, path, value)
    except FieldError as error:
        raise FieldError((*above, *error.path), str(error)) from error


def words_of(error: UserError) -> list[str]:
    """The faults of a combination of values, without the name of the file."""
    return list(error.faults) if isinstance(error, ConfigurationError) else [str(error)]
