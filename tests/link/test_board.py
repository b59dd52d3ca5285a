"""Hardware-in-the-loop: the relay between the simulator link and a board, with a made-up board."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.board import ARMED, HIL, MadeUpBoard
from support.cable import Cable

from sitl_bridge.base.errors import ConfigurationError, UserError
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.link.hil import board as module
from sitl_bridge.link.hil.board import FrameStream, Relay, Traffic, open_serial
from sitl_bridge.link.mavlink import common as mavlink
from sitl_bridge.link.mavlink.decoder import Decoder
from sitl_bridge.link.px4.airframe_parameters import parameters_for
from sitl_bridge.link.px4.board_parameters import write_board_file
from sitl_bridge.link.px4.parameter_file import read_parameter_file
from sitl_bridge.session.session import Session
from sitl_bridge.session.settings import Board, FlightOptions, FlightSettings

INSTANCE = 98
STATION = ("127.0.0.1", 14500 + INSTANCE)


def heartbeat() -> bytes:
    return bytes(mavlink.MAVLink_heartbeat_message(2, 12, HIL, 0, 4, 3).pack(mavlink.MAVLink(None)))


UNKNOWN = bytes([0xFD, 3, 0, 0, 0, 1, 1, 0x10, 0x27, 1, 0xFD, 0xFE, 1, 9, 9])
"""A frame of a message that the dialect does not have, with the bytes that begin a frame in its payload."""


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_frames_are_cut_from_a_stream_however_it_arrives(size: int) -> None:
    known = heartbeat()
    damaged = known[:-1] + bytes([known[-1] ^ 1])
    data = b"\x00\xfd" + known + UNKNOWN + damaged + known + UNKNOWN + known
    data += bytes(300)  # so that a frame that seems to begin ends
    stream = FrameStream()
    found = [f for at in range(0, len(data), size) for f in stream.take(data[at : at + size])]
    assert [frame for frame in found if frame != UNKNOWN] == [known] * 3
    assert UNKNOWN in found


def settings(place: Path, board: MadeUpBoard, airframe: str = "iris", device: str = "") -> FlightSettings:
    options = FlightOptions(
        airframe=load_airframe(airframe),
        board=Board(device or board.port, station=f"{STATION[0]}:{STATION[1]}"),
        instance=INSTANCE,
        runs=place,
    )
    return FlightSettings.without_mission(options)


def test_a_board_flies_by_its_own_clock(tmp_path: Path, wait_for: Callable[..., None]) -> None:
    lines: list[str] = []
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as station,
        MadeUpBoard(system=INSTANCE + 1) as board,
    ):
        station.bind(STATION)
        station.settimeout(20.0)
        with Session(settings(tmp_path, board, "iris_full"), lines.append) as session:
            server = session.server
            wait_for(lambda: server.status().steps > 250, "a second of frames")
            assert server.status().links[0].armed
            if os.geteuid() == 0:  # no program interposes while one of its threads holds a lock
                tasks = [int(task.name) for task in Path("/proc/self/task").iterdir()]
                assert {os.sched_getscheduler(task) for task in tasks} == {os.SCHED_FIFO}
            turning = session.simulation.states[0]["rotor_speed"][:4].copy()
            with pytest.raises(UserError, match="its own clock"):
                server.pause()
            with pytest.raises(UserError, match="its own clock"):
                server.set_speed(2.0)
            limit = server.limit_time()
            limit.run_until(0)
            before = server.status().steps
            wait_for(lambda: server.status().steps > before + 50, "time to go on")
            # The station hears the board, and not what passes between it and the simulation.
            datagram, address = station.recvfrom(65536)
            assert {m.get_type() for m in Decoder().messages(datagram)} == {"HEARTBEAT"}
            mav = mavlink.MAVLink(None, srcSystem=255, srcComponent=190)
            request = mavlink.MAVLink_param_request_list_message(INSTANCE + 1, 1).pack(mav)
            forged = mavlink.MAVLink_hil_state_quaternion_message(
                0, [1, 0, 0, 0], 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
            ).pack(mav)
            station.sendto(bytes(request) + bytes(forged), address)
            wait_for(lambda: "PARAM_REQUEST_LIST" in board.names(), "the request")
    assert os.sched_getscheduler(0) == os.SCHED_OTHER
    assert np.all(turning > 100.0)
    samples = [m for m in board.received if m.get_type() == "HIL_SENSOR"]
    assert {m.id for m in samples} == {0}
    assert {m.id for m in board.received if m.get_type() == "HIL_GPS"} == {0}
    assert len({m.orientation for m in board.received if m.get_type() == "DISTANCE_SENSOR"}) == 1
    times = np.diff([m.time_usec for m in samples])
    assert np.all(times > 0)
    assert board.names() >= {"HIL_SENSOR", "HIL_GPS", "HEARTBEAT", "HIL_OPTICAL_FLOW"}
    assert "HIL_STATE_QUATERNION" not in board.names()
    assert sum("the board has been on for 2057 min" in line for line in lines) == 1
    assert any("PROPELLERS OFF" in note for note in settings(tmp_path, board).notes())
    console = (tmp_path / "latest" / "console.log").read_text(encoding="utf-8")
    assert " samples/s" in console


def test_firmware_without_simulated_outputs_is_named(tmp_path: Path, wait_for: Callable[..., None]) -> None:
    lines: list[str] = []
    with (
        MadeUpBoard(command=None, system=INSTANCE + 1) as board,
        Session(settings(tmp_path, board), lines.append) as session,
    ):
        wait_for(lambda: any("pwm_out_sim" in line for line in lines), "the warning")
        assert session.server.status().steps > 0


def test_a_board_that_restarts_is_found_again(tmp_path: Path, wait_for: Callable[..., None]) -> None:
    lines: list[str] = []
    device = tmp_path / "ttyACM0"
    with (
        contextlib.closing(Cable(device=device)) as cable,
        MadeUpBoard(system=INSTANCE + 1, cable=cable.ports[0]) as board,
        Session(settings(tmp_path, board, device=str(device)), lines.append) as session,
    ):
        wait_for(lambda: session.server.status().steps > 100, "the board")
        for lost in ("unplugged", "silent"):
            before = sum("has gone; waiting for the board" in line for line in lines)
            if lost == "unplugged":
                cable.unplug()
            else:
                board.silent = True
            wait_for(
                lambda before=before: sum("has gone; waiting" in line for line in lines) > before, "the loss"
            )
            steps = session.server.status().steps
            if lost == "unplugged":
                cable.plug()
            else:
                board.silent = False
            wait_for(lambda steps=steps: session.server.status().steps > steps + 100, f"the {lost} board")
    assert sum("has gone; waiting" in line for line in lines) == 2


def test_a_bad_cable_is_named_and_only_whole_new_samples_pass(
    tmp_path: Path, wait_for: Callable[..., None]
) -> None:
    lines: list[str] = []
    with (
        contextlib.closing(Cable(delay=0.03, batch=0.016, loss=0.02)) as cable,
        MadeUpBoard(system=INSTANCE + 1, cable=cable.ports[0]) as board,
    ):
        with Session(settings(tmp_path, board, device=cable.ports[1]), lines.append) as session:
            wait_for(lambda: any("come in bursts" in line for line in lines), "the note")
            wait_for(lambda: session.server.status().links[0].armed, "commands")
            assert session.simulation.states[0]["rotor_speed"][0] > 100.0
            notes = session.conclude().verdict.notes
        times = [m.time_usec for m in board.received if m.get_type() == "HIL_SENSOR"]
    assert len(times) > 100
    assert np.all(np.diff(times) > 0)
    assert any("come in bursts" in note for note in notes)


def test_a_board_with_a_network_gets_one_frame_a_datagram(
    tmp_path: Path, wait_for: Callable[..., None]
) -> None:
    lines: list[str] = []
    with (
        MadeUpBoard(system=INSTANCE + 1, network=True) as board,
        Session(settings(tmp_path, board), lines.append) as session,
    ):
        wait_for(lambda: session.server.status().links[0].armed, "the board")
        wait_for(lambda: {"HIL_SENSOR", "HIL_GPS"} <= board.names(), "samples")
        assert board.largest <= 280
        board.silent = True
        wait_for(lambda: any("has gone; waiting" in line for line in lines), "the loss")


def moments(*pauses: float) -> list[float]:
    return list(np.cumsum([1000.0, *pauses]))


@pytest.mark.parametrize(
    ("samples", "commands", "told"),
    [
        ([0.004] * 250, [0.005] * 200, ""),
        ([0.004] * 250 + [0.05] * 3, [0.005] * 200, "3 samples were over 10 ms late, up to 50 ms"),
        ([0.004] * 250, [0.015, 0.0002, 0.0002] * 70, "bursts .140 of 210"),
        ([0.004] * 250, [0.005] * 400 + [0.3], "no command came for 300 ms"),
        ([0.004] * 250, [0.005, 0.0075] * 150, "160 commands/s of PX4's 200"),
    ],
)
def test_lateness_and_bursts_are_told_from_a_steady_link(
    samples: list[float], commands: list[float], told: str
) -> None:
    traffic = Traffic()
    for now in moments(*samples):
        traffic.note_sample(now)
    for now in moments(*commands):
        traffic.note_command(now)
    found = "\n".join(traffic.describe_faults())
    assert re.search(told, found) if told else not found


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HEARD", 1.0)


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize(
    ("board", "told"),
    [
        ({"mode": ARMED, "system": INSTANCE + 1}, "not in hardware-in-the-loop: .*1001"),
        ({"system": 5}, "system id is 5; set MAV_SYS_ID to 99, or give --instance 4"),
    ],
)
def test_a_board_that_cannot_fly_is_refused_with_the_remedy(board: dict[str, Any], told: str) -> None:
    with (
        MadeUpBoard(**board) as made_up,
        Relay(made_up.port, 921600, INSTANCE, STATION) as relay,
        pytest.raises(UserError, match=told),
    ):
        relay.run()


@pytest.mark.usefixtures("hurried")
def test_a_silent_port_is_named_with_its_rate() -> None:
    near, far = pty.openpty()
    with (
        Relay(os.ttyname(far), 57600, INSTANCE, STATION) as relay,
        pytest.raises(UserError, match=f"{os.ttyname(far)}: nothing within 1 s at 57600 Bd"),
    ):
        relay.run()
    os.close(near)
    os.close(far)


@pytest.mark.usefixtures("hurried")
def test_a_silent_address_is_named() -> None:
    with (
        Relay("udp:127.0.0.1:9", 921600, INSTANCE, STATION) as relay,
        pytest.raises(UserError, match=r"udp:127.0.0.1:9: nothing within 1 s: .* address right"),
    ):
        relay.run()


def test_what_is_no_serial_port_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="is no serial port"):
        open_serial(tmp_path / "file", 921600)
    with pytest.raises(UserError, match="No such file"):
        open_serial(tmp_path / "ttyACM0", 921600)
    with pytest.raises(UserError, match="--baud 1234"):
        open_serial(tmp_path / "file", 1234)
    near, far = pty.openpty()
    port = open_serial(Path(os.ttyname(far)), 921600)
    with pytest.raises(UserError, match=r"in use|cannot be opened"):
        open_serial(Path(os.ttyname(far)), 921600)
    for each in (near, far, port):
        os.close(each)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"speed": 2.0}, "--speed: a board runs by its own clock"),
        ({"px4": Path("px4")}, "leave out --px4"),
        ({"board": Board("/dev/null", station="here")}, "--gcs: here: is no HOST:PORT"),
        ({"board": Board("udp:here")}, "--device: here: is no HOST:PORT"),
    ],
)
def test_what_a_board_cannot_do_is_refused_before_the_start(change: dict[str, Any], told: str) -> None:
    options = FlightOptions(airframe=load_airframe("iris"), board=Board("/dev/null"), instance=INSTANCE)
    flight = FlightSettings.without_mission(replace(options, **change))
    with pytest.raises(ConfigurationError, match=told):
        flight.check()


def test_one_board_flies_one_vehicle() -> None:
    options = FlightOptions(airframe=load_airframe("iris"), board=Board("/dev/null"))
    with pytest.raises(ConfigurationError, match="one board flies one vehicle, not 2"):
        FlightSettings.without_mission(options, 2).check()


def test_a_board_gets_the_vehicle_and_its_outputs_as_a_file_for_qgroundcontrol(tmp_path: Path) -> None:
    airframe = load_airframe("typhoon_h480")
    read = read_parameter_file(write_board_file(tmp_path / "new", airframe))
    assert {name: read[f"HIL_ACT_FUNC{name}"] for name in range(1, 8)} == {
        **{motor: 100 + motor for motor in range(1, 7)},
        7: 0,
    }
    assert read["SYS_HITL"] == 1
    assert read["CA_ROTOR_COUNT"] == 6
    computed = parameters_for(airframe)
    assert read["MPC_THR_HOVER"] == pytest.approx(computed["MPC_THR_HOVER"])
    assert isinstance(read["MAV_TYPE"], int)
    assert isinstance(read["CA_ROTOR0_PX"], float)
    assert not [name for name in read if name.startswith(("PWM_", "SIM_", "COM_", "BAT1_", "SDLOG_"))]


def test_serve_joins_a_board_as_start_does() -> None:
    command = [sys.executable, "-m", "sitl_bridge", "serve", "--device", "/dev/null"]
    for options, told in ([], "is no serial port"), (["--vehicles", "2"], "leave out --host, --vehicles"):
        done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode != 0
        assert told in " ".join(re.sub("[│╭╮╰╯─]", " ", done.stdout + done.stderr).split())
