"""``sitl-bridge serve``: quick to start, and clean to end at any moment."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
import pytest
import typer
from pymavlink.dialects.v20 import common as mavlink
from support.peer import Peer

from sitl_bridge.autopilot import main as stack_main
from sitl_bridge.autopilot.process import Configuration
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.system.listening import is_listening
from sitl_bridge.cli.autopilot import autopilot
from sitl_bridge.cli.main import build
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.link.hil.ports import FIRST_PORT, PAYLOAD_PORT
from sitl_bridge.link.hil.server import LockstepServer
from sitl_bridge.record.truth_log import read_truth
from sitl_bridge.session.served import ServedSimulation


def test_serving_loads_nothing_that_only_flying_needs() -> None:
    source = "import sys, sitl_bridge.session.session; print(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True).stdout
    needless = {"PIL", "matplotlib", "scipy.linalg", "scipy.optimize", "mavsdk", "pyulog"}
    assert not needless & set(loaded.split())


def test_an_interrupt_while_the_server_starts_leaves_a_whole_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free_port: Callable[[], int]
) -> None:
    port = free_port()
    monkeypatch.setattr("sitl_bridge.session.settings.FIRST_PORT", port)
    started: list[LockstepServer] = []
    start = LockstepServer.start

    def interrupted(server: LockstepServer) -> None:
        start(server)
        started.append(server)
        server.arrays.log["time"][0] = 1
        server.loop["rows"] = 1
        raise KeyboardInterrupt

    monkeypatch.setattr(LockstepServer, "start", interrupted)
    arguments = ["serve", "--runs-dir", str(tmp_path)]
    build(arguments)(arguments, standalone_mode=False)
    assert not started[0].running
    assert started[0].failure is None
    (log,) = (path for path in tmp_path.glob("*/truth.npy") if not path.parent.is_symlink())
    np.testing.assert_array_equal(read_truth(log)["time"], [1])


def test_px4_is_fed_the_simulated_battery_where_that_is_asked_for(
    tmp_path: Path, wait_for: Callable[..., None]
) -> None:
    instance = free_instance()
    program = [sys.executable, "-m", "sitl_bridge.cli.main"]
    options = ["serve", "--battery", "--instance", str(instance), "--runs-dir", str(tmp_path)]
    px4 = mavlink.MAVLink(None, srcSystem=instance + 1, srcComponent=1)
    heard: list[mavlink.MAVLink_message] = []
    with (
        subprocess.Popen([*program, *options], stdout=subprocess.DEVNULL) as server,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as payload,
    ):
        payload.connect(("127.0.0.1", PAYLOAD_PORT + instance))
        payload.setblocking(False)

        def battery_came() -> bool:
            with contextlib.suppress(ConnectionError):
                payload.send(px4.heartbeat_encode(2, 12, 0, 0, 3).pack(px4))
            with contextlib.suppress(BlockingIOError, ConnectionError):
                while data := payload.recv(2048):
                    heard.extend(m for m in px4.parse_buffer(data) or [] if m.get_type() == "BATTERY_STATUS")
            return bool(heard)

        try:
            wait_for(lambda: is_listening(FIRST_PORT + instance), "the server", 200.0)
            with Peer(FIRST_PORT + instance):
                wait_for(battery_came, "a battery message")
        finally:
            server.send_signal(signal.SIGINT)
    assert server.returncode == 128 + signal.SIGINT
    cells = [millivolts for millivolts in heard[0].voltages if millivolts != 0xFFFF]
    assert len(cells) == load_airframe("iris").battery.cells
    assert all(3500 < millivolts < 4300 for millivolts in cells)


@pytest.mark.parametrize(("options", "made_up_by_px4"), [([], 1), (["--battery"], 0)])
def test_px4_files_say_whose_battery_it_is(tmp_path: Path, options: list[str], made_up_by_px4: int) -> None:
    arguments = ["px4-files", str(tmp_path), *options]
    build(arguments)(arguments, standalone_mode=False)
    text = (tmp_path / "px4-rc.simulator").read_text(encoding="utf-8")
    assert f"SIM_BAT_ENABLE {made_up_by_px4}" in text


def free_instance() -> int:
    """An instance of PX4 that nobody on this machine uses."""
    taken = {c.laddr.port for c in psutil.net_connections(kind="inet") if c.laddr}
    return next(i for i in range(100, 255) if not {FIRST_PORT + i, PAYLOAD_PORT + i} & taken)


def test_the_command_of_the_built_in_stack_flies_what_its_options_say(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flown: list[Configuration] = []

    def fly(configuration: Configuration) -> int:
        flown.append(configuration)
        return 0

    monkeypatch.setattr("sitl_bridge.autopilot.main.fly", fly)
    with pytest.raises(typer.Exit) as ended:
        autopilot("firefly", instance=3)
    assert ended.value.exit_code == 0
    assert (flown[0].airframe.name, flown[0].instance, flown[0].simulator) == ("firefly", 3, "127.0.0.1")
    with pytest.raises(UserError, match="no airframe is called 'no_such'"):
        autopilot("no_such")


@pytest.mark.parametrize("arguments", [[], ["--help"], ["a.json", "--instance", "3"]])
def test_the_process_of_the_built_in_stack_names_the_command_for_users(
    capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert stack_main.main(arguments) == 2
    assert "use `sitl-bridge autopilot`" in capsys.readouterr().err


def test_the_process_of_the_built_in_stack_names_a_missing_configuration(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert stack_main.main([str(tmp_path / "none.json")]) == 1
    assert "none.json" in capsys.readouterr().err


def test_three_vehicles_are_served_in_one_world_with_px4s_start_up_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = next(i for i in range(100, 250) if not any(is_listening(FIRST_PORT + i + n) for n in range(3)))
    arguments = [
        "serve",
        "--vehicles",
        "3",
        "--instance",
        str(instance),
        "--runs-dir",
        str(tmp_path / "runs"),
    ]
    arguments += ["--px4-files", str(tmp_path / "startup"), "--airframe", "firefly"]

    def looked_at(session: ServedSimulation, _: object = None) -> None:
        assert all(is_listening(FIRST_PORT + instance + n) for n in range(3))
        east = [float(position[1]) for position in session.status.position]
        assert east == [0.0, 3.0, 6.0]
        airframes = {v.airframe_for_px4().model_dump_json() for v in session.vehicles}
        assert len(airframes) == 1  # so that one file is true of all
        assert "files of all 3 vehicles" in (session.directory.path / "console.log").read_text("utf-8")

    monkeypatch.setattr(ServedSimulation, "wait", looked_at)
    assert build(arguments)(arguments, standalone_mode=False) == 0
    assert "CA_ROTOR_COUNT 6" in (tmp_path / "startup" / "px4-rc.simulator").read_text("utf-8")


def test_a_mission_flies_in_the_place_of_this_program_with_the_instances_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "mine.py"
    script.write_text("", "utf-8")
    started: list[tuple[list[str], dict[str, str]]] = []
    monkeypatch.setattr("os.execve", lambda _, command, environment: started.append((command, environment)))
    arguments = ["mission", str(script), "--instance", "2", "--", "--height", "3"]
    build(arguments)(arguments, standalone_mode=False)
    command, environment = started[0]
    assert command[1:] == [str(script), "--height", "3"]
    assert environment["SITL_BRIDGE_URL"] == "udpin://127.0.0.1:14542"
    assert environment["SITL_BRIDGE_SYSTEM"] == "3"
    with pytest.raises(UserError, match="no such mission file"):
        build(["mission"])(["mission", "none.plan"], standalone_mode=False)
