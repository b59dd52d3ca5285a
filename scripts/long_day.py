"""Runs one thing for long, and states what grew: ``scripts/soak long WHAT``.

Memory, descriptors, threads and processes are those of the program and all that it has started; files and
disk those of its run directory.  Each line is one moment; the pace is simulated over wall time since then.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil

import sitl_bridge as sb
from sitl_bridge.record.truth_log import map_truth

SITL = [sys.executable, "-m", "sitl_bridge"]
PARTS = 10
"""Lines of a run."""


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
        memory = descriptors = threads = count = 0
        for one in [self._program, *self._program.children(recursive=True)]:
            with contextlib.suppress(psutil.Error):  # it ended meanwhile
                memory += one.memory_full_info().uss
                descriptors, threads, count = (
                    descriptors + one.num_fds(),
                    threads + one.num_threads(),
                    count + 1,
                )
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
def run_program(*arguments: str, place: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A program of this package with its output in a file, interrupted at the end."""
    with (place / "output.txt").open("ab") as output:
        process = subprocess.Popen([*SITL, *arguments], stdout=output, stderr=subprocess.STDOUT)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(120)


def watch(process: subprocess.Popen[bytes], place: Path, seconds: float, done: Callable[[], str]) -> None:
    """Print lines for a time, or until the program ends."""
    seen, pause = Watch(process.pid, place), seconds / PARTS
    for _ in range(PARTS):
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(pause)
            return
        seen.note(done())


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


def hover(place: Path, options: argparse.Namespace, hours: float = 2.0, count: int = 1) -> None:
    """Hover at full speed over the link; the last line is of the report."""
    airframe, plan, scenario = write_lasting_airframe(place), place / "hover.plan", place / "hover.yaml"
    seconds = 3600.0 * hours * options.scale
    home = [47.397742, 8.545594]
    item = {"type": "SimpleItem", "frame": 3, "autoContinue": True}
    items = [
        item | {"command": command, "doJumpId": number, "params": [hold, 0, 0, None, *home, 10]}
        for number, (command, hold) in enumerate([(22, 0), (16, seconds), (21, 0)], 1)
    ]
    mission: dict[str, Any] = {"plannedHomePosition": [*home, 488], "items": items}
    mission |= {"version": 2, "firmwareType": 12, "vehicleType": 2, "cruiseSpeed": 5, "hoverSpeed": 5}
    text: dict[str, Any] = {
        "fileType": "Plan",
        "version": 1,
        "groundStation": "QGroundControl",
        "mission": mission,
    }
    text |= {"geoFence": {"circles": [], "polygons": [], "version": 2}}
    text |= {"rallyPoints": {"points": [], "version": 2}}
    plan.write_text(json.dumps(text), encoding="utf-8")
    each = [
        {"airframe": str(airframe), "mission": str(plan), "position": [0, 3 * n, 0]} for n in range(count)
    ]
    scenario.write_text(json.dumps({"vehicles": each}), encoding="utf-8")
    stack = ["--autopilot", "builtin"] if options.px4 is None else ["--px4", str(options.px4)]
    command = ["fly", str(scenario), *stack, "--speed", "max", "--headless", "--runs-dir", str(place)]
    with run_program(*command, place=place) as process:
        watched = Watch(process.pid, place)
        while process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(options.every)
            if process.poll() is None:
                watched.note()
    if not (place / "latest" / "summary.json").is_file():
        raise SystemExit((place / "output.txt").read_text(encoding="utf-8"))
    judge(place)


