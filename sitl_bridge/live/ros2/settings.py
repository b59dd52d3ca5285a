"""How a run is shown to ROS 2."""

from __future__ import annotations

from dataclasses import dataclass

LAST_DOMAIN = 232
"""Greatest domain whose ports RTPS can number (OMG DDSI-RTPS, 9.6.1.1)."""


@dataclass(frozen=True)
class Ros2Settings:
    """How a run is shown to ROS 2."""

    domain: int = 0  # ROS_DOMAIN_ID
    wait: tuple[str, ...] = ()  # nodes that simulated time waits for
