"""The process of a live page: a separate process between browsers and the simulation's program.

It follows the recording, which the simulation extends at its request.  Its priority is low; without a browser
it requests nothing.  The other side is stream.py.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from sitl_bridge.base.errors import UserError
from sitl_bridge.base.system.launch import lower_priority
from sitl_bridge.live.run.client_link import (
    Picture,
    PictureRequest,
    RowsRequest,
    Sent,
    SnapshotRequest,
    StackReports,
)
from sitl_bridge.live.run.command_queue import Counts
from sitl_bridge.live.run.messages import Reply
from sitl_bridge.live.view.control_panel import ControlPanel
from sitl_bridge.live.view.page_server import in_server, in_server_soon, open_page, page_url
from sitl_bridge.live.view.pictures import INTERVAL, PictureClock, unpack_picture
from sitl_bridge.live.view.run_link import RunLink
from sitl_bridge.live.view.stage import Stage
from sitl_bridge.live.view.viewed_run import ViewedRun
from sitl_bridge.record.row_follower import RowFollower

SLOW = 0.5
"""s of wall time between two updates of the state and the wind."""
CAMERA = 0.2
"""s of wall time between two pictures of the camera."""
TRACKS = 1.0
"""s of wall time between two drawings of the tracks."""
IDLE = 0.2
"""s of wall time between two looks for a browser."""


class LivePage:
    """A page that follows a running simulation, until it is stopped.

    Raises:
        UserError: if the port is taken or the run cannot be read.
    """

    def __init__(self, descriptor: int, port: int, directory: Path) -> None:
        self._run = ViewedRun(directory)
        names = self._run.names
        self._link = RunLink(descriptor, directory, names, self._show_replies, self._take)
        self._server = open_page(port, self._run.title, lambda sticks: self._panel.take_sticks(sticks))
        self._rows_source = RowFollower(directory, len(names))
        self._last = self._run.at_start()
        in_server(self._server, self._build)  # a page of an earlier run connects at once
        self._shown_time = -1
        self._followed = 0.0
        self._shown_errors: set[str] = set()
        self._due = {"state": 0.0, "tracks": 0.0, "camera": 0.0}
        self._wind = 0.0
        self._link.notify(f"live view at {page_url(port)}")

    def _build(self) -> None:
        self._stage = Stage(self._server, self._run)
        self._panel = ControlPanel(self._server, self._run, self._stage, self._link.command)
        self._panel.view.build_picture(lambda: self._last, self._redraw)
        self._stage.look_at(self._last)

    def _redraw(self) -> None:
        self._shown_time = -1

    def _show_replies(self, replies: list[Reply]) -> None:
        in_server_soon(self._server, lambda: self._panel.show_replies(replies))

    def _take(self, message: Sent) -> None:
        if isinstance(message, Picture) and message.height:
            picture = unpack_picture(message)
            in_server_soon(self._server, lambda: self._panel.show_picture(picture))
        elif isinstance(message, StackReports):
            reports = message.reports
            self._panel.stacks = reports
            places = [report.place for report in reports]
            in_server_soon(self._server, lambda: self._stage.add_estimates(places))

    def run(self) -> None:
        """Follow the run until stopped."""
        clock = PictureClock()
        while not self._link.stopped.wait(clock.remaining() if self._server.get_clients() else IDLE):
            if self._server.get_clients():
                self._link.send(RowsRequest())
                self._try_to_show(time.monotonic())
        self._try_to_show(time.monotonic() + TRACKS)
        in_server(self._server, lambda: self._panel.show_note("the run has ended"))
        self._server.flush()
        time.sleep(INTERVAL)  # the pages receive the last picture
        self._server.stop()
        self._rows_source.close()

    def _try_to_show(self, now: float) -> None:
        """Show what is there; a tab may have sent a camera or a choice that is none."""
        try:
            in_server(self._server, lambda: self._show(now))
        except ValueError as error:
            if str(error) not in self._shown_errors:
                self._shown_errors.add(str(error))
                self._link.notify(f"live view: {error}")

    def _is_due(self, what: str, now: float, interval: float) -> bool:
        if now < self._due[what]:
            return False
        self._due[what] = now + interval
        return True

    def _show(self, now: float) -> None:
        rows = self._rows_source.rows()
        if len(rows):
            self._last = rows[-len(self._run.names) :]
        if int(self._last["time"][0]) != self._shown_time:
            self._shown_time = int(self._last["time"][0])
            self._stage.place(self._last)
        if self._is_due("tracks", now, TRACKS):
            self._stage.draw_tracks(rows)
        if self._is_due("state", now, SLOW):
            self._panel.view.draw_plot(rows)
            self._wind = self._stage.draw_wind(self._last)
            if self._link.snapshot is not None:
                self._panel.show(self._link.snapshot, self._wind, self._last)
            self._link.send(SnapshotRequest(Counts()))
        if self._is_due("camera", now, CAMERA) and (camera := self._panel.camera()) is not None:
            self._link.send(PictureRequest(*camera))
        since, self._followed = min(now - self._followed, 1.0), now
        self._panel.view.follow(self._last, list(self._server.get_clients().values()), since)


def main() -> None:
    """Run the process: descriptor of the link, port, run directory."""
    try:
        page = LivePage(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
    except UserError as error:
        sys.exit(str(error))
    lower_priority()
    page.run()


if __name__ == "__main__":
    main()
