"""Differences between PX4 versions: tested versions and renamed parameters.

Every version from v1.14 on reads parameters from ``px4-rc.simulator`` on PATH (startup.py).  A build's own
list gives the parameters that it has, and the read-back gives those that PX4 has set (read_back.py).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # else missions, which read the names of parameters, load the compiler and SciPy
    from sitl_bridge.core.vehicle.control_effectiveness import Parameters

PARAMETER_INTERVAL = 1.2
"""s of the vehicle's time after which a changed parameter is in effect.  PX4's modules read changed
parameters at most once a second (``_parameter_update_sub`` in src/modules/navigator/navigator.h)."""

FLOWN = (
    "v1.14.4", "v1.15.4", "main of February 2025", "v1.16.0", "main of March 2026", "v1.17.0-rc2",
    "v1.18.0-alpha1", "main of July 2026",
)  # fmt: skip
"""PX4 versions flown by the tests with real PX4."""

OLDEST, NEWEST = (1, 14), (1, 18)
"""Major and minor number of the oldest and the newest version in FLOWN; main of July 2026 reports v1.18."""

RENAMED: dict[str, tuple[str, ...]] = {
    "EKF2_GPS_DELAY": ("SENS_GPS0_DELAY", "SENS_GPS1_DELAY"),
    "EKF2_GPS_POS_X": ("SENS_GPS0_OFFX", "SENS_GPS1_OFFX"),
    "EKF2_GPS_POS_Y": ("SENS_GPS0_OFFY", "SENS_GPS1_OFFY"),
    "EKF2_GPS_POS_Z": ("SENS_GPS0_OFFZ", "SENS_GPS1_OFFZ"),
}
"""Old name to the new ones with the same meaning and unit (PX4 v1.18 has one set per receiver instead of one
for all; sensors/vehicle_gps_position/VehicleGPSPosition.cpp)."""

_CURRENT = "MOTFAIL_C2T is the expected current at full thrust, MOTFAIL_OFF the accepted difference"
_OVERRIDE = "MAN_OVERRIDE_SPD is the speed of the sticks that overrides, a negative one disables it"
_MARKER = "VTE_* configure the vision target estimator, which replaced the landing target estimator"
REPLACED: dict[str, str] = {
    "ASPD_FALLBACK_GW": "ASPD_FALLBACK selects what replaces a failed airspeed sensor",
    "COM_KILL_DISARM": "PX4 disarms after 5 s",
    "COM_LKDOWN_TKO": "PX4 checks for 3 s",
    "COM_OBC_LOSS_T": "a companion computer is lost after 5 s",
    "COM_RC_OVERRIDE": _OVERRIDE,
    "COM_RC_STICK_OV": _OVERRIDE,
    "COM_TAKEOFF_ACT": "a take-off ends in Hold",
    "FD_ACT_HIGH_OFF": _CURRENT,
    "FD_ACT_LOW_OFF": _CURRENT,
    "FD_ACT_MOT_C2T": _CURRENT,
    "FD_ACT_MOT_THR": _CURRENT,
    "FD_ACT_MOT_TOUT": "MOTFAIL_TIME is the time in s",
    "FD_ESCS_EN": "COM_ARM_CHK_ESCS enables the check",
    "FW_AT_START": "a MAVLink command starts the autotune (MAV_CMD_DO_AUTOTUNE_ENABLE)",
    "MC_AT_START": "a MAVLink command starts the autotune (MAV_CMD_DO_AUTOTUNE_ENABLE)",
    "MNT_RANGE_PITCH": "MNT_MIN_PITCH and MNT_MAX_PITCH limit the pitch",
    "MPC_USE_HTE": "PX4 always uses its estimate of the hover thrust",
    "MPC_HOLD_DZ": "MAN_DEADZONE is the deadzone of all sticks",
    "SIM_ARSPD_FAIL": "inject a failure of the airspeed sensor (MAV_CMD_INJECT_FAILURE)",
    "SIM_BAT_ENABLE": "PX4 simulates a battery if SIM_BAT_DRAIN is above 0",
    **{f"EKF2_AGP_{name}": f"EKF2_AGP0_{name}, with the sensor's id in EKF2_AGP0_ID"
       for name in ("CTRL", "DELAY", "GATE", "MODE", "NOISE")},
    **{f"LTEST_{name}": _MARKER
       for name in ("ACC_UNC", "MEAS_UNC", "MODE", "POS_UNC_IN", "SCALE_X", "SCALE_Y", "SENS_POS_X",
                    "SENS_POS_Y", "SENS_POS_Z", "SENS_ROT", "VEL_UNC_IN")},
    **dict.fromkeys((f"RC{channel}_DZ" for channel in range(1, 19)), "MAN_DEADZONE is that of all sticks"),
    **dict.fromkeys(
        ("ASPD_BETA_GATE", "ASPD_BETA_NOISE", "ASPD_SCALE_NSD", "ASPD_TAS_GATE", "COM_ARM_SDCARD",
         "COM_DISARM_MAN", "COM_FLT_PROFILE", "COM_HLDL_REG_T", "COM_IMB_PROP_ACT", "COM_MOT_TEST_EN",
         "COM_POSCTL_NAVL", "COM_RC_ARM_HYST", "EKF2_RNG_A_IGATE", "FW_AT_SYSID_AMP", "FW_T_SPD_DEV_STD",
         "FW_T_SPD_PRC_STD", "FW_T_SPD_STD", "GF_PREDICT", "GND_L1_DAMPING", "GND_L1_DIST", "GND_L1_PERIOD",
         "GND_MAN_Y_MAX", "GND_MAX_ANG", "GND_SPEED_D", "GND_SPEED_I", "GND_SPEED_IMAX", "GND_SPEED_MAX",
         "GND_SPEED_P", "GND_SPEED_THR_SC", "GND_SPEED_TRIM", "GND_SP_CTRL_MODE", "GND_THR_CRUISE",
         "GND_THR_MAX", "GND_THR_MIN", "GND_WHEEL_BASE", "LNDMC_TRIG_TIME", "MNT_OFF_PITCH", "MNT_OFF_ROLL",
         "MNT_OFF_YAW", "MPC_XY_MAN_EXPO", "MPC_YAW_EXPO", "MPC_Z_MAN_EXPO", "NPFG_EN_MIN_GSP",
         "NPFG_GSP_MAX_TK", "NPFG_TRACK_KEEP", "NPFG_WIND_REG", "RD_MAX_THR_YAW_R", "RD_MISS_SPD_GAIN",
         "RM_MAX_THR_YAW_R", "RM_MISS_SPD_GAIN", "RWTO_HDG", "RWTO_NPFG_PERIOD", "SDLOG_ALGORITHM",
         "SDLOG_EXCH_KEY", "SDLOG_KEY", "UUV_DIRCT_PITCH", "UUV_DIRCT_ROLL", "UUV_DIRCT_THRUST",
         "UUV_DIRCT_YAW", "UUV_INPUT_MODE", "UUV_SKIP_CTRL"),
        "",
    ),
}  # fmt: skip
"""Names of v1.16 and v1.17 that a later PX4 removed, and what there is instead; empty for nothing.

