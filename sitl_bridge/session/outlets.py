"""Starts what shows a run and passes on commands to it: the bus, the live page and the streams."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from sitl_bridge.live.bus.outlet import RunContext
from sitl_bridge.session.settings import OutletSettings


class RunOutput(Protocol):
    """Shows a run to others until it is closed."""

    def start(self) -> None:
        """Begin."""
        ...

    def close(self) -> None:
        """End; safe to call twice."""
        ...


def start_outlets(run: RunContext, settings: OutletSettings, keep: Callable[[RunOutput], object]) -> None:
    """Start what shows a run.

    Each is imported where it is wanted: importing MQTT and the page takes time.

    Args:
        run: that is shown.
        keep: takes each outlet before it starts, to close it at the end.

    Raises:
        UserError: for a port in use.
    """
    made: list[RunOutput] = []
    if settings.bus is not None:
        from sitl_bridge.live.bus.bus import Bus

        made.append(Bus(run, settings.bus))
    if settings.view is not None:
        from sitl_bridge.live.view.live_view import LiveView

        made.append(LiveView(run, settings.view))
    if settings.viewer is not None:
        from sitl_bridge.live.view.stream_outlets import viewer_stream

        made.append(viewer_stream(run, settings.viewer))
    if settings.ros2 is not None:
        from sitl_bridge.live.ros2.graph import RosGraph

        made.append(RosGraph(run, settings.ros2))
    if settings.stream is not None:
        from sitl_bridge.live.view.stream_outlets import foxglove_stream

        made.append(foxglove_stream(run, settings.stream))
    for outlet in made:
        keep(outlet)
        outlet.start()
