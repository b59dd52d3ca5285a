"""The page on the vehicles has the figures of the airframe files."""

from __future__ import annotations

import re

import pytest
from support.paths import DOCS

from sitl_bridge.cli.facts import airframe_facts
from sitl_bridge.core.dynamics.performance import performance
from sitl_bridge.core.dynamics.rotor_laws import in_plane_drag
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.atmosphere import air
from sitl_bridge.core.world.world import World

ROWS = re.findall(r"^\| `(\w+)` \| ([\d. |]+) \|$", (DOCS / "vehicles.md").read_text("utf-8"), re.MULTILINE)


@pytest.mark.parametrize(("name", "cells"), ROWS)
def test_the_row_of_a_vehicle_is_what_its_file_gives(name: str, cells: str) -> None:
    airframe = load_airframe(name)
    facts = airframe_facts(airframe)
    environment = World().environment[0]
    density = air(environment, 0.0)[2]
    hover = performance(airframe.record, density, float(environment["gravity"])).hover
    rotors = in_plane_drag(airframe.record, hover.rotor_speed, density)
    body = airframe.drag.force[0] * density / airframe.drag.reference_density
    found = [
        facts["figure_of_merit"],
        facts["thrust_to_weight"],
        facts["hover_battery_current_a"],
        facts["endurance_min"],
        facts["top_speed_m_s"],
        (rotors * 8.5 + body * 8.5**2) / airframe.mass,
    ]
    assert [float(cell) for cell in cells.split("|")] == pytest.approx(found, rel=0.01, abs=0.06)


def test_the_page_has_vehicles() -> None:
    assert len(ROWS) == 8
