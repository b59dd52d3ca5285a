"""An airframe's figures from PX4's own description of a vehicle: an airframe script, or saved parameters.

PX4 knows the rotors' places and directions (CA_ROTOR*), the thrust curve (THR_MDL_FAC), the thrust in hover
(MPC_THR_HOVER), the battery's cells and the gains; not the mass, the propellers or the motors.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

from sitl_bridge.base.errors import UserError, did_you_mean, shortened
from sitl_bridge.base.input_file import is_file, read_text
from sitl_bridge.core.dynamics.rotor import UP
from sitl_bridge.core.vehicle.control_effectiveness import Parameters
from sitl_bridge.lab.importing.figures import Figures
from sitl_bridge.lab.importing.gazebo_vehicle import give_speeds
from sitl_bridge.link.px4.find import candidates
from sitl_bridge.link.px4.parameter_file import is_of_board, read_parameter_file

MAX_BYTES = 200_000
SCRIPTS = (
    "ROMFS/px4fmu_common/init.d-posix/airframes",
    "ROMFS/px4fmu_common/init.d/airframes",
    "etc/init.d-posix/airframes",
    "etc/init.d/airframes",
)
"""Where a source tree and a build of PX4 have their airframe scripts."""
MOST_SOURCED = 5
_SET = re.compile(r"\s*param\s+set(?:-default)?\s+(?:-s\s+)?(\w+)\s+([-+.\w]+)")
_SOURCED = re.compile(r"\s*(?:\.|source)\s+\$\{R\}etc/init\.d(?:-posix)?/airframes/([\w.+-]+)")
_MODEL = re.compile(r"\s*PX4_SIM_MODEL=(?:\$\{PX4_SIM_MODEL:=)?([\w-]+)")
_TITLE = re.compile(r"#\s*@name\s+(.+)")
HOVER, CURVE = "MPC_THR_HOVER", "THR_MDL_FAC"
_GEOMETRY = re.compile(r"CA_(ROTOR|AIRFRAME|METHOD|R_REV|SV_|MC_)")
_BRIDGE = re.compile(
    r"(SIM_|SIH_|HIL_ACT|SYS_|SDLOG|MAV_TYPE|EKF2_|BAT\d?_|CBRK|COM_ARM|COM_PREARM|COM_POWER)"
)
"""Of the simulator, the sensors and the checks of a real board: sitl-bridge sets its own."""
_KEPT = re.compile(r"(MC_|MPC_|NAV_|RTL_|COM_|GF_|IMU_D?GYRO|LNDMC_|LND_|CP_|MIS_|FD_)")


def airframe_script(name: str, px4: Path | None, simulator: str = "") -> Path | None:
    """The airframe script of a number or name; None if PX4 has none or is not here.

    Args:
        name: number, file name, or name without the number.
        px4: PX4's source tree or build; by default as `fly` finds it.
        simulator: beginning of the name in the file: ``gz_``, ``gazebo-classic_``.
    """
    for _, place in candidates(px4):
        for folder in SCRIPTS:
            directory = place.expanduser() / folder
            scripts = sorted(directory.glob("[0-9]*_*")) if directory.is_dir() else []
            for script in scripts:
                number, _, rest = script.name.partition("_")
                if simulator + name in (script.name, number, rest):
                    return script
    return None


def is_script(path: Path) -> bool:
    """Whether a file has the name of an airframe script, ``4001_gz_x500``."""
    return re.fullmatch(r"\d{3,6}_[\w.+-]+", path.name) is not None


def script_parameters(script: Path, depth: int = 0) -> tuple[Parameters, str]:
    """The parameters that a script sets, those of the scripts that it sources first, and its title.

    Raises:
        UserError: for a file that cannot be read, or scripts that source one another.
    """
    if depth > MOST_SOURCED:
        raise UserError(f"{script}: sources scripts more than {MOST_SOURCED} deep")
    found: Parameters = {}
    title = ""
    for line in read_text(script, MAX_BYTES).splitlines():
        if sourced := _SOURCED.match(line):
            other = script.parent / sourced[1]
            if is_file(other):
                found |= script_parameters(other, depth + 1)[0]
        elif given := _SET.match(line):
            try:
                value = float(given[2])
            except ValueError:
                continue  # a shell variable
            found[given[1]] = int(value) if math.isfinite(value) and value == int(value) else value
        elif not title and (named := _TITLE.match(line)):
            title = named[1].strip()
    return found, title


def read_px4(path: Path, figures: Figures) -> None:
    """Give what an airframe script or a file of parameters says.

    Raises:
        UserError: for a file that cannot be read, or rotors that do not fit those of an earlier source.
    """
    if is_script(path):
        parameters, title = script_parameters(path)
        where = f"PX4 {path.name}"
        figures.name = figures.name or path.name.partition("_")[2]
        figures.description = figures.description or title
    else:
        parameters, where = read_parameter_file(path), path.name
        figures.name = figures.name or path.stem
        figures.description = figures.description or f"The vehicle of {path.name}"
    if not parameters:
        raise UserError(f"{path}: sets no parameters")
    give_parameters(parameters, where, figures)
    if any(name.startswith(("MC_", "MPC_")) for name in parameters) and not any(
        name.startswith("SIM_") for name in parameters
    ):
        number = int(parameters.get("SYS_AUTOSTART", 0))
        label = (
            path.name if is_script(path) else f"{number}_{re.sub(r'[^A-Za-z0-9_.-]', '_', path.stem)[:40]}"
        )
        figures.give("px4.airframe", label, where)


def give_parameters(parameters: Parameters, where: str, figures: Figures) -> None:
    """Give what PX4's parameters say of a vehicle."""
    kind = parameters.get("CA_AIRFRAME", 0)
    if kind not in (0, 14):  # multirotor, and that with tilting motors
        raise UserError(f"{where}: CA_AIRFRAME {kind} is no multirotor")
    known = figures.has("rotors")
    _give_geometry(parameters, where, figures)
    _give_range(parameters, where, figures)
    if (cells := parameters.get("BAT1_N_CELLS", 0)) > 0 and not figures.has("battery.cells"):
        figures.give("battery.cells", int(cells), f"{where}: BAT1_N_CELLS")
    if (capacity := parameters.get("BAT1_CAPACITY", 0)) > 0 and not figures.has("battery.capacity"):
        figures.give("battery.capacity", capacity / 1000.0, f"{where}: BAT1_CAPACITY")
    kept: Parameters = {}
    for name, value in sorted(parameters.items()):
        if name in (HOVER, CURVE):
            if known:
                figures.leave_out(f"{name} {value:g} of {where}: computed from the motors")
            else:
                figures.give(f"px4.parameters.{name}", value, where)
        elif _GEOMETRY.match(name) or name in ("BAT1_N_CELLS", "BAT1_CAPACITY"):
            continue
        elif is_of_board(name) or _BRIDGE.match(name) or not _KEPT.match(name) or not math.isfinite(value):
            figures.leave_out(
                f"{name.partition('_')[0]}_* of {where}: of the board, the sensors or the links"
            )
        else:
            kept[name] = value
    for name, value in kept.items():
        figures.give(f"px4.parameters.{name}", value, where)


