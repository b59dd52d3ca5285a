"""One vehicle as data: its schema, what holds between its sections, its payload.

Body axes are FRD (forward, right, down) from the centre of gravity; figures of sources in FLU or ENU are
converted once, in the file, by turning the signs of y and z.  The records of the compiled step are packed
in vehicle_record.py; which figures need a source is in figure_sources.py; files are read in
files/airframe_file.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from sitl_bridge.dynamics.records import (
    MAX_CONTACT_POINTS,
    MAX_ROTORS,
    OCV_POINTS,
    TABLE_ADVANCE_RATIOS,
    TABLE_SPEEDS,
)
from sitl_bridge.field_paths import FieldPath, field_names
from sitl_bridge.quantities import NonNegative, Number, Positive, Vector
from sitl_bridge.sensors.custom import CustomSpecification
from sitl_bridge.sensors.records import MAX_SENSORS
from sitl_bridge.sensors.registry import SensorUnion
from sitl_bridge.vehicle.controller import ControllerSection
from sitl_bridge.vehicle.figure_sources import source_of, unsourced, useless_sources
from sitl_bridge.vehicle.vehicle_record import pack

STRICT = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
NonNegativeVector = tuple[NonNegative, NonNegative, NonNegative]
UP: Vector = (0.0, 0.0, -1.0)

LIPO_CELL = (3.27, 3.61, 3.69, 3.71, 3.75, 3.79, 3.83, 3.89, 3.97, 4.08, 4.20)
"""V, open-circuit voltage of a lithium-polymer cell at 0, 10, ... 100 % of its charge: the usual published
discharge table of hobby cells ("LiPo voltage chart": 3.27 V empty, 3.84 V near the middle, 4.20 V full)."""


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
        False, description="a source publishes it so, though no rigid body has such a tensor"
    )

    def matrix(self) -> NDArray[np.float64]:
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
                "one principal moment exceeds the sum of the other two, which no body's does; where a source"
                " publishes it so, say `as_published: true`"
            )
        return self

    def of_a_body(self) -> bool:
        """False where a principal moment exceeds the sum of the other two, which no rigid body's can."""
        principal = np.linalg.eigvalsh(self.matrix())
        return bool(principal[0] + principal[1] >= principal[2] * (1.0 - 1e-9))


def point_mass(mass: float, position: NDArray[np.float64]) -> NDArray[np.float64]:
    """Inertia (3, 3) in kg m^2 about the origin of a point mass (kg) at a position (3,) in m."""
    squared: NDArray[np.float64] = mass * (position @ position * np.eye(3) - np.outer(position, position))
    return squared


class PropellerTable(BaseModel):
    """Measured coefficients of a propeller over its speed and its advance ratio."""

    model_config = STRICT

    diameter: Positive = Field(description="m")
    speeds: tuple[Positive, ...] = Field(description="rad/s, rising", min_length=1, max_length=TABLE_SPEEDS)
    advance_ratios: tuple[Number, ...] = Field(
        (0.0,), description="J = v/(n D), rising", min_length=1, max_length=TABLE_ADVANCE_RATIOS
    )
    thrust: tuple[tuple[Number, ...], ...] = Field(description="C_T, one row a speed")
    power: tuple[tuple[Number, ...], ...] = Field(description="C_P, one row a speed")

    @model_validator(mode="after")
    def _rectangular(self) -> PropellerTable:
        for name in ("thrust", "power"):
            rows = getattr(self, name)
            if len(rows) != len(self.speeds) or any(len(row) != len(self.advance_ratios) for row in rows):
                raise ValueError(f"{name} needs one row a speed and one column an advance ratio")
        if any(np.diff(self.speeds) <= 0.0) or any(np.diff(self.advance_ratios) <= 0.0):
            raise ValueError("speeds and advance_ratios must rise")
        return self


