"""The process of the stream for Foxglove: it follows the recording and serves its topics over a WebSocket.

The topics are those of an exported MCAP file.  Its priority is low; without a subscriber it requests nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from pathlib import Path

from sitl_bridge.analysis.export.ros_definitions import schema_name, schema_text
from sitl_bridge.analysis.export.ros_topics import (
    SENSORS,
    RosMessages,
    base_link,
    motion_topics,
    motor_command_topic,
    ros_messages,
    ros_name,
    rotor_topic,
    sensor_topic,
)
from sitl_bridge.analysis.export.scene_messages import SCENE_SCHEMA, SCENE_TOPIC
from sitl_bridge.analysis.export.seen_samples import image_message
from sitl_bridge.base.errors import UserError
from sitl_bridge.core.sensors.records import KIND_NAMES
from sitl_bridge.live.bus.broker import lower_priority
from sitl_bridge.live.bus.client_link import Picture, PictureRequest, RowsRequest, Sent
from sitl_bridge.live.bus.topics import Topics, topic_name
from sitl_bridge.live.view.foxglove_server import Channel, FoxgloveServer
from sitl_bridge.live.view.pictures import unpacked
from sitl_bridge.live.view.run_link import RunLink
from sitl_bridge.live.view.viewed_run import Camera, ViewedRun
from sitl_bridge.record.followed_steps import StepFollower

INTERVAL = 0.05
"""s of wall time between two looks at the recording."""
IDLE = 0.2
"""s of wall time between two looks for a subscriber."""
PICTURE_INTERVAL = 0.2
"""s of wall time between two pictures of a camera."""
MOST_ROWS = 20_000
"""Rows that are sent at a time; earlier ones are left out."""


def camera_topic(camera: Camera) -> str:
    """Topic of a camera's pictures."""
    return f"/{ros_name(camera.vehicle)}/{ros_name(camera.sensor)}/image"


def channels_of(run: ViewedRun) -> list[Channel]:
    """All topics of a run."""
    types: dict[str, str] = {}
    for name, airframe in zip(run.names, run.airframes, strict=True):
        types |= {topic: kind for topic, (kind, _) in motion_topics(name).items()}
        types[motor_command_topic(name)] = "actuator_msgs/Actuators"
        types[rotor_topic(name)] = "sensor_msgs/JointState"
        for sensor in airframe.sensor_records():
            kind = KIND_NAMES[int(sensor["kind"])]
            if kind in SENSORS:
                types[sensor_topic(name, kind, int(sensor["instance"]))] = SENSORS[kind][1]
    types |= {camera_topic(camera): "sensor_msgs/Image" for camera in run.cameras()}
    made = [Channel(topic, schema_name(kind), schema_text(kind)) for topic, kind in types.items()]
    drawings = tuple((time, json.dumps(drawing).encode()) for time, drawing in run.drawings())
    schema = json.dumps(SCENE_SCHEMA)
    return [*made, Channel(SCENE_TOPIC, "foxglove.SceneUpdate", schema, "jsonschema", "json", drawings)]


class FoxgloveStream:
    """Serves a running simulation until it is stopped.

    Args:
        descriptor: of the link.
        host, port: to listen on.
        directory: of the run.

    Raises:
        UserError: if the run cannot be read.
    """

    def __init__(self, descriptor: int, host: str, port: int, directory: Path) -> None:
        run = self._run = ViewedRun(directory)
        self._host, self._port = host, port
        topics = Topics(topic_name(directory.name), run.names)
        self._pictures: list[Picture] = []
        self._link = RunLink(descriptor, topics, on_message=self._take)
        recorded = run.recorded
        self._steps = StepFollower(directory, len(run.names), recorded.start, recorded.step, MOST_ROWS)
        self._cameras = {camera_topic(camera): camera for camera in run.cameras()}
        self._server = FoxgloveServer(
            host, port, name="sitl-bridge", session=directory.name, channels=channels_of(run)
        )
        self._picture_due = 0.0
        self._shown: dict[str, float] = {}

    def _take(self, message: Sent) -> None:
        if isinstance(message, Picture) and message.height:
            self._pictures.append(message)

    async def run(self) -> None:
        """Serve until stopped.

        Raises:
            OSError: if the port cannot be opened.
        """
        async with self._server:
            self._link.notify(f"stream for Foxglove at ws://{self._host}:{self._port}")
            while not self._link.stopped.is_set():
                topics = self._server.topics
                await asyncio.sleep(INTERVAL if topics else IDLE)
                if self._server.clients:
                    self._link.send(RowsRequest())
                    self._request_pictures(topics)
                    self._send(topics)
                else:
                    self._steps.skip()
            self._send(self._server.topics)
            await asyncio.sleep(INTERVAL)  # the clients receive the last messages
        self._steps.close()

    def _request_pictures(self, topics: set[str]) -> None:
        now = asyncio.get_running_loop().time()
        if now < self._picture_due:
            return
        self._picture_due = now + PICTURE_INTERVAL
        for topic, camera in self._cameras.items():
            if topic in topics:
                self._link.send(PictureRequest(camera.vehicle, camera.sensor))

    def _send(self, topics: set[str]) -> None:
        part = self._steps.part()
        rotors = [len(airframe.rotors) for airframe in self._run.airframes]
        rows = len(part.rows)
        for messages in ros_messages(part, self._run.names, rotors, 0, rows, topics=topics):
            self._publish(messages)
        waiting, self._pictures = self._pictures, []
        for picture in waiting:
            self._publish_picture(picture)
        if len(part.rows):
            self._server.publish_time(int(part.rows["time"][-1]) * 1000)

    def _publish(self, messages: RosMessages) -> None:
        data = messages.data.tobytes()
        size = messages.data.shape[1]
        parts = (data[k * size : (k + 1) * size] for k in range(len(messages.time)))
        self._server.publish(messages.topic, list(zip(messages.time.tolist(), parts, strict=True)))

    def _publish_picture(self, picture: Picture) -> None:
        topic = camera_topic(Camera(picture.vehicle, picture.sensor))
        if self._shown.get(topic) == picture.time:
            return
        self._shown[topic] = picture.time
        frame = f"{base_link(picture.vehicle)}/{ros_name(picture.sensor)}"
        time = self._run.start * 1000 + round(picture.time * 1e9)
        self._publish(image_message(unpacked(picture), time, topic, frame))


def main() -> None:
    """Run the process: descriptor of the link, host, port, run directory."""
    host, port = sys.argv[2], int(sys.argv[3])
    lower_priority()
    try:
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(FoxgloveStream(int(sys.argv[1]), host, port, Path(sys.argv[4])).run())
    except UserError as error:
        sys.exit(str(error))
    except OSError as error:
        sys.exit(f"{host}:{port} cannot be opened: {error.strerror or error}")


if __name__ == "__main__":
    main()
