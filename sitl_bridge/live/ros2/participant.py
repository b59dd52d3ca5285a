"""A DDS participant that ROS 2 takes for its own: writers of CDR, on this machine alone.

Names, types and qualities of service are those of rmw: topic ``/x`` is ``rt/x`` (design.ros2.org, topic and
service names).  Publishers are reliable and volatile, which serves subscribers of sensor data, best effort,
too (REP 2003); maps, markers and static transforms are kept for those that come later.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from cyclonedds.core import DDSException, Policy, Qos
from cyclonedds.domain import Domain, DomainParticipant
from cyclonedds.pub import DataWriter
from cyclonedds.topic import Topic

from sitl_bridge.live.ros2.types import dds_type, encoded, type_hash

CONFIGURATION = """<CycloneDDS><Domain id="any">
<General><Interfaces><NetworkInterface name="lo"/></Interfaces><AllowMulticast>false</AllowMulticast>
<MaxMessageSize>65500B</MaxMessageSize><FragmentSize>63000B</FragmentSize></General>
<Discovery><ParticipantIndex>auto</ParticipantIndex><MaxAutoParticipantIndex>32</MaxAutoParticipantIndex>
<Peers><Peer address="127.0.0.1"/></Peers></Discovery>
<Internal><SocketReceiveBufferSize min="default" max="4MiB"/></Internal>
</Domain></CycloneDDS>"""
"""Loopback alone, without multicast: participants of one machine find each other by the ports of the RTPS
specification, as ROS 2's localhost discovery does.  ``CYCLONEDDS_URI`` replaces it."""
DEPTH, DEPTH_OF_LARGE = 200, 5
"""Messages that wait for a reliable subscriber; of pictures and clouds fewer."""
LARGE = ("sensor_msgs/Image", "sensor_msgs/PointCloud2")
KEPT = ("/tf_static", "/map", "/markers")
"""Ends of the topics whose last message is kept for subscribers that come later."""
BLOCKING = 1_000_000
"""ns for which a writer waits for a subscriber that reads nothing; then the message is left out for it."""


def quality(topic: str, name: str) -> Qos:
    """The quality of service of a publisher of a topic with messages ``package/Type``."""
    kept = topic.endswith(KEPT)
    depth = 1 if kept else DEPTH_OF_LARGE if name in LARGE else DEPTH
    return Qos(
        Policy.Reliability.Reliable(BLOCKING),
        Policy.Durability.TransientLocal if kept else Policy.Durability.Volatile,
        Policy.History.KeepLast(depth),
        Policy.DataRepresentation(use_cdrv0_representation=True),
        Policy.Userdata(f"typehash={type_hash(name)};".encode()),  # rmw's, since ROS 2 Iron
    )


class Participant:
    """Publishes and subscribes in one DDS domain.

    Args:
        domain: ROS_DOMAIN_ID.
    """

    def __init__(self, domain: int) -> None:
        self._domain = None if os.environ.get("CYCLONEDDS_URI") else Domain(domain, CONFIGURATION)
        self._participant: DomainParticipant | None = DomainParticipant(domain)
        self._writers: dict[str, tuple[str, DataWriter[Any]]] = {}
        self.left_out = 0
        """Messages that a subscriber did not take in time."""

    def advertise(self, topic: str, name: str) -> None:
        """Offer a topic with messages ``package/Type``; safe to call twice."""
        if topic not in self._writers:
            made = Topic(self._participant, f"rt{topic}", dds_type(name))
            self._writers[topic] = name, DataWriter(self._participant, made, quality(topic, name))

    def subscribed(self) -> Iterator[str]:
        """The topics that somebody reads, and those that are kept."""
        for topic, (_, writer) in self._writers.items():
            if topic.endswith(KEPT) or writer.get_matched_subscriptions():
                yield topic

    def publish(self, topic: str, data: bytes) -> None:
        """Publish a message in CDR on a topic that is offered."""
        name, writer = self._writers[topic]
        try:
            writer.write(encoded(name, data))
        except DDSException as error:
            if error.code != DDSException.DDS_RETCODE_TIMEOUT:
                raise
            self.left_out += 1

    def close(self) -> None:
        """Leave the domain; cyclonedds deletes what nothing refers to."""
        self._writers.clear()
        self._participant = self._domain = None
