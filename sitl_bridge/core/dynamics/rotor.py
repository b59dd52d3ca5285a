"""Rotors: the airframe file's section, the built-in laws, and what stays the same over a step.

A law gives thrust, torque and in-plane loads from rotor speed and inflow.  motor.py computes the rotor
speed, forces.py sums the loads on the body with the ground effect, and rotor_laws.py selects the law.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Literal, TypeAlias

import numpy as np
from pydantic import BaseModel, Field, model_validator

from sitl_bridge.base.arrays import Floats, Records
from sitl_bridge.base.field_paths import FieldPath
from sitl_bridge.base.kernels.array_at import array_at
from sitl_bridge.base.kernels.compiled import compiled, on_demand
from sitl_bridge.base.quantities import STRICT, Mounting, NonNegative, Number, Positive, Vector
from sitl_bridge.core.dynamics.induced_flow import (
    STALL_ANGLE,
    prepare_flow,
    static_figures,
    with_reverse_loss,
)
from sitl_bridge.core.dynamics.records import (
    INDUCED_LAW,
    POLYNOMIAL_LAW,
    PROPELLER_TABLE,
    TABLE_ADVANCE_RATIOS,
    TABLE_LAW,
    TABLE_SPEEDS,
    PropellerTableRecord,
    Scratch,
    State,
    Vehicle,
)

_TURN = 2.0 * math.pi

Loads: TypeAlias = tuple[float, float, float, float]
"""Thrust, torque, in-plane force and hub moment, as of ``rotor_loads``."""


@compiled
def _interval(table: Floats, count: int, value: float) -> int:
    """Return the interval of an increasing table (``count`` >= 2) with ``value``, or the nearest one."""
    low = 0
    high = count - 1
    while high - low > 1:
        middle = (low + high) // 2
        if table[middle] <= value:
            low = middle
        else:
            high = middle
    return low


@compiled
def _row_coefficients(table: PropellerTableRecord, row: int, advance: float) -> tuple[float, float]:
    """Return C_T and C_P of one speed of the table, linear in the advance ratio.

    They are extrapolated, because thrust falls through zero, but by no more than the row's length.
    """
    count = table.advance_count[row]
    ct, cp = table.ct[row], table.cp[row]
    if count == 1:
        return ct[0], cp[0]
    axis = table.advance[row]
    first, last = axis[0], axis[count - 1]
    advance = min(max(advance, first - (last - first)), last + (last - first))
    j = _interval(axis, count, advance)
    b = (advance - axis[j]) / (axis[j + 1] - axis[j])
    return (1.0 - b) * ct[j] + b * ct[j + 1], (1.0 - b) * cp[j] + b * cp[j + 1]


@compiled
def table_coefficients(table: PropellerTableRecord, speed: float, advance: float) -> tuple[float, float]:
    """Return C_T and C_P of a propeller table, linear in rotor speed and advance ratio.

    Outside the speed axis the coefficients are constant (they depend weakly on the Reynolds number).  C_P is
    never below zero: a windmilling propeller does not drive the motor.

    Args:
        speed: rad/s, >= 0.
        advance: J = v/(n D).
    """
    i = i1 = 0
    a = 0.0
    if table.speed_count > 1:
        i = _interval(table.speed, table.speed_count, speed)
        i1 = i + 1
        low = table.speed[i]
        a = min(max((speed - low) / (table.speed[i1] - low), 0.0), 1.0)
    thrust0, power0 = _row_coefficients(table, i, advance)
    thrust1, power1 = _row_coefficients(table, i1, advance)
    return (1.0 - a) * thrust0 + a * thrust1, max((1.0 - a) * power0 + a * power1, 0.0)


@compiled
def polynomial_thrust_and_torque(
    c2: float,
    c1: float,
    b1: float,
    b2: float,
    loss_rate: float,
    k_m: float,
    g1: float,
    q0: float,
    speed: float,
    inflow: float,
    ratio: float,
) -> tuple[float, float]:
    """Return thrust and torque by the polynomial law; for its sources see ``polynomial_loads``.

    T = (c2 w|w| + c1 w + b1 v |w| + sgn(v) b2 v^2)(1 - |v|/v_loss) rho/rho_0, Q = k_M T + g1 |w| rho/rho_0 +
    q0 against the rotation, never below zero.

    Args:
        c2, c1: N s^2 and N s.
        b1, b2: N s^2/m and N s^2/m^2.
        loss_rate: s/m, 1/v_loss.
        k_m, g1, q0: m, N m s and N m.
        speed, inflow: rad/s and m/s.
        ratio: density of the air over the reference density of the coefficients.
    """
    magnitude = abs(speed)
    thrust = (c2 * magnitude + c1) * speed + (b1 * magnitude + b2 * abs(inflow)) * inflow
    thrust *= ratio * max(0.0, 1.0 - abs(inflow) * loss_rate)
    sign = 1.0 if speed > 0.0 else -1.0
    torque = max(k_m * thrust * sign + g1 * magnitude * ratio + q0, 0.0)
    return thrust, (sign * torque if magnitude > 0.0 else 0.0)


@compiled
def in_plane_rates(vehicle: Vehicle, k: int, speed: float, density: float) -> tuple[float, float]:
    """Return in-plane drag in N s/m and rolling moment in N s, over the hub's in-plane velocity.

    F = -|w| lambda v_perp and M = -|w| mu v_perp, proportional to the density.
    """
    ratio = density / vehicle.rotor_density[k]
    magnitude = abs(speed)
    return vehicle.rotor_drag[k] * magnitude * ratio, vehicle.rolling_moment[k] * magnitude * ratio


@compiled
def polynomial_loads(
    vehicle: Vehicle, k: int, speed: float, inflow: float, _in_plane: float, density: float
) -> Loads:
    """Return the loads of a rotor by the polynomial law, as ``rotor_loads``.

    The thrust of ``polynomial_thrust_and_torque`` covers hector eq. 7 (c2 = C_T0, b1 = C_T1, b2 = -C_T2 with
    the sign as released in hector_quadrotor), AirRobot eq. 13 (c2, c1), RotorS eq. 1 (c2) and the axial loss
    of PX4's Gazebo motor model (v_loss), its torque hector's M_m = k_T T + k_m w, AirRobot eq. 14 and RotorS
    eq. 4.  Reverse rotation is the mirror image, T(-w, v) = -T(w, -v), less ``reverse_loss``.
    """
    thrust, torque = polynomial_thrust_and_torque(
        vehicle.thrust_c2[k],
        vehicle.thrust_c1[k],
        vehicle.thrust_b1[k],
        vehicle.thrust_b2[k],
        1.0 / vehicle.inflow_loss_speed[k],
        vehicle.torque_thrust_ratio[k],
        vehicle.torque_g1[k],
        vehicle.torque_constant[k],
        speed,
        inflow,
        density / vehicle.rotor_density[k],
    )
    thrust, torque = with_reverse_loss(vehicle, speed, thrust, torque)
    drag, roll = in_plane_rates(vehicle, k, speed, density)
    return thrust, torque, drag, roll


@on_demand
def table_loads(
    vehicle: Vehicle, k: int, speed: float, inflow: float, _in_plane: float, density: float
) -> Loads:
    """Return the loads of a rotor with a propeller table, as ``rotor_loads``.

    T = C_T rho n^2 D^4 and Q = C_P rho n^2 D^5/(2 pi) with n in revolutions per second and the advance ratio
    v/(n D), the convention of the UIUC propeller data base.
    """
    drag, roll = in_plane_rates(vehicle, k, speed, density)
    if speed == 0.0:
        return 0.0, 0.0, drag, roll
    sign, magnitude = -1.0 if speed < 0.0 else 1.0, abs(speed)
    table = array_at(vehicle.table[k], 1, PROPELLER_TABLE)[0]
    diameter, turns = table.diameter, magnitude / _TURN
    ct, cp = table_coefficients(table, magnitude, sign * inflow / (turns * diameter))
    force = density * turns * turns * diameter**4
    loss = max(0.0, 1.0 - abs(inflow) / vehicle.inflow_loss_speed[k])
    torque = cp * force * diameter / _TURN + vehicle.torque_constant[k]
    thrust, torque = with_reverse_loss(vehicle, speed, sign * ct * force * loss, sign * torque)
    return thrust, torque, drag, roll


GROUND_EFFECT_REACH = 16.0
"""Height in rotor radii above which the ground effect is neglected (below 0.03 %), and four times that
of a quadrotor's."""
UP: Vector = (0.0, 0.0, -1.0)
CHORD = 0.168
"""Chord over radius of the APC Slow Flyer 10x4.7, its mean weighted by the radius (UIUC data base)."""
REVERSE_THRUST = 0.4
"""Of an ordinary propeller: the default of PX4's CA_REV_THR_FRAC, from measurements (pull request 28078)."""
PLATE_DRAG = 1.2
"""Drag coefficient of a plate across the flow, five times as long as wide (S. F. Hoerner, Fluid-Dynamic Drag,
1965, chapter 3): the blades of a rotor that stands."""
USUAL_TIP_SPEED = 60.0
"""m/s, in a hover; the figure of merit is computed there."""
LIFT_SLOPE = 5.0
"""1/rad.  With it the static figures and the geometry of that propeller give its thrust coefficient over the
advance ratio within 0.002 up to 0.45 and 0.008 up to 0.75 (UIUC data base, 6512 and 6020 rpm)."""


