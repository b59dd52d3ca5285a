"""What pages and streams show, without a browser: rows that are followed, shapes, commands, messages."""

from __future__ import annotations

import asyncio
import contextlib
import html
import json
import math
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
from numpy.lib import format as npy
from support.page_client import LIMIT, PageClient
from support.run_directories import make_run

from sitl_bridge.base.arrays import Records
from sitl_bridge.base.errors import UserError
from sitl_bridge.cli.main import with_values
from sitl_bridge.core.simulation.simulation import Simulation
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.scene import Scene
from sitl_bridge.core.world.scene_specification import BoxObject, SceneSpecification, VoxelGrid
from sitl_bridge.core.world.world_file import load_world
from sitl_bridge.link.hil.server import LockstepServer
from sitl_bridge.live.outlets import PageSettings, ViewerSettings
from sitl_bridge.live.run.client_link import (
    PipeEnd,
    SimulationSnapshot,
    SnapshotRequest,
    StackReport,
    StackReports,
    Stop,
    UserNotice,
)
from sitl_bridge.live.run.command_queue import Counts
from sitl_bridge.live.run.messages import VEHICLE_COMMANDS, Reply
from sitl_bridge.live.run.outlet import Outlet, RunContext
from sitl_bridge.live.run.snapshot import take_snapshot
from sitl_bridge.live.view import live_page
from sitl_bridge.live.view.control_panel import ControlPanel
from sitl_bridge.live.view.page_server import in_server, in_server_soon, open_page
from sitl_bridge.live.view.pictures import LARGEST, RATE, PictureClock, pack_picture, unpack_picture
from sitl_bridge.live.view.playback import Playback
from sitl_bridge.live.view.run_link import RunLink
from sitl_bridge.live.view.scene_shapes import MOST_CELLS, cell_faces, draw_objects
from sitl_bridge.live.view.stage import ABOVE, CHASE, FREE, Stage, straight_pieces
from sitl_bridge.live.view.stream import LiveView
from sitl_bridge.live.view.vehicle_shapes import vehicle_shape
from sitl_bridge.live.view.view_controls import QUANTITIES, ViewControls
from sitl_bridge.live.view.viewed_run import ViewedRun
from sitl_bridge.record.records import ROW
from sitl_bridge.record.row_follower import RowFollower
from sitl_bridge.record.truth_log import TruthLog

T = TypeVar("T")


def rows_at(seconds: float, vehicles: int = 2) -> np.ndarray[Any, Any]:
    rows = np.zeros(vehicles, ROW)
    rows["time"], rows["vehicle"] = round(seconds * 1e6), np.arange(vehicles)
    return rows


def test_rows_are_read_while_they_are_written(tmp_path: Path) -> None:
    with TruthLog(tmp_path / "truth.npy") as log, RowFollower(tmp_path, 2) as follower:
        assert len(follower.rows()) == 0
        log.write(rows_at(0.1))
        assert follower.rows()["time"].tolist() == [100_000, 100_000]
        log.write(np.concatenate([rows_at(0.2), rows_at(0.3)[:1]]))
        assert follower.rows()["time"].tolist()[::2] == [100_000, 200_000]


