"""The pure core: a world and n vehicles with their sensors.  No I/O, no clock, no global state.

``advance`` is one compiled call for all vehicles: interaction, wind, motors, forces, integration, sensors.
The lockstep loop (hil/) and the built-in flight stacks (autopilot/) take the same step in their own loops.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NoReturn, Protocol, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike

from sitl_bridge.base.arrays import Floats, Ints, Records
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.kernels.array_at import handles_of
from sitl_bridge.base.kernels.compiled import prepare
from sitl_bridge.base.kernels.random_streams import distinct_names, stream
from sitl_bridge.base.kernels.record import zeros_in_lines
from sitl_bridge.base.kernels.thread_blocks import cut, run_blocks, thread_count
from sitl_bridge.base.rotations import matrix_from_quaternion
from sitl_bridge.core.dynamics.forces import with_surfaces
from sitl_bridge.core.dynamics.induced_flow import add_pitching_moments
from sitl_bridge.core.dynamics.proximity import (
    COLLISION,
    CONTACT,
    HULL,
    REPORTS,
    Proximity,
    ProximityArrays,
    VehicleContact,
    hull,
    interact,
)
from sitl_bridge.core.dynamics.records import INDUCED_LAW, STATE, SURFACES, VEHICLE
from sitl_bridge.core.dynamics.rotor import check_addresses
from sitl_bridge.core.dynamics.scene_contact import find_surfaces, update_surfaces
from sitl_bridge.core.dynamics.scene_start import start_state
from sitl_bridge.core.dynamics.stability import check_stability
from sitl_bridge.core.dynamics.step import settle_flow, step_vehicle
from sitl_bridge.core.dynamics.vibration import turn_phases, vibration
from sitl_bridge.core.sensors.ranging import (
    OPTICAL_FLOW,
    RANGE_FINDER,
    integrate_flow,
    sample_optical_flow,
    sample_range_finder,
)
from sitl_bridge.core.sensors.records import MAX_SENSORS, NONE, SENSOR, SENSOR_STATE
from sitl_bridge.core.sensors.sample import sample_sensors, start_sensor, validate_rates
from sitl_bridge.core.simulation.fleet_step import HISTORY, POSE, FleetArrays, advance_block, advance_steps
from sitl_bridge.core.world.atmosphere import air
from sitl_bridge.core.world.nearest_surface import distance_to_shape
from sitl_bridge.core.world.ray_casting import cast_ray, ray_shape
from sitl_bridge.core.world.records import START, WIND_STATE
from sitl_bridge.core.world.turbulence import episode_shift, turbulence, turbulence_field

if TYPE_CHECKING:
    from sitl_bridge.core.vehicle.airframe import Airframe
    from sitl_bridge.core.world.world import World

LEAST_BLOCK = 32
"""Vehicles of a block; starting a thread costs about as much as a step of so many."""
CONTROLS = 16
"""Actuator channels of a vehicle, as in HIL_ACTUATOR_CONTROLS."""
MOTION = ("position", "velocity", "attitude", "angular_velocity")
"""Fields of STATE that are a body's motion."""
_SUPPLY = 1e9
"""A s of a pack whose charge does not change while its voltage is given."""


@dataclass(frozen=True)
class VehicleSetup:
    """A vehicle of a simulation as records: its physics, its sensors and its place at the start.

    It has neither airframe file nor flight stack; those are in a ``VehicleSpecification``.
    """

    vehicle: Records  # () or (1,) VEHICLE record
    sensors: Records  # (s,) SENSOR, s <= MAX_SENSORS
    # m NED, of the ground point below it; down 0 is on the ground or on the terrain there
    position: tuple[float, float, float] = (0.0, 0.0, 0.0)
    yaw: float = 0.0  # rad
    name: str = ""  # part of the seed of its random streams; by default its number
    airframe: Airframe | None = None  # of which it was made; events such as the drop of its payload need it

    @classmethod
    def from_airframe(
        cls,
        airframe: Airframe,
        position: tuple[float, float, float] = (0.0, 0.0, 0.0),
        yaw: float = 0.0,
        name: str = "",
    ) -> VehicleSetup:
        """A vehicle of an airframe, with its sensors; arguments as the attributes."""
        return cls(
            airframe.vehicle(), airframe.sensor_records(), position, yaw, name, airframe.include_payload()
        )

    @classmethod
    def of_fleet(
        cls,
        airframes: Sequence[Airframe],
        positions: Iterable[tuple[float, float, float]],
        yaws: Iterable[float],
        names: Iterable[str],
    ) -> list[VehicleSetup]:
        """Vehicles as by ``from_airframe``; those of one airframe share their records."""
        made = {key: cls.from_airframe(one) for key, one in {id(one): one for one in airframes}.items()}
        return [
            replace(made[id(one)], position=position, yaw=yaw, name=name)
            for one, position, yaw, name in zip(airframes, positions, yaws, names, strict=True)
        ]


