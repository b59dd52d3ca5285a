"""Arrays and functions that a kernel finds by their addresses.

A record that holds addresses stands for many arrays: a kernel that takes the record takes them all, and
passing it costs as much as passing one array.  Whoever makes the record keeps the arrays alive.

What a user writes (a rotor law, a wind) is not part of the cached kernels; they hold the call alone, and the
function's address is data.  So a kernel from the cache never runs an old version of a user's code.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numba import carray

from sitl_bridge.base.arrays import Ints
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.base.kernels.numba_extensions import call_function, pointer


@compiled
def array_at(address: int, count: int, dtype: Any) -> Any:
    """The array (count,) of a dtype, a constant of the caller, that begins at an address.

    The array must be contiguous and outlive the call.
    """
    return carray(pointer(address), (count,), dtype)


@compiled
def call_at(
    address: int, parameters: int, a: float, b: float, c: float, d: float
) -> tuple[float, float, float, float]:
    """Results of the function at an address, which must be of ``SIGNATURE`` and alive in this process.

    Args:
        address: of the function.
        parameters: address that it gets as its first argument; 0 for none.
        a: its second argument, and so on.
        b: its third.
        c: its fourth.
        d: its fifth.
    """
    results: tuple[float, float, float, float] = call_function(address, parameters, a, b, c, d)
    return results


def handles_of(arrays: Iterable[Any]) -> Ints:
    """Handles (k, 4) of k arrays: the address and up to three lengths of each.

    Numba takes 0.2 us for each array that Python passes to a compiled function, and several microseconds for
    a named tuple of them, but hardly anything for handles.  They hold while the arrays live.

    Args:
        arrays: a named tuple of arrays, or of such tuples.

    Raises:
        ValueError: for an array that is not contiguous or has more than three axes.
    """
    handles: list[Ints] = []
    for array in arrays:
        if isinstance(array, tuple):
            handles.extend(handles_of(array))
            continue
        if not array.flags.c_contiguous or array.ndim > 3:
            raise ValueError(f"an array of shape {array.shape} has no handle: it is not contiguous")
        handles.append(np.array([array.ctypes.data, *array.shape, 0, 0, 0][:4], np.int64))
    return np.array(handles)
