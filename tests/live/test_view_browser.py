"""Pages in a real headless Chromium: no error, no request to elsewhere, pixels, and buttons."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from scipy.spatial.transform import Rotation
from support.browser import open_browser
from support.peer import Peer
from support.run_directories import make_run

from sitl_bridge.base.arrays import Columns
from sitl_bridge.base.error_log import ErrorLog
from sitl_bridge.core.simulation.simulation import Simulation
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.vehicle.stack_choice import Choice
from sitl_bridge.link.hil.server import LockstepServer
from sitl_bridge.live.outlets import PageSettings
from sitl_bridge.live.run.client_link import Picture
from sitl_bridge.live.run.outlet import RunContext
from sitl_bridge.live.view import stream
from sitl_bridge.live.view.page_server import page_url
from sitl_bridge.live.view.pictures import pack_picture
from sitl_bridge.live.view.playback import Playback
from sitl_bridge.live.view.stream import LiveView
from sitl_bridge.live.view.viewed_run import ViewedRun
from sitl_bridge.record.run_description import describe_simulation
from sitl_bridge.record.run_recorder import RunRecorder
from sitl_bridge.session.ready_session import ReadySession
from sitl_bridge.session.settings import FlightSettings, VehicleSettings
from sitl_bridge.session.stacks import CENTRED, STICKS

pytest.importorskip("viser", reason="pip install viser")
# Chromium draws without a graphics processor: this takes minutes.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

INSTANCE = 109
TIMEOUT = 240_000
"""ms for Chromium."""
SOFTWARE = ["--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
KNOWN = ("THREE.Clock",)
"""Beginnings of warnings of the page's libraries."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with open_browser(*SOFTWARE) as found:
        yield found


@pytest.fixture
def opened(browser: Any) -> Iterator[tuple[Any, list[str]]]:
    """A page that writes down errors and requests to elsewhere."""
    page = browser.new_page(viewport={"width": 1000, "height": 460})
    page.set_default_timeout(TIMEOUT)
    faults: list[str] = []

    def note(message: Any) -> None:
        if message.type in ("error", "warning") and not message.text.startswith(KNOWN):
            faults.append(f"{message.type}: {message.text}")

    page.on("console", note)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on(
        "request",
        lambda one: (
            None if one.url.startswith(("http://127.0.0.1:", "data:", "blob:")) else faults.append(one.url)
        ),
    )
    yield page, faults
    page.close()


def picture(page: Any) -> np.ndarray[Any, Any]:
    """(h, w, 3) of what the page shows."""
    page.wait_for_timeout(2000)  # the last message is drawn
    shot = page.screenshot(timeout=TIMEOUT)
    return np.asarray(Image.open(io.BytesIO(shot)).convert("RGB")).astype(int)


def around(
    page: Any, shot: np.ndarray[Any, Any], client: Any, enu: tuple[float, float, float], reach: int = 20
) -> np.ndarray[Any, Any]:
    """The pixels around the place where a point is projected."""
    camera = client.camera
    w, x, y, z = camera.wxyz
    right, down, ahead = Rotation.from_quat([x, y, z, w]).inv().apply(np.array(enu) - camera.position)
    canvas = page.locator("canvas").first.bounding_box()
    scale = 0.5 * canvas["height"] / math.tan(0.5 * camera.fov)
    u = round(canvas["x"] + 0.5 * canvas["width"] + scale * right / ahead)
    v = round(canvas["y"] + 0.5 * canvas["height"] + scale * down / ahead)
    return shot[max(v - reach, 0) : v + reach, max(u - reach, 0) : u + reach]


def orange(pixels: np.ndarray[Any, Any]) -> int:
    """Number of pixels in the first vehicle's colour."""
    red, green, blue = pixels[..., 0], pixels[..., 1], pixels[..., 2]
    return int(((red > green + 15) & (green > blue + 15)).sum())


