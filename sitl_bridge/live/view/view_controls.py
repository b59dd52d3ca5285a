"""Controls of the view, live and in playback: the vehicle, the camera, what is drawn, a plot."""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sitl_bridge.base.arrays import AnyArray, Records
from sitl_bridge.base.rotations import euler_arrays
from sitl_bridge.live.view.page_server import on_page
from sitl_bridge.live.view.stage import CAMERAS, FREE, PALETTE, Stage
from sitl_bridge.live.view.viewed_run import ViewedRun

if TYPE_CHECKING:
    from viser import ClientHandle, GuiEvent, GuiUplotHandle, ViserServer

DISTANCE = 8.0
"""Of the following camera, over the vehicle's drawn reach."""
ONBOARD = "Onboard camera"
"""Title of the pictures of the vehicles' cameras."""
NO_PLOT = "none"
PLOTTED, POINTS = 60.0, 300
"""s of simulated time that a plot shows, and its largest number of points."""
PLOT_HEIGHT = 180
"""Pixels."""
NED, ANGLES = ("north", "east", "down"), ("roll", "pitch", "yaw")
QUANTITIES: dict[str, tuple[tuple[str, ...], Callable[[Records], AnyArray]]] = {
    "Height (m)": (("height",), lambda rows: -rows["position"][:, 2:]),
    "Speed (m/s)": (("speed",), lambda rows: np.linalg.norm(rows["velocity"], axis=1)[:, None]),
    "Velocity (m/s)": (NED, lambda rows: rows["velocity"]),
    "Attitude (deg)": (ANGLES, lambda rows: np.degrees(euler_arrays(rows["attitude"]))),
    "Angular velocity (deg/s)": (ANGLES, lambda rows: np.degrees(rows["angular_velocity"])),
    "Rotor speeds (rad/s)": ((), lambda rows: rows["rotor_speed"]),
    "Rotor thrusts (N)": ((), lambda rows: rows["rotor_thrust"]),
    "Motor commands (0 to 1)": ((), lambda rows: rows["control"]),
    "Battery voltage (V)": (("voltage",), lambda rows: rows["battery_voltage"][:, None]),
    "Battery current (A)": (("current",), lambda rows: rows["battery_current"][:, None]),
    "Wind, where it blows to (m/s)": (NED, lambda rows: rows["wind"]),
}
"""By its name: names of the curves, none for one of each rotor, and their values (k, ...) of ROW (k,)."""


