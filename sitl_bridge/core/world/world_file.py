"""World files: reads YAML or SDF into a validated world specification."""

from __future__ import annotations

from pathlib import Path

from sitl_bridge.base.errors import ConfigurationError, UserError, faults_of
from sitl_bridge.base.json_data import JsonObject
from sitl_bridge.base.shipped_files import find_shipped
from sitl_bridge.base.yaml_file import Document, read, validate
from sitl_bridge.core.world.scene_geometry import GeometryLoader, PlacedFault
from sitl_bridge.core.world.scene_specification import MAX_OBJECTS, SceneSpecification
from sitl_bridge.core.world.sdf_world import SUFFIXES, SdfReader
from sitl_bridge.core.world.wind import WindSpecification
from sitl_bridge.core.world.world import WorldSpecification


def find_world(name: str) -> Path:
    """File of a world given by path or by bare name.

    Raises:
        UserError: with the names of all worlds.
    """
    return find_shipped(name, "world", "missions/worlds", (".yaml", ".yml", *SUFFIXES))


def load_world(path: Path) -> WorldSpecification:
    """Read a world from YAML or, by its suffix, from SDF, with the files of its wind and scene.

    Args:
        path: of the file, or the bare name of a shipped world.

    Raises:
        ConfigurationError: with every fault of the file, and of the files that it names.
        UserError: if there is no such world.
    """
    path = find_world(str(path))
    if path.suffix.lower() in SUFFIXES:
        bare = WorldSpecification(scene=SceneSpecification(sdf=Path(path.name)))
        world, faults = _load_files(bare, path.parent)
        if faults:
            lines = [message.removeprefix(f"{path}: ") for _, message in faults]
            raise ConfigurationError(str(path), lines)
        return world
    document = read(path)
    return with_files_beside(validate(WorldSpecification, document), document)


def with_files_beside(world: WorldSpecification, document: Document, *head: str) -> WorldSpecification:
    """The same world with the content of its scene's files, which are relative to the document.

    Args:
        document: that contains it.
        head: path of the world in the document.

    Raises:
        ConfigurationError: with every fault of a file that the scene names.
    """
    made, faults = _load_files(world, Path(document.source).parent)
    if faults:
        lines = [document.fault((*head, "scene", *path), message) for path, message in faults]
        raise ConfigurationError(document.source, lines)
    return made


def world_beside(world: WorldSpecification, directory: Path) -> WorldSpecification:
    """The same world with what its scene's files hold; files are taken relative to a directory.

    Raises:
        ConfigurationError: with every fault of a file that the scene names.
    """
    made, faults = _load_files(world, directory)
    if faults:
        raise ConfigurationError("the world's scene", [message for _, message in faults])
    return made


def _load_files(world: WorldSpecification, directory: Path) -> tuple[WorldSpecification, list[PlacedFault]]:
    """A world with the content of its files, and the faults of the files with their paths."""
    scene = world.scene
    sdf = None if scene.sdf is None else directory / scene.sdf
    changes: JsonObject = {"wind": wind_with_files_beside(world.wind, directory)}
    faults: list[PlacedFault] = []
    try:
        reader = None if sdf is None else SdfReader(sdf, leave_out=scene.missing == "leave_out")
        if reader is not None and "origin" not in world.model_fields_set:
            changes["origin"] = reader.origin or world.origin
        loader = GeometryLoader(directory, changes.get("origin", world.origin))
        found = None if reader is None else reader.read(loader)
    except UserError as error:
        return world, [(("sdf",), fault) for fault in faults_of(error)]
    items, faults = loader.load_all(scene.objects)
    ground, notes, color, texture = scene.ground, scene.notes, scene.ground_color, scene.ground_texture
    try:
        texture = loader.texture(texture)
    except UserError as error:
        faults += [(("ground_texture", "file"), fault) for fault in faults_of(error)]
    if found is not None:
        items = (*items, *found.objects)
        if "ground" not in scene.model_fields_set:
            ground = found.ground
        if found.ground_color is not None and "ground_color" not in scene.model_fields_set:
            color = found.ground_color
        if found.wind is not None and "wind" not in world.model_fields_set:
            changes["wind"] = found.wind
        notes = (*notes, *(f"{sdf}: {note}" for note in found.notes))
        if len(items) > MAX_OBJECTS:
            faults.append(
                (("sdf",), f"the world has {len(items):,} objects in all; it can have {MAX_OBJECTS:,}")
            )
    filled = {
        "objects": items,
        "sdf": None,
        "missing": "refuse",
        "ground": ground,
        "ground_color": color,
        "ground_texture": texture,
    }
    changes["scene"] = scene.model_copy(update=filled)
    changes["scene"]._notes = notes
    return world.model_copy(update=changes), faults


def wind_with_files_beside(wind: WindSpecification, directory: Path) -> WindSpecification:
    """The same wind with its files relative to a directory."""
    found = {}
    for name in ("series", "custom"):
        part = getattr(wind, name)
        if part is not None:
            found[name] = part.model_copy(update={"file": directory / part.file})
    return wind.model_copy(update=found)
