"""The built-in flight stack as a process on the simulator link, where PX4 would be.

It flies one vehicle: it connects to the simulator as PX4 does, answers every inertial frame, and serves
MAVLink on PX4's ports.  Users start it with ``sitl-bridge autopilot``; process.py starts it with
``python -m sitl_bridge.autopilot CONFIGURATION.json``.
"""

from __future__ import annotations

import signal
import socket
import sys
import time
from pathlib import Path
from types import FrameType

import numpy as np

from sitl_bridge.autopilot import lockstep_client
from sitl_bridge.autopilot.flight_log import NAME
from sitl_bridge.autopilot.mavlink.endpoint import Endpoint
from sitl_bridge.autopilot.mavlink.services import Services
from sitl_bridge.autopilot.mavlink.telemetry import TelemetrySource
from sitl_bridge.autopilot.pilot import Pilot
from sitl_bridge.autopilot.process import Configuration
from sitl_bridge.autopilot.stack import TICK, StackArrays, StackVehicle, prepare_step
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.kernels.announcement import announce_compilation
from sitl_bridge.base.kernels.array_at import handles_of
from sitl_bridge.core.world.world import World
from sitl_bridge.link.hil.message_layout import HIL_STATE_QUATERNION
from sitl_bridge.link.hil.ports import FIRST_PORT
from sitl_bridge.link.mavlink import common as mavlink
from sitl_bridge.link.mavlink.decoder import AUTOPILOT

CONNECT_LIMIT = 120.0
"""s of wall time within which the simulator must listen: it may have to be compiled first."""
TIMEOUT = 5_000_000
"""ns of wall time after which other things are looked after between two updates of the commander."""
STANDSTILL = 50_000
"""us of wall time after which telemetry goes on though simulated time stands still."""
LOG = Path("log", "flight.ulg")


class LinkedStack:
    """One vehicle's stack at the end of a connection to a simulator.

    Raises:
        UserError: for a parameter or a controller that does not exist.
    """

    def __init__(self, configuration: Configuration, log: Path) -> None:
        world = World(configuration.world)
        member = StackVehicle(
            configuration.airframe,
            controller=configuration.controller,
            parameters=configuration.parameters,
            log=log,
        )
        self._endpoint: Endpoint | None = None
        self.stacks = StackArrays.of([member], world)
        self._stack_handles = handles_of(self.stacks)
        self.controls = np.zeros(16)
        self.pilot = Pilot(member, self.stacks, 0, self.controls, world, 0)
        self._client = lockstep_client.ClientArrays.of(self.controls)
        self.peer: np.void = self._client.peer[0]
        self.peer["fd"] = -1
        self.peer["system_id"] = configuration.instance + 1
        self.peer["component_id"] = AUTOPILOT
        self.peer["tick"] = max(1, round(TICK / configuration.step))
        self.peer["each_step"] = int(self.pilot.own_controller is not None)
        self._instance = configuration.instance
        self._log = log

    def open_ports(self) -> None:
        """Begin to speak MAVLink.

        Raises:
            UserError: when a port is taken.
        """
        source = TelemetrySource(
            system_id=self._instance + 1,
            rotor_count=int(self.pilot.allocation["rotor_count"]),
            commander=self.pilot.commander,
            estimate=self.pilot.estimate,
            setpoint=self.pilot.setpoint,
            measurement=self.pilot.reader["measurement"],
            controls=self.controls,
            log=self._log,
        )
        self._endpoint = Endpoint(Services(source), self._instance)
        self._client.watch(self._endpoint.sockets)

    def prepare(self) -> None:
        """Compile, or load what was compiled, before time runs."""
        prepare_step()
        self._serve(0)

    def attach(self, connection: socket.socket) -> None:
        """Take over a connection to a simulator.

        It sends what PX4 sends first: a heartbeat, and a request for ground truth with its rate.
        """
        self.peer["fd"] = connection.fileno()
        encoder = mavlink.MAVLink(None, srcSystem=int(self.peer["system_id"]), srcComponent=AUTOPILOT)
        beat = encoder.heartbeat_encode(
            mavlink.MAV_TYPE_GENERIC, mavlink.MAV_AUTOPILOT_GENERIC, 0, 0, mavlink.MAV_STATE_STANDBY
        )
        wish = encoder.command_long_encode(
            0, 0, mavlink.MAV_CMD_SET_MESSAGE_INTERVAL, 0, HIL_STATE_QUATERNION, TICK, 0, 0, 0, 0, 0
        )
        for message in (beat, wish):
            connection.sendall(message.pack(encoder))
            encoder.seq = (encoder.seq + 1) % 256
        self.peer["sequence"] = encoder.seq

    def run(self) -> None:
        """Fly until the simulator closes the connection."""
        polled = 0
        while True:
            reason = self._serve(TIMEOUT)
            if reason == lockstep_client.LOST:
                return
            self.pilot.run_own_controller()
            if reason == lockstep_client.STEPPED:
                continue
            now = int(self.pilot.reader["measurement"]["time"])
            wall = time.monotonic_ns() // 1000
            if reason == lockstep_client.TICKED:
                self.pilot.update(now)
                self.peer["armed"] = int(self.pilot.commander.armed)
            if self._endpoint is None:
                continue
            if reason == lockstep_client.TICKED or wall - polled > STANDSTILL:
                polled = wall
                self._endpoint.poll(now, wall, ticked=reason == lockstep_client.TICKED)
            else:
                self._endpoint.receive(now, wall)

    def _serve(self, timeout: int) -> int:
        return lockstep_client.serve(self._stack_handles, tuple(self._client), timeout)

    def close(self) -> None:
        """Close ports and log."""
        if self._endpoint is not None:
            self._endpoint.close()
        self.pilot.close()


def connect(host: str, port: int, limit: float = CONNECT_LIMIT) -> socket.socket:
    """Connect to a simulator, waiting for it as PX4 does.

    Raises:
        UserError: when nobody listens within ``limit`` s.
    """
    end = time.monotonic() + limit
    while True:
        try:
            connection = socket.create_connection((host, port), timeout=1.0)
        except OSError as error:
            if time.monotonic() > end:
                raise UserError(f"no simulator listens on {host}, port {port}: {error}") from error
            time.sleep(0.05)
            continue
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(None)
        return connection


def fly(configuration: Configuration) -> int:
    """Fly one vehicle until the simulator closes the connection; returns the exit code.

    Raises:
        UserError: for a controller, a parameter or a port that is at fault.
        OSError: when the log cannot be written.
    """
    print(f"{NAME}, not PX4", flush=True)
    LOG.parent.mkdir(exist_ok=True)
    stack = LinkedStack(configuration, LOG)
    try:
        stack.open_ports()
        with announce_compilation(lambda line: print(line, flush=True), "the built-in flight stack"):
            stack.prepare()
        with connect(configuration.simulator, FIRST_PORT + configuration.instance) as connection:
            stack.attach(connection)
            stack.run()
    finally:
        stack.close()
    print("the simulator closed the connection", flush=True)
    return 1


def main(arguments: list[str] | None = None) -> int:
    """Fly one vehicle by a configuration file; returns the exit code."""
    signal.signal(signal.SIGTERM, _interrupt)
    given = sys.argv[1:] if arguments is None else arguments
    if len(given) != 1 or given[0].startswith("-"):
        print("error: this takes one CONFIGURATION.json; use `sitl-bridge autopilot`", file=sys.stderr)
        return 2
    try:
        text = Path(given[0]).read_text(encoding="utf-8")
        return fly(Configuration.model_validate_json(text))
    except (OSError, UserError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
