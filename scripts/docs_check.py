"""Runs every `sitl-bridge` line and shipped program of README and docs/, each page with its files.

    scripts/docs-check                        # with the built-in flight stack
    scripts/docs-check --px4 ~/PX4-Autopilot  # with PX4
    scripts/docs-check --only fly.md view.md  # lines of pages, or lines, that contain one of the texts

A flight without --speed is flown as fast as possible.  Names that stand for something of the reader's (RUN,
flight.ulg, my_script.py) are made first, from a flight of the square.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from support.background_process import background_process  # noqa: E402  (of the tests, not a package)
from support.docs_pages import NAMES, PAGES, command_lines, write_files  # noqa: E402

PROGRAMS = ROOT / ".venv" / "bin"
LIMIT = 1800.0
"""s of wall time for one command."""
STARTED = 45.0
"""s after which a command that runs until Ctrl-C counts as running."""

LASTING = ("serve", "start", "view", "autopilot")
"""Commands that run until Ctrl-C."""

SKIPPED = {
    "dask://": "needs a scheduler of Dask",
    "orbslam": "needs ORB-SLAM",
    "PX4-gazebo-models": "needs a checkout of PX4-gazebo-models",
    "--viewer": "needs a viewer that listens",
    "--ros2-wait": "needs a ROS 2 node (tests/live/test_ros2.py)",
    "--host 0.0.0.0": "opens a port to the network",
    "serve --view 9000": "the same as `fly --view`, with a port of its own",
    "0.0.0.0:9000": "opens a port to the network",
    "udpin://0.0.0.0:14540": "flies the containers (tests/project/test_docker_engine.py)",
    "--install-completion": "changes the shell's start-up files",
    "mavsdk3": "needs an environment with MAVSDK 3",
    "esc_status_log.ulg": "needs the log of a real flight (tests/lab/test_real_log.py)",
}
"""Parts of lines that cannot run here, and why."""


def main() -> None:
    """Run the lines and count."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--px4", type=Path, help="PX4 checkout or build to fly (default: the built-in stack)")
    parser.add_argument("--only", nargs="+", default=[""], metavar="TEXT", help="in a page's name or a line")
    options = parser.parse_args()
    lines = [
        (name, page, line)
        for name, page in zip(NAMES, PAGES, strict=True)
        for line in dict.fromkeys(command_lines(page))
        if any(text in name or text in line for text in options.only)
    ]
    if not lines:
        parser.error(f"no line, and no name of a page with lines, contains {' or '.join(options.only)}")
    counts = {"ok": 0, "failed": 0, "skipped": 0}
    with tempfile.TemporaryDirectory(prefix="docs-check-") as place:
        base = Path(place) / "base"
        prepare(base, options.px4)
        for (name, page), of_page in itertools.groupby(lines, key=lambda row: row[:2]):
            with tempfile.TemporaryDirectory(prefix="page-", dir=place) as of_its_own:
                directory = shutil.copytree(base, Path(of_its_own) / "work", symlinks=True)
                write_files(page, directory)
                for _, _, line in of_page:
                    began = time.monotonic()
                    outcome, words = run_line(line, directory, options.px4)
                    counts[outcome] += 1
                    seconds = f"{time.monotonic() - began:4.0f} s  "
                    print(f"{outcome:8}{seconds}{name}: {line}{': ' + words if words else ''}", flush=True)
    print(", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    sys.exit(1 if counts["failed"] else 0)


def environment(px4: Path | None) -> dict[str, str]:
    """Of the commands; without PX4, none is found."""
    given = {name: value for name, value in os.environ.items() if name != "PX4_DIR"}
    given["PATH"] = f"{PROGRAMS}{os.pathsep}{given['PATH']}"
    return given if px4 is None else given | {"PX4_DIR": str(px4.resolve())}


def prepare(base: Path, px4: Path | None) -> None:
    """Make what the lines name: a flight, its log, copies of shipped files under the reader's names."""
    base.mkdir()
    for shared in ("missions", "airframes", "tests/data", "docs/examples"):
        shutil.copytree(ROOT / shared, base / shared)
    for name in ("square.plan", "formation_cube.yaml", "fleet_hover.py"):
        shutil.copy(ROOT / "missions" / name, base / name)
    for name, shipped in (("my_script.py", "hover.py"), ("fleet.yaml", "fleet_hover.yaml")):
        shutil.copy(ROOT / "missions" / shipped, base / name)
    for name in ("my_prior.yaml", "mine.yaml"):
        (base / name).write_text("base: iris\nname: mine\ndescription: An iris\n", encoding="utf-8")
    flight = ["sitl-bridge", *stack("fly", px4), "square.plan", "--speed", "max", "--headless"]
    outcome, words = run(flight, base, px4)
    if outcome != "ok":
        sys.exit(f"the flight of the square, whose files the lines name: {words}")
    flown = (base / "runs" / "latest").resolve()
    for name in ("A", "B"):
        shutil.copytree(flown, base / "runs" / name)
    (log,) = sorted(flown.rglob("*.ulg"))[:1]
    for name in ("flight.ulg", "another.ulg"):
        shutil.copy(log, base / name)
    for name in ("FLIGHTS", "OTHER_FLIGHTS"):
        (base / name).mkdir()
        for k in (1, 2):
            shutil.copy(log, base / name / f"flight_{k}.ulg")
    poses = "".join(f"{k} {k * 0.5} {k % 5} {k % 3} 0 0 0 1\n" for k in range(20))
    for name in ("estimate.txt", "truth.txt"):
        (base / name).write_text(poses, encoding="utf-8")
    (base / "limits.yaml").write_text("mission_legs_max: 2.0\n", encoding="utf-8")


def stack(command: str, px4: Path | None) -> list[str]:
    """A command with the flight stack that flies."""
    return [command, "--autopilot", "builtin"] if px4 is None else [command, "--px4", str(px4)]


def run_line(line: str, directory: Path, px4: Path | None) -> tuple[str, str]:
    """Outcome of a line, and the reason where it is not `ok`."""
    for part, reason in SKIPPED.items():
        if part in line:
            return "skipped", reason
    if ("px4" in line or "ekf2" in line) and px4 is None:
        return "skipped", "names PX4; give --px4"
    line = re.sub(r"\bRUN\b", "runs/latest", line)
    if "campaign reproduce" in line:
        *before, campaign, _ = line.split()
        table = (directory / campaign / "results.csv").read_text(encoding="utf-8")
        line = " ".join([*before, campaign, table.splitlines()[1].split(",")[0]])
    if px4 is not None:
        line = re.sub(r"~/PX4-Autopilot|(?<=--px4 )DIR\b", shlex.quote(str(px4.resolve())), line)
    words = shlex.split(line, comments=True)
    if words[1] == "fly" and "--speed" not in words:
        words[2:2] = ["--speed", "max"]
    if words[1] in ("fly", "start") and px4 is None and "--autopilot" not in words:
        words[2:2] = ["--autopilot", "builtin"]
    if words[1] == "mission":
        return run_beside_server(words, directory, px4)
    return run(words, directory, px4)


def run(words: list[str], directory: Path, px4: Path | None) -> tuple[str, str]:
    """Run a command to its end, or a lasting one until it has run for a while and ends by Ctrl-C."""
    output, lasting = directory / "output", words[1] in LASTING or "--view" in words
    command = [str(PROGRAMS / words[0]), *words[1:]]
    with background_process(command, output, cwd=directory, env=environment(px4)) as process:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STARTED if lasting else LIMIT)
        running = process.returncode is None
    if process.returncode == 0 or (lasting and running and process.returncode in (130, -signal.SIGINT)):
        return "ok", ""
    lines = output.read_text(encoding="utf-8", errors="replace").splitlines()
    last = [text.strip() for text in lines if text.strip()][-3:]
    return "failed", f"exit code {process.returncode}; {' / '.join(last)}"


def run_beside_server(words: list[str], directory: Path, px4: Path | None) -> tuple[str, str]:
    """Run `mission` with a flight stack that runs already."""
    command = [str(PROGRAMS / "sitl-bridge"), *stack("start", px4), "--speed", "5"]
    with background_process(command, directory / "server", cwd=directory, env=environment(px4)):
        time.sleep(STARTED / 2)
        return run(words, directory, px4)


if __name__ == "__main__":
    main()
