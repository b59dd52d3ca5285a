"""Loads a class from a user's own Python file: a sensor, a controller."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import sys
from pathlib import Path
from typing import Any, TypeVar

from sitl_bridge.errors import UserError

T = TypeVar("T")


def load_class(file: Path, name: str, base: type[T], what: str) -> type[T]:
    """Class of a name in a file; runs the file.

    Args:
        file: Python file.
        name: of the class.
        base: what it is derived from.
        what: the class is, for messages: "custom sensor".

    Raises:
        UserError: when the file is missing or fails, or has no such class.
    """
    found = getattr(_module(file, what), name, None)
    if not (inspect.isclass(found) and issubclass(found, base)):
        raise UserError(f"{file}: has no class {name} derived from {base.__name__}")
    return found


def _module(file: Path, what: str) -> Any:
    # Known to the interpreter under a name of its own: dataclasses, for one, look their module up.
    digest = hashlib.sha256(str(file.resolve()).encode()).hexdigest()[:12]
    name = f"{what.replace(' ', '_')}_{file.stem}_{digest}"
    specification = importlib.util.spec_from_file_location(name, file)
    if specification is None or specification.loader is None or not file.is_file():
        raise UserError(f"{file}: no such Python file for a {what}")
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    try:
        specification.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise UserError(f"{file}: a {what}'s file failed: {error!r}") from error
    return module
