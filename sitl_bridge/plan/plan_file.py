"""Reads plans saved by QGroundControl; every fault is reported with its line, the item and the reason.

A file is read as leniently as by QGroundControl (its MissionController, GeoFenceController,
RallyPointController).  Items that PX4 refuses follow from its mavlink_mission.cpp and FeasibilityChecker.cpp.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

from sitl_bridge.base.errors import ConfigurationError
from sitl_bridge.base.field_paths import FieldPath
from sitl_bridge.base.input_file import read_text
from sitl_bridge.base.json_data import JsonObject
from sitl_bridge.base.yaml_file import Document
from sitl_bridge.link.mavlink import common as mavlink
from sitl_bridge.plan import commands
from sitl_bridge.plan.plan import (
    FenceCircle,
    Item,
    Plan,
    Point,
    Polygon,
    command_name,
    distance_on_sphere,
    fence_breach,
)

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
"""A word of JSON: a string, a mark, or a number, true, false or null."""

MAX_FILE_BYTES = 10_000_000
"""Derived: 500 items of a few hundred bytes each, camera and transect data, and two orders of margin."""


MAX_MISSION_ITEMS, MAX_FENCE_ITEMS, MAX_RALLY_ITEMS = 500, 64, 32
"""Items that PX4 stores in simulation (dataman: mission, fence and safe point items)."""


FIRMWARE_GENERIC, FIRMWARE_PX4 = 0, 12


ROTARY_WINGS = frozenset({0, 2, 3, 4, 13, 14, 15, 29, 35})
"""MAV_TYPE of plans that a multirotor flies: generic, multirotors, and helicopters."""


VEHICLES = {
    1: "a fixed-wing aircraft",
    10: "a rover",
    11: "a boat",
    12: "a submarine",
    **dict.fromkeys((19, 20, 21, 22, 23, 24, 25), "a VTOL aircraft"),
}
"""Names of the MAV_TYPEs whose plans are refused."""


MAX_LEG = 10_000.0
"""m between items, or from home to the first: PX4's MIS_DIST_1WP."""


MIN_HEIGHT, MAX_HEIGHT = -500.0, 9_000.0
"""m of relative or absolute height: the shore of the Dead Sea and the summit of Everest, with a margin."""


TERRAIN_MODES = (3, 4)
"""QGroundControlQmlGlobal.h, AltMode: calculated above terrain, and terrain frame."""
SURVEY_VERSIONS = range(2, 6)
"""Formats of surveys that QGroundControl reads (SurveyComplexItem.cc)."""
FENCE_REMEDY = "fly a mission within it, or let vehicles wait in it (fly, start): --fence"
SAVE_AGAIN = "open it in a present QGroundControl, and save it again"
MAX_FLOAT = 3.4e38
"""Greatest number of MAVLink's 32-bit floats."""


def load_plan(path: str | Path) -> Plan:
    """Read and check a plan file.

    Raises:
        ConfigurationError: with every fault found, each with its line and the number of its item.
    """
    return parse_plan(read_text(Path(path), MAX_FILE_BYTES), str(path))


def load_fence(path: str | Path) -> Plan:
    """Read and check the geofence and rally points of a plan file, which need no mission.

    Raises:
        ConfigurationError: with every fault found, as when there is no geofence.
    """
    return parse_plan(read_text(Path(path), MAX_FILE_BYTES), str(path), fence=True)


def parse_plan(text: str, source: str = "plan", *, fence: bool | None = False) -> Plan:
    """Parse and check the text of a plan file.

    Args:
        fence: whether its geofence and rally points alone are read; None if it has no mission beside them.

    Raises:
        ConfigurationError: with every fault found.
    """

    validate_format(text, source)

    def reject_constant(name: str) -> NoReturn:
        place = next(token.start() for token in _TOKEN.finditer(text) if token[0] == name)
        raise json.JSONDecodeError(f"{name} is not JSON; an open parameter is written null", text, place)

    try:
        data = json.loads(text, parse_constant=reject_constant)
    except RecursionError as error:
        raise ConfigurationError(source, ["is nested too deeply for a plan"]) from error
    except json.JSONDecodeError as error:
        fault = f"line {error.lineno}: is not a JSON file: {error.msg} (column {error.colno})"
        raise ConfigurationError(source, [fault]) from error
    except ValueError as error:
        raise ConfigurationError(source, [f"is not a JSON file: {error}"]) from error
    reader = _Reader(source)
    fenced = is_fence_alone(data) if fence is None else fence
    plan = reader.fence_alone(data) if fenced else reader.plan(data)
    if reader.faults or plan is None:
        document = Document(source, {}, json_lines(text))
        raise ConfigurationError(source, [f"line {document.line(p)}: {fault}" for p, fault in reader.faults])
    return plan


