"""Calls from a kernel of a C function that takes pointers, by its address in a loaded library."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


@intrinsic  # type: ignore[untyped-decorator]
def call_with_pointers(
    typing: Any, address: Any, first: Any, second: Any, third: Any, fourth: Any
) -> tuple[Any, Any]:
    """Call ``void f(void *, void *, void *, void *)`` at an address with four addresses."""
    del typing, address, first, second, third, fourth

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        del signature
        raw = ir.IntType(8).as_pointer()
        function = ir.FunctionType(ir.VoidType(), [raw] * 4)
        callee = builder.inttoptr(arguments[0], function.as_pointer())
        builder.call(callee, [builder.inttoptr(argument, raw) for argument in arguments[1:]])
        return context.get_dummy_value()

    return types.void(*[types.int64] * 5), generate
