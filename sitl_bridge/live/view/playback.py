"""Plays a recording on a page, with a slider of time."""

from __future__ import annotations

import bisect
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sitl_bridge.analysis.export.seen_samples import SeenFile, read_image, sample_files
from sitl_bridge.base.arrays import Records
from sitl_bridge.base.errors import UserError
from sitl_bridge.live.view.page_server import in_server, in_server_soon, on_page, open_page
from sitl_bridge.live.view.pictures import LARGEST, PictureClock
from sitl_bridge.live.view.stage import FREE, Stage
from sitl_bridge.live.view.view_controls import ONBOARD, ViewControls, as_markdown, motion_lines
from sitl_bridge.live.view.viewed_run import ViewedRun
from sitl_bridge.perception.shown_picture import shown_picture
from sitl_bridge.record.row_follower import RowFollower

if TYPE_CHECKING:
    from viser import GuiEvent, ViserServer

TRACK_INTERVAL = 0.5
"""s of wall time between two drawings of the tracks."""
PREVIOUS, NEXT, READING, NO_EVENT = "Previous", "Next", "reading the logs", "none"
EVENT_STEP = 0.005
"""s by which the next event differs at least from the present time."""
LOG_WAIT = 10.0
"""s of wall time that the end of the page waits for the logs being read."""
PACES = ("0.1", "0.25", "0.5", "1", "2", "5", "10", "20")


class Playback:
    """A page on which a recording plays; the recording may still be growing.

    Args:
        run: with at least one recorded step.

    Raises:
        UserError: if viser is missing or the port is taken.
    """

    def __init__(self, run: ViewedRun, port: int) -> None:
        self._run = run
        self.server: ViserServer = open_page(port, run.title)
        self._rows_source = RowFollower(run.path, len(run.names))
        self.seconds = 0.0
        self._shown = -1
        self._drawn_tracks = 0.0
        self._picture_files: dict[str, list[SeenFile]] = {}
        self.picture: Any = None
        self._picture_shown: Path | None = None
        self._read_rows()
        in_server(self.server, self._build)  # a page of an earlier run connects at once
        self.logs = threading.Thread(target=self._read_logs, name="logs", daemon=True)
        self.logs.start()

    def _read_rows(self) -> None:
        self._rows: Records = self._rows_source.rows()
        n = len(self._run.names)
        self._times = (self._rows["time"][::n] - self._run.start) * 1e-6
        self._end = float(self._times[-1])

    def _build(self) -> None:
        self.stage = Stage(self.server, self._run)
        self.stage.enlarge(self._rows)
        self._build_controls()
        self.stage.look_at(self._rows)

    def _build_controls(self) -> None:
        gui = self.server.gui
        self._status = gui.add_markdown("")
        self._play = gui.add_button("Pause")
        self._slider = gui.add_slider("Time (s)", 0.0, max(self._end, 0.01), 0.01, 0.0)
        self._pace = gui.add_dropdown("Speed", PACES, initial_value="1")
        with gui.add_folder("Events"):
            self.event = gui.add_dropdown("Event", [READING])
            turn = gui.add_button_group("", (PREVIOUS, NEXT))
        self._times_of_events: dict[str, float] = {}
        self.view = ViewControls(self.server, self._run, self.stage, FREE)
        self._motion = gui.add_markdown("")
        self.view.build_picture(self._step, self._redraw)
        self.playing = True
        cameras = {f"{camera.vehicle}: {camera.sensor}": camera for camera in self._run.cameras()}
        for title, camera in cameras.items():
            files = sample_files(self._run.recorded, camera.vehicle, camera.sensor)
            if pictures := [file for file in files if file.file.suffix == ".png"]:
                self._picture_files[title] = pictures
        if self._picture_files:
            with gui.add_folder(ONBOARD):
                self._camera = gui.add_dropdown("Sensor", list(self._picture_files))
                self.picture = gui.add_image(np.zeros((3, 4, 3), np.uint8))
        for note in self._run.notes:
            gui.add_markdown(f"*{as_markdown(note)}*")

        self._play.on_click(on_page(lambda _event: self._toggle()))
        self._slider.on_update(on_page(self._seek))
        self.event.on_update(on_page(self._choose_event))
        turn.on_click(on_page(lambda _event: self.turn_to(1 if turn.value == NEXT else -1)))

    def _read_logs(self) -> None:
        """List the events and take the estimates, from events.jsonl and the flight stacks' logs."""
        from sitl_bridge.analysis.evaluation.run_record import read_run
        from sitl_bridge.analysis.report.run_events import timeline

        start = self._run.start * 1e-6
        try:
            record = read_run(self._run.path)
        except UserError as error:
            message = f"*{as_markdown(str(error))}*"
            in_server_soon(self.server, lambda: self.server.gui.add_markdown(message))
            return
        found: dict[str, float] = {}
        for entry in timeline(record):
            seconds = entry.begin - start
            if 0.0 <= seconds <= self._end:
                words = [entry.vehicle, entry.lane if entry.text != entry.lane else "", entry.text]
                found.setdefault(f"{seconds:.2f} s: {', '.join(filter(None, words))}", seconds)
        self._times_of_events = found
        in_server_soon(self.server, lambda: setattr(self.event, "options", [*found] or [NO_EVENT]))
        for vehicle in record.vehicles:
            if vehicle.record is not None and len(vehicle.record.time):
                times = np.round(vehicle.record.time * 1e6).astype(np.int64)
                self.stage.estimates.append((times, vehicle.record.estimate + vehicle.to_world))

    def _choose_event(self, event: GuiEvent) -> None:
        if event.client is not None:  # not this program's own update
            self._show_event()

    def _show_event(self) -> None:
        if self.event.value in self._times_of_events:
            self.seek(self._times_of_events[self.event.value])

    def _show_last_event(self) -> None:
        past = [title for title, time in self._times_of_events.items() if time <= self.seconds + EVENT_STEP]
        if past and self._times_of_events[past[-1]] != self._times_of_events.get(self.event.value):
            self.event.value = past[-1]

    def turn_to(self, step: int) -> None:
        """Go to the next event (1) or the one before (-1)."""
        found = self._times_of_events
        others = [title for title, time in found.items() if (time - self.seconds) * step > EVENT_STEP]
        if others:
            self.event.value = others[0 if step > 0 else -1]
            self._show_event()

    def _toggle(self) -> None:
        if not self.playing and self.seconds >= self._end:
            self.seconds = 0.0
        self._set_playing(not self.playing)

    def _seek(self, event: GuiEvent) -> None:
        if event.client is not None:  # not this program's own update
            self.seek(float(self._slider.value))

    def seek(self, seconds: float) -> None:
        """Stand still at a time of the recording."""
        self._set_playing(False)
        self.seconds = seconds
        if self._slider.value != round(seconds, 2):
            self._slider.value = round(seconds, 2)

    def _redraw(self) -> None:
        self._shown = -1

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
        self.view.follow(rows, list(self.server.get_clients().values()), seconds)
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
            self.view.draw_plot(self._rows[: last * n])
            self._show_last_event()
            self._motion.content = "  \n".join(motion_lines(rows[self.view.number]))
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
            in_server(self.server, partial(self.advance, now - last))
            last = now

    def close(self) -> None:
        """Stop the page."""
        self.logs.join(LOG_WAIT)
        self.server.stop()
        self._rows_source.close()