def is_fence_alone(data: object) -> bool:
    """Whether a plan has a geofence and no mission."""
    if not isinstance(data, dict):
        return False
    mission, fence = data.get("mission"), data.get("geoFence")
    if not isinstance(mission, dict) or not isinstance(fence, dict):
        return False
    return not mission.get("items") and bool(fence.get("circles") or fence.get("polygons"))


def validate_format(text: str, source: str) -> None:
    """Refuse the files of other ground stations by their name.

    Raises:
        ConfigurationError: for waypoints of MAVProxy and Mission Planner, and for KML.
    """
    begin = text.lstrip("\ufeff \r\n\t")[:400]
    if begin.startswith("QGC WPL"):
        found = "is a list of waypoints (QGC WPL) of MAVProxy or Mission Planner"
    elif "<kml" in begin:
        found = "is a KML file, of places and no mission"
    else:
        return
    remedy = "open it in the Plan view of QGroundControl, and save it there as a .plan"
    raise ConfigurationError(source, [f"{found}; {remedy}"])


def json_lines(text: str) -> dict[FieldPath, int]:
    """Return the line of every path of a JSON text that ``json.loads`` has read."""
    lines: dict[FieldPath, int] = {}
    path: list[str | int | None] = []  # the index or the key in every open list or object; None before a key
    line, before = 1, 0
    for token in _TOKEN.finditer(text):
        line, before = line + text.count("\n", before, token.start()), token.start()
        word = token[0]
        if word in "]}":
            path.pop()
        elif word == ",":
            path[-1] = path[-1] + 1 if isinstance(path[-1], int) else None
        elif word != ":" and path and path[-1] is None:
            path[-1] = str(json.loads(word))
        elif word != ":":
            lines[tuple(part for part in path if part is not None)] = line
            if word in "[{":
                path.append(0 if word == "[" else None)
    return lines


