"""Arrays that a kernel finds by their address.

A record that holds addresses stands for many arrays: a kernel that takes the record takes them all, and
passing it costs as much as passing one array.  Whoever makes the record keeps the arrays alive.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn, SupportsIndex, TypeVar

import numpy as np
from llvmlite import ir
from numba import carray, types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array

from sitl_bridge.base.arrays import Ints
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.base.kernels.record import numba_type

T = TypeVar("T", bound=tuple[Any, ...])


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


class Uncopied:
    """Base class of what holds addresses of its own arrays, which a copy would share."""

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        """Refuse to be copied or pickled.

        Raises:
            UserError: always.
        """
        raise UserError(
            f"vehicles that are simulated cannot be copied or pickled ({type(self).__name__}); make others"
            " with the same arguments: with the same seed they do the same"
        )


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


if TYPE_CHECKING:

    def arrays_of(handles: Any, kind: type[T]) -> T:
        """The named tuple of arrays that handles stand for."""
        raise NotImplementedError

else:

    @intrinsic
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
