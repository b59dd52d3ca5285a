"""UDP ports of one vehicle, with PX4's numbers, and the exchange of datagrams with the services.

All messages of a time step share as few datagrams as possible, which keeps the number of datagrams low at a
hundred times real time; no message is dropped or delayed.  A slow peer loses datagrams in its own socket,
as with PX4.
"""

from __future__ import annotations

import errno
import socket
import sys

from sitl_bridge.autopilot.mavlink.services import Services
from sitl_bridge.autopilot.mavlink.streams import NORMAL, ONBOARD, SECOND
from sitl_bridge.autopilot.mavlink.telemetry import heartbeat
from sitl_bridge.base.closing import Closing
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.system.port_holder import holder_of
from sitl_bridge.link.hil.ports import STACK_PORTS, remote_ports
from sitl_bridge.link.mavlink import common as mavlink
from sitl_bridge.link.mavlink.decoder import AUTOPILOT, Decoder, frames, message_name, sender_ids
from sitl_bridge.link.mavlink.message import MavlinkMessage

DATAGRAM = 1400
"""Bytes that fit into an Ethernet frame with IPv4 or IPv6 and UDP headers."""

MAX_PEERS = 8
"""Limit per port, besides the default address."""

MAX_COMPONENTS = 32
"""Components that are remembered of a peer."""

MAX_READS = 1000
"""Datagrams read from a port in one poll, so that a flood cannot block the simulation."""

IP_RECVERR = 11
"""Linux: queue refusals by a port without listener for MSG_ERRQUEUE (ip(7))."""

REFUSED = frozenset({errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ECONNRESET})
"""Errors of a datagram socket after an earlier datagram was refused."""

Address = tuple[str, int]


HOST = "127.0.0.1"


class _Port:
    """One of PX4's links: its name, the port it is bound to, and that to which it sends by default."""

    def __init__(self, name: str, local: int, remote: int) -> None:
        self.local = local
        self.rates = NORMAL if name == "ground station" else ONBOARD  # Hz by message id
        self.home: Address = (HOST, remote)
        self.present = False  # whether a program listens on ``home``
        self.peers: dict[Address, int] = {}  # wall time of the last message, us
        # Receivers count losses by sequence numbers, so each peer has its own sequence.
        self.senders: dict[Address, mavlink.MAVLink] = {}
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
            if sys.platform == "linux":
                self.socket.setsockopt(socket.IPPROTO_IP, IP_RECVERR, 1)
            self.socket.bind((HOST, local))
        except OSError as error:
            self.socket.close()
            raise UserError(
                f"UDP port {local} for the {name} link cannot be opened on {HOST}: "
                f"{error.strerror} ({holder_of(local, 'udp')}); stop it, or use another --instance"
            ) from error
        self.socket.setblocking(False)

    def read(self) -> tuple[bytes, Address] | None:
        """Return a datagram and its sender; None if there is none."""
        while True:
            try:
                data, address = self.socket.recvfrom(65535)
            except BlockingIOError:
                return None
            except OSError as error:
                if error.errno not in REFUSED:
                    raise
                continue  # for an earlier datagram; refusals() reads the address from the error queue
            return data, (address[0], address[1])

    def refusals(self) -> list[Address]:
        """Return the local addresses that refused a datagram; only Linux reports them."""
        refused: list[Address] = []
        if sys.platform == "linux":
            while True:
                try:
                    *_, address = self.socket.recvmsg(0, 512, socket.MSG_ERRQUEUE)
                except OSError:
                    break
                if address:
                    refused.append((address[0], address[1]))
        return refused

    def send(self, data: bytes, address: Address) -> None:
        """Send a datagram; it may be lost."""
        try:
            self.socket.sendto(data, address)
        except OSError:
            # A pending refusal of an earlier datagram makes the next call fail without sending.
            try:
                self.socket.sendto(data, address)
            except OSError:
                return  # full buffer or no route: lost, as datagrams may be


