"""One vehicle as data: its schema, checks between its sections, and its payload.

Body axes are FRD (forward, right, down) from the centre of gravity; figures of sources in FLU or ENU are
converted once, in the file, by changing the signs of y and z.  The sections are defined in dynamics/ and
sensors/, the need for sources in figure_sources.py; files are read in core/vehicle/airframe_file.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, Field, PrivateAttr, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from sitl_bridge.base.arrays import Floats, Records
from sitl_bridge.base.field_paths import FieldPath, field_names
from sitl_bridge.base.json_data import JsonObject, ReadJson
from sitl_bridge.base.quantities import STRICT, Mounting, Number, Positive, Vector
from sitl_bridge.core.dynamics.battery import Battery
from sitl_bridge.core.dynamics.contact import Contact
from sitl_bridge.core.dynamics.forces import Drag
from sitl_bridge.core.dynamics.motor import Motor, SpeedControllers
from sitl_bridge.core.dynamics.records import MAX_ROTORS, VEHICLE
from sitl_bridge.core.dynamics.rotor import Rotor, table_faults
from sitl_bridge.core.dynamics.rotor_laws import AnyRotorModel, pack_rotors
from sitl_bridge.core.dynamics.vibration import Vibration
from sitl_bridge.core.sensors.custom import CustomSpecification
from sitl_bridge.core.sensors.error_model import SensorSpecification
from sitl_bridge.core.sensors.perception.view import PerceptionSpecification
from sitl_bridge.core.sensors.records import MAX_SENSORS
from sitl_bridge.core.sensors.registry import SensorUnion
from sitl_bridge.core.vehicle.controller import ControllerSection
from sitl_bridge.core.vehicle.figure_sources import empty_sources, source_of, useless_sources


class Inertia(BaseModel):
    """Inertia tensor about the centre of gravity in body axes, kg m^2."""

    model_config = STRICT

    xx: Positive
    yy: Positive
    zz: Positive
    xy: Number = Field(0.0, description="off-diagonal element of the tensor, -sum(m x y)")
    xz: Number = 0.0
    yz: Number = 0.0
    as_published: bool = Field(
        False, description="the source publishes this tensor, though it is not physical"
    )

    def matrix(self) -> Floats:
        """(3, 3)."""
        return np.array(
            [[self.xx, self.xy, self.xz], [self.xy, self.yy, self.yz], [self.xz, self.yz, self.zz]]
        )

    @model_validator(mode="after")
    def _physical(self) -> Inertia:
        if np.linalg.eigvalsh(self.matrix())[0] <= 0.0:
            raise ValueError("an inertia tensor must be positive definite")
        if not (self.as_published or self.of_a_body()):
            raise ValueError(
                "one principal moment exceeds the sum of the other two, which is not physical; if the source"
                " publishes this tensor, set `as_published: true`"
            )
        return self

    def of_a_body(self) -> bool:
        """Whether a rigid body can have this tensor: no principal moment exceeds the sum of the other two."""
        principal = np.linalg.eigvalsh(self.matrix())
        return bool(principal[0] + principal[1] >= principal[2] * (1.0 - 1e-9))

    def pack(self, vehicle: Records) -> None:
        """Write the inertia of a () VEHICLE record."""
        vehicle["inertia"] = self.matrix()
        vehicle["inertia_inverse"] = np.linalg.inv(self.matrix())


def point_mass(mass: float, position: Floats) -> Floats:
    """Return the inertia (3, 3) in kg m^2 about the origin of a point mass (kg) at a position (3,) in m."""
    squared: Floats = mass * (position @ position * np.eye(3) - np.outer(position, position))
    return squared


class Payload(BaseModel):
    """A payload; it shifts the centre of gravity, from which all positions are measured."""

    model_config = STRICT

    mass: Positive = Field(description="kg, in addition to the vehicle's")
    position: Mounting = Field(
        (0.0, 0.0, 0.0), description="m, FRD from the empty vehicle's centre of gravity"
    )
    inertia: Inertia | None = Field(
        None, description="about its own centre of gravity; default: a point mass"
    )


class Tolerances(BaseModel):
    """Standard deviations of normal distributions; each vehicle of a run has its own draw."""

    model_config = STRICT

    thrust: float = Field(
        0.0,
        ge=0.0,
        le=0.2,
        description="share of each rotor's thrust in still air, and of its torque",
    )
    axis: float = Field(
        0.0, ge=0.0, le=10.0, description="deg, of each rotor's axis about either axis across"
    )
    centre_of_gravity: tuple[float, float, float] = Field(
        (0.0, 0.0, 0.0), description="m, FRD, of its place; rotors, feet and sensors keep theirs"
    )

    def build(self, vehicle: Records, random: np.random.Generator) -> tuple[Records, Floats]:
        """A vehicle as it was built, unknown to its flight stack, whose parameters follow from the figures.

        The inertia stays that of the figures: a shift of 1 cm would change that of a vehicle of 2 kg by 2e-4
        kg m^2.

        Args:
            vehicle: () VEHICLE of the figures; not changed.
            random: yields the deviations, the same for every vehicle with as many rotors.

        Returns:
            () VEHICLE, and (3,) m, body, by which the centre of gravity is off.
        """
        made, rotors = vehicle.copy(), int(vehicle["rotor_count"])
        points = int(vehicle["contact_count"])
        shift = np.array(self.centre_of_gravity) * random.standard_normal(3)
        factors = 1.0 + self.thrust * random.standard_normal(rotors)
        for name in ("thrust_c2", "thrust_c1"):
            made[name][:rotors] *= factors
        across = np.radians(self.axis) * random.standard_normal((rotors, 3))
        axes = vehicle["rotor_axis"][:rotors]
        # A small turn; what of its vector lies along the axis turns nothing.
        turned = axes + np.cross(across, axes)
        made["rotor_axis"][:rotors] = turned / np.linalg.norm(turned, axis=1, keepdims=True)
        # Two equal normal components of the centre of mass off the axis, and of the axis's tilt.
        for name in ("rotor_imbalance", "rotor_tilt"):
            made[name][:rotors] *= np.linalg.norm(random.standard_normal((2, rotors)), axis=0) / np.sqrt(2.0)
        made["rotor_position"][:rotors] -= shift
        made["contact_point"][:points] -= shift
        if points:
            made["contact_radius"] = np.linalg.norm(made["contact_point"][:points], axis=1).max()
        return made, shift


class AllocationGeometry(BaseModel):
    """Rotor geometry for PX4's control allocation, if it differs from the physical one."""

    model_config = STRICT

    positions: tuple[tuple[Number, Number], ...] = Field(description="m, x, y of each rotor")
    moment_ratio: Positive = Field(description="m, |CA_ROTORn_KM|")


