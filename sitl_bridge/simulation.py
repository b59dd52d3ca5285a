"""The pure core: a world and n vehicles with their sensors.  No I/O, no clock, no global state.

``advance`` is one compiled call for all vehicles: interaction, wind, motors, forces, integration, sensors.
The lockstep loop (hil/) and the built-in flight stacks (autopilot/) take the same step in their own loops.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.dynamics.contact_log import CONTACT, note_contacts
from sitl_bridge.dynamics.custom_rotor import check_law_address
from sitl_bridge.dynamics.proximity import (
    COLLISION,
    HULL,
    PROXIMITY,
    REPORTS,
    Proximity,
    ProximityArrays,
    hull,
    interact,
)
from sitl_bridge.dynamics.records import POSE, STATE, VEHICLE
from sitl_bridge.dynamics.scene_start import start_state
from sitl_bridge.dynamics.stability import check_stability
from sitl_bridge.dynamics.step import advance_vehicle, has_diverged
from sitl_bridge.errors import UserError
from sitl_bridge.kernels.array_at import array_1d, array_2d, array_at, handles_of
from sitl_bridge.kernels.compiled import compiled
from sitl_bridge.kernels.random_streams import stream
from sitl_bridge.sensors.records import MAX_SENSORS, SENSOR, SENSOR_STATE
from sitl_bridge.sensors.sample import refuse_rates_beyond, sample_sensors, start_sensor
from sitl_bridge.world.atmosphere import air
from sitl_bridge.world.records import ENVIRONMENT, START, WIND, WIND_STATE
from sitl_bridge.world.scene import place_moving_shapes
from sitl_bridge.world.wind import wind_velocity

if TYPE_CHECKING:
    from sitl_bridge.world.world import World

CONTROLS = 16
"""Actuator channels of a vehicle, as in HIL_ACTUATOR_CONTROLS."""


class FleetArrays(NamedTuple):
    """The memory of n vehicles and their world, as compiled functions take it.

    Python passes its ``Simulation.handles`` and the compiled function that it calls restores the names with
    ``fleet_of``.

    Attributes:
        vehicles: (n,) VEHICLE.
        states: (n,) STATE.
        controls: (n, 16) actuator commands, held over a step.
        armed: (n,) 0 or 1.
        environment: (1,) ENVIRONMENT.
        wind: (1,) WIND.
        wind_states: (n,) WIND_STATE.
        wind_series: (k, 4) time in s and wind NED in m/s; k = 0 for none.
        sensors: (n, MAX_SENSORS) SENSOR.
        sensor_states: (n, MAX_SENSORS) SENSOR_STATE.
        neighbours: how vehicles act on one another.
    """

    vehicles: NDArray[np.void]
    states: NDArray[np.void]
    controls: NDArray[np.float64]
    armed: NDArray[np.int64]
    environment: NDArray[np.void]
    wind: NDArray[np.void]
    wind_states: NDArray[np.void]
    wind_series: NDArray[np.float64]
    sensors: NDArray[np.void]
    sensor_states: NDArray[np.void]
    neighbours: ProximityArrays

    def handles(self) -> NDArray[np.int64]:
        """Handles of the arrays, for ``fleet_of``."""
        return handles_of((*self[:-1], *self.neighbours))


@compiled
def fleet_of(handles: Any) -> Any:
    """The ``FleetArrays`` that the handles stand for."""
    return FleetArrays(
        array_1d(handles, 0, VEHICLE),
        array_1d(handles, 1, STATE),
        array_2d(handles, 2, np.float64),
        array_1d(handles, 3, np.int64),
        array_1d(handles, 4, ENVIRONMENT),
        array_1d(handles, 5, WIND),
        array_1d(handles, 6, WIND_STATE),
        array_2d(handles, 7, np.float64),
        array_2d(handles, 8, SENSOR),
        array_2d(handles, 9, SENSOR_STATE),
        ProximityArrays(
            array_1d(handles, 10, PROXIMITY),
            array_1d(handles, 11, HULL),
            array_2d(handles, 12, np.uint8),
            array_1d(handles, 13, COLLISION),
            array_1d(handles, 14, CONTACT),
        ),
    )


@compiled
def _remember_pose(state: Any, time: int) -> None:
    """Write a vehicle's pose into its ring of poses, if it has one."""
    if state.history == 0:
        return
    pose = array_at(state.history, state.history_length, POSE)[state.history_count % state.history_length]
    pose.time = time
    for i in range(3):
        pose.position[i] = state.position[i]
        pose.inertial[i] = state.specific_force[i]
        pose.inertial[3 + i] = state.angular_velocity[i]
        pose.inertial[6 + i] = state.angular_acceleration[i]
    for i in range(4):
        pose.attitude[i] = state.attitude[i]
    state.history_count += 1