class RotorModel(BaseModel):
    """What a rotor does with air: T = (c2 w^2 + c1 w + b1 v w + sgn(v) b2 v^2)(1 - |v|/v_loss)."""

    model_config = STRICT

    radius: Positive = Field(description="m")
    inertia: Positive = Field(description="kg m^2 about its spin axis, with the motor's bell")
    thrust_c2: NonNegative = Field(0.0, description="N s^2")
    thrust_c1: Number = Field(0.0, description="N s")
    thrust_b1: Number = Field(0.0, description="N s^2/m")
    thrust_b2: Number = Field(0.0, description="N s^2/m^2")
    inflow_loss_speed: Positive | None = Field(None, description="m/s")
    torque_thrust_ratio: NonNegative = Field(0.0, description="m, torque over thrust")
    torque_g1: Number = Field(0.0, description="N m s")
    torque_constant: Number = Field(0.0, description="N m")
    drag: NonNegative = Field(0.0, description="kg, in-plane drag over speed and velocity")
    rolling_moment: NonNegative = Field(0.0, description="kg m")
    reference_density: Positive = Field(1.225, description="kg/m^3 at which the coefficients hold")
    table: PropellerTable | None = None

    @model_validator(mode="after")
    def _lifts(self) -> RotorModel:
        if self.table is None and self.thrust_c2 == 0.0 and self.thrust_c1 <= 0.0:
            raise ValueError("a rotor needs thrust_c2, thrust_c1 or a table")
        return self


class RotorChange(BaseModel):
    """Figures of one rotor that differ from the shared model's; the fields are RotorModel's."""

    model_config = STRICT

    radius: Positive | None = None
    inertia: Positive | None = None
    thrust_c2: NonNegative | None = None
    thrust_c1: Number | None = None
    thrust_b1: Number | None = None
    thrust_b2: Number | None = None
    inflow_loss_speed: Positive | None = None
    torque_thrust_ratio: NonNegative | None = None
    torque_g1: Number | None = None
    torque_constant: Number | None = None
    drag: NonNegative | None = None
    rolling_moment: NonNegative | None = None


class Rotor(BaseModel):
    """Where a rotor sits.  The order of the list is that of PX4's motors: the first is motor 1."""

    model_config = STRICT

    position: Vector = Field(description="m, hub, FRD from the centre of gravity")
    direction: Literal["ccw", "cw"] = Field(description="seen from above")
    axis: Vector = Field(UP, description="direction of thrust; normalised")
    model: RotorChange = Field(RotorChange(), description="where it differs from rotor_model")

    @model_validator(mode="after")
    def _has_axis(self) -> Rotor:
        if np.linalg.norm(self.axis) < 1e-6:
            raise ValueError("axis must not be zero")
        return self


class FirstOrderMotor(BaseModel):
    """A speed-controlled motor: w = idle_speed + speed_range * command, first-order lag up and down."""

    model_config = STRICT

    kind: Literal["first_order"]
    time_constant_up: Positive = Field(description="s")
    time_constant_down: Positive = Field(description="s")
    idle_speed: NonNegative = Field(0.0, description="rad/s at command 0 while armed")
    speed_range: Positive = Field(description="rad/s between command 0 and 1 at the nominal voltage")
    reversible: bool = False
    efficiency: Positive = Field(
        description="shaft power (torque times speed) over electrical power; above 1 only where the model's"
        " torque is exaggerated and says so"
    )


class DcMotor(BaseModel):
    """hector_quadrotor's brushless motor, voltage = command * battery voltage (hector eqs 4-6)."""

    model_config = STRICT

    kind: Literal["dc"]
    flux: Positive = Field(description="V s, Psi")
    resistance: Positive = Field(description="ohm, R_A")
    inertia: Positive = Field(description="kg m^2, J_M")
    alpha: Number = Field(description="A, alpha_m of the released code")
    beta: Positive = Field(description="1, beta_m of the released code")


class Battery(BaseModel):
    """A lithium battery pack."""

    model_config = STRICT

    cells: int = Field(ge=1, le=14)
    capacity: Positive | None = Field(None, description="Ah; absent: an ideal source")
    resistance: NonNegative = Field(0.0, description="ohm, whole pack")
    nominal_voltage: Positive = Field(description="V, at which the motor's speed_range holds")
    cell_voltage: tuple[Positive, ...] = Field(
        LIPO_CELL, description="V a cell at 0, 10 ... 100 %", min_length=OCV_POINTS, max_length=OCV_POINTS
    )
    idle_current: NonNegative = Field(0.0, description="A, avionics")


