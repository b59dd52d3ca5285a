"""Files that a user names by path or bare name: airframes and worlds, own and shipped ones."""

from __future__ import annotations

from pathlib import Path

from sitl_bridge.base.errors import UserError, did_you_mean, shorten
from sitl_bridge.base.input_file import exists, is_file


def shipped_directories(folder: str) -> list[Path]:
    """Return where bare names are looked up: the folder here, in the checkout, and in an installed package.

    Args:
        folder: in the checkout and in the package, such as ``missions/worlds``.
    """
    package = Path(__file__).resolve().parent.parent
    return [Path(folder), package.parent / folder, package / folder]


def shipped_names(folder: str) -> set[str]:
    """Names of the YAML files in a folder of ``shipped_directories``."""
    return {path.stem for directory in shipped_directories(folder) for path in directory.glob("*.yaml")}


def find_shipped(name: str, what: str, folder: str, endings: tuple[str, ...] = (".yaml", ".yml")) -> Path:
    """A file given by path or by bare name.

    Args:
        name: as the user wrote it.
        what: the kind of file, in messages.
        folder: of ``shipped_directories``.
        endings: with which a name is a path.

    Raises:
        UserError: naming the files there are.
    """
    direct = Path(name)
    if direct.suffix.lower() in endings or is_file(direct):
        if exists(direct):
            return direct
        raise UserError(f"{shorten(name)}: no such {what} file")
    for directory in shipped_directories(folder):
        candidate = directory / f"{name}.yaml"
        if is_file(candidate):
            return candidate
    names = shipped_names(folder)
    if exists(direct):
        raise UserError(f"{name}: is not an ordinary file; name the {what}'s YAML file")
    near = did_you_mean(name, names)
    known = ", ".join(sorted(names)) or "none"
    raise UserError(f"no {what} is called {shorten(name)!r}{near}; there are {known}")
