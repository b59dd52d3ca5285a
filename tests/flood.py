"""1,000 commands a second, from a process of its own as a flood would be: ``flood.py PORT RUN COUNT``."""

from __future__ import annotations

import json
import sys
import time
import uuid

import paho.mqtt.client as mqtt

RATE = 1000.0


def flood(port: int, run: str, count: int) -> None:
    """Send so many commands, each with an id of its own."""
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)  # type: ignore[attr-defined]
    client.connect("127.0.0.1", port)
    client.loop_start()
    begin = time.monotonic()
    for k in range(count):
        body = {"version": 1, "request_id": str(uuid.uuid4()), "wind": {"steady": {"speed": k % 10}}}
        client.publish(f"sitl/{run}/command/wind", json.dumps(body), qos=0)
        time.sleep(max(begin + k / RATE - time.monotonic(), 0.0))
    client.disconnect()
    client.loop_stop()


if __name__ == "__main__":
    flood(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