class _Reader:
    """Collects the faults of one file while reading it."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.faults: list[tuple[FieldPath, str]] = []
        self.notes: list[str] = []
        self._paths: dict[str, FieldPath] = {"the planned home": ("mission", "plannedHomePosition")}

    def fault(self, where: str, text: str, *field: str | int) -> None:
        """Add a fault of a place, or of a field within it; a place without a known path is one itself."""
        path = self._paths.get(where, tuple(where.split(".")))
        self.faults.append(((*path, *field), f"{where}: {text}"))

    def within(self, where: str, words: str, *field: str | int) -> str:
        """Return the place of a field within a place: its words for messages, with its path."""
        path = self._paths.get(where, tuple(where.split(".")))
        self._paths[where + words] = (*path, *field)
        return where + words

    def numbered(self, kind: str, number: int, *field: str) -> str:
        """Return the place of an entry of a list, counted from 1."""
        self._paths[where := f"{kind} {number}"] = (*field, number - 1)
        return where

    # ---------------------------------------------------------------- values

    def table(self, where: str, value: object) -> JsonObject:
        if isinstance(value, dict):
            return value
        self.fault(where, f"must be an object, not {_show(value)}")
        return {}

    def sequence(self, where: str, value: object) -> list[object]:
        if isinstance(value, list):
            return value
        self.fault(where, f"must be a list, not {_show(value)}")
        return []

    def number(self, where: str, value: object) -> float:
        """Finite number, or nan after a fault."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.fault(where, f"must be a number, not {_show(value)}")
            return math.nan
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            self.fault(where, "is too large a number")
            return math.nan
        return number

    def whole(self, where: str, value: object) -> int:
        """Whole number, or -1 after a fault."""
        if isinstance(value, bool) or not isinstance(value, int):
            self.fault(where, f"must be a whole number, not {_show(value)}")
            return -1
        return value

    def point(self, where: str, value: object, length: int = 2) -> tuple[float, ...] | None:
        """Latitude, longitude and further numbers; None after a fault."""
        if not isinstance(value, list) or len(value) < length:
            self.fault(where, f"must be a list of {length} numbers, latitude and longitude first")
            return None
        before = len(self.faults)
        numbers = tuple(self.number(where, number) for number in value[:length])
        if len(self.faults) > before:
            return None
        return numbers if self.on_earth(where, numbers[0], numbers[1]) else None

    def on_earth(self, where: str, latitude: float, longitude: float, *field: str | int) -> bool:
        if not -90 <= latitude <= 90:
            self.fault(where, f"latitude {latitude:g} deg is not within -90..90", *field)
        elif not -180 <= longitude <= 180:
            self.fault(where, f"longitude {longitude:g} deg is not within -180..180", *field)
        elif latitude == 0 and longitude == 0:
            text = "latitude and longitude are both 0, which QGroundControl writes for no position"
            self.fault(where, text, *field)
        else:
            return True
        return False

    # ---------------------------------------------------------------- the file

    def top(self, data: object) -> JsonObject:
        """The file as a plan's; empty after a fault."""
        top = self.table("the file", data)
        if not top:
            if not self.faults:
                self.fault("the file", "is empty")
            return {}
        if top.get("fileType") != "Plan":
            self.fault("fileType", f'must be "Plan", not {_show(top.get("fileType"))}')
        if top.get("version") != 1:
            self.fault("version", f"must be 1, not {_show(top.get('version'))}; {SAVE_AGAIN}")
        return top

    def fence_alone(self, data: object) -> Plan | None:
        """Geofence and rally points, without what is to be flown."""
        top = self.top(data)
        circles, polygons = self.fence(top.get("geoFence"))
        if top and not self.faults and not circles and not polygons:
            self.fault("geoFence", "has no circle and no polygon")
        mission = top.get("mission")
        if isinstance(mission, dict) and mission.get("items"):
            self.notes.append("mission: not flown; the geofence and the rally points alone are used")
        points, nowhere = tuple(self.rally(top.get("rallyPoints"))), (math.nan, math.nan, math.nan)
        plan = Plan(self.source, nowhere, (), tuple(circles), tuple(polygons), points, tuple(self.notes))
        self.check_fence(plan)
        return plan

    def plan(self, data: object) -> Plan | None:
        top = self.top(data)
        if not top:
            return None
        if is_fence_alone(data):
            self.fault("mission.items", f"is empty: a geofence alone; {FENCE_REMEDY} {self.source}")
            return None
        if "mission" not in top:
            self.fault("mission", "is missing")
            return None
        mission = self.table("mission", top["mission"])
        if mission.get("version") != 2:
            self.fault("mission.version", f"must be 2, not {_show(mission.get('version'))}; {SAVE_AGAIN}")
        if mission.get("firmwareType", FIRMWARE_PX4) not in (FIRMWARE_GENERIC, FIRMWARE_PX4):
            self.fault(
                "mission.firmwareType",
                f"the plan was made for another autopilot ({_show(mission['firmwareType'])}; PX4 is 12)",
            )
        self.check_vehicle(mission.get("vehicleType", 0))
        home = self.home(mission.get("plannedHomePosition"))
        items = tuple(self.items(mission.get("items")))
        circles, polygons = self.fence(top.get("geoFence"))
        rally = self.rally(top.get("rallyPoints"))
        plan = Plan(
            source=self.source,
            home=home,
            items=items,
            circles=tuple(circles),
            polygons=tuple(polygons),
            rally_points=tuple(rally),
            notes=tuple(self.notes),
        )
        self.check_mission(plan)
        self.check_fence(plan)
        return plan

    def check_vehicle(self, value: object) -> None:
        """Refuse a plan for another kind of vehicle: a multirotor would fly it differently."""
        kind = self.whole("mission.vehicleType", value)
        if kind >= 0 and kind not in ROTARY_WINGS:
            vehicle = VEHICLES.get(kind, f"a vehicle of MAV_TYPE {kind}")
            self.fault(
                "mission.vehicleType",
                f"the plan was made for {vehicle} ({kind}); only plans for multirotors (2) are flown",
            )

    def home(self, value: object) -> tuple[float, float, float]:
        """The planned home, whose altitude may be open (null)."""
        where = "mission.plannedHomePosition"
        open_altitude = False
        if isinstance(value, list) and len(value) == 3 and value[2] is None:
            open_altitude, value = True, value[:2]
        point = self.point(where, value, 2 if open_altitude else 3)
        if point is None:
            return math.nan, math.nan, math.nan
        return point[0], point[1], math.nan if open_altitude else point[2]

    def is_outdated(self, where: str, section: JsonObject) -> bool:
        """Whether a section has version 1 or none; QGroundControl ignores such sections."""
        version = section.get("version", 1)
        if version == 1:
            self.notes.append(f"{where}: ignored, as QGroundControl does: its format is of version 1")
        elif version != 2:
            self.fault(f"{where}.version", f"must be 2, not {_show(version)}")
        return bool(version == 1)

    def items(self, value: object) -> Iterator[Item]:
        items = self.sequence("mission.items", value)
        if value == []:
            self.fault("mission.items", "is empty; add items to the mission")
        for number, entry in enumerate(items, start=1):
            where = self.numbered("item", number, "mission", "items")
            table = self.table(where, entry)
            if not table:
                continue
            kind = table.get("type")
            if kind == "SimpleItem":
                yield from self.simple_item(where, table)
            elif kind == "ComplexItem":
                yield from self.complex_item(where, table)
            else:
                self.fault(where, f"type must be SimpleItem or ComplexItem, not {_show(kind)}", "type")

    def complex_item(self, where: str, table: JsonObject) -> Iterator[Item]:
        """The simple items of a complex item, which QGroundControl saves with it."""
        kind = str(table.get("complexItemType"))
        where = self.within(where, f" ({kind})")
        transects = table.get("TransectStyleComplexItem")
        version = table.get("version")
        if kind == "survey" and "TransectStyleComplexItem" in table and version not in SURVEY_VERSIONS:
            self.notes.append(
                f"{where}: its format is of version {_show(version)}, which is none of QGroundControl's"
                " (2 to 5); the items stored with it are flown"
            )
        if not isinstance(transects, dict) or not isinstance(transects.get("Items"), list):
            self.fault(
                where,
                "QGroundControl saves no waypoints with this kind of item and computes them at each upload; "
                "plan it as a survey or as single waypoints",
            )
            return
        if not transects["Items"]:
            self.fault(where, "has no items: open it in QGroundControl, let it finish, and save again")
        for number, entry in enumerate(transects["Items"], start=1):
            part = self.within(where, f", part {number}", "TransectStyleComplexItem", "Items", number - 1)
            table = self.table(part, entry)
            if table:
                yield from self.simple_item(part, table)

    def simple_item(self, where: str, table: JsonObject) -> Iterator[Item]:
        before = len(self.faults)
        command = self.whole(self.within(where, ": command", "command"), table.get("command"))
        frame = self.whole(self.within(where, ": frame", "frame"), table.get("frame"))
        jump_id = self.whole(self.within(where, ": doJumpId", "doJumpId"), table.get("doJumpId", 0))
        auto_continue = table.get("autoContinue", True)
        if not isinstance(auto_continue, bool):
            place = self.within(where, ": autoContinue", "autoContinue")
            self.fault(place, f"must be true or false, not {_show(auto_continue)}")
        values = table.get("params")
        if not isinstance(values, list) or len(values) != 7:
            self.fault(self.within(where, ": params", "params"), "must be a list of seven numbers or nulls")
            return
        if table.get("AltitudeMode") in TERRAIN_MODES and values[6] is None:
            text = "its height is above the terrain, whose heights the plan does not hold"
            self.fault(where, f"{text}: choose heights relative to launch", "AltitudeMode")
            return
        params = tuple(
            math.nan
            if value is None
            else self.number(self.within(where, f": param {k}", "params", k - 1), value)
            for k, value in enumerate(values, start=1)
        )
        if len(self.faults) > before:
            return
        item = Item(where, command, frame, params, auto_continue, jump_id)  # type: ignore[arg-type]
        self.check_item(item)
        yield item

    # ---------------------------------------------------------------- one item

    def check_item(self, item: Item) -> None:
        name = command_name(item.command)
        if item.command in commands.VTOL_COMMANDS:
            text = f"{name} is for VTOL aircraft; PX4 rejects a multirotor's mission with it"
            self.fault(item.where, text, "command")
            return
        if item.frame in commands.POSITION_FRAMES:
            if item.command not in commands.POSITION_COMMANDS:
                text = f"PX4 does not accept {name} in frame {item.frame} (with a position)"
                self.fault(item.where, text, "command")
                return
            self.check_position(item)
        elif item.frame == mavlink.MAV_FRAME_MISSION:
            if item.command not in commands.PLAIN_COMMANDS:
                hint = ": it needs a position" if item.command in commands.POSITION_COMMANDS else ""
                text = f"PX4 does not accept {name} in frame 2 (without a position){hint}"
                self.fault(item.where, text, "command")
                return
        else:
            self.fault(
                item.where,
                f"PX4 does not accept frame {item.frame} in a mission, only 0 and 3 (with a position) and 2; "
                "change terrain-relative heights to relative ones",
                "frame",
            )
            return
        for k, value in enumerate(item.params, start=1):
            # x and y of MISSION_ITEM_INT are whole numbers of 32 bits, the others floats of 32 bits.
            if abs(value) > (MAX_FLOAT if k not in (5, 6) else 2**31 - 1):
                self.fault(item.where, f"param {k} does not fit into a mission item", "params", k - 1)
        self.check_params(item, name)

    def check_position(self, item: Item) -> None:
        latitude, longitude, altitude = item.params[4:7]
        if math.isnan(latitude) or math.isnan(longitude):
            text = "params 5 and 6 (latitude, longitude) are open: PX4 needs a position here"
            self.fault(item.where, text, "params", 4)
        else:
            self.on_earth(item.where, latitude, longitude, "params", 4)
        if math.isnan(altitude):
            self.fault(item.where, "param 7 (altitude) is open: PX4 needs one here", "params", 6)
        elif not MIN_HEIGHT <= altitude <= MAX_HEIGHT:
            text = f"altitude {altitude:g} m is not within {MIN_HEIGHT:g}..{MAX_HEIGHT:g} m"
            self.fault(item.where, text, "params", 6)

    def check_params(self, item: Item, name: str) -> None:
        # Only parameters that PX4 keeps or ignores may be open (null), such as the heading.
        needed = {
            mavlink.MAV_CMD_NAV_WAYPOINT: {1: "hold time", 2: "acceptance radius"},
            mavlink.MAV_CMD_NAV_LOITER_TIME: {1: "loiter time"},
            mavlink.MAV_CMD_DO_JUMP: {1: "jump target", 2: "repetitions"},
            mavlink.MAV_CMD_DO_CHANGE_SPEED: {2: "speed"},
            93: {1: "delay"},
        }
        for k, meaning in needed.get(item.command, {}).items():
            value = item.params[k - 1]
            if math.isnan(value):
                self.fault(item.where, f"param {k} ({meaning}) of {name} is open", "params", k - 1)
            elif value < 0 and item.command in (
                mavlink.MAV_CMD_NAV_WAYPOINT,
                mavlink.MAV_CMD_NAV_LOITER_TIME,
                mavlink.MAV_CMD_DO_JUMP,
            ):
                text = f"param {k} ({meaning}) of {name} is negative: {value:g}"
                self.fault(item.where, text, "params", k - 1)
        if item.command == mavlink.MAV_CMD_DO_CHANGE_SPEED and (item.params[1] == 0 or item.params[1] > 100):
            self.fault(item.where, f"a speed of {item.params[1]:g} m/s cannot be flown", "params", 1)
        relative = item.frame in commands.RELATIVE_FRAMES
        if item.command == mavlink.MAV_CMD_NAV_TAKEOFF and relative and item.params[6] <= 0:
            text = f"takes off to {item.params[6]:g} m; the height must be above the ground"
            self.fault(item.where, text, "params", 6)

    # ---------------------------------------------------------------- the mission as a whole

    def check_mission(self, plan: Plan) -> None:
        items = plan.items
        if len(items) > MAX_MISSION_ITEMS:
            self.fault("mission", f"{len(items)} items; PX4 stores {MAX_MISSION_ITEMS}")
        self.check_jumps(items)
        legs = plan.legs
        if items and not legs:
            self.fault("mission", "has no item with a position")
        for later in legs[1:]:
            if later.command == mavlink.MAV_CMD_NAV_TAKEOFF:
                self.fault(
                    later.where, "takes off, but PX4 requires the take-off as the first item with a position"
                )
        if legs and legs[0].command == mavlink.MAV_CMD_NAV_LAND:
            self.fault(legs[0].where, "the mission starts with a landing, which PX4 refuses")
        self.check_distances(plan)
        for index, item in enumerate(items):
            if item.command == mavlink.MAV_CMD_NAV_LOITER_UNLIM and index < len(items) - 1:
                self.fault(item.where, "loiters without end, so the items after it are never reached")

    def check_jumps(self, items: Sequence[Item]) -> None:
        ids = {item.jump_id for item in items if item.jump_id}
        for item in items:
            if item.command != mavlink.MAV_CMD_DO_JUMP or math.isnan(item.params[0]):
                continue
            if item.params[0] not in ids:
                text = f"jumps to item {item.params[0]:g}, which is not in the plan"
                self.fault(item.where, text, "params", 0)
            elif item.params[0] == item.jump_id:
                self.fault(item.where, "jumps to itself", "params", 0)

    def check_distances(self, plan: Plan) -> None:
        last: tuple[str, Point] | None = None
        if math.isfinite(plan.home[0]):
            last = ("the planned home", (plan.home[0], plan.home[1]))
        for item in plan.legs:
            if not all(math.isfinite(value) and abs(value) <= 180 for value in item.point):
                continue
            if last is not None:
                leg = distance_on_sphere(last[1], item.point)
                if leg > MAX_LEG:
                    self.fault(
                        item.where,
                        f"is {leg / 1000:.1f} km from {last[0]}, more than the {MAX_LEG / 1000:g} km "
                        "that PX4 allows (MIS_DIST_1WP)",
                    )
            last = (item.where, item.point)

    # ---------------------------------------------------------------- geofence and rally points

    def fence(self, value: object) -> tuple[list[FenceCircle], list[Polygon]]:
        circles: list[FenceCircle] = []
        polygons: list[Polygon] = []
        if value is None:
            return circles, polygons
        fence = self.table("geoFence", value)
        if not fence or self.is_outdated("geoFence", fence):
            return circles, polygons
        for number, entry in enumerate(self.sequence("geoFence.circles", fence.get("circles", [])), start=1):
            where = self.numbered("geofence circle", number, "geoFence", "circles")
            table = self.table(where, entry)
            circle = self.table(self.within(where, ": circle", "circle"), table.get("circle"))
            centre = self.point(self.within(where, ": centre", "circle", "center"), circle.get("center"))
            radius = self.number(self.within(where, ": radius", "circle", "radius"), circle.get("radius"))
            if radius <= 0:
                self.fault(where, f"a radius of {radius:g} m encloses nothing", "circle", "radius")
            if centre is not None:
                circles.append(FenceCircle((centre[0], centre[1]), radius, self.inclusion(where, table)))
        for number, entry in enumerate(
            self.sequence("geoFence.polygons", fence.get("polygons", [])), start=1
        ):
            where = self.numbered("geofence polygon", number, "geoFence", "polygons")
            table = self.table(where, entry)
            raw = self.sequence(self.within(where, ": polygon", "polygon"), table.get("polygon"))
            corners = [
                self.point(self.within(where, f", corner {k}", "polygon", k - 1), corner)
                for k, corner in enumerate(raw, start=1)
            ]
            vertices = tuple((corner[0], corner[1]) for corner in corners if corner is not None)
            if len(raw) < 3:
                self.fault(where, f"{len(raw)} corners enclose nothing; at least three are needed")
            elif len(vertices) == len(raw):
                polygons.append(Polygon(vertices, self.inclusion(where, table)))
        count = len(circles) + sum(len(polygon.vertices) for polygon in polygons)
        if count > MAX_FENCE_ITEMS:
            self.fault("geoFence", f"{count} circles and corners; PX4 stores {MAX_FENCE_ITEMS}")
        return circles, polygons

    def inclusion(self, where: str, table: JsonObject) -> bool:
        value = table.get("inclusion")
        if not isinstance(value, bool):
            self.fault(where, f"inclusion must be true or false, not {_show(value)}", "inclusion")
        return bool(value)

    def rally(self, value: object) -> list[tuple[float, float, float]]:
        if value is None:
            return []
        rally = self.table("rallyPoints", value)
        if not rally or self.is_outdated("rallyPoints", rally):
            return []
        points = []
        for number, entry in enumerate(self.sequence("rallyPoints.points", rally.get("points", [])), start=1):
            point = self.point(self.numbered("rally point", number, "rallyPoints", "points"), entry, 3)
            if point is not None:
                points.append((point[0], point[1], point[2]))
        if len(points) > MAX_RALLY_ITEMS:
            self.fault("rallyPoints", f"{len(points)} points; PX4 stores {MAX_RALLY_ITEMS}")
        return points

    def check_fence(self, plan: Plan) -> None:
        """Refuse items outside the fence, as PX4 does; it cannot arm outside either."""
        places = [("the planned home", (plan.home[0], plan.home[1]))]
        places += [(item.where, item.point) for item in plan.legs]
        places += [(f"rally point {k}", (p[0], p[1])) for k, p in enumerate(plan.rally_points, start=1)]
        for where, point in places:
            if not all(math.isfinite(value) for value in point):
                continue
            reason = fence_breach(plan, point)
            if reason:
                self.fault(where, reason)


def _show(value: object) -> str:
    """A value as JSON, shortened for a message."""
    text = json.dumps(value, default=str)
    return text if len(text) <= 40 else text[:37] + "..."
