"""The flight stack's parameters: PX4's names, types, defaults and ranges where the meaning is PX4's.

Only parameters that something reads are here; other parts of the stack add theirs with ``Parameters(more)``.
Defaults are those PX4 has in simulation (its parameter files, rc.mc_defaults and init.d-posix/rcS).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sitl_bridge.base.errors import UserError

MAX_FLOAT = 3.4e38
"""The widest range a 32-bit float parameter may have."""


def _rounded(value: float) -> float:
    """The value as a 32-bit float carries it over MAVLink, so that a round trip changes nothing."""
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


@dataclass(frozen=True, slots=True)
class ParameterInfo:
    """What is known about a parameter.

    Attributes:
        name: at most 16 characters.
        default: an int makes an int32 parameter, a float a float one.
        minimum: smallest value allowed.
        maximum: greatest value allowed.
        unit: as PX4 writes it; empty for numbers without one.
        text: what it does, in a line.
    """

    name: str
    default: int | float
    minimum: float
    maximum: float
    unit: str
    text: str

    @property
    def is_integer(self) -> bool:
        """Whether it is an int32."""
        return isinstance(self.default, int)


def _table(rows: Iterable[tuple[str, int | float, float, float, str, str]]) -> tuple[ParameterInfo, ...]:
    return tuple(ParameterInfo(*row) for row in rows)


COMMANDER = _table(
    [
        ("COM_DISARM_LAND", 2.0, -1, 1000, "s", "Disarms this long after landing; off at 0 and below"),
        ("COM_DISARM_PRFLT", 10.0, -1, 1000, "s", "Disarms when not taken off this long after arming"),
        ("COM_SPOOLUP_TIME", 1.0, 0, 30, "s", "Time between arming and the first move"),
        ("COM_LKDOWN_TKO", 3.0, -1, 5, "s", "After take-off, an attitude failure disarms for this long"),
        ("COM_ARM_BAT_MIN", -1.0, -1, 0.9, "norm", "Battery level needed for arming; BAT_CRIT_THR below 0"),
        ("COM_OF_LOSS_T", 1.0, 0, 60, "s", "Offboard setpoints missing this long are lost"),
        (
            "COM_OBL_RC_ACT",
            0,
            0,
            7,
            "",
            "Offboard lost: 0 position, 1 altitude, 2 stabilized, 3 return, 4 land, 5 hold, 6, 7 disarm",
        ),
        ("COM_RC_IN_MODE", 1, 0, 4, "", "Manual control: 4 ignores the sticks, all else takes them"),
        ("COM_RC_LOSS_T", 0.5, 0, 35, "s", "Manual control missing this long is lost"),
        ("COM_RC_OVERRIDE", 1, 0, 3, "", "Sticks take over from bit 0 automatic modes, bit 1 offboard"),
        ("COM_RC_STICK_OV", 30.0, 5, 80, "%", "Stick movement that takes over"),
        ("COM_RCL_EXCEPT", 0, 0, 31, "", "Manual control loss ignored in bit 0 mission, 1 hold, 2 offboard"),
        ("NAV_RCL_ACT", 2, 1, 6, "", "Manual control lost: 1 hold, 2 return, 3 land, 5 terminate, 6 disarm"),
        ("COM_DL_LOSS_T", 10, 5, 300, "s", "A ground station silent this long is lost"),
        (
            "NAV_DLL_ACT",
            0,
            0,
            6,
            "",
            "Ground station lost: 0 nothing, 1 hold, 2 return, 3 land, 5, 6 as above",
        ),
        ("COM_FAIL_ACT_T", 5.0, 0, 25, "s", "Hold this long before a failsafe acts"),
        (
            "COM_LOW_BAT_ACT",
            3,
            0,
            3,
            "",
            "Critical battery: 0 warn, 2 land, 3 return, land at emergency level",
        ),
        ("BAT_LOW_THR", 0.15, 0.12, 0.5, "norm", "Battery level that is low"),
        ("BAT_CRIT_THR", 0.07, 0.05, 0.5, "norm", "Battery level that is critical"),
        ("BAT_EMERGEN_THR", 0.05, 0.03, 0.5, "norm", "Battery level that is an emergency"),
        ("COM_POSCTL_NAVL", 0, 0, 1, "", "Position lost in Position mode: 0 altitude mode, 1 land"),
        (
            "COM_POS_FS_EPH",
            5.0,
            -1,
            400,
            "m",
            "Horizontal position error above which the estimate is invalid",
        ),
        (
            "COM_VEL_FS_EVH",
            1.0,
            0,
            100,
            "m/s",
            "Horizontal velocity error above which the estimate is invalid",
        ),
        ("COM_FLT_TIME_MAX", -1, -1, 1000000, "s", "Returns after this flight time; off below 0"),
        ("COM_ACT_FAIL_ACT", 0, 0, 4, "", "Motor failed: 0 warn, 1 hold, 2 land, 3 return, 4 terminate"),
        ("FD_FAIL_R", 60, 0, 180, "deg", "Roll that counts as attitude failure; 0 is off"),
        ("FD_FAIL_P", 60, 0, 180, "deg", "Pitch that counts as attitude failure; 0 is off"),
        ("FD_FAIL_R_TTRI", 0.3, 0.02, 5, "s", "Time roll must exceed FD_FAIL_R"),
        ("FD_FAIL_P_TTRI", 0.3, 0.02, 5, "s", "Time pitch must exceed FD_FAIL_P"),
        ("CBRK_FLIGHTTERM", 121212, 0, 121212, "", "121212: an attitude failure in flight only warns"),
        ("SYS_FAILURE_EN", 1, 0, 1, "", "Takes MAV_CMD_INJECT_FAILURE"),
    ]
)

NAVIGATOR = _table(
    [
        ("MIS_TAKEOFF_ALT", 2.5, 0, 10000, "m", "Height of a take-off that names none"),
        ("MIS_DIST_1WP", 10000.0, -1, 100000, "m", "Warns when the first waypoint is farther from home"),
        ("MIS_YAW_ERR", 12.0, 0, 90, "deg", "Heading error at which a waypoint's heading is reached"),
        ("MIS_YAW_TMT", -1.0, -1, 20, "s", "Above 0, waypoints do not wait for their heading"),
        ("NAV_ACC_RAD", 2.0, 0.05, 200, "m", "Distance at which a waypoint is reached"),
        ("NAV_LOITER_RAD", 80.0, 25, 1000, "m", "Distance at which LOITER_TO_ALT begins to change height"),
        ("NAV_MC_ALT_RAD", 0.8, 0.05, 200, "m", "Height error at which a waypoint is reached"),
        (
            "RTL_TYPE",
            0,
            0,
            3,
            "",
            "Return to 0 nearest of home and rally points, 1, 3 also mission landings, 2 by it",
        ),
        ("RTL_RETURN_ALT", 30.0, 0, 10000, "m", "Height above the destination to return at"),
        ("RTL_DESCEND_ALT", 10.0, 0, 10000, "m", "Height above the destination to wait at"),
        ("RTL_LAND_DELAY", 0.0, -1, 10000, "s", "Wait before landing; -1 does not land"),
        ("RTL_MIN_DIST", 10.0, 0.5, 10000, "m", "Within this distance of the destination the cone counts"),
        ("RTL_CONE_ANG", 45, 0, 90, "deg", "Half angle of the cone that limits the return height"),
        ("PLD_BTOUT", 5.0, 0, 50, "s", "A landing marker not seen for this long is lost"),
        ("PLD_HACC_RAD", 0.2, 0, 10, "m", "Within this distance of a marker it descends"),
        ("PLD_FAPPR_ALT", 0.1, 0, 10, "m", "Height below which it lands though the marker is lost"),
        ("PLD_SRCH_ALT", 10.0, 0, 100, "m", "Height above the origin from which it looks for the marker"),
        ("PLD_SRCH_TOUT", 10.0, 0, 100, "s", "Looks for the marker for this long; 0 does not"),
        ("PLD_MAX_SRCH", 3, 0, 100, "", "Starts again this often where the marker is lost"),
        ("LTEST_ACC_UNC", 10.0, 0.01, MAX_FLOAT, "(m/s^2)^2", "Variance of the marker's acceleration"),
        ("LTEST_MEAS_UNC", 0.005, 0, MAX_FLOAT, "tan(rad)^2", "Variance of the marker's angles"),
        ("LTEST_POS_UNC_IN", 0.1, 0.001, MAX_FLOAT, "m^2", "Variance of the marker's place at first"),
        ("LTEST_VEL_UNC_IN", 0.1, 0.001, MAX_FLOAT, "(m/s)^2", "Variance of the marker's velocity at first"),
        ("LTEST_SCALE_X", 1.0, 0.01, MAX_FLOAT, "", "Scale of the marker's angle forward"),
        ("LTEST_SCALE_Y", 1.0, 0.01, MAX_FLOAT, "", "Scale of the marker's angle to the right"),
        ("LTEST_SENS_ROT", 2, 0, 7, "", "Yaw of the marker detector in eighths of a turn"),
        ("LTEST_SENS_POS_X", 0.0, -MAX_FLOAT, MAX_FLOAT, "m", "Place of the marker detector, forward"),
        ("LTEST_SENS_POS_Y", 0.0, -MAX_FLOAT, MAX_FLOAT, "m", "Place of the marker detector, right"),
        ("LTEST_SENS_POS_Z", 0.0, -MAX_FLOAT, MAX_FLOAT, "m", "Place of the marker detector, down"),
        ("GF_ACTION", 2, 0, 5, "", "Fence broken: 0 nothing, 1 warn, 2 hold, 3 return, 4 terminate, 5 land"),
        ("GF_MAX_HOR_DIST", 0.0, 0, 10000, "m", "Greatest distance from home; 0 is off"),
        ("GF_MAX_VER_DIST", 0.0, 0, 10000, "m", "Greatest height above home; 0 is off"),
    ]
)

FLIGHT = _table(
    [
        ("MPC_XY_CRUISE", 5.0, 3, 20, "m/s", "Horizontal speed of missions, returns, gotos"),
        ("MPC_XY_VEL_MAX", 12.0, 0, 20, "m/s", "Greatest horizontal speed"),
        ("MPC_VEL_MANUAL", 10.0, 3, 20, "m/s", "Horizontal speed of a full stick"),
        ("MPC_ACC_HOR", 3.0, 2, 15, "m/s^2", "Horizontal acceleration"),
        ("MPC_ACC_UP_MAX", 4.0, 2, 15, "m/s^2", "Greatest acceleration upwards"),
        ("MPC_ACC_DOWN_MAX", 3.0, 2, 15, "m/s^2", "Greatest acceleration downwards"),
        ("MPC_Z_VEL_MAX_UP", 3.0, 0.5, 8, "m/s", "Greatest climb"),
        ("MPC_Z_VEL_MAX_DN", 1.5, 0.5, 4, "m/s", "Greatest descent"),
        ("MPC_Z_V_AUTO_UP", 3.0, 0.5, 8, "m/s", "Climb in automatic modes"),
        ("MPC_Z_V_AUTO_DN", 1.5, 0.5, 4, "m/s", "Descent in automatic modes"),
        ("MPC_JERK_AUTO", 4.0, 1, 80, "m/s^3", "Jerk of automatic modes"),
        ("MPC_JERK_MAX", 8.0, 0.5, 500, "m/s^3", "Jerk of manual modes"),
        ("MPC_XY_TRAJ_P", 0.5, 0.1, 1, "", "Share of the acceleration used in turns"),
        ("MPC_XY_ERR_MAX", 2.0, 0.1, 10, "m", "Position error at which the trajectory waits for the vehicle"),
        ("MPC_TKO_SPEED", 1.5, 1, 5, "m/s", "Climb of a take-off"),
        ("MPC_TKO_RAMP_T", 3.0, 0, 5, "s", "Time in which thrust is built up at take-off"),
        ("MPC_LAND_SPEED", 0.7, 0.6, 5, "m/s", "Descent near the ground"),
        ("MPC_LAND_CRWL", 0.3, 0.1, 5, "m/s", "Descent below MPC_LAND_ALT3 with a range finder"),
        ("MPC_LAND_ALT1", 10.0, 0, 122, "m", "Height at which a landing begins to slow down"),
        ("MPC_LAND_ALT2", 5.0, 0, 122, "m", "Height below which it descends with MPC_LAND_SPEED"),
        ("MPC_LAND_ALT3", 1.0, 0, 122, "m", "Height below which it descends with MPC_LAND_CRWL"),
        ("MPC_TILTMAX_AIR", 45.0, 20, 89, "deg", "Greatest tilt in the air"),
        ("MPC_TILTMAX_LND", 12.0, 5, 89, "deg", "Greatest tilt near the ground"),
        ("MPC_THR_HOVER", 0.5, 0.1, 0.8, "norm", "Thrust that hovers"),
        ("MPC_THR_MIN", 0.12, 0.05, 0.5, "norm", "Least thrust where the climb is controlled"),
        ("MPC_THR_MAX", 1.0, 0, 1, "norm", "Greatest thrust a stick asks for"),
        ("MPC_MANTHR_MIN", 0.08, 0, 1, "norm", "Thrust of the lowest throttle in Stabilized"),
        ("MPC_MAN_TILT_MAX", 35.0, 1, 70, "deg", "Tilt of a full stick"),
        ("MPC_MAN_Y_MAX", 150.0, 0, 400, "deg/s", "Yaw rate of a full stick"),
        ("MPC_ALT_MODE", 2, 0, 2, "", "Sticks hold: 0 altitude, 1 height over terrain, 2 that at rest"),
        ("MPC_POS_MODE", 4, 0, 4, "", "Sticks in Position: 0 direct velocity, else smoothed"),
        ("MPC_HOLD_MAX_XY", 0.8, 0, 3, "m/s", "Speed below which MPC_ALT_MODE 2 holds over terrain"),
        ("MPC_HOLD_DZ", 0.1, 0, 1, "", "Dead zone of the sticks"),
        ("MPC_XY_MAN_EXPO", 0.6, 0, 1, "", "Curve of the roll and pitch sticks in Position"),
        ("MPC_Z_MAN_EXPO", 0.6, 0, 1, "", "Curve of the throttle stick in Altitude and Position"),
        ("MPC_YAW_EXPO", 0.6, 0, 1, "", "Curve of the yaw stick"),
        ("MPC_YAWRAUTO_MAX", 45.0, 5, 360, "deg/s", "Greatest yaw rate in automatic modes"),
        ("MPC_YAWRAUTO_ACC", 60.0, 5, 360, "deg/s^2", "Greatest yaw acceleration in automatic modes"),
        ("EKF2_EV_CTRL", 0, 0, 7, "", "Odometry fused: 1 horizontal position, 2 height, 4 velocity"),
        ("CP_DIST", -1.0, -1, 15, "m", "Distance kept from obstacles in Position mode; off below 0"),
        ("CP_DELAY", 0.4, 0, 1, "s", "Delay of the obstacle distances and of the position control"),
        ("CP_GUIDE_ANG", 30.0, 0, 90, "deg", "Greatest turn of the stick's direction towards free space"),
        ("CP_GO_NO_DATA", 0, 0, 1, "", "Flies also where no sensor has ever looked"),
        ("MC_ORBIT_RAD_MAX", 1000.0, 1, 10000, "m", "Greatest radius of an orbit"),
        ("FLW_TGT_HT", 8.0, 8, MAX_FLOAT, "m", "Height over the target, or over home"),
        ("FLW_TGT_DST", 8.0, 1, MAX_FLOAT, "m", "Distance from the target"),
        (
            "FLW_TGT_FA",
            180.0,
            -180,
            180,
            "",
            "Angle from the target's course to the vehicle in deg, clockwise",
        ),
        (
            "FLW_TGT_ALT_M",
            0,
            0,
            2,
            "",
            "Height: 0 over home, 1 over the terrain (as 0 here), 2 over the target",
        ),
        ("FLW_TGT_MAX_VEL", 5.0, 0, 20, "m/s", "Greatest speed around the target"),
        ("FLW_TGT_RS", 0.1, 0, 1, "", "Filter of the target: lower values follow faster"),
        ("MC_ACRO_R_MAX", 100.0, 0, 1800, "deg/s", "Roll rate of a full stick in Acro"),
        ("MC_ACRO_P_MAX", 100.0, 0, 1800, "deg/s", "Pitch rate of a full stick in Acro"),
        ("MC_ACRO_Y_MAX", 100.0, 0, 1800, "deg/s", "Yaw rate of a full stick in Acro"),
        ("LNDMC_TRIG_TIME", 1.0, 0.1, 10, "s", "Time of the three stages of landing"),
        ("LNDMC_Z_VEL_MAX", 0.25, 0, 10, "m/s", "Vertical speed that is still none"),
        ("LNDMC_XY_VEL_MAX", 1.5, 0, 100, "m/s", "Horizontal speed that is still none"),
        ("LNDMC_ROT_MAX", 20.0, 0, 1000, "deg/s", "Rotation that is still none"),
    ]
)

BUILT_IN = COMMANDER + NAVIGATOR + FLIGHT

LACKS = {
    "EKF2_": ": its estimator takes the sensors' settings from the airframe",
    "LTEST_MODE": ": its markers stand",
}
"""Why PX4's parameters that begin like this are missing."""