class Px4Section(BaseModel):
    """PX4 settings that are not computed from the physics."""

    model_config = STRICT

    airframe: str | None = Field(
        None,
        description="PX4's own airframe of this vehicle, such as `4019_x500_v2`: gains, limits and thrust"
        " curve stay PX4's, and `parameters` has what that airframe changes of them",
        pattern=r"^\d{1,6}_[A-Za-z0-9_+.\-]{1,40}$",
    )
    parameters: dict[str, int | float] = Field(
        default_factory=dict, description="PX4 parameters by name; they override computed ones"
    )
    allocation: AllocationGeometry | None = None


class Airframe(BaseModel):
    """A multirotor."""

    model_config = STRICT

    name: str = Field(pattern=r"^[A-Za-z0-9_\-]{1,40}$")
    description: str
    caveat: str | None = Field(None, description="what no real vehicle has; `check` prints it")
    sources: dict[str, str] = Field(
        default_factory=dict,
        description="by field path or its beginning: source of the figures, or `derived: how`",
    )
    mass: Positive = Field(description="kg, without the payload")
    inertia: Inertia
    rotor_model: AnyRotorModel
    rotors: tuple[Rotor, ...] = Field(min_length=1, max_length=MAX_ROTORS)
    motor: Motor
    esc: SpeedControllers = SpeedControllers()
    battery: Battery
    vibration: Vibration | None = None
    tolerances: Tolerances | None = Field(None, description="how vehicles as built differ from the figures")
    drag: Drag = Drag()
    ground_effect: bool | Literal["quadrotor"] = Field(
        True,
        description="more thrust near the ground, of each rotor alone; or of four in a square together, whose"
        " wakes meet",
    )
    contact: Contact
    payload: Payload | None = None
    sensors: tuple[SensorUnion, ...] = Field(max_length=MAX_SENSORS)
    px4: Px4Section = Px4Section()
    controller: ControllerSection = ControllerSection()

    _unloaded: Airframe | None = PrivateAttr(None)

    @classmethod
    def faults_between(cls, data: ReadJson) -> list[tuple[FieldPath, str]]:
        """Faults between fields: empty and unused sources, duplicate sensors.

        Args:
            data: plain data of a file, valid or not.
        """
        return [*_structural_faults(data), *empty_sources(data), *useless_sources(data, has_field(data))]

    @model_validator(mode="after")
    def _complete(self) -> Airframe:
        data = self.model_dump(exclude_defaults=True, by_alias=True)
        faults = [*_structural_faults(data), *empty_sources(data)]
        faults += table_faults(self.rotors, self.rotor_model)
        if faults:
            details = [
                InitErrorDetails(type=PydanticCustomError("airframe", message), loc=path, input=None)
                for path, message in faults
            ]
            raise ValidationError.from_exception_data("Airframe", details)
        return self

    def source(self, path: str) -> str:
        """Source of a figure: the longest entry of ``sources`` with which its path begins."""
        return source_of(self.sources, path)

    @property
    def carried(self) -> Payload | None:
        """The payload in mass, inertia and positions, of what ``include_payload`` returns."""
        return None if self._unloaded is None else self._unloaded.payload

    def include_payload(self) -> Airframe:
        """The vehicle including its payload: one mass about the common centre of gravity.

        Rotors, contact points and sensors stay in their places, so their positions relative to the new centre
        of gravity change (parallel-axis theorem for the inertia).
        """
        payload = self.payload
        if payload is None:
            return self
        total = self.mass + payload.mass
        place = np.array(payload.position)
        shift = place * payload.mass / total
        tensor = (
            self.inertia.matrix() + point_mass(self.mass, shift) + point_mass(payload.mass, place - shift)
        )
        if payload.inertia is not None:
            tensor = tensor + payload.inertia.matrix()
        (xx, xy, xz), (_, yy, yz), (_, _, zz) = tensor.tolist()
        published = self.inertia.as_published

        def moved(position: Vector) -> Vector:
            x, y, z = (float(a) for a in np.array(position) - shift)
            return x, y, z

        whole = self.model_copy(
            update={
                "mass": total,
                "inertia": Inertia(xx=xx, yy=yy, zz=zz, xy=xy, xz=xz, yz=yz, as_published=published),
                "rotors": tuple(r.model_copy(update={"position": moved(r.position)}) for r in self.rotors),
                "contact": self.contact.model_copy(
                    update={"points": tuple(moved(point) for point in self.contact.points)}
                ),
                "sensors": tuple(
                    s
                    if isinstance(s, CustomSpecification)
                    else s.model_copy(update={"position": moved(s.position)})
                    for s in self.sensors
                ),
                "payload": None,
            }
        )
        # A copy includes cached values of the original.
        whole.__dict__.pop("record", None)
        whole._unloaded = self
        return whole

    def separate_payload(self) -> Airframe:
        """The vehicle as its file describes it, with its payload apart; ``include_payload`` undoes it."""
        return self._unloaded or self

    def without_payload(self) -> Airframe:
        """The vehicle after it has dropped its payload; unchanged if it has none."""
        return self if self._unloaded is None else self._unloaded.model_copy(update={"payload": None})

    @cached_property
    def record(self) -> Any:
        """VEHICLE as a single record, for compiled functions and ``performance``."""
        return self.vehicle()[()]

    def __getstate__(self) -> JsonObject:
        """Without the record, whose addresses hold in this process alone."""
        state = super().__getstate__()
        return state | {"__dict__": {name: x for name, x in state["__dict__"].items() if name != "record"}}

    def vehicle(self) -> Records:
        """() VEHICLE record of the compiled step, including the payload."""
        return self.include_payload()._pack()

    def _pack(self) -> Records:
        """() VEHICLE record without a payload; every section writes its own part."""
        vehicle = np.zeros((), VEHICLE)
        vehicle["mass"] = self.mass
        vehicle["ground_effect"] = 1.0 if self.ground_effect else 0.0
        if self.ground_effect == "quadrotor":
            places = np.array([rotor.position for rotor in self.rotors])[:, :2]
            apart = np.linalg.norm(places[:, None] - places, axis=-1)[np.triu_indices(4, 1)]
            vehicle["rotor_spacing"] = np.sort(apart)[:4].mean()  # the sides; diagonals are longer
        self.inertia.pack(vehicle)
        pack_rotors(vehicle, self.rotors, self.rotor_model)
        self.motor.pack(vehicle)
        self.esc.pack(vehicle)
        self.battery.pack(vehicle)
        self.drag.pack(vehicle)
        self.contact.pack(vehicle)
        if self.vibration is not None:
            self.vibration.pack(vehicle)
        return vehicle

    def sensor_records(self) -> Records:
        """(s,) SENSOR of the built-in sensors, in the order of the file."""
        return np.array([s.pack() for s in self.sensors if isinstance(s, SensorSpecification)])

    def perception_sensors(self) -> tuple[PerceptionSpecification, ...]:
        """The perception sensors."""
        return tuple(s for s in self.sensors if isinstance(s, PerceptionSpecification))

    def custom_sensors(self) -> tuple[CustomSpecification, ...]:
        """The custom sensors."""
        return tuple(s for s in self.sensors if isinstance(s, CustomSpecification))


