"""Flies for long, or again and again; run it through scripts/soak.

``scripts/soak MISSION`` flies a mission many times, each time with another seed, and counts the flights that
succeeded.  The run directories of failed flights are kept, those of the others only with --keep.  Arguments
after ``--`` are passed to ``sitl-bridge fly``.

``scripts/soak long WHAT`` runs one thing for long, and states what grew.  Memory, descriptors, threads and
processes are those of the program and all that it has started; files and disk those of its run directory.
Each line is one moment; the pace is simulated over wall time since then.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import psutil

import sitl_bridge as sb
from sitl_bridge.base.system.listening import is_listening
from sitl_bridge.record.truth_log import map_truth

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from support.background_process import background_process  # noqa: E402  (of the tests, not a package)

SITL = [sys.executable, "-m", "sitl_bridge"]
CAMPAIGNS = ROOT / "missions" / "campaigns"
PARTS = 10
"""Lines of a long run."""


class Flown(NamedTuple):
    """One flight."""

    reason: str  # of a failure; empty if it succeeded
    pace: float  # simulated over wall time; nan if it is not known
    closest: float  # m between the closest pair in the air; inf for one vehicle
    directory: Path | None  # of the run; None if there is none


def fly(options: argparse.Namespace, seed: int, runs: Path) -> Flown:
    """One flight, in its own process."""
    command = [*SITL, "fly", str(options.mission), *options.options, *options.px4]
    command += ["--headless", "--speed", options.speed, "--seed", str(seed), "--runs-dir", str(runs)]
    before, output, reason = set(runs.iterdir()), runs / f"{seed}.txt", ""
    with background_process(command, output, stop=signal.SIGTERM) as process:
        try:
            process.wait(options.limit)
        except subprocess.TimeoutExpired:
            reason = f"did not end within {options.limit:g} s"
    made = [path for path in runs.iterdir() if path not in before and path.is_dir() and not path.is_symlink()]
    directory, summary = made[0] if made else None, dict[str, Any]()
    if directory is not None:
        output = output.rename(directory / "output.txt")
        with contextlib.suppress(OSError, ValueError):
            summary = json.loads((directory / "summary.json").read_text(encoding="utf-8"))
    if process.returncode and not reason:
        last = output.read_text(encoding="utf-8", errors="replace").strip().rpartition("\n")[2]
        reason = "; ".join(summary.get("verdict", {}).get("reasons", ())) or last or "no output"
    one = next(iter(summary.get("vehicles", {}).values()), summary)
    simulated, wall = one.get("simulated_seconds"), one.get("wall_seconds")
    closest = (summary.get("closest") or {}).get("distance_m", float("inf"))
    return Flown(reason, simulated / wall if simulated and wall else float("nan"), closest, directory)


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


def fly_often(options: argparse.Namespace) -> int:
    """Fly a mission many times; the exit code is 0 if every flight succeeded."""
    runs = options.runs_dir or Path(tempfile.mkdtemp(prefix="sitl-bridge-soak-"))
    runs.mkdir(parents=True, exist_ok=True)
    flights: list[Flown] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    with contextlib.ExitStack() as ended, contextlib.suppress(KeyboardInterrupt):
        for _ in range(options.load):
            busy = ended.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            ended.callback(busy.kill)
        for seed in range(options.seed, options.seed + options.times):
            begun = time.monotonic()
            flight = fly(options, seed, runs)
            flights.append(flight)
            near = f", closest pair {flight.closest:.2f} m" if flight.closest < float("inf") else ""
            what = f"failed: {flight.reason}" if flight.reason else "succeeded"
            seconds = f"{time.monotonic() - begun:.0f} s in all"
            print(f"seed {seed}: {what}; {flight.pace:.1f} x real time{near}, {seconds}", flush=True)
            if flight.reason:
                print(f"  {flight.directory}", flush=True)
            elif flight.directory is not None and not options.keep:
                shutil.rmtree(flight.directory)
    if len(flights) < options.times:
        print("interrupted", flush=True)
    if flights:
        report(flights)
    return 0 if len(flights) == options.times and not any(flight.reason for flight in flights) else 1


class Watch:
    """Measures a program and what it writes.

    Args:
        pid: of the program.
        place: what it writes into.
    """

    def __init__(self, pid: int, place: Path) -> None:
        self._program, self._place = psutil.Process(pid), place
        self._begun = self._last = time.monotonic()
        self._simulated = 0.0
        print("wall s  simulated s  pace  memory MB  descriptors  threads  processes  files  disk MB")

    def note(self, done: str = "") -> None:
        """Print a line."""
        found = []
        for one in [self._program, *self._program.children(recursive=True)]:
            with contextlib.suppress(psutil.Error):  # it ended meanwhile
                found.append((one.memory_full_info().uss, one.num_fds(), one.num_threads(), 1))
        memory, descriptors, threads, count = map(sum, zip(*found, strict=True)) if found else (0, 0, 0, 0)
        files = [path for path in self._place.rglob("*") if path.is_file() and not path.is_symlink()]
        disk, now, simulated = sum(path.stat().st_size for path in files), time.monotonic(), self._time()
        pace = (simulated - self._simulated) / (now - self._last)
        print(
            f"{now - self._begun:6.0f}  {simulated:11.0f}  {pace:4.1f}  {memory / 1e6:9.1f}"
            f"  {descriptors:11d}  {threads:7d}  {count:9d}  {len(files):5d}  {disk / 1e6:7.1f}  {done}",
            flush=True,
        )
        self._last, self._simulated = now, simulated

    def _time(self) -> float:
        with contextlib.suppress(sb.UserError, OSError, IndexError, ValueError):
            return float(map_truth(self._place / "latest" / "truth.npy")[0]["time"][-1]) * 1e-6
        return 0.0


@contextlib.contextmanager
def run_program(*arguments: str, place: Path) -> Iterator[tuple[subprocess.Popen[bytes], Watch]]:
    """A program of this package with its output in a file, watched, and interrupted at the end."""
    with background_process([*SITL, *arguments], place / "output.txt") as process:
        yield process, Watch(process.pid, place)


def write_lasting_airframe(place: Path) -> Path:
    """An airframe whose battery lasts."""
    airframe = place / "lasting.yaml"
    airframe.write_text("name: lasting\nbase: iris\nbattery: {capacity: 1000}\n", encoding="utf-8")
    return airframe


def judge(place: Path) -> None:
    """Print the verdict, and how long the report takes."""
    begun = time.monotonic()
    subprocess.run([*SITL, "report", str(place / "latest")], check=True, stdout=subprocess.DEVNULL)
    summary = json.loads((place / "latest" / "summary.json").read_text(encoding="utf-8"))
    print(f"{summary['verdict']['word']}; report in {time.monotonic() - begun:.1f} s")


def ten_hours(place: Path, options: argparse.Namespace) -> None:
    """Hover for ten hours on the built-in stack in this process; the last line is of the report."""
    watched = Watch(os.getpid(), place)
    with sb.Sitl(write_lasting_airframe(place), runs=place) as sitl:
        sitl.vehicle.arm()
        sitl.vehicle.take_off(10.0)
        for _ in range(PARTS):
            sitl.run(36_000.0 * options.scale / PARTS)
            watched.note()
        sitl.vehicle.land()
    judge(place)


def hover(place: Path, options: argparse.Namespace, count: int = 1, hours: float = 2.0) -> None:
    """Hover at full speed over the link; the last line is of the report."""
    fleet = {"airframe": str(write_lasting_airframe(place)), "count": count, "grid": {"spacing": 4}}
    arguments, scenario = ["--seconds", str(3600.0 * hours * options.scale)], place / "hover.yaml"
    mission = {"mission": str(CAMPAIGNS.parent / "fleet_hover.py"), "arguments": arguments}
    scenario.write_text(json.dumps({"vehicles": [fleet], **mission}), encoding="utf-8")
    command = ["fly", str(scenario), *(options.px4 or ["--autopilot", "builtin"])]
    command += ["--speed", "max", "--headless", "--runs-dir", str(place)]
    with run_program(*command, place=place) as (process, watched):
        while process.poll() is None:
            try:
                process.wait(options.every)
            except subprocess.TimeoutExpired:
                watched.note()
    if not (place / "latest" / "summary.json").is_file():
        raise SystemExit((place / "output.txt").read_text(encoding="utf-8"))
    judge(place)


def nine(place: Path, options: argparse.Namespace) -> None:
    """Hover with nine for an hour, the same way."""
    hover(place, options, count=9, hours=1.0)


def starts(place: Path, options: argparse.Namespace) -> None:
    """A thousand starts and resets of sb.Sitl in one process, with a take-off each."""
    watched, count = Watch(os.getpid(), place), max(PARTS, round(1000 * options.scale))
    for number in range(count):
        with sb.Sitl("iris", seed=number) as sitl:
            sitl.reset(seed=number + 1)
            sitl.vehicle.arm()
            sitl.vehicle.take_off(2.0, wait=False)
            sitl.run(0.5)
        if (number + 1) % (count // PARTS) == 0:
            watched.note(f"{number + 1} starts and resets")


def page(place: Path, options: argparse.Namespace) -> None:
    """An hour of the live page with five clients that read all it sends; one is Chromium if there is one."""
    import viser
    from make_pictures import open_page
    from websockets.sync.client import connect
    from websockets.typing import Origin, Subprotocol

    port, read, stop = _free_port(), [0] * 5, threading.Event()
    protocol, own = [Subprotocol(f"viser-v{viser.__version__}")], Origin(f"http://127.0.0.1:{port}")

    def listen(number: int) -> None:
        with connect(f"ws://127.0.0.1:{port}", origin=own, subprotocols=protocol, max_size=None) as client:
            while not stop.is_set():
                with contextlib.suppress(TimeoutError):
                    read[number] += len(client.recv(1.0))

    def browse(_number: int) -> None:
        with open_page(own, 300, 200) as shown:
            while not stop.is_set():
                shown.wait_for_timeout(1000)

    command = ["start", "--autopilot", "builtin", "--view", str(port), "--headless", "--runs-dir", str(place)]
    with run_program(*command, "--speed", f"{options.speed:g}", place=place) as (process, watched):
        _await_port(port)
        kinds = [*[listen] * 4, browse if shutil.which("chromium") else listen]
        clients = [threading.Thread(target=kind, args=(i,), daemon=True) for i, kind in enumerate(kinds)]
        for client in clients:
            client.start()
        for _ in range(PARTS):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(3600.0 * options.scale / options.speed / PARTS)
                break
            alive = [kind.__name__ for kind, client in zip(kinds, clients, strict=True) if client.is_alive()]
            watched.note(f"{dict(Counter(alive))}, {sum(read) / 1e6:.1f} MB read")
        stop.set()
        for client in clients:
            client.join(60.0)


@contextlib.contextmanager
def hear_bus(port: int, hear: Callable[[str, bytes], None], *topics: str) -> Iterator[Any]:
    """A client of a broker on this machine, which may leave and return; ``hear`` takes topic and message."""
    import paho.mqtt.client as mqtt

    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)  # type: ignore[attr-defined]
    client.on_connect = lambda client, *_: client.subscribe([(topic, 1) for topic in topics])
    client.on_message = lambda _client, _data, message: hear(message.topic, bytes(message.payload))
    client.reconnect_delay_set(min_delay=1, max_delay=1)
    client.connect("127.0.0.1", port)
    client.loop_start()
    yield client
    client.loop_stop()


def broker(place: Path, options: argparse.Namespace) -> None:
    """Mosquitto leaves a hundred times for a second and returns; a client counts states that it hears."""
    port, heard = _free_port(), [0]
    settings = place / "mosquitto.conf"
    settings.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\n", encoding="utf-8")
    mosquitto = shutil.which("mosquitto", path=os.environ["PATH"] + ":/usr/sbin")
    if mosquitto is None:
        raise SystemExit("there is no mosquitto: install it (apt install mosquitto)")

    def begin() -> subprocess.Popen[bytes]:
        process = subprocess.Popen([mosquitto, "-c", str(settings)], stderr=subprocess.DEVNULL)
        _await_port(port)
        return process

    def hear(_topic: str, _message: bytes) -> None:
        heard[0] += 1

    process, silent, count = begin(), 0, max(PARTS, round(100 * options.scale))
    bus = ["--bus", f"mqtt://127.0.0.1:{port}?run=soak", "--headless", "--runs-dir", str(place)]
    with (
        run_program("start", "--autopilot", "builtin", *bus, place=place) as (_, watched),
        hear_bus(port, hear, "sitl/soak/vehicle/0/state"),
    ):
        for number in range(count):
            process.kill()
            process.wait()
            time.sleep(1.0)
            process, before = begin(), heard[0]
            end = time.monotonic() + 20.0
            while heard[0] == before and time.monotonic() < end:
                time.sleep(0.1)
            silent += heard[0] == before
            if (number + 1) % (count // PARTS) == 0:
                watched.note(f"{number + 1} returns, {silent} without a state within 20 s")
    process.kill()
    process.wait()


def commands(place: Path, options: argparse.Namespace) -> None:
    """Ten minutes of 10,000 commands of the bus a minute; the status has its counts."""
    port, counts, answers = _free_port(), dict[str, Any](), [0]
    wind = {"version": 1, "direction": 0}

    def hear(topic: str, message: bytes) -> None:
        if topic.endswith("/status"):
            counts.update(json.loads(message or b"{}"))
        else:
            answers[0] += bool(message)

    bus = ["--bus", f"embedded:{port}", "--headless", "--runs-dir", str(place)]
    with run_program("start", "--autopilot", "builtin", *bus, place=place) as (_, watched):
        _await_port(port)
        while not (place / "latest" / "run.json").is_file():
            time.sleep(0.1)
        run = f"sitl/{(place / 'latest').resolve().name}"
        with hear_bus(port, hear, f"{run}/reply/#", f"{run}/status") as client:
            seconds, sent, begun = 600.0 * options.scale, 0, time.monotonic()
            for part in range(1, PARTS + 1):
                while (spent := time.monotonic() - begun) < part * seconds / PARTS:
                    for _ in range(round(spent * 10_000 / 60) - sent):
                        sent += 1
                        body = wind | {"request_id": f"s{sent}", "speed": 1.0 + sent % 5}
                        client.publish(f"{run}/command/wind", json.dumps(body), qos=1)
                    time.sleep(0.02)
                counted = {name: counts.get(name) for name in ("executed", "refused", "unanswered")}
                watched.note(f"{sent} sent, {answers[0]} answers, {counted}")


def campaign(place: Path, options: argparse.Namespace) -> None:
    """A campaign of 2,000 flights that is interrupted ten times."""
    count = max(PARTS, round(2000 * options.scale))
    file, rows = place / "soak.yaml", place / "soak" / "rows.jsonl"
    vary = "vary: {world.wind.steady.speed: 'uniform(0, 8)'}"
    file.write_text(f"base: {CAMPAIGNS / 'hop.yaml'}\n{vary}\nruns: {count}\n", encoding="utf-8")
    command = ["campaign", "run", str(file), "--out", str(rows.parent)]
    for part in range(1, PARTS + 2):
        with run_program(*command, place=place) as (program, watched):
            while program.poll() is None and len(_lines(rows)) < part * count / (PARTS + 1):
                time.sleep(0.2)
            if program.poll() is None:
                watched.note(f"{len(_lines(rows))} of {count} flights")
    ids = [json.loads(line).get("id") for line in _lines(rows)]
    print(f"{len(ids)} rows, {len(set(ids))} flights of {count}")


def _lines(file: Path) -> list[bytes]:
    return file.read_bytes().splitlines() if file.is_file() else []


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def _await_port(port: int) -> None:
    from support.waiting import wait_until  # loads pytest, which is not to count where this process flies

    wait_until(lambda: is_listening(port), f"port {port}", 300.0)


KINDS = {kind.__name__: kind for kind in (hover, nine, ten_hours, starts, page, campaign, broker, commands)}
"""What runs for long."""


def main() -> int:
    """Command line; the exit code is 0 if every flight succeeded."""
    long = sys.argv[1:2] == ["long"]
    parser = argparse.ArgumentParser(f"scripts/soak{' long' * long}", description=__doc__)
    add = parser.add_argument
    add("--px4", type=lambda place: ["--px4", place], default=[], metavar="DIR", help="PX4 to fly")
    if long:
        add("what", choices=KINDS)
        add("--scale", type=float, default=1.0, help="part of the whole length (1)")
        add("--speed", type=float, default=1.0, help="simulated over real time of the page (1)")
        add("--every", type=float, default=60.0, help="s of wall time between lines (60)")
        options = parser.parse_args(sys.argv[2:])
        with tempfile.TemporaryDirectory(prefix="sitl-bridge-long-") as place:
            KINDS[options.what](Path(place), options)
        return 0
    add("mission", type=Path, help="plan, script or scenario")
    add("--times", type=int, default=10, help="number of flights (10)")
    add("--seed", type=int, default=0, help="of the first flight; those of the others follow (0)")
    add("--speed", default="max", help="simulated over real time (max)")
    add("--load", type=int, default=0, help="number of processors to keep busy (0)")
    add("--limit", type=float, default=600.0, help="s of wall time of one flight, at most (600)")
    add("--runs-dir", type=Path, help="parent of run directories; a new directory without it")
    add("--keep", action="store_true", help="keep the runs of successful flights, too")
    cut = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    options = parser.parse_args(sys.argv[1:cut])
    options.options = sys.argv[cut + 1 :]
    if options.times < 1 or options.load < 0 or not options.limit > 0:
        parser.error("--times must be at least 1, --load at least 0, --limit above 0")
    return fly_often(options)


if __name__ == "__main__":
    sys.exit(main())
