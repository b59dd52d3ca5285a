"""Parameters that a user gives to flight stacks: by name, or with the file of a real vehicle.

Each has an effect or is named: unknown ones, those of PX4's modules that do not run here, and of a file
what belongs to the board or contradicts the airframe.
"""

from __future__ import annotations

import difflib
import json
import lzma
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sitl_bridge.base.errors import UserError
from sitl_bridge.base.json_data import ReadJson
from sitl_bridge.core.vehicle.control_effectiveness import Parameters
from sitl_bridge.link.px4.parameter_file import is_of_board, read_parameter_file
from sitl_bridge.link.px4.versions import REPLACED, hint, rename_for

Known = Mapping[str, ReadJson]
"""A flight stack's parameters by name, as in PX4's parameters.json: type, default, min and max."""

LINK_SCRIPTS = ("init.d-posix/rcS", "init.d-posix/px4-rc.mavlinksim", "init.d/rc.mc_apps")
"""PX4's scripts that start modules on this link, whose vehicle is a multirotor; its other simulators have
px4-rc.gzsim, .sihsim, ..."""
_STARTED = re.compile(r"^\s*(?:if\s+!?\s*)?(\w*sim\w*) start\b", re.MULTILINE)
_SIMULATED = re.compile(r"(?:SIM_([A-Z]+)|SENS_EN_([A-Z]+)SIM|(SIH))(?:_\w+)?")
BATTERY_SIMULATOR = "battery_simulator"
INSTEAD = {
    "bat": "the battery of the airframe, which empties with the load (docs/model.md)",
    "sih": "the airframe's file, --home and --wind",
    "gz": "the airframe's file",
}
"""Replacement of a module, by the word in its parameters' names."""
OTHER_VEHICLES = {
    "FW": r"fw_\w+ start", "RWTO": r"fw_\w+ start", "NPFG": r"fw_\w+ start",
    "LNDFW": "land_detector start fixedwing", "VT": r"vtol_\w+ start", "RO": r"rover_\w+ start",
    "RA": "rover_ackermann start", "RD": "rover_differential start", "RM": "rover_mecanum start",
    "GND": r"rover_\w+ start", "UUV": r"uuv_\w+ start",
}  # fmt: skip
"""Start of the modules of other kinds of vehicles, by the first word of their parameters' names (init.d/
rc.fw_apps, rc.vtol_apps, rc.rover_*_apps, rc.uuv_apps)."""
SENSOR_INSTEAD = "an event sensor_fault or gps_jamming (docs/how-to/fault.md), or the airframe's sensors"

TUNED = re.compile(
    r"MC_\w+|MPC_(?!THR_|MANTHR_)\w+|NAV_ACC_RAD|COM_(DL|OBC|OF|RC)_LOSS_T|COM_DISARM_PRFLT|RTL_(?!TIME)\w+"
)
"""Computed parameters that a vehicle's owner tunes, which a file therefore changes.  The other computed ones
describe the airframe, its sensors and the run, as all of EKF2_* does."""

_VEHICLE = re.compile(r"CA_|THR_MDL_FAC|MPC_(?:MAN)?THR_(?:HOVER|MIN)|BAT1_")
"""Parameters that describe the vehicle, computed or not."""


def build_parameters(etc: Path) -> dict[str, dict[str, int | float | str]] | None:
    """Return a build's own parameter metadata by name; None if the build has none."""
    for name in ("extras/parameters.json.xz", "../parameters.json.xz", "../parameters.json"):
        path = etc / name
        if path.is_file():
            raw = path.read_bytes()
            text = lzma.decompress(raw) if path.suffix == ".xz" else raw
            return {entry["name"]: entry for entry in json.loads(text)["parameters"]}
    return None