def _give_geometry(parameters: Parameters, where: str, figures: Figures) -> None:
    count = int(parameters.get("CA_ROTOR_COUNT", 0))
    if count == 0:
        return
    if count < 3:
        raise UserError(f"{where}: CA_ROTOR_COUNT is {count}; a multirotor has at least 3")
    rotors: list[dict[str, Any]] = []
    for k in range(count):
        x, y, z = (float(parameters.get(f"CA_ROTOR{k}_P{axis}", 0.0)) for axis in "XYZ")
        default = dict(zip("XYZ", UP, strict=True))
        axis = [float(parameters.get(f"CA_ROTOR{k}_A{a}", default[a])) for a in "XYZ"]
        ratio = float(parameters.get(f"CA_ROTOR{k}_KM", 0.05))
        rotor: dict[str, Any] = {"position": [x, y, z], "direction": "ccw" if ratio >= 0.0 else "cw"}
        rotors.append(rotor | ({"axis": axis} if tuple(axis) != UP else {}))
    ratios = [abs(float(parameters.get(f"CA_ROTOR{k}_KM", 0.05))) for k in range(count)]
    ratio = sum(ratios) / count
    if figures.has("rotors"):
        if len(figures.get("rotors")) != count:
            raise UserError(f"{where}: has {count} rotors, the model before it {len(figures.get('rotors'))}")
        places = [rotor["position"][:2] for rotor in rotors]
        figures.give(
            "px4.allocation", {"positions": places, "moment_ratio": ratio or 0.05}, f"{where}: CA_ROTOR*"
        )
        return
    if max(math.hypot(*rotor["position"][:2]) for rotor in rotors) >= 1.0:
        figures.note(
            f"{where} has the rotors' places in relative numbers (1, -1), which PX4 allows: --arm sets the"
            " distance of the rotors from the centre in metres"
        )
    figures.give("rotors", rotors, f"{where}: CA_ROTOR*_P*, the sign of _KM")


def scale_rotors(figures: Figures, arm: float) -> None:
    """Scale the rotors' places so that the farthest is ``arm`` metres from the centre of gravity."""
    rotors = figures.get("rotors")
    longest = max(math.hypot(*rotor["position"][:2]) for rotor in rotors)
    if longest <= 0.0:
        raise UserError("--arm: all rotors are at the centre")
    factor = arm / longest
    scaled = [
        rotor | {"position": [round(x * factor, 5) + 0.0 for x in rotor["position"]]} for rotor in rotors
    ]
    figures.give("rotors", scaled, f"{figures.sources['rotors']}, scaled to --arm {arm:g} m")


def _give_range(parameters: Parameters, where: str, figures: Figures) -> None:
    """The speeds that PX4 commands Gazebo's motors (SIM_GZ_EC_MIN, MAX)."""
    low = [parameters[f"SIM_GZ_EC_MIN{k}"] for k in range(1, 13) if f"SIM_GZ_EC_MIN{k}" in parameters]
    high = [parameters[f"SIM_GZ_EC_MAX{k}"] for k in range(1, 13) if f"SIM_GZ_EC_MAX{k}" in parameters]
    if not low or not high:
        return
    top = figures.get("motor.idle_speed", 0.0) + figures.get("motor.speed_range", math.inf)
    give_speeds(
        figures, float(low[0]), float(high[0] - low[0]), top, f"{where}: SIM_GZ_EC_MIN, SIM_GZ_EC_MAX"
    )


def script_of(name: str, px4: Path | None) -> Path:
    """The airframe script that a user names.

    Raises:
        UserError: if there is none.
    """
    direct = Path(name)
    if is_file(direct):
        return direct
    found = airframe_script(name, px4)
    if found is None:
        known = {
            p.name for _, place in candidates(px4) for f in SCRIPTS for p in (place / f).glob("[0-9]*_*")
        }
        raise UserError(
            f"no airframe script of PX4 is called {shortened(name)!r}{did_you_mean(name, known)}; give its"
            " file, or name PX4 with --px4 DIR or PX4_DIR"
        )
    return found
