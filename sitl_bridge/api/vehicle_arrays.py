"""Common parts of a fleet and a bare simulation: n vehicles, their true state as arrays, its recording."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sitl_bridge.api.airframe_choice import AirframeChoice, airframes_of
from sitl_bridge.base.arrays import AnyArray, Floats, Mask
from sitl_bridge.base.errors import UserError, did_you_mean
from sitl_bridge.core.dynamics.proximity import VehicleContact
from sitl_bridge.core.sensors.custom import CustomSensorHost
from sitl_bridge.core.sensors.registry import KINDS
from sitl_bridge.core.sensors.sensor_host import SensorHost
from sitl_bridge.core.simulation.simulation import Simulation as Core
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.perception.mapping.occupancy_map import OccupancyMap
from sitl_bridge.perception.sensor_runner import SensorRunner


class VehicleArrays:
    """n vehicles of a simulation.  Arrays have the vehicle as first axis and are copies."""

    airframes: tuple[Airframe, ...]  # of the vehicles
    names: tuple[str, ...]  # of the vehicles
    _numbers: list[int]
    """Of the vehicles in their simulation."""

    @property
    def _core(self) -> Core:
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self.names)

    @property
    def _hosts(self) -> tuple[SensorHost, ...]:
        """The hosts that run the sensors that are sampled between steps."""
        raise NotImplementedError

    def _rows(self, name: str, value: ArrayLike, columns: int, *, same_for_all: bool = True) -> Floats:
        """A finite value of each vehicle, or where it may be the same one value for all of them."""
        given, shape = np.asarray(value, dtype=np.float64), (len(self), columns)
        alike = ((), (columns,), (1, columns)) if same_for_all or len(self) == 1 else ()
        if given.shape not in (shape, *alike):
            raise UserError(f"{name} has the shape {given.shape}, not {shape}")
        rows = np.broadcast_to(given, shape)
        if not np.isfinite(rows).all():
            bad = self.names[int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])]
            raise UserError(f"{name} of vehicle {bad} is not finite")
        return rows

    # ------------------------------------------------------------------ the truth

    def _pick(self, rows: AnyArray) -> Any:
        """The rows of these vehicles among those of the simulation, copied."""
        return rows.copy()

    def _state(self, name: str) -> Any:
        return self._pick(self._core.states[name])

    @property
    def step_size(self) -> float:
        """s of simulated time in one step."""
        return self._core.step * 1e-6

    @property
    def _zero(self) -> int:
        """us of simulated time at which ``time`` is 0."""
        return self._core.start

    @property
    def time(self) -> float:
        """s of simulated time since the start."""
        return (self._core.time - self._zero) * 1e-6

    @property
    def position(self) -> Floats:
        """(n, 3) m NED from the world's origin, of the centres of gravity; true, not estimated."""
        return self._state("position")  # type: ignore[no-any-return]

    @property
    def velocity(self) -> Floats:
        """(n, 3) m/s NED, true."""
        return self._state("velocity")  # type: ignore[no-any-return]

    @property
    def attitude(self) -> Floats:
        """(n, 4) quaternion w, x, y, z, body FRD to NED, true."""
        return self._state("attitude")  # type: ignore[no-any-return]

    @property
    def angular_velocity(self) -> Floats:
        """(n, 3) rad/s, body FRD, true."""
        return self._state("angular_velocity")  # type: ignore[no-any-return]

    @property
    def rotor_count(self) -> int:
        """m, the most rotors of a vehicle."""
        return max(len(airframe.rotors) for airframe in self.airframes)

    @property
    def rotor_speed(self) -> Floats:
        """(n, m) rad/s; 0 beyond a vehicle's rotors."""
        return self._state("rotor_speed")[..., : self.rotor_count]  # type: ignore[no-any-return]

    @property
    def wind(self) -> Floats:
        """(n, 3) m/s NED, velocity of the air at the vehicles."""
        return self._state("wind")  # type: ignore[no-any-return]

    @property
    def on_ground(self) -> Mask:
        """(n,) whether a vehicle touches the ground."""
        return self._pick(self._core.states["in_contact"] > 0)  # type: ignore[no-any-return]

    @property
    def contacts(self) -> list[VehicleContact]:
        """Contacts of the vehicles up to now, standing excepted, in order of ``time``."""
        return [one for one in self._core.named_contacts(self._zero) if one.vehicle in self.names]

    def motion_of(self, name: str) -> tuple[Floats, Floats]:
        """Return the place of an object of the scene now, and how it moves.

        Args:
            name: of the object, as in the world.

        Returns:
            (3,) m NED, position of its origin; (3,) m/s NED, velocity.

        Raises:
            UserError: for an unknown name.
        """
        scene = self._core.world.scene
        if name not in scene.names:
            raise UserError(f"the scene has no object {name!r}{did_you_mean(name, scene.names)}")
        shape = scene.shapes[scene.shapes["object"] == scene.names.index(name)][0]
        return shape["position"].copy(), shape["velocity"].copy()

    def map(self, vehicle: int = 0) -> OccupancyMap:
        """The occupancy map that a vehicle's sensors have built up to now; a copy.

        Args:
            vehicle: index.

        Raises:
            UserError: if the vehicle's sensors build none.
        """
        number = self._numbers[vehicle]
        for host in self._hosts:
            mapper = host.mapper if isinstance(host, SensorRunner) and host.vehicle == number else None
            if mapper is not None:
                return mapper.read()
        raise UserError(f"vehicle {vehicle} builds no map; give one of its ranging sensors a map_cell")

    def sensor(self, sensor: str, instance: int = 0) -> dict[str, Floats]:
        """The last samples of a sensor: ``sensor("imu")["specific_force"]`` is (n, 3).

        Args:
            sensor: kind as in airframe files, or name of the class of a custom sensor.
            instance: of that kind.

        Returns:
            (n,) or (n, k) a figure in SI units, radians and body axes FRD; nan for vehicles without it.
            Sensors that see also give the ``time`` of the sample, in s by the vehicles' ``time``.

        Raises:
            UserError: if no vehicle carries the sensor.
        """
        made = self._built_in_samples if sensor in KINDS else self._other_samples
        return {name: self._pick(rows) for name, rows in made(sensor, instance).items()}

    def _built_in_samples(self, kind: str, instance: int) -> dict[str, Floats]:
        """Rows of all vehicles; nan for those that do not carry it."""
        core = self._core
        fitted = (core.sensors["kind"] == KINDS[kind].code) & (core.sensors["instance"] == instance)
        values = np.full((len(core), core.sensor_states["values"].shape[2]), np.nan)
        carriers = fitted.any(axis=1)
        if not carriers.any():
            raise UserError(f"no vehicle carries {kind} {instance}")
        values[carriers] = core.sensor_states["values"][carriers, fitted[carriers].argmax(axis=1)]
        return {name: values[:, place] for name, place in KINDS[kind].values.items()}

    def _other_samples(self, sensor: str, instance: int) -> dict[str, AnyArray]:
        """The same of a custom sensor, or one that sees; arrays of integers have 0 in place of nan."""
        name = f"{sensor}_{instance}"
        known = {host.name for host in self._hosts}
        if name not in known:
            near = did_you_mean(sensor, [*KINDS, *(entry.rpartition("_")[0] for entry in known)])
            raise UserError(f"no vehicle carries a sensor {sensor!r} {instance}{near}")
        found: dict[str, AnyArray] = {}
        for host in self._hosts:
            latest: Mapping[str, ArrayLike] = {}
            if host.name == name and isinstance(host, CustomSensorHost):
                latest = host.latest or {}
            elif host.name == name and isinstance(host, SensorRunner) and host.latest is not None:
                latest = {"time": (host.latest.time - self._zero) * 1e-6, **host.latest.arrays}
            for title, array in ((title, np.asarray(value)) for title, value in latest.items()):
                empty = np.nan if array.dtype.kind == "f" else 0
                rows = found.setdefault(title, np.full((len(self._core), *array.shape), empty, array.dtype))
                rows[host.vehicle] = array
        return found