class Drag(BaseModel):
    """Body drag F = -C |v| v and M = -C |w| w (hector eq. 2)."""

    model_config = STRICT

    force: NonNegativeVector = Field((0.0, 0.0, 0.0), description="N s^2/m^2, x, y, z")
    moment: NonNegativeVector = Field((0.0, 0.0, 0.0), description="N m s^2")
    reference_density: Positive = Field(1.225, description="kg/m^3")


class Contact(BaseModel):
    """Points that touch the ground: a spring and damper each, Coulomb friction."""

    model_config = STRICT

    points: tuple[Vector, ...] = Field(description="m, FRD", min_length=3, max_length=MAX_CONTACT_POINTS)
    stiffness: Positive = Field(description="N/m a point")
    damping: NonNegative = Field(description="N s/m a point")
    friction: NonNegative = Field(description="1")


class Payload(BaseModel):
    """What the vehicle carries; it moves the centre of gravity and with it everything in the file."""

    model_config = STRICT

    mass: Positive = Field(description="kg, on top of the vehicle's")
    position: Vector = Field((0.0, 0.0, 0.0), description="m, FRD from the empty vehicle's centre of gravity")
    inertia: Inertia | None = Field(None, description="about its own centre of gravity; absent: a point")


class AllocationGeometry(BaseModel):
    """Rotor geometry for PX4's control allocation where it is not the physical one."""

    model_config = STRICT

    positions: tuple[tuple[Number, Number], ...] = Field(description="m, x, y of each rotor")
    moment_ratio: Positive = Field(description="m, |CA_ROTORn_KM|")


class Px4Section(BaseModel):
    """What PX4 is told beyond what follows from the physics."""

    model_config = STRICT

    parameters: dict[str, int | float] = Field(default_factory=dict, description="override derived ones")
    allocation: AllocationGeometry | None = None


