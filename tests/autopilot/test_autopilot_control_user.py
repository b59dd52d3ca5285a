"""A controller of one's own: one class, one line; and what an airframe may say of its controller."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.autopilot_bench import DT, Bench, fly
from support.paths import AIRFRAMES

from sitl_bridge.autopilot.control.gains import controller_record
from sitl_bridge.autopilot.control.records import HECTOR_PID, LEE, USER
from sitl_bridge.autopilot.control.user_controller import user_controller
from sitl_bridge.autopilot.records import ESTIMATE, IDLE, SETPOINT, TRAJECTORY, WRENCH
from sitl_bridge.base.errors import ConfigurationError, UserError
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.world import World
from sitl_bridge.session.scenario_settings import scenario_settings
from sitl_bridge.session.settings import FlightOptions, FlightSettings

LQR = f"{AIRFRAMES / 'controllers' / 'lqr.py'}:Lqr"
MINE = """
from sitl_bridge.autopilot.control.user_controller import Controller, Wrench
class Pusher(Controller):
    def __init__(self, vehicle, share=1.0):
        super().__init__(vehicle)
        self.share, self.resets = share, 0
    def reset(self):
        self.resets += 1
    def control(self, estimate, setpoint, dt):
        return Wrench(self.share * self.vehicle.mass * self.vehicle.gravity, (0.0, 0.0, 0.0))
class Broken(Pusher):
    def control(self, estimate, setpoint, dt):
        return 1.0 / 0.0
class Numberless(Pusher):
    def control(self, estimate, setpoint, dt):
        return Wrench(float("nan"), (0.0, 0.0, 0.0))
class Flat(Pusher):
    def control(self, estimate, setpoint, dt):
        return Wrench(1.0, 0.0)
class Stranger:
    pass