@compiled
def _apply_wind(fleet: Any, i: int, time: int, seconds: float) -> None:
    """Set a vehicle's wind for the coming step: the world's, and the downwash of other vehicles."""
    state = fleet.states[i]
    north, east, down = wind_velocity(
        fleet.wind[0], fleet.wind_states[i], fleet.wind_series, state, time, seconds
    )
    state.wind[0] = north + state.neighbour_air[0]
    state.wind[1] = east + state.neighbour_air[1]
    state.wind[2] = down + state.neighbour_air[2]


@compiled
def move_fleet(fleet: Any, time: int, step: int, substeps: int) -> int:
    """Advance every vehicle from ``time`` to ``time + step`` (us), without its sensors.

    A vehicle depends on the others only through collisions and downwash.  With both off, its bytes are the
    same alone and among others.

    Args:
        fleet: ``FleetArrays``.
        time: us at the start of the step.
        step: us.
        substeps: integration steps within the step.

    Returns:
        -1, or the first vehicle whose motion diverged; those after it are not advanced.
    """
    vehicles, states, environment = fleet.vehicles, fleet.states, fleet.environment[0]
    proximity = fleet.neighbours.proximity[0]
    seconds = step * 1e-6
    place_moving_shapes(environment.scene, (time - START) * 1e-6)
    if vehicles.shape[0] > 1 and (proximity.collisions != 0 or proximity.downwash != 0):
        interact(fleet.neighbours, vehicles, states, environment, time, seconds)
    for i in range(vehicles.shape[0]):
        state = states[i]
        _apply_wind(fleet, i, time, seconds)
        advance_vehicle(vehicles[i], state, fleet.controls[i], fleet.armed[i], environment, seconds, substeps)
        if has_diverged(state):
            return i
        note_contacts(fleet.neighbours, i, vehicles[i], state, environment.scene, time + step)
        _remember_pose(state, time + step)
    return -1


@compiled
def sample_vehicle(fleet: Any, i: int, time: int, step: int) -> None:
    """Sample the sensors of vehicle ``i`` at ``time`` (us), the end of a step.

    That depends on no other vehicle's sensors, so a vehicle's frame may be sent before the next is sampled.
    """
    state, sensors, memories = fleet.states[i], fleet.sensors[i], fleet.sensor_states[i]
    sample_sensors(fleet.vehicles[i], state, fleet.environment[0], sensors, memories, time, step)


@compiled
def advance_fleet(fleet: Any, time: int, step: int, substeps: int) -> int:
    """Advance every vehicle from ``time`` to ``time + step`` (us) and sample its sensors there.

    Arguments and result as of ``move_fleet``; where a vehicle diverged, no sensor is sampled.
    """
    diverged = move_fleet(fleet, time, step, substeps)
    if diverged < 0:
        for i in range(fleet.states.shape[0]):
            sample_vehicle(fleet, i, time + step, step)
    return diverged


@compiled
def _advance_steps(handles: Any, time: int, step: int, substeps: int, count: int) -> tuple[int, int]:
    """Take ``count`` steps; returns how many were taken, and -1 or the vehicle that then diverged."""
    fleet = fleet_of(handles)
    for k in range(count):
        diverged = advance_fleet(fleet, time + k * step, step, substeps)
        if diverged >= 0:
            return k, diverged
    return count, -1