def test_a_file_that_is_no_recording_is_one_message(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read: No such file"):
        RowFollower(tmp_path, 1)
    (tmp_path / "truth.npy").write_bytes(b"nothing")
    with pytest.raises(UserError, match="cannot be read as a table"):
        RowFollower(tmp_path, 1)
    with (tmp_path / "truth.npy").open("wb") as file:
        npy.write_array(file, np.zeros(3, [("time", "i8")]), version=(2, 0))
    with pytest.raises(UserError, match="another version"):
        RowFollower(tmp_path, 1)


def test_a_vehicle_is_drawn_from_its_rotor_positions() -> None:
    shape = vehicle_shape(load_airframe("iris"))
    assert shape.hubs[0] == pytest.approx([0.13, -0.22, 0.023])  # forward, left, up
    assert shape.directions.tolist() == [1.0, 1.0, -1.0, -1.0]
    assert shape.radii == pytest.approx([0.128] * 4)
    assert np.abs(shape.body.vertices).max() < 0.3
    # Each hub has its motor.
    for hub in shape.hubs:
        assert np.linalg.norm(shape.body.vertices - hub, axis=1).min() < 0.05
    assert shape.nose.vertices[:, 0].min() > 0.0


@pytest.mark.parametrize("name", ["office", "hills", "warehouse"])
def test_everything_in_a_world_is_drawn_where_it_stands(name: str) -> None:
    scene = Scene(load_world(Path(name)).scene)
    drawn = list(draw_objects(scene))
    assert len(drawn) == len(scene.shapes)
    assert any(one.moving for one in drawn) == (name == "warehouse")
    for one in drawn:
        shape = scene.shapes[one.index]
        points = np.concatenate([part.vertices for part, _ in one.parts]) @ shape["rotation"].T
        points += shape["position"]
        assert (points >= shape["low"] - 1e-3).all()
        assert (points <= shape["high"] + 1e-3).all()


def test_round_objects_have_their_size() -> None:
    scene = Scene(
        SceneSpecification.model_validate(
            {
                "objects": [
                    {"kind": "sphere", "radius": 2.0, "position": [0, 0, -5]},
                    {"kind": "cylinder", "radius": 1.0, "length": 6.0, "position": [9, 0, -3]},
                ]
            }
        )
    )
    sizes = {one.name.split()[0]: np.ptp(one.parts[0][0].vertices, axis=0) for one in draw_objects(scene)}
    assert sizes["sphere"] == pytest.approx([4.0, 4.0, 4.0], rel=0.02)
    assert sizes["cylinder"] == pytest.approx([2.0, 2.0, 6.0])


def test_a_large_occupancy_map_is_drawn_coarser_and_hollow() -> None:
    solid = VoxelGrid(np.ones((90, 90, 90), np.bool_), np.zeros(3), 0.1)
    drawn = cell_faces(solid)
    assert len(drawn.vertices) <= 8 * MOST_CELLS
    assert np.ptp(drawn.vertices, axis=0) == pytest.approx([9.0, 9.0, 9.0], abs=0.21)


def test_a_run_without_airframe_and_files_is_shown_as_far_as_it_can_be(tmp_path: Path) -> None:
    run = ViewedRun(make_run(tmp_path / "run", 2))
    assert [airframe.name for airframe in run.airframes] == ["iris", "iris"]
    assert run.notes[0] == "2 vehicles are drawn as iris: run.json has no airframe"
    assert len(run.scene.shapes) == 1
    assert run.at_start()["attitude"][:, 0].tolist() == [1.0, 1.0]


def test_a_directory_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is no run directory"):
        ViewedRun(tmp_path)


class Desk:
    """A link whose one side is a page's and whose other side executes its commands."""

    def __init__(self, simulation: Simulation, port: int, tmp_path: Path, **handlers: Any) -> None:
        self.server = LockstepServer(simulation, ports=[port])
        self.heard: list[tuple[str, int | None, Mapping[str, Any], str | None]] = []
        run = RunContext(self.server, tmp_path, listener=self._note, **handlers)
        self.outlet = Outlet("a page", "nothing", run, "page")
        here, there = socket.socketpair()
        self.outlet.link = PipeEnd(here, 1 << 20)
        self.replies: list[Reply] = []
        names = simulation.names
        self.link = RunLink(there.detach(), tmp_path / "run", names, self.replies.extend, on_end=lambda: None)

    def _note(
        self, _time: int, name: str, vehicle: int | None, data: Mapping[str, Any], refused: str | None
    ) -> None:
        self.heard.append((name, vehicle, data, refused))

    def close(self) -> None:
        assert self.outlet.link is not None
        self.outlet.link.close()
        self.link.thread.join()
        self.server.close()

    def serve(self) -> None:
        """Take one message of the page, and let the simulation act on it."""
        assert self.outlet.link is not None
        self.outlet.process(self.outlet.link.receive())
        self.server.run_due_actions()


@pytest.fixture
def make_desk(
    make_simulation: Callable[..., Simulation], free_port: Callable[[], int], tmp_path: Path
) -> Iterator[Callable[..., Desk]]:
    desks: list[Desk] = []

    def make(**handlers: Any) -> Desk:
        desks.append(Desk(make_simulation(), free_port(), tmp_path, **handlers))
        return desks[-1]

    yield make
    for desk in desks:
        desk.close()


def test_a_button_of_a_page_is_a_command_of_the_bus(make_desk: Callable[..., Desk]) -> None:
    desk = make_desk()
    desk.link.command("pause", None, {})
    desk.serve()
    assert desk.server.status().paused
    name, vehicle, data, refused = desk.heard[0]
    assert (name, vehicle, refused) == ("pause", None, None)
    assert data["version"] == 1


def test_a_command_that_is_wrong_never_reaches_the_simulation(make_desk: Callable[..., Desk]) -> None:
    desk = make_desk()
    desk.link.command("motor_loss", "0", {"motor": 0})
    desk.link.command("motor_loss", "nobody", {"motor": 1})
    assert [reply.accepted for reply in desk.replies] == [False, False]
    assert "greater than or equal to 1" in desk.replies[0].reason
    assert "no vehicle 'nobody'" in desk.replies[1].reason


def test_arming_goes_to_the_flight_stack_and_is_refused_without_a_link_to_it(
    make_desk: Callable[..., Desk],
) -> None:
    asked: list[tuple[str, Mapping[str, Any], int | None]] = []

    def on_flight(kind: str, data: Mapping[str, Any], vehicle: int | None) -> Future[None]:
        asked.append((kind, data, vehicle))
        answer: Future[None] = Future()
        answer.set_result(None)
        return answer

    desk = make_desk(on_flight=on_flight)
    desk.link.command("takeoff", "0", {"height": 4.0})
    desk.serve()
    (result,) = desk.outlet.execution.poll()
    assert result.refused is None
    assert (asked[0][0], asked[0][1]["height"], asked[0][2]) == ("takeoff", 4.0, 0)

    without = make_desk()
    without.link.command("arm", "0", {})
    without.serve()
    (result,) = without.outlet.execution.poll()
    assert result.refused == "this run has no link to its flight stacks for commands"


def test_the_simulation_records_at_most_one_request_for_rows_at_a_time(
    make_desk: Callable[..., Desk], monkeypatch: pytest.MonkeyPatch
) -> None:
    desk, recorded = make_desk(), list[int]()
    monkeypatch.setattr(desk.server, "flush_log", lambda: recorded.append(1))
    for requests in (1, 2):
        for _ in range(5):
            desk.outlet.request_rows()
        desk.server.run_due_actions()
        assert len(recorded) == requests


def test_an_option_may_stand_without_its_value() -> None:
    with pytest.raises(UserError, match=r"--samples is gone: .*--ros2"):
        with_values(["fly", "a.plan", "--samples", "/tmp/samples"])
    assert with_values(["fly", "a.py", "--", "--samples"]) == ["fly", "a.py", "--", "--samples"]
    assert with_values(["fly", "--view", "a.plan"]) == ["fly", "--view=8080", "a.plan"]
    assert with_values(["fly", "a.plan", "--view"]) == ["fly", "a.plan", "--view=8080"]
    assert with_values(["fly", "a.plan", "--view", "9000"]) == ["fly", "a.plan", "--view", "9000"]
    assert with_values(["fly", "a.py", "--", "--view"]) == ["fly", "a.py", "--", "--view"]


@pytest.mark.parametrize("text", ["", ":19410", "host:", "host:x", "host:99"])
def test_an_address_of_a_viewer_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="--viewer"):
        ViewerSettings.parse(text)
    assert ViewerSettings.parse("10.0.0.2") == ViewerSettings("10.0.0.2", 19410)
    assert ViewerSettings.parse("localhost:20000") == ViewerSettings("localhost", 20000)