"""


@pytest.fixture
def airframe_with(tmp_path: Path) -> Callable[[str], Path]:
    """The iris with lines more at its end, and mine.py beside it."""

    def make(lines: str) -> Path:
        (tmp_path / "mine.py").write_text(MINE)
        path = tmp_path / "mine.yaml"
        path.write_text((AIRFRAMES / "iris.yaml").read_text(encoding="utf-8") + lines + "\n")
        return path

    return make


@pytest.mark.parametrize("name", ["iris", "hummingbird", "asymmetric_quadrotor"])
def test_the_example_flies_to_its_setpoints_and_hovers(name: str) -> None:
    bench = Bench([name], LQR)
    host = user_controller(bench.airframes[0], bench.world, LQR)
    assert host is not None
    bench.setpoints["level"] = IDLE
    fly(bench, host, 0.5)
    assert np.linalg.norm(bench.states["position"] - bench.home) < 0.01
    bench.setpoints["level"], bench.setpoints["yaw"] = TRAJECTORY, 0.5
    bench.setpoints["position"] = bench.home - np.array([-3.0, -4.0, 5.0])
    fly(bench, host, 10.0)
    away = bench.states["position"][0] - bench.setpoints["position"][0]
    assert np.linalg.norm(away[:2]) < 0.05
    # Without an integral a full battery lifts it a little higher.
    assert -0.6 < away[2] < 0.0
    heading = 2.0 * math.atan2(bench.states["attitude"][0, 3], bench.states["attitude"][0, 0])
    assert heading == pytest.approx(0.5, abs=0.02)


def test_one_line_names_a_class_beside_the_airframe(airframe_with: Callable[[str], Path]) -> None:
    airframe = load_airframe(airframe_with("controller: mine.py:Pusher"))
    assert controller_record(airframe, World())["kind"] == USER
    host = user_controller(airframe, World())
    assert host is not None
    wrench, setpoint, estimate = np.zeros((), WRENCH), np.zeros((), SETPOINT), np.zeros((), ESTIMATE)
    setpoint["level"] = TRAJECTORY
    host.run(estimate, setpoint, DT, wrench)
    weight = airframe.mass * float(World().environment[0]["gravity"])
    assert wrench["thrust"] == pytest.approx(weight)
    setpoint["level"] = IDLE
    host.run(estimate, setpoint, DT, wrench)
    assert host.controller.resets == 2


def test_options_reach_the_class_and_a_choice_outdoes_the_airframe(
    airframe_with: Callable[[str], Path],
) -> None:
    airframe = load_airframe(airframe_with("controller: {kind: 'mine.py:Pusher', options: {share: 0.5}}"))
    host = user_controller(airframe, World())
    assert host is not None
    assert host.controller.share == 0.5
    assert user_controller(airframe, World(), "lee") is None
    assert controller_record(airframe, World(), "lee")["kind"] == LEE
    assert controller_record(load_airframe("firefly"), World())["kind"] == HECTOR_PID


def test_a_file_named_from_anywhere_is_found_by_the_stack_in_its_own_directory(
    airframe_with: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    airframe_with("controller: mine.py:Pusher")
    vehicle = "{airframe: iris, controller: 'mine.py:Pusher', mission: hover.py}"
    (tmp_path / "alone.yaml").write_text(f"vehicles: [{vehicle}]\n")
    shutil.copy(AIRFRAMES.parent / "missions" / "hover.py", tmp_path)
    expected = f"{tmp_path.resolve() / 'mine.py'}:Pusher"
    monkeypatch.chdir(tmp_path)
    assert load_airframe("mine.yaml").controller.kind == expected
    (alone,) = FlightSettings.without_mission(FlightOptions(controller="mine.py:Pusher")).vehicles
    assert alone.controller == expected
    monkeypatch.chdir(tmp_path.parent)
    settings = scenario_settings(Path(tmp_path.name) / "alone.yaml", FlightOptions(autopilot="builtin"))
    assert settings.vehicles[0].controller == expected


def test_an_airframe_takes_the_controller_of_its_base(
    airframe_with: Callable[[str], Path], tmp_path: Path
) -> None:
    airframe_with("controller: mine.py:Pusher")
    (tmp_path / "elsewhere").mkdir()
    heir = tmp_path / "elsewhere" / "heir.yaml"
    heir.write_text("base: ../mine.yaml\nname: heir\ndescription: an iris of its own\n")
    assert user_controller(load_airframe(heir), World()) is not None


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "controller: le",
            r"line \d+: controller.*no controller is called 'le'; give hector_pid, lee, rotors",
        ),
        ("controller: rotors", r"line \d+: controller.*needs the published gains under rotors"),
        ("controller: {kind: lee, gain: 3}", r"line \d+: controller.gain: unknown"),
        (
            "controller: {kind: lee, options: {share: 1}}",
            r"only a custom controller, FILE.py:CLASS, takes options",
        ),
        ("controller: {rotors: {position_gain: [1, 2]}}", r"controller.rotors"),
        ("controller: 3", r"line \d+: controller"),
    ],
)
def test_a_section_at_fault_is_told_with_its_line(
    airframe_with: Callable[[str], Path], line: str, message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        load_airframe(airframe_with(line))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("mine.py:Stranger", "has no class Stranger derived from Controller"),
        ("mine.py:Nobody", "has no class Nobody"),
        ("yours.py:Pusher", "no such Python file for a controller"),
    ],
)
def test_a_class_that_cannot_be_loaded_is_told(
    airframe_with: Callable[[str], Path], kind: str, message: str
) -> None:
    airframe = load_airframe(airframe_with(f"controller: {kind}"))
    with pytest.raises(UserError, match=message):
        user_controller(airframe, World())


def test_options_the_class_does_not_take_are_told(airframe_with: Callable[[str], Path]) -> None:
    airframe = load_airframe(airframe_with("controller: {kind: 'mine.py:Pusher', options: {part: 0.5}}"))
    with pytest.raises(UserError, match=r"mine\.py: Pusher could not be created.*part"):
        user_controller(airframe, World())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Broken", "Broken failed: ZeroDivisionError"),
        ("Numberless", "returned thrust nan"),
        ("Flat", "expected one number and three"),
    ],
)
def test_a_class_that_fails_in_flight_is_told_by_name(
    airframe_with: Callable[[str], Path], name: str, message: str
) -> None:
    host = user_controller(load_airframe(airframe_with(f"controller: mine.py:{name}")), World())
    assert host is not None
    setpoint = np.zeros((), SETPOINT)
    setpoint["level"] = TRAJECTORY
    with pytest.raises(UserError, match=message):
        host.run(np.zeros((), ESTIMATE), setpoint, DT, np.zeros((), WRENCH))


def test_a_choice_there_is_not_is_told_with_those_there_are(iris: Airframe) -> None:
    with pytest.raises(UserError, match=r"'mpc'; give hector_pid, lee, rotors or FILE\.py:CLASS"):
        controller_record(iris, World(), "mpc")
