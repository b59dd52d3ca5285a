"""Arrays that a kernel finds by their address.

A record that holds addresses stands for many arrays: a kernel that takes the record takes them all, and
passing it costs as much as passing one array.  Whoever makes the record keeps the arrays alive.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import carray, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from sitl_bridge.base.kernels.compiled import compiled


@intrinsic  # type: ignore[untyped-decorator]
def _pointer(typing: Any, address: Any) -> tuple[Any, Any]:
    """The address as a C pointer."""
    del typing, address

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        del context, signature
        return builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.int64), generate


@compiled
def array_at(address: int, count: int, dtype: Any) -> Any:
    """The array (count,) of a dtype, a constant of the caller, that begins at an address.

    The array must be contiguous and outlive the call.
    """
    return carray(_pointer(address), (count,), dtype)


def handles_of(arrays: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
    """Handles (k, 4) of k arrays: the address and up to three lengths of each.

    Numba takes 0.2 us for each array that Python passes to a compiled function, and several microseconds for
    a named tuple of them, but hardly anything for handles.  They hold while the arrays live.

    Raises:
        ValueError: for an array that is not contiguous or has more than three axes.
    """
    handles = np.zeros((len(arrays), 4), np.int64)
    for handle, array in zip(handles, arrays, strict=True):
        if not array.flags.c_contiguous or array.ndim > 3:
            raise ValueError(f"an array of shape {array.shape} has no handle: it is not contiguous")
        handle[0], handle[1 : 1 + array.ndim] = array.ctypes.data, array.shape
    return handles


@compiled
def array_1d(handles: Any, k: int, dtype: Any) -> Any:
    """The array of one axis that handle ``k`` stands for; ``dtype`` is a constant of the caller."""
    return carray(_pointer(handles[k, 0]), (handles[k, 1],), dtype)


@compiled
def array_2d(handles: Any, k: int, dtype: Any) -> Any:
    """Likewise of two axes."""
    return carray(_pointer(handles[k, 0]), (handles[k, 1], handles[k, 2]), dtype)


@compiled
def array_3d(handles: Any, k: int, dtype: Any) -> Any:
    """Likewise of three axes."""
    return carray(_pointer(handles[k, 0]), (handles[k, 1], handles[k, 2], handles[k, 3]), dtype)