def test_without_viser_the_message_has_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, free_port: Callable[[], int]
) -> None:
    monkeypatch.setitem(sys.modules, "viser", None)
    with pytest.raises(UserError, match="pages with a 3-D view need the package viser") as caught:
        PageSettings(free_port()).check()
    assert "pip install 'sitl-bridge[view]'" in str(caught.value)


def test_a_port_in_use_is_reported_before_anything_starts() -> None:
    pytest.importorskip("viser")
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        with pytest.raises(UserError, match="is in use by"):
            PageSettings(holder.getsockname()[1]).check()


def test_messages_are_made_in_the_servers_own_thread(free_port: Callable[[], int]) -> None:
    pytest.importorskip("viser")
    server = open_page(free_port(), "page")
    try:
        seen: list[object] = []
        in_server(server, lambda: seen.append(asyncio.get_running_loop()))
        assert seen == [server.get_event_loop()]
        with pytest.raises(ZeroDivisionError):
            in_server(server, lambda: print(1 / 0))
        in_server_soon(server, lambda: seen.append(asyncio.get_running_loop()))
        in_server(server, lambda: None)
        assert seen == [server.get_event_loop()] * 2
    finally:
        server.stop()
    while not server.get_event_loop().is_closed():
        time.sleep(0.01)
    in_server_soon(server, lambda: seen.append(None))  # an answer that comes when the page has closed
    assert len(seen) == 2


def test_playback_draws_in_the_servers_own_thread(tmp_path: Path, free_port: Callable[[], int]) -> None:
    pytest.importorskip("viser")
    playback = Playback(ViewedRun(make_run(tmp_path / "run")), free_port())
    try:
        drew: list[object] = []
        place = playback.stage.place

        def placed(rows: Records) -> None:
            drew.append(asyncio.get_running_loop())
            place(rows)

        playback.stage.place = placed  # type: ignore[method-assign]
        playback.run(lambda: bool(drew))
        assert drew == [playback.server.get_event_loop()]
    finally:
        playback.close()


def test_only_the_page_itself_may_connect(free_port: Callable[[], int]) -> None:
    """Any page of the internet may open a WebSocket to this machine; it must not command a simulation."""
    pytest.importorskip("viser")
    from websockets.exceptions import InvalidStatus
    from websockets.sync.client import connect
    from websockets.typing import Origin, Subprotocol

    port = free_port()
    taken: list[Any] = []
    server = open_page(port, "a run", taken.append)
    try:
        protocol = [Subprotocol("viser-v1")]
        with pytest.raises(InvalidStatus, match="403"):
            connect(f"ws://127.0.0.1:{port}", origin=Origin("http://elsewhere.org"), subprotocols=protocol)
        own = Origin(f"http://127.0.0.1:{port}")
        connect(f"ws://127.0.0.1:{port}", origin=own, subprotocols=protocol).close()
        with pytest.raises(InvalidStatus, match="403"):
            connect(f"ws://127.0.0.1:{port}/sticks", origin=Origin("http://elsewhere.org"))
        with connect(f"ws://127.0.0.1:{port}/sticks", origin=own) as sticks:
            sticks.send("[0.5, 0.0, -1.0, 0.0]")
            end = time.monotonic() + 10.0
            while not taken and time.monotonic() < end:
                time.sleep(0.01)
        assert taken == [[0.5, 0.0, -1.0, 0.0]]
        assert server.request_share_url() is None
    finally:
        server.stop()


