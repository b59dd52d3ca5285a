"""Airframe files: the schema, and the records of the compiled step that follow from it.

Body axes FRD (forward, right, down) from the centre of gravity.  Figures of sources in FLU or ENU are
converted once, in the file.
"""

from __future__ import annotations

import math
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, model_validator

from sitl_bridge.config.yaml_file import load, validate
from sitl_bridge.dynamics.layout import (
    MAX_CONTACT_POINTS,
    MAX_ROTORS,
    MOTOR_DC,
    MOTOR_FIRST_ORDER,
    OCV_POINTS,
    TABLE_ADVANCE_RATIOS,
    TABLE_SPEEDS,
    VEHICLE,
)
from sitl_bridge.errors import UserError
from sitl_bridge.sensors.custom import CustomSpecification
from sitl_bridge.sensors.layout import MAX_SENSORS
from sitl_bridge.sensors.registry import SensorUnion

STRICT = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
Positive = Annotated[float, Field(gt=0.0)]
NonNegative = Annotated[float, Field(ge=0.0)]
Vector = tuple[float, float, float]
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
    xy: float = 0.0
    xz: float = 0.0
    yz: float = 0.0

    def matrix(self) -> NDArray[np.float64]:
        """(3, 3)."""
        return np.array(
            [[self.xx, self.xy, self.xz], [self.xy, self.yy, self.yz], [self.xz, self.yz, self.zz]]
        )

    @model_validator(mode="after")
    def _physical(self) -> Inertia:
        if np.linalg.eigvalsh(self.matrix())[0] <= 0.0:
            raise ValueError("an inertia tensor must be positive definite")
        return self

    def of_a_body(self) -> bool:
        """False where a principal moment exceeds the sum of the other two, which no body's can.

        Published tensors do (RotorS's firefly and neo11), so it is told by ``check``, not refused.
        """
        principal = np.linalg.eigvalsh(self.matrix())
        return bool(principal[0] + principal[1] >= principal[2] * (1.0 - 1e-9))


class PropellerTable(BaseModel):
    """Measured coefficients of a propeller over its speed and its advance ratio."""

    model_config = STRICT

    diameter: Positive = Field(description="m")
    speeds: tuple[Positive, ...] = Field(description="rad/s, rising", min_length=1, max_length=TABLE_SPEEDS)
    advance_ratios: tuple[float, ...] = Field(
        (0.0,), description="J = v/(n D), rising", min_length=1, max_length=TABLE_ADVANCE_RATIOS
    )
    thrust: tuple[tuple[float, ...], ...] = Field(description="C_T, one row a speed")
    power: tuple[tuple[float, ...], ...] = Field(description="C_P, one row a speed")

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
    thrust_c1: float = Field(0.0, description="N s")
    thrust_b1: float = Field(0.0, description="N s^2/m")
    thrust_b2: float = Field(0.0, description="N s^2/m^2")
    inflow_loss_speed: Positive | None = Field(None, description="m/s")
    torque_thrust_ratio: NonNegative = Field(0.0, description="m, torque over thrust")
    torque_g1: float = Field(0.0, description="N m s")
    torque_constant: float = Field(0.0, description="N m")
    drag: NonNegative = Field(0.0, description="kg, in-plane drag over speed and velocity")
    rolling_moment: NonNegative = Field(0.0, description="kg m")
    reference_density: Positive = Field(1.225, description="kg/m^3 at which the coefficients hold")
    table: PropellerTable | None = None

    @model_validator(mode="after")
    def _lifts(self) -> RotorModel:
        if self.table is None and self.thrust_c2 == 0.0 and self.thrust_c1 <= 0.0:
            raise ValueError("a rotor needs thrust_c2, thrust_c1 or a table")
        return self


class Rotor(BaseModel):
    """Where a rotor sits.  The order of the list is that of PX4's motors."""

    model_config = STRICT

    position: Vector = Field(description="m, hub, FRD from the centre of gravity")
    direction: Literal["ccw", "cw"] = Field(description="seen from above")
    axis: Vector = Field(UP, description="direction of thrust; normalised")

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
    alpha: float = Field(description="A, alpha_m of the released code")
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


