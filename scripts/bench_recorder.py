"""Measures what a recording costs: `scripts/bench recorder`.

Processor time of a step with the recorder, its part of it, the bytes of a flight and the conversion to MCAP.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sitl_bridge.analysis.export.mcap_file import write_mcap
from sitl_bridge.base.error_log import ErrorLog
from sitl_bridge.core.dynamics.proximity import Proximity
from sitl_bridge.core.simulation.simulation import Simulation, VehicleSetup
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.world import World
from sitl_bridge.record.records import ROW, STEP
from sitl_bridge.record.run_description import describe_simulation
from sitl_bridge.record.run_directory import RunDirectory
from sitl_bridge.record.run_reader import RecordedRun
from sitl_bridge.record.run_recorder import RunRecorder

BATCH = 250
"""Steps that are written at once, about as many as the bridge collects."""
FLIGHT = 600.0
"""s of the flight whose size is given."""


def cost_of_writing(frames: bytes, steps_of_frames: int, seconds: float) -> tuple[float, float]:
    """Processor time of the recorder for one vehicle, us a step, and bytes a step.

    Args:
        frames: of some steps, as the bridge sends them.
        steps_of_frames: how many.
        seconds: of simulated time that are written.
    """
    rows, marks = np.zeros(BATCH, ROW), np.zeros(BATCH, STEP)
    size = len(frames) * BATCH // steps_of_frames
    data = np.resize(np.frombuffer(frames, np.uint8), size)
    count = round(seconds / 0.004 / BATCH)
    with tempfile.TemporaryDirectory() as place, RunRecorder(Path(place), ErrorLog()) as recorder:
        recorder.write(rows, data, marks)
        begin = time.process_time()
        for k in range(count):
            rows["time"] = k
            recorder.write(rows, data, marks)
        took = time.process_time() - begin
        recorder.close()
        total = sum(file.stat().st_size for file in Path(place).iterdir())
    return 1e6 * took / (count * BATCH), total / ((count + 1) * BATCH)


def converted(run: Path) -> tuple[float, int]:
    """Simulated seconds of a recorded run over the processor time of its conversion, and the MCAP's bytes."""
    recorded = RecordedRun(run)
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "run.mcap"
        write_mcap(recorded, file)
        begin = time.process_time()
        write_mcap(recorded, file)
        took = time.process_time() - begin
        size = file.stat().st_size
    return float(recorded.rows["time"][-1] - recorded.start) * 1e-6 / took, size


def recorded_run(place: Path, airframe: str, frames: bytes, steps_of_frames: int, seconds: float) -> Path:
    """A run directory of so many seconds with the frames of a vehicle at rest."""
    frame = load_airframe(airframe)
    setup = VehicleSetup(frame.vehicle(), frame.sensor_records(), name="0")
    simulation = Simulation(World(), [setup], seed=1)
    directory = RunDirectory(place, "bench")
    directory.describe(**describe_simulation("serve", simulation, [frame], Proximity()))
    count = round(seconds / 0.004)
    rows, marks = np.zeros(count, ROW), np.zeros(count, STEP)
    rows["time"] = simulation.start + 4000 * (np.arange(count) + 1)
    rows["attitude"][:, 0] = 1.0
    sizes = frame_sizes(frames)
    assert len(sizes) == steps_of_frames
    rows["frame_bytes"] = np.resize(sizes, count)
    with RunRecorder(directory.path, ErrorLog()) as recorder:
        recorder.write(
            rows, np.resize(np.frombuffer(frames, np.uint8), int(rows["frame_bytes"].sum())), marks
        )
    directory.close()
    return directory.path


def frame_sizes(frames: bytes) -> np.ndarray[Any, Any]:
    """Bytes of each step: HIL_SENSOR (107) of the first instance begins one."""
    at, begins = 0, []
    while at < len(frames):
        message = int.from_bytes(frames[at + 7 : at + 10], "little")
        if message == 107 and (not begins or _time(frames, at) != _time(frames, begins[-1])):
            begins.append(at)
        at += 12 + frames[at + 1]
    return np.diff([*begins, len(frames)])


def _time(frames: bytes, at: int) -> bytes:
    return frames[at + 10 : at + 18]


def recorder(
    frames: Callable[[str, Path], Path],
    factor: Callable[[Path, bool], float] | None,
    repeats: int,
    say: Any,
) -> dict[str, Any]:
    """Cost of recording and of conversion.

    Args:
        frames: writes the frames of two seconds of an airframe into a file.
        factor: real-time factor with real PX4 in a directory, with and without a recording; None without PX4.
        repeats: rounds.
        say: prints a line.
    """
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        for airframe in ("iris", "iris_full"):
            data = frames(airframe, place / f"{airframe}.frames").read_bytes()
            steps = len(frame_sizes(data))
            found = [cost_of_writing(data, steps, 60.0) for _ in range(repeats)]
            cost, size = statistics.median(c for c, _ in found), found[0][1]
            run = recorded_run(place / airframe, airframe, data, steps, 60.0)
            speeds = [converted(run)[0] for _ in range(repeats)]
            result[airframe] = {
                "us": cost,
                "megabytes": size * FLIGHT / 0.004 * 1e-6,
                "conversion": statistics.median(speeds),
            }
            say(
                f"  {airframe}: {cost:.2f} us a step, {result[airframe]['megabytes']:.0f} MB in"
                f" {FLIGHT:.0f} s, converted to MCAP at {statistics.median(speeds):.0f} times real time"
            )
        if factor is not None:
            pairs = []
            for k in range(repeats):
                order = (False, True) if k % 2 == 0 else (True, False)
                one = {kept: factor(place / f"{k}-{kept}", kept) for kept in order}
                pairs.append((one[True], one[False]))
                say(f"  round {k + 1}: {one[False]:.2f} x without, {one[True]:.2f} x with a recording")
            result["ratio"] = statistics.median(a / b for a, b in pairs)
            say(f"  with a recording {result['ratio']:.3f} of the speed without")
    return result
