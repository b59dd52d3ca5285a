"""A user's own wind: a function of time and place, in Python or as a class in a file that a world names.

The compiled step calls it through its address, for every vehicle at every step, with the vehicle's place at
the step's start; the wind holds over the step (4 ms by default).  Without one it costs nothing.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence

from pydantic import PrivateAttr

from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.user_file import NO_FILE, UserClass, failure_text

MOST_WIND = 150.0
"""m/s of any part of the wind.  The strongest gust measured near the ground was 113 m/s (Barrow Island, 1996;
WMO)."""

Place = tuple[float, float, float]
Velocity = Callable[[float, Place], Sequence[float]]
"""Velocity of the air, m/s NED, at a time in s and a place in m NED."""


class WindField:
    """Base of a user's own wind.  The options of the world's line are the constructor's arguments."""

    def velocity(self, t: float, place: Place) -> Sequence[float]:
        """Velocity of the air over ground, m/s north, east, down (up is negative).

        Args:
            t: s of simulated time since the wind began to blow: the start of the run, for a world's.
            place: m north, east, down of the vehicle from the world's origin.
        """
        raise NotImplementedError


class CustomWind(UserClass):
    """A wind of the user's own; it adds to whatever else blows."""

    _function: Velocity | None = PrivateAttr(None)

    @classmethod
    def of(cls, wind: Velocity | WindField | type[WindField]) -> CustomWind:
        """The wind of a function, an object or a class, of which each run makes its own, that is there."""
        name = str(getattr(wind, "__name__", type(wind).__name__))
        made = cls.model_validate(
            {"file": NO_FILE, "class": name if name.isidentifier() else type(wind).__name__}
        )
        if isinstance(wind, type):
            made._class = wind
        else:
            made._function = wind.velocity if isinstance(wind, WindField) else wind
        return made

    @property
    def name(self) -> str:
        """Name of it in messages."""
        if self.file != NO_FILE:
            return f"{self.file}: {self.class_name}"
        code = getattr(self._function or getattr(self._class, "velocity", None), "__code__", None)
        return self.class_name if code is None else f"{code.co_filename}: {self.class_name}"

    def load(self) -> Velocity:
        """The function; runs the user's file.

        Raises:
            UserError: when file or class is missing, or the class does not take the options.
        """
        return self._function or self.make(WindField, "wind").velocity


_Numbers = ctypes.POINTER(ctypes.c_double)
_Prototype = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_double, ctypes.c_double, ctypes.c_double, ctypes.c_double, _Numbers
)


class WindFunction:
    """A Python function that the compiled step can call; alive as long as a step may call it.

    Attributes:
        address: of the function, of numba_extensions.py's ``SIGNATURE``.
        failure: what it raised first; from then on it is no number.

    Args:
        wind: what is called.

    Raises:
        UserError: when the wind cannot be loaded, or fails at the origin.
    """

    def __init__(self, wind: CustomWind) -> None:
        self._name = wind.name
        self._velocity = wind.load()
        self.failure: BaseException | None = None
        self._failed = 0.0
        self._callback = _Prototype(self._call)
        self.address = int(ctypes.cast(self._callback, ctypes.c_void_p).value or 0)
        try:
            self._at(0.0, (0.0, 0.0, 0.0))
        except Exception as error:
            raise UserError(f"wind {self._name} failed: {failure_text(error)}") from error

    def _at(self, t: float, place: Place) -> Place:
        north, east, down = (float(value) for value in self._velocity(t, place))
        if not (abs(north) <= MOST_WIND and abs(east) <= MOST_WIND and abs(down) <= MOST_WIND):
            raise ValueError(
                f"at {place} it is ({north}, {east}, {down}); no wind is above {MOST_WIND:g} m/s"
            )
        return north, east, down

    def _call(
        self, _parameters: object, t: float, north: float, east: float, down: float, out: Floats
    ) -> None:
        try:
            out[0], out[1], out[2] = self._at(t, (north, east, down))
        except BaseException as error:  # noqa: BLE001 - an interrupt, too, is raised once the step has ended
            if self.failure is None:
                self.failure, self._failed = error, t
            out[0] = out[1] = out[2] = math.nan

    def raise_failure(self) -> None:
        """Raise what the function raised, if it did.

        Raises:
            UserError: for a failure of the function's own.
        """
        if isinstance(self.failure, Exception):
            what = f"wind {self._name} failed at {self._failed:.3f} s: {failure_text(self.failure)}"
            raise UserError(what) from self.failure
        if self.failure is not None:
            raise self.failure
