"""Commands of ROS nodes to a run, as commands of the bus: arming, take-off, landing, twists, poses, wind.

Twists are in ``base_link``'s axes at the vehicle's heading and poses in ``map`` (REP 103 and 105).  All are
topics, which every middleware carries; services are not: each middleware has the identity of a request
elsewhere, rmw_fastrtps in a parameter of the sample that Cyclone DDS neither reads nor writes.  What became
of a command is said on ``/answers``; a node of the user's own can offer services on top of the two.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from pydantic import ValidationError

from sitl_bridge.analysis.export.ros_topics import WORLD, begin_messages, frame, ros_name
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.json_data import JsonObject
from sitl_bridge.base.rotations import heading
from sitl_bridge.live.ros2.participant import Participant
from sitl_bridge.live.run.command_queue import Order, commands_for, faults_of
from sitl_bridge.live.run.execution import Execution
from sitl_bridge.live.run.messages import LARGEST, VERSION
from sitl_bridge.live.run.outlet import RunContext
from sitl_bridge.live.run.topics import Address

if TYPE_CHECKING:
    from cyclonedds.idl import IdlStruct

ANSWERS = "/answers"
"""Topic with what became of each command, as JSON."""
PLAIN: dict[str, tuple[str, str, str | None]] = {
    "arm": ("std_msgs/Bool", "arm", "armed"),
    "take_off": ("std_msgs/Float64", "takeoff", "height"),
    "land": ("std_msgs/Empty", "land", None),
}
"""Type of the message, command of the bus, and the field that is its ``data``, by the topic's end."""
COMMAND = "std_msgs/String"
"""Type of the messages with any command of the bus, as JSON."""
STREAM = 0.5
"""s of simulated time between twists of one stream, of which the first alone is recorded as a command."""
ONE = np.zeros(1, np.int64)
"""Times of one message without a stamp."""
Done = Callable[[str | None], None]
"""Takes the reason of a refusal; None for a command that was carried out."""


