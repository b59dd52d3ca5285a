"""Calls from a kernel through the address of a function that is known only when a run begins.

What a user writes (a rotor law, a wind) is not part of the cached kernels; they hold the call alone, and the
address is data.  So a kernel from the cache never runs an old version of a user's code.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from sitl_bridge.base.kernels.compiled import compiled

_FLOAT = types.float64
SIGNATURE = types.void(types.voidptr, _FLOAT, _FLOAT, _FLOAT, _FLOAT, types.CPointer(_FLOAT))
"""Of the function: its parameters, four numbers, and where it writes its four results."""


@intrinsic  # type: ignore[untyped-decorator]
def _call(typing: Any, address: Any, parameters: Any, a: Any, b: Any, c: Any, d: Any) -> tuple[Any, Any]:
    """Call a function of ``SIGNATURE``; returns its four results."""
    del typing, address, parameters, a, b, c, d

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        double, pointer = ir.DoubleType(), ir.DoubleType().as_pointer()
        raw = ir.IntType(8).as_pointer()
        function = ir.FunctionType(ir.VoidType(), [raw, double, double, double, double, pointer])
        results = cgutils.alloca_once(builder, ir.ArrayType(double, 4))
        callee = builder.inttoptr(arguments[0], function.as_pointer())
        builder.call(
            callee,
            [builder.inttoptr(arguments[1], raw), *arguments[2:], builder.bitcast(results, pointer)],
        )
        values = [builder.load(cgutils.gep_inbounds(builder, results, 0, i)) for i in range(4)]
        return context.make_tuple(builder, signature.return_type, values)

    return types.UniTuple(_FLOAT, 4)(types.int64, types.int64, _FLOAT, _FLOAT, _FLOAT, _FLOAT), generate


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
    results: tuple[float, float, float, float] = _call(address, parameters, a, b, c, d)
    return results
