"""Airframe files: how they are found, read, and combined with the airframe that they are based on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sitl_bridge.errors import ConfigurationError, UserError, did_you_mean, shortened
from sitl_bridge.files.yaml_file import Document, Fault, read, validate
from sitl_bridge.input_file import exists, is_file
from sitl_bridge.sensors.custom import CustomSpecification
from sitl_bridge.vehicle.airframe import Airframe, has_field
from sitl_bridge.vehicle.controller import beside
from sitl_bridge.vehicle.figure_sources import useless_sources


def airframe_directories() -> list[Path]:
    """Where bare airframe names are looked up: ./airframes, then the ones that came with the package."""
    package = Path(__file__).resolve().parent.parent
    return [Path("airframes"), package.parent / "airframes", package / "airframes"]


def find_airframe(name: str) -> Path:
    """File of an airframe given by path or by bare name.

    Raises:
        UserError: naming the airframes there are.
    """
    direct = Path(name)
    if direct.suffix in (".yaml", ".yml") or is_file(direct):
        if exists(direct):
            return direct
        raise UserError(f"{shortened(name)}: no such airframe file")
    names: set[str] = set()
    for directory in airframe_directories():
        candidate = directory / f"{name}.yaml"
        if is_file(candidate):
            return candidate
        names.update(path.stem for path in directory.glob("*.yaml"))
    if exists(direct):
        raise UserError(f"{name}: is not an ordinary file; name the airframe's YAML file")
    near = did_you_mean(name, names)
    known = ", ".join(sorted(names)) or "none"
    raise UserError(f"no airframe is called {shortened(name)!r}{near}; there are {known}")


def load_airframe(name: str | Path) -> Airframe:
    """Read and validate an airframe by path or bare name; its payload becomes part of it.

    Raises:
        ConfigurationError: with every fault of the file, its line and path.
        UserError: when there is no such airframe.
    """
    path = find_airframe(str(name))
    airframe = validate(Airframe, _with_base(_document(path), path, (path.resolve(),)))
    placed = tuple(
        sensor.model_copy(update={"file": path.parent / sensor.file})
        if isinstance(sensor, CustomSpecification)
        else sensor
        for sensor in airframe.sensors
    )
    kind = beside(airframe.controller.kind, path.parent)
    controller = airframe.controller.model_copy(update={"kind": kind})
    return airframe.model_copy(update={"sensors": placed, "controller": controller}).loaded()


def _document(path: Path) -> Document:
    """An airframe file; a controller given by its bare name is spelt out."""
    document = read(path)
    if isinstance(document.data.get("controller"), str):
        document.data["controller"] = {"kind": document.data["controller"]}
    return document


_OWN = ("name", "description")
"""Fields that an airframe does not take over from what it is based on."""


def _with_base(document: Document, path: Path, chain: tuple[Path, ...]) -> Document:
    """A document with the sections it does not give taken over from the airframe named as its ``base``.

    A section that it gives replaces the base's whole; entries of ``sources`` are added one by one.

    Raises:
        ConfigurationError: for a base that is missing, faulty itself, or based on the document.
    """
    if "base" not in document.data:
        return document
    line = document.line(("base",))
    name = document.data["base"]
    own = {key: value for key, value in document.data.items() if key != "base"}
    if not isinstance(name, str):
        fault = Fault(line, ("base",), "Input should be the name or file of an airframe")
        faults = document.faults if ("base",) in {f.path for f in document.faults} else (fault,)
        raise ConfigurationError(document.source, [str(f) for f in faults])
    try:
        near = path.parent / (name if name.endswith((".yaml", ".yml")) else f"{name}.yaml")
        source = near if is_file(near) else find_airframe(name)
    except ConfigurationError:
        raise
    except UserError as error:
        raise ConfigurationError(document.source, [f"line {line}: base: {error}"]) from error
    if source.resolve() in chain:
        raise ConfigurationError(
            document.source, [f"line {line}: base: {shortened(name)} is based on this file"]
        )
    base = _with_base(_document(source), source, (*chain, source.resolve()))
    validate(Airframe, base)
    taken = {key: value for key, value in base.data.items() if key not in (*own, *_OWN)}
    if "sensors" in taken:
        taken["sensors"] = [_from_directory(sensor, source.parent) for sensor in taken["sensors"]]
    if "kind" in taken.get("controller", {}):
        kind = beside(taken["controller"]["kind"], source.parent.resolve())
        taken["controller"] = taken["controller"] | {"kind": kind}
    merged = taken | own
    given = own.get("sources", {})
    if isinstance(given, dict):
        merged["sources"] = base.data["sources"] | given
        idle = {where[-1] for where, _ in useless_sources(merged, has_field(merged))} - set(given)
        merged["sources"] = {key: text for key, text in merged["sources"].items() if key not in idle}
    lines = {(key,): line for key in taken} | document.lines
    return Document(document.source, merged, lines, document.faults)


def _from_directory(sensor: Any, directory: Path) -> Any:
    """A line of a base's sensors; the file of a user's own is beside the base."""
    if sensor.get("kind") != "custom":
        return sensor
    return sensor | {"file": str(directory.resolve() / sensor["file"])}