def test_pictures_of_all_kinds_are_shown() -> None:
    grey = unpack_picture(pack_picture("0", "camera", 1.0, {"image": np.full((1000, 600), 7, np.uint8)}))
    assert grey.shape == (334, 200, 3)
    assert (grey == 7).all()
    depth = np.array([[1.0, 10.0], [np.inf, 0.0]], np.float32)
    shown = unpack_picture(pack_picture("0", "camera", 1.0, {"depth": depth}))
    assert shown[0, 0, 0] > shown[0, 1, 0] > shown[1, 0, 0] == shown[1, 1, 0] == 0
    assert pack_picture("0", "camera", 1.0, {"points": depth}).height == 0


def run_with_camera(tmp_path: Path) -> tuple[ViewedRun, Path]:
    """A run of an iris with a camera, and the empty directory of its pictures."""
    run = make_run(tmp_path / "run")
    described = json.loads((run / "run.json").read_text())
    described["vehicles"][0]["airframe"] = load_airframe("iris_camera").model_dump(
        mode="json", exclude_unset=True
    )
    (run / "run.json").write_text(json.dumps(described))
    viewed = ViewedRun(run)
    folder = run / "sensors" / viewed.cameras()[0].sensor / "mav0" / "cam0" / "data"
    folder.mkdir(parents=True)
    return viewed, folder


