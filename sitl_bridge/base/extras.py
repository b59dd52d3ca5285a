"""The message for an optional package that is not installed."""

from __future__ import annotations

from sitl_bridge.base.errors import UserError

PERCEPTION = "perception"
"""Extra of this package that reads scenes."""
EXPORT = "export"
"""Extra of this package that writes MCAP and Parquet files."""
PLANNING = "planning"
"""Extra of this package that plans by sampling and writes octrees."""
CAMPAIGN = "campaign"
"""Extra of this package that searches and flies campaigns on many machines."""
VIEW = "view"
"""Extra of this package that shows runs in three dimensions."""
FIGURES = "figures"
"""Extra of this package that draws figures for papers."""
ROS2 = "ros2"
"""Extra of this package that publishes on ROS 2's topics."""


def missing(package: str, purpose: str, extra: str = PERCEPTION) -> UserError:
    """The error for an optional package that is not installed.

    Args:
        package: its name for pip.
        purpose: what it reads, in the plural: "meshes".
        extra: of this package, which installs it.
    """
    return UserError(
        f"{purpose} need the package {package}, which is not installed: pip install {package}, or"
        f" pip install 'sitl-bridge[{extra}]'"
    )
