"""Plays a recording on a page, with a slider of time."""

from __future__ import annotations

import bisect
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sitl_bridge.analysis.export.seen_samples import SeenFile, read_image, sample_files
from sitl_bridge.base.arrays import Records
from sitl_bridge.live.view.page_server import open_page
from sitl_bridge.live.view.picture_clock import PictureClock
from sitl_bridge.live.view.pictures import LARGEST
from sitl_bridge.live.view.stage import Stage
from sitl_bridge.live.view.viewed_run import ViewedRun
from sitl_bridge.perception.shown_picture import shown_picture
from sitl_bridge.record.row_follower import RowFollower

if TYPE_CHECKING:
    from viser import ViserServer

TRACK_INTERVAL = 0.5
"""s of wall time between two drawings of the tracks."""
PACES = ("0.1", "0.25", "0.5", "1", "2", "5", "10", "20")


class Playback:
    """A page on which a recording plays; the recording may still be growing.

    Args:
        run: with at least one recorded step.
        port: TCP port of the page.

    Raises:
        UserError: if viser is missing or the port is taken.
    """

    def __init__(self, run: ViewedRun, port: int) -> None:
        self._run = run
        self.server: ViserServer = open_page(port)
        self._rows_source = RowFollower(run.path, len(run.names))
        self.stage = Stage(self.server, run)
        self.seconds = 0.0
        self._shown = -1
        self._drawn_tracks = 0.0
        self._picture_files: dict[str, list[SeenFile]] = {}
        self.picture: Any = None
        self._picture_shown: Path | None = None
        self._read_rows()
        self.stage.enlarge(self._rows)
        self._build_controls()
        self.stage.look_at(self._rows)

    def _read_rows(self) -> None:
        """Take the rows so far."""
        self._rows: Records = self._rows_source.rows()
        n = len(self._run.names)
        self._times = (self._rows["time"][::n] - self._run.start) * 1e-6
        self._end = float(self._times[-1])

    def _build_controls(self) -> None:
        gui = self.server.gui
        self._status = gui.add_markdown("")
        self._play = gui.add_button("Pause")
        self._slider = gui.add_slider("Time (s)", 0.0, max(self._end, 0.01), 0.01, 0.0)
        self._pace = gui.add_dropdown("Speed", PACES, initial_value="1")
        look = gui.add_button("Look at the vehicles")
        size = gui.add_slider("Size of vehicles", 1.0, 20.0, 0.5, self.stage.scale)
        self.playing = True
        cameras = {f"{camera.vehicle}: {camera.sensor}": camera for camera in self._run.cameras()}
        for title, camera in cameras.items():
            files = sample_files(self._run.recorded, camera.vehicle, camera.sensor)
            if pictures := [file for file in files if file.file.suffix == ".png"]:
                self._picture_files[title] = pictures
        if self._picture_files:
            self._camera = gui.add_dropdown("Camera", list(self._picture_files))
            self.picture = gui.add_image(np.zeros((3, 4, 3), np.uint8), label="Picture")
        for note in self._run.notes:
            gui.add_markdown(f"*{note}*")

        self._play.on_click(lambda _event: self._toggle())
        self._slider.on_update(self._seek)
        look.on_click(
            lambda _event: self.stage.look_at(self._step(), list(self.server.get_clients().values()))
        )
        size.on_update(lambda _event: self._resize(float(size.value)))

    def _toggle(self) -> None:
        if not self.playing and self.seconds >= self._end:
            self.seconds = 0.0
        self._set_playing(not self.playing)

    def _seek(self, event: Any) -> None:
        if event.client is not None:  # not this program's own update
            self.seek(float(self._slider.value))

    def seek(self, seconds: float) -> None:
        """Stand still at a time of the recording."""
        self._set_playing(False)
        self.seconds = seconds

    def _resize(self, scale: float) -> None:
        self.stage.scale, self._shown = scale, -1

    def _set_playing(self, playing: bool) -> None:
        self.playing = playing
        self._play.label = "Pause" if playing else "Play"

    def _step(self) -> Records:
        n = len(self._run.names)
        k = max(int(np.searchsorted(self._times, self.seconds + 1e-9, "right")) - 1, 0)
        return self._rows[k * n : (k + 1) * n]

    def advance(self, seconds: float) -> None:
        """Show the recording after so many seconds of wall time more."""
        if self.playing:
            self.seconds = min(self.seconds + seconds * float(self._pace.value), self._end)
            if self.seconds >= self._end:
                self._set_playing(False)
            self._slider.value = round(self.seconds, 2)
        rows = self._step()
        if int(rows["time"][0]) == self._shown:
            return
        self._shown = int(rows["time"][0])
        self.stage.place(rows)
        now = time.monotonic()
        if now - self._drawn_tracks >= TRACK_INTERVAL or not self.playing:
            self._drawn_tracks = now
            n = len(self._run.names)
            last = int(np.searchsorted(self._times, self.seconds + 1e-9, "right"))
            self.stage.draw_tracks(self._rows[: last * n])
            wind = self.stage.draw_wind(rows)
            self._status.content = f"**{self.seconds:.2f} s** of {self._end:.2f} s, wind {wind:.1f} m/s"
        self._show_picture()

    def _show_picture(self) -> None:
        if self.picture is None:
            return
        files = self._picture_files[self._camera.value]
        now = self._run.start * 1000 + round(self.seconds * 1e9)
        k = bisect.bisect_right(files, now, key=lambda file: file.time) - 1
        if k >= 0 and files[k].file != self._picture_shown:
            self._picture_shown = files[k].file
            self.picture.image = shown_picture(read_image(files[k].file), LARGEST)

    def run(self, stopped: Callable[[], bool] = lambda: False) -> None:
        """Play until stopped."""
        last, clock = time.monotonic(), PictureClock()
        while not stopped():
            time.sleep(clock.remaining())
            now = time.monotonic()
            self.advance(now - last)
            last = now

    def close(self) -> None:
        """Stop the page."""
        self.server.stop()
        self._rows_source.close()
