"""For container images: compile the simulation ahead of time, and check whether a server runs."""

from __future__ import annotations

import math
import socket
import sys

import psutil

from sitl_bridge.files.airframe_file import load_airframe
from sitl_bridge.hil.server import LockstepServer
from sitl_bridge.simulation import Simulation, VehicleSetup
from sitl_bridge.world.world import World


def warm() -> None:
    """Run the whole loop once against a local client, which fills the cache of compiled kernels."""
    frame = load_airframe("iris")
    setup = VehicleSetup(frame.vehicle(), frame.sensor_records())
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    server = LockstepServer(Simulation(World(), [setup]), ports=[port], speed=math.inf)
    with server, socket.create_connection(("127.0.0.1", port)) as client:
        client.settimeout(300.0)
        client.recv(1)


def healthy(port: int) -> None:
    """Exit with 0 if a program listens on ``port`` on this host, else with 1.

    It reads the list of sockets: a test connection would be taken for a flight stack.
    """
    for connection in psutil.net_connections(kind="tcp"):
        if connection.laddr and connection.laddr.port == port and connection.status == psutil.CONN_LISTEN:
            sys.exit(0)
    sys.exit(1)