def test_recorded_pictures_are_shown_at_their_times(tmp_path: Path, free_port: Callable[[], int]) -> None:
    image = pytest.importorskip("PIL.Image")
    viewed, folder = run_with_camera(tmp_path)
    for k in range(3):
        image.fromarray(np.full((600, 960), 80 * k, np.uint8)).save(folder / f"{k * 10**10}.png")
    playback = Playback(viewed, free_port())
    try:
        for seconds, level in ((5.0, 0), (11.0, 80), (19.0, 80), (21.0, 160)):
            playback.seek(seconds)
            playback.advance(0.0)
            assert playback.picture.image.shape == (LARGEST * 600 // 960, LARGEST, 3)
            assert playback.picture.image[100, 100].tolist() == [level] * 3
    finally:
        playback.close()


def test_recorded_pictures_follow_while_the_recording_plays(
    tmp_path: Path, free_port: Callable[[], int]
) -> None:
    """Each picture of a camera with 10 Hz is shown, at 25 looks a second."""
    image = pytest.importorskip("PIL.Image")
    viewed, folder = run_with_camera(tmp_path)
    for k in range(20):
        image.fromarray(np.full((60, 96), 10 * k, np.uint8)).save(folder / f"{k * 10**8}.png")
    playback = Playback(viewed, free_port())
    shown = set()
    try:
        for _ in range(48):
            playback.advance(1.0 / RATE)
            shown.add(int(playback.picture.image[0, 0, 0]))
    finally:
        playback.close()
    assert shown == {10 * k for k in range(20)}


def test_pictures_are_evenly_spaced_whatever_each_takes() -> None:
    now = [100.0]
    clock = PictureClock(now=lambda: now[0])
    shown = []
    for k in range(100):
        now[0] += clock.remaining()
        shown.append(now[0])
        now[0] += 0.03 if k % 2 else 0.001
    assert np.diff(shown) == pytest.approx(0.04)
    now[0] += 10.0
    assert clock.remaining() == 0.0, "late"
    assert clock.remaining() == pytest.approx(0.04), "what was missed is left out"


def test_view_of_nothing_is_one_message(tmp_path: Path) -> None:
    pytest.importorskip("viser")
    found = subprocess.run(
        [sys.executable, "-m", "sitl_bridge.cli.main", "view", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 2
    assert "is no run directory" in found.stderr
    assert "Traceback" not in found.stderr


def test_the_page_s_messages_are_those_that_pymavlink_reads() -> None:
    from pymavlink.dialects.v20 import common

    from sitl_bridge.live.view.viewer_stream import ViewerMessages

    messages = ViewerMessages(3, 6, (47.4, 8.5, 500.0), 9.8)
    rows = np.zeros(1, ROW)
    row = rows[0]
    row["time"], row["armed"] = 1_500_000, 1
    row["position"], row["velocity"] = (100.0, -50.0, -20.0), (1.0, -2.5, 0.3)
    row["attitude"], row["angular_velocity"] = (math.sqrt(0.5), 0.0, 0.0, math.sqrt(0.5)), (0.1, 0.2, 0.3)
    row["specific_force"], row["control"][:6] = (1.0, 0.0, -9.8), 0.5
    rows.flags.writeable = False  # as rows of a recording are
    row = rows[0]
    parser = common.MAVLink(None)
    data = messages.heartbeat(row) + messages.controls(row) + messages.state(row)
    beat, controls, state = parser.parse_buffer(data)
    assert [beat.get_srcSystem(), beat.get_srcComponent(), beat.get_seq()] == [3, 1, 0]
    assert (beat.type, beat.autopilot, beat.base_mode) == (
        common.MAV_TYPE_HEXAROTOR,
        common.MAV_AUTOPILOT_PX4,
        common.MAV_MODE_FLAG_CUSTOM_MODE_ENABLED | common.MAV_MODE_FLAG_SAFETY_ARMED,
    )
    assert controls.controls == [0.5] * 6 + [0.0] * 10
    assert state.get_seq() == 2
    assert state.time_usec == 1_500_000
    assert state.attitude_quaternion == pytest.approx([0.7071, 0.0, 0.0, 0.7071], abs=1e-4)
    assert (state.vx, state.vy, state.vz) == (100, -250, 30)
    assert state.alt == 520_000
    # One metre forward is east here: 1 m/s^2 is 102 thousandths of g.
    assert (state.xacc, state.yacc, state.zacc) == (0, 102, 0)
    import pymap3d

    north, east, _ = pymap3d.geodetic2ned(state.lat * 1e-7, state.lon * 1e-7, 520.0, 47.4, 8.5, 500.0)
    assert (north, east) == pytest.approx((100.0, -50.0), abs=0.02)


def test_the_rows_of_a_run_are_described_in_json(tmp_path: Path) -> None:
    run = ViewedRun(make_run(tmp_path / "run"))
    assert json.loads((run.path / "run.json").read_text())["seed"] == 7
    assert run.origin == (47.4, 8.5, 488.0)
    assert run.gravity == pytest.approx(9.807, abs=0.002)


class Page:
    """A page that a client has opened.

    Attributes:
        sent: the commands of its panel.
    """

    def __init__(self, port: int) -> None:
        self.server = open_page(port, "a run", lambda _sticks: None)
        self.client = PageClient(port)
        self.sent: list[tuple[object, ...]] = []
        self._taken = threading.Semaphore(0)
        self.call(lambda: self.server.gui.add_button("Mark")).on_click(lambda _event: self._taken.release())

    def call(self, make: Callable[[], T]) -> T:
        """The result of a function that the server's thread calls."""
        made: list[T] = []
        in_server(self.server, lambda: made.append(make()))
        return made[0]

    def panel(self, run: ViewedRun) -> ControlPanel:
        """The panel of a run."""
        return self.call(
            lambda: ControlPanel(self.server, run, Stage(self.server, run), lambda *a: self.sent.append(a))
        )

    def set(self, label: str, value: object) -> None:
        """Let the user choose a value, or press a button by True, until the page has taken it."""
        self.client.set(label, value)
        self.settle()

    def settle(self) -> None:
        """Wait until the page has taken all that the client has sent."""
        self.client.set("Mark", True)
        assert self._taken.acquire(timeout=LIMIT)

    def close(self) -> None:
        self.client.close()
        self.server.stop()


@pytest.fixture
def page(free_port: Callable[[], int]) -> Iterator[Page]:
    with contextlib.closing(Page(free_port())) as opened:
        yield opened


def test_a_refused_disarming_is_named_as_such_and_the_newest_answer_stands_first(
    page: Page, tmp_path: Path
) -> None:
    panel = page.panel(ViewedRun(make_run(tmp_path / "run")))
    page.set("Disarm", True)
    page.set("Arm", True)
    assert page.sent == [("arm", "0", {"armed": False}), ("arm", "0", {"armed": True})]
    wrong = Reply(version=1, time=3.0, request_id="a", command="arm", vehicle="0", accepted=False,
                  reason="arm: not landed")  # fmt: skip
    fine = Reply(version=1, time=4.0, request_id="b", command="arm", vehicle="0", accepted=True)
    page.call(lambda: panel.show_replies([wrong, fine]))
    page.client.take(lambda: page.client.has("- 4.0 s: arm done\n- 3.0 s: disarm refused: not landed"))


def test_the_page_makes_no_elements_of_the_texts_of_others(
    page: Page, make_desk: Callable[..., Desk], tmp_path: Path
) -> None:
    evil = "<script src='//x'>a_b</script> *{x}* [y](z) `|~\\"
    run = ViewedRun(make_run(tmp_path / "run"))
    run.notes.append(evil)
    run.recorded.description["vehicles"][0]["autopilot"] = {"name": evil}
    panel = page.panel(run)
    panel.stacks = [StackReport("Hold", [(1.0, 6, evil)], (1.0, 0.0, 0.0, -2.0))]
    refused = Reply(version=1, time=3.0, request_id="a", command="arm", vehicle="0", accepted=False,
                    reason=evil)  # fmt: skip
    page.call(lambda: panel.show(take_snapshot(make_desk().server), 0.0, rows_at(0.0, 1)))
    page.call(lambda: panel.show_replies([refused]))

    def texts() -> list[str]:
        return [text for text in page.client.texts() if "script" in text]

    page.client.take(lambda: len(texts()) == 4)
    for text in texts():
        assert evil in html.unescape(text)
        assert not set("<>{}[]`|~\\_") & set(text)


def test_a_broken_motor_has_its_number_of_scenarios_on_the_page(
    page: Page, make_desk: Callable[..., Desk], tmp_path: Path
) -> None:
    desk = make_desk()
    desk.link.command("motor_loss", "0", {"motor": 2, "thrust": 0.25})
    desk.serve()
    panel = page.panel(ViewedRun(make_run(tmp_path / "run")))
    page.call(lambda: panel.show(take_snapshot(desk.server), 0.0, rows_at(0.0, 1)))
    page.client.take(lambda: any("motor 2 at 25%" in text for text in page.client.texts()))


def test_the_speed_on_the_page_is_that_of_the_simulation(
    page: Page, make_desk: Callable[..., Desk], tmp_path: Path
) -> None:
    server = make_desk().server
    panel = page.panel(ViewedRun(make_run(tmp_path / "run")))

    def shows(speed: str) -> bool:
        return page.client.element("Speed").get("value") == speed

    for speed, shown in ((3.0, "3"), (math.inf, "max"), (1.0, "1")):
        server.set_speed(speed)
        page.call(lambda: panel.show(take_snapshot(server), 0.0, rows_at(0.0, 1)))
        page.client.take(partial(shows, shown))
        assert shown in page.client.element("Speed")["options"]
    page.set("Speed", "max")
    assert page.sent == [("pace", None, {"speed": "max"})], "only a user's choice is a command"


def test_a_choice_of_a_tab_that_is_none_does_not_end_the_page(
    free_port: Callable[[], int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_page, "RunLink", partial(RunLink, on_end=lambda: None))
    here, there = socket.socketpair()
    program, port = PipeEnd(here, 1 << 20), free_port()
    shown = live_page.LivePage(there.detach(), port, make_run(tmp_path / "run"))
    following = threading.Thread(target=shown.run)
    following.start()
    try:
        with contextlib.closing(PageClient(port)) as client:
            client.set("Vehicle", "nobody")
            heard = iter(program.receive, None)
            notice = next(one.line for one in heard if isinstance(one, UserNotice) and "tuple" in one.line)
            assert "not in tuple" in notice
            client.set("Vehicle", "0")
            for _ in range(20):
                assert not isinstance(program.receive(), UserNotice), "it is said once"
    finally:
        program.send(Stop())
        following.join()
        program.close()


def test_a_click_on_the_ground_sends_the_vehicle_there_and_one_on_the_sky_does_not(
    page: Page, tmp_path: Path
) -> None:
    page.panel(ViewedRun(make_run(tmp_path / "run")))
    page.client.click((1.0, 2.0, 10.0), (0.6, 0.0, 0.8))
    page.settle()
    assert page.sent == []
    page.client.click((1.0, 2.0, 10.0), (0.6, 0.0, -0.8))
    page.settle()
    assert page.sent == [("goto", "0", {"position": pytest.approx((2.0, 8.5, 0.0))})]


def camera_of(page: Page) -> Any:
    """The camera of the only client."""
    page.settle()
    (client,) = page.server.get_clients().values()
    return client.camera


def test_the_camera_follows_the_vehicle_from_behind_and_from_above(page: Page, tmp_path: Path) -> None:
    run = ViewedRun(make_run(tmp_path / "run"))
    stage, camera = page.call(lambda: Stage(page.server, run)), camera_of(page)
    row = np.zeros(1, ROW)[0]

    def follow(how: str, seconds: float) -> None:
        page.call(lambda: stage.follow(row, how, 12.0, list(page.server.get_clients().values()), seconds))

    half = 0.25 * math.pi
    row["position"], row["attitude"] = (3.0, 4.0, -10.0), (math.cos(half), 0.0, 0.0, math.sin(half))
    follow(CHASE, 60.0)
    east, north, up = np.subtract(camera.position, camera.look_at)
    assert camera.look_at == pytest.approx((4.0, 3.0, 10.0))
    assert (east, north) == pytest.approx((east, 0.0), abs=0.01)
    assert east < -3.0, "the vehicle looks east, so the eye is in the west"
    assert up > 1.0
    follow(ABOVE, 0.04)
    assert camera.position[2] > 15.0
    assert tuple(camera.up_direction) == pytest.approx((0.0, 1.0, 0.0))
    before = tuple(camera.position)
    row["position"] = (30.0, 4.0, -10.0)
    follow(FREE, 0.04)
    assert tuple(camera.position) == before


def test_the_following_camera_stays_before_a_wall(page: Page, tmp_path: Path) -> None:
    run = ViewedRun(make_run(tmp_path / "run"))
    wall = BoxObject(kind="box", position=(-2.0, 0.0, -5.0), size=(0.2, 40.0, 10.0))
    run.scene = Scene(SceneSpecification(objects=(wall,)))
    stage, camera = page.call(lambda: Stage(page.server, run)), camera_of(page)
    row = np.zeros(1, ROW)[0]

    def follow() -> None:
        page.call(lambda: stage.follow(row, CHASE, 12.0, list(page.server.get_clients().values()), 60.0))

    row["position"], row["attitude"] = (0.0, 0.0, -3.0), (1.0, 0.0, 0.0, 0.0)
    follow()
    east, north, _ = camera.position
    assert (east, north) == pytest.approx((0.0, -0.9 * 1.9), abs=0.01)
    row["position"] = (-1.9, 0.0, 0.0)  # on the ground, at the wall
    follow()
    assert math.dist(camera.position, camera.look_at) > 0.3
    row["position"] = (30.0, 0.0, -3.0)
    follow()
    assert 27.0 > camera.position[1] > -1.9


def test_the_page_gets_the_flight_stacks_reports(
    make_desk: Callable[..., Desk], free_port: Callable[[], int], tmp_path: Path
) -> None:
    reports = [StackReport("Hold", [(1.0, 6, "ready")], (1.0, 0.0, 0.0, -2.0))]
    view = LiveView(RunContext(make_desk().server, tmp_path, stacks=lambda: reports), free_port())
    here, there = socket.socketpair()
    view.link, page = PipeEnd(here, 1 << 20), PipeEnd(there, 1 << 20)
    view.process(SnapshotRequest(Counts()))
    assert isinstance(page.receive(), SimulationSnapshot)
    assert page.receive() == StackReports(reports)
    view.link.close()
    page.close()


def test_the_tab_names_airframes_run_and_project(tmp_path: Path) -> None:
    assert ViewedRun(make_run(tmp_path / "run")).title == "iris - run - sitl-bridge"
    assert ViewedRun(make_run(tmp_path / "fleet", 3)).title == "3 x iris - fleet - sitl-bridge"


def test_sticks_of_the_page_are_a_command_of_the_bus_and_one_refusal_is_listed_once(
    page: Page, tmp_path: Path
) -> None:
    panel, client = page.panel(ViewedRun(make_run(tmp_path / "run"))), page.client
    page.call(lambda: panel.take_sticks((0.5, 0.0, -1.0, 0.25)))
    fields = {"forward": 0.5, "right": 0.0, "throttle": 0.0, "clockwise": 0.25}
    assert page.sent == [("sticks", "0", fields)]
    VEHICLE_COMMANDS["sticks"].model_validate({"version": 1, "request_id": "a", **fields})
    client.take(lambda: client.has("forward +0.5, right +0.0, up -1.0, clockwise +0.2"))
    for time_ in (1.0, 2.0, 3.0):
        refused = Reply(version=1, time=time_, request_id="a", command="sticks", vehicle="0", accepted=False,
                        reason="not armed")  # fmt: skip
        page.call(partial(panel.show_replies, [refused]))
    page.call(lambda: panel.show_note("the last"))
    client.take(lambda: client.has("- the last\n- 1.0 s: sticks refused: not armed"))
    page.sent.clear()
    page.set("Fly by hand", True)
    page.set("Fly by hand", False)
    assert len(page.sent) == 1, "switched off with centred sticks it commands nothing"


def flown_rows(steps: int, vehicles: int = 2) -> np.ndarray[Any, Any]:
    """A step a second; the second vehicle climbs at 1 m/s."""
    rows = np.concatenate([rows_at(float(k), vehicles) for k in range(steps)])
    rows["position"][1::vehicles, 2] = -np.arange(steps)
    rows["attitude"][:, 0] = 1.0
    return rows


def test_a_plot_shows_the_last_minute_of_the_chosen_vehicle(page: Page, tmp_path: Path) -> None:
    run, client = ViewedRun(make_run(tmp_path / "run", 2)), page.client
    controls = page.call(lambda: ViewControls(page.server, run, Stage(page.server, run), FREE))
    page.call(lambda: controls.build_picture(lambda: rows_at(0.0), lambda: None))

    def plots() -> list[dict[str, Any]]:
        return [shown for shown in client.gui.values() if "series" in shown]

    page.set("Vehicle", "1")
    page.call(lambda: controls.draw_plot(flown_rows(100)))
    page.set("Quantity", "Height (m)")
    page.call(lambda: controls.draw_plot(flown_rows(100)))
    client.take(plots)
    (plot,) = plots()
    seconds, height = plot["data"]
    assert seconds == pytest.approx(np.arange(39.0, 100.0))
    assert height == pytest.approx(np.arange(39.0, 100.0))
    assert [line["label"] for line in plot["series"]] == ["s", "height"]
    page.call(lambda: controls.draw_plot(flown_rows(101)))
    client.take(lambda: plot["data"][1][-1] == 100.0)
    page.set("Quantity", "Rotor speeds (rad/s)")
    page.call(lambda: controls.draw_plot(flown_rows(100)))
    client.take(lambda: [len(shown["data"]) for shown in plots()] == [5])


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_every_quantity_has_a_curve_for_each_of_its_names(quantity: str) -> None:
    names, values = QUANTITIES[quantity]
    assert values(flown_rows(3)).shape[1] >= len(names)


def test_an_arrow_of_thrust_is_as_long_as_the_rotor_carries(page: Page, tmp_path: Path) -> None:
    run, scene = ViewedRun(make_run(tmp_path / "run")), page.client.scene
    stage = page.call(lambda: Stage(page.server, run))
    rows = run.at_start()
    rows["rotor_thrust"][:, :4] = np.array([1.0, 2.0, 0.0, 1.0]) * run.airframes[0].mass * run.gravity / 4.0

    def arrows() -> list[dict[str, Any]]:
        return [shown for name, shown in scene.items() if name.startswith("/thrust") and "points" in shown]

    page.call(lambda: stage.place(rows))
    stage.thrust = True
    page.call(lambda: stage.place(rows))
    page.client.take(arrows)
    (arrow,) = arrows()
    points = arrow["points"].reshape(-1, 2, 3)
    along = points[:, 1] - points[:, 0]
    reach = vehicle_shape(run.airframes[0]).reach
    assert along == pytest.approx(np.outer([1.0, 2.0, 1.0], [0.0, 0.0, 1.5 * reach]), abs=1e-5)
    stage.thrust = False
    page.call(lambda: stage.place(rows))
    page.client.take(lambda: not arrows())


def test_a_shadow_lies_flat_below_its_vehicle_whatever_its_attitude(page: Page, tmp_path: Path) -> None:
    run, scene = ViewedRun(make_run(tmp_path / "run")), page.client.scene
    stage = page.call(lambda: Stage(page.server, run))
    rows = run.at_start()
    rows["position"], rows["attitude"] = (3.0, 4.0, -10.0), (math.sqrt(0.5), 0.0, math.sqrt(0.5), 0.0)
    page.call(lambda: stage.place(rows))
    page.client.take(lambda: scene.get("/vehicles/0/shadows", {}).get("batched_positions", [0.0])[0] == 4.0)
    shadow = scene["/vehicles/0/shadows"]
    page.client.take(lambda: shadow["batched_scales"][2] != 1.0)
    assert shadow["batched_positions"].tolist() == [4.0, 3.0, 0.0]
    assert shadow["batched_wxyzs"][1:3] == pytest.approx([0.0, 0.0], abs=1e-6)
    assert shadow["batched_scales"][2] < 0.05


def test_a_drawn_track_is_straight_where_the_vehicle_flew_straight_and_near_it_everywhere() -> None:
    t = np.linspace(0.0, 30.0, 150)[:, None]
    way = np.stack([np.clip(t, 0.0, 10.0), np.clip(t - 10.0, 0.0, 10.0), 0.0 * t], axis=2)
    circle = np.stack([8.0 * np.cos(t), 8.0 * np.sin(t), 0.0 * t], axis=2)
    points = np.concatenate([way, circle, np.full_like(way, math.nan)], axis=1)
    first, last, track = straight_pieces(points)
    for k in range(2):
        begin, end = np.sort(first[track == k]), np.sort(last[track == k])
        assert (begin[0], end[-1]) == (0, len(t) - 1)
        assert np.array_equal(begin[1:], end[:-1]), "one after the other"
    for i, j, k in zip(first, last, track, strict=True):
        if k < 2:
            a, b = points[i, k], points[j, k]
            along = np.clip((points[i:j, k] - a) @ (b - a) / max((b - a) @ (b - a), 1e-9), 0.0, 1.0)
            off = np.linalg.norm(points[i:j, k] - a - along[:, None] * (b - a), axis=1)
            assert off.max() < 0.02
    assert (track == 0).sum() < 30
    assert (track == 1).sum() > 100


def test_a_track_by_estimates_grows_where_it_was_chosen(page: Page, tmp_path: Path) -> None:
    run, scene = ViewedRun(make_run(tmp_path / "run", 2)), page.client.scene
    stage, (start, _) = page.call(lambda: Stage(page.server, run)), run.at_start()["position"]
    stage.add_estimates([(math.nan, math.nan, math.nan, math.nan)] * 2)
    for time_ in (1.0, 1.0, 2.0, 3.0):
        stage.add_estimates([(time_, time_, 0.0, -5.0), (math.nan, math.nan, math.nan, math.nan)])
    times, places = stage.estimates[0]
    assert times.tolist() == [1_000_000, 2_000_000, 3_000_000]
    assert places == pytest.approx(start + np.array([[1.0, 0.0, -5.0], [2.0, 0.0, -5.0], [3.0, 0.0, -5.0]]))
    assert len(stage.estimates[1][0]) == 0
    rows = np.tile(run.at_start(), 2)
    rows["time"][2:] = 2_000_000
    page.call(lambda: stage.draw_tracks(rows))
    page.client.take(lambda: "/tracks" in scene)
    assert "/estimates" not in scene
    stage.estimated = True
    page.call(lambda: stage.draw_tracks(rows))
    page.client.take(lambda: "points" in scene.get("/estimates", {}))
    east, north, up = scene["/estimates"]["points"].reshape(-1, 2, 3)[0, 1]
    assert (north, east, -up) == pytest.approx(tuple(places[1]))


def test_playback_goes_from_event_to_event_and_shows_the_estimates(
    tmp_path: Path, free_port: Callable[[], int]
) -> None:
    pytest.importorskip("viser")
    playback = Playback(ViewedRun(make_run(tmp_path / "run")), free_port())
    try:
        playback.logs.join()
        in_server(playback.server, lambda: None)  # after what the logs' thread has asked of it
        titles = playback.event.options
        assert [title for title in titles if title.startswith("2.00 s: armed")]
        assert any(title.startswith("30.00 s: injected, gust") for title in titles)
        playback.seek(20.0)
        playback.turn_to(1)
        assert playback.seconds == pytest.approx(30.0)
        assert playback.event.value.startswith("30.00 s")
        playback.advance(0.0)
        assert playback.event.value.startswith("30.00 s")
        playback.turn_to(-1)
        assert playback.seconds < 20.0
        assert not playback.playing
        (times, places) = playback.stage.estimates[0]
        at = np.searchsorted(times, 38_000_000)
        assert places[at] == pytest.approx([6.0, 0.0, -5.0], abs=0.05)
    finally:
        playback.close()
