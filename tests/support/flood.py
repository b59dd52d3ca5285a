"""1,000 commands a second, from a process of its own as a flood would be: ``flood.py PORT RUN [COUNT]``.

Without COUNT each line of its input is one, sent as it comes and acknowledged by a line.
"""

from __future__ import annotations

import json
import sys
import time
import uuid

import paho.mqtt.client as mqtt

RATE = 1000.0


def flood(client: mqtt.Client, run: str, count: int) -> None:
    """Send so many commands, each with an id of its own."""
    begin = time.monotonic()
    for k in range(count):
        body = {"version": 1, "request_id": str(uuid.uuid4()), "wind": {"steady": {"speed": k % 10}}}
        client.publish(f"sitl/{run}/command/wind", json.dumps(body), qos=0)
        time.sleep(max(begin + k / RATE - time.monotonic(), 0.0))


def main() -> None:
    """Connect, flood, and say when."""
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)  # type: ignore[attr-defined]
    client.connect("127.0.0.1", int(sys.argv[1]))
    client.loop_start()
    if len(sys.argv) > 3:
        flood(client, sys.argv[2], int(sys.argv[3]))
    else:
        for line in sys.stdin:
            flood(client, sys.argv[2], int(line))
            print("sent", flush=True)
    client.disconnect()
    client.loop_stop()


if __name__ == "__main__":
    main()
