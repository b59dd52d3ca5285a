"""The tree's shape: which room may import which, what the core may know."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from support.paths import ROOT

PACKAGE = ROOT / "sitl_bridge"
TESTS = ROOT / "tests"

ROOMS = (
    "base",
    "core",
    "record",
    "link",
    "plan",  # names of commands are the dialect's
    "perception",
    "autopilot",
    "swarm",
    "analysis",
    "live",
    "session",
    "api",
    "testing",
    "lab",
    "cli",
    "__main__",
    "__init__",
)
"""Rooms of sitl_bridge.  Each may import those above it; TYPE_CHECKING and local imports count."""

STRANGERS = {("autopilot", "px4")}
"""Rooms that stay apart although the order would let the first import the second."""

PARTS = {
    "core": (("world",), ("dynamics",), ("odometry",), ("sensors",), ("vehicle",), ("simulation",)),
    "link": (("mavlink",), ("hil",), ("px4",)),
    "analysis": (("evaluation",), ("report",), ("replay",), ("export",)),
    "live": (("run",), ("bus",), ("view",), ("ros2",), ("outlets",)),
    "lab": (
        ("flights",),
        ("identification",),
        ("importing",),
        ("validation",),
        ("environments",),
        ("odometry",),
        ("campaign",),
    ),
    "autopilot": (
        (
            "records",
            "estimate",
            "commander_data",
            "setpoint_output",
            "parameters",
            "process",
        ),
        ("estimation", "control"),
        ("modes",),
        ("safety",),
        ("commander",),
        ("topic_log",),
        ("mavlink", "flight_log"),
        ("stack",),
        ("pilot",),
        ("stack_fleet_step",),
        ("stack_fleet", "lockstep_client"),
        ("main",),
        ("__init__", "__main__"),
    ),
}
"""Parts of rooms, likewise; parts of one line may import one another."""

NOT_IN_CORE = {
    "socket", "select", "selectors", "ssl", "asyncio", "threading", "multiprocessing", "subprocess", "queue",
    "concurrent", "yaml", "pymavlink", "mavsdk", "aiomqtt", "amqtt",
}  # fmt: skip
"""Sockets, threads, MAVLink and YAML."""
NOT_IN_SWARM = NOT_IN_CORE - {"concurrent"}
"""I/O and MAVSDK."""
FILE_ACCESS = {"open", "read_text", "read_bytes", "write_text", "write_bytes"}

# Exceptions.  Each list may only shrink: an entry that is no longer needed fails the test, too.

KNOWN_ARROWS: set[str] = set()
KNOWN_CYCLES: set[tuple[str, ...]] = set()
KNOWN_KNOWLEDGE: set[str] = set()
"""Imports and file access in rooms that should do without."""


def module_name(path: Path) -> str:
    """Dotted name below sitl_bridge: ``dynamics.motor``; a package has the name of its directory."""
    parts = list(path.relative_to(PACKAGE).with_suffix("").parts)
    if parts[-1] == "__init__" and len(parts) > 1:
        parts.pop()
    return ".".join(parts)


@cache
def modules() -> dict[str, Path]:
    return {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


@cache
def tree(name: str) -> ast.Module:
    return ast.parse(modules()[name].read_text(encoding="utf-8"))


@cache
def nodes(name: str) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(tree(name)))


def room(name: str) -> str:
    return name.split(".")[0]


def level(name: str) -> int:
    assert room(name) in ROOMS, f"sitl_bridge/{room(name)} has no place in ROOMS of {Path(__file__).name}"
    return ROOMS.index(room(name))


def imported(name: str) -> Iterator[tuple[str, str]]:
    """Module and name of everything a module imports; the name is empty for ``import module``."""
    path = modules()[name]
    package = ["sitl_bridge", *name.split(".")]
    if path.name != "__init__.py":
        package.pop()
    if name == "__init__":
        package = ["sitl_bridge"]
    for node in nodes(name):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*above, *([node.module] if node.module else [])])
            yield from ((source, alias.name) for alias in node.names)


@cache
def neighbours(name: str) -> frozenset[str]:
    """The package's own modules that a module imports."""
    found = set()
    for source, what in imported(name):
        if source == "sitl_bridge" and what == "__version__":
            continue
        for candidate in (f"{source}.{what}", source):
            inside = candidate.removeprefix("sitl_bridge").lstrip(".") or "__init__"
            if candidate.split(".")[0] == "sitl_bridge" and inside in modules():
                found.add(inside)
                break
    return frozenset(found - {name})


