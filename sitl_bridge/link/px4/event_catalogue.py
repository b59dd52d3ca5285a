"""PX4's events: texts from the build's own catalogue for the event numbers that PX4 sends.

The catalogue is ``etc/extras/all_events.json.xz`` of a build (MAVLink's component events metadata, version
2).  The report of health and arming checks has PX4's order: a summary of arming checks, the single checks, a
summary of health.
"""

from __future__ import annotations

import json
import lzma
import re
import struct
from dataclasses import dataclass
from pathlib import Path

from sitl_bridge.base.c_types import CODES
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.json_data import JsonObject

WARNING, DEBUG = 4, 7
"""Log level of the events interface: 0 emergency ... 4 warning, 5 notice, 6 info, 7 debug, 8 protocol."""

LEVELS = ("emergency", "alert", "critical", "error", "warning", "notice", "info", "debug", "protocol", "off")

_PLACEHOLDER = re.compile(r"\{(\d+)(?::\.(\d+))?([^}]*)\}")
_TAG = re.compile(r"<profile.*?</profile>|</?[a-z]+[^>]*>", re.DOTALL)


@dataclass(frozen=True)
class EventText:
    """An event with its text."""

    name: str  # PX4's name
    group: str  # ``default``, ``arming_check``, ``health`` or ``calibration``
    kind: str  # empty for ordinary events, ``summary`` for those that begin or end a report
    level: int  # 0 emergency ... 7 debug, 8 protocol.
    text: str  # the message
    values: tuple[float, ...]  # the arguments


class EventCatalogue:
    """Event definitions of a PX4 build.

    Args:
        path: ``all_events.json.xz`` or the unpacked file.

    Raises:
        UserError: if the file is missing or not an event catalogue.
    """

    def __init__(self, path: Path) -> None:
        try:
            raw = path.read_bytes()
            data = json.loads(lzma.decompress(raw) if path.suffix == ".xz" else raw)
            components = data["components"]
            self._events: dict[int, tuple[JsonObject, str]] = {}
            self._enums: dict[str, JsonObject] = {}
            self._mode_groups: dict[int, int] = {}
            for component, content in components.items():
                self._read_component(int(component), content)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, lzma.LZMAError) as error:
            raise UserError(f"{path}: not an event catalogue of PX4: {error}") from error

    def _read_component(self, component: int, content: JsonObject) -> None:
        for name, enum in content.get("enums", {}).items():
            self._enums[name] = enum
            self._enums[f"{content.get('namespace')}::{name}"] = enum
        for group, entry in content.get("event_groups", {}).items():
            for number, event in entry["events"].items():
                self._events[component << 24 | int(number)] = (event, group)
        for bit, modes in content.get("navigation_mode_groups", {}).get("groups", {}).items():
            for mode in modes:
                self._mode_groups[mode] = 1 << int(bit)

    def mode_bit(self, custom_mode: int) -> int:
        """Return the bit of a mode (HEARTBEAT.custom_mode) in the masks of arming checks; 0 if unknown."""
        return self._mode_groups.get(custom_mode, 0)

    def decode(self, number: int, log_levels: int, arguments: bytes) -> EventText | None:
        """Return an event with its text, or None if the catalogue does not contain it.

        Args:
            number: the event's id, component in the highest byte.
            log_levels: external level in the lower four bits.
            arguments: packed little-endian.
        """
        found = self._events.get(number)
        if found is None:
            return None
        definition, group = found
        values: list[float] = []
        shown: list[str] = []
        offset = 0
        for argument in definition.get("arguments", []):
            kind = argument["type"]
            enum = self._enums.get(kind)
            code = "<" + CODES[enum["type"] if enum else kind]
            size = struct.calcsize(code)
            # MAVLink truncates trailing zeros.
            chunk = arguments[offset : offset + size].ljust(size, b"\0")
            offset += size
            value = struct.unpack(code, chunk)[0]
            values.append(value)
            shown.append(_name(enum, value) if enum else "")
        text = _fill(str(definition.get("message", definition["name"])), values, shown)
        return EventText(
            definition["name"], group, definition.get("type", ""), log_levels & 0x0F, text, tuple(values)
        )


def _name(enum: JsonObject, value: int) -> str:
    entries = enum["entries"]
    if enum.get("is_bitfield"):
        return ", ".join(
            entry["description"] or entry["name"] for bit, entry in entries.items() if value & int(bit)
        )
    entry = entries.get(str(value))
    return (entry["description"] or entry["name"]) if entry else str(value)


def _fill(message: str, values: list[float], shown: list[str]) -> str:
    """Return the message with its placeholders ``{n:.digits unit}`` filled in."""

    def fill(match: re.Match[str]) -> str:
        index = int(match[1]) - 1
        if not 0 <= index < len(values):
            return match[0]
        value = values[index]
        unit = match[3].replace("m_v", "m").replace("m^2", "m²")
        if shown[index]:
            return shown[index]
        number = f"{value:.{match[2]}f}" if match[2] is not None else f"{value:g}"
        return f"{number} {unit}" if unit else number

    return _PLACEHOLDER.sub(fill, _TAG.sub("", message)).replace("\\", "").strip()


@dataclass(frozen=True)
class Check:
    """A failed check: mask of the modes that it prevents, its level and its text."""

    modes: int
    level: int
    text: str


class ArmingReport:
    """The latest complete report of PX4's health and arming checks."""

    def __init__(self) -> None:
        self.known = False
        self.can_arm = 0
        self.checks: tuple[Check, ...] = ()
        self._coming: list[Check] | None = None
        self._coming_can_arm = 0

    def take(self, event: EventText) -> None:
        """Process an event of the groups ``arming_check`` and ``health``; ignore others."""
        if event.group not in ("arming_check", "health"):
            return
        if event.kind == "summary" and event.group == "arming_check":
            self._coming = []
            self._coming_can_arm = int(event.values[3])
        elif self._coming is None:
            return  # the beginning of this report was not received
        elif event.kind == "summary":
            self.checks = tuple(self._coming)
            self.can_arm = self._coming_can_arm
            self.known = True
            self._coming = None
        elif event.values:
            self._coming.append(Check(int(event.values[0]), event.level, event.text))

    def reasons(self, mode_bit: int) -> list[str]:
        """Return the reasons that prevent arming in the mode with this bit, each once."""
        if not self.known or self.can_arm & mode_bit:
            return []
        texts = [c.text for c in self.checks if (c.modes & mode_bit or not mode_bit) and c.level <= WARNING]
        return list(dict.fromkeys(texts))
