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
    return with_series_beside(validate(WorldSpecification, read(path)), path.parent)


def with_series_beside(world: WorldSpecification, directory: Path) -> WorldSpecification:
    """The same world with a recorded wind's file taken relative to a directory."""
    series = world.wind.series
    if series is None:
        return world
    placed = series.model_copy(update={"file": directory / series.file})
    return world.model_copy(update={"wind": world.wind.model_copy(update={"series": placed})})