class Airframe(BaseModel):
    """A multirotor, whole."""

    model_config = STRICT

    name: str = Field(pattern=r"^[A-Za-z0-9_\-]{1,40}$")
    description: str
    sources: dict[str, str] = Field(
        description="field path, or its beginning, to source of the figures there; `derived: how` where none"
    )
    mass: Positive = Field(description="kg, everything but the payload")
    inertia: Inertia
    rotor_model: RotorModel
    rotors: tuple[Rotor, ...] = Field(min_length=1, max_length=MAX_ROTORS)
    motor: Annotated[FirstOrderMotor | DcMotor, Field(discriminator="kind")]
    battery: Battery
    drag: Drag = Drag()
    ground_effect: bool = True
    contact: Contact
    payload: Payload | None = None
    sensors: tuple[SensorUnion, ...] = Field(max_length=MAX_SENSORS)
    px4: Px4Section = Px4Section()
    controller: ControllerSection = ControllerSection()

    _carried: Payload | None = PrivateAttr(None)
    _empty: Airframe | None = PrivateAttr(None)

    @classmethod
    def faults_between(cls, data: Any) -> list[tuple[FieldPath, str]]:
        """What no single field shows: figures without a source, sources of nothing, clashing sensors.

        Args:
            data: plain data of a file, valid or not.
        """
        return [*_structural_faults(data), *unsourced(data), *useless_sources(data, has_field(data))]

    @model_validator(mode="after")
    def _complete(self) -> Airframe:
        data = self.model_dump(exclude_defaults=True, by_alias=True)
        faults = [*_structural_faults(data), *unsourced(data)]
        if faults:
            details = [
                InitErrorDetails(type=PydanticCustomError("airframe", message), loc=path, input=None)
                for path, message in faults
            ]
            raise ValidationError.from_exception_data("Airframe", details)
        return self

    def source(self, path: str) -> str:
        """Source of a figure; the longest entry of ``sources`` that its path begins with."""
        return source_of(self.sources, path)

    def model_of(self, rotor: Rotor) -> RotorModel:
        """The shared rotor model with what this rotor changes."""
        return self.rotor_model.model_copy(update=rotor.model.model_dump(exclude_none=True))

    @property
    def carried(self) -> Payload | None:
        """The payload that is part of mass, inertia and positions, once ``loaded``."""
        return self._carried

    def loaded(self) -> Airframe:
        """The vehicle with its payload as part of it: one mass about the common centre of gravity.

        Rotors, contact points and sensors keep their places in the vehicle, so their positions from the new
        centre of gravity change (parallel-axis theorem for the inertia).
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

        def moved(position: Vector) -> Vector:
            x, y, z = (float(a) for a in np.array(position) - shift)
            return x, y, z

        whole = self.model_copy(
            update={
                "mass": total,
                "inertia": _inertia(tensor, as_published=self.inertia.as_published),
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
        # A copy takes along what was computed from the original.
        whole.__dict__.pop("record", None)
        whole._carried = payload
        whole._empty = self.model_copy(update={"payload": None})
        return whole

    def without_payload(self) -> Airframe:
        """The vehicle once it has dropped what it carried; itself where it carried nothing."""
        return self._empty or self

    @cached_property
    def record(self) -> Any:
        """VEHICLE as a single record, as compiled functions and ``performance`` take it from Python."""
        return self.vehicle()[()]

    def vehicle(self) -> NDArray[np.void]:
        """() VEHICLE record of the compiled step, payload and all."""
        return pack(self.loaded())

    def sensor_records(self) -> NDArray[np.void]:
        """(s,) SENSOR of the built-in sensors, in the order of the file."""
        return np.array([s.pack() for s in self.sensors if not isinstance(s, CustomSpecification)])

    def custom_sensors(self) -> tuple[CustomSpecification, ...]:
        """The user's own sensors."""
        return tuple(s for s in self.sensors if isinstance(s, CustomSpecification))

    def without_custom_sensors(self) -> Airframe:
        """The vehicle with the built-in sensors alone."""
        kept = tuple(s for s in self.sensors if not isinstance(s, CustomSpecification))
        return self.model_copy(update={"sensors": kept})


def _inertia(tensor: NDArray[np.float64], *, as_published: bool) -> Inertia:
    (xx, xy, xz), (_, yy, yz), (_, _, zz) = tensor.tolist()
    return Inertia(xx=xx, yy=yy, zz=zz, xy=xy, xz=xz, yz=yz, as_published=as_published)


def has_field(data: Any) -> Callable[[FieldPath], bool]:
    """Tells whether the schema of an airframe has a path, given data that says which kinds are meant."""
    return lambda path: isinstance(path[-1], int) or path[-1] in field_names(Airframe, data, path[:-1])


def _structural_faults(data: Any) -> list[tuple[FieldPath, str]]:
    """Sensors that clash or are missing, and an allocation that does not fit the rotors."""
    faults: list[tuple[FieldPath, str]] = []
    sensors, rotors, px4 = data.get("sensors"), data.get("rotors"), data.get("px4")
    if isinstance(sensors, list | tuple):
        seen: set[tuple[str, str]] = set()
        for i, sensor in enumerate(sensors):
            if not isinstance(sensor, dict):
                continue
            what = str(sensor.get("class") if sensor.get("kind") == "custom" else sensor.get("kind"))
            key = (what, str(sensor.get("instance", 0)))
            if key in seen:
                faults.append((("sensors", i), f"{what} {key[1]} is there already; give it another instance"))
            seen.add(key)
        if ("imu", "0") not in seen:
            faults.append((("sensors",), "needs an imu with instance 0: its samples drive the lockstep"))
    geometry = px4.get("allocation") if isinstance(px4, dict) else None
    positions = geometry.get("positions") if isinstance(geometry, dict) else None
    counts = [len(given) for given in (positions, rotors) if isinstance(given, list | tuple)]
    if len(set(counts)) > 1:
        where = ("px4", "allocation", "positions")
        faults.append((where, f"needs one entry a rotor: {counts[1]}, not {counts[0]}"))
    return faults
