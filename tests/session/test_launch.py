"""Processes end with the one that started them, however that ends, and so does all they have started."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from support.waiting import is_gone

from sitl_bridge.base.errors import UserError
from sitl_bridge.base.system import launch
from sitl_bridge.base.system.child_process import ChildProcess
from sitl_bridge.base.system.port_holder import describe
from sitl_bridge.session.mission_process import MissionProcess
from sitl_bridge.session.vehicle_run import name_logs, require_free_udp

Wait = Callable[..., None]

MISSION = """
import os, subprocess, sys, time
here = subprocess.Popen(["sleep", "60"])
away = subprocess.Popen(["sleep", "60"], start_new_session=True)
print("pids", os.getpid(), here.pid, away.pid, flush=True)
time.sleep(60)
"""

BRIDGE = """
import sys, time
from pathlib import Path
from sitl_bridge.base.system.child_process import ChildProcess
from sitl_bridge.session.mission_process import MissionProcess
mission = MissionProcess(["-c", sys.argv[1]], {}, lambda line: print(line, flush=True))
child = ChildProcess("sleep", ["sleep", "60"], Path(sys.argv[2]), {"PATH": "/usr/bin:/bin"})
print("child", child.pid, flush=True)
time.sleep(60)
"""


def test_nothing_outlives_a_program_that_was_killed(tmp_path: Path, wait_for: Wait) -> None:
    command = [sys.executable, "-c", BRIDGE, MISSION, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as bridge:
        assert bridge.stdout is not None
        pids = [int(word) for _ in range(2) for word in bridge.stdout.readline().split()[1:]]
        assert len(pids) == 4
        assert not any(is_gone(pid) for pid in pids)
        bridge.kill()
    wait_for(lambda: all(is_gone(pid) for pid in pids), "everything to end")


def started(mission: str, wait_for: Wait) -> tuple[MissionProcess, list[int]]:
    lines: list[str] = []
    process = MissionProcess(["-c", mission], {}, lines.append)
    wait_for(lambda: any(line.startswith("pids") for line in lines), "the mission to start")
    return process, [int(word) for word in lines[-1].split()[1:]]


def test_a_mission_that_does_not_end_is_killed_with_what_has_left_its_session(
    wait_for: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sitl_bridge.session.mission_process.MISSION_STOP", 0.2)
    deaf = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n{MISSION}"
    process, pids = started(deaf, wait_for)
    process.stop()
    wait_for(lambda: all(is_gone(pid) for pid in pids), "everything to end")


def test_a_mission_that_is_killed_leaves_nothing_and_is_reported_as_that(wait_for: Wait) -> None:
    process, pids = started(MISSION, wait_for)
    psutil.Process(pids[0]).kill()
    wait_for(lambda: process.poll() is not None, "the mission to end")
    assert process.poll() == -signal.SIGKILL
    assert "was ended by SIGKILL" in process.reason()
    assert all(is_gone(pid) for pid in pids)
    process.stop()


def test_a_keeper_that_is_killed_takes_the_mission_with_it(wait_for: Wait) -> None:
    process, pids = started(MISSION, wait_for)
    keeper = psutil.Process(pids[0]).parent()
    assert keeper is not None
    keeper.kill()
    wait_for(lambda: is_gone(pids[0]), "the mission to end")
    process.stop()
    psutil.Process(pids[2]).kill()  # it left the session, and nobody is there any more who could know of it


@pytest.mark.parametrize(("mission", "status"), [("import sys; sys.exit(7)", 7), ("", 0)])
def test_a_mission_ends_with_its_own_exit_code(mission: str, status: int, wait_for: Wait) -> None:
    process = MissionProcess(["-c", mission], {}, lambda _line: None)
    wait_for(lambda: process.poll() is not None, "the mission to end")
    assert process.poll() == status
    process.stop()


def test_what_is_started_too_late_does_not_start() -> None:
    command = launch.command("exec", ["true"])
    command[command.index("exec") + 1] = "1"  # another parent
    assert subprocess.run(command, check=False).returncode == 128 + signal.SIGKILL


def test_a_taken_port_is_named_with_the_program_that_has_it(tmp_path: Path) -> None:
    script = tmp_path / "survey.py"
    script.write_text(
        "import socket, time\n"
        "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('127.0.0.1', 0))\n"
        "print(s.getsockname()[1], flush=True); time.sleep(60)\n"
    )
    command = [sys.executable, "-u", str(script), "--secret", "word"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        port = int(holder.stdout.readline())
        with pytest.raises(UserError, match=rf"survey\.py \(pid {holder.pid}\); stop it") as caught:
            require_free_udp(port, "on which the mission listens")
        assert "secret" not in str(caught.value)
        holder.kill()
    require_free_udp(port, "on which the mission listens")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        own.bind(("127.0.0.1", port))
        with pytest.raises(UserError, match="is taken by"):
            require_free_udp(port, "on which the mission listens")


def test_a_program_in_the_command_line_is_not_printed() -> None:
    command = [sys.executable, "-c", "import time\nprint(1, flush=True)\ntime.sleep(60)"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        found = describe(psutil.Process(holder.pid))
        holder.kill()
    assert found.endswith(f" -c (pid {holder.pid})")
    assert "sleep" not in found


@pytest.mark.parametrize("killed", ["mission", "keeper", "program", ""])
def test_a_missions_temporary_files_are_removed_whatever_is_killed(
    killed: str, tmp_path: Path, wait_for: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    mission = (
        "import os, tempfile, time\n"
        "(open(tempfile.mkdtemp(prefix='mavsdk-') + '/a', 'w')).write('x')\n"
        "print('pids', os.getpid(), os.getppid(), flush=True)\n"
        "time.sleep(60)"
    )
    if killed == "program":
        runner = (
            "import sys, time; from sitl_bridge.session.mission_process import MissionProcess;"
            "MissionProcess(['-c', sys.argv[1]], {}, lambda line: print(line, flush=True)); time.sleep(60)"
        )
        with subprocess.Popen([sys.executable, "-c", runner, mission], stdout=subprocess.PIPE) as program:
            assert program.stdout is not None
            program.stdout.readline()
            assert [*tmp_path.rglob("mavsdk-*/a")]
            program.kill()
    else:
        process, pids = started(mission, wait_for)
        assert [*tmp_path.rglob("mavsdk-*/a")]
        if killed:
            psutil.Process(pids[killed == "keeper"]).kill()
            wait_for(lambda: process.poll() is not None, "the mission to end")
        process.stop()
    wait_for(lambda: not [*tmp_path.iterdir()], "the files to be removed")


def test_logs_have_the_same_names_whatever_date_px4_had(tmp_path: Path) -> None:
    log = tmp_path / "log"
    for name, size in (("2025-01-01/00_00_00.ulg", 10), ("2026-11-28/19_32_17.ulg", 1000)):
        (log / name).parent.mkdir(parents=True)
        (log / name).write_bytes(bytes(size))
    name_logs(sorted(log.glob("**/*.ulg")))
    assert {f.name: f.stat().st_size for f in log.iterdir()} == {"flight.ulg": 1000, "flight-2.ulg": 10}
    name_logs(sorted(log.glob("**/*.ulg")))
    assert (log / "flight.ulg").stat().st_size == 1000


def test_the_last_lines_of_a_process_have_no_colours(tmp_path: Path, wait_for: Wait) -> None:
    with ChildProcess("PX4", ["printf", "\\033[32mReady\\033[0m for takeoff\\n"], tmp_path, {}) as process:
        wait_for(lambda: process.describe_end() != "", "its end")
        assert process.describe_end() == "PX4 exited with status 0; its last lines:\nReady for takeoff"