def without_effect(names: Iterable[str], etc: Path | None, *, own_battery: bool) -> dict[str, str]:
    """Return parameters of PX4's modules that it does not start here, and why, with what to use.

    They are those of simulations on other links and of other vehicles than multirotors.

    A module is named as its parameters: SIM_GPS_USED is sensor_gps_sim's, SIH_MASS simulator_sih's.

    Args:
        names: of parameters.
        etc: start-up files of the build; None for a build that is not known.
        own_battery: whether PX4 simulates its battery, which it does without this program's.
    """
    scripts = [] if etc is None else [etc / name for name in LINK_SCRIPTS]
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in scripts if path.is_file()]
    started = {module for text in texts for module in _STARTED.findall(text)} - {BATTERY_SIMULATOR}
    running = [*started, *([BATTERY_SIMULATOR] if own_battery else [])]
    words = {word for module in running for word in module.split("_")}
    found = {}
    for name in names:
        other = OTHER_VEHICLES.get(name.partition("_")[0])
        if other is not None and not any(re.search(rf"^\s*{other}\b", text, re.MULTILINE) for text in texts):
            found[name] = "PX4 starts no such module for a multirotor"
        match = _SIMULATED.fullmatch(name)
        if match is None:
            continue
        own = next(filter(None, match.groups())).lower()
        # Names have some of the letters of the module's: SIM_ARSPD_FAIL is sensor_airspeed_sim's.
        if not any(re.match(".*".join(own), word) for word in words):
            use = INSTEAD.get(own, SENSOR_INSTEAD)
            found[name] = f"PX4 starts no such module on this link; use {use}"
    return found


def given_faults(
    given: Parameters, known: Known | None, etc: Path | None = None, *, own_battery: bool = False
) -> list[str]:
    """Return what is wrong with parameters given by name: unknown, not allowed, or without effect here.

    Args:
        known: those of the flight stack; None where it has no list of them.
        etc, own_battery: as of ``without_effect``; for PX4.
    """
    stack = "the built-in flight stack" if etc is None else "this PX4"
    idle = without_effect(given, etc, own_battery=own_battery)
    faults = [f"{name} has no effect: {why}" for name, why in idle.items()]
    if known is None:
        return faults
    for name, value in rename_for(given, known).items():
        entry = known.get(name)
        if name in idle:
            continue
        if entry is None:
            near = [] if name in REPLACED else difflib.get_close_matches(name, known, 1)
            said = f"; meant {near[0]}?" if near else hint(name)
            faults.append(f"{name} is not a parameter of {stack}{said}")
            continue
        if entry["type"] == "Int32" and float(value) != int(value):
            faults.append(f"{name} must be a whole number, not {value}")
        if not _within(value, entry):
            faults.append(f"{name} is {value}; allowed: {_range(entry)}")
    return faults


LEAST_SINK = 0.7 / 1.3
"""m/s.  On the ground PX4's automatic modes plan 0.7 m/s downwards, and brake what they plan above 1.3 times
MPC_Z_VEL_MAX_DN: they plan no take-off then (FlightTaskAuto.cpp, reActivate and _checkEmergencyBraking)."""


def grounding(parameters: Parameters) -> list[str]:
    """Return sentences on allowed values with which PX4 does not leave the ground and does not say why."""
    sink = parameters.get("MPC_Z_VEL_MAX_DN", math.inf)
    if sink >= LEAST_SINK:
        return []
    return [
        f"MPC_Z_VEL_MAX_DN {sink:g}: below {LEAST_SINK:.2f} PX4 does not leave the ground in Takeoff and"
        " Mission, and says nothing"
    ]


def _same(value: float, other: float | None) -> bool:
    return other is not None and math.isclose(value, other, rel_tol=1e-5, abs_tol=1e-9)


def _within(value: float, entry: ReadJson) -> bool:
    return float(entry.get("min", -math.inf)) <= value <= float(entry.get("max", math.inf))


def _range(entry: ReadJson) -> str:
    return f"{float(entry.get('min', -math.inf)):g} to {float(entry.get('max', math.inf)):g}"


def parse_parameters(options: Iterable[str] | None) -> Parameters:
    """Parameters of ``--param NAME=VALUE``.

    Raises:
        UserError: for text of another form.
    """
    found: Parameters = {}
    for option in options or ():
        name, equals, text = (part.strip() for part in option.partition("="))
        try:
            value = float(text) if equals else math.nan
        except ValueError:
            value = math.nan
        if not name or not math.isfinite(value):
            raise UserError(f"--param {option!r}: write NAME=VALUE with a number, as in MPC_XY_CRUISE=3")
        found[name] = int(text) if text.lstrip("+-").isdecimal() else value
    return found