def test_every_import_of_the_package_finds_its_module() -> None:
    packages = {name.rpartition(".")[0] for name in modules()} | {"sitl_bridge"}
    lost = set()
    for path in [*PACKAGE.rglob("*.py"), *TESTS.rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sitl_bridge.")):
                continue
            inside = (node.module or "").removeprefix("sitl_bridge.")
            if inside not in modules() and inside not in packages:
                lost.add(f"{path.relative_to(ROOT)}: {node.module}")
    assert sorted(lost) == []


def test_imports_go_from_later_rooms_to_earlier_ones() -> None:
    found = set()
    for name in modules():
        for other in neighbours(name):
            backwards = level(other) > level(name)
            if room(name) != room(other) and (backwards or (room(name), room(other)) in STRANGERS):
                found.add(f"{name} -> {other}")
    assert sorted(found - KNOWN_ARROWS) == [], "these imports run backwards"
    assert sorted(KNOWN_ARROWS - found) == [], "these are gone: remove them from KNOWN_ARROWS"


def test_the_page_of_the_inside_has_the_rooms_in_their_order() -> None:
    text = (ROOT / "docs" / "inside.md").read_text(encoding="utf-8").partition("## Twelve files")[0]
    rooms = re.findall(r"^\| (\w+) \|", text, re.MULTILINE)
    assert rooms == ["room", *(room for room in ROOMS if not room.startswith("__"))]


@pytest.mark.parametrize("where", PARTS)
def test_within_a_room_imports_go_from_later_parts_to_earlier_ones(where: str) -> None:
    order = {part: i for i, parts in enumerate(PARTS[where]) for part in parts}
    backwards = set()
    for name in modules():
        for other in neighbours(name):
            here, there = ([*of.split("."), "__init__"][:2] for of in (name, other))
            if here[0] != where or there[0] != where or here[1] == there[1]:
                continue
            if here[1] in order and there[1] in order and order[there[1]] > order[here[1]]:
                backwards.add(f"{name} -> {other}")
    assert sorted(backwards) == []


def test_no_modules_import_one_another_in_a_circle() -> None:
    reached: dict[str, set[str]] = {}
    for name in modules():
        seen: set[str] = set()
        todo = [name]
        while todo:
            new = neighbours(todo.pop()) - seen
            seen |= new
            todo += new
        reached[name] = seen
    circles = {
        tuple(sorted(other for other in seen if name in reached[other]))
        for name, seen in reached.items()
        if name in seen
    }
    assert sorted(circles - KNOWN_CYCLES) == []
    assert sorted(KNOWN_CYCLES - circles) == [], "these are gone: remove them from KNOWN_CYCLES"


def foreign(name: str, forbidden: set[str]) -> set[str]:
    return {source.split(".")[0] for source, _ in imported(name)} & forbidden


def file_access(name: str) -> set[str]:
    """Functions that read or write files and are called in a module."""
    called = set()
    for node in nodes(name):
        if isinstance(node, ast.Call):
            function = node.func
            called.add(function.id if isinstance(function, ast.Name) else getattr(function, "attr", ""))
    return called & FILE_ACCESS


def test_the_core_knows_no_link_and_no_thread_and_the_swarm_does_no_input_or_output() -> None:
    found = set()
    for name in modules():
        if room(name) == "core":
            found |= {f"{name}: {what}" for what in foreign(name, NOT_IN_CORE)}
        if room(name) == "swarm":
            found |= {f"{name}: {what}" for what in foreign(name, NOT_IN_SWARM) | file_access(name)}
    assert sorted(found - KNOWN_KNOWLEDGE) == []
    assert sorted(KNOWN_KNOWLEDGE - found) == [], "these are gone: remove them from KNOWN_KNOWLEDGE"


WIDER = {
    "missions/papers/airrobot/figure_11.py": {"sitl_bridge.lab.identification"},
    "missions/papers/xtdrone/table_3.py": {"sitl_bridge.lab.odometry"},
}
"""What shipped programs still import from inside."""
PUBLIC = ("sitl_bridge.api.", "sitl_bridge.base.")


def test_shipped_programs_import_the_public_api() -> None:
    found = defaultdict(set)
    for path in [*(ROOT / "missions").rglob("*.py"), *(ROOT / "airframes").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            module = (node.module or "") if isinstance(node, ast.ImportFrom) else ""
            if module.startswith("sitl_bridge.") and not module.startswith(PUBLIC):
                found[path.relative_to(ROOT).as_posix()].add(module)
    assert found == WIDER


INNER_OF_LAB = {
    "lab.identification.window_fleet": {
        "core.dynamics.records",
        "core.simulation.simulation",
        "core.world.world",
    },
    "lab.importing.estimates": {"core.dynamics.induced_flow", "core.dynamics.rotor"},
    "lab.importing.figures": {"core.vehicle.figure_sources"},
    "lab.importing.gazebo_sensors": {"core.sensors.records", "core.world.sdf_geometry"},
    "lab.importing.gazebo_vehicle": {"core.dynamics.rotor", "core.world.sdf_geometry", "core.world.world"},
    "lab.importing.importer": {"core.world.sdf_world"},
    "lab.importing.model_tree": {"core.world.sdf_geometry", "core.world.sdf_world"},
    "lab.importing.px4_settings": {
        "core.dynamics.rotor",
        "core.vehicle.control_effectiveness",
        "link.px4.find",
        "link.px4.parameter_file",
    },
    "lab.importing.templates": {"core.world.sdf_world"},
}
"""What lab still imports from inside: 19 imports.  It may only shrink."""


def test_lab_stands_on_the_public_api() -> None:
    found = defaultdict(set)
    for name in modules():
        if room(name) == "lab":
            inner = {other for other in neighbours(name) if room(other) not in ("base", "api", "lab")}
            if inner:
                found[name] = inner
    assert found == INNER_OF_LAB


ENTRIES = {
    "cli.campaign": {"lab.campaign"},
    "cli.facts": {"lab.campaign", "lab.validation"},  # of a campaign's file, and beside a flight
    "cli.identify": {"lab.identification"},
    "cli.import_vehicle": {"lab.importing"},
    "cli.log_statistics": {"lab.validation"},
    "cli.odometry": {"lab.odometry"},
    "cli.pose_error": {"lab.odometry"},
    "cli.validate": {"lab.validation"},
}
"""The package of lab by which each command enters."""


def test_commands_enter_lab_by_its_packages() -> None:
    found = {name: {other for other in neighbours(name) if room(other) == "lab"} for name in modules()}
    assert {name: of for name, of in found.items() if of and room(name) == "cli"} == ENTRIES


def test_checks_pull_no_identification() -> None:
    reached, todo = set[str](), ["lab.validation", "lab.campaign"]
    while todo:
        new = {other for other in neighbours(todo.pop()) if room(other) == "lab"} - reached
        reached |= new
        todo += new
    assert "lab.flights.flight_source" in reached
    assert not any(name.startswith("lab.identification") for name in reached)


def test_each_file_of_tests_has_instances_of_its_own() -> None:
    """Files run side by side; an instance of a flight stack has fixed ports."""
    users: dict[int, list[str]] = defaultdict(list)
    for path in sorted(TESTS.rglob("test_*.py")):
        if path.stem.endswith("_px4") or path.stem in NEVER_SIDE_BY_SIDE:
            continue
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") in (
                "INSTANCE",
                "INSTANCES",
            ):
                value = ast.literal_eval(node.value)
                for instance in value if isinstance(value, tuple) else (value,):
                    users[int(instance)].append(path.name)
    assert len(users) > 5
    assert {instance: files for instance, files in users.items() if len(files) > 1} == {}


NEVER_SIDE_BY_SIDE = {"test_px4_real"}
"""Flies real PX4 throughout, which the default run leaves out."""
