"""A PX4 process is started, watched and stopped, whatever it does; a script stands in for PX4 here."""

from __future__ import annotations

import json
import lzma
import os
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.made_up_px4 import make_build
from support.waiting import is_gone, wait_until

from sitl_bridge.base.errors import UserError
from sitl_bridge.link.px4 import loopback
from sitl_bridge.link.px4.find import Px4Build, find_px4
from sitl_bridge.link.px4.px4_process import Px4Process, lock_file, require_free_instance, stale_processes

INSTANCE = 241
"""Far from the instances anybody flies."""

HOLD_LOCK = """
import fcntl, struct
lock = open(f"/tmp/px4_lock-{sys.argv[2]}", "w+")
fcntl.fcntl(lock, fcntl.F_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))
"""
"""As PX4's set_server_running does."""


@pytest.fixture(autouse=True)
def no_lock_left() -> Iterator[None]:
    yield
    lock_file(INSTANCE).unlink(missing_ok=True)


def stand_in(root: Path, body: str) -> Px4Build:
    """A build whose px4 is a Python script with the given body."""
    script = f"#!{sys.executable}\nimport os, signal, subprocess, sys, time\n{textwrap.dedent(body)}\n"
    return find_px4(make_build(root, script))


def test_px4_gets_its_instance_directory_and_startup_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PX4_UXRCE_DDS_NS", "one")  # honoured
    monkeypatch.setenv("PX4_HOME_LAT", "-30")  # named: session/settings.py
    build = stand_in(
        tmp_path / "build",
        """
        print("arguments", sys.argv[1:])
        print("directory", os.getcwd())
        print("airframe", os.environ["PX4_SYS_AUTOSTART"], os.environ["PX4_SIMULATOR"])
        first = os.environ["PATH"].split(":")[0]
        print("file", open(first + "/px4-rc.simulator").read().splitlines()[2])
        print("others", sorted(set(os.environ) - {"PATH", "HOME", "LANG", "LC_CTYPE"}))
        """,
    )
    lines: list[str] = []
    directory = tmp_path / "run"
    with Px4Process(build, INSTANCE, directory, {"MPC_THR_HOVER": 0.4}, lines.append) as px4:
        wait_until(lambda: px4.poll() is not None)
    assert lines == [
        f"arguments ['-i', '{INSTANCE}', '-d', '{build.etc}']",
        f"directory {directory}",
        "airframe 10016 none",
        "file param set-default MPC_THR_HOVER 0.4",
        "others ['PX4_SIMULATOR', 'PX4_SIM_MODEL', 'PX4_SYS_AUTOSTART', 'PX4_UXRCE_DDS_NS']",
    ]
    assert (directory / "console.log").read_text().splitlines() == lines


def test_px4s_scripts_see_a_directory_without_the_spaces_of_its_path(tmp_path: Path) -> None:
    build = stand_in(
        tmp_path / "build",
        """
        import subprocess
        seen = subprocess.check_output(["/bin/sh", "-c", "pwd"], text=True).strip()
        print(seen)
        print(os.path.samefile(seen, os.getcwd()))
        """,
    )
    lines: list[str] = []
    with Px4Process(build, INSTANCE, tmp_path / "my flights" / "run", {}, lines.append) as px4:
        wait_until(lambda: px4.poll() is not None)
    assert lines == ["/proc/self/cwd", "True"], "nothing that has to be removed afterwards"


@pytest.mark.parametrize(
    ("lean", "given", "thin"),
    [
        (True, {}, True),
        (False, {}, False),
        (True, {"SDLOG_PROFILE": 3}, False),
        (False, {"SDLOG_PROFILE": 0}, True),
    ],
)
def test_one_of_several_vehicles_logs_the_topics_of_its_file_alone(
    lean: bool, given: dict[str, float], thin: bool, tmp_path: Path
) -> None:
    build = stand_in(tmp_path / "build", "print(open('startup/px4-rc.simulator').read())")
    lines: list[str] = []
    run = tmp_path / "run"
    with Px4Process(build, INSTANCE, run, dict(given), lines.append, given, lean) as px4:
        wait_until(lambda: px4.poll() is not None)
    assert ("param set-default SDLOG_PROFILE 0" in lines) == thin
    topics = run / "etc" / "logging" / "logger_topics.txt"
    assert topics.exists() == thin
    if thin:  # PX4's MAX_TOPICS_NUM and ORB_MULTI_MAX_INSTANCES
        assert sum(1 if len(line.split()) == 3 else 10 for line in topics.read_text().splitlines()) <= 255


def test_end_by_itself_is_told_with_the_last_words(tmp_path: Path) -> None:
    build = stand_in(tmp_path / "build", "print('ERROR [init] Unknown model'); sys.exit(3)")
    with Px4Process(build, INSTANCE, tmp_path / "run", {}) as px4:
        wait_until(lambda: px4.poll() is not None)
        assert px4.poll() == 3
        assert "exited with status 3" in px4.describe_end()
        assert "Unknown model" in px4.describe_end()