class ViewControls:
    """The controls of a page's view.

    Args:
        mode: of ``CAMERAS``, at the start.
    """

    def __init__(self, server: ViserServer, run: ViewedRun, stage: Stage, mode: str) -> None:
        self.server, self.run, self.stage = server, run, stage
        self._chart: GuiUplotHandle | None = None
        self._charted = ""
        names = run.names
        self._vehicle = server.gui.add_dropdown(
            "Vehicle", names, initial_value=names[0], visible=len(names) > 1
        )
        self._camera = server.gui.add_dropdown("Camera", CAMERAS, initial_value=mode)

    def build_picture(self, look: Callable[[], Records], redraw: Callable[[], None]) -> None:
        """Add the controls of what the picture shows.

        Args:
            look: gives (n,) ROW of the present step.
        """
        gui = self.server.gui
        with gui.add_folder("Picture", expand_by_default=False):
            self._distance = gui.add_slider("Distance", 3.0, 60.0, 0.5, DISTANCE)
            size = gui.add_slider("Size of vehicles", 1.0, 20.0, 0.5, self.stage.scale)
            thrust = gui.add_checkbox("Thrust of the rotors", False)
            estimated = gui.add_checkbox("Tracks by the estimates (white)", False)
            every = gui.add_button("Look at all vehicles")
        self._folder = gui.add_folder("Plot")
        with self._folder:
            self._plotted = gui.add_dropdown("Quantity", (NO_PLOT, *QUANTITIES))

        def resize(_event: GuiEvent) -> None:
            self.stage.scale = float(size.value)
            redraw()

        def show_thrust(_event: GuiEvent) -> None:
            self.stage.thrust = bool(thrust.value)
            redraw()

        def show_estimates(_event: GuiEvent) -> None:
            self.stage.estimated = bool(estimated.value)
            redraw()

        def look_at_all(_event: GuiEvent) -> None:
            self._camera.value = FREE
            self.stage.look_at(look(), list(self.server.get_clients().values()))

        for choice in (self._vehicle, self._plotted):
            choice.on_update(on_page(lambda _event: redraw()))
        size.on_update(on_page(resize))
        thrust.on_update(on_page(show_thrust))
        estimated.on_update(on_page(show_estimates))
        every.on_click(on_page(look_at_all))

    @property
    def vehicle(self) -> str:
        """Name of the chosen vehicle."""
        name: str = self._vehicle.value
        return name

    @property
    def number(self) -> int:
        """The chosen vehicle."""
        return self.run.names.index(self._vehicle.value)

    def follow(self, rows: Records, clients: Sequence[ClientHandle], seconds: float) -> None:
        """Let the cameras follow the chosen vehicle of (n,) ROW, so many s of wall time after the last."""
        distance = float(self._distance.value)
        self.stage.follow(rows[self.number], self._camera.value, distance, clients, seconds)

    def draw_plot(self, rows: Records) -> None:
        """Plot the chosen quantity of the chosen vehicle: (k n,) ROW of whole steps so far."""
        n, quantity = len(self.run.names), str(self._plotted.value)
        steps = len(rows) // n
        rotors = len(self.run.airframes[self.number].rotors)
        names, values = QUANTITIES.get(quantity, ((), None))
        names = names or tuple(f"rotor {k + 1}" for k in range(rotors))
        chart = f"{quantity} {len(names)}"
        if self._chart is not None and (values is None or chart != self._charted):
            self._chart.remove()
            self._chart = None
        if values is None or steps < 2:
            return
        last = int(rows["time"][(steps - 1) * n])
        first = bisect.bisect_left(range(steps), last - PLOTTED * 1e6, key=lambda k: int(rows["time"][k * n]))
        picked = np.unique(np.linspace(first, steps - 1, min(steps - first, POINTS)).astype(np.int64))
        mine = rows[picked * n + self.number]
        table = np.asarray(values(mine), np.float64)[:, : len(names)]
        data = ((mine["time"] - self.run.start) * 1e-6, *np.ascontiguousarray(table.T))
        if self._chart is not None:
            self._chart.data = data
            return
        self._charted = chart
        colours = [f"rgb{tuple(PALETTE[k % len(PALETTE)].tolist())}" for k in range(len(names))]
        lines = [
            {"label": name, "stroke": colour, "width": 1.5}
            for name, colour in zip(names, colours, strict=True)
        ]
        with self._folder:
            self._chart = self.server.gui.add_uplot(
                data,
                ({"label": "s"}, *lines),
                scales={"x": {"time": False}},
                legend={"show": len(names) > 1, "live": False},
                height=PLOT_HEIGHT,
            )


def as_markdown(text: str) -> str:
    """Text from elsewhere as Markdown that shows it as it is: viser makes elements of HTML."""
    return re.sub(r"[&<>`*_{}\[\]\\|~]", lambda sign: f"&#{ord(sign[0])};", " ".join(text.split()))


def motion_lines(row: np.void) -> list[str]:
    """The motion of a ROW as Markdown."""
    north, east, down = (float(x) for x in row["position"])
    speed = float(np.linalg.norm(row["velocity"]))
    roll, pitch, yaw = np.degrees(euler_arrays(np.asarray(row["attitude"], np.float64)))
    return [
        f"height **{-down:.1f} m**, speed **{speed:.1f} m/s**",
        f"N {north:.1f} E {east:.1f} m; roll {roll:.0f} pitch {pitch:.0f} yaw {yaw:.0f} deg",
    ]
