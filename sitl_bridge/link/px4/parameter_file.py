"""Reads the parameters of a vehicle from a text file, as ground stations and PX4's shell write them.

Lines of QGroundControl (``.params``: vehicle, component, name, value, type), of MAVProxy and Mission Planner
(``.parm``: name, value), of PX4's ``param show``, and commands ``param set`` and ``param set-default``.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

from sitl_bridge.base.errors import ConfigurationError, shorten
from sitl_bridge.base.input_file import read_bytes
from sitl_bridge.core.vehicle.control_effectiveness import Parameters
from sitl_bridge.link.mavlink import common as mavlink

MAX_FILE_BYTES = 2_000_000
"""Twenty times the files of real vehicles: 1,300 parameters in 50 kB."""
MOST_FAULTS = 5
"""Unreadable lines that are reported; the others are counted."""
AUTOPILOT = ("0", "1")
"""Component ids of the autopilot (MAV_COMP_ID_AUTOPILOT1, and 0 in files of scripts); a file may have a
camera's or a gimbal's parameters as well."""
_LINE = re.compile(
    r"(?:\d+\s+(?P<component>\d{1,3})\s+|param\s+set(?:-default)?\s+(?:-s\s+)?|x?\s*[+*]?\s+)?"
    r"(?P<name>[A-Za-z_][\w.\-]*)(?:\s*\[\d+,\d+\]\s*:\s*|\s*[,=]\s*|\s+)"
    r"(?P<value>[-+.0-9A-Za-z]+)(?:\s+(?P<type>\d{1,2}))?\s*(?:[#@].*)?",
    re.ASCII,
)
_HEADING = re.compile(r"#|$|Symbols:|\d+/?\d* parameters|_HASH_CHECK|.*\s_HASH_CHECK\s")
"""Lines without a parameter: comments, and what PX4 and ground stations write around the list."""
_OTHER_STACK = re.compile(r"#\s*Stack:\s*(?!PX4)(\S.*)", re.IGNORECASE)
_BOARD = re.compile(
    # Calibration and choice of sensors, drivers and buses
    r"CAL_.*|TC_.*|SENS_.*|GPS_\d.*|GPS_(SAT_INFO|UBX|YAW|DUMP).*|HEATER.*|IMU_(INTEG_RATE|GYRO_RATEMAX)"
    r"|(INA|ADIS|MPU|ICM|BMI|BMM|PCF|PMW|SF|TF|VN|ILABS|MS_)\w*|UAVCAN_.*|CANNODE_.*|CYPHAL_.*|UCAN\d?_.*"
    # Measuring the battery; its cells and capacity are the vehicle's
    r"|BAT\d?_(A_PER_V|V_DIV|V_CHANNEL|I_CHANNEL|V_OFFS_CURR|I_OVERWRITE|I_FILT|SOURCE|CNT_V_\w+|ADC_CHANNEL)"
    # Outputs, radio, serial ports, links and logs
    r"|PWM_.*|DSHOT_.*|HIL_ACT_.*|TIM_.*|MOT_(ORDERING|POLE_COUNT)|VERTIQ_.*|SEP_.*|CAM_CAP_FBACK|RC\d*_.*|RC\d+|RC_.*|COM_RC_IN_MODE|COM_FLTMODE\d"
    r"|SER_.*|TEL_.*|USB_.*|MAV_.*|UXRCE_DDS_.*|NET_.*|MODEM_.*|LIGHT_.*|OSD_.*|MSP_.*|SDLOG_.*|LOG_.*"
    # The computer, its state and its history
    r"|SYS_(AUTOSTART|AUTOCONFIG|HITL|BL_UPDATE|CAL_\w+|FAC_CAL\w*|HAS_\w+|HW_\w+|PARAM_VER|USB_AUTO|DM_\w+"
    r"|STCK_EN|RGB_MAXBRT|RESTART_TYPE)|COM_(CPU|RAM)_MAX|COM_MODE_ARM_CHK|COM_FLIGHT_UUID|LND_FLIGHT_T_\w+|COM_ARM_SDCARD"
    r"|.*_(ID|CFG|CONFIG)"
)


def read_parameter_file(path: Path) -> Parameters:
    """Return the autopilot's parameters in a file, by name; the last line of a name counts.

    Integers are ints where the file states types, and where a value has no point.

    Raises:
        ConfigurationError: for a file that cannot be read, is another stack's or holds no parameters, and
            with the lines that are none.
    """
    content = read_bytes(path, MAX_FILE_BYTES)
    if b"\0" in content:
        message = (
            "is PX4's binary file; save the parameters as text, with QGroundControl (Tools > Save to file)"
        )
        raise ConfigurationError(str(path), [message])
    found: Parameters = {}
    faults = []
    # Names and values are ASCII; QGroundControl writes its comments in the computer's own encoding.
    for number, line in enumerate(content.decode("utf-8-sig", "replace").splitlines(), 1):
        other = _OTHER_STACK.match(line)
        if other:
            raise ConfigurationError(
                str(path), [f"line {number}: parameters of {other[1].strip()}, not of PX4"]
            )
        if _HEADING.match(line.strip()):
            continue
        row = _LINE.fullmatch(line.strip())
        try:
            value = float(row["value"]) if row else math.nan
        except ValueError:
            row = None
        if row is None:
            faults.append(f"line {number}: {shorten(line.strip(), 60)!r} is no parameter: write NAME VALUE")
        elif row["component"] in (None, *AUTOPILOT):
            found[row["name"]] = _parse_value(row["value"], value, row["type"])
    if not found and not faults:
        faults.append("holds no parameters")
    if len(faults) > MOST_FAULTS:
        faults[MOST_FAULTS:] = [f"and {len(faults) - MOST_FAULTS} more lines"]
    if faults:
        raise ConfigurationError(str(path), faults)
    return found


def _parse_value(text: str, value: float, kind: str | None) -> int | float:
    """Return a value as an int if its MAV_PARAM_TYPE says so, or without one its text."""
    whole = math.isfinite(value) and value == int(value)
    integer = text.lstrip("+-").isdigit() if kind is None else int(kind) < mavlink.MAV_PARAM_TYPE_REAL32
    return int(value) if whole and integer else value


def is_of_board(name: str) -> bool:
    """Whether a parameter belongs to a vehicle's board, wiring, radio and history, not to its flight.

    A simulated vehicle has sensors, outputs and links of its own.
    """
    return _BOARD.fullmatch(name) is not None
