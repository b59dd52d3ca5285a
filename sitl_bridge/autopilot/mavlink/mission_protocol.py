"""The mission protocol: missions, fences and rally points up and down, with losses, repeats and wrong orders.

Answers to a download need no memory, so any number of partners may read.  Uploads go one at a time over all
links; a second partner is refused.  Retries and time-outs run on the partners' clock (``wall``), for it is
they who answer; at a hundred times real time a quarter of a simulated second is shorter than any answer.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sitl_bridge.autopilot.commander import Commander
from sitl_bridge.autopilot.modes.mission_items import (
    FENCE,
    MAX_ITEMS,
    MISSION,
    RALLY,
    MissionFault,
    MissionItem,
)
from sitl_bridge.mavlink import common as mavlink
from sitl_bridge.mavlink.decoder import AUTOPILOT

RETRY = 250_000
"""us without an item before it is asked for again (mavlink_mission.h)."""

GIVE_UP = 5_000_000
"""us without a word from the partner before an upload is given up (mavlink_mission.h)."""

ALL = mavlink.MAV_MISSION_TYPE_ALL
NAMES = {MISSION: "Mission", FENCE: "Geofence", RALLY: "Rally points"}

DEGREES = frozenset({0, 3, 5, 6, 10, 11})
"""MAV_FRAMEs with latitude and longitude, sent in 1e-7 deg."""

MISSION_FRAME = mavlink.MAV_FRAME_MISSION
LOCAL_SCALE = 1e4
"""Local positions are sent in units of 0.1 mm (common.xml, MISSION_ITEM_INT)."""

NOT_SET = 2**31 - 1
"""INT32_MAX for a coordinate that is not given."""

Partner = tuple[int, int]
"""System and component."""


@dataclass
class Upload:
    """An upload in progress.

    Attributes:
        owner: the protocol object (so, the link) it comes over.
        partner: who sends.
        kind: MAV_MISSION_TYPE.
        count: of items to come.
        items: that have come.
        integer: whether items are asked for with MISSION_REQUEST_INT.
        asked: wall us of the last request.
        heard: wall us of the last message of the partner.
    """

    owner: MissionProtocol
    partner: Partner
    kind: int
    count: int
    asked: int
    heard: int
    integer: bool = True
    items: list[MissionItem] = field(default_factory=list)


class MissionStore:
    """What all links of a vehicle share: the items in force, and the one upload there may be.

    Args:
        commander: takes and holds the items.
        say: sends a status text to everybody: MAV_SEVERITY, text.
    """

    def __init__(self, commander: Commander, send_text: Callable[[int, str], None]) -> None:
        self.commander = commander
        self.send_text = send_text
        self.upload: Upload | None = None
        self._identified: dict[int, tuple[tuple[MissionItem, ...], int]] = {}

    def items(self, kind: int) -> tuple[MissionItem, ...]:
        """Items in force."""
        commander = self.commander
        items = {MISSION: commander.mission, FENCE: commander.fence, RALLY: commander.rally}[kind]
        return tuple(items)

    def store(self, kind: int, items: Sequence[MissionItem]) -> MissionFault | None:
        """Hand items to the commander, which sends a text if they are faulty."""
        commander = self.commander
        setter = {MISSION: commander.set_mission, FENCE: commander.set_fence, RALLY: commander.set_rally}[
            kind
        ]
        return setter(items)

    def identity(self, kind: int) -> int:
        """Opaque id of the items in force; 0 where there are none."""
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
    """The protocol on one link.

    Args:
        store: shared by all links of the vehicle.
    """

    def __init__(self, store: MissionStore) -> None:
        self._store = store
        self._last: tuple[Partner, int, int, Any] | None = None  # partner, kind, count, answer of an upload
        self._handlers = {
            "MISSION_COUNT": self._on_count,
            "MISSION_ITEM_INT": self._on_item,
            "MISSION_ITEM": self._on_item,
            "MISSION_ACK": self._on_ack,
            "MISSION_REQUEST_LIST": self._on_request_list,
            "MISSION_REQUEST_INT": self._on_request,
            "MISSION_REQUEST": self._on_request,
            "MISSION_CLEAR_ALL": self._on_clear_all,
            "MISSION_SET_CURRENT": self._on_set_current,
        }

    def handle(self, message: Any, wall: int) -> list[Any]:
        """Answer a message of the protocol that is meant for this vehicle.

        Args:
            message: one of MISSION_*.
            wall: us of the partners' clock.
        """
        handler = self._handlers.get(message.get_type())
        return handler(message, _partner(message), wall) if handler is not None else []

    def poll(self, wall: int) -> list[Any]:
        """Ask again for an item that does not come, or give its upload up."""
        upload = self._own_upload()
        if upload is None:
            return []
        if wall - upload.heard > GIVE_UP:
            self._store.upload = None
            name = NAMES[upload.kind]
            self._store.send_text(
                mavlink.MAV_SEVERITY_ERROR,
                f"{name} upload given up: item {len(upload.items)} of {upload.count} did not come",
            )
            return [_ack(upload.partner, mavlink.MAV_MISSION_OPERATION_CANCELLED, upload.kind)]
        return [self._request(upload, wall)] if wall - upload.asked > RETRY else []

    def current(self) -> Any:
        """MISSION_CURRENT."""
        store = self._store
        total = len(store.commander.mission)
        return mavlink.MAVLink_mission_current_message(
            seq=max(store.commander.mission_current, 0),
            total=total or 0xFFFF,
            mission_id=store.identity(MISSION),
            fence_id=store.identity(FENCE),
            rally_points_id=store.identity(RALLY),
        )

    # ------------------------------------------------------------------ upload

    def _own_upload(self) -> Upload | None:
        upload = self._store.upload
        return upload if upload is not None and upload.owner is self else None

    def _on_count(self, message: Any, partner: Partner, wall: int) -> list[Any]:
        kind, count = message.mission_type, message.count
        if kind not in NAMES:
            return [_ack(partner, mavlink.MAV_MISSION_UNSUPPORTED, kind)]
        if self._is_busy(partner, wall):
            return [_ack(partner, mavlink.MAV_MISSION_DENIED, kind)]
        if count > MAX_ITEMS[kind]:
            self._store.upload = None
            text = f"{NAMES[kind]} refused: {count} items are more than the {MAX_ITEMS[kind]} that are stored"
            self._store.send_text(mavlink.MAV_SEVERITY_ERROR, text)
            return [_ack(partner, mavlink.MAV_MISSION_NO_SPACE, kind)]
        self._store.upload = Upload(self, partner, kind, count, wall, wall)
        self._last = None
        return self._go_on(self._store.upload, wall)

    def _is_busy(self, partner: Partner, wall: int) -> bool:
        """Whether another partner is in the middle of an upload."""
        upload = self._store.upload
        if upload is None or wall - upload.heard > GIVE_UP:
            return False
        return upload.owner is not self or upload.partner != partner

    def _on_item(self, message: Any, partner: Partner, wall: int) -> list[Any]:
        upload = self._own_upload()
        if upload is None or upload.partner != partner or upload.kind != message.mission_type:
            return self._stray_item(message, partner)
        upload.heard = wall
        upload.integer = message.get_type() == "MISSION_ITEM_INT"
        expected = len(upload.items)
        if message.seq < expected:
            return []  # came twice
        if message.seq > expected:
            return [self._request(upload, wall)]
        upload.items.append(item_of(message))
        return self._go_on(upload, wall)

    def _stray_item(self, message: Any, partner: Partner) -> list[Any]:
        """An item of no upload: the last answer again where that was lost, else a refusal."""
        kind = message.mission_type
        if self._last is not None and self._last[:2] == (partner, kind):
            count, answer = self._last[2:]
            return [answer] if message.seq == count - 1 else []
        return [_ack(partner, mavlink.MAV_MISSION_ERROR, kind)]

    def _go_on(self, upload: Upload, wall: int) -> list[Any]:
        """Ask for the next item, or take the whole over when all have come."""
        if len(upload.items) < upload.count:
            return [self._request(upload, wall)]
        store, kind = self._store, upload.kind
        store.upload = None
        fault = self._infinite(upload) or store.store(kind, tuple(upload.items))
        if fault is None:
            answer = _ack(upload.partner, mavlink.MAV_MISSION_ACCEPTED, kind, store.identity(kind))
        else:
            answer = _ack(upload.partner, fault.result, kind)
        self._last = (upload.partner, kind, upload.count, answer)
        return [answer]

    def _infinite(self, upload: Upload) -> MissionFault | None:
        """The first value that is infinite, which no item can mean."""
        for item in upload.items:
            values = (item.param1, item.param2, item.param3, item.param4, item.x, item.y, item.z)
            for index, value in enumerate(values):
                if math.isinf(value):
                    reason = f"item {item.seq}: parameter {index + 1} is infinite"
                    self._store.send_text(mavlink.MAV_SEVERITY_CRITICAL, reason)
                    return MissionFault(item.seq, mavlink.MAV_MISSION_INVALID_PARAM1 + index, reason)
        return None

    def _request(self, upload: Upload, wall: int) -> Any:
        upload.asked = wall
        make = (
            mavlink.MAVLink_mission_request_int_message
            if upload.integer
            else mavlink.MAVLink_mission_request_message
        )
        return make(*upload.partner, len(upload.items), upload.kind)

    def _on_ack(self, message: Any, partner: Partner, wall: int) -> list[Any]:
        upload = self._own_upload()
        if upload is None or upload.partner != partner or upload.kind != message.mission_type:
            return []  # the end of a download, of which nothing is kept
        upload.heard = wall
        if message.type == mavlink.MAV_MISSION_UNSUPPORTED:
            # The partner does not know the one kind of request (MAVLink guide, "Mission Protocol").
            upload.integer = not upload.integer
            return [self._request(upload, wall)]
        if message.type != mavlink.MAV_MISSION_ACCEPTED:
            self._store.upload = None  # cancelled
        return []

    def _on_clear_all(self, message: Any, partner: Partner, wall: int) -> list[Any]:
        kind = message.mission_type
        kinds = tuple(NAMES) if kind == ALL else (kind,)
        if not set(kinds) <= set(NAMES):
            return [_ack(partner, mavlink.MAV_MISSION_UNSUPPORTED, kind)]
        if self._is_busy(partner, wall):
            return [_ack(partner, mavlink.MAV_MISSION_DENIED, kind)]
        self._store.upload = None
        for each in kinds:
            fault = self._store.store(each, ())
            if fault is not None:
                return [_ack(partner, fault.result, kind)]
        return [_ack(partner, mavlink.MAV_MISSION_ACCEPTED, kind)]

    # ------------------------------------------------------------------ download

    def _on_request_list(self, message: Any, partner: Partner, _wall: int) -> list[Any]:
        kind = message.mission_type
        if kind not in NAMES:
            return [_ack(partner, mavlink.MAV_MISSION_UNSUPPORTED, kind)]
        count = len(self._store.items(kind))
        return [
            mavlink.MAVLink_mission_count_message(
                target_system=partner[0],
                target_component=partner[1],
                count=count,
                mission_type=kind,
                opaque_id=self._store.identity(kind),
            )
        ]

    def _on_request(self, message: Any, partner: Partner, _wall: int) -> list[Any]:
        kind = message.mission_type
        if kind not in NAMES:
            return [_ack(partner, mavlink.MAV_MISSION_UNSUPPORTED, kind)]
        items = self._store.items(kind)
        if message.seq >= len(items):
            return [_ack(partner, mavlink.MAV_MISSION_INVALID_SEQUENCE, kind)]
        current = kind == MISSION and message.seq == self._store.commander.mission_current
        integer = message.get_type() == "MISSION_REQUEST_INT"
        return [message_of(items[message.seq], partner, current=current, integer=integer)]

    def _on_set_current(self, message: Any, _partner: Partner, _wall: int) -> list[Any]:
        if not self._store.commander.set_current(message.seq):
            self._store.send_text(
                mavlink.MAV_SEVERITY_ERROR, f"The mission has no item {message.seq} to go to"
            )
        return [self.current()]


def _partner(message: Any) -> Partner:
    return message.get_srcSystem(), message.get_srcComponent()


def is_for(message: Any, system_id: int) -> bool:
    """Whether a message names this vehicle's autopilot as its target."""
    return message.target_system == system_id and message.target_component in (
        0,
        AUTOPILOT,
        mavlink.MAV_COMP_ID_MISSIONPLANNER,
    )