class Endpoint(Closing):
    """The UDP ports of one vehicle.

    Each link sends to its PX4 port by default.  While nothing listens there (detected on Linux), only the
    heartbeat is sent, so that vehicles without peers cost little.  Each sender to a local port becomes a
    peer of that link with its own streams.

    Args:
        instance: PX4 instance number, selects the ports.

    Raises:
        UserError: if a port is in use.
    """

    def __init__(self, services: Services, instance: int) -> None:
        self.services = services
        self._decoder = Decoder()
        self._seen: dict[tuple[int, Address], set[tuple[int, int]]] = {}
        """System and component ids that sent from an address to a local port."""
        self._ports: dict[int, _Port] = {}
        try:
            for name, remote in remote_ports(instance).items():
                local = STACK_PORTS[name] + instance
                self._ports[local] = _Port(name, local, remote)
        except UserError:
            self.close()
            raise
        self._probed, self._ticked = -SECOND, False

    @property
    def sockets(self) -> list[int]:
        """File descriptors on which messages arrive."""
        return [port.socket.fileno() for port in self._ports.values()]

    def close(self) -> None:
        """Close all ports."""
        for port in self._ports.values():
            port.socket.close()
        self._ports = {}

    # ------------------------------------------------------------------ each time step

    def poll(self, now: int, wall: int, *, ticked: bool = True) -> None:
        """Read and answer the received messages, then send the messages that are due.

        Args:
            now: us of simulated time.
            wall: us of a monotonic wall clock.
            ticked: as of :meth:`Services.poll`.
        """
        self.receive(now, wall)
        if ticked and not self._ticked:  # who listens when time begins hears of it from the first tick on
            self._ticked, self._probed = True, wall - SECOND
        self._probe_peers(now, wall)
        for (local, address), messages in self.services.poll(now, wall, ticked=ticked):
            with self.services.report_faults(f"Telemetry for {address[0]}:{address[1]}", now):
                self._send(self._ports[local], address, messages)

    def receive(self, now: int, wall: int) -> None:
        """Read and answer received messages, and drop peers that refuse datagrams."""
        for port in self._ports.values():
            self._receive(port, now, wall)
            for address in port.refusals():
                self._drop_peer(port, address)

    def _receive(self, port: _Port, now: int, wall: int) -> None:
        for _ in range(MAX_READS):
            received = port.read()
            if received is None:
                return
            data, address = received
            for frame in frames(data):
                with self.services.report_faults(f"Message {message_name(frame)}", now):
                    self._add_peer(port, address, wall)
                    message = self._decoder.message(frame)
                    assert message is not None  # its checksum fits
                    self._forward((port, address), frame, message)
                    answers = self.services.handle((port.local, address), message, now, wall)
                    if answers:
                        self._send(port, address, answers)

    def _forward(self, origin: tuple[_Port, Address], frame: bytes, message: MavlinkMessage) -> None:
        """Pass a frame on to the peers whose components it is for (Mavlink::forward_message of PX4)."""
        heard = self._seen.setdefault((origin[0].local, origin[1]), set())
        if len(heard) < MAX_COMPONENTS:
            heard.add(sender_ids(frame))
        system, component = getattr(message, "target_system", 0), getattr(message, "target_component", 0)
        if (system, component) == (self.services.source.system_id, AUTOPILOT):
            return
        for port in self._ports.values():
            for address in (port.home, *port.peers):
                if (port, address) == origin:
                    continue
                seen = self._seen.get((port.local, address), set())
                known = seen if component == 0 else {ids for ids in seen if ids[1] == component}
                if (system == 0 and seen) or any(ids[0] == system for ids in known):
                    port.send(frame, address)

    def _add_peer(self, port: _Port, address: Address, wall: int) -> None:
        """Add a peer; if there are too many, drop the one with the oldest message."""
        if address == port.home:
            port.present = True
        elif address not in port.peers and len(port.peers) >= MAX_PEERS:
            silent = min(port.peers, key=port.peers.__getitem__)
            self._drop_peer(port, silent)
        if address != port.home:
            port.peers[address] = wall
        self.services.link((port.local, address), port.rates)

    def _drop_peer(self, port: _Port, address: Address) -> None:
        if address == port.home:
            port.present = False
        port.peers.pop(address, None)
        port.senders.pop(address, None)
        self._seen.pop((port.local, address), None)
        if (port.local, address) in self.services.links:
            self.services.drop((port.local, address))

    def _probe_peers(self, now: int, wall: int) -> None:
        """Probe the default addresses that are silent, once a second."""
        if 0 <= wall - self._probed < SECOND:
            return
        self._probed = wall
        for port in self._ports.values():
            if not port.present:
                self._send(port, port.home, [heartbeat(self.services.snapshot(now))])
                # On the local computer, a refusal arrives before sendto returns.
                port.present = port.home not in port.refusals()
                if port.present:
                    self.services.link((port.local, port.home), port.rates)

    def _send(self, port: _Port, address: Address, messages: list[MavlinkMessage]) -> None:
        sender = port.senders.get(address)
        if sender is None:
            system = self.services.source.system_id
            sender = port.senders[address] = mavlink.MAVLink(None, srcSystem=system, srcComponent=AUTOPILOT)
        data = bytearray()
        for message in messages:
            frame = message.pack(sender)
            sender.seq = (sender.seq + 1) % 256
            if data and len(data) + len(frame) > DATAGRAM:
                port.send(bytes(data), address)
                data.clear()
            data += frame
        port.send(bytes(data), address)
