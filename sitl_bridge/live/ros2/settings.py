"""How a run is shown to ROS 2."""

from __future__ import annotations

from dataclasses import dataclass

LAST_DOMAIN = 232
"""Greatest domain whose ports RTPS can number (OMG DDSI-RTPS, 9.6.1.1)."""


@dataclass(frozen=True)
class Ros2Settings:
    """How a run is shown to ROS 2.

    Attributes:
        domain: ROS_DOMAIN_ID.
        wait: nodes that simulated time waits for.
    """

    domain: int = 0
    wait: tuple[str, ...] = ()
