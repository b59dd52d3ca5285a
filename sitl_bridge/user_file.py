"""Loads a class from a user's own Python file: a sensor, a controller."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import sys
from pathlib import Path
from typing import Any, TypeVar

from sitl_bridge.errors import UserError
from sitl_bridge.input_file import MAX_PROGRAM_BYTES, exists, read_bytes

T = TypeVar("T")

_running: set[str] = set()
"""Modules of users' files that are being run right now."""


def load_class(file: Path, name: str, base: type[T], what: str) -> type[T]:
    """Class of a name in a file; runs the file.

    Args:
        file: Python file.
        name: of the class.
        base: what it is derived from.
        what: the class is, for messages: "custom sensor".

    Raises:
        UserError: when the file is missing or fails, has no such class, or is running already and would run
            itself again.
    """
    found = getattr(_module(file, what), name, None)
    if not (inspect.isclass(found) and issubclass(found, base)):
        raise UserError(f"{file}: has no class {name} derived from {base.__name__}")
    return found


def _module(file: Path, what: str) -> Any:
    """The module of a file: the program that runs, where it is that file, else the file, run anew.

    A script may name a class of its own; running the script for it would come here again without end.
    """
    if not exists(file):
        raise UserError(f"{file}: no such Python file for a {what}")
    read_bytes(file, MAX_PROGRAM_BYTES)
    main = sys.modules.get("__main__")
    if _is_same_file(getattr(main, "__file__", None), file):
        return main
    # Known to the interpreter under a name of its own: dataclasses, for one, look their module up.
    digest = hashlib.sha256(str(file.resolve()).encode()).hexdigest()[:12]
    name = f"{what.replace(' ', '_')}_{file.stem}_{digest}"
    specification = importlib.util.spec_from_file_location(name, file)
    if specification is None or specification.loader is None:
        raise UserError(f"{file}: is not a Python file; a {what} is a class in one")
    if name in _running:
        raise UserError(
            f"{file}: names a class of its own, and loading the file runs it again; put what it is to do as a"
            ' program under `if __name__ == "__main__":`'
        )
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    _running.add(name)
    try:
        specification.loader.exec_module(module)
    except UserError:
        del sys.modules[name]
        raise
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise UserError(f"{file}: a {what}'s file failed: {error!r}") from error
    finally:
        _running.discard(name)
    return module


def _is_same_file(running: str | None, file: Path) -> bool:
    return running is not None and Path(running).resolve() == file.resolve()