def test_crash_is_told_with_its_signal(tmp_path: Path) -> None:
    build = stand_in(tmp_path / "build", "os.kill(os.getpid(), signal.SIGSEGV)")
    with Px4Process(build, INSTANCE, tmp_path / "run", {}) as px4:
        wait_until(lambda: px4.poll() is not None)
        assert "SIGSEGV" in px4.describe_end()


def test_px4_that_shuts_down_by_itself_is_not_killed(tmp_path: Path) -> None:
    build = stand_in(
        tmp_path / "build",
        """
        signal.signal(signal.SIGTERM, lambda *_: (os.write(1, b"PX4 Exiting...\\n"), sys.exit(0)))
        print("up", flush=True)
        time.sleep(60)
        """,
    )
    px4 = Px4Process(build, INSTANCE, tmp_path / "run", {})
    wait_until(lambda: "up" in px4.last_lines())
    assert px4.describe_end() == ""
    assert px4.stop() == 0
    assert px4.last_lines().endswith("PX4 Exiting...")
    assert px4.stop() == 0


def test_px4_that_does_not_listen_is_killed_with_all_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sitl_bridge.base.system.child_process.STOP_LIMIT", 0.3)
    build = stand_in(
        tmp_path / "build",
        """
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        child = subprocess.Popen(["sleep", "60"])
        print("child", child.pid, flush=True)
        time.sleep(60)
        """,
    )
    px4 = Px4Process(build, INSTANCE, tmp_path / "run", {})
    wait_until(lambda: "child" in px4.last_lines())
    child = int(px4.last_lines().split()[-1])
    assert px4.stop() == -signal.SIGKILL

    wait_until(lambda: is_gone(child))


def test_stopped_px4_ends_too(tmp_path: Path) -> None:
    build = stand_in(tmp_path / "build", "print('up', flush=True); time.sleep(60)")
    px4 = Px4Process(build, INSTANCE, tmp_path / "run", {})
    wait_until(lambda: px4.last_lines() == "up")
    os.kill(px4.pid, signal.SIGSTOP)
    assert px4.stop() == -signal.SIGTERM


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks the kernel for the lock's holder")
def test_px4_of_a_program_that_runs_is_named_and_nobody_is_told_to_kill_it(tmp_path: Path) -> None:
    build = stand_in(tmp_path / "build", HOLD_LOCK + "print('up', flush=True)\ntime.sleep(60)")
    # The kernel names a process after its script.
    with Px4Process(build, INSTANCE, tmp_path / "first", {}) as first:
        wait_until(lambda: first.last_lines() == "up")
        assert stale_processes(INSTANCE) == []
        words = rf"instance {INSTANCE} is in use by px4 \(pid {first.pid}, started .*\); choose another"
        with pytest.raises(UserError, match=words) as caught:
            Px4Process(build, INSTANCE, tmp_path / "second", {})
        assert "kill" not in str(caught.value)
        assert lock_file(INSTANCE).exists()
    require_free_instance(INSTANCE)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks the kernel for the lock's holder")
def test_px4_that_an_earlier_run_has_left_is_named_with_the_command_that_ends_it(tmp_path: Path) -> None:
    build = stand_in(tmp_path / "build", HOLD_LOCK + "time.sleep(60)")
    started = f"{build.executable} -i {INSTANCE} > /dev/null 2>&1 & echo $!"
    left = int(subprocess.run(["sh", "-c", started], capture_output=True, text=True, check=True).stdout)
    try:
        wait_until(lambda: [process.pid for process in stale_processes(INSTANCE)] == [left])
        with pytest.raises(UserError, match=f"a PX4 of an earlier run occupies .* kill -9 {left}"):
            require_free_instance(INSTANCE)
    finally:
        os.kill(left, signal.SIGKILL)
    wait_until(lambda: stale_processes(INSTANCE) == [])
    require_free_instance(INSTANCE)


def test_port_of_a_link_in_use_is_named() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as holder:
        holder.bind(("127.0.0.1", 14580 + INSTANCE))
        with pytest.raises(UserError, match=f"{14580 + INSTANCE}.*pid {os.getpid()}"):
            require_free_instance(INSTANCE)


@pytest.mark.parametrize("instance", [-1, 255])
def test_instance_without_a_system_id_is_refused(instance: int) -> None:
    with pytest.raises(UserError, match=r"0\.\.254"):
        require_free_instance(instance)


def test_directory_of_another_run_is_refused(tmp_path: Path) -> None:
    build = stand_in(tmp_path / "build", "")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "parameters.bson").write_bytes(b"")
    with pytest.raises(UserError, match="fresh"):
        Px4Process(build, INSTANCE, tmp_path / "run", {})


