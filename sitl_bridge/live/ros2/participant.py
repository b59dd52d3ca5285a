"""A DDS participant that ROS 2 takes for its own: writers and readers of CDR, on this machine alone.

Names, types and qualities of service are those of rmw: topic ``/x`` is ``rt/x`` (design.ros2.org, topic and
service names).  Publishers are reliable and volatile, which serves subscribers of sensor data, best effort,
too (REP 2003); maps, markers and static transforms are kept for those that come later.

A publisher of another vendor may match a subscription before Cyclone DDS has found the publisher, which then
leaves out what was sent before (ddsi_endpoint_match.c, ``ddsi_proxy_writer_add_connection``).  So while no
publisher is found a subscription waits in a partition of its own, where tools see it and nobody matches it.

Services are the topics ``rq/xRequest`` and ``rr/xReply``.  rmw_cyclonedds puts two numbers before the fields,
of the client and the request; rmw_fastrtps has them in the samples' inline quality of service.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from queue import Empty, SimpleQueue
from types import MappingProxyType
from uuid import UUID, uuid4

import psutil
from cyclonedds.builtin import BuiltinDataReader, BuiltinTopicDcpsPublication, DcpsEndpoint
from cyclonedds.core import DDSException, Entity, Listener, Policy, Qos
from cyclonedds.domain import Domain, DomainParticipant
from cyclonedds.idl import IdlStruct
from cyclonedds.internal import InvalidSample
from cyclonedds.pub import DataWriter
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic

from sitl_bridge.analysis.export.cdr_layout import HEADER
from sitl_bridge.analysis.export.ros_topics import rename
from sitl_bridge.live.ros2.types import dds_type, encode, type_hash

CONFIGURATION = """<CycloneDDS><Domain id="any">
<General><Interfaces><NetworkInterface name="lo"/></Interfaces><AllowMulticast>false</AllowMulticast>
<MaxMessageSize>7600B</MaxMessageSize><FragmentSize>7400B</FragmentSize></General>
<Discovery><ParticipantIndex>auto</ParticipantIndex><MaxAutoParticipantIndex>32</MaxAutoParticipantIndex>
<Peers><Peer address="127.0.0.1"/></Peers></Discovery>
<Compatibility><IgnoreTypeInformation>1.15</IgnoreTypeInformation></Compatibility>
<Internal><SocketReceiveBufferSize min="default" max="4MiB"/></Internal>
</Domain></CycloneDDS>"""
"""Loopback alone, without multicast: participants of one machine find each other by the ports of the RTPS
specification, as ROS 2's localhost discovery does.  Fast DDS 3 describes its types in a way that Cyclone DDS
11 refuses (github.com/eclipse-cyclonedds/cyclonedds, pull request 2333); without the descriptions of vendor
1.15, eProsima, types match by their names, as in ROS.  Packets of 7.6 kB fill the kernel's blocks of 8 kB,
as which a node's socket counts them (212,992 B by default).  ``CYCLONEDDS_URI`` replaces it."""
LOOPBACK = b"lo"
DEPTH, DEPTH_OF_LARGE = 200, 5
"""Messages that wait for a reliable subscriber; of pictures and clouds fewer."""
LARGE = ("sensor_msgs/Image", "sensor_msgs/PointCloud2")
PAUSED = "/simulation/paused"
"""Topic that says whether simulated time is paused, at each change."""
KEPT = ("/tf_static", "/map", "/markers", "/robot_description", PAUSED)
"""Ends of the topics whose last message is kept for subscribers that come later."""
BLOCKING = 1_000_000
"""ns for which a writer waits for a subscriber that reads nothing; then the message is left out for it."""


NODE = "sitl_bridge"
"""The node's name, under ``/``."""
DISCOVERY = "rmw_dds_common/ParticipantEntitiesInfo"
CDR_HEADER = 4
"""Bytes before the first value of a message."""
SERVICE_DEPTH = 10
"""Of rmw's default quality of services, and of commands, none of which is left out."""
WAITING = Policy.Partition(["waiting"])
"""Of subscriptions while no publisher of their topic is known."""
PUBLICATIONS = 1000
"""Publishers that are looked at at a time."""
CLIENT = struct.pack("<Qq", uuid4().int >> 96 << 32, 1)
"""Numbers of a client and a request, which rmw_cyclonedds has before the fields of services; Cyclone DDS,
which knows the fields alone, takes the first half for an empty sequence."""


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


def _of_client(name: str, identity: str) -> Qos:
    """Quality of either topic of a client, whose identity lets rmw_cyclonedds find the two."""
    return Qos(
        Policy.Reliability.Reliable(BLOCKING),
        Policy.History.KeepLast(SERVICE_DEPTH),
        Policy.DataRepresentation(use_cdrv0_representation=True),
        Policy.Userdata(f"clientid={identity};typehash={type_hash(name)};".encode()),
    )


