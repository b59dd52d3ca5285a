"""A user's own classes, such as a sensor: named in a file with their options, loaded from a Python file."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import re
import sys
from pathlib import Path
from traceback import walk_tb
from types import ModuleType
from typing import Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from sitl_bridge.base.errors import UserError
from sitl_bridge.base.input_file import MAX_PROGRAM_BYTES, exists, read_bytes
from sitl_bridge.base.quantities import STRICT

T = TypeVar("T")
NO_FILE = Path("<no file>")
"""Of a class that was typed in."""
Options = dict[str, float | int | str | bool | list[float]]
"""Arguments of a class's constructor, by name."""

_running: dict[str, Path] = {}
"""Users' files that are being executed, by their modules' names."""


def failure_text(error: BaseException) -> str:
    """An error by a user's code, with the last line of the file that was called; none for a wrong result."""
    package = str(Path(__file__).parents[1])
    frames = list(walk_tb(error.__traceback__))
    if type(error) is NotImplementedError and frames:
        return f"its class defines no {frames[-1][0].f_code.co_name}"
    places = [(frame.f_code.co_filename, line) for frame, line in frames]
    own = [(file, line) for file, line in places if not file.startswith(package)]
    if not own:
        return repr(error)
    called = own[0][0]
    line = [line for file, line in own if file == called][-1]
    return f"{error!r} ({Path(called).name}, line {line})"


def require_not_loading(what: str) -> None:
    """Refuse to start something while a user's file is executed to load a class from it.

    A script that defines a class and starts a flight with it is loaded by that flight's processes, and would
    start another flight there, without end.

    Raises:
        UserError: with the file.
    """
    if _running:
        file = next(reversed(_running.values()))
        raise UserError(
            f"{file}: starts {what} while a class is loaded from the file; put the statements of the program"
            ' under `if __name__ == "__main__":`'
        )


class UserClass(BaseModel):
    """A class of a user's in a Python file."""

    model_config = STRICT | ConfigDict(validate_by_name=True, validate_by_alias=True, serialize_by_alias=True)

    file: Path = Field(description="Python file, relative to the file that names it")
    class_name: str = Field(alias="class", pattern=r"^[A-Za-z_]\w*$", description="class in it")
    options: Options = Field(default_factory=dict, description="arguments of the class")
    _class: type | None = PrivateAttr(None)

    @classmethod
    def of_class(cls, found: type, **fields: object) -> Self:
        """The same for a class object, wherever it is defined.

        Raises:
            ValidationError: for other fields that do not fit.
        """
        made = cls.model_validate({"file": _source(found) or NO_FILE, "class": found.__name__, **fields})
        made._class = found
        return made

    def find(self, base: type[T], what: str) -> type[T]:
        """The class; runs the user's file, where the class is not known already.

        Args:
            base: the class's base.
            what: kind of class, for messages.

        Raises:
            UserError: if file or class is missing.
        """
        return self._class or load_class(self.file, self.class_name, base, what)

    def make(self, base: type[T], what: str, **defaults: object) -> T:
        """An object of the class of ``find``.

        Args:
            base: the class's base.
            what: kind of class, for messages.
            defaults: arguments that the options may replace.

        Raises:
            UserError: if file or class is missing, or the class does not take the options.
        """
        found = self.find(base, what)
        try:
            return found(**defaults | self.options)
        except Exception as error:
            raise UserError(f"{self.file}: {self.class_name} does not take its options: {error}") from error

    def beside(self, directory: Path) -> Self:
        """The same with its file relative to a directory."""
        return self if self.file == NO_FILE else self.model_copy(update={"file": directory / self.file})


def load_class(file: Path, name: str, base: type[T], what: str) -> type[T]:
    """Load a class from a file; executes the file.

    Args:
        file: Python file.
        name: of the class.
        base: its base class.
        what: kind of class, for messages: "custom sensor".

    Raises:
        UserError: if the file is missing or fails, has no such class, or is being executed already.
    """
    if file == NO_FILE:
        raise UserError(
            f"{what} {name}: its class is not in a file, so other processes cannot load it;"
            " move it to a Python file"
        )
    found = getattr(_module(file, what), name, None)
    if not (inspect.isclass(found) and issubclass(found, base)):
        raise UserError(f"{file}: has no class {name} derived from {base.__name__}")
    return found


def _module(file: Path, what: str) -> ModuleType:
    """The module of a file: the running program if it is that file, else the file, executed here.

    A script may use a class that it defines; executing the script for it would come here again, without end.
    """
    if not exists(file):
        raise UserError(f"{file}: no such Python file for a {what}")
    read_bytes(file, MAX_PROGRAM_BYTES)
    main = sys.modules.get("__main__")
    running = getattr(main, "__file__", None)
    if main is not None and running is not None and Path(running).resolve() == file.resolve():
        return main
    # Registered under a unique name, because dataclasses, for example, look up their module.
    digest = hashlib.sha256(str(file.resolve()).encode()).hexdigest()[:12]
    name = f"{what.replace(' ', '_')}_{file.stem}_{digest}"
    specification = importlib.util.spec_from_file_location(name, file)
    if specification is None or specification.loader is None:
        raise UserError(f"{file}: is not a Python file; a {what} is a class in one")
    if name in _running:
        raise UserError(
            f"{file}: uses a class that it defines, and loading the class executes the file again; put the"
            ' statements of the program under `if __name__ == "__main__":`'
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
        raise UserError(f"{file}: the file of a {what} failed: {error!r}") from error
    finally:
        del _running[name]
    return module


_PLACE = re.compile(r"(?P<file>.+\.py):(?P<name>[A-Za-z_]\w*)")


def class_at(place: str) -> tuple[Path, str] | None:
    """File and class of FILE.py:CLASS; None for another text."""
    match = _PLACE.fullmatch(place)
    return (Path(match["file"]), match["name"]) if match else None


def _source(found: type) -> Path | None:
    """The Python file of a class; None of one that was typed in."""
    try:
        file = inspect.getsourcefile(found)
    except (TypeError, OSError):
        return None
    return Path(file) if file is not None and exists(Path(file)) else None


def place_of(found: type, what: str) -> str:
    """FILE.py:CLASS of a class, with which another process can load it.

    Raises:
        UserError: for a class that is not at the top level of a file: defined interactively or in a function.
    """
    name = found.__name__
    file = _source(found)
    if file is None or file.suffix != ".py":
        raise UserError(
            f"{what} {name} is not in a Python file, so the flight stack's process cannot load it; put the"
            " class into a .py file and import it from there"
        )
    if found.__qualname__ != name or getattr(sys.modules.get(found.__module__), name, None) is not found:
        raise UserError(
            f"{file}: {what} {found.__qualname__} is not at the top level of the file, so the flight stack's"
            " process cannot find it; move it there"
        )
    return f"{file.resolve()}:{name}"