class RosCommands:
    """Takes what nodes ask, and answers."""

    def __init__(self, run: RunContext, participant: Participant) -> None:
        self._run, self._participant = run, participant
        self._execution = Execution(
            run.source, run.on_formation, on_flight=run.on_flight, listener=run.listener
        )
        self._numbers = itertools.count(1)
        self._asked: dict[str, Done] = {}
        self._streams: dict[str, float] = {}
        self._said: set[str] = set()
        participant.advertise(ANSWERS, COMMAND)
        participant.subscribe("/set_wind", "geometry_msgs/Vector3Stamped", self._set_wind)
        self._subscribe_commands("/simulation/command", COMMAND, partial(self._command, None))
        for name in run.source.simulation.names:
            begin = f"/{ros_name(name)}"
            participant.subscribe(f"{begin}/cmd_vel", "geometry_msgs/Twist", partial(self._twist, name))
            participant.subscribe(f"{begin}/cmd_pose", "geometry_msgs/PoseStamped", partial(self._pose, name))
            self._subscribe_commands(f"{begin}/command", COMMAND, partial(self._command, name))
            for end, (kind, _, _) in PLAIN.items():
                self._subscribe_commands(f"{begin}/{end}", kind, partial(self._plain, name, end))

    def _subscribe_commands(self, topic: str, kind: str, take: Callable[[str, IdlStruct], None]) -> None:
        self._participant.subscribe(topic, kind, partial(take, topic), each=True)

    def work(self) -> None:
        """Take what has arrived, and pass on the answers of what was asked before."""
        self._participant.take_arrived()
        for result in self._execution.poll():
            self._asked.pop(result.order.command.request_id)(result.refused)

    def _ask(self, kind: str, vehicle: str | None, fields: JsonObject, done: Done) -> None:
        identity = f"ros2-{next(self._numbers)}"
        try:
            command = commands_for(vehicle)[kind].model_validate(
                {"version": VERSION, "request_id": identity, **fields}
            )
        except ValidationError as error:
            done("; ".join(faults_of(error)))
            return
        self._asked[identity] = done
        self._execution.take([Order(Address(kind, vehicle), command)])

    def _say(self, topic: str, refused: str | None, request_id: str = "") -> None:
        """Answer a command; tell the user of what could not be done, once."""
        topic = self._participant.name_of(topic) or topic
        answer = {
            "topic": topic,
            "request_id": request_id,
            "accepted": refused is None,
            "reason": refused or "",
        }
        made, _ = begin_messages(ANSWERS, COMMAND, ONE, {"data": json.dumps(answer)})
        self._participant.publish(ANSWERS, made.data[0].tobytes())
        line = f"ROS 2, {topic}: {refused}"
        if refused is not None and line not in self._said:
            self._said.add(line)
            self._run.notify(line)

    def _plain(self, name: str, end: str, topic: str, message: IdlStruct) -> None:
        """A command with one value."""
        _, kind, field = PLAIN[end]
        self._streams.pop(name, None)
        self._ask(kind, name, {} if field is None else {field: message.data}, partial(self._say, topic))

    def _command(self, name: str | None, topic: str, message: IdlStruct) -> None:
        """Any command of the bus: its kind, its fields, and what names the answer."""
        kinds = commands_for(name)
        try:
            fields = json.loads(message.data)
            kind, identity = fields.pop("kind", None), str(fields.pop("request_id", ""))
        except (ValueError, AttributeError, TypeError):
            self._say(topic, f'write a command as JSON, such as {{"kind": "{next(iter(kinds))}"}}')
            return
        say = partial(self._say, topic, request_id=identity)
        if kind not in kinds:
            say(f"no command {kind!r}; there are {', '.join(kinds)}")
            return
        if name is not None:
            self._streams.pop(name, None)
        self._ask(kind, name, fields, say)

    def _set_wind(self, message: IdlStruct) -> None:
        """The wind by where the air moves, in m/s east, north, up."""
        east, north, up = message.vector.x, message.vector.y, message.vector.z
        come_from = math.degrees(math.atan2(-east, -north)) % 360.0
        steady = {"speed": math.hypot(east, north), "direction": come_from, "upward": up}
        self._ask("wind", None, {"wind": {"steady": steady}}, partial(self._say, "/set_wind"))

    def _twist(self, name: str, message: IdlStruct) -> None:
        """A velocity forward, left, up, and a rate counter-clockwise from above."""
        linear, rate = message.linear, message.angular.z
        fields = {"velocity": (linear.x, -linear.y, -linear.z), "yaw_rate": -rate}
        values = (*fields["velocity"], rate)
        now = self._run.source.status().seconds
        topic = f"/{ros_name(name)}/cmd_vel"
        if not all(abs(value) <= LARGEST for value in values):
            self._say(topic, f"a twist has figures of {LARGEST:g} m/s and rad/s at most")
        elif now - self._streams.get(name, -math.inf) < STREAM:
            self._streams[name] = now if any(values) else -math.inf  # zeros once: others may take over
            number = self._run.source.simulation.names.index(name)
            try:
                if self._run.on_flight is not None:
                    self._run.on_flight("velocity", fields, number)
            except UserError as error:
                self._say(topic, str(error))
        elif any(values):  # zeros alone take over no vehicle
            self._streams[name] = math.inf  # while the first one is on its way

            def begun(refused: str | None) -> None:
                self._say(topic, refused)
                self._streams[name] = -math.inf if refused else self._run.source.status().seconds

            self._ask("velocity", name, fields, begun)

    def _pose(self, name: str, message: IdlStruct) -> None:
        say = partial(self._say, f"/{ros_name(name)}/cmd_pose")
        if message.header.frame_id not in ("", frame(WORLD)):
            say(f"poses are in the frame {frame(WORLD)!r}, not {message.header.frame_id!r}")
            return
        place, turned = message.pose.position, message.pose.orientation
        numbers = turned.w, turned.x, turned.y, turned.z
        length = math.hypot(*numbers) or 1.0  # nodes do not all normalise it
        yaw = heading(*(number / length for number in numbers))
        fields = {"position": (place.y, place.x, -place.z), "yaw": math.pi / 2.0 - yaw}
        self._ask("goto", name, fields, say)
