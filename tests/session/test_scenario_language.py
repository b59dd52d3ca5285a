"""The language of scenario files: one schema, its export and its defaults."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest
from support.commands import run_command
from support.paths import AIRFRAMES, MISSIONS, ROOT

from sitl_bridge.base.errors import ConfigurationError
from sitl_bridge.base.yaml_file import read
from sitl_bridge.cli.facts import derive_facts
from sitl_bridge.cli.schema import DIRECTORY, FileKind, file_kind, file_schema, schema_text
from sitl_bridge.core.world.world import WorldSpecification
from sitl_bridge.core.world.world_file import load_world
from sitl_bridge.live.run.messages import message_models
from sitl_bridge.session.scenario import SWARM_AIRFRAME, load_scenario
from sitl_bridge.session.scenario_settings import scenario_settings
from sitl_bridge.session.settings import FlightOptions

SHIPPED = sorted(p for d in ("missions", "missions/worlds", "airframes") for p in (ROOT / d).glob("*.yaml"))
PAIR = """
avoidance:
  duration: 12
  routes:
    - {name: a, points: [[0, 0, -5], [8, 0, -5]], yaw: 90}
    - {name: b, points: [[8, 6, -5], [0, 6, -5]]}
"""


FORMATION = """
formation:
  count: 2
  leader: {waypoints: [{position: [0, 0, -9]}]}
  patterns: [{at: 0, pattern: v}]
