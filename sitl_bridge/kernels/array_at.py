"""Arrays that a kernel finds by their address.

A record that holds addresses stands for many arrays: a kernel that takes the record takes them all, and
passing it costs as much as passing one array.  Whoever makes the record keeps the arrays alive.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import carray, types
from numba.extending import intrinsic

from sitl_bridge.kernels.compiled import compiled


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