class Parameters:
    """The parameters of one vehicle.

    Args:
        more: of other parts of the stack; a name that is here already replaces it.

    Attributes:
        values: the value of each by name, for reading in hot code; set through :meth:`set` only.
        infos: what is known of each, in the order of their index over MAVLink (sorted by name, as PX4).
        version: counts the changes.
    """

    def __init__(self, more: Iterable[ParameterInfo] = ()) -> None:
        merged = {info.name: info for info in (*BUILT_IN, *more)}
        self.infos: dict[str, ParameterInfo] = dict(sorted(merged.items()))
        self.values: dict[str, float] = {name: self._default(info) for name, info in self.infos.items()}
        self.version = 0

    @staticmethod
    def _default(info: ParameterInfo) -> float:
        return info.default if info.is_integer else _rounded(info.default)

    def __iter__(self) -> Iterator[str]:
        return iter(self.infos)

    def __len__(self) -> int:
        return len(self.infos)

    def __contains__(self, name: object) -> bool:
        return name in self.infos

    def get(self, name: str) -> int | float:
        """The value of a parameter: an int of an int32 parameter, a float of a float one.

        Raises:
            UserError: when there is no such parameter.
        """
        self._info(name)
        return self.values[name]

    def set(self, name: str, value: float) -> int | float:
        """Set a parameter and return what it now is (a float one rounded to 32 bits).

        Raises:
            UserError: when there is no such parameter, or the value is outside its range or not whole for an
                int32; nothing is changed then.
        """
        info = self._info(name)
        unit = f" {info.unit}" if info.unit else ""
        if not math.isfinite(value) or not info.minimum <= value <= info.maximum:
            raise UserError(
                f"parameter {name}: {value:g} is not within {info.minimum:g} to {info.maximum:g}{unit}"
            )
        if info.is_integer and value != int(value):
            raise UserError(f"parameter {name}: {value:g} is not a whole number")
        new = int(value) if info.is_integer else _rounded(value)
        if new != self.values[name]:
            self.values[name] = new
            self.version += 1
        return new

    def reset(self, name: str) -> None:
        """Set a parameter to its default.

        Raises:
            UserError: when there is no such parameter.
        """
        self.set(name, self._info(name).default)

    def _info(self, name: str) -> ParameterInfo:
        info = self.infos.get(name)
        if info is None:
            lack = next((what for start, what in LACKS.items() if name.startswith(start)), "")
            raise UserError(f"the built-in flight stack has no parameter {name}{lack}")
        return info
