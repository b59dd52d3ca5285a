"""The decorator behind every compiled kernel, and where their machine code is cached.

Numba notices that a file changed, but not that a kernel *called from* that file changed.  The cache
directory is therefore named after a digest of all sources that hold kernels: an edited or upgraded package
never runs stale machine code, and an unchanged one starts without compiling.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")

_PACKAGE = Path(__file__).parent


def _source_digest() -> str:
    """Hex digest over the package's files that define kernels or the records they share, in a fixed order."""
    digest = hashlib.sha256()
    for path in sorted(_PACKAGE.rglob("*.py")):
        source = path.read_bytes()
        if b"@compiled" in source or path.name == "layout.py":
            digest.update(str(path.relative_to(_PACKAGE)).encode())
            digest.update(source)
    return digest.hexdigest()[:16]


def cache_directory() -> Path:
    """Directory of the compiled kernels of exactly this version of the package.

    ``NUMBA_CACHE_DIR`` decides where it is set; otherwise ``$XDG_CACHE_HOME/sitl-bridge`` or
    ``~/.cache/sitl-bridge``.
    """
    return Path(os.environ["NUMBA_CACHE_DIR"])


if "NUMBA_CACHE_DIR" not in os.environ:
    _root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    os.environ["NUMBA_CACHE_DIR"] = str(_root / "sitl-bridge" / _source_digest())

import numba  # noqa: E402  (numba reads NUMBA_CACHE_DIR when it is imported)


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile ``function`` to machine code on its first call, cached on disk, free of the GIL.

    IEEE arithmetic is kept (no fast-math), so that the same inputs give the same bytes.
    """
    jit = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=False)
    return cast("Callable[P, R]", jit(function))


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
