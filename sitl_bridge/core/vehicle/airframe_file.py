"""Airframe files: found, read, and merged with the airframe that they are based on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sitl_bridge.base.errors import ConfigurationError, UserError, shorten
from sitl_bridge.base.field_paths import FieldPath
from sitl_bridge.base.input_file import exists, is_file
from sitl_bridge.base.json_data import JsonObject
from sitl_bridge.base.shipped_files import find_shipped, shipped_names
from sitl_bridge.base.yaml_file import Document, Fault, read, validate
from sitl_bridge.core.dynamics.custom_rotor import CustomRotor
from sitl_bridge.core.sensors.custom import CustomSpecification
from sitl_bridge.core.vehicle.airframe import Airframe, SensorSuite, has_field
from sitl_bridge.core.vehicle.controller import beside
from sitl_bridge.core.vehicle.figure_sources import covers, figure_paths, useless_sources
from sitl_bridge.core.vehicle.propellers import with_propeller
from sitl_bridge.core.vehicle.px4_models import px4_model_in_words

_FOLDER = "airframes"
_SUITES = "airframes/sensors"


def find_airframe(name: str) -> Path:
    """File of an airframe given by path or by bare name.

    Raises:
        UserError: with the names of all airframes.
    """
    try:
        return find_shipped(name, "airframe", _FOLDER)
    except UserError as error:
        meant = "" if exists(Path(name)) else px4_model_in_words(name, shipped_names(_FOLDER))
        if not meant:
            raise
        raise UserError(f"no airframe is called {shorten(name)!r}: {meant}") from error


def load_airframe(name: str | Path) -> Airframe:
    """Read and validate an airframe by path or bare name, and add its payload to the body.

    Raises:
        ConfigurationError: with every fault of the file, its line and path.
        UserError: if there is no such airframe.
    """
    path = find_airframe(str(name))
    airframe = validate(Airframe, _with_base(_document(path), path, (path.resolve(),)))
    return airframe_beside(airframe, path.parent)


def airframe_beside(airframe: Airframe, directory: Path) -> Airframe:
    """An airframe with the files that it names taken relative to a directory, and its payload loaded."""
    placed = tuple(
        sensor.beside(directory) if isinstance(sensor, CustomSpecification) else sensor
        for sensor in airframe.sensors
    )
    # Absolute paths: the built-in stack, a process in another directory, loads these as well.
    kind = beside(airframe.controller.kind, directory.resolve())
    controller = airframe.controller.model_copy(update={"kind": kind})
    changed: JsonObject = {"sensors": placed, "controller": controller}
    rotor = airframe.rotor_model
    if isinstance(rotor, CustomRotor):
        changed["rotor_model"] = rotor.beside(directory.resolve())
    return airframe.model_copy(update=changed).include_payload()


def _document(path: Path) -> Document:
    """An airframe file; a controller given by its name becomes a section, a propeller's size its figures."""
    document = read(path)
    if isinstance(document.data.get("controller"), str):
        document.data["controller"] = {"kind": document.data["controller"]}
    try:
        return replace(document, data=with_propeller(document.data))
    except UserError as error:
        raise document.error(("rotor_model", "propeller"), str(error)) from error


def _with_suite(document: Document, path: Path) -> Document:
    """A document whose ``sensors`` names a suite, beside the file or shipped, with that suite's sensors."""
    name = document.data.get("sensors")
    if not isinstance(name, str):
        return document
    try:
        near = path.parent / "sensors" / f"{name}.yaml"
        suite = read(near if is_file(near) else find_shipped(name, "sensor suite", _SUITES))
    except ConfigurationError:
        raise
    except UserError as error:
        raise document.error(("sensors",), str(error)) from error
    validate(SensorSuite, suite)
    own = document.data.get("sources", {})
    sources = suite.data.get("sources", {}) | own if isinstance(own, dict) else own
    return replace(document, data=document.data | {"sensors": suite.data["sensors"], "sources": sources})


_OWN = ("name", "description")
"""Fields that are not inherited from the base; a description is made from its name."""
_PARTS = ("mass", "inertia", "payload", "rotor_model", "rotors", "motor", "esc", "battery", "drag")
"""Sections from which PX4's allocation, gains and limits follow."""
_FOLLOWING = re.compile(
    r"CA_ROTOR|MC_(ROLL|PITCH|YAW)|MPC_(XY|Z|ACC|JERK|TILT|THR|MANTHR|VEL|YAWR|MAN_Y)|THR_MDL_FAC|IMU_GYRO|FD_ACT|MOTFAIL"
)
"""PX4 parameters that are computed from those sections."""