def eventually(page: Any, condition: Callable[[], bool], what: str) -> None:
    for _ in range(TIMEOUT // 200):
        if condition():
            return
        page.wait_for_timeout(200)
    raise AssertionError(f"not within {TIMEOUT / 1000:g} s: {what}")


def test_a_recording_plays_and_its_vehicle_is_where_it_flew(
    opened: tuple[Any, list[str]], tmp_path: Path, free_port: Callable[[], int]
) -> None:
    page, faults = opened
    run, port = ViewedRun(make_run(tmp_path / "run")), free_port()
    playback = Playback(run, port)
    try:
        playback.stage.scale = 4.0
        camera = playback.server.initial_camera
        camera.position, camera.look_at = (-7.7, -7.5, 8.8), (0.0, 3.0, 2.5)
        page.goto(page_url(port))
        eventually(page, lambda: len(playback.server.get_clients()) == 1, "the page connects")
        (client,) = playback.server.get_clients().values()
        eye = camera.position
        eventually(page, lambda: np.allclose(client.camera.position, eye, atol=0.01), "the camera is set")
        # 3 m north at 20 s, 6 m north at 38 s, 5 m up.
        early, late = (0.0, 3.0, 5.0), (0.0, 6.0, 5.0)
        shots = []
        for seconds in (20.0, 38.0):
            playback.seek(seconds)
            playback.advance(0.0)
            shots.append(picture(page))
        left, gone = (around(page, shot, client, early) for shot in shots)
        before, there = (around(page, shot, client, late) for shot in shots)
        assert (np.abs(left - gone).sum(axis=-1) > 60).sum() > 30, "the vehicle leaves its place"
        assert orange(there) > 2 * orange(before), "it appears where it flew; the track is thinner"
        page.get_by_role("button", name="Play").click()
        eventually(page, lambda: playback.playing, "the button plays on")
        playback.advance(1.0)
        assert playback.seconds == pytest.approx(39.0)
    finally:
        playback.close()
    assert [fault for fault in faults if "WebSocket" not in fault] == []


@pytest.fixture
def served(
    make_simulation: Callable[..., Simulation], free_port: Callable[[], int], tmp_path: Path
) -> Iterator[LockstepServer]:
    """Two vehicles in lockstep with obedient peers, recorded in ``tmp_path``."""
    simulation = make_simulation("iris", "iris")
    facts = describe_simulation("serve", simulation, [load_airframe("iris")] * 2, None)
    (tmp_path / "run.json").write_text(json.dumps(facts, default=str))
    ports = [free_port(), free_port()]
    recorder = RunRecorder(tmp_path, ErrorLog(lambda _line: None), simulation.most_rotors)
    with recorder:
        server = LockstepServer(simulation, ports=ports, speed=1.0, recorder=recorder)
        server.prepare()
        with server:
            peers = [Peer(port) for port in ports]
            yield server
            for peer in peers:
                peer.close()
    assert server.failure is None


def test_a_button_of_the_live_page_pauses_the_simulation(
    opened: tuple[Any, list[str]], served: LockstepServer, tmp_path: Path, free_port: Callable[[], int]
) -> None:
    page, faults = opened
    notes: list[str] = []
    errors = ErrorLog(notes.append)
    with LiveView(RunContext(served, tmp_path, notify=notes.append, errors=errors), free_port()) as view:
        eventually(page, lambda: f"live view at {view.url}" in notes, "the page is served")
        page.goto(view.url)
        page.get_by_text("x real time").wait_for()
        assert page.title() == f"2 x iris - {tmp_path.name} - sitl-bridge"
        for folder in ("Flight", "Failures"):
            page.get_by_text(folder, exact=True).click()
        page.get_by_role("button", name="Pause").click()
        eventually(page, lambda: served.status().paused, "the simulation pauses")
        page.get_by_role("button", name="Resume").wait_for()
        page.get_by_text("pause done").wait_for()
        before = served.status().steps
        page.get_by_role("button", name="Step", exact=True).click()
        eventually(page, lambda: served.status().steps == before + 1, "one step is taken")
        page.get_by_role("button", name="Arm", exact=True).click()
        page.get_by_text("arm of 0 refused: this run has no link to its flight stacks").wait_for()
        page.get_by_role("button", name="Resume").click()
        eventually(page, lambda: not served.status().paused, "the simulation goes on")
    assert errors.lines == []
    assert view.failure is None
    assert [fault for fault in faults if "WebSocket" not in fault] == []


def test_the_live_page_shows_the_pictures_of_a_camera(
    opened: tuple[Any, list[str]],
    make_simulation: Callable[..., Simulation],
    free_port: Callable[[], int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The left half of each picture is red and the right half green; later, the left half is blue."""
    page, faults = opened
    simulation = make_simulation("iris_camera")
    airframe = load_airframe("iris_camera")
    sensor = airframe.perception_sensors()[0].name
    facts = describe_simulation("serve", simulation, [airframe], None)
    (tmp_path / "run.json").write_text(json.dumps(facts, default=str))
    image = np.zeros((120, 160, 3), np.uint8)
    image[:, :80], image[:, 80:] = (200, 20, 20), (20, 180, 20)
    asked: list[tuple[str, str]] = []

    def picture(vehicle: str, name: str, _time: float, _arrays: Columns) -> Picture:
        asked.append((vehicle, name))
        return pack_picture(vehicle, name, float(len(asked)), {"image": image})

    monkeypatch.setattr(stream, "packed", picture)

    def shown(colour: tuple[int, int, int]) -> int:
        """Pixels of the page about in a colour."""
        shot = np.asarray(Image.open(io.BytesIO(page.screenshot(timeout=TIMEOUT))).convert("RGB"))
        return int((np.abs(shot.astype(int) - colour).max(axis=-1) < 30).sum())

    recorder = RunRecorder(tmp_path, ErrorLog(lambda _line: None), simulation.most_rotors)
    notes: list[str] = []
    port = free_port()
    with recorder:
        server = LockstepServer(simulation, ports=[port], speed=1.0, recorder=recorder)
        server.prepare()
        with server:
            peer = Peer(port)
            with LiveView(RunContext(server, tmp_path, notify=notes.append), free_port()) as view:
                eventually(page, lambda: f"live view at {view.url}" in notes, "the page is served")
                page.set_viewport_size({"width": 1000, "height": 1400})
                page.goto(view.url)
                eventually(page, lambda: bool(asked), "a picture is asked for")
                eventually(page, lambda: shown((200, 20, 20)) > 2000, "red appears")
                assert shown((20, 180, 20)) > 2000
                image[:, :80] = (20, 20, 220)
                eventually(page, lambda: shown((20, 20, 220)) > 2000, "the next picture replaces it")
                assert shown((200, 20, 20)) < 200
            peer.close()
    assert set(asked) == {("0", sensor)}
    # Chromium reports one resource as missing while pictures are replaced; they are shown all the same.
    known = ("WebSocket", "ERR_FILE_NOT_FOUND")
    assert [fault for fault in faults if not any(text in fault for text in known)] == []


def stick_values(moved: list[tuple[str, Mapping[str, Any]]]) -> tuple[float, ...]:
    """Forward, right, throttle and clockwise of the last command."""
    return tuple(moved[-1][1][name] for name in STICKS) if moved else ()


def test_keys_and_a_gamepad_are_sticks_while_one_flies_by_hand(
    opened: tuple[Any, list[str]], served: LockstepServer, tmp_path: Path, free_port: Callable[[], int]
) -> None:
    page, faults = opened
    moved: list[tuple[str, Mapping[str, Any]]] = []
    notes: list[str] = []

    def fly(kind: str, data: Mapping[str, Any], _vehicle: int | None) -> Future[None]:
        moved.append((kind, data))
        done: Future[None] = Future()
        done.set_result(None)
        return done

    run = RunContext(served, tmp_path, notify=notes.append, on_flight=fly)
    with LiveView(run, free_port()) as view:
        eventually(page, lambda: f"live view at {view.url}" in notes, "the page is served")
        page.goto(view.url)
        page.get_by_text("x real time").wait_for()
        page.keyboard.press("ArrowUp")  # nobody flies by hand yet
        page.get_by_text("Sticks", exact=True).click()
        page.get_by_label("Fly by hand").check()
        eventually(page, lambda: stick_values(moved) == CENTRED, "the sticks are centred")
        assert [kind for kind, _ in moved] == ["sticks"]
        page.wait_for_function("() => 'endFlight' in window")  # the page listens
        page.keyboard.down("ArrowUp")
        eventually(page, lambda: stick_values(moved) == (0.5, 0.0, 0.5, 0.0), "a key moves a stick")
        page.keyboard.down("KeyW")
        eventually(page, lambda: stick_values(moved) == (0.5, 0.0, 0.75, 0.0), "and another one")
        page.get_by_text("forward +0.5, right +0.0, up +0.5").wait_for()
        page.keyboard.up("ArrowUp")
        page.keyboard.up("KeyW")
        eventually(page, lambda: stick_values(moved) == CENTRED, "the sticks spring back")
        pad = "navigator.getGamepads = () => [null, {mapping: 'standard', axes: [0.25, 0.05, 0.5, -1.0]}]"
        page.evaluate(pad)
        eventually(page, lambda: stick_values(moved) == (1.0, 0.5, 0.5, 0.25), "a gamepad moves them")
        page.evaluate("navigator.getGamepads = () => []")
        page.get_by_label("Fly by hand").uncheck()
        eventually(page, lambda: stick_values(moved) == CENTRED, "the sticks are let go")
    assert [fault for fault in faults if "WebSocket" not in fault] == []


def fly_by_keys(page: Any, autopilot: Choice, tmp_path: Path, port: int) -> None:
    """Take off by the page's button, fly east and up by its keys, and land."""
    vehicle = VehicleSettings(load_airframe("iris"), instance=INSTANCE, autopilot=autopilot, yaw=math.pi / 2)
    settings = FlightSettings((vehicle,), "by_hand", speed=1.0, runs=tmp_path, outlets=(PageSettings(port),))
    notes: list[str] = []
    with ReadySession(settings, notes.append) as session:
        session.settle()
        session.run_freely()
        eventually(page, lambda: any("live view at" in line for line in notes), "the page is served")
        status = session.server.status
        page.goto(page_url(port))
        page.get_by_text("x real time").wait_for()
        for folder in ("Flight", "Sticks"):
            page.get_by_text(folder, exact=True).click()
        page.get_by_role("button", name="Take off").click()
        eventually(page, lambda: status().position[0, 2] < -4.0, "it takes off")
        page.get_by_label("Fly by hand").check()
        page.get_by_text("sticks done").wait_for()
        page.keyboard.down("ArrowUp")
        eventually(page, lambda: status().velocity[0, 1] > 1.0, "it flies forward, which is east")
        page.keyboard.up("ArrowUp")
        page.keyboard.down("KeyW")
        eventually(page, lambda: status().velocity[0, 2] < -0.3, "it climbs")
        page.keyboard.up("KeyW")
        eventually(page, lambda: bool(np.linalg.norm(status().velocity[0]) < 0.3), "it comes to a halt")
        assert session.vehicles[0].monitor.status().mode == "Position"
        page.get_by_role("button", name="Land").click()
        eventually(page, lambda: not status().links[0].armed, "it lands")
    texts = [message.text for message in session.vehicles[0].messages]
    assert not [text for text in texts if "ailsafe" in text], texts


def test_the_built_in_stack_is_flown_by_keys(
    opened: tuple[Any, list[str]], tmp_path: Path, free_port: Callable[[], int]
) -> None:
    fly_by_keys(opened[0], "builtin", tmp_path, free_port())


@pytest.mark.px4
def test_px4_is_flown_by_keys(
    opened: tuple[Any, list[str]], tmp_path: Path, free_port: Callable[[], int]
) -> None:
    fly_by_keys(opened[0], "px4", tmp_path, free_port())
