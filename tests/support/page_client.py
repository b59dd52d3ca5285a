"""A browser's end of a page of viser: what the page shows, and what its user does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec.msgpack
import numpy as np
import viser
import zstandard
from websockets.sync.client import connect
from websockets.typing import Origin, Subprotocol

LIMIT = 60.0
"""s of wall time for a message of the page."""
CAMERA = {
    "wxyz": (1.0, 0.0, 0.0, 0.0),
    "position": (0.0, 0.0, 1.0),
    "fov": 1.0,
    "near": 0.01,
    "far": 1000.0,
    "image_height": 600,
    "image_width": 800,
    "look_at": (0.0, 0.0, 0.0),
    "up_direction": (0.0, 0.0, 1.0),
}


class PageClient:
    """Connects to a page of this machine.

    Attributes:
        gui: properties of each element by its number, ``value`` among them.
        scene: properties of what is drawn, by its name.
    """

    def __init__(self, port: int) -> None:
        self._connection = connect(
            f"ws://127.0.0.1:{port}",
            origin=Origin(f"http://127.0.0.1:{port}"),
            subprotocols=[Subprotocol(f"viser-v{viser.__version__}")],
            max_size=None,
        )
        self.gui: dict[str, dict[str, Any]] = {}
        self.scene: dict[str, dict[str, Any]] = {}
        self._say("ViewerCameraMessage", **CAMERA)  # viser counts a client from its first camera on

    def close(self) -> None:
        """Leave the page."""
        self._connection.close()

    def take(self, until: Callable[[], object]) -> None:
        """Take what the page sends, until a condition holds."""
        end = time.monotonic() + LIMIT
        while not until():
            for message in _messages(self._connection.recv(timeout=max(0.0, end - time.monotonic()))):
                self._note(message)

    def element(self, label: str) -> dict[str, Any]:
        """The properties of the first element with a label; empty before the page has sent it."""
        return self.gui.get(self._find(label), {})

    def has(self, text: str) -> bool:
        """Whether a text stands on the page."""
        return any(text in shown for shown in self.texts())

    def texts(self) -> list[str]:
        """The texts between the page's elements, Markdown."""
        return [one["_markdown"] for one in self.gui.values() if "_markdown" in one]

    def set(self, label: str, value: object) -> None:
        """Give the first element with a label another value; True for a button is a click."""
        self.take(lambda: self._find(label))
        self._say("GuiUpdateMessage", uuid=self._find(label), updates={"value": value})

    def click(self, origin: tuple[float, ...], direction: tuple[float, ...]) -> None:
        """Click into the scene with Ctrl, along a ray."""
        self._say(
            "ScenePointerMessage", event_type="click", ray_origin=origin, ray_direction=direction,
            screen_pos=((0.5, 0.5),), modifier="cmd/ctrl",
        )  # fmt: skip

    def _find(self, label: str) -> str:
        return next((uuid for uuid, shown in self.gui.items() if shown.get("label") == label), "")

    def _say(self, kind: str, **fields: object) -> None:
        self._connection.send(msgspec.msgpack.encode({"type": kind, **fields}))

    def _note(self, message: dict[str, Any]) -> None:
        kind, given = message["type"], message.get("props") or message.get("updates") or {}
        value = {"value": message["value"]} if "value" in message else {}
        if kind == "GuiRemoveMessage":
            self.gui.pop(message["uuid"], None)
        elif kind == "RemoveSceneNodeMessage":
            self.scene.pop(message["name"], None)
        elif "uuid" in message and kind.startswith("Gui"):
            self.gui.setdefault(message["uuid"], {}).update(given | value)
        elif "name" in message:
            self.scene.setdefault(message["name"], {}).update(given)


def _messages(data: str | bytes) -> Iterator[dict[str, Any]]:
    """The messages of a window: compressed, with arrays as bytes behind them."""
    assert isinstance(data, bytes)
    size, packed = (int.from_bytes(data[at : at + 8], "little") for at in (0, 8))
    window = msgspec.msgpack.decode(
        zstandard.ZstdDecompressor().decompress(data[16 : 16 + packed], max_output_size=size)
    )
    places, at = [], 16 + packed
    for length in window["binaryBufferLengths"]:
        at += -at % 8
        places.append(data[at : at + length])
        at += length

    def whole(value: Any) -> Any:
        if isinstance(value, dict):
            if "__binary_index" in value:
                return np.frombuffer(places[value["__binary_index"]], value["dtype"])
            return {key: whole(entry) for key, entry in value.items()}
        return [whole(entry) for entry in value] if isinstance(value, list) else value

    yield from (whole(message) for message in window["messages"])
