"""Loads a class from a user's own Python file, and finds the file of a class: a sensor, a controller."""

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

_running: dict[str, Path] = {}
"""Users' files that are being run right now, by their modules' names."""


def refuse_while_loading(what: str) -> None:
    """Refuse to start something while a user's file is run for a class in it.

    A script that names a class of its own and starts a flight is loaded by that flight's processes, and
    would start the next one from there without end.

    Raises:
        UserError: naming the file.
    """
    if _running:
        file = next(reversed(_running.values()))
        raise UserError(
            f"{file}: starts {what} while the file is loaded for a class in it; put what the file does as a"
            ' program under `if __name__ == "__main__":`'
        )


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
    _running[name] = file
    try:
        specification.loader.exec_module(module)
    except UserError:
        del sys.modules[name]
        raise
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise UserError(f"{file}: a {what}'s file failed: {error!r}") from error
    finally:
        del _running[name]
    return module


def _is_same_file(running: str | None, file: Path) -> bool:
    return running is not None and Path(running).resolve() == file.resolve()


def place_of(found: type[Any], what: str) -> str:
    """FILE.py:CLASS of a class, by which another process can load it.

    Raises:
        UserError: for a class that no file holds at its top level: it was typed in, or made in a function.
    """
    name = found.__name__
    try:
        file = inspect.getsourcefile(found)
    except (TypeError, OSError):
        file = None
    if file is None or not file.endswith(".py") or not exists(Path(file)):
        raise UserError(
            f"{what} {name} is in no Python file, from which the flight stack's process could load it; put"
            " the class into a .py file and import it from there"
        )
    if found.__qualname__ != name or getattr(sys.modules.get(found.__module__), name, None) is not found:
        raise UserError(
            f"{file}: {what} {found.__qualname__} is not at the top level of the file, where the flight"
            " stack's process could find it; move it there"
        )
    return f"{Path(file).resolve()}:{name}"
