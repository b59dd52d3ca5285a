"""A user's MQTT client: everything it hears of one run, and commands with their answers."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import paho.mqtt.client as mqtt

from sitl_bridge.live.run.messages import PUBLISHED, BusMessage, Reply


class Client:
    """Listens to all of ``sitl/run``.

    Args:
        port: of the broker on this machine.
        options: ``user`` and ``password``, ``ca``: file of who is trusted.
    """

    def __init__(self, port: int, **options: Any) -> None:
        self.heard: dict[str, list[Any]] = defaultdict(list)
        self.retained: set[str] = set()
        self.client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)  # type: ignore[attr-defined]
        self.client.on_message = self._hear
        self.client.on_connect = lambda client, *_: client.subscribe("sitl/#", 1)
        if "user" in options:
            self.client.username_pw_set(options["user"], options["password"])
        if "ca" in options:
            self.client.tls_set(ca_certs=options["ca"])
        self.client.reconnect_delay_set(min_delay=1, max_delay=1)
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()

    def _hear(self, _client: Any, _data: Any, message: Any) -> None:
        if "/command/" in message.topic:
            return
        if message.retain:
            self.retained.add(message.topic)
        self.heard[message.topic].append(json.loads(message.payload) if message.payload else None)

    def send(self, topic: str, *, retain: bool = False, **command: Any) -> None:
        self.client.publish(topic, json.dumps({"version": 1} | command), qos=1, retain=retain)

    def answer(self, request_id: str) -> Reply | None:
        found = self.heard.get(f"sitl/run/reply/{request_id}")
        return Reply.model_validate(found[-1]) if found else None

    def ask(self, wait_for: Callable[..., None], topic: str, **values: Any) -> Reply:
        """Send a command for ``sitl/run/`` and wait for its answer."""
        request = values.pop("request_id", f"r{time.monotonic_ns()}")
        heard = self.heard[f"sitl/run/reply/{request}"]
        count = len(heard)
        self.send(f"sitl/run/{topic}", request_id=request, **values)
        wait_for(lambda: len(heard) > count, f"the answer to {topic} {values}")
        reply = self.answer(request)
        assert reply is not None
        return reply

    def do(self, wait_for: Callable[..., None], topic: str, **values: Any) -> Reply:
        """The same, of a command that is to be accepted."""
        reply = self.ask(wait_for, topic, **values)
        assert reply.accepted, reply.reason
        return reply

    def height(self, vehicle: str = "0") -> float:
        """m, of a vehicle; 0 as long as nothing was heard of it."""
        state = self.last(f"vehicle/{vehicle}/state")
        return -float(state["position"][2]) if state else 0.0

    def last(self, topic: str) -> dict[str, Any]:
        """The newest message on ``sitl/run/`` and the topic."""
        heard = [message for message in self.heard[f"sitl/run/{topic}"] if message is not None]
        found: dict[str, Any] = heard[-1] if heard else {}
        return found

    def messages(self) -> dict[str, list[BusMessage]]:
        """Everything heard so far by kind, each read as the message that is documented for its topic."""
        found: dict[str, list[BusMessage]] = defaultdict(list)
        for topic, messages in list(self.heard.items()):
            levels = topic.split("/")
            kind = f"vehicle_{levels[-1]}" if len(levels) == 5 else levels[2]
            found[kind] += [
                PUBLISHED[kind].model_validate_json(json.dumps(message)) for message in messages if message
            ]
        return found

    def close(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()
