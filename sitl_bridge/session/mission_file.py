"""Missions that a user names: own files by path, shipped ones also by their name below ``missions/``."""

from __future__ import annotations

from pathlib import Path

from sitl_bridge.base.errors import UserError, did_you_mean, shortened
from sitl_bridge.base.input_file import exists, is_file
from sitl_bridge.base.shipped_files import shipped_directories

_FOLDER = "missions"
_KINDS = ("*.plan", "*.py", "*.yaml")


def shipped_missions() -> list[Path]:
    """Plans, scripts and scenarios that are shipped, in the order of their names."""
    for directory in shipped_directories(_FOLDER):
        found = sorted(path for kind in _KINDS for path in directory.glob(kind))
        if found:
            return found
    return []


def find_mission(mission: Path) -> Path:
    """The file of a mission given by path, or by the name of a shipped one: ``square.plan``.

    Raises:
        UserError: if there is neither; with the name that was probably meant, or all shipped names.
    """
    if exists(mission):
        return mission
    shipped = _shipped(mission)
    if shipped is not None:
        return shipped
    names = [path.name for path in shipped_missions()]
    near = did_you_mean(mission.name, names)
    hint = near or f"; shipped missions: {', '.join(names) or 'none'}"
    raise UserError(f"{shortened(str(mission))}: no such mission file{hint}")


def mission_of_scenario(scenario: Path, mission: Path) -> Path:
    """The file of a mission that a scenario names: relative to the scenario, else a shipped one."""
    beside = scenario.parent / mission
    return beside if exists(beside) else _shipped(mission) or beside


def _shipped(mission: Path) -> Path | None:
    parts = mission.parts[1:] if mission.parts[:1] == (_FOLDER,) else mission.parts
    if not parts or mission.is_absolute() or ".." in parts:
        return None
    candidates = (directory.joinpath(*parts) for directory in shipped_directories(_FOLDER))
    return next((candidate for candidate in candidates if is_file(candidate)), None)