def start_often(place: Path, options: argparse.Namespace) -> None:
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
    from websockets.sync.client import connect
    from websockets.typing import Origin, Subprotocol

    browser, count = shutil.which("chromium"), 5 - bool(shutil.which("chromium"))
    port, read, stop = _free_port(), [0] * count, threading.Event()
    protocol, own = [Subprotocol(f"viser-v{viser.__version__}")], Origin(f"http://127.0.0.1:{port}")

    def listen(number: int) -> None:
        with connect(f"ws://127.0.0.1:{port}", origin=own, subprotocols=protocol, max_size=None) as client:
            while not stop.is_set():
                with contextlib.suppress(TimeoutError):
                    read[number] += len(client.recv(1.0))

    command = ["start", "--autopilot", "builtin", "--view", str(port), "--headless", "--runs-dir", str(place)]
    with (
        contextlib.ExitStack() as ended,
        run_program(*command, "--speed", f"{options.speed:g}", place=place) as process,
    ):
        _wait_for(port)
        clients = [threading.Thread(target=listen, args=(number,), daemon=True) for number in range(count)]
        for client in clients:
            client.start()
        if browser is not None:
            software = ["--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--window-size=300,200"]
            profile = ended.enter_context(tempfile.TemporaryDirectory(prefix="sitl-bridge-chromium-"))
            own_directory = f"--user-data-dir={profile}"
            shown = [browser, "--headless=new", "--no-sandbox", *software, "--remote-debugging-port=0"]
            environment = os.environ | {"TMPDIR": profile}
            page = subprocess.Popen([*shown, own_directory, own], env=environment, stderr=subprocess.DEVNULL)
            ended.callback(_end, page)

        def done() -> str:
            alive = sum(client.is_alive() for client in clients)
            seen = "" if browser is None else f", Chromium {'runs' if page.poll() is None else 'ended'}"
            return f"{alive} clients, {sum(read) / 1e6:.1f} MB read{seen}"

        watch(process, place, 3600.0 * options.scale / options.speed, done)
        stop.set()


def _end(browser: subprocess.Popen[bytes]) -> None:
    """End a browser; its processes write into its directory to the last."""
    family = psutil.Process(browser.pid).children(recursive=True)
    browser.terminate()
    browser.wait()
    psutil.wait_procs(family, 20.0)


def broker(place: Path, options: argparse.Namespace) -> None:
    """Mosquitto leaves a hundred times for a second and returns; a client counts states that it hears."""
    import paho.mqtt.client as mqtt

    port, heard = _free_port(), [0]
    settings = place / "mosquitto.conf"
    settings.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\n", encoding="utf-8")
    mosquitto = shutil.which("mosquitto", path=os.environ["PATH"] + ":/usr/sbin")
    if mosquitto is None:
        raise SystemExit("there is no mosquitto: install it (apt install mosquitto)")

    def begin() -> subprocess.Popen[bytes]:
        process = subprocess.Popen([mosquitto, "-c", str(settings)], stderr=subprocess.DEVNULL)
        _wait_for(port)
        return process

    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)  # type: ignore[attr-defined]
    client.on_connect = lambda client, *_: client.subscribe("sitl/soak/vehicle/0/state")
    client.on_message = lambda *_: heard.__setitem__(0, heard[0] + 1)
    client.reconnect_delay_set(min_delay=1, max_delay=1)
    process, silent, count = begin(), 0, max(PARTS, round(100 * options.scale))
    bus = ["--bus", f"mqtt://127.0.0.1:{port}?run=soak", "--headless", "--runs-dir", str(place)]
    with run_program("start", "--autopilot", "builtin", *bus, place=place) as program:
        client.connect("127.0.0.1", port)
        client.loop_start()
        watched = Watch(program.pid, place)
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
        client.loop_stop()
    process.kill()
    process.wait()


