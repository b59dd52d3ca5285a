"""Files: every fault at once, with its line and path, whatever the file holds."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.airframe_texts import spell_out
from support.paths import AIRFRAMES

from sitl_bridge.base.errors import ConfigurationError, UserError
from sitl_bridge.base.yaml_file import load
from sitl_bridge.cli.facts import without_source
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.world_file import load_world

IRIS = AIRFRAMES / "iris.yaml"


def faults_of(path: Path) -> tuple[str, ...]:
    with pytest.raises(ConfigurationError) as caught:
        load_airframe(path)
    assert all(line.startswith(f"{path}: ") for line in str(caught.value).splitlines())
    return caught.value.faults


@pytest.fixture
def altered(tmp_path: Path) -> Path:
    path = tmp_path / "altered.yaml"
    path.write_text(spell_out("iris"), encoding="utf-8")
    return path


def replace(path: Path, *pairs: tuple[str, str]) -> None:
    text = path.read_text(encoding="utf-8")
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new, 1)
    path.write_text(text, encoding="utf-8")


def line_of(path: Path, text: str) -> int:
    lines = path.read_text(encoding="utf-8").splitlines()
    return next(i for i, line in enumerate(lines, 1) if text in line)


def test_all_faults_are_told_at_once_each_with_its_line_and_path(altered: Path) -> None:
    replace(
        altered,
        ("mass: 1.55", "mass: heavy"),
        ("  radius: 0.128", "  radus: 0.128"),
        ("  time_constant_up: 0.0125", "  time_constant_up: -1"),
        (
            "  - {position: [0.13, 0.22, -0.023], direction: ccw}",
            "  - {position: [0.13, 0.22], direction: up}",
        ),
    )
    faults = faults_of(altered)
    told = "\n".join(faults)
    assert f"line {line_of(altered, 'mass: heavy')}: mass: " in told
    radus = line_of(altered, "radus")
    assert f"line {radus}: rotor_model.radus: unknown field; did you mean `radius`?" in told
    assert "rotor_model.radius: missing" in told
    up = line_of(altered, "time_constant_up: -1")
    assert f"line {up}: motor.time_constant_up: Input should be greater than 0" in told
    rotor = line_of(altered, "direction: up")
    assert f"line {rotor}: rotors[0].position" in told
    assert f"line {rotor}: rotors[0].direction" in told
    numbers = [int(fault.split(":")[0].removeprefix("line ")) for fault in faults]
    assert numbers == sorted(numbers)


def test_of_items_that_are_all_invalid_only_their_own_faults_are_told(altered: Path) -> None:
    text = altered.read_text(encoding="utf-8")
    altered.write_text(text.replace(", direction: c", ", propeller: 1, direction: c"), encoding="utf-8")
    faults = faults_of(altered)
    assert len(faults) == 4
    assert all("].propeller: unknown field" in fault for fault in faults), faults


@pytest.mark.parametrize("value", [".nan", ".inf", "-.inf"])
def test_numbers_that_are_not_finite_are_refused(altered: Path, value: str) -> None:
    replace(altered, ("mass: 1.55", f"mass: {value}"))
    line = line_of(altered, "mass: .") if value[0] == "." else line_of(altered, "mass: -")
    assert faults_of(altered) == (f"line {line}: mass: {value} is not a finite number",)


@pytest.mark.parametrize(
    "payload",
    ["!!python/object/apply:os.system ['true']", "!!python/name:os.system", "!custom {a: 1}"],
)
def test_tags_that_could_run_code_are_refused_and_run_nothing(altered: Path, payload: str) -> None:
    replace(altered, ("mass: 1.55", f"mass: {payload}"))
    faults = faults_of(altered)
    assert any("mass" in fault or "tag" in fault for fault in faults)


def test_alias_bombs_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.yaml"
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    for i in range(1, 12):
        lines.append(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]")
    path.write_text("\n".join(lines))
    assert "aliases" in faults_of(path)[0]


def test_an_alias_that_holds_itself_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "loop.yaml"
    path.write_text("a: &a [*a]")
    assert len(faults_of(path)) == 1


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "key: value"),
        ("- 1\n- 2", "key: value"),
        ("a: 1\na: 2", "given twice"),
        ("a: [1, 2", "line"),
        ("a: \x00", "special characters"),
        ("? [a]\n: 1", "plain word"),
    ],
)
def test_what_is_no_file_of_settings_is_refused(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "odd.yaml"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=told):
        load(path)


def test_a_missing_and_an_oversize_file_are_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load(tmp_path / "none.yaml")
    large = tmp_path / "large.yaml"
    large.write_text("a: " + "x" * 1_000_001)
    with pytest.raises(ConfigurationError, match="larger than"):
        load(large)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=300))
def test_no_text_does_more_than_raise_a_configuration_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "any.yaml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(ConfigurationError):
        load_airframe(path)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(sorted(Airframe.model_fields)), json_values)
def test_any_value_in_any_field_is_taken_or_refused_with_its_place(
    tmp_path: Path, name: str, value: object
) -> None:
    data = yaml.safe_load(IRIS.read_text(encoding="utf-8"))
    data[name] = value
    path = tmp_path / "any.yaml"
    path.write_text(yaml.safe_dump(data), encoding="utf-8")
    faults: tuple[str, ...] = ()
    try:
        load_airframe(path)
    except ConfigurationError as error:
        faults = error.faults
    assert all(fault.startswith("line ") for fault in faults)


@pytest.mark.parametrize("character", ["\\x85", "\\e", "\\u2028", "\\x7f"])
def test_characters_that_control_a_terminal_are_told_as_escapes(altered: Path, character: str) -> None:
    replace(
        altered,
        ("  sensors.imu.rate:", f'  "mas{character}s":'),
        ("motor:\n", f'motor:\n  "k{character}ind": 1\n'),
        ("- kind: gps", f'- kind: "g{character}ps"'),
    )
    faults = faults_of(altered)
    assert len(faults) > 3
    assert all(fault.isprintable() for fault in faults)


def test_a_file_of_ones_own_needs_no_sources_and_is_told_once(altered: Path) -> None:
    text = altered.read_text(encoding="utf-8")
    altered.write_text("\n".join(line for line in text.splitlines() if not line.startswith("  mass:")))
    (note,) = without_source(load_airframe(altered))
    assert note.startswith("1 figures have no source (mass)")
    data = yaml.safe_load(text)
    del data["sources"]
    altered.write_text(yaml.safe_dump(data), encoding="utf-8")
    (note,) = without_source(load_airframe(altered))
    assert "mass, inertia.xx" in note


def test_two_sensors_of_one_instance_and_none_that_drives_the_lockstep_are_refused(altered: Path) -> None:
    text = altered.read_text(encoding="utf-8")
    twice = "  - kind: barometer\n    rate: 50\n    error: {noise_deviation: 1.0}\n"
    replace(altered, (twice, twice + twice))
    assert "barometer 0" in faults_of(altered)[0]
    altered.write_text(text, encoding="utf-8")
    replace(altered, ("  - kind: imu\n    rate: 250\n", "  - kind: imu\n    instance: 1\n    rate: 250\n"))
    assert "lockstep" in faults_of(altered)[0]


def test_an_unknown_name_lists_the_airframes_there_are() -> None:
    with pytest.raises(UserError, match="iris"):
        load_airframe("unheard_of")


def test_a_world_file_places_its_recorded_wind_beside_itself(tmp_path: Path) -> None:
    path = tmp_path / "world.yaml"
    path.write_text(
        "origin: {latitude: 1, longitude: 2, altitude: 3}\nwind:\n  steady: {speed: 3, direction: 90}\n"
        "  series: {file: wind.csv}\n"
        "  gusts: [{start: 60, speed: 6, direction: 270, length: 50, passing_speed: 10, hold: 5}]\n"
    )
    world = load_world(path)
    assert [gust.start for gust in world.wind.gusts] == [60.0]
    assert world.wind.series is not None
    assert world.wind.series.file == tmp_path / "wind.csv"
    assert world.origin.altitude == 3.0
    path.write_text("wind: {steady: {sped: 3}}\norigin: {latitude: 91}\n")
    with pytest.raises(ConfigurationError) as caught:
        load_world(path)
    told = "\n".join(caught.value.faults)
    assert "did you mean `speed`?" in told
    assert "line 2: origin.latitude" in told
