"""A user's own rotor law: one class in one Python file, one line in an airframe.

The class is compiled at the start of a run and called by the compiled step through its address.  The compiled
code is not stored on disk.  The fields of the class are numbers in the VEHICLE record.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
import typing
from pathlib import Path
from typing import Any, Literal

import numba
import numpy as np

from sitl_bridge.base.arrays import Floats, Records
from sitl_bridge.base.errors import UserError, shorten
from sitl_bridge.base.input_file import MAX_PROGRAM_BYTES, exists, read_bytes
from sitl_bridge.base.kernels.array_at import call_at
from sitl_bridge.base.kernels.compiled import on_demand
from sitl_bridge.base.kernels.numba_extensions import c_function
from sitl_bridge.base.user_file import NO_FILE, T, UserClass, failure_text
from sitl_bridge.core.dynamics.records import CUSTOM_LAW, LAW_PARAMETERS, Vehicle
from sitl_bridge.core.dynamics.rotor import ADDRESSES, Loads, RotorModel

_TYPES: dict[type, np.dtype[np.generic]] = {float: np.dtype("f8"), int: np.dtype("i8"), bool: np.dtype("i8")}
_TRIAL = ((100.0, 0.0, 0.0), (400.0, 2.0, 5.0), (800.0, -2.0, 5.0))
"""Speeds in rad/s and flows in m/s of the trial calls before compilation."""
MIN_IN_PLANE_SPEED = 1e-6
"""In-plane velocity in m/s below which its direction, and so the in-plane loads, are undefined."""


@typing.dataclass_transform(frozen_default=True)
class RotorLaw:
    """Base class of a user's own rotor law.

    Its fields, written as ``name: type`` with or without a default, are its parameters: float, int, bool, or
    tuple[float, ...].  A subclass is automatically a frozen dataclass.  A field ``radius`` without an option
    defaults to the radius of rotor_model.
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        dataclasses.dataclass(frozen=True)(cls)

    def loads(self, speed: float, climb: float, in_plane: float, density: float) -> Loads:
        """Return the aerodynamic loads of one rotor.

        Compiled by numba: the method may use the fields, ``math``, numpy and functions marked
        ``@numba.njit``, but no other method.  It is called for speeds above 0; reverse rotation is mirrored.

        Args:
            speed: rad/s, > 0.
            climb: m/s, the hub's velocity through the air along the thrust axis: positive in a climb.
            in_plane: m/s, >= 0, the hub's velocity through the air across the thrust axis.
            density: kg/m^3 of the air.

        Returns:
            thrust in N along the axis; torque in N m against the rotation; in-plane force in N against the
            in-plane velocity; hub moment in N m about the direction opposite to that velocity (right-hand
            rule), of a rotor that turns counter-clockwise seen from above: the others' is mirrored.  An
            error and figures that are not finite end the run.
        """
        raise NotImplementedError


_functions: dict[tuple[type[RotorLaw], str], Any] = {}
"""Compiled functions by class and layout, kept for the life of the process because records hold addresses."""
_classes: dict[tuple[Path, str, str], type] = {}
"""Classes by file, name and digest of the file, so that only an edited file is read again."""


def _layout(law: RotorLaw) -> np.dtype[np.void]:
    """Return the memory layout of a law's fields."""
    hints = typing.get_type_hints(type(law))
    parts: list[Any] = []
    for field in dataclasses.fields(law):  # type: ignore[arg-type]
        hint, value = hints[field.name], getattr(law, field.name)
        if hint in _TYPES:
            parts.append((field.name, _TYPES[hint]))
        elif typing.get_origin(hint) is tuple:
            parts.append((field.name, "f8", (len(value),)))
        else:
            raise TypeError(f"field {field.name} must be float, int, bool or tuple[float, ...]")
    return np.dtype((np.record, parts or [("unused", "f8")]))


def _values(law: RotorLaw, layout: np.dtype[np.void]) -> Floats:
    """Return the fields of a law as the words stored in a VEHICLE record."""
    values = np.zeros(1, layout)
    for field in dataclasses.fields(law):  # type: ignore[arg-type]
        values[field.name] = getattr(law, field.name)
    return values.view(np.float64)


def _try(law: RotorLaw) -> None:
    """Call a law in Python to check it."""
    for speed, climb, in_plane in _TRIAL:
        loads = law.loads(speed, climb, in_plane, 1.225)
        if np.size(loads) != 4 or not all(math.isfinite(value) for value in loads):
            raise ValueError(
                f"loads({speed:g}, {climb:g}, {in_plane:g}, 1.225) returned {loads!r}; it must return thrust,"
                " torque, in-plane force and hub moment"
            )