@dataclass(frozen=True)
class VehicleSetup:
    """A vehicle of a simulation as records: its physics, its sensors and its place at the start.

    It has neither airframe file nor flight stack; those are in a ``vehicle.VehicleSpecification``.

    Attributes:
        vehicle: () or (1,) VEHICLE record.
        sensors: (s,) SENSOR, s <= MAX_SENSORS.
        position: m NED, of the ground point below it; down 0 is on the ground or on the terrain there.
        yaw: rad.
        name: part of the seed of its random streams.
    """

    vehicle: NDArray[np.void]
    sensors: NDArray[np.void]
    position: tuple[float, float, float] = (0.0, 0.0, 0.0)
    yaw: float = 0.0
    name: str = "0"


class Simulation:
    """World and vehicles, advanced step by step.

    Args:
        world: the vehicles' world.
        vehicles: their set-ups; their order is that of the first axis of every array here.
        seed: of all random streams.
        step: us between primary inertial samples.
        substeps: integration steps within a step.
        start: us of simulated time at the start.
        proximity: how vehicles act on one another; None for not at all.

    Raises:
        ValueError: for no vehicle, too many sensors, or a step that is not a multiple of the substeps.
        UserError: for a sensor that samples more than once a step, or a vehicle that cannot be integrated
            with this step.
    """

    def __init__(
        self,
        world: World,
        vehicles: Sequence[VehicleSetup],
        *,
        seed: int = 0,
        step: int = 4000,
        substeps: int = 1,
        start: int = START,
        proximity: Proximity | None = None,
    ) -> None:
        if not vehicles:
            raise ValueError("a simulation needs at least one vehicle")
        if substeps < 1 or step < 1 or step % substeps:
            raise ValueError(f"a step of {step} us does not divide into {substeps} substeps")
        n = len(vehicles)
        self.world = world
        self.seed = seed
        self.step = step
        self.substeps = substeps
        self.start = start
        self.time = start
        self.names = tuple(setup.name for setup in vehicles)
        self.vehicles = np.array([setup.vehicle.reshape(()) for setup in vehicles])
        self.states = np.zeros(n, STATE)
        self.controls = np.zeros((n, CONTROLS))
        self.armed = np.zeros(n, np.int64)
        self.wind_states = np.zeros(n, WIND_STATE)
        self.proximity = (proximity or Proximity(collisions=False, downwash=False)).pack()
        self.hulls = np.array([hull(vehicle) for vehicle in self.vehicles])
        self.hulls["order"] = np.arange(n)
        self.touching = np.zeros((n, n), np.uint8)
        self._collisions = np.zeros(REPORTS, COLLISION)
        self._contacts = np.zeros(REPORTS, CONTACT)
        self.sensors = np.zeros((n, MAX_SENSORS), SENSOR)
        self.sensor_states = np.zeros((n, MAX_SENSORS), SENSOR_STATE)
        self._setups = tuple(vehicles)
        self._handles: NDArray[np.int64] | None = None
        self._handled_series = world.wind_series
        self._histories: dict[int, NDArray[np.void]] = {}
        self._shapes_at_start = world.scene.shapes.copy()
        for i, setup in enumerate(vehicles):
            if len(setup.sensors) > MAX_SENSORS:
                raise ValueError(f"vehicle {setup.name}: more than {MAX_SENSORS} sensors")
            refuse_rates_beyond(setup.sensors, step)
            check_law_address(self.vehicles[i])
            self._refuse_unstable(self.vehicles[i], setup.name)
            self.restart_vehicle(i)

    def __len__(self) -> int:
        return len(self.vehicles)

    @property
    def places(self) -> tuple[tuple[str, tuple[float, float, float], float], ...]:
        """Name, position in m NED and yaw in rad of each vehicle at the start."""
        return tuple((setup.name, setup.position, setup.yaw) for setup in self._setups)

    def reset(self, seed: int | None = None, episodes: Sequence[int] | None = None) -> None:
        """Put everything back to the start in place: time, world, vehicles, counters; no array moves.

        Args:
            seed: of all random streams from now on; None keeps the present one.
            episodes: of the vehicles' random streams; None for those of a new simulation, whose bytes follow.
        """
        if seed is not None:
            self.seed = seed
        self.time = self.start
        self.world.set_wind(self.world.specification.wind, self.start)
        self.world.scene.shapes[:] = self._shapes_at_start
        for counter in ("count", "touching", "contact_count"):
            self.proximity[counter] = 0
        self.hulls["order"] = np.arange(len(self))
        self._collisions[:] = np.zeros((), COLLISION)
        self._contacts[:] = np.zeros((), CONTACT)
        for i in range(len(self)):
            self.restart_vehicle(i, 0 if episodes is None else episodes[i])

    def restart_vehicle(self, i: int, episode: int = 0) -> None:
        """Put a vehicle back to its place and state at the start; time does not change.

        Args:
            i: which vehicle.
            episode: number of its random streams; 0 are those of a new simulation with the present ``seed``.
        """
        setup = self._setups[i]
        names = (setup.name,) if episode == 0 else (setup.name, "episode", episode)
        self._replace_vehicle(i, setup.vehicle.reshape(()))
        self.touching[i, :] = self.touching[:, i] = 0
        self.controls[i] = 0.0
        self.armed[i] = 0
        try:
            self.states[i] = start_state(
                self.vehicles[i],
                self.world.environment[0],
                np.asarray(setup.position, float),
                setup.yaw,
                self.world.scene.names,
            )
        except UserError as error:
            raise UserError(f"vehicle {setup.name}: {error}") from error
        if i in self._histories:
            self._begin_history(i)
        self.wind_states[i] = np.zeros((), WIND_STATE)
        self.wind_states[i]["random"] = stream(self.seed, *names, "wind")
        for k, sensor in enumerate(setup.sensors):
            self.sensors[i, k] = sensor
            kind, instance = int(sensor["kind"]), int(sensor["instance"])
            random = stream(self.seed, *names, "sensor", kind, instance)
            self.sensor_states[i, k] = start_sensor(self.sensors[i, k], random, self.time)

    def _replace_vehicle(self, i: int, vehicle: NDArray[np.void]) -> None:
        self.vehicles[i] = vehicle
        order = self.hulls[i]["order"]
        self.hulls[i] = hull(self.vehicles[i])
        self.hulls[i]["order"] = order

    def _refuse_unstable(self, vehicle: NDArray[np.void], name: str) -> None:
        _, _, density = air(self.world.environment[0], 0.0)
        try:
            check_stability(vehicle, density, self.step * 1e-6 / self.substeps)
        except UserError as error:
            raise UserError(f"vehicle {name}: {error}") from error

    def change_vehicle(
        self, i: int, vehicle: NDArray[np.void], sensors: NDArray[np.void], shift: NDArray[np.float64]
    ) -> None:
        """Change a vehicle's mass, inertia and geometry in flight, for example when it drops its payload.

        Every point of the body keeps its place and its velocity; the new centre of gravity moves on as that
        point of the body did.  So a drop at rest causes no jolt beyond the missing weight.

        Args:
            i: index of the vehicle.
            vehicle: () VEHICLE, with as many rotors and contact points as before.
            sensors: (s,) SENSOR, the same sensors; only their positions are used.
            shift: (3,) m, body, of the new centre of gravity from the old one.
        """
        check_law_address(vehicle)
        state = self.states[i]
        w, x, y, z = state["attitude"]
        rotation = np.array(
            [
                [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
                [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
                [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
            ]
        )
        state["position"] += rotation @ shift
        state["velocity"] += rotation @ np.cross(state["angular_velocity"], shift)
        state["clearance"] = 0.0
        self._replace_vehicle(i, vehicle)
        self.sensors[i]["position"][: len(sensors)] = sensors["position"]

    def remember_poses(self, i: int, seconds: float) -> None:
        """Keep the poses of vehicle ``i`` over the last ``seconds`` at least, from now on."""
        length = math.ceil(seconds * 1e6 / self.step) + 2
        if i not in self._histories or len(self._histories[i]) < length:
            self._histories[i] = np.zeros(length, POSE)
            self._begin_history(i)

    def _begin_history(self, i: int) -> None:
        history, state = self._histories[i], self.states[i]
        state["history"], state["history_length"] = history.ctypes.data, len(history)
        state["history_count"] = 1
        inertial = [state[name] for name in ("specific_force", "angular_velocity", "angular_acceleration")]
        history[0] = (self.time, state["position"], state["attitude"], np.concatenate(inertial))

    def poses_of(
        self, i: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Times (k,) in us, positions (k, 3), attitudes (k, 4) and inertial quantities (k, 9), oldest first.

        ``POSE`` and ``remember_poses`` describe them.
        """
        history, count = self._histories[i], int(self.states[i]["history_count"])
        order = np.arange(max(0, count - len(history)), count) % len(history)
        poses = history[order]
        return poses["time"], poses["position"], poses["attitude"], poses["inertial"]

    def spheres_beside(self, i: int) -> NDArray[np.float64]:
        """(k, 4) m: centres NED and radii of the spheres that stand for the other vehicles."""
        found = [np.zeros((0, 4))]
        for k, (hull_of, state) in enumerate(zip(self.hulls, self.states, strict=True)):
            if k != i:
                spheres = hull_of["sphere"][: int(hull_of["sphere_count"])].copy()
                w, x, y, z = state["attitude"]
                # Turn by the quaternion: v + 2 u x (u x v + w v).
                u = np.array([x, y, z])
                spheres[:, :3] += 2.0 * np.cross(u, np.cross(u, spheres[:, :3]) + w * spheres[:, :3])
                spheres[:, :3] += state["position"]
                found.append(spheres)
        return np.concatenate(found)

    @property
    def arrays(self) -> FleetArrays:
        """This simulation's memory; take it anew for each call, for a change of the wind replaces arrays."""
        world = self.world
        return FleetArrays(
            self.vehicles,
            self.states,
            self.controls,
            self.armed,
            world.environment,
            world.wind,
            self.wind_states,
            world.wind_series,
            self.sensors,
            self.sensor_states,
            ProximityArrays(self.proximity, self.hulls, self.touching, self._collisions, self._contacts),
        )

    @property
    def handles(self) -> NDArray[np.int64]:
        """Handles of ``arrays``, for compiled functions; take them anew for each call."""
        if self._handles is None or self._handled_series is not self.world.wind_series:
            self._handled_series = self.world.wind_series
            self._handles = self.arrays.handles()
        return self._handles

    @property
    def collisions(self) -> NDArray[np.void]:
        """(k,) COLLISION, the first REPORTS; ``proximity["count"]`` counts all."""
        return self._collisions[: min(int(self.proximity[0]["count"]), REPORTS)].copy()

    @property
    def contacts(self) -> NDArray[np.void]:
        """(k,) CONTACT with objects of the scene, the first REPORTS; ``proximity["contact_count"]`` counts
        all."""
        return self._contacts[: min(int(self.proximity[0]["contact_count"]), REPORTS)].copy()

    def divergence(self, vehicle: int, time: int) -> UserError:
        """The error for a vehicle whose motion diverged in the step that began at ``time`` (us).

        Raises:
            UserError: at once, if a user's own wind failed in that step.
        """
        self.world.refuse_failed_wind()
        seconds = (time - self.start) * 1e-6
        return UserError(
            f"vehicle {self.names[vehicle]}: its motion diverged at {seconds:.3f} s of simulated time, where"
            " the run ends; check its airframe for a figure in a wrong unit, and the forces that acted on it"
        )

    def advance(self, steps: int = 1) -> None:
        """Advance by ``steps`` steps with the present ``controls`` and ``armed``.

        Raises:
            UserError: if a vehicle's motion diverges; ``time`` is then the start of that step.
        """
        taken, diverged = _advance_steps(self.handles, self.time, self.step, self.substeps, steps)
        self.time += taken * self.step
        if diverged >= 0:
            raise self.divergence(diverged, self.time)
