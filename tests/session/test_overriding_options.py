"""An option that overrides a file changes what it names, and nothing else."""

from __future__ import annotations

import dataclasses
import inspect
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.paths import MISSIONS

import sitl_bridge as sb
from sitl_bridge.api import flights
from sitl_bridge.api.flights import flight_settings
from sitl_bridge.base.errors import UserError
from sitl_bridge.cli.fly import fly
from sitl_bridge.cli.options import RunOptions, StackOptions, parse_limits
from sitl_bridge.live.outlets import OUTLETS, parse_outlets
from sitl_bridge.session.settings import ExternalStacks, FlightSettings, VehicleSettings

WORLD = """
  origin: {latitude: 10.0, longitude: 20.0, altitude: 1000.0}
  year: 2026.5
  magnetic_field: {declination: 3.0, inclination: 60.0, strength: 45.0}
  earth_rotation: false
  sea_level_temperature: 300.0
  sea_level_pressure: 99000.0
  wind: {steady: {speed: 2.0, direction: 90.0}, turbulence: light}
  scene: {objects: [{kind: box, size: [2, 2, 6], position: [30, 0, -3]}]}
"""
SCENARIO = f"""
name: whole
seed: 7
fence: own.plan
world: {WORLD}
proximity: {{collisions: false, downwash: false}}
vehicles:
  - {{name: a, airframe: hummingbird, position: [1, 2, 0], yaw: 30, autopilot: builtin, controller: lee,
     parameters: {{MPC_XY_CRUISE: 3, RTL_RETURN_ALT: 40}}, params: own.params, mission: fly.py,
     arguments: ["--one"]}}
  - {{name: b, airframe: iris, position: [9, 2, 0], autopilot: builtin, mission: fly.py}}
events: [{{at: 5, kind: motor_loss, vehicles: [a], motor: 1}}]
time_limit: 90
on_stall: abort
limits: {{battery_used: 50, object_contacts: null}}
"""
AREA = {"circle": {"center": [10.0, 20.0], "radius": 50.0}, "inclusion": True, "version": 1}
FENCE = {
    "fileType": "Plan",
    "version": 1,
    "mission": {"version": 2, "items": []},
    "geoFence": {"version": 2, "circles": [AREA], "polygons": []},
}
PX4 = Path("/opt/px4")
CHANGES: dict[str, tuple[dict[str, Any], set[str]]] = {
    "world": ({"world": "other.yaml"}, {"world"}),
    "wind": ({"wind": "3@270"}, {"world.wind"}),
    "home": ({"home": "47.4,8.5,500"}, {"world.origin"}),
    "seed": ({"seed": 3}, {"seed"}),
    "speed": ({"speed": "max"}, {"speed"}),
    "instance": ({"instance": 5}, {"a.instance", "b.instance"}),
    "param": ({"param": ["MPC_XY_CRUISE=4"]}, {"a.parameters.MPC_XY_CRUISE", "b.parameters.MPC_XY_CRUISE"}),
    "params": ({"params": Path("other.params")}, {"a.parameter_file", "b.parameter_file"}),
    "params_win": (
        {"params_win": True, "params": Path("own.params")}, {"a.parameter_file", "b.parameter_file"}
    ),
    "outlets": ({"outlets": {"view": "8080"}}, {"outlets"}),
    "ros2_wait": ({"outlets": {"ros2": "7"}, "ros2_wait": ["node"]}, {"outlets"}),
    "runs_dir": ({"runs_dir": Path("elsewhere")}, {"runs"}),
    "autopilot": ({"autopilot": "px4"}, {"a.autopilot", "b.autopilot"}),
    "px4": ({"px4": PX4}, {"px4"}),
    "expose": ({"expose": True}, {"expose"}),
    "device": ({"device": "udp:127.0.0.1:9"}, {"board"}),
    "baud": ({"device": "udp:127.0.0.1:9", "baud": 57600}, {"board"}),
    "gcs": ({"device": "udp:127.0.0.1:9", "gcs": "127.0.0.1:9"}, {"board"}),
    "fence": ({"fence": MISSIONS / "square.plan"}, {"fence"}),
    "time_limit": ({"time_limit": 30.0}, {"time_limit"}),
    "limit": ({"limit": ["battery_used=20"]}, {"limits.battery_used"}),
    "python": ({"python": Path(sys.executable)}, {"a.python", "b.python"}),
}  # fmt: skip
"""What each option of ``fly`` changes of the settings of a scenario."""
REFUSED = {"airframe": "iris", "controller": "lee", "arguments": ("more",)}
"""A scenario names its vehicles itself, and here each of them has its own script."""
DISPLAY = ("run", "mission", "quiet", "verbose", "headless", "report")


