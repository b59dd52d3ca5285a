"""Flight stacks on one lockstep server, for formations over MAVSDK, and what was true of the vehicles."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.autopilot.process import Configuration, StackProcess
from sitl_bridge.base.system.child_process import ChildProcess
from sitl_bridge.core.simulation.simulation import Simulation, VehicleSetup
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.world import World
from sitl_bridge.link.hil.ports import FIRST_PORT
from sitl_bridge.link.hil.server import LockstepServer
from sitl_bridge.link.px4.airframe_parameters import parameters_for
from sitl_bridge.link.px4.find import find_px4
from sitl_bridge.link.px4.px4_process import Px4Process
from sitl_bridge.swarm.formation.patterns import closest_pair
from sitl_bridge.swarm.formation.specification import FormationPlan
from sitl_bridge.swarm.quick_simulation import FormationResult

Array: TypeAlias = NDArray[np.float64]
Start: TypeAlias = Callable[[Airframe, int, Path], ChildProcess]

CONNECT_LIMIT = 300.0
"""s of wall time for all to connect: the built-in stack may be compiled first."""


def built_in(airframe: Airframe, instance: int, directory: Path) -> ChildProcess:
    """Start the built-in stack."""
    return StackProcess(Configuration(airframe=airframe, instance=instance), directory)


def px4(airframe: Airframe, instance: int, directory: Path) -> ChildProcess:
    """Start real PX4, its time-outs for a speed that a busy computer reaches."""
    return Px4Process(find_px4(), instance, directory, parameters_for(airframe, World(), speed=5.0))


class Truth:
    """Recorder of a lockstep server: the places of all vehicles, some twenty times a second of its time."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.time: list[float] = []
        self.position: list[Array] = []

    def write(self, rows: NDArray[np.void], _frames: NDArray[np.uint8], _steps: NDArray[np.void]) -> None:
        """Take a block of whole steps."""
        steps = rows.reshape(-1, self.count)
        due = steps["time"][:, 0] % 48_000 == 0
        self.time += (steps["time"][due, 0] * 1e-6).tolist()
        self.position += list(steps["position"][due].copy())

    def at(self, time: Array) -> Array:
        """(k, n, 3) m NED at times (k,) in s of the simulation."""
        flat = np.stack(self.position).reshape(len(self.time), -1)
        found = np.stack([np.interp(time, self.time, column) for column in flat.T], axis=1)
        return found.reshape(len(time), self.count, 3)

    @property
    def least_separation(self) -> float:
        """m between any two, ever."""
        return min(closest_pair(place)[0] for place in self.position)


@dataclass(frozen=True)
class Grounded:
    """Flight stacks that stand where a plan starts, served; ``begun`` is s of the simulation's clock."""

    server: LockstepServer
    truth: Truth
    processes: tuple[ChildProcess, ...]


@contextlib.contextmanager
def grounded(
    plan: FormationPlan, instances: Sequence[int], start: Start, directory: Path, speed: float = math.inf
) -> Iterator[Grounded]:
    """Serve the vehicles of a plan in one world, each flown by a process of its own."""
    frame = load_airframe("iris")
    setups = [
        VehicleSetup(
            frame.vehicle(), frame.sensor_records(), position=(float(p[0]), float(p[1]), 0.0), name=str(i)
        )
        for i, p in enumerate(plan.places)
    ]
    truth = Truth(len(setups))
    with contextlib.ExitStack() as stack:
        server = LockstepServer(
            Simulation(World(), setups, seed=plan.seed),
            ports=[FIRST_PORT + i for i in instances],
            speed=speed,
            patience=5.0,
            recorder=truth,
        )
        stack.callback(server.close)
        server.prepare()
        server.start()
        processes = []
        for instance in instances:
            place = directory / str(instance)
            place.mkdir(parents=True)
            process = start(frame, instance, place)
            stack.callback(process.stop)
            processes.append(process)
        _wait_for_all(server, processes)
        yield Grounded(server, truth, tuple(processes))


def _wait_for_all(server: LockstepServer, processes: Sequence[ChildProcess]) -> None:
    end = time.monotonic() + CONNECT_LIMIT
    while not all(link.connected for link in server.status().links):
        for process in processes:
            assert not process.ended(), process.ended()
        assert time.monotonic() < end, "the flight stacks have not connected"
        time.sleep(0.05)


def true_slot_errors(result: FormationResult, position: Array) -> Array:
    """Distance (k, n) in m of each vehicle's true place from its slot as the leader's true place has it.

    Args:
        result: of the flight, led by vehicle 0 all the time.
        position: (k, n, 3) m NED, true at ``result.time``.
    """
    plan = result.plan
    centre = plan.path.at(np.clip(result.time, plan.path.time[0], plan.path.time[-1]))
    heading = centre.yaw if plan.heading is None else np.full(len(result.time), plan.heading)
    epoch = [plan.choreography.epoch_at(round(1e6 * t)) for t in result.time]
    errors = []
    for k, time_us in enumerate(np.round(1e6 * result.time).astype(int).tolist()):
        offsets = plan.choreography.moves[epoch[k]].at(time_us)[0]
        cosine, sine = math.cos(heading[k]), math.sin(heading[k])
        turn = np.array([[cosine, -sine, 0.0], [sine, cosine, 0.0], [0.0, 0.0, 1.0]])
        slots = position[k, 0] + (offsets - offsets[0]) @ turn.T
        errors.append(np.linalg.norm(position[k] - slots, axis=1))
    return np.array(errors)
