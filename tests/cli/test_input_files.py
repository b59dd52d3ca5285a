"""Files that users name: what cannot be read is refused at once and in one sentence, whatever its kind."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.airframe_texts import spell_out
from support.paths import AIRFRAMES, MISSIONS
from support.swarm_scenarios import load_avoidance, load_formation

from sitl_bridge.base.errors import ConfigurationError, UserError
from sitl_bridge.base.user_file import load_class
from sitl_bridge.base.yaml_file import read
from sitl_bridge.cli.facts import derive_facts
from sitl_bridge.core.sensors.custom import CustomSensor
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.height_map_file import load_heights
from sitl_bridge.core.world.mesh_file import load_mesh
from sitl_bridge.core.world.octree_file import load_octree
from sitl_bridge.core.world.scene_geometry import load_texture
from sitl_bridge.core.world.wind import WindSeries, WindSpecification, parse_wind
from sitl_bridge.core.world.world import Origin
from sitl_bridge.core.world.world_file import load_world
from sitl_bridge.plan.plan_file import load_plan
from sitl_bridge.session.mission_file import check_mission
from sitl_bridge.session.scenario_settings import scenario_settings
from sitl_bridge.session.settings import FlightOptions
from sitl_bridge.swarm.formation.files import read_csv


def _recorded_wind(path: Path) -> object:
    return WindSpecification(series=WindSeries(file=path)).load_series()


READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "airframe": ("x.yaml", load_airframe),
    "world": ("x.yaml", load_world),
    "scenario": ("x.yaml", lambda path: scenario_settings(path, FlightOptions())),
    "formation": ("x.yaml", load_formation),
    "avoidance": ("x.yaml", load_avoidance),
    "plan": ("x.plan", load_plan),
    "script": ("x.py", lambda path: check_mission(path, (), Origin())),
    "wind": ("x.csv", _recorded_wind),
    "path": ("x.csv", read_csv),
    "mesh": ("x.obj", lambda path: load_mesh(path, None, (1.0, 1.0, 1.0))),
    "heights": ("x.png", lambda path: load_heights(path, 1.0, 1.0, (0.0, 0.0, 0.0))),
    "octree": ("x.bt", lambda path: load_octree(path, "ned")),
    "texture": ("x.png", load_texture),
    "sdf": ("x.sdf", load_world),
    "class": ("x.py", lambda path: load_class(path, "Mine", CustomSensor, "custom sensor")),
}


@pytest.mark.parametrize("kind", READERS)
def test_devices_fifos_directories_and_huge_files_are_refused_at_once(tmp_path: Path, kind: str) -> None:
    name, load = READERS[kind]
    for what, said in (
        ("device", "is a device; it must be an ordinary file"),
        ("fifo", "is a FIFO; it must be an ordinary file"),
        ("directory", "cannot be read: Is a directory"),
        ("huge", "is larger than"),
    ):
        path = tmp_path / what / name
        path.parent.mkdir()
        if what == "device":
            path.symlink_to("/dev/zero")
        elif what == "fifo":
            os.mkfifo(path)
        elif what == "directory":
            path.mkdir()
        else:
            with path.open("wb") as stream:
                stream.truncate(10**10)  # sparse: it takes no room
        with pytest.raises(ConfigurationError) as caught:
            load(path)
        assert str(caught.value).startswith(f"{path}: {said}"), what
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["x" * 5000, "/".join(["y" * 200] * 40), "nul\x00byte"])
def test_a_base_that_no_file_can_be_called_is_told_with_its_place(tmp_path: Path, name: str) -> None:
    escaped = name.replace("\x00", "\\0")
    path = tmp_path / "mine.yaml"
    path.write_text(f'name: mine\nbase: "{escaped}"\n', encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"mine.yaml: line 2: base: no airframe") as caught:
        load_airframe(path)
    assert len(str(caught.value)) < 800, "the names of 36 airframes, and not the 5,000 letters"


def _edited(tmp_path: Path, source: Path, *changes: tuple[str, str]) -> Path:
    text = source.read_text(encoding="utf-8")
    if source == AIRFRAMES / "iris.yaml":
        text = spell_out("iris")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    path = tmp_path / source.name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("airframe", "old", "new", "said"),
    [
        ("iris", "kind: imu\n    rate: 250", "kind: imu\n    rate: 1e-320", "sensors[0].rate: "),
        ("iris", "torque_thrust_ratio: 0.0099", "torque_thrust_ratio: 0", "less than the 0.0068 m of an"),
        ("iris", "mass: 1.", "mass: 1e-320 #", "mass: Input should be at least 1e-12"),
        ("iris", "mass: 1.", "mass: 1e300 #", "mass: Input should be less than or equal to"),
        ("iris", "kind: imu\n", "", "sensors[0]: needs a `kind`, one of airspeed, barometer, battery"),
        ("iris", "kind: imu\n", "kind: imo\n", "sensors[0]: there is no kind imo; did you mean `imu`?"),
        ("firefly", "  kind: first_order\n", "", "motor: needs a `kind`, one of dc, first_order"),
        (
            "firefly",
            "  - {position: [0, 0.215, -0.037], direction: ccw}\n",
            "",
            "firefly.yaml: the vehicle cannot hover",
        ),
    ],
)
def test_a_broken_airframe_is_told_by_file_and_place(
    tmp_path: Path, airframe: str, old: str, new: str, said: str
) -> None:
    path = _edited(tmp_path, AIRFRAMES / f"{airframe}.yaml", (old, new))
    if airframe == "iris" and new == "":
        path = _edited(tmp_path, path, ("  -     rate: 250", "  - rate: 250"))
    with pytest.raises(ConfigurationError) as caught:
        derive_facts(str(path))
    assert said in str(caught.value)
    assert all(line.startswith(str(path)) for line in str(caught.value).splitlines())


def test_an_airframe_that_cannot_stand_is_told_by_file_and_place(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    points = "[[0.3, 0.1, 0.05], [0.3, -0.1, 0.05], [0.2, 0.0, 0.05]]"
    path.write_text(
        f"base: iris\nname: own\ndescription: own\ncontact: {{points: {points}}}\n", encoding="utf-8"
    )
    with pytest.raises(ConfigurationError, match=r"own\.yaml: line 4: contact: the vehicle cannot stand"):
        derive_facts(str(path))


CIRCLE = "avoidance:\n  duration: 20\n  circle: {{count: 4, radius: {radius}, speed: {speed}}}\n"


@pytest.mark.parametrize(("radius", "speed"), [("1e23", "2"), ("5", "1e-320"), ("5", "1e300"), ("1e-9", "2")])
def test_a_circle_of_any_size_is_refused_with_its_place(tmp_path: Path, radius: str, speed: str) -> None:
    path = tmp_path / "circle.yaml"
    path.write_text(CIRCLE.format(radius=radius, speed=speed), encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"circle.yaml: line 3: avoidance.circle"):
        load_avoidance(path)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("pattern: pyramid}", "pattern: pyramids}", "formation.patterns[1]: no pattern is called 'pyramids'"),
        (
            "seed: 1\n",
            "seed: 1\nevents: [{at: 3, kind: vehicle_lost, vehicles: [9]}]\n",
            "events[0]: there is no vehicle 9",
        ),
        ("height: [2, 40]", "height: [13, 40]", "vehicle 0: height"),
        ("  count: 9\n", "  count: 9\n  duration: 86400\n", None),
        ("[-3, -3, 3]", "[-3, -0.1, 3]", "formation.patterns[2]: triangle: slots"),
    ],
)
def test_a_formation_that_does_not_suit_is_told_by_file_and_line(
    tmp_path: Path, old: str, new: str, said: str | None
) -> None:
    path = _edited(tmp_path, MISSIONS / "formation_cube.yaml", (old, new))
    if said is None:
        load_formation(path)
        return
    with pytest.raises(ConfigurationError) as caught:
        load_formation(path)
    assert said in str(caught.value)
    assert all(line.startswith(str(path)) for line in str(caught.value).splitlines())
    if "formation." in said:
        assert ": line " in str(caught.value)


def test_a_plan_of_more_than_fits_the_memory_is_refused(tmp_path: Path) -> None:
    path = _edited(tmp_path, MISSIONS / "formation_cube.yaml", ("hold: 4}", "hold: 86400}"))
    with pytest.raises(ConfigurationError, match=r"line \d+: formation.leader: 9 vehicles for 864\d\d s"):
        load_formation(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("vehicles: [{airframe: iris}]\nmission: none.py\n", "line 2: mission: "),
        (
            "vehicles:\n  - {airframe: iris}\n  - {airframe: irsi, mission: a.py}\n",
            "line 3: vehicles[1].airframe: ",
        ),
        ("vehicles:\n  - {airframe: iris, mission: none.plan}\n", "line 2: vehicles[0].mission: "),
        (
            "vehicles: [{airframe: iris, count: 2}]\nmission: fly.py\nevents:\n"
            "  - {at: 1, kind: motor_loss, vehicles: [7]}\n",
            "line 4: events[0]: there is no vehicle 7",
        ),
        (
            "vehicles: [{name: a}, {name: a}]\nmission: fly.py\n",
            "line 1: vehicles: several vehicles are called a",
        ),
    ],
)
def test_a_scenario_that_names_what_is_not_there_is_told_by_line(
    tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / "fly.py").write_text("print()\n", encoding="utf-8")
    path = tmp_path / "scenario.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError) as caught:
        scenario_settings(path, FlightOptions())
    assert str(caught.value).startswith(f"{path}: {said}")


def test_deep_nesting_is_told_and_a_deep_call_is_not_taken_for_it(tmp_path: Path) -> None:
    deep = tmp_path / "deep.yaml"
    deep.write_text("a: " + "[" * 5000 + "]" * 5000 + "\n", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="nested deeper than 50"):
        read(deep)
    plain = tmp_path / "plain.yaml"
    plain.write_text("a: 1\n", encoding="utf-8")

    def call(depth: int) -> None:
        if depth:
            call(depth - 1)
        else:
            read(plain)

    def overflow() -> None:
        read(plain)
        overflow()

    call(20)
    with pytest.raises(RecursionError):
        overflow()


@pytest.mark.parametrize("text", ["1e308@270", "200@0", "5@1e300", "5@0,turbulence=1e308"])
def test_a_wind_that_never_blew_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="--wind"):
        parse_wind(text)


SCRIPT = """
from sitl_bridge.autopilot.control.user_controller import Controller, Wrench
from sitl_bridge.base.user_file import load_class


