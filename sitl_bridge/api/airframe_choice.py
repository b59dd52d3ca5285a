"""Airframes from Python: by name, by file, as objects, and as changed copies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from sitl_bridge.base.errors import ConfigurationError, UserError
from sitl_bridge.base.field_paths import name_faults_of
from sitl_bridge.base.json_data import JsonObject, ReadJson
from sitl_bridge.core.dynamics.custom_rotor import CustomRotor, RotorLaw
from sitl_bridge.core.sensors.custom import CustomSensor, CustomSpecification
from sitl_bridge.core.vehicle import airframe as vehicle
from sitl_bridge.core.vehicle.airframe_file import load_airframe, with_sensors
from sitl_bridge.core.vehicle.figure_sources import covers, figure_paths

SET_HERE = "derived: set from Python"
"""Source of the figures of a changed copy."""


class Airframe(vehicle.Airframe):
    """A multirotor: the fields of an airframe file, SI units, body axes FRD from the centre of gravity."""

    @classmethod
    def load(cls, name: str | Path) -> Airframe:
        """An airframe by name (``"iris"``) or file; its payload becomes part of it.

        Raises:
            ConfigurationError: with every fault of the file, its line and path.
            UserError: when there is no such airframe.
        """
        return cls.of(load_airframe(name))

    @classmethod
    def of(cls, airframe: vehicle.Airframe) -> Airframe:
        """The same airframe with the methods of this class."""
        fields = {name: getattr(airframe, name) for name in vehicle.Airframe.model_fields}
        made = cls.model_construct(airframe.model_fields_set, **fields)
        made._unloaded = airframe._unloaded
        return made

    def changed(self, **fields: object) -> Airframe:
        """A copy with other figures: ``iris.changed(mass=1.8, rotor_model={"thrust_c2": 9e-6})``.

        A mapping changes the fields it names and keeps the others; any other value replaces the field.
        ``sensors``, a list of mappings, changes, adds and removes sensors as in a file with a base:
        ``iris.changed(sensors=[{"kind": "gps", "rate": 10}])``.
        The figures' source becomes "set from Python".  A vehicle that carries a payload is changed without
        it and then loaded again.

        Raises:
            ConfigurationError: for an unknown field or an invalid value.
        """
        empty = self.without_payload()
        data = empty.model_dump(by_alias=True, exclude_defaults=True)
        if self.carried is not None:
            data["payload"] = self.carried.model_dump(exclude_defaults=True)
        own = fields.get("sensors")
        if isinstance(own, list) and all(isinstance(sensor, dict) for sensor in own):
            sensors, _, faults = with_sensors(data["sensors"], own)
            if faults:
                raise ConfigurationError(
                    f"changed copy of {self.name}", [f"sensors.{i}: {text}" for i, text in faults.items()]
                )
            fields["sensors"] = sensors
        merged = _merge(data, fields)
        new = [
            path
            for path in figure_paths({key: merged[key] for key in fields})
            if not _same(path, data, merged)
        ]
        given = merged.get("sources", {})
        sources = {key: text for key, text in given.items() if not any(covers(n, key) for n in new)}
        merged["sources"] = sources | dict.fromkeys(new, SET_HERE)
        with name_faults_of(f"changed copy of {self.name}"):
            made = vehicle.Airframe.model_validate(merged)
        kept = {sensor.name: sensor for sensor in self.custom_sensors()}
        changes: JsonObject = {
            "sensors": tuple(
                kept.get(s.name, s) if isinstance(s, CustomSpecification) else s for s in made.sensors
            )
        }
        if made.rotor_model == self.rotor_model:
            changes["rotor_model"] = self.rotor_model  # a class that is in no file stays
        return type(self).of(made.model_copy(update=changes).include_payload())

    def with_rotor_law(self, law: type[RotorLaw], **options: object) -> Airframe:
        """A copy whose rotors, of the same radius and inertia, follow a law of your own.

        Args:
            law: class derived from RotorLaw.
            options: its fields.

        Raises:
            UserError: for invalid fields, or a law that fails or cannot be compiled.
        """
        model = CustomRotor.of(law, self.rotor_model.radius, self.rotor_model.inertia, **options)
        made = type(self).of(self.model_copy(update={"rotor_model": model}))
        made.vehicle()
        return made

    def with_sensor(
        self, sensor: type[CustomSensor], *, rate: float, instance: int = 0, **options: object
    ) -> Airframe:
        """A copy that carries one more custom sensor.

        Args:
            sensor: class derived from CustomSensor.
            rate: Hz.
            instance: tells several of one class apart.
            options: arguments of the class.

        Raises:
            UserError: for a class that is not a sensor, an invalid rate or invalid options, and for a sensor
                of that class and instance that is there already.
        """
        added = CustomSpecification.of(sensor, rate=rate, instance=instance, **options)
        if any(s.name == added.name for s in self.custom_sensors()):
            raise ConfigurationError(self.name, [f"sensors: {added.name} is there already; give an instance"])
        return type(self).of(self.model_copy(update={"sensors": (*self.sensors, added)}))


AirframeChoice: TypeAlias = str | Path | vehicle.Airframe
"""An airframe by name, by file or as an object."""


def airframe_of(choice: AirframeChoice) -> vehicle.Airframe:
    """The airframe that a user names.

    Raises:
        UserError: when there is no such airframe, or its file is faulty.
    """
    if isinstance(choice, vehicle.Airframe):
        return choice
    if not isinstance(choice, str | Path):
        raise UserError(f"airframe: {choice!r} is neither a name, a file nor an Airframe")
    return load_airframe(choice)


def airframes_of(choices: AirframeChoice | Sequence[AirframeChoice]) -> list[vehicle.Airframe]:
    """The airframes that a user names, one or several; each name or file is read once.

    Raises:
        UserError: as ``airframe_of``.
    """
    if isinstance(choices, str | Path | vehicle.Airframe) or not isinstance(choices, Iterable):
        listed: list[AirframeChoice] = [choices]
    else:
        listed = list(choices)
    read = {choice: airframe_of(choice) for choice in {c for c in listed if isinstance(c, str | Path)}}
    return [read[choice] if isinstance(choice, str | Path) else airframe_of(choice) for choice in listed]


def _merge(data: ReadJson, changes: ReadJson) -> JsonObject:
    """Data with the fields of ``changes``, mappings merged field by field."""
    merged = dict(data)
    for key, value in changes.items():
        below = merged.get(key)
        if isinstance(value, Mapping):
            merged[key] = _merge(below if isinstance(below, Mapping) else {}, value)
        else:
            merged[key] = value
    return merged


def _same(path: str, before: ReadJson, after: ReadJson) -> bool:
    """Whether a figure that is a field of a field is the same in both; others count as changed."""
    a: object = before
    b: object = after
    for name in path.split("."):
        if not isinstance(a, Mapping) or not isinstance(b, Mapping) or name not in a or name not in b:
            return False
        a, b = a[name], b[name]
    return bool(a == b)
