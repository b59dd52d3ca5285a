"""World files: YAML in, a validated world specification out."""

from __future__ import annotations

from pathlib import Path

from sitl_bridge.files.yaml_file import read, validate
from sitl_bridge.world.world import WorldSpecification


def load_world(path: Path) -> WorldSpecification:
    """Read a world; a recorded wind's file is taken relative to the world's file.

    Raises:
        ConfigurationError: with every fault of the file.
    """
    world = validate(WorldSpecification, read(path))
    series = world.wind.series
    if series is None or series.file.is_absolute():
        return world
    series = series.model_copy(update={"file": path.parent / series.file})
    wind = world.wind.model_copy(update={"series": series})
    return world.model_copy(update={"wind": wind})
