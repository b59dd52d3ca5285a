"""The decorators of compiled functions, kernels.

numba_internals.py compiles them, with parts of numba that may change in any version.  Under a version with
which it does not work, numba's own decorator does: the first compilation takes three times as long, and
nothing is kept.  With ``NUMBA_DISABLE_JIT=1`` Python runs the kernels, for its debugger.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba
import numpy as np

from sitl_bridge.base.errors import UserError
from sitl_bridge.base.kernels.record import AS_PYTHON

if AS_PYTHON:
    np.seterr(all="ignore")  # compiled kernels do not warn either

P = ParamSpec("P")
R = TypeVar("R")

KNOWN_NUMBA = ("0.65", "0.66", "0.67", "0.68")
"""Versions of numba whose internals are known."""


def _find_internals() -> bool:
    """Whether the internals are those of a version that is known, or of one that gives the same answers.

    So a new version of numba costs nothing where it changed nothing that we use.
    """
    if numba.__version__.startswith(tuple(f"{version}." for version in KNOWN_NUMBA)):
        return True
    try:
        from sitl_bridge.base.kernels.numba_internals import check

        check()
    except Exception:  # noqa: BLE001  (whatever a version that changed raises; ``_warn`` says what follows)
        return False
    return True


_IS_KNOWN = _find_internals()

if _IS_KNOWN:
    from sitl_bridge.base.kernels.numba_internals import Kernel, LateKernel


@functools.cache
def _warn() -> None:
    print(
        f"numba {numba.__version__} is not known and differs: compiled code is made anew at every start;"
        f" type: pip install 'numba=={KNOWN_NUMBA[-1]}.*'",
        file=sys.stderr,
    )


def _plain(function: Callable[P, R]) -> Callable[P, R]:
    """Compile by numba's own decorator.  IEEE arithmetic is kept, so that equal inputs give equal bytes."""
    _warn()
    return cast("Callable[P, R]", numba.njit(nogil=True, error_model="numpy")(function))


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile ``function`` to machine code on its first call, cached on disk, free of the GIL."""
    if AS_PYTHON:
        return function
    return cast("Callable[P, R]", Kernel(function)) if _IS_KNOWN else _plain(function)


def on_demand(function: Callable[P, R]) -> Callable[P, R]:
    """Compile ``function`` when another kernel calls it first, apart from that one's code.

    For what few vehicles or worlds need, and for what many kernels have in common: it is compiled once.  Its
    annotations are its types: float, int, bool, records, arrays (``Floats``; ``Annotated[Floats, 2]`` for two
    axes), tuples and named tuples of them.  An array that is a record's field is passed as ``field[:]``.
    """
    if AS_PYTHON:
        return function
    return cast("Callable[P, R]", LateKernel(function)) if _IS_KNOWN else _plain(function)


def prepare(*kernels: Callable[..., object]) -> None:
    """Compile kernels of ``on_demand`` that will be called, while there is time for it."""
    for kernel in kernels:
        if _IS_KNOWN and not AS_PYTHON:
            cast("LateKernel", kernel).prepare()


def require_compiled() -> None:
    """Refuse what needs compiled kernels: they call the C library's functions.

    Raises:
        UserError: if Python runs the kernels.
    """
    if AS_PYTHON:
        raise UserError(
            "NUMBA_DISABLE_JIT=1 lets Python run the kernels of sb.Simulation, and of sb.Sitl in one process;"
            " a link to a flight stack needs them compiled: unset it"
        )


def prepare_all() -> None:
    """Compile all kernels of ``on_demand`` that this program has loaded, for a run whose time cannot wait."""
    if _IS_KNOWN:
        prepare(*LateKernel.by_cell.values())