class SensorSuite(BaseModel):
    """A file of sensors that airframes name."""

    model_config = STRICT

    description: str
    caveat: str | None = Field(None, description="what no real vehicle has; `check` prints it")
    sources: dict[str, str] = Field(default_factory=dict)
    sensors: tuple[SensorUnion, ...] = Field(max_length=MAX_SENSORS)

    @classmethod
    def faults_between(cls, data: ReadJson) -> list[tuple[FieldPath, str]]:
        """As of ``Airframe``."""
        return [*_sensor_faults(data), *empty_sources(data), *useless_sources(data, has_field(data, cls))]


def has_field(data: object, model: type[BaseModel] = Airframe) -> Callable[[FieldPath], bool]:
    """A test whether an airframe's schema has a path; ``data`` has the kinds of its sections."""
    return lambda path: isinstance(path[-1], int) or path[-1] in field_names(model, data, path[:-1])


def _sensor_faults(data: ReadJson) -> list[tuple[FieldPath, str]]:
    """Duplicate or missing sensors."""
    faults: list[tuple[FieldPath, str]] = []
    sensors = data.get("sensors")
    if isinstance(sensors, list | tuple):
        seen: set[tuple[str, str]] = set()
        for i, sensor in enumerate(sensors):
            if not isinstance(sensor, dict):
                continue
            what = str(sensor.get("class") if sensor.get("kind") == "custom" else sensor.get("kind"))
            key = (what, str(sensor.get("instance", 0)))
            if key in seen:
                faults.append((("sensors", i), f"{what} {key[1]} exists already; give it another instance"))
            seen.add(key)
        if ("imu", "0") not in seen:
            faults.append((("sensors",), "needs an imu with instance 0: its samples drive the lockstep"))
    return faults


