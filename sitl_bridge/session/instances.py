"""Instances of flight stacks for tests: one test at a time has each, so that ports never collide."""

from __future__ import annotations

import socket

from sitl_bridge.base.errors import UserError
from sitl_bridge.base.system.port_holder import is_taken
from sitl_bridge.link.hil.ports import FIRST_PORT, PAYLOAD_PORT, offboard_port

FIRST, LAST = 100, 239
"""Instances of tests: above those that people start by hand.  From 250 on, the ports of the monitor would be
those of PX4's payload link."""
APART = 20
"""Instances between the first ones of two workers of pytest-xdist."""


class Instance:
    """A flight stack's instance that no other test of this machine uses until it is released.

    The claim is a socket in the abstract name space: the kernel drops it with the process, however that ends,
    and leaves no file.
    """

    def __init__(self, number: int, claim: socket.socket) -> None:
        self.number, self._claim = number, claim

    def release(self) -> None:
        """Let others have it; safe to call twice."""
        self._claim.close()


def claim_instance(worker: int = 0) -> Instance:
    """Claim a free instance.

    Args:
        worker: number of this process among several that search at once.

    Raises:
        UserError: when all are taken.
    """
    count = LAST - FIRST + 1
    for i in range(count):
        number = FIRST + (worker * APART + i) % count
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            claim.bind(f"\0sitl-bridge-instance-{number}")
        except OSError:
            claim.close()
            continue
        if _ports_are_free(number):
            return Instance(number, claim)
        claim.close()
    raise UserError(f"tests: the ports of all instances from {FIRST} to {LAST} are taken; end some flights")


def _ports_are_free(instance: int) -> bool:
    return not (
        is_taken(FIRST_PORT + instance)
        or is_taken(offboard_port(instance), "udp")
        or is_taken(PAYLOAD_PORT + instance, "udp")
    )
