"""The controls of a live page: the run's state, time, wind, faults, arming and take-off, cameras.

A button makes the same message that a client of the bus would publish, and passes it to ``send``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from sitl_bridge.bus.client_link import SimulationSnapshot
from sitl_bridge.bus.messages import Reply
from sitl_bridge.sensors.records import KIND_NAMES
from sitl_bridge.view.viewed_run import ViewedRun

if TYPE_CHECKING:
    from viser import ViserServer

Send: TypeAlias = Callable[[str, str | None, dict[str, Any]], None]
"""Sends a command: its kind, the vehicle's name (None: the whole run) and its fields."""

PACES = ("0.1", "0.25", "0.5", "1", "2", "5", "10", "20", "max")
SENSOR_FAULTS = ("off", "stuck", "none")
NO_CAMERA = "none"
LISTED_REPLIES = 4


class ControlPanel:
    """Controls of a running simulation.

    Args:
        server: of the page.
        run: what is shown.
        send: takes the commands, from any thread.
    """

    def __init__(self, server: ViserServer, run: ViewedRun, send: Send) -> None:
        self._gui, self._run, self._send = server.gui, run, send
        self._replies: list[str] = []
        self._paused = False
        self._status = self._gui.add_markdown("waiting for the first step")
        self._build_time()
        self._build_vehicle()
        self._build_wind()
        self._build_camera()
        self._answers = self._gui.add_markdown("")
        for note in run.notes:
            self._gui.add_markdown(f"*{note}*")

    def _button(self, label: str, kind: str, fields: Callable[[], dict[str, Any]], vehicle: bool) -> Any:
        button = self._gui.add_button(label)

        button.on_click(lambda _event: self._send(kind, self._vehicle.value if vehicle else None, fields()))
        return button

    def _build_time(self) -> None:
        with self._gui.add_folder("Time"):
            self._pause = self._gui.add_button("Pause")
            self._button("Step", "step", lambda: {"count": 1}, vehicle=False)
            pace = self._gui.add_dropdown("Speed", PACES, initial_value="1")

        def set_pace(_event: Any) -> None:
            self._send("pace", None, {"speed": "max" if pace.value == "max" else float(pace.value)})

        self._pause.on_click(lambda _event: self._send("resume" if self._paused else "pause", None, {}))
        pace.on_update(set_pace)

    def _build_vehicle(self) -> None:
        gui, names = self._gui, self._run.names
        with gui.add_folder("Vehicle"):
            self._vehicle = gui.add_dropdown("Name", names, initial_value=names[0])
            self._condition = gui.add_markdown("")
            self._button("Arm", "arm", lambda: {"armed": True}, vehicle=True)
            self._button("Disarm", "arm", lambda: {"armed": False}, vehicle=True)
            height = gui.add_number("Height (m)", 5.0, min=1.0, max=1000.0)
            self._button("Take off", "takeoff", lambda: {"height": float(height.value)}, vehicle=True)
            rotor = gui.add_number("Rotor", 0, min=0, max=11, step=1)
            share = gui.add_slider("Thrust left", 0.0, 1.0, 0.05, 0.0)
            fields = lambda: {"rotor": int(rotor.value), "health": float(share.value)}  # noqa: E731
            self._button("Set rotor", "rotor", fields, vehicle=True)
            sensor = gui.add_dropdown("Sensor", list(KIND_NAMES.values()))
            fault = gui.add_dropdown("Fault", SENSOR_FAULTS)
            self._button(
                "Set fault", "fault", lambda: {"sensor": sensor.value, "fault": fault.value}, vehicle=True
            )
            jam = gui.add_slider("GPS jamming", 0.0, 1.0, 0.05, 1.0)
            self._button("Jam", "jam", lambda: {"level": float(jam.value)}, vehicle=True)

    def _build_wind(self) -> None:
        with self._gui.add_folder("Wind"):
            speed = self._gui.add_number("Speed (m/s)", 5.0, min=0.0, max=60.0)
            origin = self._gui.add_slider("From (deg)", 0.0, 359.0, 1.0, 270.0)

            def steady() -> dict[str, Any]:
                wind = {"speed": float(speed.value), "direction": float(origin.value)}
                return {"wind": {"steady": wind} if wind["speed"] else {}}

            self._button("Set wind", "wind", steady, vehicle=False)

    def _build_camera(self) -> None:
        self._cameras = {f"{camera.vehicle}: {camera.sensor}": camera for camera in self._run.cameras()}
        self._camera: Any = None
        if self._cameras:
            with self._gui.add_folder("Camera"):
                self._camera = self._gui.add_dropdown("Sensor", [*self._cameras, NO_CAMERA])
                self._image = self._gui.add_image(np.zeros((3, 4, 3), np.uint8))

    # ------------------------------------------------------------------ what is shown

    def camera(self) -> tuple[str, str] | None:
        """Vehicle and sensor whose pictures are to be shown; None for none."""
        chosen = None if self._camera is None else self._cameras.get(self._camera.value)
        return None if chosen is None else (chosen.vehicle, chosen.sensor)

    def show_picture(self, image: np.ndarray[Any, Any]) -> None:
        """Show a camera's picture: (h, w, 3) uint8."""
        self._image.image = image

    def show(self, snapshot: SimulationSnapshot, wind: float) -> None:
        """Show the state of the run; the wind is the mean at the vehicles, m/s."""
        clock = snapshot.clock
        self._paused = bool(clock["paused"])
        self._pause.label = "Resume" if self._paused else "Pause"
        factor = clock["real_time_factor"]
        state = "paused" if self._paused else f"{factor:.1f} x real time"
        self._status.content = f"**{snapshot.time:.1f} s**, {state}, wind {wind:.1f} m/s"
        self._condition.content = _condition(
            snapshot.health[self._run.names.index(self._vehicle.value)],
            snapshot.motion["position"][self._run.names.index(self._vehicle.value)],
        )

    def show_replies(self, replies: Sequence[Reply]) -> None:
        """List the answers to commands."""
        for reply in replies:
            what = reply.command if reply.vehicle is None else f"{reply.command} of {reply.vehicle}"
            result = "done" if reply.accepted else f"refused: {reply.reason}"
            self._replies.append(f"- {reply.time:.1f} s: {what}: {result}")
        self._answers.content = "\n".join(self._replies[-LISTED_REPLIES:])

    def show_note(self, line: str) -> None:
        """List a line."""
        self._replies.append(f"- {line}")
        self._answers.content = "\n".join(self._replies[-LISTED_REPLIES:])


def _condition(health: dict[str, Any], position: Sequence[float]) -> str:
    """A vehicle's state as a line."""
    words = ["armed" if health["armed"] else "disarmed"] if health["connected"] else ["no flight stack"]
    if health["stalled"]:
        words.append("does not answer")
    words.append(f"N {position[0]:.1f} E {position[1]:.1f} up {-position[2]:.1f} m")
    words.append(f"{health['battery_voltage']:.1f} V, {health['battery_left']:.0%}")
    words += [f"{fault['sensor']} {fault['instance']} {fault['fault']}" for fault in health["faults"]]
    weak = [f"rotor {k} at {share:.0%}" for k, share in enumerate(health["rotor_health"]) if share < 1.0]
    return ", ".join(words + weak)
