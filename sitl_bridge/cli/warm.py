"""For container images: compile the simulation ahead of time."""

from __future__ import annotations

import math
import socket

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
