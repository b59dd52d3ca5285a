"""Extends numba beyond its decorators as kernels need it, by its documented ways of extending it.

Code that no Python says: arrays and functions that are found by their addresses.  With numba_internals.py it
is the only file that imports more than ``numba`` itself; it works with all versions.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

import numpy as np
from llvmlite import ir
from llvmlite.binding import get_host_cpu_name
from numba import carray, cfunc, types
from numba.core import cgutils, event
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array

from sitl_bridge.base.kernels.record import AS_PYTHON, CACHE_LINE, array_type, numba_type

__all__ = [
    "arrays_of",
    "c_function",
    "call_function",
    "event",
    "get_host_cpu_name",
    "on_stack",
    "pointer",
]

T = TypeVar("T", bound=tuple[Any, ...])

_FLOAT = types.float64
SIGNATURE = types.void(types.voidptr, _FLOAT, _FLOAT, _FLOAT, _FLOAT, types.CPointer(_FLOAT))
"""Of a function that kernels call by its address: its parameters, four numbers, and where it writes its four
results."""


_C_SIGNATURE = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, *[ctypes.c_double] * 4, ctypes.POINTER(ctypes.c_double)
)


class _PythonFunction:
    """A Python function at an address, as ``numba.cfunc`` makes a compiled one."""

    def __init__(self, function: Callable[..., None]) -> None:
        self._callback = _C_SIGNATURE(
            lambda parameters, *values: function(_pointer(parameters or 0), *values)
        )
        self.address = ctypes.cast(self._callback, ctypes.c_void_p).value


def c_function(function: Callable[..., None]) -> Any:
    """A function of ``SIGNATURE``, for ``call_function`` by its ``address``; compiled as kernels are."""
    return _PythonFunction(function) if AS_PYTHON else cfunc(SIGNATURE, error_model="numpy")(function)


def _pointer(address: int) -> ctypes.c_void_p:
    return ctypes.c_void_p(int(address))


def _call_function(address: int, parameters: int, *values: float) -> tuple[float, ...]:
    results = (ctypes.c_double * 4)()
    _C_SIGNATURE(int(address))(int(parameters), *values, results)
    return tuple(results)


def _arrays_of(handles: Any, kind: Any) -> Any:
    rows = iter(handles.tolist())

    def make(kind: Any) -> Any:
        arrays = []
        for hint in get_type_hints(kind, include_extras=True).values():
            if isinstance(hint, type):  # a named tuple of arrays
                arrays.append(make(hint))
                continue
            (address, *shape), (dtype, axes) = next(rows), array_type(hint)
            arrays.append(carray(_pointer(address), tuple(shape[:axes]), dtype))
        return kind(*arrays)

    return make(kind)


def _in_kernels(as_python: Callable[..., Any]) -> Callable[[Callable[..., Any]], Any]:
    """An intrinsic; where Python runs the kernels, the Python function that does the same."""
    return lambda function: as_python if AS_PYTHON else intrinsic(function)


@_in_kernels(_pointer)
def pointer(typing: Any, address: Any) -> tuple[Any, Any]:
    """The address as a C pointer."""
    del typing, address

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        del context, signature
        return builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.int64), generate


@_in_kernels(_call_function)
def call_function(
    typing: Any, address: Any, parameters: Any, a: Any, b: Any, c: Any, d: Any
) -> tuple[Any, Any]:
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


@_in_kernels(lambda dtype: np.zeros((), dtype)[()])
def on_stack(typing: Any, dtype: Any) -> tuple[Any, Any]:
    """A record of a dtype, a constant of the caller, that begins with a cache line and ends with the call.

    Nothing is written to it.  The compiler knows that nothing else is stored there, so that a loop that reads
    other records and writes to this one compiles to vector instructions.
    """
    del typing

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        del arguments
        # Not by alloca_once, which writes zeros: for a step's scratch that takes a tenth of the step.
        with builder.goto_entry_block():
            record = builder.alloca(context.get_data_type(signature.return_type))
        record.align = CACHE_LINE
        return record

    return dtype.dtype(dtype), generate


if TYPE_CHECKING:

    def arrays_of(handles: Any, kind: type[T]) -> T:
        """The named tuple of arrays that handles stand for."""
        raise NotImplementedError

else:

    @_in_kernels(_arrays_of)
    def arrays_of(typing: Any, handles: Any, kind: Any) -> tuple[Any, Any]:
        """The named tuple of arrays that handles stand for; for kernels alone.

        Its fields are annotated as ``numba_type`` reads them.

        Args:
            typing: by numba.
            handles: of ``handles_of`` such a tuple.
            kind: the class of the tuple.
        """
        del typing

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            given = make_array(signature.args[0])(context, builder, arguments[0])
            words = builder.bitcast(given.data, ir.IntType(64).as_pointer())
            at = iter(range(0, 1 << 16, 4))

            def word(i: int) -> Any:
                return builder.load(cgutils.gep_inbounds(builder, words, i))

            def make(kind: Any) -> Any:
                if isinstance(kind, types.BaseTuple):
                    return context.make_tuple(builder, kind, [make(field) for field in kind.types])
                first = next(at)
                array = make_array(kind)(context, builder)
                size = context.get_abi_sizeof(context.get_data_type(kind.dtype))
                shape = [word(first + 1 + axis) for axis in range(kind.ndim)]
                strides = [ir.IntType(64)(size)]
                for length in shape[:0:-1]:
                    strides.insert(0, builder.mul(strides[0], length))
                populate_array(
                    array,
                    data=builder.inttoptr(word(first), context.get_data_type(kind.dtype).as_pointer()),
                    shape=shape,
                    strides=strides,
                    itemsize=ir.IntType(64)(size),
                    meminfo=None,
                )
                return array._getvalue()

            return make(signature.return_type)

        return numba_type(kind.instance_class)(handles, kind), generate
