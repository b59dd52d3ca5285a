"""A user's own wind: a function of time and place, in Python or as a class in a file that a world names.

The compiled step calls it through its address, for every vehicle at every step, with the vehicle's place at
the step's start; the wind holds over the step (4 ms by default).  Without one it costs nothing.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from typing import Any

from pydantic import PrivateAttr

from sitl_bridge.base.errors import UserError
from sitl_bridge.base.user_file import NO_FILE, UserClass

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
        """The wind of a function, an object or a class that is there already."""
        made_wind: Velocity | WindField = wind() if isinstance(wind, type) else wind
        function = made_wind.velocity if isinstance(made_wind, WindField) else made_wind
        name = str(getattr(wind, "__name__", type(wind).__name__))
        made = cls.model_validate(
            {"file": NO_FILE, "class": name if name.isidentifier() else type(wind).__name__}
        )
        made._function = function
        return made

    @property
    def name(self) -> str:
        """What messages call it."""
        return self.class_name if self.file == NO_FILE else f"{self.file}: {self.class_name}"

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
        address: of the function, of base/kernels/function_pointer.py's signature.
        failure: what it raised first; from then on it is no number, so that the step ends the run.

    Args:
        wind: what is called.

    Raises:
        UserError: when the wind cannot be loaded, or fails at the origin.
    """

    def __init__(self, wind: CustomWind) -> None:
        self._name = wind.name
        self._velocity = wind.load()
        self.failure: BaseException | None = None
        self._callback = _Prototype(self._call)
        self.address = int(ctypes.cast(self._callback, ctypes.c_void_p).value or 0)
        try:
            self._at(0.0, (0.0, 0.0, 0.0))
        except Exception as error:
            raise UserError(f"wind {self._name} failed: {error!r}") from error

    def _at(self, t: float, place: Place) -> Place:
        north, east, down = (float(value) for value in self._velocity(t, place))
        if not (math.isfinite(north) and math.isfinite(east) and math.isfinite(down)):
            raise ValueError(f"at {t} s and {place} it is ({north}, {east}, {down})")
        return north, east, down

    def _call(self, _parameters: Any, t: float, north: float, east: float, down: float, out: Any) -> None:
        try:
            out[0], out[1], out[2] = self._at(t, (north, east, down))
        except BaseException as error:  # noqa: BLE001 - an interrupt, too, is raised once the step has ended
            self.failure = self.failure or error
            out[0] = out[1] = out[2] = math.nan

    def refuse_failure(self) -> None:
        """Raise what the function raised, if it did.

        Raises:
            UserError: for a failure of the function's own.
        """
        if isinstance(self.failure, Exception):
            raise UserError(f"wind {self._name} failed: {self.failure!r}") from self.failure
        if self.failure is not None:
            raise self.failure
