"""Flies a mission many times, each time with another seed, and counts the flights that succeeded; run it
through scripts/soak.

The run directories of failed flights are kept, those of the others only with --keep.  --load keeps a number
of processors busy.  Arguments after ``--`` are passed to ``sitl-bridge fly``.

``scripts/soak long WHAT`` runs one thing for long instead, and states what grew.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

BUSY = "while True: pass"
STOP = 30.0
"""s of wall time until an interrupted flight must have ended."""


@dataclass(frozen=True)
class Flown:
    """One flight.

    Attributes:
        seed: of the flight.
        reason: of a failure; empty if it succeeded.
        pace: simulated over wall time; nan if it is not known.
        closest: m between the closest pair in the air; inf for one vehicle.
        directory: of the run; None if there is none.
    """

    seed: int
    reason: str
    pace: float
    closest: float
    directory: Path | None


@contextlib.contextmanager
def load(count: int) -> Iterator[None]:
    """Keep ``count`` processors busy."""
    busy = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def fly(options: argparse.Namespace, seed: int, runs: Path) -> Flown:
    """One flight, in its own process."""
    command = [sys.executable, "-m", "sitl_bridge.cli.main", "fly", str(options.mission), *options.options]
    command += ["--headless", "--speed", options.speed, "--seed", str(seed), "--runs-dir", str(runs)]
    if options.px4 is not None:
        command += ["--px4", str(options.px4)]
    before = set(runs.iterdir())
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    reason = ""
    try:
        output = process.communicate(timeout=options.limit)[0]
    except subprocess.TimeoutExpired:
        reason = f"did not end within {options.limit:g} s"
        output = _stop(process)
    except KeyboardInterrupt:
        _stop(process)
        raise
    made = [path for path in runs.iterdir() if path not in before and not path.is_symlink()]
    directory = made[0] if made else None
    if directory is not None:
        (directory / "output.txt").write_text(output, encoding="utf-8")
    summary = _summary(directory)
    if process.returncode and not reason:
        last = next((line for line in reversed(output.splitlines()) if line.strip()), "no output")
        reason = "; ".join(summary.get("verdict", {}).get("reasons", ())) or last.strip()
    closest = (summary.get("closest") or {}).get("distance_m", float("inf"))
    return Flown(seed, reason, _pace(summary), closest, directory)


def _stop(process: subprocess.Popen[str]) -> str:
    """End a flight; returns its output."""
    process.terminate()
    try:
        return process.communicate(timeout=STOP)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()[0]


def _interrupt(_number: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt


def _summary(directory: Path | None) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError):
        if directory is not None:
            found: dict[str, Any] = json.loads((directory / "summary.json").read_text(encoding="utf-8"))
            return found
    return {}


def _pace(summary: dict[str, Any]) -> float:
    one = next(iter(summary.get("vehicles", {}).values()), summary)
    simulated, wall = one.get("simulated_seconds"), one.get("wall_seconds")
    return simulated / wall if simulated and wall else float("nan")


def report(flights: Sequence[Flown]) -> None:
    """Print how many flights succeeded, and the failures of the others."""
    good = [flight for flight in flights if not flight.reason]
    print(f"{len(good)} of {len(flights)} succeeded")
    for reason, count in Counter(flight.reason for flight in flights if flight.reason).most_common():
        print(f"  {count} x {reason}")
    if good:
        paces = [flight.pace for flight in good]
        print(f"median {statistics.median(paces):.1f} x real time, slowest {min(paces):.1f}")
        closest = min(flight.closest for flight in good)
        if closest < float("inf"):
            print(f"least distance of two vehicles in the air {closest:.2f} m")


def main() -> int:
    """Command line; the exit code is 0 if every flight succeeded."""
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").partition("; run it")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("mission", type=Path, help="plan, script or scenario")
    parser.add_argument("--times", type=int, default=10, metavar="N", help="number of flights")
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of the first flight; those of the others follow"
    )
    parser.add_argument("--px4", type=Path, metavar="DIR", help="PX4 checkout or build")
    parser.add_argument("--speed", default="max", help="simulated over real time")
    parser.add_argument("--load", type=int, default=0, metavar="N", help="number of processors to keep busy")
    parser.add_argument(
        "--limit", type=float, default=600.0, metavar="S", help="limit of wall time per flight in s"
    )
    parser.add_argument("--runs-dir", type=Path, help="parent of run directories; a new directory without it")
    parser.add_argument("--keep", action="store_true", help="keep the runs of successful flights, too")
    arguments = sys.argv[1:]
    if arguments[:1] == ["long"]:
        import long_day

        return long_day.main(arguments[1:])
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    options = parser.parse_args(arguments[:cut])
    options.options = arguments[cut + 1 :]
    if options.times < 1 or options.load < 0 or not options.limit > 0:
        parser.error("--times must be at least 1, --load at least 0, --limit above 0")
    runs = options.runs_dir or Path(tempfile.mkdtemp(prefix="sitl-bridge-soak-"))
    runs.mkdir(parents=True, exist_ok=True)
    flights: list[Flown] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    try:
        with load(options.load):
            for seed in range(options.seed, options.seed + options.times):
                begun = time.monotonic()
                flight = fly(options, seed, runs)
                flights.append(flight)
                near = f", closest pair {flight.closest:.2f} m" if flight.closest < float("inf") else ""
                what = f"failed: {flight.reason}" if flight.reason else "succeeded"
                print(
                    f"seed {seed}: {what}; {flight.pace:.1f} x real time{near},"
                    f" {time.monotonic() - begun:.0f} s in all",
                    flush=True,
                )
                if flight.reason:
                    print(f"  {flight.directory}", flush=True)
                elif flight.directory is not None and not options.keep:
                    shutil.rmtree(flight.directory)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    if flights:
        report(flights)
    return 0 if len(flights) == options.times and not any(flight.reason for flight in flights) else 1


if __name__ == "__main__":
    sys.exit(main())
