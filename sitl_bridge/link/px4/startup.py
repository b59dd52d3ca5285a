"""Start-up files for PX4: parameters, links and log topics, in place of PX4's own scripts.

PX4's start script looks up ``px4-rc.simulator`` on PATH, after the airframe's defaults and before it starts
any module, in every version from v1.14 on.  A directory put first on PATH contains a file of that name, which
sets the parameters and then runs PX4's own.  For a container, the directory is mounted and put first on its
PATH::

    sitl-bridge px4-files startup --airframe iris
    docker run -v ./startup:/startup:ro -e PATH=/startup:/opt/px4/bin:/usr/bin:/bin
        -e PX4_SYS_AUTOSTART=10016 -e PX4_SIM_MODEL=none_iris -e PX4_SIMULATOR=none ...
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sitl_bridge.base.errors import UserError
from sitl_bridge.base.output_file import write_whole
from sitl_bridge.core.vehicle.control_effectiveness import Parameters
from sitl_bridge.link.hil.ports import FURTHER_OFFBOARD_PORT
from sitl_bridge.link.px4.given_parameters import Known
from sitl_bridge.link.px4.versions import not_everywhere

AIRFRAME = 10016
"""PX4's none_iris, the generic quadcopter for an external simulator; parameters make it any multirotor."""
MODEL = "none_iris"
SELECTION = {"PX4_SYS_AUTOSTART": str(AIRFRAME), "PX4_SIM_MODEL": MODEL, "PX4_SIMULATOR": "none"}
"""Environment in which PX4 starts as that airframe and waits for a simulator started by another program."""
SET_LATER = frozenset(
    {
        "EKF2_GPS_DELAY", "SENS_GPS0_DELAY", "SENS_GPS1_DELAY", "EKF2_MULTI_IMU", "SENS_IMU_MODE",
        "IMU_INTEG_RATE", "COM_MODE_ARM_CHK",
    }
)  # fmt: skip
"""PX4's own px4-rc.simulator sets other defaults for these later; explicit values are kept."""
MODULES = {"LTEST_MODE": "landing_target_estimator start"}
"""Modules that PX4 does not start by itself, by a parameter that only they have."""
WITHOUT_OWN_BATTERY = "param show -q SIM_BAT_ENABLE >/dev/null || alias battery_simulator=:"
"""Keeps PX4s without SIM_BAT_ENABLE, v1.14 and v1.18, from simulating a battery of their own as well."""
SIMULATOR_SCRIPT = Path("etc", "init.d-posix", "px4-rc.simulator")
"""PX4's script that starts the simulator link, relative to its working directory $R."""
LINKS_SCRIPT = SIMULATOR_SCRIPT.with_name("px4-rc.mavlink")
"""PX4's script that starts its MAVLink links."""
_NAME = re.compile(r"[A-Z][A-Z0-9_]{1,15}")
_INTEGERS = 1 << 31
_SET = re.compile(r"\bparam set(?:-default)?\s+(?:-s\s+)?([A-Z]\w+)")


@dataclass(frozen=True)
class Substitution:
    """A change of PX4's own script of its links."""

    line: str  # description of the changed line
    pattern: re.Pattern[str]  # the replaced text
    replacement: str  # as of ``re.sub``; that of SHARED_PORT is as of sed, too


SHARED_PORT = Substitution(
    "the offboard port shared by instances from 10 on",
    re.compile(r"^(\[ .* -gt 9 \] && udp_offboard_port_remote=)14549", re.MULTILINE),
    rf"\1$(({FURTHER_OFFBOARD_PORT}+px4_instance))",
)

LEANER = (
    # Only the monitor uses it and sets its own rates; 3000 B/s carry the positions and attitudes of a
    # formation, and make the link wake every 3.3 ms (mavlink_main.h).
    Substitution(
        "the link to a camera",
        re.compile(r"^(mavlink start .*\$udp_onboard_payload_port_local) .*(-o \S+.*)$", re.MULTILINE),
        r"\1 -r 3000 -m custom \2",
    ),
    Substitution(
        "the link to a gimbal",
        re.compile(r"^mavlink start .*\$udp_onboard_gimbal_port_local .*\n", re.MULTILINE),
        "",
    ),
    # PX4's rates for a radio link are kept.
    Substitution(
        "the 50 Hz streams to the ground station",
        re.compile(r"^mavlink stream .*\$udp_gcs_port_local.*\n", re.MULTILINE),
        "",
    ),
)
"""Changes of the links of one of several vehicles."""

SELDOM = (
    "ALTITUDE", "ATTITUDE_QUATERNION", "ATTITUDE_TARGET", "ESC_INFO", "ESC_STATUS", "HIGHRES_IMU",
    "NAV_CONTROLLER_OUTPUT", "ODOMETRY", "POSITION_TARGET_GLOBAL_INT", "POSITION_TARGET_LOCAL_NED",
    "RC_CHANNELS", "SERVO_OUTPUT_RAW_0", "TIMESYNC", "VFR_HUD", "WIND_COV",
)  # fmt: skip
"""Streams of the offboard link that PX4 sends 10 to 50 times a second to a companion computer
(mavlink_main.cpp, MAVLINK_MODE_ONBOARD); one of several vehicles sends them once a second until more are
requested."""

