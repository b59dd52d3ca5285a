"""A DDS participant that ROS 2 takes for its own: writers and readers of CDR, on this machine alone.

Names, types and qualities of service are those of rmw: topic ``/x`` is ``rt/x`` (design.ros2.org, topic and
service names).  Publishers are reliable and volatile, which serves subscribers of sensor data, best effort,
too (REP 2003); maps, markers and static transforms are kept for those that come later.

Services are those of rmw_cyclonedds: the topics ``rq/xRequest`` and ``rr/xReply``, whose messages begin with
the client's number and that of the request, 64 bits each.  rmw_fastrtps has these in the samples' inline
quality of service, which cyclonedds's Python interface neither reads nor writes.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any
from uuid import uuid4

from cyclonedds.core import DDSException, Listener, Policy, Qos
from cyclonedds.domain import Domain, DomainParticipant
from cyclonedds.internal import InvalidSample
from cyclonedds.pub import DataWriter
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic

from sitl_bridge.analysis.export.cdr_layout import HEADER
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


NODE = "sitl_bridge"
"""The node's name, under ``/``."""
DISCOVERY = "rmw_dds_common/ParticipantEntitiesInfo"
REPLY_WAIT, REPLY_LOOK = 0.1, 0.005
"""s of wall time in which a client's reader is found, as rmw_cyclonedds waits for it, and between looks."""
CDR_HEADER, REQUEST_HEADER = 4, 20
"""Bytes before the first value of a message, and before that of a request."""
SERVICE_DEPTH = 10
"""Of rmw's default quality of services."""


@dataclass(frozen=True)
class Request:
    """A request of a client."""

    service: str  # its name
    # the client's and the request's numbers, with which the reply begins; None over a middleware that has
    # them elsewhere
    identity: bytes | None
    sender: int  # handle of the client's writer


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


def _identity(data: bytes) -> bytes | None:
    """Numbers of client and request of a received part of a service, little-endian; None without them."""
    if len(data) < REQUEST_HEADER:
        return None
    order = "<" if data[1] & 1 else ">"  # CDR's, OMG DDS-XTypes 7.6.3.1.2
    return struct.pack("<Qq", *struct.unpack_from(f"{order}Qq", data, CDR_HEADER))


def _quality_of_service(name: str, identity: str, role: str = "service") -> Qos:
    """Of either topic of a service or client, whose identity lets rmw find the two."""
    return Qos(
        Policy.Reliability.Reliable(BLOCKING),
        Policy.History.KeepLast(SERVICE_DEPTH),
        Policy.DataRepresentation(use_cdrv0_representation=True),
        Policy.Userdata(f"{role}id={identity};typehash={type_hash(name)};".encode()),
    )


class _Arrival(Listener):  # type: ignore[misc]
    """Notes that something has arrived, on a thread of cyclonedds."""

    def __init__(self, name: str, arrived: SimpleQueue[str]) -> None:
        super().__init__()
        self._name, self._arrived = name, arrived

    def on_data_available(self, _reader: Any) -> None:
        """Note it."""
        self._arrived.put(self._name)