def _structural_faults(data: ReadJson) -> list[tuple[FieldPath, str]]:
    """Duplicate or missing sensors, and an allocation that does not fit the rotors."""
    faults, rotors, px4 = _sensor_faults(data), data.get("rotors"), data.get("px4")
    model = data.get("rotor_model")
    if isinstance(model, dict) and model.get("kind") == "custom" and isinstance(rotors, list | tuple):
        faults += [
            (("rotors", i, "model", name), "a custom rotor law has the same figures for all rotors")
            for i, rotor in enumerate(rotors)
            if isinstance(rotor, dict) and isinstance(rotor.get("model"), dict)
            for name in rotor["model"]
            if name != "inertia"
        ]
    tolerances, ruled = (
        data.get("tolerances"),
        isinstance(model, dict) and (model.get("table") or model.get("class")),
    )
    if ruled and isinstance(tolerances, dict) and tolerances.get("thrust"):
        message = "a rotor model with a table or a law of its own takes none; leave it out"
        faults.append((("tolerances", "thrust"), message))
    if data.get("ground_effect") == "quadrotor" and isinstance(rotors, list | tuple) and len(rotors) != 4:
        faults.append(
            (("ground_effect",), f"quadrotor is of four rotors, not {len(rotors)}; true: of each alone")
        )
    geometry = px4.get("allocation") if isinstance(px4, dict) else None
    positions = geometry.get("positions") if isinstance(geometry, dict) else None
    counts = [len(given) for given in (positions, rotors) if isinstance(given, list | tuple)]
    if len(set(counts)) > 1:
        where = ("px4", "allocation", "positions")
        faults.append((where, f"needs one entry per rotor: {counts[1]}, not {counts[0]}"))
    return faults
