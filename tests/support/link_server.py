"""A lockstep server whose tests can see the turns of its loop."""

from __future__ import annotations

from sitl_bridge.link.hil.server import LockstepServer


class Counted(LockstepServer):
    """Counts the turns of its loop, in each of which it takes the steps that it may take."""

    turns = 0

    def serve_once(self) -> None:
        super().serve_once()
        self.turns += 1
