"""World files: YAML in, a validated world specification out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sitl_bridge.errors import ConfigurationError
from sitl_bridge.files.scene_geometry import with_geometry
from sitl_bridge.files.yaml_file import Document, Fault, read, validate
from sitl_bridge.world.wind import WindSpecification
from sitl_bridge.world.world import WorldSpecification


def load_world(path: Path) -> WorldSpecification:
    """Read a world, and the files that its wind and its scene name.

    Raises:
        ConfigurationError: with every fault of the file, and of those it names.
    """
    document = read(path)
    return with_files_beside(validate(WorldSpecification, document), document)


def with_files_beside(world: WorldSpecification, document: Document, *head: str) -> WorldSpecification:
    """The same world with the geometry of its scene's files; files are taken relative to the document's.

    Args:
        world: of the document.
        document: that it stands in.
        head: path of the world in it.

    Raises:
        ConfigurationError: with every fault of a file that the scene names.
    """
    directory = Path(document.source).parent
    changes: dict[str, Any] = {"wind": wind_with_files_beside(world.wind, directory)}
    changes["scene"], faults = with_geometry(world.scene, directory, world.origin)
    if faults:
        placed = [((*head, "scene", *path), message) for path, message in faults]
        lines = [str(Fault(document.line(path), path, message)) for path, message in placed]
        raise ConfigurationError(document.source, lines)
    return world.model_copy(update=changes)


def wind_with_files_beside(wind: WindSpecification, directory: Path) -> WindSpecification:
    """The same wind with the files that it names taken relative to a directory."""
    found = {}
    for name in ("series", "custom"):
        part = getattr(wind, name)
        if part is not None and part.file is not None:
            found[name] = part.model_copy(update={"file": directory / part.file})
    return wind.model_copy(update=found)