class Mine(Controller):
    def control(self, estimate, setpoint, dt):
        return Wrench(0.0, [0.0, 0.0, 0.0])


from pathlib import Path
found = load_class(Path({file}), "Mine", Controller, "controller")
print("loaded", found.__name__)
"""


def test_a_script_may_name_a_class_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(SCRIPT.format(file="__file__"), encoding="utf-8")
    ran = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "loaded Mine\n"), ran.stderr


def test_a_file_that_loads_itself_while_it_is_loaded_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(SCRIPT.format(file="__file__"), encoding="utf-8")
    with pytest.raises(UserError, match="put the statements of the program under `if __name__"):
        load_class(path, "Mine", object, "controller")


@pytest.mark.parametrize("kind", ["airframe", "scenario", "plan", "path"])
def test_text_that_is_not_utf_8_is_refused_with_its_line_and_a_remedy(kind: str, tmp_path: Path) -> None:
    name, read_file = READERS[kind]
    path = tmp_path / name
    path.write_bytes(b"# \xc3\xa4 comment\nname: mine\ndescription: Gr\xf6\xdfe\n")
    with pytest.raises(ConfigurationError, match=r"line 3: invalid start byte; save the file as UTF-8 text"):
        read_file(path)


def test_a_control_character_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes("description: äöü\nname: a\x07\n".encode())
    with pytest.raises(ConfigurationError, match="line 2: special characters are not allowed"):
        read(path)