class _Arrival(Listener):  # type: ignore[misc]
    """Notes that something has arrived, on a thread of cyclonedds."""

    def __init__(self, name: str, arrived: SimpleQueue[str]) -> None:
        super().__init__()
        self._name, self._arrived = name, arrived

    def on_data_available(self, _reader: DataReader[IdlStruct]) -> None:
        """Note it."""
        self._arrived.put(self._name)


class Participant:
    """Publishes and subscribes in one DDS domain, as one node of ROS 2.

    Args:
        domain: ROS_DOMAIN_ID.
        topics: new names by those of topics, or by their beginnings; None leaves them out.
    """

    def __init__(
        self,
        domain: int,
        notify: Callable[[str], None],
        topics: Mapping[str, str | None] = MappingProxyType({}),
    ) -> None:
        self._notify, self._topics = notify, topics
        self._unreadable: set[str] = set()
        self._domain = None if os.environ.get("CYCLONEDDS_URI") else self._begin_locally(domain)
        enclave = Qos(Policy.Userdata(b"enclave=/;"))
        self._participant: DomainParticipant | None = DomainParticipant(domain, qos=enclave)
        self._writers: dict[str, tuple[str, DataWriter[IdlStruct]]] = {}
        self._callers: dict[str, tuple[str, DataWriter[IdlStruct]]] = {}
        self._readers: dict[str, tuple[DataReader[IdlStruct], Callable[[IdlStruct], None]]] = {}
        self._arrived: SimpleQueue[str] = SimpleQueue()
        self._subscribed: dict[str, tuple[str, Topic[IdlStruct], Qos, Callable[[IdlStruct], None]]] = {}
        self._publishers: dict[UUID, str] = {}
        self._met: set[str] = set()
        found = BuiltinDataReader(self._participant, BuiltinTopicDcpsPublication)
        self._publications: BuiltinDataReader | None = found
        self._announced = False
        made = Topic(self._participant, "ros_discovery_info", dds_type(DISCOVERY))
        self._announcer: DataWriter[IdlStruct] | None = DataWriter(
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

    def _begin_locally(self, domain: int) -> Domain:
        """A domain whose sockets take packets of this machine alone; Cyclone DDS binds them to any."""
        sockets = psutil.Process().net_connections("udp")
        made = Domain(domain, CONFIGURATION)
        for opened in psutil.Process().net_connections("udp"):
            if opened not in sockets:
                with socket.socket(fileno=os.dup(opened.fd)) as one:
                    try:
                        one.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, LOOPBACK)
                    except PermissionError:  # Linux before 5.7
                        port = opened.laddr.port
                        self._notify(f"ROS 2: Linux before 5.7 lets other machines reach port {port}")
        return made

    def name_of(self, topic: str) -> str | None:
        """A topic's name for others; None for one that is left out."""
        return rename(topic, self._topics)

    def advertise(self, topic: str, name: str) -> None:
        """Offer a topic with messages ``package/Type``; safe to call twice."""
        known = self.name_of(topic)
        if topic not in self._writers and known is not None:
            made = Topic(self._participant, f"rt{known}", dds_type(name))
            self._writers[topic] = name, DataWriter(self._participant, made, quality(topic, name))
            self._announced = False

    def subscribe(
        self, topic: str, name: str, take: Callable[[IdlStruct], None], *, each: bool = False
    ) -> None:
        """Let ``take`` have ``each`` message of a topic in ``take_arrived``, or the last one."""
        known = self.name_of(topic)
        if known is None:
            return
        made = Topic(self._participant, f"rt{known}", dds_type(name))
        wanted = Qos(
            Policy.History.KeepLast(SERVICE_DEPTH if each else 1),
            Policy.Reliability.Reliable(BLOCKING) if each else Policy.Reliability.BestEffort,
            Policy.DataRepresentation(use_cdrv0_representation=True),
            Policy.Userdata(f"typehash={type_hash(name)};".encode()),
        )
        self._subscribed[made.name] = topic, made, wanted, take
        self._read(topic, made, Qos(WAITING, base=wanted), take)

    def be_client(self, service: str, name: str, take: Callable[[bytes], None]) -> None:
        """Call a service ``package/srv/Type``; ``take`` has the fields of answers in ``take_arrived``."""
        own, request, response = uuid4().hex, f"{name}_Request", f"{name}_Response"
        made = Topic(self._participant, f"rq{service}Request", dds_type(request))
        self._callers[service] = request, DataWriter(self._participant, made, _of_client(request, own))

        def answered(received: IdlStruct) -> None:
            take(received.data[CDR_HEADER + len(self._identity(service)) :])

        answer = Topic(self._participant, f"rr{service}Reply", dds_type(response))
        self._read(service, answer, _of_client(response, own), answered)

    def _servers(self, service: str) -> list[DcpsEndpoint]:
        writer = self._callers[service][1]
        found = [writer.get_matched_subscription_data(one) for one in writer.get_matched_subscriptions()]
        return [one for one in found if one is not None]

    def has_server(self, service: str) -> bool:
        """Whether a node offers a service that this one calls."""
        return bool(self._servers(service) and self._readers[service][0].get_matched_publications())

    def _identity(self, service: str) -> bytes:
        """Return the beginning of a request and of its answer: for servers of rmw_cyclonedds alone."""
        marks = [server.qos[Policy.Userdata] for server in self._servers(service)]
        return CLIENT if any(mark and b"serviceid=" in mark.data for mark in marks) else b""

    def request(self, service: str, fields: bytes) -> None:
        """Call a service with a request's fields in CDR, aligned to 8 bytes."""
        name, writer = self._callers[service]
        writer.write(encode(name, HEADER + self._identity(service) + fields))

    def _read(
        self, name: str, topic: Topic[IdlStruct], wanted: Qos, take: Callable[[IdlStruct], None]
    ) -> None:
        reader = DataReader(self._participant, topic, wanted, _Arrival(name, self._arrived))
        self._readers[name] = reader, take
        self._announced = False

    def _meet_publishers(self) -> None:
        """Let subscriptions match publishers while some are known."""
        assert self._publications is not None  # until it is closed
        for endpoint in self._publications.take(N=PUBLICATIONS):
            if endpoint.topic_name is None:  # it has gone
                self._publishers.pop(endpoint.key, None)
            elif endpoint.topic_name in self._subscribed:
                self._publishers[endpoint.key] = endpoint.topic_name
        known = set(self._publishers.values())
        for found in known ^ self._met:
            name, topic, wanted, take = self._subscribed[found]
            self._hand_over(name)  # what the last one has sent
            self._read(name, topic, wanted if found in known else Qos(WAITING, base=wanted), take)
        self._met = known

    def take_arrived(self, wait: float = 0.0) -> None:
        """Hand over what has arrived, or arrives first within ``wait`` s of wall time."""
        self._meet_publishers()
        while True:
            try:
                name = self._arrived.get(wait > 0.0, wait or None)
            except Empty:
                return
            wait = 0.0
            self._hand_over(name)

    def _hand_over(self, name: str) -> None:
        reader, take = self._readers[name]
        try:
            samples = reader.take(N=SERVICE_DEPTH)
        except UnicodeDecodeError:
            if name not in self._unreadable:
                self._unreadable.add(name)
                self._notify(f"ROS 2, {name}: messages whose text is not UTF-8 are left out")
            return
        for sample in samples:
            if not isinstance(sample, InvalidSample):
                take(sample)

    def announce(self) -> None:
        """Tell ROS's tools of the node and its topics, where these have changed since the last time."""
        if self._announcer is None or self._announced:
            return
        self._announced = True
        writers = [writer for _, writer in (*self._writers.values(), *self._callers.values())]
        readers = [reader for reader, _ in self._readers.values()]
        gid, node = dds_type("rmw_dds_common/Gid"), dds_type("rmw_dds_common/NodeEntitiesInfo")

        def gids(entities: Sequence[Entity]) -> list[IdlStruct]:
            return [gid(data=list(self._guid(one))) for one in entities]

        nodes = [node("/", NODE, gids(readers), gids(writers))]
        self._announcer.write(dds_type(DISCOVERY)(gid(data=list(self._guid(self._participant))), nodes))

    @staticmethod
    def _guid(entity: Entity) -> bytes:
        return bytes(entity.guid.bytes)

    def subscribed_topics(self) -> Iterator[str]:
        """The topics that somebody reads, and those that are kept."""
        for topic, (_, writer) in self._writers.items():
            if topic.endswith(KEPT) or writer.get_matched_subscriptions():
                yield topic

    def publish(self, topic: str, data: bytes) -> None:
        """Publish a message in CDR on a topic that is offered; one that is left out takes none."""
        if topic not in self._writers and self.name_of(topic) is None:
            return
        name, writer = self._writers[topic]
        try:
            writer.write(encode(name, data))
        except DDSException as error:
            if error.code != DDSException.DDS_RETCODE_TIMEOUT:
                raise
            self.left_out += 1

    def close(self) -> None:
        """Leave the domain; cyclonedds deletes what nothing refers to."""
        self._writers.clear()
        self._callers.clear()
        self._readers.clear()
        self._announcer = self._publications = None
        self._participant = self._domain = None
