"""The embedded broker: amqtt in a separate process, on this machine only, with or without a password.

A process instead of a thread, so that a flood of messages takes no time from the simulation's interpreter.
Its priority is low.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import socket
import sys
from pathlib import Path

from sitl_bridge.base.errors import UserError
from sitl_bridge.base.system.child_process import ChildProcess
from sitl_bridge.base.system.launch import lower_priority
from sitl_bridge.base.system.port_holder import taken_by

HOST = "127.0.0.1"


def free_port() -> int:
    """Return a free TCP port."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def require_free(port: int) -> None:
    """Check that a port is free.

    Raises:
        UserError: if it is in use.
    """
    holder = taken_by(port)
    if holder:
        raise UserError(
            f"port {port} of the embedded broker is in use by {holder}; "
            "choose another with --bus embedded:PORT, or use that broker: --bus mqtt://..."
        )


def start_broker(port: int, directory: Path, password: str | None = None) -> ChildProcess:
    """Start a broker; it listens about a second later.

    Args:
        password: password of clients as user EMBEDDED_USER; None admits all clients on this machine.

    Raises:
        UserError: if it cannot be started.
    """
    directory.mkdir(parents=True, exist_ok=True)
    # Through a pipe, so that neither a command line nor an environment contains it.
    reading, writing = os.pipe()
    try:
        with os.fdopen(writing, "wb") as pipe:
            pipe.write((password or "").encode())
        command = [sys.executable, "-m", "sitl_bridge.live.bus.broker", str(port), str(reading)]
        return ChildProcess(
            "the embedded broker", command, directory.resolve(), os.environ, inherited=[reading]
        )
    finally:
        os.close(reading)


async def _serve(port: int, password: bytes) -> None:
    from amqtt.broker import Broker

    plugins: dict[str, dict[str, object]] = {
        "amqtt.plugins.authentication.AnonymousAuthPlugin": {"allow_anonymous": True}
    }
    if password:
        plugins = {
            "sitl_bridge.live.bus.broker_login.Login": {"digest": hashlib.sha256(password).hexdigest()}
        }
    listeners = {"default": {"type": "tcp", "bind": f"{HOST}:{port}", "max_connections": 100}}
    broker = Broker({"listeners": listeners, "plugins": plugins})
    await broker.start()
    lower_priority()
    await asyncio.Event().wait()  # until it is stopped or its parent dies


if __name__ == "__main__":
    with os.fdopen(int(sys.argv[2]), "rb") as given:
        wanted = given.read()
    asyncio.run(_serve(int(sys.argv[1]), wanted))