@pytest.mark.parametrize("expose", [False, True])
def test_executable_that_cannot_run_is_told(expose: bool, tmp_path: Path) -> None:
    build = stand_in(tmp_path / "build", "")
    build.executable.write_text("#!/no/such/interpreter\n")
    with Px4Process(build, INSTANCE, tmp_path / "run", {}, expose=expose) as px4:
        wait_until(lambda: px4.poll() is not None)
        assert f"{build.executable} cannot be started: No such file" in px4.describe_end()


BINDS = """
import socket
for port in (41571, 41571):
    link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        link.bind(("", port))
    except OSError as error:
        print(error.strerror)
    else:
        kept = link
        print(*link.getsockname())
other = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
other.bind("socket")
print(other.getsockname())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a means of the Linux kernel")
@pytest.mark.parametrize(("expose", "address"), [(False, "127.0.0.1"), (True, "0.0.0.0")])
def test_ports_that_px4_opens_to_everyone_stay_on_this_machine_unless_asked(
    expose: bool, address: str, tmp_path: Path
) -> None:
    build = stand_in(tmp_path / "build", BINDS)
    lines: list[str] = []
    with Px4Process(build, INSTANCE, tmp_path / "run", {}, lines.append, expose=expose) as px4:
        wait_until(lambda: px4.poll() is not None)
    assert px4.exposed == ""
    assert lines == [f"{address} 41571", "Address already in use", "socket"]


def test_a_kernel_that_cannot_keep_ports_on_this_machine_is_said_to_be_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = stand_in(tmp_path / "build", "print('flies')")
    starter = tmp_path / "starter.py"
    source = Path(loopback.__file__).read_text()
    starter.write_text(source.replace('"x86_64": (', '"none": (').replace('"aarch64": (', '"nor": ('))
    monkeypatch.setattr(loopback, "__file__", str(starter))
    lines: list[str] = []
    with Px4Process(build, INSTANCE, tmp_path / "run", {}, lines.append) as px4:
        wait_until(lambda: px4.poll() is not None)
    assert "not supported on" in px4.exposed
    assert lines == ["flies"]


def test_parameters_are_checked_against_the_build(tmp_path: Path) -> None:
    build = stand_in(tmp_path / "build", "print(open('startup/px4-rc.simulator').read())")
    (build.etc / "extras").mkdir()
    entries = [
        {"name": "MPC_THR_HOVER", "type": "Float", "min": 0.1, "max": 0.8},
        {"name": "MPC_XY_P", "type": "Float", "min": 0.0, "max": 2.0},
    ]
    text = json.dumps({"parameters": entries}).encode()
    (build.etc / "extras" / "parameters.json.xz").write_bytes(lzma.compress(text))
    lines: list[str] = []
    told = {"MPC_THR_HOVER": 0.4, "NEWER": 1, "LTEST_MODE": 1}
    with Px4Process(build, INSTANCE, tmp_path / "a", told, lines.append) as px4:
        wait_until(lambda: px4.poll() is not None)
    assert px4.without == ("landing_target_estimator",)
    assert "NEWER" in lines[0]
    assert not any("NEWER" in line for line in lines[1:])
    with pytest.raises(UserError, match="MPC_XY_PP is not a parameter of this PX4; meant MPC_XY_P"):
        Px4Process(build, INSTANCE, tmp_path / "b", {"MPC_XY_PP": 1.0}, given={"MPC_XY_PP": 1.0})
    with pytest.raises(UserError, match=r"MPC_XY_P is 3.0; allowed: 0 to 2"):
        Px4Process(build, INSTANCE, tmp_path / "c", {"MPC_XY_P": 3.0}, given={"MPC_XY_P": 3.0})


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a means of the Linux kernel")
def test_px4_does_not_outlive_a_killed_bridge(tmp_path: Path) -> None:
    build = stand_in(tmp_path / "build", "print('up', flush=True); time.sleep(60)")
    program = f"""
import time
from pathlib import Path
from sitl_bridge.link.px4.find import find_px4
from sitl_bridge.link.px4.px4_process import Px4Process
px4 = Px4Process(find_px4(Path({str(build.root)!r})), {INSTANCE}, Path({str(tmp_path / "run")!r}), {{}})
while "up" not in px4.last_lines():
    time.sleep(0.02)
print(px4.pid, flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as bridge:
        assert bridge.stdout is not None
        pid = int(bridge.stdout.readline())
        bridge.kill()
    wait_until(lambda: is_gone(pid))


def test_ulogs_are_found_in_order(tmp_path: Path) -> None:
    build = stand_in(tmp_path / "build", "")
    with Px4Process(build, INSTANCE, tmp_path / "run", {}) as px4:
        wait_until(lambda: px4.poll() is not None)
    for name in ("log/2025-01-01/10_00_00.ulg", "log/2025-01-01/09_00_00.ulg"):
        (tmp_path / "run" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "run" / name).write_bytes(b"")
    assert [path.name for path in px4.ulogs()] == ["09_00_00.ulg", "10_00_00.ulg"]
