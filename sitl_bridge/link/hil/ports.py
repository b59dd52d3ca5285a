"""Network ports of the instances of a flight stack: PX4's own numbers, with one exception."""

from __future__ import annotations

FIRST_PORT = 4560
"""TCP, the simulator link: PX4 instance i connects to 4560 + i."""

GROUND_STATION_PORT = 14550
"""UDP, to which every instance sends its ground station link (px4-rc.mavlink)."""

OFFBOARD_PORT = 14540
"""UDP, to which instances 0 to 9 send their offboard link (px4-rc.mavlink): 14540 + i."""

PAYLOAD_PORT = 14030
"""UDP, to which every instance sends its payload link (px4-rc.mavlink): 14030 + i."""

STACK_PORTS = {"ground station": 18570, "offboard": 14580, "payload": 14280}
"""UDP, local ports of a flight stack's links (px4-rc.mavlink); instance i adds i."""

LAST_WITH_OWN_PORT = 9
FURTHER_OFFBOARD_PORT = 15540
"""UDP, to which instances from 10 on send it: 15540 + i.  PX4's start script uses 14549 for all of
them, because 14550 is the ground station's; flight stacks started by this program get these ports."""


def offboard_port(instance: int) -> int:
    """UDP port on which MAVSDK receives an instance that this program started."""
    return (OFFBOARD_PORT if instance <= LAST_WITH_OWN_PORT else FURTHER_OFFBOARD_PORT) + instance


def remote_ports(instance: int) -> dict[str, int]:
    """UDP ports to which such an instance sends its links, by the names of STACK_PORTS."""
    return {
        "ground station": GROUND_STATION_PORT,
        "offboard": offboard_port(instance),
        "payload": PAYLOAD_PORT + instance,
    }
