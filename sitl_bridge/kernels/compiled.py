"""The decorator behind every compiled kernel, and where their machine code is cached.

Numba notices that a file changed, but not that a kernel *called from* that file changed.  The cache
directory is therefore named after a digest of all sources that make up kernels: an edited or upgraded package
never runs stale machine code, and an unchanged one starts without compiling.  Directories of versions that
are no longer used are removed when a new version makes its own.  Kernels of other programs stay where numba
keeps them: only the kernels here are given this directory, whenever numba was imported.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import shutil
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba
from numba.core import event

from sitl_bridge.errors import UserError

P = ParamSpec("P")
R = TypeVar("R")

_PACKAGE = Path(__file__).resolve().parent.parent
KEPT_AGE = 14 * 86400.0
"""s without use after which a version's compiled kernels are removed."""
KEPT_COUNT, KEPT_ALWAYS = 4, 86400.0
"""Versions kept however often a developer edits, and the age in s below which none is removed: one may be at
work in another checkout."""


LAST_KNOWN_NUMBA = (0, 68)
"""Newest numba whose internals compiler.py is known to fit; later ones compile every kernel by itself."""
_VERSION = re.compile(r"(\d+)\.(\d+)")
_DIRECTORY_NAME = re.compile(r"[0-9a-f]{16}")

_MARKS = (b"@compiled", b"(NamedTuple)", b"ClassVar[tuple[Callable")
"""What a file contains that defines or lists kernels, or defines what they are passed."""
_IMPORT = re.compile(r"^from (sitl_bridge[\w.]*) import (?:\(([^)]*)\)|([^\n#]*))", re.MULTILINE)


def kernel_sources(package: Path = _PACKAGE) -> dict[Path, bytes]:
    """The files that make up kernels, and their content.

    They are those that define kernels or named tuples, those that list kernels by class, and those that
    constants (names in capitals) or whole modules are imported from there.  Numba compiles a constant's value
    into the code, and tells named tuples apart by their names and types, but not by their fields.
    """
    sources = {path: path.read_bytes() for path in sorted(package.rglob("*.py"))}
    todo = [path for path, text in sources.items() if any(mark in text for mark in _MARKS)]
    todo += [package / "kernels" / name for name in ("compiled.py", "compiler.py")]
    found: dict[Path, bytes] = {}
    while todo:
        path = todo.pop()
        if path in found or path not in sources:
            continue
        found[path] = sources[path]
        for module, several, one in _IMPORT.findall(sources[path].decode("utf-8")):
            base = package.joinpath(*module.split(".")[1:])
            names = [name.split(" as ")[0].strip() for name in (several or one).split(",")]
            todo += [base / f"{name}.py" for name in names]
            if any(name.lstrip("_").isupper() for name in names):
                todo += [base.with_suffix(".py"), base / "__init__.py"]
    return dict(sorted(found.items()))


@functools.cache
def _source_digest() -> str:
    """Hex digest over ``kernel_sources`` and numba's version."""
    digest = hashlib.sha256(numba.__version__.encode())
    for path, source in kernel_sources().items():
        digest.update(str(path.relative_to(_PACKAGE)).encode())
        digest.update(source)
    return digest.hexdigest()[:16]


def cache_directory() -> Path:
    """Directory of the compiled kernels of exactly this version of the package.

    It is in ``NUMBA_CACHE_DIR`` where that is set; otherwise in ``$XDG_CACHE_HOME/sitl-bridge`` or
    ``~/.cache/sitl-bridge``.
    """
    given = os.environ.get("NUMBA_CACHE_DIR")
    if given:
        return Path(given) / f"sitl-bridge-{_source_digest()}"
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return root / "sitl-bridge" / _source_digest()


