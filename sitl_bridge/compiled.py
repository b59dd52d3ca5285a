"""The decorator behind every compiled kernel, and where their machine code is cached.

Numba notices that a file changed, but not that a kernel *called from* that file changed.  The cache
directory is therefore named after a digest of all sources that hold kernels: an edited or upgraded package
never runs stale machine code, and an unchanged one starts without compiling.  Directories of versions that
are no longer used are removed when a new version makes its own.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ParamSpec, TypeVar, cast

from sitl_bridge.errors import UserError

P = ParamSpec("P")
R = TypeVar("R")

_PACKAGE = Path(__file__).parent
KEPT_AGE = 14 * 86400.0
"""s without use after which a version's compiled kernels are removed."""
KEPT_COUNT, KEPT_ALWAYS = 4, 86400.0
"""Versions kept however often a developer edits, and the age in s below which none is removed: one may be at
work in another checkout."""


def _source_digest() -> str:
    """Hex digest over the package's files that define kernels or the records they share, in a fixed order."""
    digest = hashlib.sha256()
    for path in sorted(_PACKAGE.rglob("*.py")):
        source = path.read_bytes()
        if b"@compiled" in source or path.name in ("layout.py", "compiler.py"):
            digest.update(str(path.relative_to(_PACKAGE)).encode())
            digest.update(source)
    return digest.hexdigest()[:16]


def cache_directory() -> Path:
    """Directory of the compiled kernels of exactly this version of the package.

    ``NUMBA_CACHE_DIR`` decides where it is set; otherwise ``$XDG_CACHE_HOME/sitl-bridge`` or
    ``~/.cache/sitl-bridge``.
    """
    return Path(os.environ["NUMBA_CACHE_DIR"])


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
    if new:
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
        with contextlib.suppress(FileNotFoundError):  # another process removes it right now
            ages[path] = now - path.stat().st_mtime
    removed = []
    for rank, path in enumerate(sorted(ages, key=lambda path: ages[path])):
        if ages[path] > KEPT_AGE or (rank >= KEPT_COUNT and ages[path] > KEPT_ALWAYS):
            shutil.rmtree(path, ignore_errors=True)
            removed.append(path)
    return removed


if "NUMBA_CACHE_DIR" not in os.environ:
    _root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    _directory = _root / "sitl-bridge" / _source_digest()
    _use(_directory)
    os.environ["NUMBA_CACHE_DIR"] = str(_directory)

from sitl_bridge.compiler import Kernel  # noqa: E402  (numba reads NUMBA_CACHE_DIR when it is imported)


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile ``function`` to machine code on its first call, cached on disk, free of the GIL."""
    return cast("Callable[P, R]", Kernel(function))


@contextlib.contextmanager
def announced(notify: Callable[[str], None], after: float = 1.5) -> Iterator[None]:
    """Tell the user that kernels are being compiled when the block takes longer than ``after`` s.

    Loading them from the cache takes well under a second; compiling happens once a version.
    """
    timer = threading.Timer(after, notify, ["compiling the simulation, once for this version"])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