Ratios: TypeAlias = Annotated[tuple[Number, ...], Field(min_length=1, max_length=TABLE_ADVANCE_RATIOS)]
_COEFFICIENTS = ("thrust_c2", "thrust_c1", "thrust_b1", "thrust_b2", "inflow_loss_speed")
_TORQUES = ("torque_thrust_ratio", "torque_g1", "torque_constant")
_SAME_DIAMETER = 0.02
"""Largest relative difference of a table's diameter to twice the radius, for nominal inches."""


class PropellerTable(BaseModel):
    """Measured coefficients of a propeller over its speed and its advance ratio."""

    model_config = STRICT

    diameter: Positive = Field(description="m")
    speeds: tuple[Positive, ...] | None = Field(
        None, description="rad/s, rising; or give rpm", min_length=1, max_length=TABLE_SPEEDS
    )
    rpm: tuple[Positive, ...] | None = Field(
        None, description="1/min, rising; or give speeds", min_length=1, max_length=TABLE_SPEEDS
    )
    advance_ratios: Ratios | tuple[Ratios, ...] = Field(
        (0.0,), description="J = v/(n D), rising: one row for all speeds, or one row per speed", min_length=1
    )
    thrust: tuple[Ratios, ...] = Field(description="C_T, one row per speed")
    power: tuple[Ratios, ...] = Field(description="C_P, one row per speed")

    @property
    def rotor_speeds(self) -> tuple[float, ...]:
        """Speeds of the rows in rad/s."""
        if self.speeds is not None:
            return self.speeds
        return tuple(speed * 2.0 * math.pi / 60.0 for speed in self.rpm or ())

    @property
    def rows(self) -> tuple[tuple[float, ...], ...]:
        """Advance ratios of each speed."""
        if isinstance(self.advance_ratios[0], tuple):
            return self.advance_ratios
        return (self.advance_ratios,) * len(self.rotor_speeds)

    @model_validator(mode="after")
    def _has_every_row(self) -> PropellerTable:
        if (self.speeds is None) == (self.rpm is None):
            raise ValueError("a table needs either speeds (rad/s) or rpm (1/min)")
        speeds, rows = self.rotor_speeds, self.rows
        if len(rows) != len(speeds):
            raise ValueError(f"advance_ratios has {len(rows)} rows for {len(speeds)} speeds")
        for name in ("thrust", "power"):
            given = getattr(self, name)
            if len(given) != len(speeds):
                raise ValueError(f"{name} has {len(given)} rows for {len(speeds)} speeds")
            for i, (row, ratios) in enumerate(zip(given, rows, strict=True)):
                if len(row) != len(ratios):
                    raise ValueError(
                        f"{name}, row {i + 1}: {len(row)} values for {len(ratios)} advance ratios"
                    )
        if any(np.diff(speeds) <= 0.0) or any((np.diff(row) <= 0.0).any() for row in rows):
            raise ValueError("speeds and advance_ratios must increase")
        return self

    def fits(self, radius: float) -> bool:
        """Whether the diameter is twice a radius in m, within the tolerance of nominal inches."""
        return abs(self.diameter - 2.0 * radius) <= _SAME_DIAMETER * self.diameter

    def address(self) -> int:
        """Address of the table as a PROPELLER_TABLE, which lives as long as the process."""
        if self not in _tables:
            table = _tables[self] = np.zeros(1, PROPELLER_TABLE)
            record, speeds = table[0], self.rotor_speeds
            record["diameter"], record["speed_count"] = self.diameter, len(speeds)
            record["speed"][: len(speeds)] = speeds
            for i, ratios in enumerate(self.rows):
                record["advance_count"][i] = len(ratios)
                for name, values in (("advance", ratios), ("ct", self.thrust[i]), ("cp", self.power[i])):
                    record[name][i, : len(ratios)] = values
            ADDRESSES.add(table.ctypes.data)
        return int(_tables[self].ctypes.data)


