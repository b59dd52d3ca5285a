"""``sitl-bridge warm``: compile ahead what flights, flight tests and campaigns run."""

from __future__ import annotations

import math
import os
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path

from sitl_bridge.base.errors import UserError
from sitl_bridge.base.system.child_process import ChildProcess
from sitl_bridge.cli.terminal import QuietOption, Terminal

AIRFRAMES = ("iris", "crazyflie_identified", "hector_indoor", "iris_blade_element", "iris_full", "x500")
"""With all laws of rotors and all sensors of the included airframes, and with vibration."""


@dataclass(frozen=True)
class Part:
    """Compiled code that is used together."""

    name: str  # what it is
    module: str  # that defines the largest of its kernels
    kernel: str  # name of that one, which is compiled last
    run: Callable[[], None]  # function of this module that runs all of it once

    @property
    def cached(self) -> bool:
        """Whether it has been compiled in this version."""
        from sitl_bridge.base.kernels.kernel_cache import is_cached

        return is_cached(getattr(import_module(f"sitl_bridge.{self.module}"), self.kernel).py_func)


def _simulate() -> None:
    """Take a step of all that simulates without flight stacks; what they have in common is compiled once."""
    from sitl_bridge.core.simulation.simulation import Simulation, VehicleSetup
    from sitl_bridge.core.vehicle.airframe_file import load_airframe
    from sitl_bridge.core.world.world import World
    from sitl_bridge.link.hil.server import LockstepServer

    frames = [load_airframe(name) for name in AIRFRAMES]
    alone = [VehicleSetup(frame.vehicle(), frame.sensor_records()) for frame in frames]
    setup = alone[0]
    for setups in (*([one] for one in alone), [setup, replace(setup, name="1")]):
        Simulation(World(), setups).advance(1)
    server = LockstepServer(Simulation(World(), [setup]), ports=[0], speed=math.inf)
    try:
        server.prepare()
    finally:
        server.close()


def _prepare_stack() -> None:
    """Prepare a built-in flight stack that nobody connects to."""
    from sitl_bridge.autopilot.main import LinkedStack
    from sitl_bridge.autopilot.process import Configuration
    from sitl_bridge.core.vehicle.airframe_file import load_airframe
    from sitl_bridge.core.world.world import WorldSpecification
    from sitl_bridge.record.ulog_reader import FlightLog
    from sitl_bridge.session.stacks import STEP

    configuration = Configuration(
        airframe=load_airframe("iris"), world=WorldSpecification(), instance=0, step=STEP
    )
    with tempfile.TemporaryDirectory() as place:
        log = Path(place) / "flight.ulg"
        stack = LinkedStack(configuration, log)
        try:
            stack.prepare()
        finally:
            stack.close()
        FlightLog.read(log, {})


def _fly_in_process() -> None:
    """Let vehicles of one process stand for a moment: one that keeps nothing, and two with logs."""
    from sitl_bridge.api.sitl import Sitl

    with Sitl("iris", record=False) as flight:
        flight.run(1.0)
    with tempfile.TemporaryDirectory() as place, Sitl(["iris", "iris"], runs=place) as flight:
        flight.run(1.0)


PARTS = (
    Part(
        "the simulation, its link and environments",
        "link.hil.loop",
        "run",
        _simulate,
    ),
    Part(
        "flights within one process (flight tests, campaigns, fleets)",
        "autopilot.stack_fleet_step",
        "advance",
        _fly_in_process,
    ),
    Part("the built-in flight stack", "autopilot.lockstep_client", "serve", _prepare_stack),
)
"""Parts that flights compile, the longest first."""


def _check_place(place: Path) -> None:
    try:
        place.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=place).close()
    except OSError as error:
        remedy = "set XDG_CACHE_HOME to a directory that can be written"
        raise UserError(f"{place}: compiled code cannot be kept: {error.strerror}; {remedy}") from error


def warm(quiet: QuietOption = False) -> None:
    """Compile the simulation and the built-in flight stack ahead, so that the first flight starts at once.

    The compiled code is kept in ~/.cache/sitl-bridge (XDG_CACHE_HOME selects another place) until the program
    changes.  What is compiled already takes a moment.  Each processor compiles a part at a time.
    """
    from sitl_bridge.base.kernels.announcement import REPORT_INTERVAL
    from sitl_bridge.base.kernels.compiled import require_compiled
    from sitl_bridge.base.kernels.kernel_cache import root

    require_compiled()
    terminal = Terminal(quiet=quiet)
    for part in PARTS:
        if part.cached:
            terminal.say(f"{part.name}: is compiled")
    waiting = [part for part in PARTS if not part.cached]
    if waiting:
        _check_place(root())
    running: dict[Part, ChildProcess] = {}
    begun = reported = time.monotonic()
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        while waiting or running:
            while waiting and len(running) < len(os.sched_getaffinity(0)):
                part = waiting.pop(0)
                terminal.say(f"{part.name}: compiling")
                name = part.run.__name__
                command = [sys.executable, "-c", f"from {__name__} import {name}; {name}()"]
                directory = place / name
                directory.mkdir()
                running[part] = stack.enter_context(
                    ChildProcess(f"compiling {part.name}", command, directory, os.environ)
                )
            time.sleep(0.1)
            now = time.monotonic()
            for part, process in list(running.items()):
                status = process.poll()
                if status is None:
                    continue
                if status != 0:
                    raise UserError(process.describe_end())
                terminal.say(f"{part.name}: compiled, {now - begun:.0f} s after the start")
                del running[part]
            if running and now - reported > REPORT_INTERVAL:
                reported = now
                terminal.say(
                    f"still compiling after {now - begun:.0f} s: {', '.join(p.name for p in running)}"
                )
