"""Finds the files that SDF worlds name by ``model://``, ``package://``, ``file://``, or in Fuel's cache.

Nothing is fetched from the network.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sitl_bridge.base.errors import UserError, shortened
from sitl_bridge.base.input_file import exists, is_file
from sitl_bridge.base.xml_file import read_xml

PATH_VARIABLES = (
    "GZ_SIM_RESOURCE_PATH",
    "IGN_GAZEBO_RESOURCE_PATH",
    "SDF_PATH",
    "GAZEBO_MODEL_PATH",
    "GAZEBO_RESOURCE_PATH",
)
"""Environment variables with directories of models, separated by colons."""
PX4_MODELS = Path("Tools/simulation/gz/models")
"""Models in PX4's source tree, PX4_DIR."""


def search_path(world: Path) -> list[Path]:
    """Directories in which models are searched, in order.

    Args:
        world: the SDF file.
    """
    found = [world.parent / "models", world.parent.parent / "models", world.parent]
    for variable in PATH_VARIABLES:
        found += [Path(part) for part in os.environ.get(variable, "").split(os.pathsep) if part]
    px4 = os.environ.get("PX4_DIR")
    found.append((Path(px4) if px4 else Path.home() / "PX4-Autopilot") / PX4_MODELS)
    return list(dict.fromkeys(found))


def find_uri(uri: str, beside: Path, directories: list[Path]) -> Path:
    """The file or directory of a URI.

    Args:
        uri: as in the SDF.
        beside: the SDF file.
        directories: of models.

    Raises:
        UserError: with the places that were searched; for an address on the network, with how to download it.
    """
    scheme, separator, rest = uri.partition("://")
    if not separator:
        scheme, rest = "", uri
    if scheme in ("http", "https"):
        return _cached(uri)
    rest = unquote(rest)
    if scheme in ("model", "package"):
        # The model's own directory first, whatever its parent is called.
        own = [parent.parent for parent in beside.parents if parent.name == rest.split("/", 1)[0]]
        tried = [place / rest for place in (*own, *directories)]
    elif scheme == "file" and rest.startswith("/"):
        tried = [Path(rest)]
    elif scheme in ("", "file"):
        tried = [place / rest for place in (beside.parent, *directories)]
    else:
        raise UserError(f"{shortened(uri)}: only model://, package://, file:// and file names are supported")
    for place in tried:
        if rest.strip("/") and exists(place):
            return place
    places = ", ".join(str(place) for place in dict.fromkeys(tried))
    raise UserError(
        f"{shortened(uri)}: was not found in {places}; put the directory of its models into"
        f" {PATH_VARIABLES[0]}"
    )


def _cached(uri: str) -> Path:
    """Directory of a model that Fuel's client has downloaded: HOST/OWNER/models/NAME/VERSION."""
    parts = urlsplit(uri)
    home = os.environ.get("GZ_FUEL_CACHE_PATH")
    cache = Path(home) if home else Path.home() / ".gz" / "fuel"
    words = [unquote(word).lower() for word in parts.path.split("/") if word]
    if words and words[0][:1].isdigit():  # the interface's version
        words = words[1:]
    place = cache.joinpath(parts.netloc.lower(), *words)
    if len(words) >= 3 and exists(place):
        versions = sorted((p for p in place.iterdir() if p.name.isdigit()), key=lambda p: int(p.name))
        if versions:
            return versions[-1]
    raise UserError(
        f"{shortened(uri, 200)}: is on the network, and sitl-bridge downloads nothing; download it with"
        f" `gz fuel download -u '{shortened(uri, 200)}'`, which puts it into {place}"
    )


def model_file(place: Path) -> Path:
    """The SDF file of a model: the file itself, or the one in the model.config of a directory.

    Raises:
        UserError: if there is none.
    """
    if is_file(place):
        return place
    config = place / "model.config"
    names = ["model.sdf"]
    if is_file(config):
        names = [node.text for node in read_xml(config).all("sdf") if node.text][::-1] or names
    for name in names:
        if is_file(place / name):
            return place / name
    raise UserError(f"{place}: is not a model: it has no {' or '.join(names)}")