class Participant:
    """Publishes and subscribes in one DDS domain, as one node of ROS 2.

    Args:
        domain: ROS_DOMAIN_ID.
    """

    def __init__(self, domain: int, notify: Callable[[str], None]) -> None:
        self._notify = notify
        self._unreadable: set[str] = set()
        self._domain = None if os.environ.get("CYCLONEDDS_URI") else Domain(domain, CONFIGURATION)
        enclave = Qos(Policy.Userdata(b"enclave=/;"))
        self._participant: DomainParticipant | None = DomainParticipant(domain, qos=enclave)
        self._writers: dict[str, tuple[str, DataWriter[Any]]] = {}
        self._callers: dict[str, tuple[str, DataWriter[Any]]] = {}
        self._repliers: dict[str, DataWriter[Any]] = {}
        self._readers: dict[str, tuple[DataReader[Any], Callable[[Any], None]]] = {}
        self._arrived: SimpleQueue[str] = SimpleQueue()
        self._announced = 0
        made = Topic(self._participant, "ros_discovery_info", dds_type(DISCOVERY))
        self._announcer: DataWriter[Any] | None = DataWriter(
            self._participant,
            made,
            Qos(
                Policy.Reliability.Reliable(BLOCKING),
                Policy.Durability.TransientLocal,
                Policy.History.KeepLast(1),
                Policy.DataRepresentation(use_cdrv0_representation=True),
            ),
        )
        self.left_out = 0
        """Messages that a subscriber did not take in time."""

    def advertise(self, topic: str, name: str) -> None:
        """Offer a topic with messages ``package/Type``; safe to call twice."""
        if topic not in self._writers:
            made = Topic(self._participant, f"rt{topic}", dds_type(name))
            self._writers[topic] = name, DataWriter(self._participant, made, quality(topic, name))

    def subscribe(self, topic: str, name: str, take: Callable[[Any], None]) -> None:
        """Let ``take`` have each message of a topic in ``take_arrived``; the last one counts."""
        made = Topic(self._participant, f"rt{topic}", dds_type(name))
        wanted = Qos(
            Policy.History.KeepLast(1),
            Policy.DataRepresentation(use_cdrv0_representation=True),
            Policy.Userdata(f"typehash={type_hash(name)};".encode()),
        )
        self._read(topic, made, wanted, take)

    def serve(self, service: str, name: str, take: Callable[[Request], None]) -> None:
        """Offer a service ``package/srv/Type``; ``take`` has each request in ``take_arrived``."""
        identity = f"{self._guid(self._participant).hex('.')}.{len(self._repliers)}"
        request, response = f"{name}_Request", f"{name}_Response"
        made = Topic(self._participant, f"rr{service}Reply", dds_type(response))
        self._repliers[service] = DataWriter(self._participant, made, _quality_of_service(response, identity))

        def requested(received: Any) -> None:
            take(Request(service, _identity(received.data), received.sample_info.publication_handle))

        asked = Topic(self._participant, f"rq{service}Request", dds_type(request))
        self._read(service, asked, _quality_of_service(request, identity), requested)

    def be_client(self, service: str, name: str, take: Callable[[bytes], None]) -> None:
        """Call a service ``package/srv/Type``; ``take`` has each answer's identity in ``take_arrived``."""
        own, request, response = uuid4().hex, f"{name}_Request", f"{name}_Response"
        made = Topic(self._participant, f"rq{service}Request", dds_type(request))
        quality = _quality_of_service(request, own, "client")
        self._callers[service] = request, DataWriter(self._participant, made, quality)

        def answered(received: Any) -> None:
            identity = _identity(received.data)
            if identity is not None:
                take(identity)

        answer = Topic(self._participant, f"rr{service}Reply", dds_type(response))
        self._read(service, answer, _quality_of_service(response, own, "client"), answered)

    def has_server(self, service: str) -> bool:
        """Whether a node offers a service that this one calls."""
        found = self._callers[service][1].get_matched_subscriptions()
        return bool(found and self._readers[service][0].get_matched_publications())

    def request(self, service: str, identity: bytes) -> None:
        """Call a service with a request whose fields are empty sequences."""
        name, writer = self._callers[service]
        writer.write(encoded(name, HEADER + identity + bytes(4)))

    def _read(self, name: str, topic: Topic[Any], wanted: Qos, take: Callable[[Any], None]) -> None:
        reader = DataReader(self._participant, topic, wanted, _Arrival(name, self._arrived))
        self._readers[name] = reader, take

    def take_arrived(self, wait: float = 0.0) -> None:
        """Hand over what has arrived, or arrives first within ``wait`` s of wall time."""
        while True:
            try:
                name = self._arrived.get(wait > 0.0, wait or None)
            except Empty:
                return
            wait = 0.0
            reader, take = self._readers[name]
            try:
                samples = reader.take(N=SERVICE_DEPTH)
            except UnicodeDecodeError:
                if name not in self._unreadable:
                    self._unreadable.add(name)
                    self._notify(f"ROS 2, {name}: messages whose text is not UTF-8 are left out")
                continue
            for sample in samples:
                if not isinstance(sample, InvalidSample):
                    take(sample)

    def reply(self, request: Request, data: bytes) -> None:
        """Answer a request with a message in CDR, once the client can receive it."""
        assert request.identity is not None
        writer, end = self._repliers[request.service], time.monotonic() + REPLY_WAIT
        while not self._is_matched(request) and time.monotonic() < end:
            time.sleep(REPLY_LOOK)
        name = "std_srvs/srv/Trigger_Response"
        writer.write(encoded(name, data[:CDR_HEADER] + request.identity + data[CDR_HEADER:]))

    def _is_matched(self, request: Request) -> bool:
        """Whether the writer of replies has found a reader of the client's participant."""
        sender = self._readers[request.service][0].get_matched_publication_data(request.sender)
        writer = self._repliers[request.service]
        found = [writer.get_matched_subscription_data(k) for k in writer.get_matched_subscriptions()]
        return sender is None or any(one and one.participant_key == sender.participant_key for one in found)

    def announce(self) -> None:
        """Tell ROS's tools of the node and its topics, where these have changed since the last time."""
        writers = [writer for _, writer in self._writers.values()] + [*self._repliers.values()]
        writers += [writer for _, writer in self._callers.values()]
        readers = [reader for reader, _ in self._readers.values()]
        if self._announcer is None or self._announced == len(writers) + len(readers):
            return
        self._announced = len(writers) + len(readers)
        gid, node = dds_type("rmw_dds_common/Gid"), dds_type("rmw_dds_common/NodeEntitiesInfo")

        def gids(entities: Sequence[Any]) -> list[Any]:
            return [gid(data=list(self._guid(one))) for one in entities]

        nodes = [node("/", NODE, gids(readers), gids(writers))]
        self._announcer.write(dds_type(DISCOVERY)(gid(data=list(self._guid(self._participant))), nodes))

    @staticmethod
    def _guid(entity: Any) -> bytes:
        return bytes(entity.guid.bytes)

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
        self._repliers.clear()
        self._callers.clear()
        self._readers.clear()
        self._announcer = None
        self._participant = self._domain = None