FOR_MONITOR = {
    "LOCAL_POSITION_NED": 5, "SYS_STATUS": 5, "EXTENDED_SYS_STATE": 5, "BATTERY_STATUS": 1,
    "ESTIMATOR_STATUS": 1, "SYSTEM_TIME": 1,
}  # fmt: skip
"""Rates in Hz of the streams to the bridge's monitor from one of several vehicles."""

LOGGED = {
    "distance_sensor": 1000,
    "actuator_motors": 100, "battery_status": 500, "estimator_innovation_test_ratios": 500,
    "estimator_states": 1000, "estimator_status": 200, "estimator_status_flags": 0, "failsafe_flags": 0,
    "home_position": 0, "offboard_control_mode": 1000, "parameter_update": 0, "position_setpoint_triplet": 0,
    "sensor_gps": 200, "trajectory_setpoint": 100, "vehicle_attitude": 100, "vehicle_attitude_setpoint": 100,
    "vehicle_command": 0, "vehicle_command_ack": 0, "vehicle_gps_position": 200, "vehicle_imu_status": 1000,
    "vehicle_land_detected": 0, "vehicle_local_position": 100, "vehicle_local_position_groundtruth": 100,
    "vehicle_local_position_setpoint": 100, "vehicle_status": 0,
    "estimator_aid_src_airspeed": 200, "estimator_aid_src_baro_hgt": 200, "estimator_aid_src_ev_hgt": 200,
    "estimator_aid_src_ev_pos": 200, "estimator_aid_src_ev_vel": 200, "estimator_aid_src_ev_yaw": 200,
    "estimator_aid_src_gnss_hgt": 200, "estimator_aid_src_gnss_pos": 200, "estimator_aid_src_gnss_vel": 200,
    "estimator_aid_src_gnss_yaw": 200, "estimator_aid_src_mag": 200, "estimator_aid_src_optical_flow": 200,
}  # fmt: skip
"""Topics logged by one of several vehicles, with their interval in ms (0: every sample): those that the
reports and a flight analysis read.  PX4's own selection in simulation supports replays of its estimator and
takes a quarter of its computing time."""

SEVERAL = ("battery_status", "distance_sensor", "estimator_", "sensor_gps", "vehicle_imu_status")
"""Beginnings of topics of which there may be several instances.  PX4's logger subscribes to ten of each of
these, and to no more than 255 in all (logged_topics.cpp, add_topics_from_file)."""

TOPICS_ALONE = {"SDLOG_PROFILE": 0}
"""No profile: from v1.18 on, PX4 adds the topics of a file to its profile, instead of logging them alone
(logged_topics.cpp, PX4 pull request 27462)."""

LOGGING = Path("init.d", "rc.logging")
"""PX4's script that starts the logger, in its etc; LOGGER_ARGS before it sets the arguments."""

LOG_RATE = 25
"""Rate at which the logger of one of several vehicles polls its topics, Hz; sufficient for LOGGED."""


def write_startup_files(
    directory: Path, parameters: Parameters, uncertain: Collection[str] = (), needless: Collection[str] = ()
) -> Path:
    """Write ``px4-rc.simulator`` and ``px4-rc.mavlink`` to a directory for the front of PX4's PATH.

    The latter is that of any build: it makes the change of SHARED_PORT in PX4's own when PX4 starts.

    Args:
        directory: created if missing; readable by every user, for containers.
        parameters: name to value, set in this order.
        uncertain: names that this PX4 may not have.
        needless: names that have their value anyway.

    Returns:
        the former.

    Raises:
        UserError: for an invalid parameter name or value, or a directory that cannot be written.
    """
    lines = ["#!/bin/sh", "# Parameters computed from the airframe, for this run."]
    needed = [(name, value) for name, value in parameters.items() if name not in needless]
    lines += [parameter_line(name, value, name in uncertain) for name, value in needed]
    if "SIM_BAT_DRAIN" not in parameters:
        lines.append(WITHOUT_OWN_BATTERY)
    lines += ["# PX4's own script of this name starts the simulator link.", f'. "${{R}}{SIMULATOR_SCRIPT}"']
    lines += [f"{_if_known(name)}{command}" for name, command in MODULES.items() if name in parameters]
    change = f"s/{SHARED_PORT.pattern.pattern}/{SHARED_PORT.replacement}/"
    links = [
        "#!/bin/sh",
        "# PX4's own script of this name, with an offboard port for each instance from 10 on.",
        f'eval "$(sed -E \'{change}\' "${{R}}{LINKS_SCRIPT}")"',
    ]
    file = directory / SIMULATOR_SCRIPT.name
    try:
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(0o755)
        write_whole(file, "\n".join(lines) + "\n").chmod(0o644)
        write_whole(directory / LINKS_SCRIPT.name, "\n".join(links) + "\n").chmod(0o644)
    except OSError as error:
        raise UserError(f"{file}: cannot be written: {error.strerror}") from error
    return file