def flat(value: Any, name: str = "") -> dict[str, Any]:
    """The leaves of settings by their paths; vehicles by their names."""
    if name == "vehicles":
        value = {vehicle.name: vehicle for vehicle in value}
        name = ""
    elif isinstance(value, FlightSettings | VehicleSettings):
        value = {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
    elif name == "world":
        value = {key: getattr(value, key) for key in type(value).model_fields}
    if not isinstance(value, Mapping):
        return {name: value}
    head = f"{name}." if name else ""
    return {path: leaf for key, part in value.items() for path, leaf in flat(part, head + key).items()}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("whole.yaml").write_text(SCENARIO, encoding="utf-8")
    Path("other.yaml").write_text("year: 2025.0\n", encoding="utf-8")
    Path("given.yaml").write_text(WORLD.replace("\n  ", "\n"), encoding="utf-8")
    Path("own.plan").write_text(json.dumps(FENCE), encoding="utf-8")
    Path("own.params").write_text("RTL_RETURN_ALT 25\n", encoding="utf-8")
    Path("other.params").write_text("RTL_RETURN_ALT 35\n", encoding="utf-8")
    Path("fly.py").write_text("", encoding="utf-8")
    return tmp_path


def settings(kind: type[RunOptions] = StackOptions, **options: Any) -> FlightSettings:
    """Of the scenario, with options as the command line has them."""
    outlet = options.pop("outlets", {})
    options["outlets"] = parse_outlets({one.option: outlet.get(one.option) for one in OUTLETS})
    further: dict[str, Any] = {
        name: options.pop(name) for name in ("time_limit", "python", "arguments") if name in options
    }
    further["limits"] = parse_limits(options.pop("limit", None))
    chosen = kind(**options).flight_options(**further)
    if kind is StackOptions:
        return flight_settings(Path("whole.yaml"), chosen)
    return FlightSettings.for_external(ExternalStacks(), chosen)


def changed(before: FlightSettings, after: FlightSettings) -> set[str]:
    one, other = flat(before), flat(after)
    names = {name for name in one.keys() | other.keys() if one.get(name) != other.get(name)}
    return {"world" if name.startswith("world.") and "world.year" in names else name for name in names}


def test_the_table_has_every_option_of_fly() -> None:
    asked = {one.name for one in dataclasses.fields(StackOptions)} | set(inspect.signature(fly).parameters)
    asked -= {one.option for one in OUTLETS}
    assert asked - {*CHANGES, *REFUSED, *DISPLAY} == set()


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("option", CHANGES)
def test_an_option_beside_a_scenario_changes_what_it_names_alone(option: str) -> None:
    given, expected = CHANGES[option]
    assert changed(settings(), settings(**given)) == expected


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(("option", "value"), REFUSED.items())
def test_an_option_that_would_change_nothing_is_refused(option: str, value: Any) -> None:
    with pytest.raises(UserError, match=r"leave out|takes no arguments"):
        settings(**{option: value})


@pytest.mark.usefixtures("place")
def test_no_option_changes_nothing() -> None:
    assert changed(settings(), settings()) == set()


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("option", [{"wind": "3@270"}, {"home": "47.4,8.5,500"}, {"seed": 4}])
def test_options_beside_a_world_file_change_what_they_name_alone(option: dict[str, Any]) -> None:
    before = settings(RunOptions, world=Path("given.yaml"))
    after = settings(RunOptions, world=Path("given.yaml"), **option)
    assert changed(before, after) == CHANGES[next(iter(option))][1]


@pytest.mark.usefixtures("place")
def test_a_program_overrides_as_the_command_line_does(monkeypatch: pytest.MonkeyPatch) -> None:
    flown: list[FlightSettings] = []
    monkeypatch.setattr(flights, "run_settings", lambda made, _notify: flown.append(made))
    for options in (
        {}, {"wind": "3@270"}, {"home": (47.4, 8.5, 500.0)}, {"seed": 3}, {"speed": 4.0},
        {"time_limit": 30.0}, {"parameters": {"MPC_XY_CRUISE": 4}}, {"params": "other.params"},
        {"limits": {"battery_used": 20}}, {"world": sb.World.load("other.yaml")}, {"instance": 5},
        {"expose": True}, {"fence": MISSIONS / "square.plan"},
    ):  # fmt: skip
        sb.fly("whole.yaml", **options)
    names = [changed(flown[0], other) for other in flown[1:]]
    table = [
        "wind",
        "home",
        "seed",
        "speed",
        "time_limit",
        "param",
        "params",
        "limit",
        "world",
        "instance",
        "expose",
        "fence",
    ]
    assert names == [CHANGES[name][1] for name in table]


@pytest.mark.parametrize("text", ["47.4", "47.4,8.5", "91,0,0", "0,0,9001", "a,b,c", "nan,0,0", ""])
def test_a_home_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="write LAT,LON,ALT"):
        StackOptions(home=text).flight_options()
