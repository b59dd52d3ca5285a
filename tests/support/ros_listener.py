"""A node of real ROS 2 (rclpy) that subscribes to all topics whose types it has, and counts.

Run by the Python that has rclpy: ``ros_listener.py SECONDS reliable|best_effort DEPTH [END,END...]``.
The seconds begin with the first message that is not kept, with simulated time; the ends are those of the
topics it takes.  It prints JSON.
"""

import importlib
import json
import sys
import time

import rclpy
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

KEPT = ("/tf_static", "/map", "/markers", "/robot_description", "/simulation/paused")
TIMEOUT = 300.0
"""s of wall time in which the first message must come: a busy machine starts a flight stack slowly."""


def stamp_of(message):
    """ns of a message's stamp; None without one."""
    header = getattr(message, "header", None)
    stamp = getattr(message, "clock", None) if header is None else header.stamp
    return None if stamp is None else stamp.sec * 1_000_000_000 + stamp.nanosec


class Listener(Node):
    """Counts the messages of each topic."""

    def __init__(self, reliability, depth, ends):
        super().__init__("listener")
        self.reliability, self.depth, self.ends = reliability, depth, ends
        self.seen, self.types, self.missing = {}, {}, {}
        self.begun = None

    def find(self):
        """Subscribe to the topics that are new."""
        for topic, (kind, *_) in self.get_topic_names_and_types():
            if topic in self.types or topic in self.missing or not self.count_publishers(topic):
                continue
            if topic in ("/rosout", "/parameter_events") or not topic.endswith(self.ends):
                continue
            package, _, name = kind.split("/")
            try:
                message = getattr(importlib.import_module(f"{package}.msg"), name)
            except ImportError:
                self.missing[topic] = kind
                continue
            self.types[topic] = kind
            self.seen[topic] = {
                "count": 0,
                "back": 0,
                "first": None,
                "before": None,
                "last": None,
                "step": None,
            }
            kept = topic.endswith(KEPT)
            qos = QoSProfile(
                depth=self.depth,
                reliability=ReliabilityPolicy.RELIABLE if kept else self.reliability,
                durability=DurabilityPolicy.TRANSIENT_LOCAL if kept else DurabilityPolicy.VOLATILE,
            )
            self.create_subscription(message, topic, lambda m, t=topic: self.take(t, m), qos)

    def take(self, topic, message):
        """Count a message."""
        seen, stamp = self.seen[topic], stamp_of(message)
        if not topic.endswith(KEPT):  # these come before a flight stack does
            self.begun = self.begun or time.monotonic()
        seen["count"] += 1
        if header := getattr(message, "header", None):
            seen["frame"] = header.frame_id
        if stamp is not None:
            if seen["last"] is None:
                seen["first"] = stamp
            else:
                seen["back"] += stamp <= seen["last"]
            if seen["before"] is not None:  # of two, as 100 Hz of steps of 4 ms are 8 and 12 ms apart
                step = (stamp - seen["before"]) / 2
                seen["step"] = min(step, seen["step"] or step)
            seen["before"], seen["last"] = seen["last"], stamp

    def listen(self, seconds):
        """Spin until the time is over."""
        end, look = time.monotonic() + TIMEOUT, 0.0
        while time.monotonic() < (end if self.begun is None else self.begun + seconds):
            if time.monotonic() > look:
                look = time.monotonic() + 0.5
                self.find()
            rclpy.spin_once(self, timeout_sec=0.1)

    def report(self):
        """The messages that were seen, for JSON."""
        for topic, seen in self.seen.items():
            seen["type"] = self.types[topic]
            if seen["step"]:
                seen["sent"] = 1 + round((seen["last"] - seen["first"]) / seen["step"])
            for info in self.get_publishers_info_by_topic(topic):
                qos, hashed = info.qos_profile, info.topic_type_hash
                seen["hash"] = f"RIHS{hashed.version:02}_{bytes(hashed.value).hex()}"
                seen["qos"] = [qos.reliability.name, qos.durability.name]
        nodes = [f"{space.rstrip('/')}/{name}" for name, space in self.get_node_names_and_namespaces()]
        return {"topics": self.seen, "missing": self.missing, "nodes": nodes}


def main():
    """Listen and report."""
    seconds, reliability, depth, *ends = sys.argv[1:]
    rclpy.init()
    node = Listener(ReliabilityPolicy[reliability.upper()], int(depth), tuple("".join(ends).split(",")))
    node.listen(float(seconds))
    print(json.dumps(node.report()))


main()