_tables: dict[PropellerTable, Records] = {}
"""Tables by content, kept because records hold their addresses."""
ADDRESSES = {0}
"""Of this process's tables and users' laws, which records hold."""


def check_addresses(vehicle: Records) -> None:
    """Reject a VEHICLE record with a propeller table's or a rotor law's address of another process.

    Raises:
        ValueError: for such a record.
    """
    if not ADDRESSES.issuperset([*vehicle["table"].tolist(), int(vehicle["rotor_law_address"])]):
        raise ValueError(
            "a record with a propeller table or a custom rotor law is valid only in its own process; pack it"
            " again"
        )


class RotorModel(BaseModel):
    """Fields of every rotor, for any law."""

    model_config = STRICT

    radius: Positive = Field(description="m")
    inertia: Positive = Field(description="kg m^2 about its spin axis, including the motor's bell")
    reference_density: Positive = Field(1.225, description="kg/m^3, reference density of the coefficients")

    @property
    def limits_speed(self) -> bool:
        """Whether thrust falls with the flow through the rotor, so that a top speed follows."""
        return True

    @property
    def propeller_table(self) -> PropellerTable | None:
        """Measured table of the propeller, if that is the rotor's law."""
        return None

    def effects(self) -> tuple[list[str], list[str]]:
        """Effects of moving air that the model has, and those that it lacks."""
        return ["those of the user's own law"], []

    def pack(self, vehicle: Records, k: int) -> None:
        """Write the parameters of rotor ``k`` of a () VEHICLE record."""
        vehicle["rotor_radius"][k], vehicle["rotor_inertia"][k] = self.radius, self.inertia
        vehicle["rotor_density"][k] = self.reference_density

    def pack_shared(self, vehicle: Records) -> None:
        """Write the law and the shared parameters of all rotors of a () VEHICLE record."""
        raise NotImplementedError


