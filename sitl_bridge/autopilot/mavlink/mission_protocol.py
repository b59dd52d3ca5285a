"""The mission protocol: upload and download of missions, fences and rally points, with losses and repeats.

Downloads are stateless, so any number of peers may read.  Only one upload runs at a time over all links; a
second peer is rejected.  Retries and time-outs use wall time (``wall``), because peers answer in wall
time: at a hundred times real time, a quarter of a simulated second is shorter than any answer.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from sitl_bridge.autopilot.commander import Commander
from sitl_bridge.autopilot.mavlink.command_protocol import NOT_SET
from sitl_bridge.autopilot.modes.mission_items import MAX_ITEMS, MissionFault
from sitl_bridge.link.mavlink import common as mavlink
from sitl_bridge.link.mavlink.message import MavlinkMessage
from sitl_bridge.plan import commands
from sitl_bridge.plan.plan_upload import FENCE, MISSION, RALLY, MissionItem

RETRY_INTERVAL = 250_000
"""Time after which a missing item is requested again, us (mavlink_mission.h)."""

UPLOAD_TIMEOUT = 5_000_000
"""Silence of the peer after which an upload is aborted, us (mavlink_mission.h)."""

ALL = mavlink.MAV_MISSION_TYPE_ALL
NAMES = {MISSION: "Mission", FENCE: "Geofence", RALLY: "Rally points"}

Peer = tuple[int, int]
"""System and component id."""


@dataclass
class Upload:
    """An upload in progress."""

    owner: MissionProtocol  # protocol object of the link it uses
    peer: Peer  # the sender
    kind: int  # MAV_MISSION_TYPE
    count: int  # number of expected items
    requested_at: int  # us, wall time of the last request
    received_at: int  # us, wall time of the peer's last message
    items: list[MissionItem] = field(default_factory=list)  # received items


class MissionStore:
    """State shared by all links of a vehicle: the stored items and the single upload."""

    def __init__(self, commander: Commander) -> None:
        self.commander = commander
        self.upload: Upload | None = None
        self._identified: dict[int, tuple[tuple[MissionItem, ...], int]] = {}

    def items(self, kind: int) -> tuple[MissionItem, ...]:
        """Return the stored items."""
        flight, plans = self.commander.flight, self.commander.plans
        return {MISSION: flight.items, FENCE: plans.fence, RALLY: plans.rally}[kind]

    def store(self, kind: int, items: Sequence[MissionItem]) -> MissionFault | None:
        """Pass items to the commander, which sends a text if they are faulty."""
        to = self.commander
        return {MISSION: to.set_mission, FENCE: to.set_fence, RALLY: to.plans.set_rally}[kind](items)

    def identity(self, kind: int) -> int:
        """Return the opaque id of the stored items; 0 if there are none."""
        items = self.items(kind)
        known = self._identified.get(kind)
        if known is None or known[0] != items:
            known = (items, _identity(items))
            self._identified[kind] = known
        return known[1]


def _identity(items: Sequence[MissionItem]) -> int:
    crc = 0
    for item in items:
        numbers = (item.param1, item.param2, item.param3, item.param4, item.x, item.y, item.z)
        crc = zlib.crc32(struct.pack("<BHB7d", item.frame, item.command, item.autocontinue, *numbers), crc)
    return (crc or 1) if items else 0


class MissionProtocol:
    """The protocol on one link."""

    def __init__(self, store: MissionStore) -> None:
        self._store = store
        self._last: tuple[Peer, int, int, MavlinkMessage] | None = (
            None  # last upload: peer, kind, count, answer
        )
        self._handlers = {
            "MISSION_COUNT": self._on_count,
            "MISSION_ITEM_INT": self._on_item,
            "MISSION_ACK": self._on_ack,
            "MISSION_REQUEST_LIST": self._on_request_list,
            "MISSION_REQUEST_INT": self._on_request,
            "MISSION_CLEAR_ALL": self._on_clear_all,
            "MISSION_SET_CURRENT": self._on_set_current,
        }

    def handle(self, message: MavlinkMessage, wall: int) -> list[MavlinkMessage]:
        """Answer a message of the protocol for this vehicle.

        Args:
            message: one of MISSION_*.
            wall: wall time, us.
        """
        handler = self._handlers.get(message.get_type())
        return handler(message, _peer(message), wall) if handler is not None else []

    def poll(self, wall: int) -> list[MavlinkMessage]:
        """Request a missing item again, or abort the upload."""
        upload = self._own_upload()
        if upload is None:
            return []
        if wall - upload.received_at > UPLOAD_TIMEOUT:
            self._store.upload = None
            name = NAMES[upload.kind]
            self._store.commander.send_text(
                mavlink.MAV_SEVERITY_ERROR,
                f"{name} upload aborted: item {len(upload.items)} of {upload.count} was not received",
            )
            return [_ack(upload.peer, mavlink.MAV_MISSION_OPERATION_CANCELLED, upload.kind)]
        return [self._request(upload, wall)] if wall - upload.requested_at > RETRY_INTERVAL else []

    def current(self, seq: int | None = None) -> MavlinkMessage:
        """MISSION_CURRENT, with the present item or with ``seq``."""
        store = self._store
        total = len(store.commander.flight.items)
        return mavlink.MAVLink_mission_current_message(
            seq=max(store.commander.flight.current, 0) if seq is None else seq,
            total=total or 0xFFFF,
            mission_id=store.identity(MISSION),
            fence_id=store.identity(FENCE),
            rally_points_id=store.identity(RALLY),
        )

    # ------------------------------------------------------------------ upload

    def _own_upload(self) -> Upload | None:
        upload = self._store.upload
        return upload if upload is not None and upload.owner is self else None

    def _on_count(self, message: MavlinkMessage, peer: Peer, wall: int) -> list[MavlinkMessage]:
        kind, count = message.mission_type, message.count
        if kind not in NAMES:
            return [_ack(peer, mavlink.MAV_MISSION_UNSUPPORTED, kind)]
        if self._is_busy(peer, wall):
            return [_ack(peer, mavlink.MAV_MISSION_ERROR, kind)]
        if count > MAX_ITEMS[kind]:
            self._store.upload = None
            text = f"{NAMES[kind]} rejected: {count} items exceed the limit of {MAX_ITEMS[kind]}"
            self._store.commander.send_text(mavlink.MAV_SEVERITY_ERROR, text)
            return [_ack(peer, mavlink.MAV_MISSION_NO_SPACE, kind)]
        self._store.upload = Upload(self, peer, kind, count, wall, wall)
        self._last = None
        return self._continue_upload(self._store.upload, wall)

    def _is_busy(self, peer: Peer, wall: int) -> bool:
        upload = self._store.upload
        if upload is None or wall - upload.received_at > UPLOAD_TIMEOUT:
            return False
        return upload.owner is not self or upload.peer != peer

    def _on_item(self, message: MavlinkMessage, peer: Peer, wall: int) -> list[MavlinkMessage]:
        upload = self._own_upload()
        if upload is None or upload.peer != peer or upload.kind != message.mission_type:
            return self._stray_item(message, peer)
        upload.received_at = wall
        expected = len(upload.items)
        if message.seq < expected:
            return []  # received twice
        if message.seq > expected:
            return [self._request(upload, wall)]
        upload.items.append(decode_item(message))
        return self._continue_upload(upload, wall)

    def _stray_item(self, message: MavlinkMessage, peer: Peer) -> list[MavlinkMessage]:
        """Answer an item outside any upload: repeat the last answer if it was lost, else reject."""
        kind = message.mission_type
        if self._last is not None and self._last[:2] == (peer, kind):
            count, answer = self._last[2:]
            return [answer] if message.seq == count - 1 else []
        return [_ack(peer, mavlink.MAV_MISSION_ERROR, kind)]

    def _continue_upload(self, upload: Upload, wall: int) -> list[MavlinkMessage]:
        """Request the next item, or store the complete upload."""
        if len(upload.items) < upload.count:
            return [self._request(upload, wall)]
        store, kind = self._store, upload.kind
        store.upload = None
        fault = self._infinite_value(upload) or store.store(kind, tuple(upload.items))
        if fault is None:
            answer = _ack(upload.peer, mavlink.MAV_MISSION_ACCEPTED, kind, store.identity(kind))
        else:
            answer = _ack(upload.peer, fault.result, kind)
        self._last = (upload.peer, kind, upload.count, answer)
        return [answer]

    def _infinite_value(self, upload: Upload) -> MissionFault | None:
        for item in upload.items:
            values = (item.param1, item.param2, item.param3, item.param4, item.x, item.y, item.z)
            for index, value in enumerate(values):
                if math.isinf(value):
                    reason = f"item {item.seq}: parameter {index + 1} is infinite"
                    self._store.commander.send_text(mavlink.MAV_SEVERITY_CRITICAL, reason)
                    return MissionFault(item.seq, mavlink.MAV_MISSION_INVALID_PARAM1 + index, reason)
        return None

    def _request(self, upload: Upload, wall: int) -> MavlinkMessage:
        upload.requested_at = wall
        return mavlink.MAVLink_mission_request_int_message(*upload.peer, len(upload.items), upload.kind)

    def _on_ack(self, message: MavlinkMessage, peer: Peer, wall: int) -> list[MavlinkMessage]:
        upload = self._own_upload()
        if upload is None or upload.peer != peer or upload.kind != message.mission_type:
            return []  # end of a download, which is stateless
        upload.received_at = wall
        if message.type != mavlink.MAV_MISSION_ACCEPTED:
            self._store.upload = None  # cancelled
        return []

    def _on_clear_all(self, message: MavlinkMessage, peer: Peer, wall: int) -> list[MavlinkMessage]:
        kind = message.mission_type
        kinds = tuple(NAMES) if kind == ALL else (kind,)
        if not set(kinds) <= set(NAMES):
            return [_ack(peer, mavlink.MAV_MISSION_UNSUPPORTED, kind)]
        upload = self._own_upload()
        if upload is not None and wall - upload.received_at <= UPLOAD_TIMEOUT:
            self._store.commander.send_text(mavlink.MAV_SEVERITY_CRITICAL, "WPM: IGN CLEAR CMD: Busy")
            return []
        for each in kinds:
            fault = self._store.store(each, ())
            if fault is not None:
                return [_ack(peer, fault.result, kind)]
        return [_ack(peer, mavlink.MAV_MISSION_ACCEPTED, kind)]

    # ------------------------------------------------------------------ download

    def _on_request_list(self, message: MavlinkMessage, peer: Peer, _wall: int) -> list[MavlinkMessage]:
        kind = message.mission_type
        if kind not in NAMES:
            return [_ack(peer, mavlink.MAV_MISSION_UNSUPPORTED, kind)]
        count = len(self._store.items(kind))
        return [
            mavlink.MAVLink_mission_count_message(
                target_system=peer[0],
                target_component=peer[1],
                count=count,
                mission_type=kind,
                opaque_id=self._store.identity(kind),
            )
        ]

    def _on_request(self, message: MavlinkMessage, peer: Peer, _wall: int) -> list[MavlinkMessage]:
        kind = message.mission_type
        if kind not in NAMES:
            return [_ack(peer, mavlink.MAV_MISSION_UNSUPPORTED, kind)]
        items = self._store.items(kind)
        if message.seq >= len(items):
            return [_ack(peer, mavlink.MAV_MISSION_INVALID_SEQUENCE, kind)]
        current = kind == MISSION and message.seq == self._store.commander.flight.current
        return [encode_item(items[message.seq], peer, current=current)]

    def _on_set_current(self, message: MavlinkMessage, _peer: Peer, _wall: int) -> list[MavlinkMessage]:
        # MAVSDK repeats its request at once after an answer that names another item: name the one that became
        # current even if it is executed already; for one that does not exist there is only a text, as in PX4.
        if self._store.commander.flight.set_current(message.seq):
            return [self.current(message.seq)]
        self._store.commander.send_text(mavlink.MAV_SEVERITY_ERROR, f"The mission has no item {message.seq}")
        return []


def _peer(message: MavlinkMessage) -> Peer:
    return message.get_srcSystem(), message.get_srcComponent()


def _ack(peer: Peer, result: int, kind: int, identity: int = 0) -> MavlinkMessage:
    return mavlink.MAVLink_mission_ack_message(
        target_system=peer[0],
        target_component=peer[1],
        type=result,
        mission_type=kind,
        opaque_id=identity,
    )


def decode_item(message: MavlinkMessage) -> MissionItem:
    """Return the item of a MISSION_ITEM_INT."""
    scale = _scale(message.frame)
    x, y = (math.nan if value == NOT_SET else value / scale for value in (message.x, message.y))
    return MissionItem(
        seq=message.seq,
        frame=message.frame,
        command=message.command,
        current=bool(message.current),
        autocontinue=bool(message.autocontinue),
        param1=message.param1,
        param2=message.param2,
        param3=message.param3,
        param4=message.param4,
        x=x,
        y=y,
        z=message.z,
        mission_type=message.mission_type,
    )


def encode_item(item: MissionItem, peer: Peer, *, current: bool) -> MavlinkMessage:
    """Return MISSION_ITEM_INT for an item."""
    head = (*peer, item.seq, item.frame, item.command, int(current), int(item.autocontinue))
    params = (item.param1, item.param2, item.param3, item.param4)
    scale = _scale(item.frame)
    x, y = (round(value * scale) if math.isfinite(value) else NOT_SET for value in (item.x, item.y))
    return mavlink.MAVLink_mission_item_int_message(*head, *params, x, y, item.z, item.mission_type)


def _scale(frame: int) -> float:
    return 1e7 if frame in commands.POSITION_FRAMES else 1.0  # degE7, or whole numbers as they are
