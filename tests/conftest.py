"""Fixtures shared by the tests."""

from __future__ import annotations

import contextlib
import gc
import math
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from support.link_server import Counted
from support.waiting import wait_until

from sitl_bridge.base.errors import UserError
from sitl_bridge.base.kernels import numba_internals
from sitl_bridge.core.simulation.simulation import Simulation, VehicleSetup
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.world import World, WorldSpecification
from sitl_bridge.link.hil.link_state import OnStall
from sitl_bridge.link.hil.server import LockstepServer
from sitl_bridge.link.px4.find import find_px4
from sitl_bridge.record.truth_log import StepRecorder

# Kernels compile on their first call, and machines are noisy: no test fails by the clock.  Examples are
# the same in every run.
settings.register_profile("patient", deadline=None, derandomize=True)
settings.load_profile("patient")
# Where it is set, each of the hundreds of processes that tests start compiles all of its modules again, which
# more than doubles the time until it runs.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


gc.disable()  # until the tests are collected: what that makes lasts


def px4_directories() -> list[str]:
    """Builds of PX4 to test with: those that PX4_DIRS names, else the one that ``find_px4`` finds ("").

    Not None: pytest takes that for a fixture without a parameter, which has been set up by other tests.
    """
    return [name for name in os.environ.get("PX4_DIRS", "").split(os.pathsep) if name] or [""]


LONGEST = (
    "test_papers.py",
    "test_autopilot_control.py",
    "test_compiled.py",
    "test_avoidance_flights.py",
    "test_pytest_plugin.py",
    "test_docs.py",
    "test_api.py",
    "test_formation_flight.py",
    "test_start.py",
    "test_perception.py",
    "test_autopilot_flight.py",
    "test_flight_scene.py",
    "test_flight_fleet.py",
    "test_autopilot_odometry.py",
    "test_identification.py",
    "test_odometry.py",
    "test_cli_simulate.py",
    "test_autopilot_control_design.py",
    "test_environments.py",
)
"""Files that take longest.  They go first, so that no worker begins a long file when the others are done."""


TIME_LIMIT = 300
"""Wall time a test may take if it states none, s.  pyproject.toml does not set it, so that pytest without
pytest-timeout runs a user's own tests in a checkout."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest files first, the order of the others stays; limit the time of each test."""
    ranks = {name: rank for rank, name in enumerate(LONGEST)}
    items.sort(key=lambda item: ranks.get(item.path.name, len(LONGEST)))
    for item in items:
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIME_LIMIT))
    gc.freeze()  # the search for garbage need not pass through it again and again
    gc.enable()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test that flies real PX4 with every build."""
    for mark in metafunc.definition.iter_markers("parametrize"):
        if any(px4.name == "px4" for case in mark.args[1] for px4 in getattr(case, "marks", ())):
            raise pytest.UsageError(
                f"{metafunc.definition.nodeid}: the marker px4 on a parameter does not reach PX4_DIRS; write"
                " a test of its own for PX4"
            )
    if metafunc.definition.get_closest_marker("px4") is None:
        return
    directories = px4_directories()
    names = [Path(directory).name for directory in directories]
    metafunc.parametrize("px4_under_test", directories, ids=names, indirect=True, scope="session")


@pytest.fixture
def compiled_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """No word of late kernels that compile for long, for tests that compare all that is printed."""
    monkeypatch.setattr(numba_internals, "announce_at_least", lambda *_: contextlib.nullcontext())


@pytest.fixture(scope="session", autouse=True)
def px4_under_test(request: pytest.FixtureRequest) -> Iterator[None]:
    """Names PX4 in PX4_DIR for a test that flies it; skips the test with the reason where there is none."""
    if not hasattr(request, "param"):
        yield
        return
    directory: str = request.param
    with pytest.MonkeyPatch.context() as patch:
        if directory:
            patch.setenv("PX4_DIR", directory)
        try:
            find_px4()
        except UserError as error:
            pytest.skip(str(error))
        yield


@pytest.fixture(scope="session")
def iris() -> Airframe:
    return load_airframe("iris")


@pytest.fixture
def make_simulation() -> Callable[..., Simulation]:
    """Builds a simulation of named airframes: ``make_simulation("iris", "hector", seed=3)``."""

    def make(*names: str, seed: int = 1, world: WorldSpecification | None = None) -> Simulation:
        setups = []
        for i, name in enumerate(names or ("iris",)):
            airframe = load_airframe(name)
            setups.append(
                VehicleSetup(
                    airframe.vehicle(),
                    airframe.sensor_records(),
                    position=(0.0, 5.0 * i, 0.0),
                    name=str(i),
                )
            )
        return Simulation(World(world), setups, seed=seed)

    return make


PORTS, PORTS_EACH = 20000, 4000
"""First port that ``free_port`` gives, and how many each worker has.

They lie below those that the kernel gives to outgoing connections (32768 and up on Linux), so a port stays
free between its choice and its use.
"""


@pytest.fixture(scope="session")
def worker_ports(worker_id: str) -> Iterator[int]:
    """Port numbers of this worker, each given once; two runs of the tests begin at different ones."""
    first = PORTS + PORTS_EACH * (int(worker_id.removeprefix("gw")) % 3 if worker_id != "master" else 0)
    start = os.getpid() % PORTS_EACH
    return iter([first + (start + i) % PORTS_EACH for i in range(PORTS_EACH)])


@pytest.fixture
def free_port(worker_ports: Iterator[int]) -> Callable[[], int]:
    """Finds a TCP and UDP port on this machine that nobody uses."""

    def find() -> int:
        for port in worker_ports:
            with socket.socket() as stream, socket.socket(type=socket.SOCK_DGRAM) as datagrams:
                try:
                    stream.bind(("127.0.0.1", port))
                    datagrams.bind(("127.0.0.1", port))
                except OSError:
                    continue
                return port
        pytest.fail("no port is free")

    return find


@pytest.fixture
def wait_for() -> Callable[..., None]:
    """Waits until a condition holds; fails naming what was waited for."""

    return wait_until


@pytest.fixture
def serve(
    make_simulation: Callable[..., Simulation], free_port: Callable[[], int]
) -> Iterator[Callable[..., LockstepServer]]:
    """Starts servers on free ports and closes them at the end."""
    servers: list[LockstepServer] = []

    def start(
        *names: str,
        speed: float = math.inf,
        on_stall: OnStall = "continue",
        timeout: float = 1.0,
        seed: int = 1,
        recorder: StepRecorder | None = None,
        notes: list[str] | None = None,
        stalls: list[tuple[int, bool]] | None = None,
    ) -> LockstepServer:
        simulation = make_simulation(*names, seed=seed)
        server = Counted(
            simulation,
            ports=[free_port() for _ in range(len(simulation))],
            speed=speed,
            on_stall=on_stall,
            timeout=timeout,
            recorder=recorder,
            notify=(notes if notes is not None else []).append,
            note_stall=lambda *stall: (stalls if stalls is not None else []).append(stall),
        )
        servers.append(server)
        server.prepare()
        server.start()
        return server

    yield start
    for server in servers:
        server.close()
        assert server.failure is None or isinstance(server.failure, UserError)