@dataclass(frozen=True)
class Inheritance:
    """Fields that an airframe file takes from its base."""

    base: str  # the name in the file
    mass: float  # kg, of the base
    changed: tuple[str, ...]  # paths of the figures that the file gives
    kept: tuple[str, ...]  # paths that are the base's, whole sections by their own
    # paths under ``px4`` of the base that the file's own parts replace by computed values
    computed: tuple[str, ...]


def inheritance(name: str | Path) -> Inheritance | None:
    """Return what an airframe, by path or bare name, takes from its base; None without a base.

    Raises:
        ConfigurationError, UserError: as ``load_airframe``.
    """
    path = find_airframe(str(name))
    document = _with_suite(_document(path), path)
    if "base" not in document.data:
        return None
    given = {key: value for key, value in document.data.items() if key != "base"}
    source = _base_file(document, path, (path.resolve(),))
    base = _with_base(_document(source), source, (path.resolve(), source.resolve())).data
    taken, computed = _without_following(base, given)
    ignored = (*_OWN, "sources")
    kept = tuple(_paths_kept({k: v for k, v in taken.items() if k not in ignored}, given))
    return Inheritance(str(document.data["base"]), base["mass"], tuple(figure_paths(given)), kept, computed)


def _without_following(base: JsonObject, own: JsonObject) -> tuple[JsonObject, tuple[str, ...]]:
    """A base without the PX4 settings that follow from parts that a file changes, and these by path.

    The base's allocation follows from its rotors; its parameters of gains, limits and thrust from all parts.
    """
    px4 = base.get("px4")
    if not isinstance(px4, dict):
        return base, ()
    px4, dropped = dict(px4), []
    if px4.get("allocation") is not None and {"rotors", "rotor_model"} & set(own):
        del px4["allocation"]
        dropped.append("px4.allocation")
    parameters = px4.get("parameters")
    if isinstance(parameters, dict) and set(_PARTS) & set(own):
        following = [name for name in parameters if _FOLLOWING.match(name)]
        px4["parameters"] = {name: value for name, value in parameters.items() if name not in following}
        dropped += [f"px4.parameters.{name}" for name in following]
    if px4.get("airframe") is not None and set(_PARTS) & set(own):
        del px4["airframe"]
        dropped.append("px4.airframe")
    sources = {key: text for key, text in base.get("sources", {}).items() if key not in dropped}
    return base | {"px4": {k: v for k, v in px4.items() if v}, "sources": sources}, tuple(dropped)


def _paths_kept(base: JsonObject, own: JsonObject, prefix: str = "") -> list[str]:
    """Paths of a base that a file leaves as they are; sensors by their kind."""
    found: list[str] = []
    for key, value in base.items():
        if key not in own:
            found += [prefix + key] if value not in (None, {}) else []
        elif isinstance(value, dict) and isinstance(own[key], dict):
            if own[key].get("kind", value.get("kind")) == value.get("kind"):
                found += _paths_kept(value, own[key], f"{prefix}{key}.")
        elif key == "sensors":
            changed = {sensor.get("kind") for sensor in own[key] if isinstance(sensor, dict)}
            kinds = dict.fromkeys(sensor["kind"] for sensor in value)
            found += [f"{prefix}{key}.{kind}" for kind in kinds if kind not in changed]
    return found


def _with_base(document: Document, path: Path, chain: tuple[Path, ...]) -> Document:
    """A document merged into the airframe named as its ``base``, field by field."""
    replaced = isinstance(document.data.get("sensors"), str)
    document = _with_suite(document, path)
    if "base" not in document.data:
        return document
    own = {key: value for key, value in document.data.items() if key != "base"}
    source = _base_file(document, path, chain)
    base = _with_base(_document(source), source, (*chain, source.resolve()))
    validate(Airframe, base)
    inherited, _ = _without_following(base.data, own)
    taken = {key: value for key, value in inherited.items() if key not in _OWN}
    taken["description"] = f"{document.data['base']}, changed"
    taken.setdefault("sources", {})
    if replaced:
        taken["sources"] = {key: text for key, text in taken["sources"].items() if not covers("sensors", key)}
    taken["sensors"] = [_from_directory(sensor, source.parent) for sensor in taken["sensors"]]
    taken["rotor_model"] = _from_directory(taken["rotor_model"], source.parent)
    if "kind" in taken.get("controller", {}):
        kind = beside(taken["controller"]["kind"], source.parent.resolve())
        taken["controller"] = taken["controller"] | {"kind": kind}
    line = document.line(("base",))
    lines = {(key,): line for key in taken} | document.lines
    merged = Document(document.source, _merge_fields(taken, own), lines, document.faults)
    if isinstance(own.get("sensors"), list) and not replaced:
        merged = _document_with_sensors(merged, taken["sensors"], own["sensors"])
    given = own.get("sources", {})
    if isinstance(given, dict):
        data = merged.data
        idle = {where[-1] for where, _ in useless_sources(data, has_field(data))} - set(given)
        data["sources"] = {key: text for key, text in data["sources"].items() if key not in idle}
    return merged


