"""The process of the state stream for PX4's viewers: it follows the recording and sends the vehicles' states.

The messages are those with which PX4's SIH shows its vehicle, of any vehicle.  PX4 sends them by UDP to port
19410 + instance (ROMFS, init.d-posix/px4-rc.mavlink); Hawkeye and jMAVSim's display read them there.  As in
SIH, airspeeds are 0.  Its priority is low.  The other side is stream.py.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import time
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation

from sitl_bridge.base.arrays import Records
from sitl_bridge.base.constants import STANDARD_GRAVITY
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.system.launch import lower_priority
from sitl_bridge.core.world.geography import Projection
from sitl_bridge.link.mavlink import common as mavlink
from sitl_bridge.link.mavlink.decoder import AUTOPILOT, MULTIROTORS
from sitl_bridge.link.mavlink.message import MavlinkMessage
from sitl_bridge.live.run.client_link import RowsRequest
from sitl_bridge.live.view.run_link import RunLink
from sitl_bridge.live.view.viewed_run import ViewedRun
from sitl_bridge.record.row_follower import RowFollower

INTERVAL = 0.04
"""s of wall time between two states, as PX4's SIH sends them."""
CHANNELS = 16
"""Of HIL_ACTUATOR_CONTROLS."""
HEARTBEAT = 1.0
"""s of wall time between two heartbeats."""


class ViewerMessages:
    """The messages of one vehicle.

    Args:
        origin: latitude deg, longitude deg and altitude m of the world's origin.
        gravity: m/s^2 there.
    """

    def __init__(self, system: int, rotors: int, origin: tuple[float, float, float], gravity: float) -> None:
        self._out = mavlink.MAVLink(None, srcSystem=system, srcComponent=AUTOPILOT)
        self._type = MULTIROTORS.get(rotors, mavlink.MAV_TYPE_GENERIC)
        self._projection = Projection.from_degrees(*origin)
        self._gravity = gravity

    def _pack(self, message: MavlinkMessage) -> bytes:
        packed: bytes = message.pack(self._out)
        self._out.seq = (self._out.seq + 1) % 256
        return packed

    def heartbeat(self, row: Records) -> bytes:
        """HEARTBEAT of one ROW."""
        armed = bool(row["armed"])
        mode = mavlink.MAV_MODE_FLAG_CUSTOM_MODE_ENABLED
        state = mavlink.MAV_STATE_ACTIVE if armed else mavlink.MAV_STATE_STANDBY
        return self._pack(
            mavlink.MAVLink_heartbeat_message(
                self._type,
                mavlink.MAV_AUTOPILOT_PX4,
                mode | (mavlink.MAV_MODE_FLAG_SAFETY_ARMED if armed else 0),
                0,
                state,
                3,
            )
        )

    def state(self, row: Records) -> bytes:
        """HIL_STATE_QUATERNION of one ROW."""
        latitude, longitude, altitude = self._projection.place([float(x) for x in row["position"]])
        w, x, y, z = (float(q) for q in row["attitude"])
        force = Rotation.from_quat([x, y, z, w]).apply(np.array(row["specific_force"]))
        acceleration = (force + np.array([0.0, 0.0, self._gravity])) * 1e3 / STANDARD_GRAVITY
        return self._pack(
            mavlink.MAVLink_hil_state_quaternion_message(
                int(row["time"]),
                [w, x, y, z],
                *(float(rate) for rate in row["angular_velocity"]),
                round(latitude * 1e7),
                round(longitude * 1e7),
                round(altitude * 1e3),
                *(_short(speed * 1e2) for speed in row["velocity"]),
                0,
                0,
                *(_short(value) for value in acceleration),
            )
        )

    def controls(self, row: Records) -> bytes:
        """HIL_ACTUATOR_CONTROLS of one ROW."""
        mode = mavlink.MAV_MODE_FLAG_CUSTOM_MODE_ENABLED
        if row["armed"]:
            mode |= mavlink.MAV_MODE_FLAG_SAFETY_ARMED
        controls = [float(value) for value in np.nan_to_num(row["control"])]
        controls += [0.0] * (CHANNELS - len(controls))
        return self._pack(mavlink.MAVLink_hil_actuator_controls_message(int(row["time"]), controls, mode, 0))


def _short(value: float) -> int:
    return round(min(max(float(value), -32768.0), 32767.0))


class ViewerStream:
    """Sends the states of all vehicles until stopped.

    Args:
        target: host, and the port of instance 0.

    Raises:
        UserError: if the run cannot be read.
    """

    def __init__(
        self, descriptor: int, target: tuple[str, int], instances: tuple[int, ...], directory: Path
    ) -> None:
        run = self._run = ViewedRun(directory)
        self._link = RunLink(descriptor, directory, run.names)
        self._rows_source = RowFollower(directory, len(run.names))
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        host, port = target
        self._targets = [(host, port + instance) for instance in instances]
        self._messages = [
            ViewerMessages(instance + 1, len(airframe.rotors), run.origin, run.gravity)
            for instance, airframe in zip(instances, run.airframes, strict=True)
        ]

    def run(self) -> None:
        """Send until stopped."""
        beat = due = time.monotonic()
        while not self._link.stopped.wait(max(due - time.monotonic(), 0.0)):
            now = time.monotonic()
            due = max(due + INTERVAL, now)
            self._link.send(RowsRequest())
            self.send(heartbeat=now >= beat)
            if now >= beat:
                beat = now + HEARTBEAT
        self._socket.close()

    def send(self, *, heartbeat: bool) -> None:
        """Send the last state of every vehicle."""
        rows = self._rows_source.rows()[-len(self._targets) :]
        if not len(rows):
            rows = self._run.at_start()
        for row, messages, target in zip(rows, self._messages, self._targets, strict=True):
            frames = [messages.heartbeat(row)] if heartbeat else []
            frames += [messages.controls(row), messages.state(row)]
            for frame in frames:
                with contextlib.suppress(OSError):  # nobody listens there, or not any more
                    self._socket.sendto(frame, target)


def main() -> None:
    """Run the process: descriptor of the link, host, port, instances with commas, run directory."""
    instances = tuple(int(number) for number in sys.argv[4].split(","))
    try:
        stream = ViewerStream(int(sys.argv[1]), (sys.argv[2], int(sys.argv[3])), instances, Path(sys.argv[5]))
    except UserError as error:
        sys.exit(str(error))
    lower_priority()
    stream.run()


if __name__ == "__main__":
    main()
