"""Keeps the machine code of compiled kernels on disk, and says what tells one from another.

Numba notices that a file changed, but not that a kernel *called from* that file changed.  So the file of a
kernel's machine code is named after a digest of all that it is made of: its bytecode, the constants, arrays,
records and classes that it names, and the functions that it calls with all that these name.  An edited or
upgraded package never runs stale machine code, and kernels that an edit does not concern are not compiled
again, in whichever directory the package is installed or checked out.  Files that are no longer used are
removed when new ones are written.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import hashlib
import os
import re
import sys
import time
import uuid
from importlib import metadata
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, get_args, get_origin, get_type_hints

import numba
import numpy as np

KEPT_AGE = 14 * 86400.0
"""s without use after which a file is removed."""
KEPT_COUNT, KEPT_ALWAYS = 1500, 86400.0
"""Files kept however often a developer edits (a version has about 150), and the age in s below which none is
removed: it may be in use in another checkout."""
_FILE_NAME = re.compile(r"\w+-[0-9a-f]{16}-[0-9a-f]{8}\.nbc")

_BY_NAME = sys.stdlib_module_names | {"numpy", "numba", "llvmlite"}
"""Packages whose functions and classes are told apart by name: their versions are part of every digest."""
_INTERNALS = Path(__file__).with_name("numba_internals.py")
"""Decides how every kernel is compiled."""
_VERSIONS = (sys.version_info[:2], numba.__version__, metadata.version("llvmlite"), np.__version__)
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def _is_known_by_name(module: str | None) -> bool:
    return (module or "").split(".")[0] in _BY_NAME


class _Parts:
    """Return a digest of what one function is made of, and the functions that it may call."""

    def __init__(self, function: FunctionType) -> None:
        self.name = f"{function.__module__}.{function.__qualname__}"
        self.calls: list[FunctionType] = []
        self._hasher = hashlib.sha256(self.name.encode())
        self._add_code(function.__code__, function)
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        for name, cell in cells:
            self._add(cell.cell_contents, name)
        self._add(function.__defaults__, "a default")
        self.digest = self._hasher.digest()

    def _note(self, *words: object) -> None:
        self._hasher.update(repr(words).encode())

    def _add_code(self, code: CodeType, function: FunctionType) -> None:
        """Bytecode, constants without the docstring, and the values of global names."""
        self._note(code.co_code, code.co_names, code.co_varnames)
        for place, constant in enumerate(code.co_consts):
            if isinstance(constant, CodeType):
                self._add_code(constant, function)
            elif isinstance(constant, frozenset):
                self._note(sorted(map(repr, constant)))
            elif place or constant != function.__doc__:
                self._note(constant)
        for name in code.co_names:
            if name not in function.__globals__:
                continue  # an attribute, or built in
            value = function.__globals__[name]
            self._note(name)
            self._add(value, name)
            if isinstance(value, ModuleType) and not _is_known_by_name(value.__name__):
                for attribute in code.co_names:
                    if hasattr(value, attribute):
                        self._add(getattr(value, attribute), f"{name}.{attribute}")

    def _add(self, value: Any, name: str) -> None:
        """A value, or what it is made of; ``name`` is for the message."""
        function = getattr(value, "py_func", None) or getattr(value, "__wrapped__", value)
        if isinstance(function, FunctionType):
            # How a kernel is called depends on its decorator.
            self._note(type(value).__name__, function.__module__, function.__qualname__)
            if not _is_known_by_name(function.__module__):
                self.calls.append(function)
        elif isinstance(value, np.ndarray):
            self._note(value.dtype, value.shape, value.tobytes())
        elif isinstance(value, tuple | list | frozenset):
            for item in value:
                self._add(item, name)
        elif get_origin(value) is not None:
            self._note(get_origin(value))
            self._add(get_args(value), name)
        elif isinstance(value, type):
            self._add_class(value, name)
        elif isinstance(value, ModuleType):
            self._note(value.__name__)
        elif isinstance(value, enum.Enum):
            self._note(type(value).__name__, value.value)
        elif _is_known_by_name(type(value).__module__) and not _ADDRESS.search(repr(value)):
            self._note(type(value).__name__, value)
        else:
            raise TypeError(f"{self.name}: {name} is {value!r}, whose versions the cache cannot tell apart")

    def _add_class(self, value: type, name: str) -> None:
        """Fields of a named tuple or a record, members of an enumeration, or a class's name."""
        self._note(value.__module__, value.__qualname__)
        if issubclass(value, enum.Enum):
            self._note([(member.name, member.value) for member in value])
        elif isinstance(layout := getattr(value, "dtype", None), np.dtype):
            self._note(layout)
        elif issubclass(value, tuple) and hasattr(value, "_fields"):
            for field, hint in get_type_hints(value, include_extras=True).items():
                self._note(field)
                self._add(hint, name)


parts_of = functools.cache(_Parts)


@functools.cache
def digest_of(function: FunctionType) -> str:
    """Digest of all that a function is compiled from, 16 hexadecimal digits.

    Raises:
        TypeError: when it names a value of which versions cannot be told apart.
    """
    found: dict[FunctionType, _Parts] = {}
    todo = [function]
    while todo:
        each = todo.pop()
        if each not in found:
            found[each] = parts_of(each)
            todo += found[each].calls
    hasher = hashlib.sha256(repr(_VERSIONS).encode() + _INTERNALS.read_bytes())
    for parts in sorted(found.values(), key=lambda parts: (parts.name, parts.digest)):
        hasher.update(parts.digest)
    return hasher.hexdigest()[:16]


def root() -> Path:
    """Directory of all compiled kernels.

    It is in ``NUMBA_CACHE_DIR`` where that is set; otherwise ``$XDG_CACHE_HOME/sitl-bridge`` or
    ``~/.cache/sitl-bridge``.
    """
    given = os.environ.get("NUMBA_CACHE_DIR")
    if given:
        return Path(given) / "sitl-bridge-kernels"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sitl-bridge"


def file_of(function: FunctionType, types: str) -> Path:
    """File of a function's machine code as it is now.

    Args:
        function: that is compiled.
        types: text that tells the types of its arguments, and processors, apart.
    """
    kind = hashlib.sha256(types.encode()).hexdigest()[:8]
    return root() / f"{function.__name__}-{digest_of(function)}-{kind}.nbc"


def is_cached(function: FunctionType) -> bool:
    """Whether the cache holds machine code of a function as it is now."""
    return any(root().glob(f"*-{digest_of(function)}-*.nbc"))


def write(path: Path, content: bytes) -> None:
    """Write a file at once, and remove what is no longer used when the first new one is written.

    Raises:
        OSError: where the disk has no room for it, or none at that place.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
    try:
        part.write_bytes(content)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    _remove_outdated_once(path.parent)


@functools.cache
def _remove_outdated_once(place: Path) -> None:
    remove_outdated(place, time.time())


def remove_outdated(place: Path, now: float) -> None:
    """Remove the machine code of sources that are no longer used: that no process loaded for long.

    Args:
        place: holds the files.
        now: s since the epoch.
    """
    ages = {}
    for path in place.iterdir():
        if _FILE_NAME.fullmatch(path.name):  # others are not of this program
            with contextlib.suppress(FileNotFoundError):  # another process removes it right now
                ages[path] = now - path.stat().st_mtime
    for rank, path in enumerate(sorted(ages, key=lambda path: ages[path])):
        if ages[path] > KEPT_AGE or (rank >= KEPT_COUNT and ages[path] > KEPT_ALWAYS):
            path.unlink(missing_ok=True)
