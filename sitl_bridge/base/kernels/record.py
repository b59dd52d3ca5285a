"""Records that compiled functions read and write, each declared once, as a class.

The annotations of a class derived from ``Record`` are the fields of a numpy record:

    class BatteryRecord(Record):
        charge: float  # A s
        cells: int
        voltages: Annotated[Floats, 11]  # V per cell
        counter: Annotated[int, "u2"]  # another type than f8 and i8
        pack: PackRecord  # another record

    BATTERY = BatteryRecord.dtype

The class is never instantiated.  Its ``dtype`` is the memory layout; and as the annotation of a parameter,
``battery: BatteryRecord``, it tells readers and the type checker which fields a compiled function may use.
Python reads the same record as numpy's, ``battery["charge"]``.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, get_args, get_origin, get_type_hints

import numba
import numpy as np
from numba import from_dtype, types
from numpy.typing import NDArray

Packed = Any
"""A record as Python holds it: () or a row of an array, read as ``record["field"]``, passed to kernels."""

AS_PYTHON = bool(numba.config.DISABLE_JIT)
"""Whether kernels are run by Python, for its debugger: ``NUMBA_DISABLE_JIT=1``."""
CACHE_LINE = 64
"""bytes."""
_SCALARS = {float: np.dtype("f8"), int: np.dtype("i8")}


class Record:
    """Base of the classes that declare records.

    Raises:
        TypeError: for a field of another type.
    """

    # layout of the record, by default with C's alignment; ``class X(Record, align=False)`` packs it, and
    # ``class X(Record, lines=True)`` lets it end with a cache line
    dtype: ClassVar[np.dtype[np.void]]

    def __init_subclass__(cls, *, align: bool = True, lines: bool = False) -> None:
        hints = get_type_hints(cls, include_extras=True)
        fields = [(name, *_layout(hint)) for name, hint in hints.items() if get_origin(hint) is not ClassVar]
        cls.dtype = np.dtype(fields, align=align)
        if lines:
            names, places = list(cls.dtype.names or ()), dict(cls.dtype.fields or {})
            cls.dtype = np.dtype(
                {
                    "names": names,
                    "formats": [places[name][0] for name in names],
                    "offsets": [places[name][1] for name in names],
                    "itemsize": -(-cls.dtype.itemsize // CACHE_LINE) * CACHE_LINE,
                },
                align=align,
            )
        if AS_PYTHON:  # then their elements have the fields as attributes
            cls.dtype = np.dtype((np.record, cls.dtype))


def zeros_in_lines(count: int, dtype: np.dtype[np.void]) -> NDArray[np.void]:
    """(count,) records of zeros that begin with a cache line; columns of four values then cross none."""
    memory = np.zeros(count * dtype.itemsize + CACHE_LINE, np.uint8)
    first = -memory.ctypes.data % CACHE_LINE
    return memory[first : first + count * dtype.itemsize].view(dtype)


def _layout(hint: Any) -> tuple[Any, tuple[int, ...]]:
    """Type and shape of a field by its annotation."""
    kind, *details = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    if details and isinstance(details[0], str):
        return np.dtype(details[0]), tuple(details[1:])
    if kind in _SCALARS:
        return _SCALARS[kind], ()
    if isinstance(kind, type) and issubclass(kind, Record):
        return kind.dtype, tuple(details)
    element = _element(kind)
    if element is not None:
        return np.dtype(element), tuple(details)
    raise TypeError(f"a record has no field of type {hint!r}")


def _element(kind: Any) -> Any:
    """T of ``NDArray[T]``, else None; from numpy 2.5 on (Python 3.12) NDArray itself is annotated."""
    if get_origin(kind) is NDArray:
        return get_args(kind)[0]
    return get_args(get_args(kind)[1])[0] if get_origin(kind) is np.ndarray else None


def array_type(hint: Any) -> tuple[np.dtype[Any], int]:
    """Type of the elements and number of axes of an array, by its annotation as ``numba_type`` reads it."""
    kind, *details = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    axes = next((detail for detail in details if isinstance(detail, int)), 1)
    dtype = next((detail for detail in details if isinstance(detail, np.dtype)), None)
    return np.dtype(_element(kind)) if dtype is None else dtype, axes


def numba_type(hint: Any) -> types.Type:
    """Numba's type of a parameter of a kernel, or of a field of a named tuple, by its annotation.

    ``NDArray[T]`` is an array with one axis, ``Annotated[NDArray[T], axes]`` one with several, and
    ``Annotated[NDArray[np.void], DTYPE, axes]`` one of records.

    Raises:
        TypeError: for any other annotation.
    """
    kind = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    if kind is None or kind is type(None):
        return types.none
    if kind is bool:
        return types.boolean
    if kind in _SCALARS:
        return from_dtype(_SCALARS[kind])
    if get_origin(kind) is tuple:
        return types.Tuple([numba_type(each) for each in get_args(kind)])
    if _element(kind) is not None:
        dtype, axes = array_type(hint)
        return types.Array(from_dtype(dtype), axes, "C")
    if isinstance(kind, type) and issubclass(kind, Record):
        return from_dtype(kind.dtype)
    if isinstance(kind, type) and issubclass(kind, tuple):
        fields = get_type_hints(kind, include_extras=True)
        return types.BaseTuple.from_types([numba_type(each) for each in fields.values()], kind)
    raise TypeError(f"a kernel takes no {hint!r}")
