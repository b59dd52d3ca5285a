"""The process of the stream for Foxglove: it follows the recording and serves its topics over a WebSocket.

The topics are those of an exported MCAP file.  Its priority is low; without a subscriber it requests nothing.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import foxglove
from foxglove import Channel
from foxglove.websocket import Capability, ServerListener, WebSocketServer

from sitl_bridge.analysis.export.drawn_messages import MARKERS, marker_messages
from sitl_bridge.analysis.export.mcap_file import RosChannels
from sitl_bridge.analysis.export.ros_topics import (
    RosMessages,
    base_link,
    ros_messages,
    ros_name,
    topic_types,
)
from sitl_bridge.analysis.export.seen_samples import image_message
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.system.launch import lower_priority
from sitl_bridge.live.run.client_link import Picture, PictureRequest, RowsRequest, Sent
from sitl_bridge.live.view.pictures import unpack_picture
from sitl_bridge.live.view.run_link import RunLink, quit_now
from sitl_bridge.live.view.viewed_run import Camera, ViewedRun
from sitl_bridge.record.followed_steps import StepFollower

INTERVAL = 0.05
"""s of wall time between two looks at the recording."""
IDLE = 0.2
"""s of wall time between two looks for a subscriber."""
PICTURE_INTERVAL = 0.2
"""s of wall time between two pictures of a camera."""
BACKLOG = 1 << 15
"""Messages that wait for a client: half a second of nine vehicles at 10 x real time, and more of one; beyond
them the oldest are dropped."""
MOST_ROWS = 20_000
"""Rows that are sent at a time; earlier ones are left out."""


def camera_topic(camera: Camera) -> str:
    """Topic of a camera's pictures."""
    return f"/{ros_name(camera.vehicle)}/{ros_name(camera.sensor)}/image"


class _Subscribers(ServerListener):
    """Sends the markers when somebody subscribes to them."""

    def __init__(self, channel: Channel, markers: list[RosMessages]) -> None:
        self._channel, self._markers = channel, markers

    def on_subscribe(self, client: Any, channel: Any) -> None:
        """Called by the server's thread."""
        del client
        if channel.topic == MARKERS:
            for one in self._markers:
                self._channel.log(one.data[0].tobytes(), log_time=int(one.time[0]))


class FoxgloveStream:
    """Serves a running simulation until it is stopped.

    Args:
        on_end: as of ``RunLink``.

    Raises:
        UserError: if the run cannot be read.
    """

    def __init__(
        self, descriptor: int, host: str, port: int, directory: Path, on_end: Callable[[], None] = quit_now
    ) -> None:
        run = self._run = ViewedRun(directory)
        self._host, self._port = host, port
        self._pictures: list[Picture] = []
        self._link = RunLink(descriptor, directory, run.names, on_message=self._take, on_end=on_end)
        recorded = run.recorded
        self._steps = StepFollower(directory, len(run.names), recorded.start, recorded.step, MOST_ROWS)
        self._cameras = {camera_topic(camera): camera for camera in run.cameras()}
        self._context = foxglove.Context()
        self._ros = RosChannels(self._context)
        self._sensors = [airframe.sensor_records() for airframe in run.airframes]
        types = topic_types(run.names, self._sensors)
        types |= dict.fromkeys(self._cameras, "sensor_msgs/Image")
        self._channels = {topic: self._ros.channel(topic, kind) for topic, kind in types.items()}
        self._session = directory.name
        self._picture_due = 0.0
        self._shown: dict[str, float] = {}

    def _take(self, message: Sent) -> None:
        if isinstance(message, Picture) and message.height:
            self._pictures.append(message)

    def run(self) -> None:
        """Serve until stopped.

        Raises:
            RuntimeError: if the port cannot be opened.
        """
        server = foxglove.start_server(
            name="sitl-bridge",
            host=self._host,
            port=self._port,
            capabilities=[Capability.Time],
            server_listener=_Subscribers(
                self._ros.channel(MARKERS, "visualization_msgs/MarkerArray"), self._markers()
            ),
            context=self._context,
            session_id=self._session,
            message_backlog_size=BACKLOG,
        )
        self._link.notify(f"stream for Foxglove at ws://{self._host}:{self._port}")
        topics: set[str] = set()
        while not self._link.stopped.wait(INTERVAL if topics else IDLE):
            topics = {topic for topic, channel in self._channels.items() if channel.has_sinks()}
            if topics:
                self._link.send(RowsRequest())
                self._request_pictures(topics)
                self._send(topics, server)
            else:
                self._steps.skip()
        self._send(topics, server)
        time.sleep(INTERVAL)  # the clients receive the last messages
        server.stop()
        self._steps.close()

    def _markers(self) -> list[RosMessages]:
        run = self._run.recorded
        try:
            return run.describe(lambda _description: list(marker_messages(run)))
        except UserError as error:
            self._link.notify(f"plan and formation are not shown: {error}")
            return []

    def _request_pictures(self, topics: set[str]) -> None:
        now = time.monotonic()
        if now < self._picture_due:
            return
        self._picture_due = now + PICTURE_INTERVAL
        for topic, camera in self._cameras.items():
            if topic in topics:
                self._link.send(PictureRequest(camera.vehicle, camera.sensor))

    def _send(self, topics: set[str], server: WebSocketServer) -> None:
        part = self._steps.part()
        rotors = [len(airframe.rotors) for airframe in self._run.airframes]
        names, sensors = self._run.names, self._sensors
        self._ros.log(ros_messages(part, names, rotors, 0, len(part.rows), topics=topics, sensors=sensors))
        waiting, self._pictures = self._pictures, []
        for picture in waiting:
            self._publish_picture(picture)
        if len(part.rows):
            server.broadcast_time(int(part.rows["time"][-1]) * 1000)

    def _publish_picture(self, picture: Picture) -> None:
        topic = camera_topic(Camera(picture.vehicle, picture.sensor))
        if self._shown.get(topic) == picture.time:
            return
        self._shown[topic] = picture.time
        frame = f"{base_link(picture.vehicle)}/{ros_name(picture.sensor)}"
        taken = self._run.start * 1000 + round(picture.time * 1e9)
        self._ros.log([image_message(unpack_picture(picture), taken, topic, frame)])


def main() -> None:
    """Run the process: descriptor of the link, host, port, run directory."""
    host, port = sys.argv[2], int(sys.argv[3])
    lower_priority()
    try:
        with contextlib.suppress(KeyboardInterrupt):
            FoxgloveStream(int(sys.argv[1]), host, port, Path(sys.argv[4])).run()
    except UserError as error:
        sys.exit(str(error))
    except RuntimeError as error:
        sys.exit(f"{host}:{port}: {error}")


if __name__ == "__main__":
    main()
