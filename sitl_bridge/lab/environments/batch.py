"""n vehicles that are stepped by actions: their memory, reset and step.  Neither rewards nor spaces."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.api.compiling import compilation_shown
from sitl_bridge.api.world_choice import WorldChoice, world_of
from sitl_bridge.autopilot.control.allocation import allocation_record
from sitl_bridge.autopilot.control.gains import controller_record
from sitl_bridge.autopilot.control.records import CONTROLLER
from sitl_bridge.autopilot.records import ESTIMATE, SETPOINT, WRENCH
from sitl_bridge.base.arrays import Floats, Mask, Records, Singles
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.json_data import JsonObject
from sitl_bridge.base.kernels.array_at import Uncopied, handles_of
from sitl_bridge.base.kernels.random_streams import stream
from sitl_bridge.base.kernels.thread_blocks import BLOCKS_PER_THREAD, cut, run_blocks, thread_count
from sitl_bridge.core.dynamics.performance import hover
from sitl_bridge.core.dynamics.proximity import Proximity
from sitl_bridge.core.dynamics.records import EULER, INDUCED_LAW, RUNGE_KUTTA, STATE
from sitl_bridge.core.sensors.gps import GPS
from sitl_bridge.core.sensors.records import SENSOR_STATE
from sitl_bridge.core.sensors.registry import KIND_NAMES, KINDS
from sitl_bridge.core.simulation.simulation import Simulation, VehicleSetup
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.world.atmosphere import air
from sitl_bridge.core.world.earth import curvatures
from sitl_bridge.core.world.records import WIND_STATE
from sitl_bridge.lab.environments.batch_step import (
    BatchArrays,
    fly_block,
    fly_together,
    observe_batch,
    reset_batch,
)
from sitl_bridge.lab.environments.records import (
    BATCH,
    COLLIDED,
    DIVERGED,
    EPISODE,
    MOTORS,
    ON_GROUND,
    RESET,
    SLOT,
    TRUTH_SIZE,
)
from sitl_bridge.lab.environments.spaces import ActionLevel
from sitl_bridge.lab.environments.tasks import Task, VehicleMotion, prepared

Range: TypeAlias = tuple[float, float]
"""Least and greatest value of a uniform distribution."""
Point: TypeAlias = tuple[float, float, float]

_FACTORS = ("mass", "inertia", "rotor", "motor", "drag")


@dataclass(frozen=True, kw_only=True)
class Randomisation:
    """Distributions of a reset; each sub-environment draws from its own random stream.

    The built-in controllers keep the gains of the airframe as its file describes it.

    Attributes:
        mass: factor on the mass; the inertia follows.
        inertia: further factor on the inertia.
        rotor: factor on thrust and torque of each rotor, drawn for each.
        motor: factor on the motors' time constants.
        drag: factor on the body's drag.
        noise: factor on noise and biases of all sensors, which are themselves drawn anew at each reset.
        wind: m/s, steady and horizontal, from any direction; adds to that of the world.
        turbulence: m/s, wind at 20 ft that sets the intensity of Dryden turbulence; adds likewise.
        position: m NED, lowest and highest corner of the box around the start.
        yaw: rad, heading at the start.
        speed: m/s, largest velocity at the start along each axis.
        tilt: rad, largest tilt at the start.
        rate: rad/s, largest angular velocity at the start about each axis.

    Raises:
        UserError: for a range that ends before it begins, a factor of 0 or less, or a negative magnitude.
    """

    mass: Range = (1.0, 1.0)
    inertia: Range = (1.0, 1.0)
    rotor: Range = (1.0, 1.0)
    motor: Range = (1.0, 1.0)
    drag: Range = (1.0, 1.0)
    noise: Range = (1.0, 1.0)
    wind: Range = (0.0, 0.0)
    turbulence: Range = (0.0, 0.0)
    position: tuple[Point, Point] = ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
    yaw: Range = (0.0, 0.0)
    speed: float = 0.0
    tilt: float = 0.0
    rate: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = np.asarray(getattr(self, field.name), dtype=np.float64)
            where = f"randomisation: {field.name}: {getattr(self, field.name)!r}"
            expected = {"position": (2, 3), "speed": (), "tilt": (), "rate": ()}.get(field.name, (2,))
            if value.shape != expected or not np.isfinite(value).all():
                raise UserError(f"{where} must be {'a finite number' if not expected else 'finite limits'}")
            if expected and bool((value[0] > value[1]).any()):
                raise UserError(f"{where} ends before it begins")
            least = float(value.min())
            if field.name in _FACTORS and least <= 0.0:
                raise UserError(f"{where} must be above 0")
            if field.name not in (*_FACTORS, "position", "yaw") and least < 0.0:
                raise UserError(f"{where} must not be negative")
        if self.tilt > math.pi:
            raise UserError(f"randomisation: tilt: {self.tilt:g} rad is more than half a turn")

    @property
    def moves_air(self) -> bool:
        """Whether the air of the episodes moves, beyond that of the world."""
        return tuple(self.wind) != (0.0, 0.0) or tuple(self.turbulence) != (0.0, 0.0)

    @property
    def varies_rotors(self) -> bool:
        """Whether the rotors of an episode differ from those of the airframe."""
        return tuple(self.rotor) != (1.0, 1.0)

    @property
    def varies(self) -> bool:
        """Whether airframe, air or errors of the sensors differ from episode to episode."""
        return self.moves_air or any(
            tuple(getattr(self, name)) != (1.0, 1.0) for name in (*_FACTORS, "noise")
        )

    def pack(self) -> Records:
        """(1,) RESET."""
        record = np.zeros(1, RESET)
        for field in fields(self):
            record[0][field.name] = getattr(self, field.name)
        return record


LEAST_BLOCK = 64
"""Vehicles of a block; starting a thread costs about as much as flying so many for a step."""
MAX_TILT = math.radians(45.0)
"""Of a velocity setpoint, PX4's MPC_TILTMAX_AIR."""
SEEN = {
    "imu": ("specific_force", "angular_velocity"),
    "magnetometer": ("field",),
    "barometer": ("pressure_altitude",),
    "gps": ("latitude", "velocity"),
}
"""Figures of an observation by sensors; ``latitude`` stands for the position."""
INTEGRATORS = {"runge_kutta": RUNGE_KUTTA, "euler": EULER}
"""Euler takes one evaluation of the forces a step in free air instead of five; its error is of first
order."""
FACTORS = {"field": 1e6}
"""A field is seen in microtesla."""
CHANGING = tuple(CONTROLLER.fields[name][1] // 8 for name in ("level", "flow_ratio"))  # type: ignore[index]
"""First word of a CONTROLLER that changes, and the first behind it that is scratch within a step."""
NOTHING_SEEN = np.zeros((0, 0), np.float32)
"""In place of observations."""


class VehicleBatch(Uncopied):
    """The vehicles of a vector environment.

    Args:
        airframe: of all.
        level: of the actions.
        task: that is prepared for the starts, and says their height; at 0 they stand on the ground.
        places: (n, 3) m NED of the starts, beside the height.
        world: where each flies, alone unless ``proximity`` is given; None for calm air over level ground.
        randomisation: of the resets; None for none.
        period: s between actions, whole steps.
        step: s of an integration step.
        with_sensors: whether sensors are sampled and seen.
        threads: at most; None for ``SITL_BRIDGE_THREADS`` or all cores.
        proximity: contact and downwash between the vehicles, which then share the world; None for neither.
        integrator: of the motion, one of ``INTEGRATORS``.

    Attributes:
        actions: (n, k) to be written before a step.
        truth: (n, 13): position and velocity NED, attitude, angular velocity FRD.
        seen: (n, k) last samples of the sensors.
        draws: (n, k) uniform random numbers of the present episodes for a task.
        episodes: (n,) EPISODE: what each vehicle drew.
        owner: the mark of the task, for ``judged``.

    Raises:
        UserError: for what does not fit together.
    """

    def __init__(
        self,
        airframe: Airframe,
        level: ActionLevel,
        task: Task,
        places: Floats,
        *,
        world: WorldChoice,
        randomisation: Randomisation | None,
        period: float,
        step: float,
        with_sensors: bool = False,
        threads: int | None = 1,
        proximity: Proximity | None = None,
        integrator: str = "runge_kutta",
    ) -> None:
        if integrator not in INTEGRATORS:
            raise UserError(f"integrator: {integrator!r} is not one of {', '.join(INTEGRATORS)}")
        self._integrator = INTEGRATORS[integrator]
        self.step_time = round(step * 1e6)
        self.steps = _steps(period, step)
        self.period = self.steps * self.step_time * 1e-6
        built = self._world = world_of(world).build()
        if built.scene.record[0]["moving_first"] < built.scene.record[0]["shape_count"]:
            raise UserError("world: the objects of an environment's scene stand still; remove their paths")
        if airframe.motor.dead_time > 0.0:
            raise UserError("airframe: environments have no dead time; set motor.dead_time to 0")
        if built.wind[0]["custom"]:
            raise UserError("world: an environment takes no wind of your own; use randomisation.wind")
        self.threads = thread_count(threads)
        self._together = proximity is not None
        count = len(places)
        blocks = count if self._together else max(1, min(count, self.threads * BLOCKS_PER_THREAD))
        self._blocks = cut(count, 1 if self._together else self.threads, LEAST_BLOCK)
        sensors = airframe.sensor_records() if with_sensors else airframe.sensor_records()[:0]
        with compilation_shown():
            drawn = randomisation or Randomisation()
            self._make(airframe, blocks, level, sensors, drawn, task, places, proximity)
            self._handles = handles_of(self._arrays)
            self._skipped = np.ones(count, np.uint8)
            if self._together:
                fly_together(self._handles, 0, self._skipped, 0, 0)
            else:
                fly_block(self._handles, 0, 0, 0, self._skipped, NOTHING_SEEN, 0)
            reset_batch(self._handles, self._skipped[:0])
            observe_batch(self._handles, self._skipped[:0], NOTHING_SEEN)
        self.owner = prepared(task, places + self._home)

    def _make(
        self,
        airframe: Airframe,
        blocks: int,
        level: ActionLevel,
        sensors: NDArray[np.void],
        randomisation: Randomisation,
        task: Task,
        places: Floats,
        proximity: Proximity | None,
    ) -> None:
        count, height = len(places), task.height
        lightest, heaviest = (self._vehicle(airframe, factor) for factor in randomisation.mass)
        names = [str(i) for i in range(count if self._together else 1)]
        for vehicle in (heaviest, lightest, airframe.vehicle()):  # refuses what cannot be integrated
            self._simulation = Simulation(
                self._world,
                [VehicleSetup(vehicle, sensors, (0.0, 0.0, -height), 0.0, name) for name in names],
                step=self.step_time,
                proximity=proximity,
            )
        crowded = len(self._world.scene.shapes) > 0
        words = _lasting_words(
            airframe.record, alone=proximity is None, crowded=crowded, health=randomisation.varies_rotors
        )
        actions = np.zeros((count, level.size))
        commands = np.zeros((count, len(airframe.rotors)))
        slots = _slots(sensors)
        work = self._work(airframe, blocks, sensors, height)
        self._arrays = BatchArrays(
            batch=self._settings(level, words, randomisation),
            reset=randomisation.pack(),
            **work,
            motions=np.zeros((count, words.flying + 1), np.int64),
            grounds=np.zeros((count, len(words.ground)), np.int64),
            memories=np.zeros((count, 0 if level.number == MOTORS else CHANGING[1] - CHANGING[0]), np.int64),
            fresh_vehicle=airframe.vehicle().reshape(1),
            fresh_state=work["state_words"][:1].copy(),
            fresh_controller=work["controller_words"][:1].copy(),
            fresh_sensors=sensors.copy(),
            environment=self._world.environment,
            turbulence=self._simulation.turbulence,
            series=self._world.wind_series,
            places=np.ascontiguousarray(places, dtype=np.float64),
            randoms=np.zeros((count, 4), np.uint64),
            episodes=np.zeros(count, EPISODE),
            clocks=np.zeros(count, np.int64),
            events=np.zeros(count, np.uint8),
            wrenches=np.zeros(count, WRENCH),
            wind_states=np.zeros(count, WIND_STATE),
            sensor_states=np.zeros((count, len(sensors)), SENSOR_STATE),
            actions=actions,
            limits=np.array([level.low, level.high]),
            controls=actions if level.number == MOTORS else commands,
            truth=np.zeros((count, TRUTH_SIZE)),
            seen=np.zeros((count, int(slots["size"].sum()))),
            slots=slots,
            draws=np.zeros((count, task.draws)),
            neighbours=self._simulation.arrays.neighbours,
        )
        self.actions, self.truth, self.seen = self._arrays.actions, self._arrays.truth, self._arrays.seen
        self.draws, self.episodes = self._arrays.draws, self._arrays.episodes

    def _work(self, airframe: Airframe, blocks: int, sensors: NDArray[np.void], height: float) -> JsonObject:
        """Records to work on, one a block, as at the start of an episode."""
        state = self._simulation.states[:1].copy()
        environment = self._world.environment[0]
        controller = np.array([controller_record(airframe, self._world)])
        allocation = allocation_record(airframe, self._world)
        _, _, density = air(environment, -height)
        trim = hover(airframe.record, density, float(environment["gravity"]))
        if height > 0.0 and trim is not None:
            state[0]["rotor_speed"][: len(trim.rotor_speed)] = trim.rotor_speed
            lift = _nominal_thrust(allocation, trim.command) / float(airframe.record["mass"])
            controller[0]["integral"][2] = float(environment["gravity"]) - lift
        self._home = state[0]["position"].copy()
        vehicle = airframe.vehicle().reshape(1).copy()
        vehicle["integrator"] = self._integrator
        states, controllers = np.repeat(state, blocks), np.repeat(controller, blocks)
        return {
            "vehicles": np.repeat(vehicle, blocks),
            "states": states,
            "state_words": states.view(np.int64).reshape(blocks, -1),
            "controllers": controllers,
            "controller_words": controllers.view(np.int64).reshape(blocks, -1),
            "allocations": np.repeat(allocation.reshape(1), blocks),
            "setpoints": np.zeros(blocks, SETPOINT),
            "estimates": np.zeros(blocks, ESTIMATE),
            "winds": np.repeat(self._world.wind, blocks),
            "sensors": np.tile(sensors, (blocks, 1)),
        }

    def _settings(
        self, level: ActionLevel, words: LastingWords, randomisation: Randomisation
    ) -> NDArray[np.void]:
        """(1,) BATCH."""
        batch = np.zeros(1, BATCH)
        record, wind = batch[0], self._world.wind[0]
        record["level"], record["step"], record["state_words"] = level.number, self.step_time, words.all
        record["flying_words"], record["ground_first"] = words.flying, words.ground.start
        record["controller_first"], record["max_tilt"] = CHANGING[0], MAX_TILT
        record["wind"], record["turbulence"] = wind["steady"], wind["dryden_speed_20ft"]
        latitude = float(self._world.environment[0]["latitude"])
        along, across = curvatures(latitude)
        record["meridian"], record["parallel"] = 1.0 / along, math.cos(latitude) / across
        record["varied"] = self._together or randomisation.varies
        record["still"] = self._world.still and not randomisation.moves_air
        return batch

    @staticmethod
    def _vehicle(airframe: Airframe, factor: float) -> NDArray[np.void]:
        vehicle = airframe.vehicle().copy()
        vehicle["mass"] *= factor
        vehicle["inertia"] *= factor
        vehicle["inertia_inverse"] /= factor
        return vehicle

    def __len__(self) -> int:
        return len(self._arrays.episodes)

    @property
    def motion(self) -> VehicleMotion:
        """The true state of all vehicles; its arrays change with the next step."""
        return VehicleMotion(self.truth, self.time, self.actions, self.on_ground, self.collided)

    @property
    def time(self) -> Floats:
        """(n,) s since the start of the episode."""
        return np.multiply(self._arrays.clocks, 1e-6, dtype=np.float64)

    def seed(self, seeds: Sequence[int], chosen: Mask) -> None:
        """Set the random streams of the chosen vehicles, each by its own seed."""
        for i in np.flatnonzero(chosen).tolist():
            self._arrays.randoms[i] = stream(seeds[i], "environment")

    def reset(self, chosen: Mask) -> None:
        """Begin new episodes of the chosen vehicles."""
        reset_batch(self._handles, chosen.view(np.uint8))
        if self._together:
            self._simulation.reset()
            episodes = self._arrays.episodes
            for name in ("wind", "turbulence"):  # they fly in the same air
                episodes[name] = episodes[name][0]
            self._arrays.wind_states["shift"] = self._arrays.wind_states["shift"][0]

    def fly(
        self,
        skipped: Mask,
        given: Singles | Floats | None = None,
        observations: Singles = NOTHING_SEEN,
    ) -> None:
        """Fly all vehicles but those skipped until their next action.

        Args:
            skipped: (n,).
            given: (n, k) finite actions, contiguous; what is beyond the limits counts as the limit.  None
                takes ``actions``.
            observations: (n, m), whose first ``seen_count`` figures are written.
        """
        taken = self._arrays.actions if given is None else given
        record = self._arrays.batch[0]
        record["given"], record["single"] = taken.ctypes.data, taken.dtype == np.float32
        flags, handles, steps = skipped.view(np.uint8), self._handles, self.steps

        def call(block: int, first: int, last: int) -> None:
            fly_block(handles, block, first, last, flags, observations, steps)

        if self._together:
            fly_together(handles, len(self), flags, steps, self._simulation.time)
        else:
            run_blocks(call, self._blocks, self.threads)
        self._simulation.time += steps * self.step_time

    @property
    def seen_count(self) -> int:
        """Figures of an observation: of the sensors if there are any, else of the true state."""
        return self.seen.shape[1] or TRUTH_SIZE

    def observe(self, chosen: Mask, observations: Singles) -> None:
        """Write the first ``seen_count`` figures of the observations (n, m) of the chosen vehicles."""
        observe_batch(self._handles, chosen.view(np.uint8), observations)

    @property
    def on_ground(self) -> Mask:
        """(n,) whether a vehicle touches the ground."""
        touching: Mask = (self._arrays.events & ON_GROUND) != 0
        return touching

    @property
    def collided(self) -> Mask:
        """(n,) whether a vehicle hit something in the last step, or its motion diverged."""
        hit: Mask = (self._arrays.events & (COLLIDED | DIVERGED)) != 0
        return hit


class LastingWords(NamedTuple):
    """64-bit words of a STATE that a vehicle remembers."""

    all: int  # words before those that are constant or scratch
    flying: int  # of them, the first ones, which last from step to step
    ground: range  # those that last beside them while it touches the ground or rests


def _lasting_words(vehicle: NDArray[np.void], *, alone: bool, crowded: bool, health: bool) -> LastingWords:
    """Words of a STATE that vehicles remember.

    Args:
        vehicle: () VEHICLE record.
        alone: whether no other vehicle acts on it; else everything is remembered always.
        crowded: whether there is a scene; likewise.
        health: whether the rotors' health differs between vehicles.
    """
    first = {name: place[1] // 8 for name, place in STATE.fields.items()}  # type: ignore[union-attr]
    count = first["scratch" if crowded else "groundless"]
    if not alone or crowded:
        return LastingWords(count, count, range(0))
    if vehicle["esc_thermal_time"] > 0.0:  # of an empty battery, currents are read but not written
        return LastingWords(count, first["wind"], range(0))
    more = health or vehicle["rotor_law"] == INDUCED_LAW or vehicle["vibration"] != 0
    flying = first["in_contact" if more else "induced_velocity"]
    return LastingWords(count, flying, range(first["in_contact"], first["wind"]))


def _steps(period: float, step: float) -> int:
    whole, part = divmod(round(period * 1e6), round(step * 1e6) or 1)
    if step <= 0.0 or whole < 1 or part:
        raise UserError(f"period: {period:g} s is no multiple of the step, {step:g} s")
    return whole


def _nominal_thrust(allocation: NDArray[np.void], commands: Floats) -> float:
    """N along body up that the allocation expects of motor commands; a full battery gives more of it.

    The integral of the vertical velocity, which makes up for the difference, starts there.
    """
    total = 0.0
    for k, command in enumerate(commands):
        curve, low, high = (allocation[name][k] for name in ("curve", "thrust_min", "thrust_max"))
        root = np.interp(command, curve, np.linspace(0.0, 1.0, len(curve)))
        total += float(allocation["effectiveness"][0, k] * (low + root * root * (high - low)))
    return total


def _slots(sensors: NDArray[np.void]) -> NDArray[np.void]:
    """(k,) SLOT of the figures seen, in the order of SEEN; the first sensor of each kind."""
    found = []
    for kind, figures in SEEN.items():
        for index, sensor in enumerate(sensors):
            if KIND_NAMES[int(sensor["kind"])] != kind:
                continue
            for figure in figures:
                place = slice(0, 3) if figure == "latitude" else KINDS[kind].values[figure]
                first, size = (
                    (place, 1) if isinstance(place, int) else (place.start, place.stop - place.start)
                )
                number = GPS if kind == "gps" else int(sensor["kind"])
                found.append((index, number, first, size, FACTORS.get(figure, 1.0)))
            break
    return np.array(found, dtype=SLOT)
