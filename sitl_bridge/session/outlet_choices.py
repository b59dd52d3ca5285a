"""Options of the pages and streams that show a run."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from pathlib import Path

from sitl_bridge.base.errors import UserError


@dataclass(frozen=True)
class OutletChoices:
    """Pages and streams of a run; None for none.

    Attributes:
        view: TCP port of the live page.
        viewer: host to which the states are sent as by PX4's SIH, and the UDP port of instance 0.
        samples: local socket on which the samples of sensors that see are offered.
        stream: address and TCP port on which Foxglove connects.
    """

    view: int | None = None
    viewer: tuple[str, int] | None = None
    samples: Path | None = None
    stream: tuple[str, int] | None = None

    def faults(self) -> list[str]:
        """What keeps them from starting: missing packages and ports in use."""
        from sitl_bridge.live.view.page_server import require_foxglove, require_free_port, require_viser

        found = []
        if self.view is not None:
            try:
                require_viser()
                require_free_port(self.view)
            except UserError as error:
                found.append(f"--view: {error}")
        if self.viewer is not None:
            try:
                socket.getaddrinfo(*self.viewer, family=socket.AF_INET, type=socket.SOCK_DGRAM)
            except OSError as error:
                found.append(f"--viewer: host {self.viewer[0]!r} is unknown: {error.strerror}")
        if self.samples is not None:
            from sitl_bridge.analysis.export.sample_socket import require_socket

            try:
                require_socket(self.samples)
            except UserError as error:
                found.append(f"--samples: {error}")
        if self.stream is not None:
            host, port = self.stream
            try:
                require_foxglove()
                require_free_port(port, host, "the stream")
            except UserError as error:
                found.append(f"--stream: {error}")
        return found