def validate_seed(seed: int) -> int:
    """A valid seed.

    Raises:
        UserError: for a negative number or anything but a whole one.
    """
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise UserError(f"seed: {seed!r} is not a whole number of 0 or more")
    return int(seed)


def validate_speed(speed: object) -> float:
    """A valid speed, simulated over wall time.

    Raises:
        UserError: for anything but a number above 0.
    """
    if not isinstance(speed, Real) or not float(speed) > 0:
        raise UserError(f"speed: {speed!r} is not a number above 0")
    return float(speed)


def validate_parameters(parameters: Mapping[str, Any]) -> dict[str, int | float]:
    """Parameters of flight stacks, which are numbers.

    Raises:
        UserError: for one that is not.
    """
    for name, value in parameters.items():
        if not isinstance(value, Real):
            raise UserError(f"parameters: {name}: {value!r} is not a number")
    return dict(parameters)


def place_vehicles(
    airframes: AirframeChoice | Sequence[AirframeChoice],
    names: Sequence[str] | None,
    positions: ArrayLike | None,
    spacing: float,
    yaw: ArrayLike,
) -> tuple[list[Airframe], list[str], list[tuple[float, float, float]], list[float]]:
    """Airframes, names, places m NED on the ground and headings rad of n vehicles at the start.

    Raises:
        UserError: for wrong counts and invalid values.
    """
    found = airframes_of(airframes)
    n = len(found)
    if not n:
        raise UserError("airframes: at least one vehicle is needed")
    called = [str(i) for i in range(n)] if names is None else [str(name) for name in names]
    if len(called) != n or len(set(called)) != n:
        raise UserError(f"names: {n} different ones are needed, not {', '.join(called)}")
    if positions is None:
        places = np.zeros((n, 3))
        places[:, 1] = spacing * np.arange(n)
    else:
        given = np.atleast_2d(np.asarray(positions, dtype=np.float64))
        if given.shape not in ((n, 2), (n, 3)) or not np.isfinite(given).all():
            raise UserError(
                f"positions: {n} finite rows of north, east in m are needed, not the shape {given.shape}"
            )
        places = np.zeros((n, 3))
        places[:, : given.shape[1]] = given
    try:
        headings = np.broadcast_to(np.asarray(yaw, dtype=np.float64), n).tolist()
    except ValueError as error:
        raise UserError(f"yaw: one heading in rad or {n} are needed") from error
    return found, called, [(north, east, down) for north, east, down in places.tolist()], headings