def _ack(partner: Partner, result: int, kind: int, identity: int = 0) -> Any:
    return mavlink.MAVLink_mission_ack_message(
        target_system=partner[0],
        target_component=partner[1],
        type=result,
        mission_type=kind,
        opaque_id=identity,
    )


def item_of(message: Any) -> MissionItem:
    """The item in a MISSION_ITEM_INT or MISSION_ITEM."""
    x, y = message.x, message.y
    if message.get_type() == "MISSION_ITEM_INT":
        scale = _scale(message.frame)
        x, y = (math.nan if value == NOT_SET else value / scale for value in (x, y))
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


def message_of(item: MissionItem, partner: Partner, *, current: bool, integer: bool) -> Any:
    """MISSION_ITEM_INT, or MISSION_ITEM with its 1 m of resolution, of an item."""
    head = (*partner, item.seq, item.frame, item.command, int(current), int(item.autocontinue))
    params = (item.param1, item.param2, item.param3, item.param4)
    if not integer:
        return mavlink.MAVLink_mission_item_message(*head, *params, item.x, item.y, item.z, item.mission_type)
    scale = _scale(item.frame)
    x, y = (round(value * scale) if math.isfinite(value) else NOT_SET for value in (item.x, item.y))
    return mavlink.MAVLink_mission_item_int_message(*head, *params, x, y, item.z, item.mission_type)


def _scale(frame: int) -> float:
    if frame in DEGREES:
        return 1e7
    return 1.0 if frame == MISSION_FRAME else LOCAL_SCALE
