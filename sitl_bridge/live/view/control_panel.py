"""The controls of a live page: the run's state, time, flight, sticks, failures, wind, cameras.

A button makes the same message that a client of the bus would publish, and passes it to ``send``.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args, get_origin

import numpy as np
from annotated_types import Ge
from pydantic.fields import FieldInfo

from sitl_bridge.base.arrays import AnyArray, Records
from sitl_bridge.base.json_data import JsonObject
from sitl_bridge.core.simulation.events import COMMANDED, PassingEvent, VehicleEvent
from sitl_bridge.live.run.client_link import SimulationSnapshot, StackReport
from sitl_bridge.live.run.messages import Reply
from sitl_bridge.live.view.page_server import on_page, run_script
from sitl_bridge.live.view.stage import CHASE, Stage
from sitl_bridge.live.view.view_controls import ONBOARD, ViewControls, as_markdown, motion_lines
from sitl_bridge.live.view.viewed_run import ViewedRun

if TYPE_CHECKING:
    from viser import GuiDropdownHandle, GuiEvent, SceneClickEvent, ViserServer

Send: TypeAlias = Callable[[str, str | None, JsonObject], None]
"""Sends a command: its kind, the vehicle's name (None: the whole run) and its fields."""

PACES = ("0.1", "0.25", "0.5", "1", "2", "5", "10", "20", "max")
NO_CAMERA = "none"
LISTED_REPLIES = 4
STICK_HELP = (
    "**W S** up and down, **A D** turn, **arrow keys** fly, with **Shift** fast; or a gamepad."
    "  The vehicle has to be armed."
)