Found by comparing the builds' lists of parameters; reasons in docs/en/releases/1.18.md and in the history of
the files that defined them."""

NEW = ("MOTFAIL_C2T", "MOTFAIL_IDLE", "MOTFAIL_OFF", "MPC_YAWRAUTO_ACC", "SYS_HAS_NUM_ASPD")
"""Names that only newer versions have and for which no older name stands, of the parameters that are set: the
last two from v1.15 on."""

_TAG = re.compile(r"v(\d+)\.(\d+)\.(\d+)")


def release(version: str) -> tuple[int, int] | None:
    """Return major and minor number of a version's tag; None if it has none.

    A build from a checkout without tags reports v0.0.0 (PX4's src/lib/version/px_update_git_header.py).
    """
    found = _TAG.match(version)
    return (int(found[1]), int(found[2])) if found and found[0] != "v0.0.0" else None


def warning(version: str) -> str:
    """Return a sentence about a version that is not tested; empty for tested ones.

    Args:
        version: as reported by the build, ``v1.16.0`` or ``v1.17.0-alpha1-12-g0123456``.
    """
    flown = f"sitl-bridge is tested with {FLOWN[0]} to {FLOWN[-1]}"
    number = release(version)
    if number is None:
        return f"this PX4 does not report its version (was it built without git tags?); {flown}"
    if number < OLDEST:
        return f"PX4 {version} is older than any that sitl-bridge supports; {flown}"
    if number > NEWEST:
        return f"PX4 {version} is newer than this sitl-bridge; {flown}"
    return ""


def named_for(parameters: Parameters, known: Collection[str] | None) -> Parameters:
    """Return the parameters by the names that a build has.

    Args:
        parameters: by their old or new names.
        known: names of the build's own list; None if it has none: then renamed parameters are given by both
            names, of which PX4 uses the one it has.
    """
    older = {new: old for old, names in RENAMED.items() for new in names}
    found: Parameters = {}
    for name, value in parameters.items():
        if known is None:
            found |= dict.fromkeys((name, *RENAMED.get(name, ())), value)
        elif name not in known and any(new in known for new in RENAMED.get(name, ())):
            found |= {new: value for new in RENAMED[name] if new in known}
        elif name not in known and older.get(name) in known:
            found[older[name]] = value
        else:
            found[name] = value
    return found


def not_everywhere() -> frozenset[str]:
    """Return the names of this module: those that some versions have and others do not."""
    return frozenset((*RENAMED, *REPLACED, *NEW)).union(*RENAMED.values())


def hint(name: str) -> str:
    """Return a hint about a name that newer PX4 versions removed; empty for others."""
    if name not in REPLACED:
        return ""
    return f"; it was removed: {REPLACED[name]}" if REPLACED[name] else "; it was removed"