@dataclass(frozen=True)
class ChosenParameters:
    """Split of a file into what is flown and what is not."""

    source: str  # the file
    count: int  # of its parameters
    flown: Parameters
    board: tuple[str, ...]  # left out: of the board
    idle: tuple[str, ...]  # left out: of modules that PX4 does not start here
    unknown: tuple[str, ...]  # left out: not of this flight stack
    refused: tuple[str, ...]  # left out, with values that it does not take
    contradicting: tuple[str, ...]  # with both figures; in ``flown`` if the file wins
    unusual: tuple[str, ...]  # flown outside the range that PX4 documents
    wins: bool

    def notes(self, stack: str) -> list[str]:
        """Sentences for the user.

        Args:
            stack: the flight stack's name.
        """
        said = [f"{len(self.flown)} of its {self.count} parameters are flown"]
        if self.board:
            groups = Counter(re.sub(r"\d*(_.*|$)", "", name) for name in self.board)
            listed = ", ".join(f"{name}* {count}" for name, count in groups.most_common())
            said.append(f"{len(self.board)} belong to the board and are left out: {listed}")
        if self.idle:
            said.append(f"left out, of modules that PX4 does not start here: {_join(self.idle)}")
        if self.unknown:
            said.append(f"left out, not parameters of {stack}: {_join(self.unknown)}")
        if self.refused:
            said.append(f"left out, not taken by {stack}: {_join(self.refused)}")
        if self.contradicting:
            which = "which the file overrides" if self.wins else "which wins (--params-win for the file)"
            said.append(f"contradicts the airframe, {which}: {'; '.join(self.contradicting)}")
        if self.unusual:
            said.append(f"flown outside the documented range: {_join(self.unusual)}")
        return [f"{self.source}: {text}" for text in said]


MOST_NAMES = 30
"""Names in a note; the JSON of ``check`` has all."""


def _join(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


@dataclass(frozen=True)
class ParameterFile:
    """The parameters of a real vehicle, of which those of its flight are flown."""

    source: str  # the file, for messages
    values: Parameters  # all of it
    wins: bool = False  # whether it overrides what follows from the airframe

    def choose(
        self, computed: Parameters, known: Known | None, etc: Path | None = None, *, lenient: bool = True
    ) -> ChosenParameters:
        """Choose what of the file a simulated vehicle flies with.

        Args:
            computed: for the airframe.
            known: parameters of the flight stack; None where it has no list of them.
            etc: start-up files of a PX4.
            lenient: whether the flight stack takes values outside its documented ranges, as PX4 does.
        """
        idle = without_effect(self.values, etc, own_battery=False)
        flown: Parameters = {}
        lists: dict[str, list[str]] = {name: [] for name in _LISTS}
        for name, value in self.values.items():
            entry = {} if known is None else known.get(name)
            if is_of_board(name):
                lists["board"].append(name)
            elif name in idle:
                lists["idle"].append(name)
            elif entry is None:
                lists["unknown"].append(name)
            elif not math.isfinite(value) or (entry.get("type") == "Int32" and value != int(value)):
                lists["refused"].append(f"{name} {value:g}")
            elif not lenient and not _within(value, entry):
                lists["refused"].append(f"{name} {value:g} ({_range(entry)})")
            else:
                own = computed.get(name, entry.get("default"))
                described = name in computed or name.startswith("EKF2_") or _VEHICLE.match(name)
                describes = described and not TUNED.fullmatch(name)
                # A default of the estimator or of a check states nothing about the vehicle.
                stated = _VEHICLE.match(name) or not _same(value, entry.get("default"))
                if describes and stated and not _same(value, own):
                    instead = "PX4's own" if own is None else f"{own:g}"
                    lists["contradicting"].append(f"{name} {value:g}, airframe {instead}")
                if self.wins or not describes:
                    flown[name] = value
                    if not _within(value, entry):
                        lists["unusual"].append(f"{name} {value:g} ({_range(entry)})")
        named = {name: tuple(found) for name, found in lists.items()}
        return ChosenParameters(self.source, len(self.values), flown, **named, wins=self.wins)


def load_parameters(path: str | Path | None, *, wins: bool) -> ParameterFile | None:
    """Read a parameter file; None without one.

    Raises:
        ConfigurationError: as ``read_parameter_file``.
        UserError: for one that wins and is not there.
    """
    if path is None and wins:
        raise UserError("params-win: give params, too, the file that wins")
    return None if path is None else ParameterFile(str(path), read_parameter_file(Path(path)), wins)


_LISTS = ("board", "idle", "unknown", "refused", "contradicting", "unusual")