class CoefficientRotor(RotorModel):
    """A rotor with coefficients or a table.

    T = (c2 w^2 + c1 w + b1 v w + sgn(v) b2 v^2)(1 - |v|/v_loss).  With ``inflow: momentum``, c2, c1 and the
    torque's coefficients hold in still air, and blade elements with the flow they induce give the rest.
    """

    kind: Literal["coefficients"] = Field("coefficients", exclude=True)
    propeller: str | None = Field(
        None,
        description="diameter x pitch in inches, `10x4.5`, of a measured size: gives radius, thrust_c2 and"
        " torque_thrust_ratio in an airframe file, where the file does not",
    )
    thrust_c2: NonNegative = Field(0.0, description="N s^2")
    thrust_c1: Number = Field(0.0, description="N s")
    thrust_b1: Number = Field(0.0, description="N s^2/m")
    thrust_b2: Number = Field(0.0, description="N s^2/m^2")
    inflow_loss_speed: Positive | None = Field(None, description="m/s")
    torque_thrust_ratio: NonNegative = Field(0.0, description="m, torque over thrust")
    torque_g1: Number = Field(0.0, description="N m s")
    torque_constant: Number = Field(0.0, description="N m")
    drag: NonNegative | None = Field(
        None, description="kg, in-plane drag over speed and velocity; in place of the blades' with inflow"
    )
    rolling_moment: NonNegative | None = Field(
        None, description="kg m, hub moment over speed and velocity; in place of the blades' with inflow"
    )
    rolling_moment_released: bool = Field(
        False,
        description="true: rolling_moment acts to the same side whatever the rotation, as in RotorS's"
        " released code; false: to the retreating side, so that opposite rotors cancel",
    )
    inflow: Literal["none", "momentum"] = Field(
        "none",
        description="momentum: moving air acts by blade elements and induced flow; none: by the coefficients",
    )
    blades: int = Field(2, description="number of blades, for inflow", ge=1, le=12)
    chord: Positive | None = Field(
        None, description="m, blade chord, its mean weighted by the radius, for inflow; 0.168 of the radius"
    )
    lift_slope: Positive = Field(LIFT_SLOPE, description="1/rad, of the blade sections, for inflow")
    uneven_inflow: bool = Field(
        False, description="hub pitching moment by the uneven inflow of forward flight, for inflow"
    )
    reverse_thrust: float = Field(
        REVERSE_THRUST,
        description="thrust backwards over thrust forwards at the same speed, with reversible motors; 1 for a"
        " symmetric propeller",
        ge=0.0,
        le=1.0,
    )
    table: PropellerTable | None = None

    @model_validator(mode="after")
    def _table_alone(self) -> CoefficientRotor:
        if self.table is None:
            return self
        for name in (*_COEFFICIENTS, *_TORQUES):
            if getattr(self, name):
                raise ValueError(
                    f"the table gives thrust and torque: leave {name} or the table out; table: null removes"
                    " that of a base"
                )
        if not self.table.fits(self.radius):
            raise ValueError(
                f"the table is of a diameter of {self.table.diameter:g} m, the rotor of "
                f"{2.0 * self.radius:g} m: correct radius or table.diameter"
            )
        return self

    @model_validator(mode="after")
    def _has_inflow(self) -> CoefficientRotor:
        if self.uneven_inflow and self.inflow != "momentum":
            raise ValueError("uneven_inflow needs inflow: momentum")
        if self.rolling_moment_released and not self.rolling_moment:
            raise ValueError("rolling_moment_released needs a rolling_moment")
        return self

    @model_validator(mode="after")
    def _lifts(self) -> CoefficientRotor:
        if self.table is None and self.thrust_c2 == 0.0 and self.thrust_c1 <= 0.0:
            raise ValueError("a rotor needs thrust_c2, thrust_c1 or a table")
        if self.inflow == "momentum":
            for name in ("table", "inflow_loss_speed"):
                if getattr(self, name) is not None:
                    raise ValueError(
                        f"{name} describes the effect of the inflow, too: leave it or inflow out;"
                        f" {name}: null removes that of a base"
                    )
            if self.thrust_b1 != 0.0 or self.thrust_b2 != 0.0:
                raise ValueError(
                    "thrust_b1 and thrust_b2 describe the effect of the inflow, too: leave them or inflow out"
                )
            needed = 6.0 * self.thrust_c2 / (self.reference_density * self._blade_chords() * self.radius**3)
            if needed > self.lift_slope * STALL_ANGLE:
                raise ValueError(
                    f"the static thrust needs a mean lift coefficient of {needed:.2f}, more than "
                    f"{self.lift_slope * STALL_ANGLE:.2g}: check radius, blades, chord and thrust_c2"
                )
            self._refuse_too_little_torque()
        return self

    def _refuse_too_little_torque(self) -> None:
        """Refuse a static torque below T v_h/w, that of a rotor without profile drag (momentum theory)."""
        if self.thrust_c1 != 0.0 or self.torque_g1 != 0.0:
            return
        least = math.sqrt(self.thrust_c2 / (2.0 * self.reference_density * math.pi)) / self.radius
        if self.torque_thrust_ratio < least:
            raise ValueError(
                f"torque_thrust_ratio: {self.torque_thrust_ratio:g} m is less than the {least:.4f} m of an"
                " ideal rotor with this radius and thrust_c2: correct one of the three"
            )

    def _blade_chords(self) -> float:
        """Return the sum of the blades' chords in m."""
        return self.blades * (CHORD * self.radius if self.chord is None else self.chord)

    @property
    def propeller_table(self) -> PropellerTable | None:
        """Measured table of the propeller, if that is the rotor's law."""
        return self.table

    @property
    def limits_speed(self) -> bool:
        """Whether thrust falls with the flow through the rotor, so that a top speed follows."""
        axial = self.table is not None and max(len(row) for row in self.table.rows) > 1
        return (
            axial
            or self.inflow == "momentum"
            or self.inflow_loss_speed is not None
            or self.thrust_b1 != 0.0
            or self.thrust_b2 != 0.0
        )

    def effects(self) -> tuple[list[str], list[str]]:
        """Effects of moving air that the model has, and those that it lacks."""
        momentum = self.inflow == "momentum"
        having = {
            "thrust in climb and descent": self.limits_speed,
            "translational lift": momentum,
            "in-plane force": momentum or bool(self.drag),
            "hub moment of the advancing blade": momentum or bool(self.rolling_moment),
            "lag of the induced flow": momentum,
            "vortex ring state": momentum,
            "stall of the blades": momentum,
            "hub pitching moment of the uneven inflow": self.uneven_inflow,
            "flapping": False,
        }
        return [name for name, has in having.items() if has], [n for n, has in having.items() if not has]

    def pack(self, vehicle: Records, k: int) -> None:
        """Write the coefficients of rotor ``k`` of a () VEHICLE record."""
        super().pack(vehicle, k)
        vehicle["thrust_c2"][k], vehicle["thrust_c1"][k] = self.thrust_c2, self.thrust_c1
        vehicle["thrust_b1"][k], vehicle["thrust_b2"][k] = self.thrust_b1, self.thrust_b2
        if self.inflow_loss_speed is not None:
            vehicle["inflow_loss_speed"][k] = self.inflow_loss_speed
        vehicle["torque_thrust_ratio"][k] = self.torque_thrust_ratio
        vehicle["torque_g1"][k], vehicle["torque_constant"][k] = self.torque_g1, self.torque_constant
        vehicle["rotor_drag"][k] = self.drag or 0.0
        side = 1.0 if self.rolling_moment_released else vehicle["rotor_direction"][k]
        vehicle["rolling_moment"][k] = side * (self.rolling_moment or 0.0)
        vehicle["drag_share"][k] = self.drag is None
        vehicle["roll_share"][k] = self.rolling_moment is None
        vehicle["blade_slope"][k] = self.lift_slope * self._blade_chords()
        vehicle["blade_area"][k] = self.radius * self._blade_chords()
        vehicle["table"][k] = 0 if self.table is None else self.table.address()

    def _figure_of_merit(self) -> float:
        """Return ideal over real power of the static rotor, at most 1."""
        if self.table is not None:
            thrust, power = self.table.thrust[-1][0], self.table.power[-1][0]
            ideal = math.sqrt(2.0 / math.pi) * max(thrust, 0.0) ** 1.5
        else:
            speed = USUAL_TIP_SPEED / self.radius
            lift, torque = static_figures(
                self.thrust_c2, self.thrust_c1, self.torque_thrust_ratio, self.torque_g1, speed, 1.0
            )
            ideal = lift * math.sqrt(lift / (2.0 * self.reference_density * math.pi)) / self.radius
            power = torque * speed
        return min(ideal / power, 1.0) if power > 0.0 else 1.0

    def pack_shared(self, vehicle: Records) -> None:
        """Write of a () VEHICLE record the law and the loss in reverse.

        Reversed sections keep their profile drag, and the induced power falls with T^(3/2), so that the share
        lost of the torque is M (1 - f^(3/2)) with the figure of merit M and the share f of the thrust.
        """
        untabled = INDUCED_LAW if self.inflow == "momentum" else POLYNOMIAL_LAW
        vehicle["rotor_law"] = untabled if self.table is None else TABLE_LAW
        share = self.reverse_thrust
        vehicle["reverse_loss"] = (1.0 - share, self._figure_of_merit() * (1.0 - share**1.5))
        vehicle["uneven_inflow"] = self.uneven_inflow