class AllocationGeometry(BaseModel):
    """Rotor geometry for PX4's control allocation where it is not the physical one."""

    model_config = STRICT

    positions: tuple[tuple[float, float], ...] = Field(description="m, x, y of each rotor")
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
    mass: Positive = Field(description="kg, everything")
    inertia: Inertia
    rotor_model: RotorModel
    rotors: tuple[Rotor, ...] = Field(min_length=1, max_length=MAX_ROTORS)
    motor: Annotated[FirstOrderMotor | DcMotor, Field(discriminator="kind")]
    battery: Battery
    drag: Drag = Drag()
    ground_effect: bool = True
    contact: Contact
    sensors: tuple[SensorUnion, ...] = Field(max_length=MAX_SENSORS)
    px4: Px4Section = Px4Section()

    _source: str = PrivateAttr("")

    @model_validator(mode="after")
    def _complete(self) -> Airframe:
        missing = [
            path for path in figure_paths(self.model_dump(exclude_defaults=True)) if not self.source(path)
        ]
        if missing:
            raise ValueError(
                "no source is given for "
                + ", ".join(missing[:8])
                + (" and more" if len(missing) > 8 else "")
                + "; add it under `sources`, as `derived: how` where there is none"
            )
        keys = [(s.name if isinstance(s, CustomSpecification) else s.kind, s.instance) for s in self.sensors]
        twice = sorted({f"{kind} {instance}" for kind, instance in keys if keys.count((kind, instance)) > 1})
        if twice:
            raise ValueError(f"two sensors are the same instance: {', '.join(twice)}")
        if ("imu", 0) not in keys:
            raise ValueError("an airframe needs an imu with instance 0: its samples drive the lockstep")
        geometry = self.px4.allocation
        if geometry is not None and len(geometry.positions) != len(self.rotors):
            raise ValueError("px4.allocation.positions needs one entry a rotor")
        return self

    def source(self, path: str) -> str:
        """Source of a figure; the longest entry of ``sources`` that its path begins with."""
        best = ""
        for key in self.sources:
            if (path == key or path.startswith((key + ".", key + "["))) and len(key) > len(best):
                best = key
        return self.sources.get(best, "")

    @cached_property
    def record(self) -> Any:
        """VEHICLE as a single record, as compiled functions and ``performance`` take it from Python."""
        return self.vehicle()[()]

    def vehicle(self) -> NDArray[np.void]:
        """() VEHICLE record of the compiled step."""
        v = np.zeros((), VEHICLE)
        inertia = self.inertia.matrix()
        v["mass"] = self.mass
        v["inertia"] = inertia
        v["inertia_inverse"] = np.linalg.inv(inertia)
        self._pack_rotors(v)
        self._pack_motor(v)
        v["drag_force"], v["drag_moment"] = self.drag.force, self.drag.moment
        v["drag_density"] = self.drag.reference_density
        v["ground_effect"] = 1.0 if self.ground_effect else 0.0
        points = np.array(self.contact.points)
        v["contact_count"] = len(points)
        v["contact_point"][: len(points)] = points
        v["contact_radius"] = np.linalg.norm(points, axis=1).max()
        v["contact_stiffness"] = self.contact.stiffness
        v["contact_damping"] = self.contact.damping
        v["contact_friction"] = self.contact.friction
        b = self.battery
        v["battery_capacity"] = math.inf if b.capacity is None else b.capacity * 3600.0
        v["battery_cells"] = b.cells
        v["battery_resistance"] = b.resistance
        v["battery_ocv"] = b.cell_voltage
        v["battery_nominal_voltage"] = b.nominal_voltage
        v["battery_idle_current"] = b.idle_current
        return v

    def _pack_rotors(self, v: NDArray[np.void]) -> None:
        model = self.rotor_model
        v["rotor_count"] = len(self.rotors)
        v["inflow_loss_speed"] = math.inf
        v["rotor_density"] = 1.225
        for k, rotor in enumerate(self.rotors):
            axis = np.array(rotor.axis)
            v["rotor_position"][k] = rotor.position
            v["rotor_axis"][k] = axis / np.linalg.norm(axis)
            v["rotor_direction"][k] = 1.0 if rotor.direction == "ccw" else -1.0
            v["rotor_radius"][k] = model.radius
            v["rotor_inertia"][k] = self.motor.inertia if isinstance(self.motor, DcMotor) else model.inertia
            v["thrust_c2"][k], v["thrust_c1"][k] = model.thrust_c2, model.thrust_c1
            v["thrust_b1"][k], v["thrust_b2"][k] = model.thrust_b1, model.thrust_b2
            if model.inflow_loss_speed is not None:
                v["inflow_loss_speed"][k] = model.inflow_loss_speed
            v["torque_thrust_ratio"][k] = model.torque_thrust_ratio
            v["torque_g1"][k], v["torque_constant"][k] = model.torque_g1, model.torque_constant
            v["rotor_drag"][k], v["rolling_moment"][k] = model.drag, model.rolling_moment
            v["rotor_density"][k] = model.reference_density
        if model.table is not None:
            t = model.table
            rows, columns = len(t.speeds), len(t.advance_ratios)
            v["table_speed_count"], v["table_advance_count"] = rows, columns
            v["table_diameter"] = t.diameter
            v["table_speed"][:rows] = t.speeds
            v["table_advance"][:columns] = t.advance_ratios
            v["table_ct"][:rows, :columns] = t.thrust
            v["table_cp"][:rows, :columns] = t.power

    def _pack_motor(self, v: NDArray[np.void]) -> None:
        motor = self.motor
        if isinstance(motor, DcMotor):
            v["motor_kind"] = MOTOR_DC
            v["dc_flux"], v["dc_resistance"], v["dc_inertia"] = motor.flux, motor.resistance, motor.inertia
            v["dc_alpha"], v["dc_beta"] = motor.alpha, motor.beta
            # Unused by DC motors, but divisors of the first-order law.
            v["motor_tau_up"] = v["motor_tau_down"] = v["motor_efficiency"] = 1.0
            return
        v["motor_kind"] = MOTOR_FIRST_ORDER
        v["motor_tau_up"], v["motor_tau_down"] = motor.time_constant_up, motor.time_constant_down
        v["motor_speed_idle"], v["motor_speed_range"] = motor.idle_speed, motor.speed_range
        v["motor_reversible"] = int(motor.reversible)
        v["motor_efficiency"] = motor.efficiency

    def sensor_records(self) -> NDArray[np.void]:
        """(s,) SENSOR of the built-in sensors, in the order of the file."""
        return np.array([s.pack() for s in self.sensors if not isinstance(s, CustomSpecification)])

    def custom_sensors(self) -> tuple[CustomSpecification, ...]:
        """The user's own sensors."""
        return tuple(s for s in self.sensors if isinstance(s, CustomSpecification))


