"""The decorators of compiled functions, kernels.

numba_internals.py compiles them, with parts of numba that may change in any version.  Under a version that is
not known, numba's own decorator does: the first compilation takes three times as long, and nothing is kept.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")

KNOWN_NUMBA = ("0.65", "0.66", "0.67", "0.68")
"""Versions of numba whose internals are known."""
_IS_KNOWN = numba.__version__.startswith(tuple(f"{version}." for version in KNOWN_NUMBA))

if _IS_KNOWN:
    from sitl_bridge.base.kernels.numba_internals import Kernel, LateKernel


@functools.cache
def _warn() -> None:
    print(
        f"numba {numba.__version__} is not known: compiled code is made anew at every start;"
        f" type: pip install 'numba=={KNOWN_NUMBA[-1]}.*'",
        file=sys.stderr,
    )


def _plain(function: Callable[P, R]) -> Callable[P, R]:
    """Compile by numba's own decorator.  IEEE arithmetic is kept, so that equal inputs give equal bytes."""
    _warn()
    return cast("Callable[P, R]", numba.njit(nogil=True, error_model="numpy")(function))


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile ``function`` to machine code on its first call, cached on disk, free of the GIL."""
    return cast("Callable[P, R]", Kernel(function)) if _IS_KNOWN else _plain(function)


def on_demand(function: Callable[P, R]) -> Callable[P, R]:
    """Compile ``function`` when another kernel calls it first, apart from that one's code.

    For what few vehicles or worlds need, and for what many kernels have in common: it is compiled once.  Its
    annotations are its types: float, int, bool, records, arrays (``Floats``; ``Annotated[Floats, 2]`` for two
    axes), tuples and named tuples of them.  An array that is a record's field is passed as ``field[:]``.
    """
    return cast("Callable[P, R]", LateKernel(function)) if _IS_KNOWN else _plain(function)


def prepare(*kernels: Callable[..., object]) -> None:
    """Compile kernels of ``on_demand`` that will be called, while there is time for it."""
    for kernel in kernels:
        if _IS_KNOWN:
            cast("LateKernel", kernel).prepare()
