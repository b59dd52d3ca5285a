"""Measures the figures of docs/performance.md; run it through scripts/bench.

Most figures are ratios to a baseline that is measured in the same run, interleaved, and the medians are
reported, because machines are noisy and drift.  Measurements that need PX4 are skipped, with a message, if
there is none.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import math
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numba
import numpy as np
import psutil

from sitl_bridge.autopilot.stack import TICK, StackVehicle
from sitl_bridge.autopilot.stack_fleet import StackFleet
from sitl_bridge.base.error_log import ErrorLog
from sitl_bridge.base.errors import UserError
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
INSTANCE = 9
ARM, TAKE_OFF = 400, 22
"""MAV_CMD_COMPONENT_ARM_DISARM, MAV_CMD_NAV_TAKEOFF"""
PORT = 4560 + INSTANCE
RECORDED_STEPS = 500
"""Steps of ``record_frames``."""
BATCH, BATCHES = 250, 60
"""Steps that are written at once, about as many as the bridge collects; how often they are."""
SETTLE = 4.0
"""s of wall time between connecting and measuring, in which PX4 starts its modules."""


def parameters(airframe: str) -> dict[str, int | float]:
    """PX4's parameters for a bench: with its own battery, because no battery is sent."""
    return parameters_for(load_airframe(airframe), speed=math.inf) | {"SIM_BAT_ENABLE": 1}


def record_frames(airframe: str, path: Path) -> Path:
    """Frames that the bridge sends in two seconds for a vehicle at rest, for replay by the null simulator."""
    frame = load_airframe(airframe)
    setup = VehicleSetup(frame.vehicle(), frame.sensor_records())
    with LockstepServer(Simulation(World(), [setup], seed=1), ports=[PORT], speed=math.inf) as server:
        command = [sys.executable, "-c", RECORDER, str(ROOT / "tests"), str(PORT), str(path)]
        subprocess.run(command, check=True, timeout=120.0)
    if server.failure is not None:
        raise server.failure
    return path


RECORDER = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from support.peer import Peer
with Peer(int(sys.argv[2])) as peer:
    while len(peer.times) < 600:
        time.sleep(0.01)
    data = bytes(peer.received)
steps, at = [], 0
while at + 12 <= len(data):
    end = at + 12 + data[at + 1]
    if data[at + 7] == 107 and (data[at + 1] < 65 or data[at + 74] == 0):
        steps.append(b"")
    if steps:
        steps[-1] += data[at:end]
    at = end
