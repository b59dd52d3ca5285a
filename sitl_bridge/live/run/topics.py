"""The topic tree under ``sitl/<run>/``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sitl_bridge.base.errors import UserError
from sitl_bridge.live.run.messages import IDENTIFIER


def topic_name(run: str) -> str:
    """The name of a run as a topic level; invalid characters become '_'."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", run)[:64]


@dataclass(frozen=True)
class Address:
    """Target of a command: the run, or one of its vehicles."""

    kind: str
    vehicle: str | None = None


class Topics:
    """The topics of one run.

    Raises:
        UserError: for a name that is invalid as a topic level, or for duplicate names.
    """

    def __init__(self, run: str, vehicles: tuple[str, ...]) -> None:
        for name in (run, *vehicles):
            if not re.match(IDENTIFIER, name):
                raise UserError(
                    f"{name!r} cannot be part of a topic: use up to 64 letters, digits, '_', '.' and '-'"
                )
        if len(set(vehicles)) != len(vehicles):
            raise UserError(f"two vehicles have the same name: {', '.join(vehicles)}")
        self.root = f"sitl/{run}"
        self.vehicles = vehicles
        self.status = f"{self.root}/status"
        self.clock = f"{self.root}/clock"
        self.world = f"{self.root}/world"
        self.commands = (f"{self.root}/command/+", f"{self.root}/vehicle/+/command/+")
        """Topics of the bus's subscriptions."""

    def state(self, vehicle: str) -> str:
        """Topic of a vehicle's motion."""
        return f"{self.root}/vehicle/{vehicle}/state"

    def health(self, vehicle: str) -> str:
        """Topic of a vehicle's health."""
        return f"{self.root}/vehicle/{vehicle}/health"

    def event(self, vehicle: str) -> str:
        """Topic of a vehicle's events."""
        return f"{self.root}/vehicle/{vehicle}/event"

    def reply(self, request_id: str) -> str:
        """Topic of the reply to one request."""
        return f"{self.root}/reply/{request_id}"

    def retained_topics(self) -> list[str]:
        """Return all retained topics except the status."""
        vehicles = [topic(name) for name in self.vehicles for topic in (self.state, self.health)]
        return [self.clock, self.world, *vehicles]

    def address(self, topic: str) -> Address | None:
        """Return the target of a command topic; None for other topics."""
        levels = topic.removeprefix(self.root + "/").split("/")
        if len(levels) == 2 and levels[0] == "command":
            return Address(levels[1])
        if len(levels) == 4 and (levels[0], levels[2]) == ("vehicle", "command"):
            return Address(levels[3], levels[1])
        return None
