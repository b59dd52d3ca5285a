"""What all flight tests share."""

from pathlib import Path

import pytest

import sitl_bridge as sb

SCOUT = str(Path(__file__).parent.parent / "airframes" / "scout.yaml")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let every test without an airframe of its own fly the scout."""
    for item in items:
        if "sitl" in getattr(item, "fixturenames", ()) and item.get_closest_marker("airframe") is None:
            item.add_marker(pytest.mark.airframe(SCOUT))


@pytest.fixture
def world() -> sb.World:
    """The test site: light turbulent wind from the west."""
    return sb.World(wind="3@270,turbulence=light", origin=(47.397742, 8.545594, 488.0))
