"""Messages name the field that is wrong: names of PX4's models, other formats, wrong units, plans."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.paths import MISSIONS

from sitl_bridge.base.errors import UserError
from sitl_bridge.cli.facts import derive_facts
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.plan.plan_file import parse_plan


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("4001", "'x500' stands for PX4's x500 here"),
        ("gz_x500", "'x500' stands for PX4's x500 here"),
        ("10016", "'iris' stands for PX4's iris here"),
        ("sihsim_quadx", "'iris' stands for PX4's quadx here"),
        ("x500_vision", "'iris_vio' stands for PX4's x500_vision here"),
        ("plane", "fixed wings, VTOLs and rovers are not simulated"),
        ("4004_gz_standard_vtol", "fixed wings, VTOLs and rovers are not simulated"),
        ("10041", "fixed wings, VTOLs and rovers are not simulated"),
        ("X50", "did you mean 'x500'?"),
        ("irsi", "did you mean 'iris'?"),
    ],
)
def test_names_of_px4_lead_to_the_airframe_that_is_meant(name: str, told: str) -> None:
    for look in (load_airframe, derive_facts):
        with pytest.raises(UserError) as refused:
            look(name)
        assert told in str(refused.value)


def test_places_on_a_vehicle_in_millimetres_are_named(tmp_path: Path) -> None:
    file = tmp_path / "mm.yaml"
    rotors = [
        f"  - {{position: [{x}, {y}, 0.0], direction: {d}}}"
        for x, y, d in (
            (115.6, 115.6, "ccw"),
            (-115.6, -115.6, "ccw"),
            (115.6, -115.6, "cw"),
            (-115.6, 115.6, "cw"),
        )
    ]
    file.write_text("base: iris\nname: mm\nrotors:\n" + "\n".join(rotors) + "\n", encoding="utf-8")
    with pytest.raises(UserError) as refused:
        load_airframe(file)
    told = str(refused.value)
    assert "rotors[0].position: 115.6 m from the centre of gravity: is it in another unit than m?" in told
    assert "rotor_model" not in told


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("way.txt", "QGC WPL 110\n0\t1\t0\t16\t0\t0\t0\t0\t47.4\t8.5\t488\t1\n", "is a list of waypoints"),
        ("way.plan", "QGC WPL 110\n", "is a list of waypoints"),
        (
            "doc.kml",
            '<?xml version="1.0"?>\n<kml xmlns="http://www.opengis.net/kml/2.2"></kml>',
            "is a KML file",
        ),
    ],
)
def test_missions_of_other_ground_stations_are_named(name: str, text: str, told: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    with pytest.raises(UserError) as refused:
        derive_facts(str(file))
    assert told in str(refused.value)
    assert "Plan view of QGroundControl" in str(refused.value)


def square() -> dict[str, Any]:
    plan: dict[str, Any] = json.loads((MISSIONS / "square.plan").read_text(encoding="utf-8"))
    return plan


def test_a_height_above_terrain_without_data_is_named() -> None:
    plan = square()
    item = plan["mission"]["items"][1]
    item["AltitudeMode"], item["params"][6] = 3, None
    with pytest.raises(UserError, match="its height is above the terrain, whose heights the plan does not"):
        parse_plan(json.dumps(plan))


def test_a_plan_of_another_version_and_a_structure_scan_say_what_to_do() -> None:
    plan = square()
    plan["mission"]["version"] = 3
    plan["mission"]["items"].append({"type": "ComplexItem", "complexItemType": "StructureScan", "version": 3})
    with pytest.raises(UserError) as refused:
        parse_plan(json.dumps(plan))
    assert "mission.version: must be 2, not 3; open it in a present QGroundControl" in str(refused.value)
    assert "saves no waypoints with this kind of item" in str(refused.value)


def test_a_survey_of_an_unknown_version_is_noted() -> None:
    plan = json.loads((MISSIONS / "survey.plan").read_text(encoding="utf-8"))
    survey = next(i for i in plan["mission"]["items"] if i["type"] == "ComplexItem")
    assert not parse_plan(json.dumps(plan)).notes
    survey["version"] = 9
    (note,) = parse_plan(json.dumps(plan)).notes
    assert "its format is of version 9, which is none of QGroundControl's" in note


def test_the_field_of_a_world_is_shown() -> None:
    facts = derive_facts("wall")
    assert "magnetic_field" not in facts
    assert facts["magnetic_field_of"] == "WMM2025"
