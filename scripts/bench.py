"""Measures the figures of docs/performance.md; run it through scripts/bench.

Most figures are ratios to a baseline that is measured in the same run, interleaved, and the medians are
reported, because machines are noisy and drift.  Measurements that need PX4 are skipped, with a message, if
there is none.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import itertools
import json
import math
import os
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numba
import numpy as np
import psutil

import sitl_bridge as sb
from sitl_bridge.base.error_log import ErrorLog
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.system.listening import is_listening
from sitl_bridge.base.system.processor_placement import ProcessorPlacement
from sitl_bridge.core.dynamics.proximity import Proximity
from sitl_bridge.core.sensors.perception.depth_camera import DepthCameraSpecification
from sitl_bridge.core.sensors.perception.lidar import LidarSpecification
from sitl_bridge.core.sensors.perception.scene_caster import SceneCaster
from sitl_bridge.core.sensors.perception.view import Poses, View
from sitl_bridge.core.simulation.simulation import Simulation, VehicleSetup
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.scene import Scene
from sitl_bridge.core.world.scene_specification import SceneSpecification
from sitl_bridge.core.world.world import World
from sitl_bridge.core.world.world_file import load_world
from sitl_bridge.link.hil.server import LockstepServer
from sitl_bridge.link.px4.airframe_parameters import parameters_for
from sitl_bridge.link.px4.find import Px4Build, find_px4
from sitl_bridge.link.px4.px4_process import Px4Process
from sitl_bridge.record.records import ROW, STEP
from sitl_bridge.record.run_recorder import RunRecorder
from sitl_bridge.session.scenario import load_scenario
from sitl_bridge.swarm.avoidance.closed_loop import fly

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from support.background_process import background_process  # noqa: E402  (of the tests, not a package)
from support.peer import Peer  # noqa: E402
from support.waiting import wait_until  # noqa: E402

INSTANCE = 9
PORT = 4560 + INSTANCE
RECORDED_STEPS = 500
"""Steps of ``record_frames``: two seconds."""
BATCH, BATCHES = 250, 60
"""Steps that are written at once, about as many as the bridge collects; how often they are."""
SETTLE = 4.0
"""s of wall time between connecting and measuring, in which PX4 starts its modules."""


def set_up(airframe: str, count: int, spacing: float = 5.0, height: float = 0.0) -> list[VehicleSetup]:
    """Vehicles in a row, m."""
    places = [(0.0, spacing * i, -height) for i in range(count)]
    names = map(str, range(count))
    return VehicleSetup.of_fleet([load_airframe(airframe)] * count, places, [0.0] * count, names)


def record_frames(airframe: str) -> bytes:
    """Frames of RECORDED_STEPS steps that the bridge sends a vehicle at rest."""
    simulation = Simulation(World(), set_up(airframe, 1), seed=1)
    server = LockstepServer(simulation, ports=[PORT], speed=math.inf)
    server.prepare()
    with server, Peer(PORT) as peer:
        while len(peer.times) < RECORDED_STEPS + 100:
            time.sleep(0.01)
    sent = peer.messages
    begins = [i for i, m in enumerate(sent) if m.get_type() == "HIL_SENSOR" and m.id == 0]
    return b"".join(m.get_msgbuf() for m in sent[begins[50] : begins[50 + RECORDED_STEPS]])


@contextlib.contextmanager
def run_px4s(
    build: Px4Build, airframe: str, directory: Path, count: int, server: int | None
) -> Iterator[list[Px4Process]]:
    """PX4s within the block, placed on processors beside the thread or process of their simulator."""
    given = parameters_for(load_airframe(airframe), speed=math.inf) | {"SIM_BAT_ENABLE": 1}  # none is sent
    with contextlib.ExitStack() as ended:
        stacks = []
        for i in range(count):
            stacks.append(Px4Process(build, INSTANCE + i, directory / str(i), given, lean=count > 1))
            ended.callback(stacks[i].stop)
        ended.enter_context(ProcessorPlacement(stacks, server))
        yield stacks


def null_factors(
    build: Px4Build,
    frames: Path,
    airframe: str,
    directory: Path,
    count: int,
    seconds: float,
    *,
    together: bool = False,
) -> list[float]:
    """Real-time factors of simultaneous null simulators.

    Each serves its own PX4; ``together``: one serves all PX4s, and a step begins when all have answered.
    None ends before all have been measured: a PX4 without its simulator occupies a core.
    """
    directory.mkdir(parents=True)
    served = [count] if together else [1] * count
    step_files = [directory / f"{i}.steps" for i in range(len(served))]
    nulls: list[subprocess.Popen[bytes]] = []
    with contextlib.ExitStack() as stack:
        for i, path in enumerate(step_files):
            output = stack.enter_context(path.open("wb"))
            command = [sys.executable, ROOT / "scripts" / "null_simulator.py", PORT + i, served[i], frames]
            null = subprocess.Popen([*map(str, command)], stdout=output)
            stack.callback(null.wait)
            stack.callback(null.kill)
            nulls.append(null)
        server = nulls[0].pid if count == 1 else None
        stack.enter_context(run_px4s(build, airframe, directory, count, server))
        while not all(path.stat().st_size for path in step_files):
            time.sleep(0.1)
        time.sleep(SETTLE)
        begin = time.monotonic()
        time.sleep(seconds)
    factors = []
    for path in step_files:
        rows = np.array([row for row in np.loadtxt(path) if row[1] >= begin])
        factors.append((rows[-1, 0] - rows[0, 0]) * 0.004 / (rows[-1, 1] - rows[0, 1]))
    return factors


def bridge_step(
    build: Px4Build, airframe: str, directory: Path, count: int, seconds: float
) -> dict[str, float]:
    """us of a step with real PX4s, and processor time within it: of PX4s and of the lockstep thread.

    Several vehicles are in one world, collisions and downwash included.
    """
    proximity = Proximity() if count > 1 else None
    simulation = Simulation(World(), set_up(airframe, count, 3.0), seed=1, proximity=proximity)
    ports = [PORT + i for i in range(count)]
    server = LockstepServer(simulation, ports=ports, speed=math.inf, on_stall="leave", timeout=5.0)
    server.prepare()
    with server, run_px4s(build, airframe, directory, count, server.thread_id) as stacks:
        while not all(link.answers for link in server.status().links):
            time.sleep(0.1)
        time.sleep(SETTLE)
        own = Path(f"/proc/self/task/{server.thread_id}/stat")
        tasks = [own, *(Path(f"/proc/{px4.pid}/stat") for px4 in stacks)]
        begin, first, before = time.monotonic(), server.status().steps, [read_usage(task) for task in tasks]
        time.sleep(seconds)
        steps, duration = server.status().steps - first, time.monotonic() - begin
        spent = np.array([read_usage(task) for task in tasks]) - before
    if server.failure is not None:
        raise server.failure
    parts = [duration, *spent[0], *spent[1:].sum(axis=0)]
    return {
        f"us of a step, {name}": 1e6 * float(part) / steps for name, part in zip(PARTS, parts, strict=True)
    }


PARTS = ("whole", "bridge", "bridge in the kernel", "PX4", "PX4 in the kernel")
"""Times of ``bridge_step``."""


def read_usage(task: Path) -> tuple[float, float]:
    """Processor time of a process or thread by its file in /proc, s: all of it, and that in the kernel."""
    user, system = map(int, task.read_text(encoding="utf-8").rsplit(")", 1)[1].split()[11:13])
    tick = os.sysconf("SC_CLK_TCK")
    return (user + system) / tick, system / tick


def lockstep(airframes: Sequence[str], count: int, options: argparse.Namespace, say: Any) -> dict[str, Any]:
    """Real-time factors with real PX4s, disarmed, interleaved with null simulators'; us of a step.

    A null simulator replays the frames of the bridge with the same airframe, so that the ratio contains the
    cost of the bridge, but not that of three IMUs within PX4.  One world waits for the slowest of its PX4s in
    every step; as many null simulators, each with a PX4 of its own, do not.  So with several the bridge is
    also compared with one null simulator that waits for all PX4s.
    """
    build = find_px4()
    rounds: dict[str, list[dict[str, float]]] = {airframe: [] for airframe in airframes}
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        for airframe in airframes:
            (place / airframe).write_bytes(record_frames(airframe))
        for k, airframe in itertools.product(range(options.repeats), airframes):
            at = place / f"{airframe}{k}"
            null = functools.partial(null_factors, build, place / airframe, airframe)
            free = null(at / "free", count, options.seconds)
            factors = {"null simulators": statistics.mean(free)}
            if count > 1:
                (factors["one null simulator"],) = null(at / "one", count, options.seconds, together=True)
            step = bridge_step(build, airframe, at / "bridge", count, options.seconds)
            bridge = 4000.0 / step["us of a step, whole"]
            ratios = {f"ratio to {name}": bridge / factor for name, factor in factors.items()}
            rounds[airframe].append({**factors, "bridge": bridge, **ratios, **step})
            shown = ", ".join(f"{name} {value:.2f}" for name, value in (factors | {"bridge": bridge}).items())
            say(f"  round {k + 1}, {count} {airframe}, times real time: {shown}")
    found = {}
    for airframe, of_airframe in rounds.items():
        found[airframe] = {name: statistics.median(r[name] for r in of_airframe) for name in of_airframe[0]}
        say(f"  {count} {airframe}, median: {', '.join(f'{n} {v:.3g}' for n, v in found[airframe].items())}")
    return {"px4": build.version, "vehicles": count, **found}


def fleet(_options: argparse.Namespace, say: Any) -> dict[str, Any]:
    """Vehicle-steps per second on one core, dynamics and sensors in flight, by number of vehicles."""
    found = {}
    for count in (1, 10, 100, 1000, 10000):
        simulation = Simulation(World(), set_up("iris", count, height=50.0), seed=1, threads=1)
        steps = min(max(20_000 // count, 20), 500)  # 2 s at most: in longer ones they sink to the ground
        rates = []
        for _ in range(max(5, 20_000 // (count * steps))):
            simulation.reset()
            simulation.armed[:] = 1
            simulation.controls[:, :4] = 0.66
            simulation.advance(10)
            begin = time.perf_counter()
            simulation.advance(steps)
            rates.append(count * steps / (time.perf_counter() - begin))
        found[count] = statistics.median(rates)
        say(f"  {count} vehicles: {found[count]:,.0f} vehicle-steps/s")
    return {"vehicle_steps_per_second": found}


def measure_built_in(_options: argparse.Namespace, say: Any) -> dict[str, Any]:
    """Simulated over processor time of vehicles in Hold with the built-in stack, everything on one core."""
    found: dict[str, float] = {}
    for count, airframe in ((1, "iris"), *((n, "iris_full") for n in (1, 10, 100, 200, 1000))):
        with sb.Sitl([airframe] * count, seed=1, proximity=None, record=False) as sitl:
            sitl.arm()
            sitl.take_off(2.5, wait=False)
            sitl.run(8.0)
            seconds, factors = max(0.24, 96.0 / count), []
            for _ in range(3):
                begin = time.process_time()
                sitl.run(seconds)
                factors.append(seconds / (time.process_time() - begin))
            up = int(np.sum(sitl.position[:, 2] < -1.0))
        name = f"{count} {airframe}"
        found[name] = statistics.median(factors)
        say(f"  {name}, {up} in the air: {found[name]:.3g} x real time")
    return {"real_time_factor": found}


def avoidance(options: argparse.Namespace, say: Any) -> dict[str, Any]:
    """ms of the predictive controller per vehicle and tick, in processor and wall time.

    The same flight is repeated, with identical results, and the least time of each tick is reported as well:
    the cost of the program without the interruptions of the machine.
    """
    found = {}
    for name in ("swap_six", "swap_sixteen"):
        scenario = load_scenario(ROOT / f"missions/{name}.yaml").avoidance
        assert scenario is not None
        flights = [fly(scenario, seed=0) for _ in range(options.repeats)]
        for clock in ("cpu", "wall"):
            ms = 1e3 * np.stack([getattr(flight, f"solve_{clock}").ravel() for flight in flights])
            for kind, times in ((clock, ms), (f"{clock}, a tick's least", ms.min(axis=0))):
                found[f"{name}, {kind}"] = {"mean": float(times.mean()), "worst": float(times.max())}
                say(f"  {name}, {kind}: mean {times.mean():.2f}, worst {times.max():.2f} ms")
    return found


def start_up(_options: argparse.Namespace, say: Any) -> dict[str, Any]:
    """s from starting ``serve`` to the first sensor frame, with an empty and a full cache; memory in MB."""
    found: dict[str, float] = {}
    command = [sys.executable, "-m", "sitl_bridge", "serve", "--instance", str(INSTANCE), "--speed", "max"]
    with tempfile.TemporaryDirectory() as place:
        environment = os.environ | {"NUMBA_CACHE_DIR": place}
        for name, repeats in (("first_time_s", 1), ("later_s", 5)):
            times = []
            for _ in range(repeats):
                begin = time.monotonic()
                with background_process(
                    command, Path(place, "output"), cwd=place, env=environment
                ) as serving:
                    wait_until(lambda: is_listening(PORT), "the port", 300.0)
                    with socket.create_connection(("127.0.0.1", PORT)) as peer:
                        peer.recv(1)
                        times.append(time.monotonic() - begin)
                        time.sleep(1.0)
                        found["memory_mb"] = psutil.Process(serving.pid).memory_info().rss / 1e6
            found[name] = statistics.median(times)
    say(f"  {', '.join(f'{name} {value:.2f}' for name, value in found.items())}")
    return found


def recorder(options: argparse.Namespace, say: Any) -> dict[str, Any]:
    """Processor time of the recorder for one vehicle, us a step, and MB of ten minutes."""
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as temporary:
        for airframe in ("iris", "iris_full"):
            frames = record_frames(airframe)
            rows, marks = np.zeros(BATCH, ROW), np.zeros(BATCH, STEP)
            data = np.resize(np.frombuffer(frames, np.uint8), len(frames) * BATCH // RECORDED_STEPS)
            costs, size = [], 0
            for k in range(options.repeats):
                place = Path(temporary) / f"{airframe}{k}"
                place.mkdir()
                with RunRecorder(place, ErrorLog(), 4) as recording:
                    recording.write(rows, data, marks)
                    begin = time.process_time()
                    for time_of_row in range(BATCHES):
                        rows["time"] = time_of_row
                        recording.write(rows, data, marks)
                    costs.append(1e6 * (time.process_time() - begin) / (BATCHES * BATCH))
                    recording.close()
                    size = sum(file.stat().st_size for file in place.iterdir())
            megabytes = size / ((BATCHES + 1) * BATCH) * 600.0 / 0.004 * 1e-6
            result[airframe] = {"us": statistics.median(costs), "megabytes": megabytes}
            say(f"  {airframe}: {statistics.median(costs):.2f} us a step, {megabytes:.0f} MB in 600 s")
    return result


def perception(options: argparse.Namespace, say: Any) -> dict[str, Any]:
    """ms of processor time of a depth image and a lidar's turn, 2 m above each shipped world's origin."""
    camera = DepthCameraSpecification(kind="depth_camera", rate=15.0)
    lidar = LidarSpecification(kind="lidar", columns=1024)
    poses = Poses(np.array([0]), np.array([[0.0, 0.0, -2.0]]), np.array([[1.0, 0.0, 0.0, 0.0]]))
    scenes = {"level ground": Scene(SceneSpecification())}
    worlds = sorted((ROOT / "missions" / "worlds").glob("*.yaml"))
    scenes |= {file.stem: scene for file in worlds if (scene := Scene(load_world(file).scene))}
    figures: dict[str, float] = {}
    for name, scene in scenes.items():
        view = View(SceneCaster(scene, 0, np.zeros((0, 4))), poses, 0, np.random.default_rng(1))
        for what, sensor in (("640 x 480 depth image", camera), ("16 x 1024 lidar, a turn", lidar)):
            sensor.measure(view)
            times = []
            for _ in range(3 * options.repeats):
                begin = time.thread_time()
                sensor.measure(view)
                times.append(1e3 * (time.thread_time() - begin))
            figures[f"{name}: {what}"] = statistics.median(times)
            say(f"  {name}: {what}: {statistics.median(times):.1f} ms")
    return figures


MEASUREMENTS: dict[str, tuple[Callable[[argparse.Namespace, Any], dict[str, Any]], str]] = {
    "start-up": (start_up, "from starting `sitl-bridge serve` to the first sensor frame, and memory"),
    "steps": (fleet, "dynamics and sensors of the iris in flight, by number of vehicles, one core"),
    "built-in": (measure_built_in, "the built-in stack with dynamics and sensors, one core, processor time"),
    "avoidance": (avoidance, "predictive collision avoidance, per vehicle and tick, processor and wall time"),
    "recorder": (recorder, "a recording: processor time and bytes"),
    "perception": (perception, "a depth image and a lidar in each shipped world, processor time"),
    "lockstep": (
        functools.partial(lockstep, ("iris", "iris_full", "x500_full"), 1),
        "lockstep with one real PX4, disarmed",
    ),
    "fleet": (
        functools.partial(lockstep, ("iris",), 9),
        "lockstep with nine real PX4s in one world, disarmed",
    ),
}
"""Measurements: a function and its description."""


def machine() -> dict[str, Any]:
    """The machine and the software, on which figures depend besides the code."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": models[0] if models else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "system": platform.platform(),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
    }


def main() -> None:
    """Measure and report."""
    choices = "\n".join(f"  {name:10} {text}" for name, (_, text) in MEASUREMENTS.items())
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        description=f"{__doc__}\nmeasurements:\n{choices}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "what", nargs="*", metavar="WHAT", help="measurements of the list above (default: all)"
    )
    parser.add_argument("--repeats", type=int, default=3, help="interleaved rounds")
    parser.add_argument("--seconds", type=float, default=8.0, help="s of wall time per measurement")
    parser.add_argument("--json", type=Path, help="also write the figures there, with the machine's facts")
    options = parser.parse_args()
    for name in options.what:
        if name not in MEASUREMENTS:
            parser.error(f"there is no measurement {name}; choose from {', '.join(MEASUREMENTS)}")
    figures: dict[str, Any] = {}
    run = {"version": version("sitl-bridge"), "machine": machine(), "figures": figures}
    for name in options.what or MEASUREMENTS:
        measure, text = MEASUREMENTS[name]
        print(f"{name}: {text}", flush=True)
        try:
            figures[name] = measure(options, functools.partial(print, flush=True))
        except UserError as error:
            print(f"  skipped: {error}")
    if options.json:
        options.json.write_text(json.dumps(run, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