Path(sys.argv[3]).write_bytes(b"".join(steps[50:550]))
"""


def null_factors(
    build: Px4Build,
    program: Path,
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
    stacks: list[Px4Process] = []
    with contextlib.ExitStack() as stack:
        for i, path in enumerate(step_files):
            output = stack.enter_context(path.open("wb"))
            command = ["chrt", "--batch", "0", str(program), str(PORT + i), str(served[i]), str(frames)]
            null = subprocess.Popen(command, stdout=output)
            stack.callback(null.wait)
            stack.callback(null.kill)
            nulls.append(null)
        for i in range(count):
            px4 = Px4Process(build, INSTANCE + i, directory / str(i), parameters(airframe), lean=count > 1)
            stack.callback(px4.stop)
            stacks.append(px4)
        stack.enter_context(ProcessorPlacement(stacks, nulls[0].pid if count == 1 else None))
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


def bridge_factor(build: Px4Build, airframe: str, directory: Path, count: int, seconds: float) -> float:
    """Real-time factor of the bridge; several vehicles are in one world, collisions and downwash included."""
    return factor_of(bridge_step(build, airframe, directory, count, seconds))


def factor_of(step: dict[str, float]) -> float:
    """Real-time factor of steps of 4 ms."""
    return 4000.0 / step["whole"]


def bridge_step(
    build: Px4Build, airframe: str, directory: Path, count: int, seconds: float
) -> dict[str, float]:
    """us of a step with real PX4s, and processor time within it: of PX4s and of the lockstep thread."""
    frame = load_airframe(airframe)
    setups = [
        VehicleSetup(frame.vehicle(), frame.sensor_records(), position=(0.0, 3.0 * i, 0.0), name=str(i))
        for i in range(count)
    ]
    proximity = Proximity() if count > 1 else None
    simulation = Simulation(World(), setups, seed=1, proximity=proximity)
    ports = [PORT + i for i in range(count)]
    server = LockstepServer(simulation, ports=ports, speed=math.inf, on_stall="leave", timeout=5.0)
    server.prepare()
    stacks: list[Px4Process] = []
    with contextlib.ExitStack() as stack:
        stack.enter_context(server)
        for i in range(count):
            px4 = Px4Process(build, INSTANCE + i, directory / str(i), parameters(airframe), lean=count > 1)
            stack.callback(px4.stop)
            stacks.append(px4)
        stack.enter_context(ProcessorPlacement(stacks, server.thread_id))
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
    return {name: 1e6 * float(part) / steps for name, part in zip(PARTS, parts, strict=True)}


PARTS = ("whole", "bridge", "bridge_in_the_kernel", "px4", "px4_in_the_kernel")
"""Figures that ``bridge_step`` prints, in us."""


def read_usage(task: Path) -> tuple[float, float]:
    """Processor time of a process or thread by its file in /proc, s: all of it, and that in the kernel."""
    user, system = map(int, task.read_text(encoding="utf-8").rsplit(")", 1)[1].split()[11:13])
    tick = os.sysconf("SC_CLK_TCK")
    return (user + system) / tick, system / tick


def lockstep(options: argparse.Namespace, say: Any) -> dict[str, Any]:
    """Real-time factors with one real PX4, disarmed, interleaved with the null simulator's.

    The null simulator replays the frames of the bridge with the same airframe, so that the ratio contains the
    cost of the bridge, but not that of three IMUs within PX4, which is reported separately.
    """
    build = find_px4()
    airframes = ("iris", "iris_full", "x500_full")
    factors: dict[str, dict[str, list[float]]] = {name: {"null": [], "bridge": []} for name in airframes}
    steps: dict[str, list[dict[str, float]]] = {name: [] for name in airframes}
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        program = compile_null(place)
        frames = {name: record_frames(name, place / f"{name}.frames") for name in airframes}
        for k in range(options.repeats):
            for name, found in factors.items():
                at = place / f"{name}{k}"
                found["null"] += null_factors(
                    build, program, frames[name], name, at / "null", 1, options.seconds
                )
                steps[name].append(bridge_step(build, name, at / "bridge", 1, options.seconds))
                found["bridge"].append(factor_of(steps[name][-1]))
                say(
                    f"  round {k + 1}, {name}: null simulator {found['null'][-1]:.2f} x, "
                    f"bridge {found['bridge'][-1]:.2f} x"
                )
    result: dict[str, Any] = {"px4": build.version}
    for name, found in factors.items():
        own = [a / b for a, b in zip(found["bridge"], found["null"], strict=True)]
        plain = [a / b for a, b in zip(found["bridge"], factors["iris"]["null"], strict=True)]
        result[name] = {
            "null": statistics.median(found["null"]),
            "bridge": statistics.median(found["bridge"]),
            "ratio_to_null": statistics.median(own),
            "ratio_to_null_with_the_sensors_of_iris": statistics.median(plain),
            "us_of_a_step": {part: statistics.median(step[part] for step in steps[name]) for part in PARTS},
        }
        say(
            f"  {name}: {result[name]['bridge']:.1f} x real time, {statistics.median(own):.3f} of the null "
            f"simulator with the same sensors, {statistics.median(plain):.3f} of it with those of iris"
        )
        parts = ", ".join(f"{n.replace('_', ' ')} {us:.1f}" for n, us in result[name]["us_of_a_step"].items())
        say(f"    us of a step: {parts}")
    return result


def fleet_lockstep(options: argparse.Namespace, say: Any) -> dict[str, Any]:
    """Real-time factors with several real PX4s, disarmed, interleaved with null simulators.

    One world waits for the slowest of its PX4s in every step; as many null simulators, each with a PX4 of its
    own, do not.  So the bridge is compared with one null simulator that waits for all PX4s, and that one with
    the null simulators that run freely: what waiting for one another costs.
    """
    build = find_px4()
    count, seconds = options.fleet, options.seconds
    free, together, world = "null simulators", "one null simulator", "one world"
    found: dict[str, list[float]] = {free: [], together: [], world: []}
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        program = compile_null(place)
        frames = record_frames("iris", place / "iris.frames")
        null = functools.partial(null_factors, build, program, frames, "iris")
        for k in range(options.repeats):
            found[free].append(statistics.mean(null(place / f"nulls{k}", count, seconds)))
            found[together] += null(place / f"null{k}", count, seconds, together=True)
            found[world].append(bridge_factor(build, "iris", place / f"world{k}", count, seconds))
            say(f"  round {k + 1}: " + ", ".join(f"{n} {v[-1]:.2f} x" for n, v in found.items()))

    def ratio(name: str, ceiling: str) -> float:
        pairs = zip(found[name], found[ceiling], strict=True)
        return statistics.median(value / most for value, most in pairs)

    ratios = {
        "ratio_to_null_that_waits_for_all": ratio(world, together),
        "ratio_of_that_null_to_free_nulls": ratio(together, free),
        "ratio_to_null": ratio(world, free),
    }
    waiting, freely, own = ratios.values()
    say(f"  {count} PX4s in one world: {waiting:.3f} of a null simulator that waits for all of them,")
    say(f"  {own:.3f} of {count} null simulators that run freely; waiting alone: {freely:.3f}")
    medians = {name: statistics.median(values) for name, values in found.items()}
    return {"count": count, "factors": medians, **ratios}


def compile_null(place: Path) -> Path:
    """The null simulator, compiled into a directory.

    Raises:
        UserError: without a C compiler.
    """
    compiler = shutil.which("cc")
    if compiler is None:
        raise UserError("no C compiler (cc) for the null simulator")
    program = place / "null_simulator"
    subprocess.run([compiler, "-O2", "-o", program, ROOT / "scripts/null_simulator.c"], check=True)
    return program


def fleet(_options: argparse.Namespace, say: Any) -> dict[str, Any]:
    """Vehicle-steps per second on one core, dynamics and sensors in flight, by number of vehicles."""
    frame = load_airframe("iris")
    found = {}
    for count in (1, 10, 100, 1000, 10000):
        setups = [
            VehicleSetup(frame.vehicle(), frame.sensor_records(), position=(0.0, 5.0 * i, -50.0), name=str(i))
            for i in range(count)
        ]
        simulation = Simulation(World(), setups, seed=1, threads=1)
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
    for airframe, counts in (("iris", (1,)), ("iris_full", (1, 10, 100, 200, 1000))):
        frame = load_airframe(airframe)
        for count in counts:
            members = [StackVehicle(frame, name=str(i), position=(0.0, 5.0 * i, 0.0)) for i in range(count)]
            with StackFleet(World(), members, seed=1) as flying:
                flying.advance(210)
                for pilot in flying.pilots:
                    for command, first in ((ARM, 1.0), (TAKE_OFF, math.nan)):
                        pilot.commander.command(command, [first, *[math.nan] * 6], flying.time)
                flying.advance(170)
                ticks = max(5, 2000 // count)
                factors = []
                for _ in range(3):
                    begin = time.process_time()
                    flying.advance(ticks)
                    factors.append(ticks * TICK * 1e-6 / (time.process_time() - begin))
                up = int(np.sum(flying.simulation.states["position"][:, 2] < -1.0))
            name = f"{count} {airframe}"
            found[name] = statistics.median(factors)
            cost = TICK / count / found[name]
            say(f"  {name}, {up} in the air: {found[name]:.3g} x real time, {cost:.0f} us a vehicle and tick")
    return {"real_time_factor": found}


def avoidance(options: argparse.Namespace, say: Any) -> dict[str, Any]:
    """ms of the predictive controller per vehicle and tick, in processor and wall time.

    The same flights are repeated, with identical results, and the least time of each tick is reported as
    well: the cost of the program without the interruptions of the machine.
    """
    found = {}
    for name, seeds in (("swap_six", range(5)), ("swap_sixteen", range(1))):
        scenario = load_scenario(ROOT / f"missions/{name}.yaml").avoidance
        assert scenario is not None
        rounds = [[fly(scenario, seed=seed) for seed in seeds] for _ in range(options.repeats)]
        least = min(flight.distances().min() for flight in rounds[0])
        entry: dict[str, Any] = {"least_distance_m": float(least)}
        for clock in ("cpu", "wall"):
            times = 1e3 * np.stack(
                [
                    np.concatenate([getattr(f, f"solve_{clock}").ravel() for f in flights])
                    for flights in rounds
                ]
            )
            for key, ms in ((clock, times.ravel()), (f"{clock}, a tick's least", times.min(axis=0))):
                entry[key] = {
                    "mean": float(ms.mean()),
                    "p99.9": float(np.percentile(ms, 99.9)),
                    "worst": float(ms.max()),
                }
                values = ", ".join(f"{figure} {value:.2f}" for figure, value in entry[key].items())
                say(f"  {name}, {len(ms)} ticks, {key}: {values} ms")
        found[name] = entry
    return found


STARTER = """
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.link.hil.server import LockstepServer
from sitl_bridge.core.simulation.simulation import Simulation, VehicleSetup
from sitl_bridge.core.world.world import World
import socket, math, sys, time
frame = load_airframe("iris")
server = LockstepServer(Simulation(World(), [VehicleSetup(frame.vehicle(), frame.sensor_records())]),
                        ports=[int(sys.argv[1])], speed=math.inf)