class RotorChange(BaseModel):
    """Parameters of one rotor that differ from the shared model; the fields are CoefficientRotor's."""

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
    table: PropellerTable | None = None


class Rotor(BaseModel):
    """Position and direction of a rotor.  The list has PX4's motor order: the first is motor 1."""

    model_config = STRICT

    position: Mounting = Field(description="m, hub, FRD from the centre of gravity")
    direction: Literal["ccw", "cw"] = Field(description="seen from above")
    axis: Vector = Field(UP, description="direction of thrust; normalised")
    model: RotorChange = Field(RotorChange(), description="differences from rotor_model")

    @model_validator(mode="after")
    def _has_axis(self) -> Rotor:
        if np.linalg.norm(self.axis) < 1e-6:
            raise ValueError("axis must not be zero")
        return self

    def pack(self, vehicle: Records, k: int) -> None:
        """Write the geometry of rotor ``k`` of a () VEHICLE record."""
        axis = np.array(self.axis)
        vehicle["rotor_position"][k] = self.position
        vehicle["rotor_axis"][k] = axis / np.linalg.norm(axis)
        vehicle["rotor_direction"][k] = 1.0 if self.direction == "ccw" else -1.0

    def combine_with(self, shared: RotorModel) -> RotorModel:
        """Return the shared model with this rotor's differences."""
        given = {name: getattr(self.model, name) for name in self.model.model_fields_set}
        return shared.model_copy(update={name: value for name, value in given.items() if value is not None})


