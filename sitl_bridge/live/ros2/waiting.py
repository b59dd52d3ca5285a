"""Simulated time waits for named nodes of ROS 2, so that a slow one loses nothing at any speed.

Every node of rclcpp and rclpy offers ``get_parameter_types``.  Its executor takes one message of each
subscription a round, then one request of each service (rclcpp, ``AllocatorMemoryStrategy``; rclpy,
``Executor._wait_for_ready_callbacks``).  After the messages of k steps k requests are sent; when all are
answered, a node with one thread has handled these messages.
"""

from __future__ import annotations

import itertools
import math
import struct
import time
from collections.abc import Callable, Mapping, Sequence

from sitl_bridge.live.ros2.participant import Participant

LEAD = 5
"""Steps that simulated time may be ahead of what the nodes have handled: the depth of ROS's sensor data."""
LOOK = 0.05
"""s of wall time between looks whether a node has gone."""
AGAIN = 2.0
"""s of wall time after which requests are repeated: the node may have answered before it found the reader of
its answers.  An executor that receives one twice answers it in two rounds."""
SETTLE = 0.5
"""s of wall time in which the subscriptions of a node that answers are found."""
SILENT = 10.0
"""s of wall time without an answer after which the user is told of a node that is there, once."""
SERVICE = "rcl_interfaces/srv/GetParameterTypes"


class WaitedNodes:
    """Nodes that simulated time waits for.

    Args:
        stopped: whether the run ends.
    """

    def __init__(
        self,
        names: Sequence[str],
        participant: Participant,
        notify: Callable[[str], None],
        stopped: Callable[[], bool],
    ) -> None:
        self._participant, self._notify, self._stopped = participant, notify, stopped
        self._numbers = itertools.count(1)
        self._services = {f"/{name.strip('/')}/get_parameter_types": name for name in names}
        self._waiting: set[bytes] = set()
        self._silent: set[str] = set()
        for service in self._services:
            participant.be_client(service, SERVICE, self._answered)

    def __bool__(self) -> bool:
        """Whether there is a node to wait for."""
        return bool(self._services)

    def find(self) -> None:
        """Wait until all nodes are there."""
        absent = [name for service, name in self._services.items() if not self._is_there(service)]
        if absent:
            self._notify(f"simulated time waits for the ROS 2 nodes {', '.join(absent)}")
        while not self._stopped() and not all(map(self._is_there, self._services)):
            self._participant.take_arrived(LOOK)
        self.wait(1)  # a node that answers has made its subscriptions
        time.sleep(SETTLE)

    def wait(self, count: int) -> None:
        """Wait until every node has handled ``count`` messages of each of its subscriptions."""
        asked: dict[str, list[bytes]] = {
            service: [struct.pack("<Qq", id(self), next(self._numbers)) for _ in range(count)]
            for service in self._services
        }
        self._waiting = {identity for identities in asked.values() for identity in identities}
        begun, sent = time.monotonic(), -math.inf
        while self._waiting and not self._stopped():
            if time.monotonic() - sent > AGAIN:
                sent = time.monotonic()
                for service in self._services:
                    for identity in filter(self._waiting.__contains__, asked[service]):
                        self._participant.request(service, identity)
            self._participant.take_arrived(LOOK)
            if time.monotonic() - begun > SILENT:
                self._tell_silent(asked)
            for service in [one for one in self._services if not self._is_there(one)]:
                self._notify(
                    f"the ROS 2 node {self._services.pop(service)} has gone; time goes on without it"
                )
                self._waiting.difference_update(asked[service])

    def _tell_silent(self, asked: Mapping[str, Sequence[bytes]]) -> None:
        for service in self._services.keys() - self._silent:
            if not self._waiting.isdisjoint(asked[service]):
                self._silent.add(service)
                name = self._services[service]
                self._notify(
                    f"simulated time stands: the ROS 2 node {name} has not answered for {SILENT:g} s"
                )

    def _answered(self, identity: bytes) -> None:
        self._waiting.discard(identity)

    def _is_there(self, service: str) -> bool:
        return self._participant.has_server(service)