"""


known_schema = cache(file_schema)


def write(directory: Path, text: str) -> Path:
    (directory / "fly.py").write_text("print('flown')\n")
    file = directory / "scenario.yaml"
    file.write_text(text)
    return file


# --------------------------------------------------------------------------- schemas


@pytest.mark.parametrize("kind", get_args(FileKind))
def test_the_exported_schema_is_the_codes_and_is_printed(kind: FileKind) -> None:
    text = (DIRECTORY / f"{kind}.json").read_text(encoding="utf-8")
    assert text == schema_text(kind), "run python -m sitl_bridge.cli.schema"
    result = run_command("schema", kind)
    assert (result.exit_code, result.output) == (0, text)


def test_the_schema_of_the_bus_has_the_messages_of_each_topic() -> None:
    result = run_command("schema", "bus")
    printed = json.loads(result.output)
    for topic, (model, _) in message_models().items():
        section = printed["$defs"][printed["properties"][topic]["$ref"].removeprefix("#/$defs/")]
        assert set(section["properties"]) == set(model.model_fields), topic
    assert list(printed["properties"]) == list(message_models())


@pytest.mark.parametrize("kind", ["scenario", "world"])
def test_every_field_of_a_schema_is_described(kind: FileKind) -> None:
    schema = file_schema(kind)
    sections = {"": schema, **schema["$defs"]}
    bare = [
        f"{name}.{field}"
        for name, section in sections.items()
        for field, about in section.get("properties", {}).items()
        if not about.get("description")
    ]
    assert bare == []


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_shipped_files_name_their_schema_and_are_of_its_kind(file: Path) -> None:
    head = "# yaml-language-server: $schema="
    first = file.read_text(encoding="utf-8").splitlines()[0]
    assert first.startswith(head)
    schema = (file.parent / first.removeprefix(head)).resolve()
    assert schema == DIRECTORY / f"{file_kind(read(file).data)}.json"


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_shipped_files_have_no_field_that_their_schema_lacks(file: Path) -> None:
    data = read(file).data
    schema = known_schema(file_kind(data))

    def walk(value: Any, about: dict[str, Any]) -> None:
        found = [about]
        while any("$ref" in one or "anyOf" in one or "oneOf" in one for one in found):
            found = [
                inner
                for one in found
                for inner in (
                    [schema["$defs"][one["$ref"].rsplit("/", 1)[1]]]
                    if "$ref" in one
                    else [*one.get("anyOf", []), *one.get("oneOf", [])] or [one]
                )
            ]
        if isinstance(value, dict):
            known = [one for one in found if set(value) <= set(one.get("properties", value))]
            assert known, (value, [sorted(one.get("properties", ())) for one in found])
            for key, inner in value.items():
                options = [one["properties"][key] for one in known if key in one.get("properties", ())]
                walk(inner, {"anyOf": options} if options else {})
        elif isinstance(value, list):
            parts = [one.get("items", {}) for one in found]
            for inner in value:
                walk(inner, {"anyOf": parts} if parts else {})

    walk(data, {k: v for k, v in schema.items() if k not in ("anyOf", "$defs")})


# --------------------------------------------------------------------------- one language


def test_avoidance_takes_events_proximity_seed_and_time_limit_as_fleets_do(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        "seed: 7\ntime_limit: 60\nproximity: {collisions: false}\n"
        "world: {wind: {steady: {speed: 3, direction: 270}}}\n"
        f"events: [{{at: 5, kind: motor_loss, vehicles: [b], thrust: 0.9}}]\n{PAIR}",
    )
    made = scenario_settings(file, FlightOptions(autopilot="builtin"))
    assert (made.seed, made.time_limit) == (7, 60.0)
    assert made.proximity is not None
    assert not made.proximity.collisions
    assert [event.kind for event in made.events] == ["motor_loss"]
    assert made.world.wind.steady is not None
    assert made.mission is None
    assert made.avoidance is not None
    # A yaw in a file is in degrees; the vehicle stands below its first point.
    assert [round(vehicle.yaw, 6) for vehicle in made.vehicles] == [1.570796, 0.0]
    assert [vehicle.position for vehicle in made.vehicles] == [(0.0, 0.0, 0.0), (8.0, 6.0, 0.0)]
    found = load_scenario(file)
    assert found.avoidance is not None
    assert found.avoidance.wind() == pytest.approx((0.0, 3.0, 0.0), abs=1e-12)


@pytest.mark.parametrize("section", [PAIR, FORMATION])
def test_a_swarm_without_vehicles_gets_as_many_as_it_needs(tmp_path: Path, section: str) -> None:
    for head in ("", "vehicles: [{airframe: iris_rtk}]\n"):
        found = load_scenario(write(tmp_path, head + section))
        assert [vehicle.airframe_name.removesuffix(".yaml") for vehicle in found.vehicles] == (
            [SWARM_AIRFRAME] * 2
        )
        assert found.seed == 0
    with pytest.raises(
        ConfigurationError, match="2 vehicles, but the section vehicles has 3; give the same number"
    ):
        load_scenario(write(tmp_path, f"vehicles: [{{airframe: iris_rtk, count: 3}}]\n{section}"))


def test_the_seed_of_a_command_line_reaches_the_radio_of_a_formation(tmp_path: Path) -> None:
    found = load_scenario(write(tmp_path, f"seed: 3\n{FORMATION}"), seed=9)
    assert found.formation is not None
    assert (found.seed, found.formation.seed) == (9, 9)


def test_the_world_of_a_scenario_is_a_section_or_a_file_beside_it(tmp_path: Path) -> None:
    (tmp_path / "worlds").mkdir()
    world = tmp_path / "worlds" / "windy.yaml"
    world.write_text("year: 2026\nwind: {steady: {speed: 3, direction: 270}, series: {file: wind.csv}}\n")
    file = write(tmp_path, f"world: worlds/windy.yaml\n{PAIR}")
    found = load_scenario(file).world
    assert found == load_world(world)
    assert found.wind.series is not None
    assert found.wind.series.file == tmp_path / "worlds" / "wind.csv"
    assert load_scenario(file, change_world=lambda _: WorldSpecification(year=2025.5)).world.year == 2025.5
    world.write_text("year: 2026\nwind:\n  steady: {sped: 3}\n  turbulence: lite\n")
    with pytest.raises(ConfigurationError) as caught:
        load_scenario(file)
    lines = str(caught.value).splitlines()
    assert f"{world}: line 3: wind.steady.sped: unknown field; did you mean `speed`?" in lines
    assert any(line.startswith(f"{world}: line 4: wind.turbulence: ") for line in lines)
    assert all(line.startswith(f"{world}: line ") for line in lines)
    world.unlink()
    with pytest.raises(ConfigurationError, match=r"line 1: world: there is no file .*windy.yaml; give"):
        load_scenario(file)
    for text, told in (
        ("world: 3\n", "line 1: world: "),
        (
            "world: {wind: {steady: {sped: 3}}}\n",
            "line 1: world.wind.steady.sped: unknown field; did you mean",
        ),
    ):
        with pytest.raises(ConfigurationError) as caught:
            load_scenario(write(tmp_path, text + PAIR))
        assert any(fault.startswith(told) for fault in caught.value.faults)
        assert all(fault.startswith("line 1: world") for fault in caught.value.faults)


# --------------------------------------------------------------------------- check


def test_check_finds_the_kind_of_a_file_by_its_content(tmp_path: Path) -> None:
    assert derive_facts(str(MISSIONS / "fleet_hover.yaml"))["vehicles"] == ["3 x iris", "1 x firefly"]
    assert derive_facts(str(MISSIONS / "swap_six.yaml"))["mission"] == "avoidance"
    assert derive_facts(str(MISSIONS / "formation_cube.yaml"))["patterns"][:2] == ["cube", "pyramid"]
    assert "gravity_m_s2" in derive_facts(str(write(tmp_path, "wind: {steady: {speed: 3}}\n")))
    assert derive_facts(str(AIRFRAMES / "iris.yaml"))["rotors"] == 4
    plan = tmp_path / "saved.json"
    plan.write_text((MISSIONS / "square.plan").read_text())
    assert derive_facts(str(plan))["items"] == derive_facts(str(MISSIONS / "square.plan"))["items"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (FORMATION.replace("v}", "vee}"), "line 5: formation.patterns[0]: no pattern is called 'vee'"),
        (
            f"events: [{{at: 1, kind: motor_loss, vehicles: [c]}}]\n{PAIR}",
            "line 1: events[0]: there is no vehicle 'c'; there are 2",
        ),
        (f"events: [{{at: 1}}]\n{PAIR}", "line 1: events[0]: needs a `kind`, one of"),
        ("vehicles:\n  - {airframe: iris}\nmission: none.py\n", "line 3: mission: "),
        ("vehicles:\n  - {airframe: iris, mission: none.plan}\n", "line 2: vehicles[0].mission: "),
        (
            "vehicles:\n  - {controller: le}\nmission: fly.py\n",
            "line 2: vehicles[0].controller: there is no 'le', did you mean 'lee'?",
        ),
        (f"radio: {{grpah: ring}}\n{PAIR}", "line 1: radio.grpah: unknown field; did you mean `graph`?"),
        (f"radio: {{graph: star}}\n{PAIR}", "line 1: radio.graph: star is about a leader"),
        (f"vehicles: [{{yaw: 3}}]\n{PAIR}", "line 1: vehicles[0].yaw: follows from the vehicle's route"),
        (
            f"vehicles: [{{airframe: iris, position: [9, 0, 0]}}]\n{FORMATION}",
            "line 1: vehicles[0].position: follows from start and leader",
        ),
        (f"{PAIR}formation: {{count: 2}}\n", "flies the same vehicles as"),
        (
            f"vehicles: [{{airframe: iris_rtk}}, {{airframe: iris}}]\n{PAIR}",
            "line 1: vehicles[1].airframe: avoidance plans with one attitude model",
        ),
    ],
)  # fmt: skip
def test_check_refuses_a_broken_scenario_with_line_and_path(tmp_path: Path, text: str, told: str) -> None:
    file = write(tmp_path, text)
    with pytest.raises(ConfigurationError) as caught:
        derive_facts(str(file))
    assert told in str(caught.value)
    assert all(line.startswith(f"{file}: line ") for line in str(caught.value).splitlines())


def test_checks_facts_are_json(tmp_path: Path) -> None:
    file = write(tmp_path, PAIR)
    result = run_command("check", str(file), "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.output)["vehicles"] == ["2 x iris_rtk"]


def test_a_world_file_may_have_every_part_of_a_wind(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        "wind:\n  steady: {speed: 5}\n  turbulence: light\n  series: {file: wind.csv}\n"
        "  gusts: [{start: 60, speed: 6, length: 50, passing_speed: 10, hold: 5}]\n",
    )
    wind = load_world(file).wind
    assert [gust.speed for gust in wind.gusts] == [6.0]
    assert wind.series is not None
    assert wind.series.file == tmp_path / "wind.csv"