def _use(directory: Path) -> None:
    """Note that a version is in use; make its directory where it is new, and remove outdated ones.

    Raises:
        UserError: when it cannot be made.
    """
    try:
        new = not directory.is_dir()
        directory.mkdir(parents=True, exist_ok=True)
        os.utime(directory)
    except OSError as error:
        raise UserError(
            f"{directory}: compiled code cannot be kept there: {error.strerror}; set XDG_CACHE_HOME to a"
            " directory that can be written"
        ) from error
    if new and directory.name == _source_digest():
        remove_outdated(directory.parent, time.time())


def remove_outdated(root: Path, now: float) -> list[Path]:
    """Remove the compiled kernels of versions that are no longer used.

    A version counts as used when a process starts with it.  One that runs does not mind: its code is in
    memory, and numba makes the directory again before it writes.

    Args:
        root: holds one directory a version.
        now: s since the epoch.

    Returns:
        what was removed.
    """
    ages = {}
    for path in root.iterdir():
        if _DIRECTORY_NAME.fullmatch(path.name) is None:
            continue  # not a version's
        with contextlib.suppress(FileNotFoundError):  # another process removes it right now
            ages[path] = now - path.stat().st_mtime
    removed = []
    for rank, path in enumerate(sorted(ages, key=lambda path: ages[path])):
        if ages[path] > KEPT_AGE or (rank >= KEPT_COUNT and ages[path] > KEPT_ALWAYS):
            shutil.rmtree(path, ignore_errors=True)
            removed.append(path)
    return removed


@contextlib.contextmanager
def cached_here() -> Iterator[None]:
    """Within the block, numba gives new kernels this version's directory."""
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(_DIRECTORY)
    try:
        yield
    finally:
        numba.config.CACHE_DIR = before


_DIRECTORY = cache_directory()
_use(_DIRECTORY)


@functools.cache
def _numba_is_known() -> bool:
    """Whether compiler.py fits this numba; the first call warns of one that it may not fit."""
    found = _VERSION.match(numba.__version__)
    if found is not None and (int(found[1]), int(found[2])) <= LAST_KNOWN_NUMBA:
        return True
    newest = ".".join(str(part) for part in LAST_KNOWN_NUMBA)
    warnings.warn(
        f"numba {numba.__version__} is newer than {newest}, the newest that sitl-bridge knows; kernels are"
        " compiled one by one, so the first start takes longer",
        RuntimeWarning,
        stacklevel=2,
    )
    return False


def _kernel(function: Callable[..., Any]) -> Any:
    """A kernel compiled together with those that it calls, or by itself under a numba that is not known."""
    if not _numba_is_known():
        with cached_here():
            return numba.njit(nogil=True, error_model="numpy", cache=True)(function)
    from sitl_bridge.kernels.compiler import Kernel

    return Kernel(function)


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile ``function`` to machine code on its first call, cached on disk, free of the GIL."""
    return cast("Callable[P, R]", _kernel(function))


class _Compiling(event.Listener):  # type: ignore[misc]
    """Calls back when a kernel has been compiling for some seconds."""

    def __init__(self, notify: Callable[[], None], after: float) -> None:
        self._timer = threading.Timer(after, notify)
        self._timer.daemon = True
        self._begun = threading.Event()

    def on_start(self, event: Any) -> None:
        """Start counting with the first kernel that no cache holds."""
        del event
        if not self._begun.is_set():
            self._begun.set()
            self._timer.start()

    def on_end(self, event: Any) -> None:
        """Nothing: the next kernel follows."""
        del event

    def stop(self) -> None:
        """Call back no more."""
        self._timer.cancel()


@contextlib.contextmanager
def announced(notify: Callable[[str], None], after: float = 1.5) -> Iterator[None]:
    """Report that the simulation is compiled when that goes on for ``after`` s within the block.

    Loading kernels from the cache reports nothing, however long it takes.
    """
    listener = _Compiling(lambda: notify("compiling the simulation, once for this version"), after)
    event.register("numba:compile", listener)
    try:
        yield
    finally:
        event.unregister("numba:compile", listener)
        listener.stop()