def write_links_file(directory: Path, etc: Path, *, lean: bool = False) -> list[Substitution]:
    """Write ``px4-rc.mavlink``: PX4's own with an offboard port for each instance from 10 on.

    PX4 looks it up on PATH so that users can replace it.  Changed are only the number of the port that those
    instances share and, for one of several vehicles, unused streams that cost time.

    Args:
        directory: the one of ``write_startup_files``.
        lean: whether its links send fewer unrequested messages.

    Returns:
        the changes that do not match this PX4's script; none if there is no script.
    """
    script = etc / "init.d-posix" / LINKS_SCRIPT.name
    text = script.read_text(encoding="utf-8") if script.is_file() else ""
    if not text:
        return []
    missing = []
    for change in (SHARED_PORT, *(LEANER if lean else ())):
        text, count = change.pattern.subn(change.replacement, text)
        if not count:
            missing.append(change)
    if lean:
        streams = [(1, name, "udp_offboard_port_local") for name in SELDOM]
        streams += [(rate, name, "udp_onboard_payload_port_local") for name, rate in FOR_MONITOR.items()]
        lines = [f"mavlink stream -r {rate} -s {name} -u ${link}" for rate, name, link in streams]
        text = "\n".join([text.rstrip("\n"), *lines]) + "\n"
    write_whole(directory / script.name, text)
    return missing


def write_log_topics(directory: Path, etc: Path) -> None:
    """Configure PX4 to log only LOGGED, LOG_RATE times a second.

    PX4 reads the list from ``etc`` in its working directory if that exists (platforms/posix,
    create_symlinks_if_needed).  It is created with links to the build's files, except the script that starts
    the logger, which would wake with every sample of the estimator for replays.

    Args:
        directory: PX4's working directory.
    """
    own = directory / "etc"
    scripts = etc / LOGGING.parent
    (own / "logging").mkdir(parents=True)
    (own / LOGGING.parent).mkdir()
    places = [*etc.iterdir(), *(scripts.iterdir() if scripts.is_dir() else ())]
    for entry in places:
        link = own / entry.relative_to(etc)
        if not link.exists():
            link.symlink_to(entry.resolve())
    if (etc / LOGGING).is_file():
        (own / LOGGING).unlink()
        text = (etc / LOGGING).read_text(encoding="utf-8")
        write_whole(own / LOGGING, f'set LOGGER_ARGS "-r {LOG_RATE}"\n{text}')
    lines = [
        f"{topic} {interval}" if topic.startswith(SEVERAL) else f"{topic} {interval} 0"
        for topic, interval in LOGGED.items()
    ]
    write_whole(own / "logging" / "logger_topics.txt", "\n".join(lines) + "\n")


def unchanged_defaults(parameters: Parameters, known: Known | None, etc: Path) -> set[str]:
    """Return the parameters that have their default, which no script of PX4's changes.

    PX4's shell runs a process for each command, and a real vehicle's file has hundreds of defaults.

    Args:
        known: of the build.
        etc: its start-up files.
    """
    places = ("init.d-posix/*", "init.d/rc.*", f"init.d-posix/airframes/{AIRFRAME}_*")
    files = [file for place in places for file in etc.glob(place) if file.is_file()]
    changed = {n for file in files for n in _SET.findall(file.read_text("utf-8", errors="replace"))}
    defaults = {name: entry.get("default", math.nan) for name, entry in (known or {}).items()}
    return {
        name
        for name, value in parameters.items()
        if name not in changed and np.float32(defaults.get(name, math.nan)) == np.float32(value)
    }


def parameter_line(name: str, value: float, uncertain: bool = False) -> str:
    """Return the shell command that sets one parameter; no quoting is needed.

    A parameter that only some versions have is set only if this PX4 has it.

    Raises:
        UserError: for an invalid parameter name or value.
    """
    if not _NAME.fullmatch(name):
        raise UserError(f"{name!r} is not a PX4 parameter name: use up to 16 of A-Z, 0-9 and _")
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise UserError(f"{name}: {value!r} is not a number")
    if isinstance(value, int) and not -_INTEGERS <= value < _INTEGERS:
        raise UserError(f"{name}: {value} does not fit PX4's 32-bit integers")
    command = "set" if name in SET_LATER else "set-default"
    written = value if isinstance(value, int) else f"{value:.9g}"
    return f"{_if_known(name, uncertain)}param {command} {name} {written}"


def _if_known(name: str, uncertain: bool = False) -> str:
    """Return the shell condition that this PX4 has a parameter; empty if every version has it."""
    return f"param show -q {name} >/dev/null && " if uncertain or name in not_everywhere() else ""