class Fault(Protocol):
    """Fault that has begun and may end; a protocol, as events import this module."""

    @property
    def part(self) -> tuple[str | int, ...]:
        """Part that breaks."""

    def begin(self, simulation: Simulation, vehicle: int) -> None:
        """Break it."""


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
        threads: that share vehicles which do not; None for ``SITL_BRIDGE_THREADS``, else all cores.  Their
            number changes no byte.

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
        threads: int | None = None,
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
        self.threads = thread_count(threads)
        self.start = start
        self.time = start
        self.names = distinct_names(setup.name for setup in vehicles)
        self.vehicles = zeros_in_lines(n, VEHICLE)
        for i, setup in enumerate(vehicles):
            self.vehicles[i] = setup.vehicle.reshape(())
        self._resistances = self.vehicles["battery_resistance"].copy()
        self.states = zeros_in_lines(n, STATE)
        self.surfaces = np.zeros(n, SURFACES)
        self.controls = np.zeros((n, CONTROLS))
        self.dead_steps = np.rint(self.vehicles["motor_dead_time"] * 1e6 / step).astype(np.int64)
        self.late_controls = np.zeros((n, self.dead_steps.max() + 1, CONTROLS))
        self.armed = np.zeros(n, np.int64)
        self.turbulence = turbulence_field(stream(seed, "turbulence"))
        self.wind_states = np.zeros(n, WIND_STATE)
        self.proximity = (proximity or Proximity(collisions=False, downwash=False)).pack()
        self.hulls = np.zeros(n, HULL)
        self.hulls["order"] = np.arange(n)
        self.touching = np.zeros((n, n), np.uint8)
        self._collisions = np.zeros(REPORTS, COLLISION)
        self._contacts = np.zeros(REPORTS, CONTACT)
        self.sensors = np.zeros((n, MAX_SENSORS), SENSOR)
        self.sensor_states = np.zeros((n, MAX_SENSORS), SENSOR_STATE)
        self._setups = tuple(vehicles)
        self.airframes = [setup.airframe for setup in vehicles]
        """Airframes of the vehicles now: one that has dropped its payload is the empty one."""
        self.faults: list[list[Fault]] = [[] for _ in vehicles]
        """``PassingEvent``s of each vehicle that have begun and not ended, in their order."""
        self._handles: Ints | None = None
        self._handled_series = world.wind_series
        self._histories: dict[int, Records] = {}
        self._rings = np.zeros(n, HISTORY)
        self._shapes_at_start = world.scene.shapes.copy()
        checked = set()
        for i, setup in enumerate(vehicles):
            if len(setup.sensors) > MAX_SENSORS:
                raise ValueError(f"vehicle {self.names[i]}: more than {MAX_SENSORS} sensors")
            validate_rates(setup.sensors, step)
            if id(setup.vehicle) not in checked:
                check_addresses(self.vehicles[i])
                self._validate_stability(self.vehicles[i], self.names[i])
                checked.add(id(setup.vehicle))
            self.restart_vehicle(i)
        prepare(*self._needed_on_demand())

    def _needed_on_demand(self) -> list[Callable[..., object]]:
        """Functions of ``on_demand`` that this simulation needs from its first steps on."""
        vehicles, wind, kinds = self.vehicles, self.world.wind[0], self.sensors["kind"]
        induced = vehicles["rotor_law"] == INDUCED_LAW
        needs: dict[Callable[..., object], ArrayLike] = {
            step_vehicle: True,
            sample_sensors: kinds != NONE,
            add_pitching_moments: induced & (vehicles["uneven_inflow"] != 0),
            vibration: vehicles["vibration"],
            turn_phases: vehicles["vibration"],
            sample_range_finder: kinds == RANGE_FINDER,
            integrate_flow: kinds == OPTICAL_FLOW,
            sample_optical_flow: kinds == OPTICAL_FLOW,
            turbulence: wind["dryden_speed_20ft"],
            **dict.fromkeys(
                (ray_shape, cast_ray, distance_to_shape, find_surfaces, with_surfaces, update_surfaces),
                len(self.world.scene.shapes),
            ),
            interact: len(self) > 1 and (self.proximity["collisions"] | self.proximity["downwash"]),
        }
        return [kernel for kernel, need in needs.items() if np.any(need)]

    @property
    def most_rotors(self) -> int:
        """Rotors of the vehicle that has most."""
        return int(self.vehicles["rotor_count"].max())

    def __len__(self) -> int:
        return len(self.vehicles)

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        """Refuse to be copied or pickled: a copy would share the addresses of the arrays.

        Raises:
            UserError: always.
        """
        raise UserError(
            f"vehicles that are simulated cannot be copied or pickled ({type(self).__name__}); make others"
            " with the same arguments: with the same seed they do the same"
        )

    @property
    def places(self) -> tuple[tuple[str, tuple[float, float, float], float], ...]:
        """Name, position in m NED and yaw in rad of each vehicle at the start."""
        return tuple((n, s.position, s.yaw) for n, s in zip(self.names, self._setups, strict=True))

    def reset(self, seed: int | None = None, episodes: Sequence[int] | None = None) -> None:
        """Put everything back to the start in place: time, world, vehicles, counters; no array moves.

        Args:
            seed: of all random streams from now on; None keeps the present one.
            episodes: of the vehicles' random streams; None for those of a new simulation, whose bytes follow.
        """
        if seed is not None:
            self.seed = seed
        self.time = self.start
        self.turbulence[:] = turbulence_field(stream(self.seed, "turbulence"))
        self.wind_states["carried"] = 0.0
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
        setup, name = self._setups[i], self.names[i]
        names = (name,) if episode == 0 else (name, "episode", episode)
        self.airframes[i] = setup.airframe
        self.faults[i].clear()
        shift = self._replace_vehicle(i, setup.vehicle.reshape(()))
        self.touching[i, :] = self.touching[:, i] = 0
        self.controls[i] = self.late_controls[i] = 0.0
        self.armed[i] = 0
        try:
            self.states[i], self.surfaces[i] = start_state(
                self.vehicles[i],
                self.world.environment[0],
                np.asarray(setup.position, float),
                setup.yaw,
                self.world.scene.names,
            )
        except UserError as error:
            raise UserError(f"vehicle {name}: {error}") from error
        if self.vehicles[i]["turbulence"] > 0.0:
            self.states[i]["buffet_random"] = stream(self.seed, *names, "buffet")
        if i in self._histories:
            self._begin_history(i)
        self.wind_states[i]["shift"] = episode_shift(episode, stream(self.seed, "turbulence", episode))
        for k, sensor in enumerate(setup.sensors):
            self.sensors[i, k] = sensor
            self.sensors[i, k]["position"] -= shift
            kind, instance = int(sensor["kind"]), int(sensor["instance"])
            random = stream(self.seed, *names, "sensor", kind, instance)
            self.sensor_states[i, k] = start_sensor(self.sensors[i, k], random, self.time)

    def _replace_vehicle(self, i: int, vehicle: Records) -> Floats:
        """Returns (3,) m, body, by which the centre of gravity of the vehicle as built is off."""
        airframe, shift = self._setups[i].airframe, np.zeros(3)
        if airframe is not None and airframe.tolerances is not None:
            words = stream(self.seed, self.names[i], "tolerances")
            vehicle, shift = airframe.tolerances.build(vehicle, np.random.default_rng(words))
        self.vehicles[i] = vehicle
        order = self.hulls[i]["order"]
        self.hulls[i] = hull(self.vehicles[i])
        self.hulls[i]["order"] = order
        return shift

    def _validate_stability(self, vehicle: Records, name: str) -> None:
        _, _, density = air(self.world.environment[0], 0.0)
        try:
            check_stability(vehicle, density, self.step * 1e-6 / self.substeps)
        except UserError as error:
            raise UserError(f"vehicle {name}: {error}") from error

    def change_vehicle(self, i: int, vehicle: Records, sensors: Records, shift: Floats) -> None:
        """Change a vehicle's mass, inertia and geometry in flight, for example when it drops its payload.

        Every point of the body keeps its place and its velocity; the new centre of gravity moves on as that
        point of the body did.  So a drop at rest causes no jolt beyond the missing weight.

        Args:
            i: index of the vehicle.
            vehicle: () VEHICLE, with as many rotors and contact points as before.
            sensors: (s,) SENSOR, the same sensors; only their positions are used.
            shift: (3,) m, body, of the new centre of gravity from the old one.
        """
        check_addresses(vehicle)
        state = self.states[i]
        rotation = matrix_from_quaternion(state["attitude"])
        state["position"] += rotation @ shift
        state["velocity"] += rotation @ np.cross(state["angular_velocity"], shift)
        self.surfaces[i]["clearance"] = 0.0
        built = self._replace_vehicle(i, vehicle)
        self.sensors[i]["position"][: len(sensors)] = sensors["position"] - built

    def put_in_flight(self, i: Ints, **values: Floats) -> None:
        """Put vehicles into a state of flight, with the flow that their rotors induce settled.

        Args:
            i: (k,) which vehicles.
            values: (k, c) of fields of STATE: the motion, ``rotor_speed``; fields without a value stay.
        """
        states: Records = self.states
        for name, value in values.items():
            states[name][i, : value.shape[1]] = value
        states["in_contact"][i] = states["contact_touching"][i] = states["rest_steps"][i] = 0
        self.surfaces["clearance"][i] = 0.0
        some, around = states[i], self.surfaces[i]
        self.late_controls[i] = self.controls[i][:, None]
        settle_flow(self.vehicles[i], some, around, self.world.environment, self.controls[i])
        states[i], self.surfaces[i] = some, around
        for k in self._histories.keys() & set(i.tolist()):
            self._begin_history(k)

    def supply(self, voltage: Floats, current: Floats) -> None:
        """Let the motors run at measured voltages, in place of the packs', until the next call or restart.

        Args:
            voltage: (n,) V at the terminals; nan for the nominal one.
            current: (n,) A at which it was measured: the voltage then follows the simulated current by the
                pack's resistance.  nan: it does not.
        """
        vehicles, states, known = self.vehicles, self.states, np.isfinite(voltage)
        resistance = np.where(np.isfinite(current), self._resistances, 0.0)
        voltage = np.where(known, voltage, vehicles["battery_nominal_voltage"])
        source = voltage + resistance * np.nan_to_num(current)
        vehicles["battery_resistance"], vehicles["battery_slow_resistance"] = resistance, 0.0
        vehicles["battery_ocv"] = (source / vehicles["battery_cells"])[:, None]
        vehicles["battery_capacity"] = np.where(known, _SUPPLY, math.inf)
        states["battery_charge"], states["battery_slow_voltage"] = vehicles["battery_capacity"], 0.0
        states["battery_voltage"] = voltage

    def advance_held(self) -> None:
        """Advance by a step in which the bodies are held: rotors, flow and battery alone go on."""
        held = {name: self.states[name].copy() for name in MOTION}
        self.advance()
        for name, value in held.items():
            self.states[name] = value

    def remember_poses(self, i: int, seconds: float) -> None:
        """Keep the poses of vehicle ``i`` over the last ``seconds`` at least, from now on."""
        length = math.ceil(seconds * 1e6 / self.step) + 2
        if i not in self._histories or len(self._histories[i]) < length:
            self._histories[i] = np.zeros(length, POSE)
            self._begin_history(i)

    def _begin_history(self, i: int) -> None:
        history, state = self._histories[i], self.states[i]
        self._rings[i] = (history.ctypes.data, len(history), 1)
        inertial = [state[name] for name in ("specific_force", "angular_velocity", "angular_acceleration")]
        history[0] = (self.time, state["position"], state["attitude"], np.concatenate(inertial))

    def poses_of(self, i: int) -> tuple[Ints, Floats, Floats, Floats]:
        """Times (k,) in us, positions (k, 3), attitudes (k, 4) and inertial quantities (k, 9), oldest first.

        ``POSE`` and ``remember_poses`` describe them.
        """
        history, count = self._histories[i], int(self._rings[i]["count"])
        order = np.arange(max(0, count - len(history)), count) % len(history)
        poses = history[order]
        return poses["time"], poses["position"], poses["attitude"], poses["inertial"]

    @property
    def arrays(self) -> FleetArrays:
        """This simulation's memory; take it anew for each call, for a change of the wind replaces arrays."""
        world = self.world
        return FleetArrays(
            self.vehicles,
            self.states,
            self.surfaces,
            self.controls,
            self.late_controls,
            self.dead_steps,
            self.armed,
            world.environment,
            world.wind,
            self.turbulence,
            self.wind_states,
            world.wind_series,
            self.sensors,
            self.sensor_states,
            self._rings,
            ProximityArrays(self.proximity, self.hulls, self.touching, self._collisions, self._contacts),
        )

    @property
    def handles(self) -> Ints:
        """Handles of ``arrays``, for compiled functions; take them anew for each call."""
        if self._handles is None or self._handled_series is not self.world.wind_series:
            self._handled_series = self.world.wind_series
            self._handles = handles_of(self.arrays)
        return self._handles

    @property
    def collisions(self) -> Records:
        """(k,) COLLISION, the first REPORTS; ``proximity["count"]`` counts all."""
        return self._collisions[: min(int(self.proximity[0]["count"]), REPORTS)].copy()

    @property
    def contacts(self) -> Records:
        """(k,) CONTACT with objects of the scene, the first REPORTS; ``proximity["contact_count"]`` counts
        all."""
        return self._contacts[: min(int(self.proximity[0]["contact_count"]), REPORTS)].copy()

    def named_contacts(self, start: int = 0) -> list[VehicleContact]:
        """``contacts`` in order of time, which is in s since ``start`` (us)."""
        found = []
        for row in self.contacts:
            vehicle, part = self.names[int(row["vehicle"])], int(row["part"])
            which = "body" if part == 0 else f"rotor {part}" if part > 0 else f"contact point {-part}"
            time, thing = (int(row["time"]) - start) * 1e-6, self.world.scene.names[int(row["object"])]
            north, east, down = row["position"].tolist()
            found.append(
                VehicleContact(time, vehicle, thing, which, float(row["speed"]), (north, east, down))
            )
        return found

    def divergence(self, vehicle: int, time: int) -> UserError:
        """The error for a vehicle whose motion diverged in the step that began at ``time`` (us).

        Raises:
            UserError: at once, if a user's own wind failed in that step.
        """
        self.world.raise_wind_failure()
        seconds = (time - self.start) * 1e-6
        law = self.vehicles["rotor_law_address"][vehicle] != 0
        checked = "its rotor law for an error or a result that is not finite, " if law else ""
        return UserError(
            f"vehicle {self.names[vehicle]}: its motion diverged at {seconds:.3f} s of simulated time, where"
            f" the run ends; check {checked}its airframe for a figure in a wrong unit, and the forces that"
            " acted on it"
        )

    def advance(self, steps: int = 1) -> None:
        """Advance by ``steps`` steps with the present ``controls`` and ``armed``.

        Raises:
            UserError: if a vehicle's motion diverges; ``time`` is then the start of that step.
        """
        if self.independent and len(self) > 1:
            handles, step, substeps = self.handles, self.step, self.substeps
            taken, diverged = self.in_blocks(
                lambda first, last: advance_block(handles, first, last, self.time, step, substeps, steps)
            )
        else:
            taken, diverged = advance_steps(self.handles, self.time, self.step, self.substeps, steps)
        self.time += taken * self.step
        if diverged >= 0:
            raise self.divergence(diverged, self.time)

    @property
    def independent(self) -> bool:
        """Whether no vehicle acts on another, or on anything that they share, so that each may fly alone."""
        proximity, world = self.proximity[0], self.world
        alone = len(self) == 1 or not (proximity["collisions"] or proximity["downwash"])
        return bool(alone and not len(world.scene.shapes) and not world.wind[0]["custom"])

    def in_blocks(self, advance: Callable[[int, int], tuple[int, int]]) -> tuple[int, int]:
        """Advance independent vehicles in blocks, several at once where there are threads for it.

        Args:
            advance: takes a block's first and last + 1 vehicle; returns how many steps were taken, and -1 or
                the vehicle that diverged in the next.

        Returns:
            the same of all vehicles.
        """
        blocks = cut(len(self), self.threads, LEAST_BLOCK)
        found = run_blocks(lambda _, first, last: advance(first, last), blocks, self.threads)
        taken = min(taken for taken, _ in found)
        return taken, next((who for steps, who in found if who >= 0 and steps == taken), -1)