def commands(place: Path, options: argparse.Namespace) -> None:
    """Ten minutes of 10,000 commands of the bus a minute; the status has its counts."""
    import paho.mqtt.client as mqtt

    port, counts, answers = _free_port(), dict[str, Any](), [0]

    def hear(_client: object, _data: object, message: Any) -> None:
        if message.topic.endswith("/status"):
            counts.update(json.loads(message.payload or b"{}"))
        else:
            answers[0] += bool(message.payload)

    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)  # type: ignore[attr-defined]
    client.on_message = hear
    bus = ["--bus", f"embedded:{port}", "--headless", "--runs-dir", str(place)]
    with run_program("start", "--autopilot", "builtin", *bus, place=place) as program:
        _wait_for(port)
        client.connect("127.0.0.1", port)
        client.loop_start()
        while not list(place.glob("latest/run.json")):
            time.sleep(0.1)
        run = (place / "latest").resolve().name
        client.subscribe([(f"sitl/{run}/reply/#", 1), (f"sitl/{run}/status", 1)])
        watched, seconds = Watch(program.pid, place), 600.0 * options.scale
        sent, begun = 0, time.monotonic()
        for part in range(1, PARTS + 1):
            while (spent := time.monotonic() - begun) < part * seconds / PARTS:
                for _ in range(round(spent * 10_000 / 60) - sent):
                    sent += 1
                    body = {"version": 1, "request_id": f"s{sent}", "speed": 1.0 + sent % 5, "direction": 0}
                    client.publish(f"sitl/{run}/command/wind", json.dumps(body), qos=1)
                time.sleep(0.02)
            counted = {name: counts.get(name) for name in ("executed", "refused", "unanswered")}
            watched.note(f"{sent} sent, {answers[0]} answers, {counted}")
        client.loop_stop()


def campaign(place: Path, options: argparse.Namespace) -> None:
    """A campaign of 2,000 flights that is interrupted ten times."""
    count = max(PARTS, round(2000 * options.scale))
    missions = Path(__file__).parent.parent / "missions" / "campaigns"
    file = place / "soak.yaml"
    vary = "vary: {world.wind.steady.speed: 'uniform(0, 8)'}"
    file.write_text(f"base: {missions / 'hop.yaml'}\n{vary}\nruns: {count}\n", encoding="utf-8")
    rows, watched = place / "soak" / "rows.jsonl", None
    for part in range(1, PARTS + 2):
        with run_program("campaign", "run", str(file), "--out", str(rows.parent), place=place) as program:
            watched = Watch(program.pid, rows.parent)
            while program.poll() is None and _lines(rows) < part * count / (PARTS + 1):
                time.sleep(0.2)
            if program.poll() is None:
                watched.note(f"{_lines(rows)} of {count} flights")
    text = rows.read_text(encoding="utf-8").splitlines()
    ids = [json.loads(line).get("id") for line in text]
    print(f"{len(ids)} rows, {len(set(ids))} flights of {count}")


def _lines(file: Path) -> int:
    return len(file.read_bytes().splitlines()) if file.is_file() else 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(port: int) -> None:
    for _ in range(3000):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
            return
        time.sleep(0.1)
    raise SystemExit(f"nobody listens at port {port}")


KINDS: dict[str, Callable[[Path, argparse.Namespace], None]] = {
    "hover": hover,
    "ten_hours": ten_hours,
    "nine": lambda place, options: hover(place, options, hours=1.0, count=9),
    "starts": start_often,
    "page": page,
    "campaign": campaign,
    "broker": broker,
    "commands": commands,
}


def main(arguments: list[str]) -> int:
    """Command line of ``scripts/soak long``."""
    parser = argparse.ArgumentParser(prog="scripts/soak long", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", choices=KINDS)
    parser.add_argument("--px4", type=Path, metavar="DIR", help="fly this PX4, not the built-in stack")
    parser.add_argument("--scale", type=float, default=1.0, help="part of the whole length")
    parser.add_argument("--speed", type=float, default=1.0, help="simulated over real time of the page")
    parser.add_argument("--every", type=float, default=60.0, metavar="S", help="s of wall time between lines")
    options = parser.parse_args(arguments)
    place = Path(tempfile.mkdtemp(prefix="sitl-bridge-long-"))
    try:
        KINDS[options.what](place, options)
    finally:
        shutil.rmtree(place)
    return 0