def _base_file(document: Document, path: Path, chain: tuple[Path, ...]) -> Path:
    """File of the airframe that a document is based on: in the same directory, or found by its bare name."""
    name = document.data["base"]
    if not isinstance(name, str):
        if ("base",) in {fault.path for fault in document.faults}:
            raise ConfigurationError(document.source, [str(fault) for fault in document.faults])
        raise document.error(("base",), "Input should be the name or file of an airframe")
    try:
        near = path.parent / (name if name.endswith((".yaml", ".yml")) else f"{name}.yaml")
        source = near if is_file(near) else find_airframe(name)
    except ConfigurationError:
        raise
    except UserError as error:
        raise document.error(("base",), str(error)) from error
    if source.resolve() in chain:
        raise document.error(("base",), f"{shorten(name)} is based on this file")
    return source


def _merge(base: object, own: object) -> object:
    """A value of the base, changed field by field; lists, and mappings of another ``kind``, are replaced."""
    if not (isinstance(base, dict) and isinstance(own, dict)):
        return own
    if "kind" in own and own["kind"] != base.get("kind"):
        return own
    return _merge_fields(base, own)


def _merge_fields(base: JsonObject, own: JsonObject) -> JsonObject:
    return base | {key: _merge(base[key], value) if key in base else value for key, value in own.items()}


def with_sensors(
    base: Sequence[object], own: Sequence[object]
) -> tuple[list[object], list[int | None], dict[int, str]]:
    """The sensors of the base, as mappings, some of them changed, added or removed.

    A sensor of the same kind (and class, if custom) and instance is changed field by field, or removed with
    ``remove: true``.  A new sensor is inserted after the last one of its kind, or at the end.

    Returns:
        The sensors, for each the place in ``own`` that it comes from (None: from the base alone), and the
        faults by their place in ``own``.
    """
    sensors = list(base)
    origin: list[int | None] = [None] * len(base)
    faults: dict[int, str] = {}
    for i, sensor in enumerate(own):
        identities = [_identity(other) for other in sensors]
        identity = _identity(sensor)
        at = identities.index(identity) if identity in identities else None
        if isinstance(sensor, dict) and "remove" in sensor:
            fault = _remove_fault(sensor, known=at is not None)
            if fault:
                faults[i] = fault
            if at is not None:
                del sensors[at], origin[at]
        elif at is not None and origin[at] is None:
            sensors[at], origin[at] = _merge(sensors[at], sensor), i
        else:
            same = [k for k, other in enumerate(identities) if identity and other and other[0] == identity[0]]
            place = same[-1] + 1 if same else len(sensors)
            sensors.insert(place, sensor)
            origin.insert(place, i)
    return sensors, origin, faults


def _document_with_sensors(document: Document, base: list[object], own: list[object]) -> Document:
    """A document with the sensors of the base and its own; lines and faults keep their places."""
    sensors, origin, found = with_sensors(base, own)
    faults = [
        *document.faults,
        *(Fault(document.line(("sensors", i)), ("sensors", i), text) for i, text in found.items()),
    ]

    def moved(path: FieldPath) -> FieldPath:
        if len(path) < 2 or path[0] != "sensors" or path[1] not in origin:
            return path
        return ("sensors", origin.index(int(path[1])), *path[2:])

    lines = {moved(path): line for path, line in document.lines.items() if path[:1] != ("sensors",)}
    lines[("sensors",)] = document.line(("sensors",))
    lines |= {moved(path): line for path, line in document.lines.items() if path[1:2] and path[1] in origin}
    moved_faults = tuple(Fault(fault.line, moved(fault.path), fault.message) for fault in faults)
    return Document(document.source, document.data | {"sensors": sensors}, lines, moved_faults)


def _remove_fault(sensor: JsonObject, *, known: bool) -> str | None:
    if sensor["remove"] is not True:
        return "remove must be true; leave it out to change the sensor"
    if set(sensor) - {"kind", "instance", "class", "remove"}:
        return "a sensor that is removed takes no other fields"
    return None if known else "the base has no such sensor to remove; check kind and instance"


def _identity(sensor: object) -> tuple[str, str, str] | None:
    """Return the identity of a sensor in a list: its kind, its class (if custom), its instance."""
    if not isinstance(sensor, dict) or "kind" not in sensor:
        return None
    return str(sensor["kind"]), str(sensor.get("class", "")), str(sensor.get("instance", 0))


def _from_directory(part: JsonObject, directory: Path) -> JsonObject:
    """A sensor or the rotor model of a base; the file of a custom one is relative to the base."""
    if part.get("kind") != "custom":
        return part
    return part | {"file": str(directory.resolve() / part["file"])}