_NOT_FIGURES = {"name", "description", "sources", "px4", "ground_effect"}
_NOT_SENSOR_FIGURES = {"kind", "instance"}


def figure_paths(data: dict[str, Any]) -> list[str]:
    """Paths of all numeric figures of a dumped airframe that need a source, e.g. ``rotor_model.radius``."""
    found: list[str] = []

    def walk(value: Any, path: str) -> None:
        if isinstance(value, dict):
            for key, child in value.items():
                if key not in _NOT_SENSOR_FIGURES:
                    walk(child, f"{path}.{key}" if path else key)
        elif isinstance(value, list | tuple):
            if path == "sensors":
                for sensor in value:
                    # A user's own sensor answers for its figures in its own file.
                    if sensor["kind"] != "custom":
                        walk(sensor, f"sensors.{sensor['kind']}")
            elif any(isinstance(child, dict) for child in value):
                for i, child in enumerate(value):
                    walk(child, f"{path}[{i}]")
            else:
                found.append(path)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found.append(path)

    walk({key: value for key, value in data.items() if key not in _NOT_FIGURES}, "")
    return list(dict.fromkeys(found))


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
    if direct.suffix in (".yaml", ".yml") or direct.is_file():
        if direct.is_file():
            return direct
        raise UserError(f"{name}: no such airframe file")
    names: set[str] = set()
    for directory in airframe_directories():
        candidate = directory / f"{name}.yaml"
        if candidate.is_file():
            return candidate
        names.update(path.stem for path in directory.glob("*.yaml"))
    raise UserError(f"no airframe is called {name!r}; there are {', '.join(sorted(names)) or 'none'}")


def load_airframe(name: str | Path) -> Airframe:
    """Read and validate an airframe by path or bare name.

    Raises:
        ConfigurationError: with every fault of the file, its line and path.
        UserError: when there is no such airframe.
    """
    path = find_airframe(str(name))
    data, lines = load(path)
    airframe = validate(Airframe, data, lines, str(path))
    placed = tuple(
        sensor.model_copy(update={"file": path.parent / sensor.file})
        if isinstance(sensor, CustomSpecification)
        else sensor
        for sensor in airframe.sensors
    )
    return airframe.model_copy(update={"sensors": placed})
