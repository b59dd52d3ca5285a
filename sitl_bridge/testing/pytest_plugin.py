"""pytest plug-in: fixtures and markers that give a test a simulated vehicle at full speed.

It is loaded by every pytest in whose environment sitl-bridge is installed, so it imports nothing but pytest
until a test asks for a flight.  What the fixtures hand out is in testing/.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

import pytest

if TYPE_CHECKING:
    from sitl_bridge.api.pool import FlightPool
    from sitl_bridge.api.sitl import Flight, Sitl
    from sitl_bridge.api.world_choice import World
    from sitl_bridge.testing.flights import ChosenFlight, DeferredFlight

BUILT_IN, PX4 = "built-in", "px4"
MARKERS = (
    "airframe(name, ...): airframes by name or file, one a vehicle; the fixture fleet takes several",
    "wind(wind): as --wind or sb.World take it, e.g. '8@270,turbulence=light'",
    "faults(event, ...): events as in a scenario file, at s from the beginning of the test's flight",
    "seed(number): of all random numbers of the flight",
    "autopilot(name): built-in or px4, whatever --sitl-autopilot says",
    "speed(factor): simulated over wall time; as fast as it goes without",
    "parameters(NAME=value, ...): of the flight stack",
)
_EXPLAINED = re.compile(r"E\s+\+\s+where (<NO: |\w+ = <sitl_bridge\.)")
"""Lines of pytest's explanation of a statement, and of the flight that it is about."""
_flights: pytest.StashKey[FlightPool] = pytest.StashKey()
_place: pytest.StashKey[Path] = pytest.StashKey()
_open: pytest.StashKey[list[DeferredFlight]] = pytest.StashKey()
_failed: pytest.StashKey[bool] = pytest.StashKey()
_next: pytest.StashKey[list[pytest.Item]] = pytest.StashKey()
_terminal: pytest.StashKey[TextIO] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("sitl", "simulated flights (sitl-bridge)")
    group.addoption(
        "--sitl-autopilot",
        choices=(BUILT_IN, PX4),
        default=BUILT_IN,
        help="what flies: the built-in flight stack (default), or PX4 (--sitl-px4, PX4_DIR, ~/PX4-Autopilot)",
    )
    group.addoption("--sitl-px4", metavar="DIR", help="PX4 checkout or build")
    group.addoption(
        "--sitl-seed", type=int, default=1, metavar="N", help="seed of tests without the marker seed (1)"
    )
    group.addoption(
        "--sitl-warm",
        type=int,
        default=1,
        metavar="N",
        help="PX4s that are started and settled ahead for the next tests (1; 0 for none)",
    )
    group.addoption(
        "--sitl-runs",
        metavar="DIR",
        help="keep the run directories of all flights there, also of tests that pass",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the markers known; keep a way to the terminal, which pytest takes away while a test runs."""
    for line in MARKERS:
        config.addinivalue_line("markers", line)
    config.stash[_terminal] = os.fdopen(os.dup(2), "w")
    config.add_cleanup(config.stash[_terminal].close)


# ---------------------------------------------------------------------- fixtures


@pytest.fixture
def world() -> World:
    """The world of the test's flights: calm air at PX4's default place.

    Override it in a ``conftest.py`` or a module; the marker ``wind`` changes the wind in either.
    """
    from sitl_bridge.api.world_choice import World

    return World()


@pytest.fixture
def sitl(request: pytest.FixtureRequest, world: World) -> Iterator[Sitl]:
    """One vehicle, ready to arm: :class:`sitl_bridge.Sitl`."""
    yield from _flight(request, world, 1)


@pytest.fixture
def fleet(request: pytest.FixtureRequest, world: World) -> Iterator[Sitl]:
    """Several vehicles, ready to arm: those of the marker ``airframe``, or two iris."""
    yield from _flight(request, world, None)


def _flight(request: pytest.FixtureRequest, world: World, count: int | None) -> Iterator[Sitl]:
    from sitl_bridge.base.errors import UserError
    from sitl_bridge.base.kernels.announcement import announce_at_least
    from sitl_bridge.testing.flights import DeferredFlight

    item, fault = request.node, ""
    try:
        chosen = _choice(
            item, world, count, _runs(request.config, request.getfixturevalue("tmp_path_factory"))
        )
    except UserError as error:
        fault = str(error)
    if fault:
        pytest.fail(fault, pytrace=False)
    pool, terminal = _pool_of(request.config), request.config.stash[_terminal]

    def announce(line: str) -> None:
        print(f"\nsitl-bridge: {line}", file=terminal, flush=True)

    def begin(linked: bool) -> Flight:
        begun = chosen.open(pool, linked=linked or _is_asynchronous(item))
        _prepare_next(item, pool, chosen.settings.runs)
        return begun

    flight = DeferredFlight(begin)
    item.stash.setdefault(_open, []).append(flight)
    try:
        # Within this test only: what others compile is no part of flight tests.
        with announce_at_least(announce, "the simulation of flight tests"):
            yield cast("Sitl", flight)
    finally:
        failed = item.stash.get(_failed, False)
        flight.end(keep=failed or request.config.getoption("--sitl-runs") is not None)


def _run_name(item: pytest.Item) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", item.name)[:80].strip("-")


def _is_asynchronous(item: pytest.Item) -> bool:
    return inspect.iscoroutinefunction(getattr(item, "obj", None))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Remember which tests come next."""
    items = item.session.items
    at = items.index(item) + 1 if item in items else 0
    follows = nextitem is not None and at < len(items) and items[at] is nextitem
    item.stash[_next] = items[at:] if follows else [] if nextitem is None else [nextitem]


def _prepare_next(item: pytest.Item, pool: FlightPool, runs: Path) -> None:
    """Start the flight stacks of the next tests that need processes."""
    from sitl_bridge.api.world_choice import World
    from sitl_bridge.base.errors import UserError

    for other in item.stash.get(_next, []):
        if len(pool.waiting) >= pool.waiting.most:
            return
        names = getattr(other, "fixturenames", ())
        count = 1 if "sitl" in names else None
        if not {"sitl", "fleet"} & set(names) or _own_world(other) or other.get_closest_marker("skip"):
            continue
        try:
            chosen = _choice(other, World(), count, runs)
        except (UserError, pytest.skip.Exception):  # the test itself tells
            continue
        if chosen.needs_processes or _is_asynchronous(other):
            pool.prepare(chosen.settings)


def _own_world(item: pytest.Item) -> bool:
    """Whether a test overrides the fixture ``world``, which is not known before it runs."""
    definitions = item.session._fixturemanager.getfixturedefs("world", item) or ()
    return len(definitions) > 1


def pytest_sessionfinish(session: pytest.Session) -> None:
    """End the flight stacks that wait for a test."""
    if _flights in session.config.stash:
        session.config.stash[_flights].close()


def _choice(item: pytest.Item, world: World, count: int | None, runs: Path) -> ChosenFlight:
    """Return the flight of a test, by its markers."""
    from sitl_bridge.api.vehicle_arrays import validate_parameters, validate_seed, validate_speed
    from sitl_bridge.base.errors import UserError
    from sitl_bridge.testing.flights import flight_of

    airframes = _arguments(item.get_closest_marker("airframe"))
    if count == 1 and len(airframes) > 1:
        raise UserError(f"marker airframe: sitl is one vehicle, not {len(airframes)}; take the fixture fleet")
    parameters: dict[str, Any] = {}
    for marker in item.iter_markers("parameters"):  # from the closest on
        if marker.args:
            raise UserError("marker parameters: takes names, as in @pytest.mark.parameters(NAME=1.0)")
        parameters = {**marker.kwargs, **parameters}
    return flight_of(
        airframes or (["iris"] * (count or 2)),
        world,
        _argument(item, "wind", None),
        [fault for marker in item.iter_markers("faults") for fault in _arguments(marker)],
        validate_parameters(parameters),
        _px4(item),
        alone=count == 1,
        name=_run_name(item),
        runs=runs,
        seed=validate_seed(_argument(item, "seed", item.config.getoption("--sitl-seed"))),
        speed=validate_speed(_argument(item, "speed", float("inf"))),
    )


def _px4(item: pytest.Item) -> Path | None:
    """PX4's place where it is to fly; skips the test where there is none."""
    from sitl_bridge.base.errors import UserError
    from sitl_bridge.link.px4.find import find_px4

    autopilot = _argument(item, "autopilot", item.config.getoption("--sitl-autopilot"))
    if autopilot not in (BUILT_IN, PX4):
        raise UserError(f"marker autopilot: {autopilot!r} is neither {BUILT_IN!r} nor {PX4!r}")
    if autopilot == BUILT_IN:
        return None
    given = item.config.getoption("--sitl-px4")
    try:
        return find_px4(None if given is None else Path(given)).root
    except UserError as error:
        missing = str(error).replace("--px4", "--sitl-px4")
    pytest.skip(f"needs PX4: {missing}")


def _arguments(marker: pytest.Mark | None) -> list[Any]:
    """The arguments of a marker.

    Raises:
        UserError: for arguments with names.
    """
    from sitl_bridge.base.errors import UserError

    if marker is None:
        return []
    if marker.kwargs:
        raise UserError(f"marker {marker.name}: takes no names, not {', '.join(marker.kwargs)}=")
    return list(marker.args)


def _argument(item: pytest.Item, name: str, default: Any) -> Any:
    """The only argument of a marker."""
    from sitl_bridge.base.errors import UserError

    marker = item.get_closest_marker(name)
    if marker is None:
        return default
    if len(marker.args) != 1 or marker.kwargs:
        raise UserError(f"marker {name}: takes one argument, as in @pytest.mark.{name}(...)")
    return marker.args[0]


def _notify(line: str) -> None:
    print(f"sitl-bridge: {line}", file=sys.__stderr__, flush=True)


def _runs(config: pytest.Config, factory: pytest.TempPathFactory) -> Path:
    """Return the place where this process makes run directories."""
    if _place not in config.stash:
        given = config.getoption("--sitl-runs")
        worker = os.environ.get("PYTEST_XDIST_WORKER", "")
        config.stash[_place] = (
            factory.mktemp("sitl", numbered=True) if given is None else Path(given) / worker
        )
    return config.stash[_place]


def _pool_of(config: pytest.Config) -> FlightPool:
    from sitl_bridge.api.pool import FlightPool

    if _flights not in config.stash:
        number = int(os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw") or 0)
        config.stash[_flights] = FlightPool(config.getoption("--sitl-warm"), number, _notify)
    return config.stash[_flights]


# ---------------------------------------------------------------------- failures


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Name the run directory, the summary and the last messages where a test with a flight fails."""
    report = yield
    if report.failed and call.when != "teardown":
        item.stash[_failed] = True
        for entry in getattr(getattr(report.longrepr, "reprtraceback", None), "reprentries", ()):
            # pytest explains what each part of an assertion is; a statement has said it already.
            entry.lines = [line for line in entry.lines if not _EXPLAINED.match(line)]
        for flight in item.stash.get(_open, []):
            if flight.begun is not None:
                report.sections.append(("flight", _account(flight.begun, call)))
    return report


def _account(flight: Flight, call: pytest.CallInfo[None]) -> str:
    from sitl_bridge.base.error_log import ErrorLog
    from sitl_bridge.testing.flights import describe, finish

    reason = "" if call.excinfo is None else call.excinfo.exconly(tryshort=True).splitlines()[0]
    lines = describe(flight)
    errors = ErrorLog(lines.append)
    files = [f"run directory: {flight.directory}"]
    with errors.guard("writing of the summary"):
        files = finish(flight, reason or "the test failed")
    return "\n".join([*files, *lines])
