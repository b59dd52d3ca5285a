"""A user's own controller: a Python class, named as FILE.py:CLASS or given as an object.

It is called from Python at every step with the inputs of the built-in laws and returns a wrench.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from sitl_bridge.autopilot.control.gains import ControllerChoice, controller_record
from sitl_bridge.autopilot.records import TRAJECTORY
from sitl_bridge.base.arrays import Floats, Records
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.user_file import class_at, failure_text, load_class

if TYPE_CHECKING:
    from sitl_bridge.core.vehicle.airframe import Airframe
    from sitl_bridge.core.world.world import World


@dataclass(frozen=True)
class VehicleModel:
    """VehicleModel properties that a controller may use.

    Attributes:
        name: name of the airframe.
        mass: kg.
        inertia: (3, 3) kg m^2, body axes (FRD).
        gravity: m/s^2.
        thrust_min: N, all rotors at minimum command.
        thrust_max: N, all rotors at full command.
    """

    name: str
    mass: float
    inertia: Floats
    gravity: float
    thrust_min: float
    thrust_max: float


@dataclass(frozen=True)
class Wrench:
    """Thrust and moment commanded by a controller.

    Attributes:
        thrust: N along body up.
        moment: (3,) N m about the body's axes, FRD.
    """

    thrust: float
    moment: ArrayLike


class Controller:
    """Base class of a user's own controller.

    Args:
        vehicle: properties of the vehicle.
        options: further constructor arguments come from ``options`` in the airframe.
    """

    def __init__(self, vehicle: VehicleModel) -> None:
        self.vehicle = vehicle

    def reset(self) -> None:
        """Reset the integrators: called before the first step and while the vehicle idles on the ground."""

    def control(self, estimate: Records, setpoint: Records, dt: float) -> Wrench:
        """Return thrust and moment for one step of flight.

        Args:
            estimate: () ESTIMATE record: ``estimate["position"]`` (3,) m NED, ``"velocity"``, ``"attitude"``
                (4,) w, x, y, z body to NED, ``"angular_velocity"`` (3,) rad/s body and so on.
            setpoint: () SETPOINT record; ``"level"`` gives the fields in use, nan means not controlled.
            dt: s since the last step.
        """
        raise NotImplementedError


class ControllerHost:
    """Runs a user's controller for one vehicle.

    Args:
        where: its file and class, for messages.
        make: makes the controller.

    Raises:
        UserError: if it cannot be made or has no method control.
    """

    def __init__(self, where: str, make: Callable[[], Any]) -> None:
        self._where = where
        try:
            self.controller = make()
            if not callable(getattr(self.controller, "control", None)):
                raise TypeError(f"{self.controller!r} is no controller: it has no method control")
            self.controller.reset()
        except Exception as error:
            raise UserError(f"{self._where} could not be created: {error!r}") from error

    def run(self, estimate: Records, setpoint: Records, dt: float, wrench: Records) -> None:
        """Run the controller for one step; write ``thrust`` and ``moment`` of a () WRENCH record.

        Raises:
            UserError: if it raises an exception or returns a value that is not a finite number.
        """
        try:
            if int(setpoint["level"]) < TRAJECTORY:
                self.controller.reset()
                return
            command = self.controller.control(estimate, setpoint, dt)
            thrust, moment = float(command.thrust), np.asarray(command.moment, float)
        except Exception as error:
            raise UserError(f"{self._where} failed: {failure_text(error)}") from error
        if moment.shape != (3,) or not (math.isfinite(thrust) and np.isfinite(moment).all()):
            raise UserError(
                f"{self._where} returned thrust {thrust} and moment {moment}; expected one number and three"
            )
        wrench["thrust"], wrench["moment"] = thrust, moment


def user_controller(
    airframe: Airframe, world: World, choice: ControllerChoice = None
) -> ControllerHost | None:
    """Return the user's own controller of an airframe; None if it uses a built-in law.

    Args:
        choice: replaces the airframe's own controller, as for ``controller_record``.

    Raises:
        UserError: if it cannot be loaded or created.
    """
    chosen = choice or airframe.controller.kind
    own = class_at(chosen) if isinstance(chosen, str) else None
    if isinstance(chosen, str) and own is None:
        return None
    record = controller_record(airframe, world, choice)
    vehicle = VehicleModel(
        airframe.name,
        float(record["mass"]),
        np.array(record["inertia"]),
        float(record["gravity"]),
        float(record["thrust_min"]),
        float(record["thrust_max"]),
    )
    if own is None:
        assert not isinstance(chosen, str)
        return ControllerHost(
            f"controller {getattr(chosen, '__qualname__', repr(chosen))}", partial(chosen, vehicle)
        )
    file, name = own
    made = load_class(file, name, Controller, "controller")
    options = {} if choice else airframe.controller.options
    return ControllerHost(f"{file}: {name}", partial(made, vehicle, **options))
