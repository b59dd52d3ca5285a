"""Tries from another network namespace to reach the ROS 2 sockets of a run: ``ros_stranger.py HOST``.

It prints JSON.
"""

import json
import socket
import sys
import time

from cyclonedds.builtin import BuiltinDataReader, BuiltinTopicDcpsPublication
from cyclonedds.domain import Domain, DomainParticipant

host, found = sys.argv[1], {}
HELLO = b"RTPS\x02\x01\x01\x0f" + bytes(12)  # header of an RTPS message; a forger needs no more to be parsed
for port in (7410, 7411, 7500):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.settimeout(2.0)
        one.connect((host, port))
        try:
            one.send(HELLO)
            one.recv(1)
        except ConnectionRefusedError:
            found[port] = "refused"
        except TimeoutError:
            found[port] = "taken"
domain = Domain(
    0,
    f"""<CycloneDDS><Domain><General><Interfaces><NetworkInterface name="veth1"/></Interfaces>
<AllowMulticast>false</AllowMulticast></General><Discovery><ParticipantIndex>auto</ParticipantIndex>
<Peers><Peer address="{host}"/></Peers></Discovery></Domain></CycloneDDS>""",
)
participant = DomainParticipant(0)
reader, end = BuiltinDataReader(participant, BuiltinTopicDcpsPublication), time.monotonic() + 3.0
topics = set()
while time.monotonic() < end:
    topics |= {
        endpoint.topic_name for endpoint in reader.take(N=100) if getattr(endpoint, "topic_name", None)
    }
    time.sleep(0.1)
found["topics"] = sorted(topics)
print(json.dumps(found))