class ControlPanel:
    """Controls of a running simulation.

    Args:
        send: takes the commands, from any thread.
    """

    def __init__(self, server: ViserServer, run: ViewedRun, stage: Stage, send: Send) -> None:
        self._server, self._gui, self._run, self._send = server, server.gui, run, send
        self.stacks: list[StackReport] = []
        self._replies: list[str] = []
        self._arming: deque[bool] = deque()
        self._stick_answer: str | None = None
        self._moved = False
        self._paused = False
        self._speed = ""
        self._in_the_air = False
        self._down = 0.0
        self._status = self._gui.add_markdown("waiting for the first step")
        self.view = ViewControls(server, run, stage, CHASE)
        self._condition = self._gui.add_markdown("")
        self._answers = self._gui.add_markdown("")
        self._build_time()
        self._build_flight()
        self._build_sticks()
        self._build_failures()
        self._build_wind()
        self._build_camera()
        server.scene.on_click(modifier="cmd/ctrl")(on_page(self._go_where_clicked))
        for note in run.notes:
            self._gui.add_markdown(f"*{as_markdown(note)}*")

    def _button(
        self,
        label: str,
        kind: str,
        fields: Callable[[], JsonObject],
        vehicle: bool = True,
        warning: Callable[[], str] = lambda: "",
    ) -> None:
        """A button that sends a command; if it has a warning, only after the user has confirmed it."""
        button = self._gui.add_button(label)

        def send() -> None:
            values = fields()
            if kind == "arm":
                self._arming.append(bool(values["armed"]))
            self._send(kind, self.view.vehicle if vehicle else None, values)

        def clicked(_event: GuiEvent) -> None:
            what = warning()
            if what:
                self._confirm(what, send)
            else:
                send()

        button.on_click(on_page(clicked))

    def _confirm(self, what: str, act: Callable[[], None]) -> None:
        with self._gui.add_modal("Are you sure?") as modal:
            self._gui.add_markdown(what)
            yes, no = self._gui.add_button("Do it", color="red"), self._gui.add_button("Cancel")

        def confirmed(_event: GuiEvent) -> None:
            modal.close()
            act()

        yes.on_click(on_page(confirmed))
        no.on_click(on_page(lambda _event: modal.close()))

    def _build_time(self) -> None:
        with self._gui.add_folder("Time"):
            self._pause = self._gui.add_button("Pause")
            self._button("Step", "step", lambda: {"count": 1}, vehicle=False)
            self._pace = self._gui.add_dropdown("Speed", PACES, initial_value="1")

        def set_pace(event: GuiEvent) -> None:
            if event.client is not None:  # not this program's own update
                pace = self._pace.value
                self._send("pace", None, {"speed": "max" if pace == "max" else float(pace)})

        self._pause.on_click(
            on_page(lambda _event: self._send("resume" if self._paused else "pause", None, {}))
        )
        self._pace.on_update(on_page(set_pace))

    def _build_flight(self) -> None:
        with self._gui.add_folder("Flight", expand_by_default=False):
            self._button("Arm", "arm", lambda: {"armed": True})
            self._button(
                "Disarm",
                "arm",
                lambda: {"armed": False},
                warning=lambda: f"Vehicle {self.view.vehicle} is in the air." if self._in_the_air else "",
            )
            height = self._gui.add_number("Height (m)", 5.0, min=1.0, max=1000.0)
            self._button("Take off", "takeoff", lambda: {"height": float(height.value)})
            self._button("Land", "land", dict)
            self._gui.add_markdown("Ctrl and a click on the ground: fly there, at the present height.")

    def _build_sticks(self) -> None:
        with self._gui.add_folder("Sticks", expand_by_default=False):
            self._by_hand = self._gui.add_checkbox("Fly by hand", False)
            self._sticks = self._gui.add_markdown(STICK_HELP)

        def switch(_event: GuiEvent) -> None:
            run_script(self._server, f"flyByHand({json.dumps(self._by_hand.value)});")
            self._stick_answer = None
            if self._by_hand.value or self._moved:  # centred sticks would end a landing, too
                self.take_sticks((0.0, 0.0, 0.0, 0.0))

        self._by_hand.on_update(on_page(switch))

    def take_sticks(self, sticks: Sequence[float]) -> None:
        """Move the sticks: forward, right, up and clockwise, each -1 to 1."""
        forward, right, up, clockwise = sticks
        self._moved = any(sticks)
        fields = {"forward": forward, "right": right, "throttle": 0.5 + 0.5 * up, "clockwise": clockwise}
        self._send("sticks", self.view.vehicle, fields)
        names = ("forward", "right", "up", "clockwise")
        shown = ", ".join(f"{name} {value:+.1f}" for name, value in zip(names, sticks, strict=True))
        self._sticks.content = f"{STICK_HELP}\n\n{shown}"

    def _go_where_clicked(self, event: SceneClickEvent) -> None:
        """Fly over the place at which the click meets the level of the origin; the scene's axes are ENU."""
        (east, north, up), (to_east, to_north, to_up) = event.ray_origin, event.ray_direction
        if up > 0.0 > to_up:
            way = -up / to_up
            place = (north + way * to_north, east + way * to_east, self._down)
            self._send("goto", self.view.vehicle, {"position": place})

    def _build_failures(self) -> None:
        """A folder for each fault: its fields, and buttons that begin and end it."""
        with self._gui.add_folder("Failures", expand_by_default=False):
            for kind, event in COMMANDED.items():
                if kind != "teleport":
                    with self._gui.add_folder(kind.replace("_", " "), expand_by_default=False):
                        self._build_fault(kind, event)

    def _build_fault(self, kind: str, event: type[VehicleEvent]) -> None:
        inputs = {
            name: self._input(name, field)
            for name, field in event.model_fields.items()
            if name not in ("at", "kind", "vehicles", "lasts")
        }

        def fields() -> JsonObject:
            return {name: given.value for name, given in inputs.items()}

        def warning() -> str:
            values = ", ".join(f"{name} {value}" for name, value in fields().items())
            return f"{kind.replace('_', ' ')} of vehicle {self.view.vehicle}{values and f': {values}'}."

        self._button("Begin", kind, fields, warning=warning)
        if issubclass(event, PassingEvent):
            self._button("End", kind, lambda: {**fields(), "ends": True})

    def _input(self, name: str, field: FieldInfo) -> Any:
        label, default = name.capitalize(), None if field.is_required() else field.default
        choices = (
            list(get_args(field.annotation)) if get_origin(field.annotation) is Literal else field.examples
        )
        if choices:
            return self._gui.add_dropdown(label, choices, initial_value=default or choices[0])
        if field.annotation is int:
            least = next((one.ge for one in field.metadata if isinstance(one, Ge)), None)
            return self._gui.add_number(label, default or 0, min=least, step=1)
        if field.annotation is float:
            return self._gui.add_slider(label, 0.0, 1.0, 0.05, default or 0.0)
        return self._gui.add_vector3(label, default or (0.0, 0.0, 0.0))

    def _build_wind(self) -> None:
        with self._gui.add_folder("Wind", expand_by_default=False):
            speed = self._gui.add_number("Speed (m/s)", 5.0, min=0.0, max=60.0)
            origin = self._gui.add_slider("From (deg)", 0.0, 359.0, 1.0, 270.0)

            def steady() -> JsonObject:
                wind = {"speed": float(speed.value), "direction": float(origin.value)}
                return {"wind": {"steady": wind} if wind["speed"] else {}}

            self._button("Set wind", "wind", steady, vehicle=False)

    def _build_camera(self) -> None:
        self._cameras = {f"{camera.vehicle}: {camera.sensor}": camera for camera in self._run.cameras()}
        self._camera: GuiDropdownHandle[str] | None = None
        if self._cameras:
            with self._gui.add_folder(ONBOARD):
                self._camera = self._gui.add_dropdown("Sensor", [*self._cameras, NO_CAMERA])
                self._image = self._gui.add_image(np.zeros((3, 4, 3), np.uint8))

    # ------------------------------------------------------------------ what is shown

    def camera(self) -> tuple[str, str] | None:
        """Vehicle and sensor whose pictures are to be shown; None for none."""
        chosen = None if self._camera is None else self._cameras.get(self._camera.value)
        return None if chosen is None else (chosen.vehicle, chosen.sensor)

    def show_picture(self, image: AnyArray) -> None:
        """Show a camera's picture: (h, w, 3) uint8."""
        self._image.image = image

    def show(self, snapshot: SimulationSnapshot, wind: float, rows: Records) -> None:
        """Show the state of the run: wind is the mean at the vehicles, m/s; (n,) ROW of the last step."""
        clock = snapshot.clock
        self._paused = bool(clock["paused"])
        self._pause.label = "Resume" if self._paused else "Pause"
        speed = "max" if clock["speed"] is None else f"{clock['speed']:g}"
        if speed != self._speed:
            self._speed = speed
            if speed not in PACES:
                self._pace.options = (*PACES, speed)
            self._pace.value = speed
        factor = clock["real_time_factor"]
        state = "paused" if self._paused else f"{factor:.1f} x real time"
        number = self.view.number
        self._status.content = "  \n".join(
            [
                f"**{snapshot.time:.1f} s**, {state}, wind {wind:.1f} m/s",
                f"flown by {as_markdown(stack)}" if (stack := self._stack(number)) else "",
            ]
        )
        health = snapshot.health[number]
        self._down = float(rows[number]["position"][2])
        self._in_the_air = bool(health["armed"]) and not health["on_ground"]
        report = self.stacks[number] if number < len(self.stacks) else None
        self._condition.content = _condition(health, rows[number], report)

    def _stack(self, number: int) -> str:
        """The flight stack of a vehicle, with its version; empty where run.json does not name it."""
        autopilot = self._run.recorded.description["vehicles"][number].get("autopilot") or {}
        return f"{autopilot.get('name', '')} {autopilot.get('version', '')}".strip()

    def show_replies(self, replies: Sequence[Reply]) -> None:
        """List the answers to commands, the newest first."""
        for reply in replies:
            name = reply.command
            if name == "sticks":  # ten a second; the same answer is listed once
                if reply.reason == self._stick_answer:
                    continue
                self._stick_answer = reply.reason
            if name == "arm" and self._arming:
                name = "arm" if self._arming.popleft() else "disarm"
            several = reply.vehicle is not None and len(self._run.names) > 1
            what = f"{name} of {reply.vehicle}" if several else name
            result = (
                "done" if reply.accepted else f"refused: {reply.reason.removeprefix(f'{reply.command}: ')}"
            )
            self.show_note(f"{reply.time:.1f} s: {what} {result}")

    def show_note(self, line: str) -> None:
        """List a line, above those before."""
        self._replies.insert(0, f"- {as_markdown(line)}")
        del self._replies[LISTED_REPLIES:]
        self._answers.content = "\n".join(self._replies)


def _condition(health: JsonObject, row: np.void, report: StackReport | None) -> str:
    """A vehicle's state and the last texts of its flight stack, as Markdown."""
    words = ["armed" if health["armed"] else "disarmed"] if health["connected"] else ["no flight stack"]
    if health["stalled"]:
        words.append("does not answer")
    mode = "" if report is None or not report.mode else f"**{report.mode}**, "
    lines = [
        f"{mode}{', '.join(words)}",
        *motion_lines(row),
        f"battery {health['battery_voltage']:.1f} V, {health['battery_left']:.0%}",
    ]
    broken = [f"{fault['sensor']} {fault['instance']} {fault['fault']}" for fault in health["faults"]]
    shares = enumerate(health["rotor_health"], 1)
    broken += [f"motor {k} at {share:.0%}" for k, share in shares if share < 1.0]
    lines += [", ".join(broken)] if broken else []
    messages = [] if report is None else reversed(report.messages)
    texts = [f"*{time:.0f} s: {as_markdown(text)}*" for time, _, text in messages]
    return "  \n".join(lines + texts)