with server, socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as peer:
    peer.settimeout(200)
    peer.recv(1)
    seen = time.time()
    time.sleep(1.0)
    import psutil
    print(seen, psutil.Process().memory_info().rss / 1e6)
"""


def start_up(_options: argparse.Namespace, say: Any) -> dict[str, Any]:
    """s from starting Python to the first sensor frame, with an empty and a full cache; memory in MB."""
    found: dict[str, float] = {}
    memory = math.nan
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"NUMBA_CACHE_DIR": cache}
        for name, repeats in (("first_time", 1), ("later", 5)):
            times = []
            for _ in range(repeats):
                begin = time.time()
                result = subprocess.run(
                    [sys.executable, "-c", STARTER, str(PORT)],
                    env=environment, capture_output=True, text=True, check=True,
                )  # fmt: skip
                seen, memory = (float(word) for word in result.stdout.split())
                times.append(seen - begin)
            found[f"{name}_s"] = statistics.median(times)
            say(f"  {name.replace('_', ' ')}: {statistics.median(times):.2f} s")
    found["memory_mb"] = memory
    say(f"  memory while serving: {memory:.0f} MB")
    return found


def recorder(options: argparse.Namespace, say: Any) -> dict[str, Any]:
    """Processor time of the recorder for one vehicle, us a step, and MB of ten minutes."""
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as temporary:
        for airframe in ("iris", "iris_full"):
            frames = record_frames(airframe, Path(temporary) / f"{airframe}.frames").read_bytes()
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


MEASUREMENTS = {
    "start-up": (start_up, "from starting Python to the first sensor frame, and memory"),
    "steps": (fleet, "dynamics and sensors of the iris in flight, by number of vehicles, one core"),
    "built-in": (measure_built_in, "the built-in stack with dynamics and sensors, one core, processor time"),
    "avoidance": (avoidance, "predictive collision avoidance, per vehicle and tick, processor and wall time"),
    "recorder": (recorder, "a recording: processor time and bytes"),
    "perception": (perception, "a depth image and a lidar in each shipped world, processor time"),
    "lockstep": (lockstep, "lockstep with one real PX4, disarmed"),
    "fleet": (fleet_lockstep, "lockstep with several real PX4s in one world, disarmed"),
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
    parser.add_argument("--fleet", type=int, default=9, help="number of PX4s in one world")
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
