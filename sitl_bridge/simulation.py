"""The pure core: a world and n vehicles with their sensors.  No I/O, no clock, no global state.

``advance`` is one compiled call for all vehicles: wind, motors, forces, integration, sensors.  The link
layer calls the same kernel from its own compiled loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.dynamics.custom_rotor import refuse_foreign_law
from sitl_bridge.dynamics.proximity import COLLISION, REPORTS, Proximity, hull, interact
from sitl_bridge.dynamics.records import MAX_ROTORS, STATE
from sitl_bridge.dynamics.stability import refuse_what_cannot_be_integrated
from sitl_bridge.dynamics.step import advance_vehicle, initial_state
from sitl_bridge.errors import UserError
from sitl_bridge.kernels.compiled import compiled
from sitl_bridge.kernels.random_streams import stream
from sitl_bridge.sensors.records import MAX_SENSORS, SENSOR, SENSOR_STATE
from sitl_bridge.sensors.sample import refuse_rates_beyond, sample_sensors, start_sensor
from sitl_bridge.world.atmosphere import air
from sitl_bridge.world.records import START, WIND_STATE
from sitl_bridge.world.wind import wind_velocity

if TYPE_CHECKING:
    from sitl_bridge.world.world import World

CONTROLS = 16
"""Actuator channels a vehicle, as in HIL_ACTUATOR_CONTROLS."""


BEYOND = 1e9
"""m, m/s and rad/s added up.  No vehicle reaches that: a state that does, or is no number, has diverged."""


@compiled
def has_diverged(state: Any) -> bool:
    """Whether a state is no longer that of a vehicle."""
    total = 0.0
    for i in range(3):
        total += abs(state.position[i]) + abs(state.velocity[i]) + abs(state.angular_velocity[i])
    for i in range(4):
        total += abs(state.attitude[i])
    for k in range(MAX_ROTORS):
        total += abs(state.rotor_speed[k])
    return not total < BEYOND


@compiled
def advance_fleet(
    vehicles: Any,
    states: Any,
    controls: Any,
    armed: Any,
    environment: Any,
    wind: Any,
    wind_states: Any,
    wind_series: Any,
    sensors: Any,
    sensor_states: Any,
    proximity: Any,
    hulls: Any,
    touching: Any,
    collisions: Any,
    time: int,
    step: int,
    substeps: int,
) -> int:
    """Advance every vehicle from ``time`` to ``time + step`` (us) and sample its sensors there.

    A vehicle depends on others only by what ``proximity`` switches on; without, its bytes are the same alone
    or among others.

    Args:
        vehicles: (n,) VEHICLE.
        states: (n,) STATE.
        controls: (n, 16) actuator commands, held over the step.
        armed: (n,) 0 or 1.
        environment: (1,) ENVIRONMENT.
        wind: (1,) WIND.
        wind_states: (n,) WIND_STATE.
        wind_series: (k, 4) time in s and wind NED in m/s; k = 0 where there is none.
        sensors: (n, MAX_SENSORS) SENSOR.
        sensor_states: (n, MAX_SENSORS) SENSOR_STATE.
        proximity: (1,) PROXIMITY, and so on to ``collisions`` as for ``interact``.
        hulls: (n,) HULL.
        touching: (n, n) uint8.
        collisions: (k,) COLLISION.
        time: us at the start of the step.
        step: us.
        substeps: integration steps within the step.

    Returns:
        -1; or the first vehicle whose motion has diverged, at which the step was broken off.
    """
    seconds = step * 1e-6
    if vehicles.shape[0] > 1 and (proximity[0].collisions != 0 or proximity[0].downwash != 0):
        interact(proximity, hulls, touching, collisions, vehicles, states, environment[0], time, seconds)
    for i in range(vehicles.shape[0]):
        state = states[i]
        north, east, down = wind_velocity(wind[0], wind_states[i], wind_series, state, time, seconds)
        state.wind[0] = north + state.neighbour_air[0]
        state.wind[1] = east + state.neighbour_air[1]
        state.wind[2] = down + state.neighbour_air[2]
        advance_vehicle(vehicles[i], state, controls[i], armed[i], environment[0], seconds, substeps)
        if has_diverged(state):
            return i
        sample_sensors(vehicles[i], state, environment[0], sensors[i], sensor_states[i], time + step, step)
    return -1


@dataclass(frozen=True)
class VehicleSetup:
    """One vehicle of a simulation: its physics, its sensors and where it stands at the start.

    Attributes:
        vehicle: () or (1,) VEHICLE record.
        sensors: (s,) SENSOR, s <= MAX_SENSORS.
        position: m NED of the point on the ground it stands on.
        yaw: rad.
        name: names its random streams.
    """

    vehicle: NDArray[np.void]
    sensors: NDArray[np.void]
    position: tuple[float, float, float] = (0.0, 0.0, 0.0)
    yaw: float = 0.0
    name: str = "0"


class Simulation:
    """World and vehicles, advanced step by step.

    Args:
        world: where the vehicles fly.
        vehicles: their set-ups; the order fixes the first axis of every array here.
        seed: of all random streams.
        step: us between primary inertial samples.
        substeps: integration steps within a step.
        start: us of simulated time at the start.
        proximity: what vehicles do to one another; None for nothing.

    Raises:
        ValueError: for no vehicle, too many sensors, or a step the substeps do not divide.
        UserError: for a sensor that would have to sample more than once a step, or a vehicle that cannot be
            integrated with that step.
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
        self.sensors = np.zeros((n, MAX_SENSORS), SENSOR)
        self.sensor_states = np.zeros((n, MAX_SENSORS), SENSOR_STATE)
        self._setups = tuple(vehicles)
        for i, setup in enumerate(vehicles):
            if len(setup.sensors) > MAX_SENSORS:
                raise ValueError(f"vehicle {setup.name}: more than {MAX_SENSORS} sensors")
            refuse_rates_beyond(setup.sensors, step)
            refuse_foreign_law(self.vehicles[i])
            self._refuse_stiff(self.vehicles[i], setup.name)
            self.restart_vehicle(i)

    def __len__(self) -> int:
        return len(self.vehicles)

    def restart_vehicle(self, i: int, episode: int = 0) -> None:
        """Put a vehicle back to where and how it stood at the start; time stays what it is.

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
        self.states[i] = initial_state(
            self.vehicles[i], self.world.environment[0], np.asarray(setup.position, float), setup.yaw
        )
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

    def _refuse_stiff(self, vehicle: NDArray[np.void], name: str) -> None:
        _, _, density = air(self.world.environment[0], 0.0)
        try:
            refuse_what_cannot_be_integrated(vehicle, density, self.step * 1e-6 / self.substeps)
        except UserError as error:
            raise UserError(f"vehicle {name}: {error}") from error

    def change_vehicle(
        self, i: int, vehicle: NDArray[np.void], sensors: NDArray[np.void], shift: NDArray[np.float64]
    ) -> None:
        """Make a vehicle another one in flight, as when it drops its payload.

        What is fixed to it keeps its place and its velocity; the new centre of gravity moves as that point of
        the body did, so a drop at rest gives no jolt but by the weight that is gone.

        Args:
            i: which vehicle.
            vehicle: () VEHICLE, with as many rotors and contact points as before.
            sensors: (s,) SENSOR, the same ones; their places are taken over.
            shift: (3,) m, body, of the new centre of gravity from the old one.
        """
        refuse_foreign_law(vehicle)
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
        self._replace_vehicle(i, vehicle)
        self.sensors[i]["position"][: len(sensors)] = sensors["position"]

    @property
    def neighbourhood(self) -> tuple[NDArray[np.void], NDArray[np.void], NDArray[np.uint8], NDArray[np.void]]:
        """What ``advance_fleet`` takes from ``proximity`` to ``collisions``."""
        return self.proximity, self.hulls, self.touching, self._collisions

    @property
    def collisions(self) -> NDArray[np.void]:
        """(k,) COLLISION so far, of at most REPORTS; ``proximity["count"]`` counts all."""
        return self._collisions[: min(int(self.proximity[0]["count"]), REPORTS)].copy()

    def divergence(self, vehicle: int, time: int) -> UserError:
        """What to raise where a vehicle's motion diverged in the step that began at a time in us.

        Raises:
            UserError: at once, for a wind of the user's own that failed in that step.
        """
        self.world.refuse_failed_wind()
        seconds = (time - self.start) * 1e-6
        return UserError(
            f"vehicle {self.names[vehicle]}: its motion diverged at {seconds:.3f} s of simulated time, where"
            " the run ends; look for a figure in another unit in its airframe and at what pushed it"
        )

    def advance(self, steps: int = 1) -> None:
        """Advance by ``steps`` steps with the present ``controls`` and ``armed``.

        Raises:
            UserError: for a vehicle whose motion diverges; time stays at the step's start.
        """
        world = self.world
        for _ in range(steps):
            diverged = advance_fleet(
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
                *self.neighbourhood,
                self.time,
                self.step,
                self.substeps,
            )
            if diverged >= 0:
                raise self.divergence(diverged, self.time)
            self.time += self.step
