"""World files: YAML in, a validated world specification out."""

from __future__ import annotations

from pathlib import Path

from sitl_bridge.files.yaml_file import read, validate
from sitl_bridge.world.wind import WindSpecification
from sitl_bridge.world.world import WorldSpecification


def load_world(path: Path) -> WorldSpecification:
    """Read a world; files that its wind names are taken relative to the world's file.

    Raises:
        ConfigurationError: with every fault of the file.
    """
    return with_files_beside(validate(WorldSpecification, read(path)), path.parent)


def with_files_beside(world: WorldSpecification, directory: Path) -> WorldSpecification:
    """The same world with the files that its wind names taken relative to a directory."""
    return world.model_copy(update={"wind": wind_with_files_beside(world.wind, directory)})


def wind_with_files_beside(wind: WindSpecification, directory: Path) -> WindSpecification:
    """The same wind with the files that it names taken relative to a directory."""
    found = {}
    for name in ("series", "custom"):
        part = getattr(wind, name)
        if part is not None and part.file is not None:
            found[name] = part.model_copy(update={"file": directory / part.file})
    return wind.model_copy(update=found)
