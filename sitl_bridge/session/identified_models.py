"""Files of identified attitude models, beside the airframes that they describe."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict

from sitl_bridge.base.errors import UserError
from sitl_bridge.base.input_file import is_file
from sitl_bridge.base.output_file import write_whole
from sitl_bridge.base.yaml_file import read, validate
from sitl_bridge.core.vehicle.airframe_file import find_airframe
from sitl_bridge.swarm.avoidance.controller_settings import AttitudeModel

Stack = Literal["px4", "builtin"]

_FIELDS_WITHOUT_EFFECT = {"base", "name", "description", "sources", "sensors"}
"""Fields in which an airframe may differ from its base without changing the response."""


class Identified(BaseModel):
    """An attitude model and its origin."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    airframe: str  # the identified airframe
    stack: str  # the flight stack and its version
    flight: str = ""  # the recorded flight
    model: AttitudeModel  # gains, time constants and drag
    # fit_roll, fit_pitch: 1 is perfect
    fit_roll: float
    fit_pitch: float


class IdentifiedFile(BaseModel):
    """Content of ``identified/NAME.yaml`` beside an airframe's NAME.yaml: one model per kind of stack."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    px4: Identified | None = None
    builtin: Identified | None = None


def kind_of(stack: str) -> Stack:
    """Return the kind of stack from the text in ``Identified.stack``, which contains PX4 for PX4."""
    return "px4" if stack.startswith("PX4") else "builtin"


def models_file(airframe: str) -> Path:
    """Return the path of an airframe's models, ``identified/`` beside its file; by name or file.

    Raises:
        UserError: if there is no such airframe.
    """
    file = find_airframe(airframe)
    return file.parent / "identified" / f"{file.stem}.yaml"


def save(identified: Identified, path: Path) -> None:
    """Write a model to an airframe's file of models; replace the one for the same kind of stack.

    Raises:
        UserError: if the file cannot be written.
        ConfigurationError: if the existing file is not a file of models.
    """
    before = load(path) if path.is_file() else IdentifiedFile()
    models = before.model_copy(update={kind_of(identified.stack): identified})
    data = models.model_dump(mode="json", exclude_none=True)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from error
    write_whole(path, yaml.safe_dump(data, sort_keys=False))


def load(path: Path) -> IdentifiedFile:
    """Read an airframe's models.

    Raises:
        ConfigurationError: with every fault of the file.
    """
    return validate(IdentifiedFile, read(path))


def identified_model(airframe: str, stack: Stack) -> Identified | None:
    """Return the stored model of an airframe for a kind of stack; None if there is none.

    An airframe that differs from its base only in sensors uses the model of the base.

    Raises:
        UserError: if there is no such airframe.
        ConfigurationError: with every fault of a file.
    """
    path = models_file(airframe)
    if path.is_file():
        known: Identified | None = getattr(load(path), stack)
        return known
    file = find_airframe(airframe)
    given = read(file).data
    base = given.get("base")
    if not isinstance(base, str) or not set(given) <= _FIELDS_WITHOUT_EFFECT:
        return None
    near = file.parent / (base if base.endswith((".yaml", ".yml")) else f"{base}.yaml")
    return identified_model(str(near) if is_file(near) else base, stack)
