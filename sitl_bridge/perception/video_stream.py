"""Video of a camera as H.264 over RTP, which QGroundControl and other players show.

A picture is sent when it is delivered in simulated time, and RTP's time stamps are simulated time.  So the
video runs as fast as simulated time does.  Parameter sets are repeated with every key frame, once a second of
the video, and a player may join at any time.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.base.errors import UserError
from sitl_bridge.base.output_file import write_whole
from sitl_bridge.core.sensors.perception.payload_camera import VideoSpecification
from sitl_bridge.perception.background_writer import BackgroundWriter

CLOCK = 90_000
"""Hz of RTP's time stamps for H.264 (RFC 6184)."""
PACKET = 1400
"""Bytes of a packet, at most."""
WAITING = 4
"""Pictures that wait to be encoded; simulated time waits when there are more."""
HOST = "127.0.0.1"
EXTRA = "video needs PyAV, which is not installed: run  pip install 'sitl-bridge[video]'"


def session_description(video: VideoSpecification, name: str) -> str:
    """The stream for players that open a file (SDP, RFC 8866)."""
    lines = [
        "v=0",
        f"o=- 0 0 IN IP4 {HOST}",
        f"s={name}",
        f"c=IN IP4 {HOST}",
        "t=0 0",
        f"m=video {video.port} RTP/AVP 96",
        f"a=rtpmap:96 H264/{CLOCK}",
        "a=fmtp:96 packetization-mode=1",
    ]
    return "".join(f"{line}\r\n" for line in lines)


class VideoStream:
    """Encodes and sends pictures on a thread of its own.

    Args:
        video: where to, and how.
        size: pixels, width and height.
        rate: pictures a second.
        description: file for players; None writes none.
        name: of the camera.
        report: takes one sentence when the stream ends early, on the thread of ``put`` or ``close``.

    Raises:
        UserError: without PyAV, or when the stream cannot be opened.
    """

    def __init__(
        self,
        video: VideoSpecification,
        size: tuple[int, int],
        rate: float,
        *,
        description: Path | None,
        name: str,
        report: Callable[[str], None],
    ) -> None:
        try:
            import av
        except ImportError as error:
            raise UserError(EXTRA) from error
        self._sent = -1
        """RTP time of the last picture."""
        self._from_ndarray: Any = av.VideoFrame.from_ndarray
        address = f"rtp://{HOST}:{video.port}?localaddr={HOST}&pkt_size={PACKET}"
        try:
            self._output: Any = av.open(address, "w", format="rtp")
            self._stream: Any = self._output.add_stream(
                "libx264", rate=Fraction(rate).limit_denominator(1000)
            )
        except (av.error.FFmpegError, OSError, ValueError) as error:
            raise UserError(f"video of {name}: {address} cannot be opened: {error}") from error
        self._stream.width, self._stream.height = size
        self._stream.pix_fmt = "yuv420p"
        self._stream.bit_rate = round(video.bitrate * 1e6)
        self._stream.time_base = self._stream.codec_context.time_base = Fraction(1, CLOCK)
        self._stream.codec_context.gop_size = max(1, round(rate))
        self._stream.options = {
            "preset": "ultrafast",
            "tune": "zerolatency",
            "threads": "1",
            "x264-params": "repeat-headers=1",
        }
        if description is not None:
            description.parent.mkdir(parents=True, exist_ok=True)
            write_whole(description, session_description(video, name))
        self._writer: BackgroundWriter[tuple[int, NDArray[np.generic]]] = BackgroundWriter(
            f"video of {name}", WAITING, work=self._send, end=self._end, fault_of=_fault_of, report=report
        )

    def put(self, time: int, image: NDArray[np.generic]) -> None:
        """Send a picture, (h, w) or (h, w, 3) of 8 bit, of a time in us; it must not change afterwards."""
        self._writer.put((time, image))

    def close(self) -> None:
        """Send what waits, and end; safe to call twice."""
        self._writer.close()

    def _end(self, failed: bool) -> None:
        if not failed:
            self._output.mux(self._stream.encode(None))
        self._output.close()

    def _send(self, picture: tuple[int, NDArray[np.generic]]) -> None:
        time, image = picture
        frame = self._from_ndarray(image, format="rgb24" if image.ndim == 3 else "gray")
        stamp = max(time * CLOCK // 1_000_000, self._sent + 1)
        self._sent = frame.pts = stamp
        frame.time_base = Fraction(1, CLOCK)
        for packet in self._stream.encode(frame):
            self._output.mux(packet)


def _fault_of(error: Exception) -> str | None:
    import av

    expected = isinstance(error, av.error.FFmpegError | OSError | ValueError)
    return f"the video ends: {error}" if expected else None
