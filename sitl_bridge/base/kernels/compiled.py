"""The decorator behind every compiled kernel."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar, cast

import numba

from sitl_bridge.base.kernels.kernel_cache import used_directory

P = ParamSpec("P")
R = TypeVar("R")

LAST_KNOWN_NUMBA = (0, 68)
"""Newest numba whose internals compiler.py is known to fit; later ones compile every kernel by itself."""
_VERSION = re.compile(r"(\d+)\.(\d+)")


@contextlib.contextmanager
def cached_here(function: Callable[..., Any]) -> Iterator[None]:
    """Within the block, numba keeps ``function`` in the directory of the file that defines it."""
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = used_directory(function.__code__.co_filename)
    try:
        yield
    finally:
        numba.config.CACHE_DIR = before


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
        with cached_here(function):
            kept = os.access(numba.config.CACHE_DIR, os.W_OK)
            return numba.njit(nogil=True, error_model="numpy", cache=kept)(function)
    from sitl_bridge.base.kernels.compiler import Kernel

    return Kernel(function)


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile ``function`` to machine code on its first call, cached on disk, free of the GIL."""
    return cast("Callable[P, R]", _kernel(function))
