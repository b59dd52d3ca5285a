"""Video of a camera, as a player receives it."""

from __future__ import annotations

import socket
import sys
import threading
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sitl_bridge.base.errors import UserError
from sitl_bridge.core.sensors.perception.payload_camera import PayloadCameraSpecification, VideoSpecification
from sitl_bridge.perception.video_stream import CLOCK, VideoStream

SIZE = (160, 120)
RATE = 10.0
MOST = 3000
"""Pictures sent while the player has not received enough."""


def free_port() -> int:
    """An even port with a free odd one behind it."""
    while True:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found:
            found.bind(("127.0.0.1", 0))
            port = int(found.getsockname()[1])
        if port % 2 == 0:
            return port


def picture(k: int) -> NDArray[np.uint8]:
    """A bright square on a gradient, whose place goes with ``k``."""
    image = np.empty((SIZE[1], SIZE[0], 3), np.uint8)
    image[:] = np.linspace(40, 120, SIZE[0])[None, :, None]
    x = 8 * (k % 16)
    image[40:64, x : x + 24] = (220, 60, 60)
    return image


class Player:
    """Receives pictures by the session's description, as a media player does."""

    def __init__(self, description: Path, count: int) -> None:
        self.pictures: list[tuple[float, NDArray[Any]]] = []
        self._description, self._count = description, count
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._play, daemon=True)
        self.thread.start()

    def _play(self) -> None:
        import av

        options = {"protocol_whitelist": "file,rtp,udp"}
        with av.open(str(self._description), options=options, timeout=60.0) as stream:
            for frame in stream.decode(video=0):
                if frame.pts is None or frame.time_base is None:
                    continue  # the first has no time yet
                self.pictures.append((float(frame.pts * frame.time_base), frame.to_ndarray(format="rgb24")))
                if len(self.pictures) >= self._count:
                    break
        self.done.set()


def test_a_player_shows_the_pictures_that_were_sent_in_simulated_time(tmp_path: Path) -> None:
    pytest.importorskip("av")
    video = VideoSpecification(port=free_port(), bitrate=4.0)
    complaints: list[str] = []
    description = tmp_path / "a.sdp"
    stream = VideoStream(video, SIZE, RATE, description=description, name="a", report=complaints.append)
    player = Player(description, 25)
    sent = 0
    while not player.done.wait(0.01) and sent < MOST:
        stream.put(round(sent * 1e6 / RATE), picture(sent))
        sent += 1
    stream.close()
    assert complaints == []
    assert len(player.pictures) == 25
    times = np.array([time for time, _ in player.pictures])
    assert np.diff(times) == pytest.approx(1.0 / RATE, abs=2.0 / CLOCK)
    errors = [
        [np.abs(shown.astype(float) - picture(k)).mean() for k in range(16)] for _, shown in player.pictures
    ]
    found = np.argmin(errors, axis=1)
    assert np.diff(found) % 16 == pytest.approx(1)
    assert np.min(errors, axis=1).max() < 6.0


def test_without_pyav_one_message_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(UserError, match=r"pip install 'sitl-bridge\[video\]'"):
        VideoStream(VideoSpecification(), SIZE, RATE, description=None, name="a", report=lambda _line: None)


def test_odd_ports_and_odd_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="even ports"):
        VideoSpecification(port=5601)
    values: dict[str, Any] = {"kind": "payload_camera", "video": VideoSpecification()}
    with pytest.raises(ValueError, match="even width"):
        PayloadCameraSpecification(**values, width=63)
    assert PayloadCameraSpecification(**values).continuous
    assert Fraction(1, CLOCK) * CLOCK == 1
