"""Writes an identified airframe as a file based on the airframe from which the fit started."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from sitl_bridge.base.errors import UserError
from sitl_bridge.base.json_data import JsonObject
from sitl_bridge.base.output_file import write_whole
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.vehicle.airframe_file import find_airframe, load_airframe
from sitl_bridge.lab.identification.airframe_identification import Identification
from sitl_bridge.lab.identification.fitted_parameters import DELAY


def write_identified(path: Path, base: str, found: Identification, flights: Sequence[str]) -> list[str]:
    """Write the fields that differ from the base, with their sources, and read the file as a check.

    Args:
        path: of the file.
        base: name or file of the airframe from which the fit started.
        flights: their names, for the sources.

    Returns:
        notes for the user.

    Raises:
        UserError: if the file cannot be written.
        ConfigurationError: if the values make no valid airframe.
    """
    prior, notes = load_airframe(base).unloaded(), []
    changed = _difference(_plain(prior), _plain(found.airframe))
    if "inertia" in changed and not found.airframe.inertia.of_a_body():
        changed["inertia"]["as_published"] = True
        notes.append(
            "no rigid body has these moments of inertia, one exceeds the sum of the others: the file has"
            " `as_published: true`"
        )
    head = {
        "base": _reference(base, path),
        "name": f"{prior.name[:29]}_identified",
        "description": f"{prior.description}; identified from flights",
        "sources": _sources(found, ", ".join(flights)),
    }
    text = yaml.safe_dump(head, sort_keys=False, width=1000)
    write_whole(path, text + yaml.safe_dump(changed, sort_keys=False, width=110, default_flow_style=None))
    load_airframe(path)
    delay = next((e for e in found.estimates if e.parameter is DELAY), None)
    if delay is not None:
        notes.append(
            f"the delay of {1e3 * delay.value:.0f} ms is of vehicle and log together: the file leaves"
            " motor.dead_time as it is"
        )
    return notes


def check_output(path: Path) -> None:
    """Refuse a file that cannot become an airframe.

    Raises:
        UserError: if its name or its directory is wrong.
    """
    if path.suffix not in (".yaml", ".yml"):
        raise UserError(f"{path}: an airframe file ends in .yaml")
    if not path.resolve().parent.is_dir():
        raise UserError(f"{path}: its directory does not exist")


def _reference(base: str, path: Path) -> str:
    """The base as the new file names it: by its bare name where that finds it, else by its whole path."""
    file = find_airframe(base).resolve()
    if not base.endswith((".yaml", ".yml")) and not (path.parent / f"{base}.yaml").exists():
        return base
    return file.name if file.parent == path.parent.resolve() else str(file)


def _sources(found: Identification, flights: str) -> dict[str, str]:
    sources = {}
    for estimate in found.estimates:
        if estimate.parameter is DELAY:
            continue
        key = estimate.parameter.path.split("[")[0]
        sources[key] = (
            f"derived: fitted to {flights} by analysis by synthesis, deviation {estimate.relative:.1%}"
        )
    for path in found.fixed.keys() - {DELAY.path}:
        sources[path.split("[")[0]] = f"derived: given as a known value for the fit to {flights}"
    return sources


def _plain(airframe: Airframe) -> JsonObject:
    data: JsonObject = airframe.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {key: value for key, value in data.items() if key not in ("name", "description", "sources")}


def _difference(base: Any, own: Any) -> Any:
    """The fields of ``own`` that differ from ``base``; lists as a whole, numbers with five digits."""
    if isinstance(base, dict) and isinstance(own, dict):
        changed = {key: value for key, value in own.items() if value != base.get(key)}
        return {key: _difference(base.get(key), value) for key, value in changed.items()}
    return _rounded(own)


def _rounded(value: object) -> object:
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, list):
        return [_rounded(entry) for entry in value]
    if isinstance(value, dict):
        return {key: _rounded(entry) for key, entry in value.items()}
    return value
