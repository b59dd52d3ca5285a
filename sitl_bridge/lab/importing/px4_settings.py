"""An airframe's figures from PX4's own description of a vehicle: an airframe script, or saved parameters.

PX4 knows the rotors' places and directions (CA_ROTOR*), the thrust curve (THR_MDL_FAC), the thrust in hover
(MPC_THR_HOVER), the battery's cells and the gains; not the mass, the propellers or the motors.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

from sitl_bridge.api.models import MAX_ROTORS
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.input_file import is_file, read_text
from sitl_bridge.core.dynamics.rotor import UP
from sitl_bridge.core.vehicle.control_effectiveness import Parameters
from sitl_bridge.lab.importing.figures import Figures
from sitl_bridge.lab.importing.gazebo_vehicle import give_speeds
from sitl_bridge.link.px4.find import candidates
from sitl_bridge.link.px4.parameter_file import is_of_board, read_parameter_file

MAX_BYTES = 200_000
SCRIPTS = tuple(
    f"{top}/{init}/airframes" for top in ("ROMFS/px4fmu_common", "etc") for init in ("init.d-posix", "init.d")
)
"""Directories of the airframe scripts in a source tree and in a build of PX4."""
MOST_SOURCED = 5
_SET = re.compile(r"\s*param\s+set(?:-default)?\s+(?:-s\s+)?(\w+)\s+([-+.\w]+)")
_SOURCED = re.compile(r"\s*(?:\.|source)\s+\$\{R\}etc/init\.d(?:-posix)?/airframes/([\w.+-]+)")
_TITLE = re.compile(r"#\s*@name\s+(.+)")
_COMPUTED = ("MPC_THR_HOVER", "THR_MDL_FAC")
"""Of the motors: kept where nothing else describes these."""
_READ = re.compile(r"CA_(ROTOR|AIRFRAME|METHOD|R_REV|SV_|MC_)|BAT1_(N_CELLS|CAPACITY)$|SYS_AUTOSTART$")
_KEPT = re.compile(
    r"(?!COM_(ARM|PREARM|POWER))(MC_|MPC_|NAV_|RTL_|COM_|GF_|IMU_D?GYRO|LNDMC_|LND_|CP_|MIS_|FD_)"
)
"""Gains and limits.  Those of the simulator, the sensors and a board's checks are sitl-bridge's own."""
_LEFT = {
    "COM_FLTT_LOW_ACT": "PX4 takes no remaining time of the simulated battery",
    "RTL_TIME_MARGIN": "PX4 takes no remaining time of the simulated battery",
    "LNDMC_Z_VEL_MAX": "PX4 itself lowers it to suit MPC_LAND_CRWL and MPC_LAND_SPEED",
    "MPC_POS_MODE": "of the sticks; PX4 itself replaces values of older versions",
    "NAV_DLL_ACT": "scripts fly without a ground station",
}
"""Of these, what a flight over the simulator link cannot have, and why."""


def airframe_script(name: str, px4: Path | None, simulator: str = "") -> Path | None:
    """The airframe script of a number or name; None if PX4 has none or is not here.

    Args:
        name: number, file name, or name without the number.
        px4: PX4's source tree or build; by default as `fly` finds it.
        simulator: beginning of the name in the file: ``gz_``, ``gazebo-classic_``.
    """
    for _, place in candidates(px4):
        for script in (
            s for folder in SCRIPTS for s in sorted((place.expanduser() / folder).glob("[0-9]*_*"))
        ):
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
            if is_file(other := script.parent / sourced[1]):
                found |= script_parameters(other, depth + 1)[0]
        elif given := _SET.match(line):
            try:
                value = float(given[2])
            except ValueError:
                continue  # a shell variable
            found[given[1]] = int(value) if value.is_integer() else value
        elif not title and (named := _TITLE.match(line)):
            title = named[1].strip()
    return found, title


def read_px4(path: Path, figures: Figures) -> None:
    """Give what an airframe script or a file of parameters says.

    Raises:
        UserError: for a file that cannot be read, no multirotor, and rotors that do not fit those of an
            earlier source.
    """
    if is_script(path):
        (parameters, title), where = script_parameters(path), f"PX4 {path.name}"
        label, name = path.name, path.name.partition("_")[2]
    else:
        parameters, where, name = read_parameter_file(path), path.name, path.stem
        title = f"The vehicle of {path.name}"
        label = f"{int(parameters.get('SYS_AUTOSTART', 0))}_{re.sub(r'[^A-Za-z0-9_.-]', '_', name)[:40]}"
    if not parameters:
        raise UserError(f"{path}: sets no parameters")
    for parameter, value in parameters.items():
        if _READ.match(parameter) and not math.isfinite(value):
            raise UserError(f"{where}: {parameter} is {value}")
    kind = parameters.get("CA_AIRFRAME", 0)
    if kind not in (0, 14):  # multirotor, and that with tilting motors
        raise UserError(f"{where}: CA_AIRFRAME {kind} is no multirotor")
    figures.name, figures.description = figures.name or name, figures.description or title
    known = figures.has("motor.speed_range")
    _give_geometry(parameters, where, figures)
    _give_range(parameters, where, figures)
    cells, charge = (parameters.get(f"BAT1_{end}", 0) for end in ("N_CELLS", "CAPACITY"))
    for field, value in (("battery.cells", int(cells)), ("battery.capacity", 1e-3 * charge)):
        if value > 0 and not figures.has(field):
            figures.give(field, value, where)
    for parameter, value in sorted(parameters.items()):
        if parameter in _COMPUTED and known:
            figures.leave_out(f"{parameter} {value:g} of {where}: computed from the motors")
        elif parameter in _LEFT:
            figures.leave_out(f"{parameter} {value:g} of {where}: {_LEFT[parameter]}")
        elif parameter in _COMPUTED or (
            _KEPT.match(parameter) and not is_of_board(parameter) and math.isfinite(value)
        ):
            figures.give(f"px4.parameters.{parameter}", value, where, 7)
        elif not _READ.match(parameter):
            family = parameter.partition("_")[0]
            figures.leave_out(f"what else {where} has of {family}_*: of the board, the sensors or the links")
    gains = any(parameter.startswith(("MC_", "MPC_")) for parameter in parameters)
    if gains and not any(parameter.startswith("SIM_") for parameter in parameters):
        figures.give("px4.airframe", label, where)


def _give_geometry(parameters: Parameters, where: str, figures: Figures) -> None:
    count = int(parameters.get("CA_ROTOR_COUNT", 0))
    if count == 0:
        return
    if not 3 <= count <= MAX_ROTORS:
        raise UserError(
            f"{where}: CA_ROTOR_COUNT is {count:g}; a multirotor has at least 3, at most {MAX_ROTORS}"
        )
    rotors: list[dict[str, Any]] = []
    ratios = [float(parameters.get(f"CA_ROTOR{k}_KM", 0.05)) for k in range(count)]
    for k, ratio in enumerate(ratios):
        place = [float(parameters.get(f"CA_ROTOR{k}_P{axis}", 0.0)) for axis in "XYZ"]
        axis = [float(parameters.get(f"CA_ROTOR{k}_A{a}", up)) for a, up in zip("XYZ", UP, strict=True)]
        rotor = {"position": place, "direction": "ccw" if ratio >= 0.0 else "cw"}
        rotors.append(rotor | ({"axis": axis} if tuple(axis) != UP else {}))
    if figures.has("rotor_model.thrust_c2"):
        if len(figures.get("rotors")) != count:
            raise UserError(f"{where}: has {count} rotors, the model before it {len(figures.get('rotors'))}")
        places, ratio = [rotor["position"][:2] for rotor in rotors], sum(map(abs, ratios)) / count
        allocation = {"positions": places, "moment_ratio": ratio or 0.05}
        figures.give("px4.allocation", allocation, f"{where}: CA_ROTOR*")
        return
    if _reach(rotors) >= 1.0:
        figures.note(
            f"{where} has the rotors' places in relative numbers (1, -1), which PX4 allows: --arm sets the"
            " distance of the rotors from the centre in metres"
        )
    figures.give("rotors", rotors, f"{where}: CA_ROTOR*_P*, the sign of _KM")


def _reach(rotors: list[dict[str, Any]]) -> float:
    """Greatest distance in m of a rotor from the centre."""
    return max(math.hypot(*rotor["position"][:2]) for rotor in rotors)


def scale_rotors(figures: Figures, arm: float) -> None:
    """Scale the rotors' places so that the farthest is ``arm`` metres from the centre of gravity.

    Raises:
        UserError: for rotors that are all at the centre.
    """
    rotors = figures.get("rotors")
    longest = _reach(rotors)
    if longest <= 0.0:
        raise UserError("--arm: all rotors are at the centre")
    scaled = [r | {"position": [round(x * arm / longest, 5) + 0.0 for x in r["position"]]} for r in rotors]
    figures.give("rotors", scaled, f"{figures.sources['rotors']}, scaled to --arm {arm:g} m")


def _give_range(parameters: Parameters, where: str, figures: Figures) -> None:
    """The speeds that PX4 commands Gazebo's motors (SIM_GZ_EC_MIN, MAX)."""
    low, high = (
        next((parameters[name] for k in range(1, 13) if (name := f"SIM_GZ_EC_{end}{k}") in parameters), None)
        for end in ("MIN", "MAX")
    )
    if low is not None and high is not None:
        top = figures.get("motor.idle_speed", 0.0) + figures.get("motor.speed_range", math.inf)
        give_speeds(figures, low, high - low, top, f"{where}: SIM_GZ_EC_MIN, SIM_GZ_EC_MAX")