def table_faults(rotors: Sequence[Rotor], shared: RotorModel) -> list[tuple[FieldPath, str]]:
    """Faults of the rotors' own propeller tables, with their paths in an airframe."""
    faults: list[tuple[FieldPath, str]] = []
    if shared.propeller_table is None:
        return [
            (("rotors", i, "model", "table"), "needs a table in rotor_model, too, in place of coefficients")
            for i, rotor in enumerate(rotors)
            if rotor.model.table is not None
        ]
    for i, rotor in enumerate(rotors):
        path = ("rotors", i, "model")
        own = rotor.combine_with(shared)
        for name in (*_COEFFICIENTS, *_TORQUES):
            if getattr(rotor.model, name):
                faults.append(((*path, name), f"the table gives thrust and torque: leave {name} out"))
        table = own.propeller_table
        if table is not None and not table.fits(own.radius):
            message = (
                f"the table is of a diameter of {table.diameter:g} m, the rotor of {2.0 * own.radius:g} m"
            )
            faults.append((path, message))
    return faults


@compiled
def prepare_rotors(vehicle: Vehicle, state: State, rows: Scratch, density: float) -> None:
    """Write what stays the same for a step: the rotors' health, the air, and what belongs to induced flow.

    Args:
        rows: written.
        density: kg/m^3 of the air over the step.
    """
    n = vehicle.rotor_count
    # Apart from the loop below, which compiles to vector instructions.
    reach = 0.0
    for k in range(n):
        far = GROUND_EFFECT_REACH * vehicle.rotor_radius[k] * (1.0 if vehicle.rotor_spacing <= 0.0 else 4.0)
        reach = max(reach, far - vehicle.rotor_position[k, 2])
    rows.ground_reach = reach
    for k in range(n):
        health = state.rotor_health[k]
        health = health if health > 0.0 else 1.0 - state.rotor_broken[k]
        rows.health[k] = health
        rows.drag[k] = vehicle.rotor_drag[k] * health
        rows.roll[k] = vehicle.rolling_moment[k] * health
        rows.plate[k] = 0.5 * density * PLATE_DRAG * vehicle.blade_area[k] * health
        rows.density_rate[k] = 1.0 / vehicle.rotor_density[k]
    if vehicle.rotor_law != INDUCED_LAW:
        for k in range(n):
            rows.loss_rate[k] = 1.0 / vehicle.inflow_loss_speed[k]
        return
    for k in range(n):
        health = rows.health[k]
        rows.flow_rate[k] = 0.0
        rows.drag_share[k] = vehicle.drag_share[k] * health
        rows.roll_share[k] = vehicle.roll_share[k] * health
    rolling = 0.0
    for k in range(n):
        rolling += rows.roll_share[k]
    rows.rolling = rolling
    prepare_flow(vehicle, rows, density)