def _compile(law: type[RotorLaw], layout: np.dtype[np.void]) -> Any:
    loads = numba.njit(error_model="numpy", nogil=True)(law.loads)
    carray = numba.carray

    def function(
        parameters: Any, speed: float, climb: float, in_plane: float, density: float, out: Any
    ) -> None:
        own = carray(parameters, 1, layout)[0]
        try:
            thrust, torque, force, moment = loads(own, speed, climb, in_plane, density)
        # A cfunc would print the error at each call, and go on with whatever is in ``out``.
        except Exception:  # noqa: BLE001
            thrust = torque = force = moment = math.nan
        out[0] = thrust
        out[1] = torque
        out[2] = force
        out[3] = moment

    return c_function(function)


def function_of(law: RotorLaw) -> tuple[int, Floats]:
    """Return the address of a law's compiled function in this process, and its parameters as words.

    Raises:
        UserError: for a law that fails, has too many parameters, or cannot be compiled.
    """
    what = f"rotor law {type(law).__name__}"
    try:
        layout = _layout(law)
        values = _values(law, layout)
        _try(law)
    except Exception as error:
        raise UserError(f"{what} failed: {failure_text(error)}") from error
    if len(values) > LAW_PARAMETERS:
        raise UserError(f"{what} has {len(values)} parameter values, more than {LAW_PARAMETERS}")
    key = (type(law), str(layout))
    if key not in _functions:
        try:
            _functions[key] = _compile(type(law), layout)
        except numba.NumbaError as error:
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            reason = shorten(" ".join(lines[1:] or lines), 400)
            raise UserError(f"{what} cannot be compiled: {reason}") from error
        except KeyError as error:  # by numba, of a field that the layout lacks
            name = error.args[0]
            raise UserError(
                f"{what} cannot be compiled: {name} has no type; write `{name}: float`"
            ) from error
        ADDRESSES.add(_functions[key].address)
    return _functions[key].address, values


@on_demand
def custom_loads(
    vehicle: Vehicle, k: int, speed: float, inflow: float, in_plane: float, density: float
) -> Loads:
    """Return the loads of a rotor by a user's own law, as ``rotor_loads``; zero for a stationary rotor."""
    if speed == 0.0:
        return 0.0, 0.0, 0.0, 0.0
    sign = -1.0 if speed < 0.0 else 1.0
    thrust, torque, force, moment = call_at(
        vehicle.rotor_law_address,
        vehicle.rotor_law_parameters.ctypes.data,
        abs(speed),
        sign * inflow,
        in_plane,
        density,
    )
    rate = 1.0 / in_plane if in_plane > MIN_IN_PLANE_SPEED else 0.0
    return sign * thrust, sign * torque, force * rate, vehicle.rotor_direction[k] * moment * rate


class CustomRotor(UserClass, RotorModel):
    """A rotor with a user's own law."""

    kind: Literal["custom"]

    @classmethod
    def of(cls, law: type[RotorLaw], radius: float, inertia: float, **options: object) -> CustomRotor:
        """Return the model for an existing class.

        Args:
            law: the class.
            radius: m.
            inertia: kg m^2 about the spin axis, including the motor's bell.
            options: fields of the class.
        """
        return cls.of_class(law, kind="custom", options=options, radius=radius, inertia=inertia)

    def find(self, base: type[T], what: str) -> type[T]:
        """The class; runs the user's file where it is not known already, and an edited file anew."""
        if self._class is not None or not exists(self.file):
            return super().find(base, what)
        digest = hashlib.sha256(read_bytes(self.file, MAX_PROGRAM_BYTES)).hexdigest()
        key = (self.file.resolve(), self.class_name, digest)
        if key not in _classes:
            _classes[key] = super().find(base, what)
        return _classes[key]

    def pack_shared(self, vehicle: Records) -> None:
        """Write the law's number, address and parameters of a () VEHICLE record; may run the user's file.

        Raises:
            UserError: if file or class is missing, the class rejects the options, or the law is faulty.
        """
        try:
            law = self.find(RotorLaw, "rotor law")
            known = {field.name for field in dataclasses.fields(law)}  # type: ignore[arg-type]
            own = {"radius": self.radius} if "radius" in known else {}
            address, values = function_of(self.make(RotorLaw, "rotor law", **own))
        except UserError as error:
            where = "" if self.file == NO_FILE or str(error).startswith(str(self.file)) else f"{self.file}: "
            raise UserError(f"{where}{error}") from error
        vehicle["rotor_law"] = CUSTOM_LAW
        vehicle["rotor_law_address"] = address
        vehicle["rotor_law_parameters"] = 0.0
        vehicle["rotor_law_parameters"].view(np.float64)[: len(values)] = values
