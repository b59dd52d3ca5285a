"""Paths of fields in a user's data, and the pydantic models that a path leads through."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, get_args, get_origin

from pydantic import BaseModel, ValidationError

from sitl_bridge.base.errors import ConfigurationError
from sitl_bridge.base.json_data import JsonObject

FieldPath = tuple[str | int, ...]
"""Keys of mappings and indices of sequences, from the top of the data."""


@contextlib.contextmanager
def name_faults_of(what: str) -> Iterator[None]:
    """Turn what pydantic finds wrong within the block into an error of what is made."""
    try:
        yield
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()]
        raise ConfigurationError(what, faults) from error


def suggestion(word: str, known: Iterable[str]) -> str:
    """``; did you mean `radius`?`` if a known word is similar, else empty."""
    close = difflib.get_close_matches(word, sorted(known), n=1)
    return f"; did you mean `{close[0]}`?" if close else ""


def models_at(model: type[BaseModel], data: object, path: FieldPath) -> list[type[BaseModel]]:
    """Models that are possible at a path of data, found along the path."""
    models = [model]
    for part in path:
        data = _inside(data, part)
        if isinstance(part, str):
            fields = (_fields(m).get(part) for m in models)
            models = [inner for f in fields if f is not None for inner in _models(f)]
    return models


def field_names(model: type[BaseModel], data: object, path: FieldPath) -> set[str]:
    """Field names that a mapping at a path of data may have."""
    models = models_at(model, data, path)
    for part in path:
        data = _inside(data, part)
    kind = data.get("kind") if isinstance(data, Mapping) else None
    meant = [m for m in models if kind in kinds(m)] or models
    return {name for m in meant for name in _fields(m)}


def _inside(data: object, part: str | int) -> object:
    if isinstance(data, Mapping):
        return data.get(part)
    if isinstance(data, list | tuple) and isinstance(part, int) and part < len(data):
        return data[part]
    return None


def _fields(model: type[BaseModel]) -> JsonObject:
    """Annotation of each field, by its name in files."""
    return {info.alias or name: info.annotation for name, info in model.model_fields.items()}


def kinds(model: type[BaseModel]) -> tuple[str, ...]:
    """Possible values of a model's ``kind``."""
    annotation = _fields(model).get("kind")
    return get_args(annotation) if get_origin(annotation) is Literal else ()


def _models(annotation: object) -> list[type[BaseModel]]:
    """Models within an annotation: of a union's members, of a sequence's elements."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [inner for argument in get_args(annotation) for inner in _models(argument)]
