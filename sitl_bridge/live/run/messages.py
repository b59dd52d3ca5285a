"""The messages of the bus: published messages, commands and replies.

All have version 1.  Their JSON Schema is printed by ``sitl-bridge schema bus``; their topics are in
topics.py.  SI units; world NED from the world's origin, body FRD; values that are not finite are null.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    create_model,
    model_validator,
)

from sitl_bridge.base.json_data import JsonObject
from sitl_bridge.base.quantities import STRICT, Pace
from sitl_bridge.core.simulation.events import COMMANDED, PassingEvent
from sitl_bridge.core.world.wind import WindSpecification

Version = Literal[1]
VERSION: Version = 1

IDENTIFIER = r"^[A-Za-z0-9_.-]{1,64}$"
"""Request ids, runs and vehicles, all of which are levels of topics."""


def _finite(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _to_microseconds(value: float) -> float:
    return round(value, 6)


Number = Annotated[float | None, BeforeValidator(_finite)]
Vector = tuple[Number, Number, Number]
Quaternion = tuple[Number, Number, Number, Number]
LARGEST = 1e5
"""Largest figure of a motion that is commanded, in m, m/s, rad or rad/s: MAVLink's floats have 32 bits."""
Motion = Annotated[float, Field(ge=-LARGEST, le=LARGEST)]
Stick = Annotated[float, Field(ge=-1.0, le=1.0)]


class BusMessage(BaseModel):
    """Fields of every message."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    version: Version = Field(VERSION, description="version of the message format")


class Timed(BusMessage):
    """A message with a simulated time."""

    time: Annotated[float, AfterValidator(_to_microseconds)] = Field(
        description="s of simulated time since the start"
    )


# ------------------------------------------------------------------------------------------- published


class Status(BusMessage):
    """Retained, and the bus's last will: whether the run is online, and counters of its commands."""

    online: bool
    vehicles: tuple[str, ...] = ()
    executed: int = Field(0, description="commands")
    refused: int = Field(0, description="commands")
    duplicates: int = Field(0, description="repeated commands, not executed again")
    retained: int = Field(0, description="retained commands, ignored")
    unanswered: int = Field(0, description="refused commands without a reply, above the rate limit")


class Clock(Timed):
    """Retained: speed of simulated time."""

    steps: int
    real_time_factor: Number = Field(description="over about the last second of wall time")
    speed: float | None = Field(description="requested simulated over wall time; null: no limit")
    paused: bool


class WorldState(Timed):
    """Retained: location and wind settings; the wind at a vehicle is in its state."""

    latitude: float = Field(description="deg, of the origin")
    longitude: float = Field(description="deg")
    altitude: float = Field(description="m AMSL")
    gravity: float = Field(description="m/s^2")
    steady_wind: Vector = Field(description="m/s NED, direction of air motion")
    profile_speed: Number = Field(description="m/s at 20 ft of the logarithmic profile, 0 without")
    profile_direction: tuple[Number, Number] = Field(description="unit vector N, E of air motion")
    turbulence: Number = Field(description="m/s, wind at 20 ft for the turbulence intensity, 0 without")
    gusts: int
    recorded: bool = Field(description="whether a recorded wind is added")


class VehicleState(Timed):
    """Retained: the true motion of a vehicle."""

    position: Vector = Field(description="m NED, centre of gravity")
    velocity: Vector = Field(description="m/s NED")
    attitude: Quaternion = Field(description="w, x, y, z, body to NED")
    angular_velocity: Vector = Field(description="rad/s body")
    latitude: Number = Field(description="deg")
    longitude: Number = Field(description="deg")
    altitude: Number = Field(description="m AMSL")
    wind: Vector = Field(description="m/s NED at the vehicle")
    rotor_speed: tuple[Number, ...] = Field(description="rad/s")
    motor_current: tuple[Number, ...] = Field(description="A, of each speed controller")
    esc_temperature: tuple[Number, ...] = Field(description="deg C, of each speed controller")


class FaultySensor(BaseModel):
    """A faulty sensor."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    sensor: str
    instance: int
    fault: Literal["off", "stuck", "jammed", "spoofed"]


class VehicleHealth(Timed):
    """Retained: link, battery, rotors, sensors and ground contact of a vehicle."""

    connected: bool = Field(description="flight stack connected")
    armed: bool
    lockstep: bool = Field(description="every frame is answered before the next")
    stalled: bool = Field(description="the flight stack does not answer")
    held: bool = Field(description="the flight stack does not read; simulated time is held")
    answers: int
    bad_frames: int
    battery_voltage: Number = Field(description="V")
    battery_current: Number = Field(description="A")
    battery_left: Number = Field(description="share of the charge")
    rotor_health: tuple[Number, ...] = Field(description="remaining share of thrust")
    faults: tuple[FaultySensor, ...]
    on_ground: bool
    impact_speed: Number = Field(description="m/s, hardest contact so far")


EventKind = Literal[
    "connected",
    "disconnected",
    "armed",
    "disarmed",
    "stalled",
    "answering",
    "touched",
    "left_ground",
    "impact",
    "contact",
    "command",
    "text",
]


class Event(Timed):
    """Something that happened to a vehicle; not retained."""

    kind: EventKind
    text: str
    object: str | None = Field(None, description="of the scene, of a contact")
    speed: Number = Field(None, description="m/s, closing speed of a contact")


class Reply(Timed):
    """The reply to a command, on the topic of its request id; not retained."""

    request_id: str = Field(description="'unidentified' for a command without a valid id")
    command: str = Field(description="last level of the command's topic")
    vehicle: str | None
    accepted: bool = Field(description="executed, at this time")
    duplicate: bool = Field(False, description="repeated command; this is its first reply")
    reason: str = Field("", description="reason of a refusal")


# -------------------------------------------------------------------------------------------- commands


class BusCommand(BaseModel):
    """Fields of every command."""

    model_config = STRICT

    version: Version
    request_id: str = Field(pattern=IDENTIFIER, description="chosen by the sender; executed once per run")


class SetWind(BusCommand):
    """Replace the wind; gusts start from now."""

    wind: WindSpecification

    @model_validator(mode="after")
    def _without_files(self) -> SetWind:
        if self.wind.series is not None:
            raise ValueError("a recorded wind is a file on the simulating machine; set it with --world")
        if self.wind.custom is not None:
            raise ValueError("a custom wind is code on the simulating machine; set it with --world")
        return self


class SetPace(BusCommand):
    """Set simulated over wall time."""

    speed: Pace | Literal["max"] = Field(description="1 is real time; max is as fast as possible")


class Pause(BusCommand):
    """Pause simulated time after the present step."""


class Resume(BusCommand):
    """Continue simulated time."""


class Step(BusCommand):
    """Pause, and execute a number of steps."""

    count: int = Field(1, ge=1, le=1_000_000)


class DelegatedCommand(BusCommand):
    """A command that is executed outside the simulation and takes time."""


class FlightCommand(DelegatedCommand):
    """A command for the vehicle's flight stack, sent to it over MAVLink."""


class Arm(FlightCommand):
    """Arm the vehicle, or disarm it."""

    armed: bool = Field(True, description="false disarms")


class TakeOff(FlightCommand):
    """Arm the vehicle if it is not armed, and take off."""

    height: float = Field(2.5, ge=1.0, le=1000.0, description="m above the ground")


class LandVehicle(FlightCommand):
    """Land the vehicle where it is."""


class SetPointCommand(FlightCommand):
    """Command that an armed vehicle follows until another one: a set-point, in Offboard, or sticks."""


class SetVelocity(SetPointCommand):
    """Fly with a velocity for 0.5 s of simulated time; without another one the vehicle then stops."""

    velocity: tuple[Motion, Motion, Motion] = Field(
        description="m/s forward, right, down at the vehicle's heading"
    )
    yaw_rate: Motion = Field(0.0, description="rad/s, clockwise from above")


class GoTo(SetPointCommand):
    """Fly to a place, and stay there."""

    position: tuple[Motion, Motion, Motion] = Field(description="m NED from the world's origin")
    yaw: Motion | None = Field(None, description="rad from north, clockwise; null keeps the heading")


class MoveSticks(SetPointCommand):
    """Move the sticks of a remote control; 1 s of simulated time later they centre.  It then stays on."""

    forward: Stick = Field(0.0, description="tilts the nose down in modes without position control")
    right: Stick = 0.0
    throttle: float = Field(0.5, ge=0.0, le=1.0, description="0.5 holds the height")
    clockwise: Stick = 0.0
    mode: Literal["Position", "Altitude", "Stabilized", "Acro"] = "Position"


class FormationCommand(DelegatedCommand):
    """A command for the formation."""


class FormationTarget(FormationCommand):
    """Change the slots; planned changes that have not begun are dropped."""

    pattern: str | None = Field(None, max_length=64, description="grid, column, v, circle, cube ...")
    spacing: float = Field(4.0, gt=0.0, le=1000.0, description="m, of a pattern")
    scale: float | None = Field(None, gt=0.0, le=100.0, description="of the present slots")
    offsets: tuple[tuple[Motion, Motion, Motion], ...] | None = Field(
        None, max_length=1000, description="m forward, right, down of the centre, the leader's first"
    )

    @model_validator(mode="after")
    def _one(self) -> FormationTarget:
        if sum(value is not None for value in (self.pattern, self.scale, self.offsets)) != 1:
            raise ValueError("give exactly one of pattern, scale and offsets")
        if self.pattern is None and "spacing" in self.model_fields_set:
            raise ValueError("spacing applies only to a pattern")
        return self


class Land(FormationCommand):
    """End the formation now and land all its vehicles, side by side."""


class Abort(FormationCommand):
    """Remove the vehicle from the formation permanently."""

    action: Literal["hold", "land", "return"] = "land"


class EventCommand(BusCommand):
    """A fault or change of the vehicle, as in scenario files, at once."""


class PassingCommand(EventCommand):
    """A fault that the same message with ``ends`` puts right."""

    ends: bool = Field(False, description="ends it instead of beginning it")


def _event_commands() -> Iterator[tuple[str, type[EventCommand]]]:
    """A command for each event that vehicles may have at once: with the event's fields."""
    for kind, event in COMMANDED.items():
        fields: JsonObject = {
            name: (field.annotation, field)
            for name, field in event.model_fields.items()
            if name not in ("at", "kind", "vehicles", "lasts")
        }
        base = PassingCommand if issubclass(event, PassingEvent) else EventCommand
        title = kind.title().replace("_", "")
        yield kind, create_model(title, __base__=base, __doc__=inspect.getdoc(event), **fields)


RUN_COMMANDS: dict[str, type[BusCommand]] = {
    "wind": SetWind,
    "pace": SetPace,
    "pause": Pause,
    "resume": Resume,
    "step": Step,
    "formation": FormationTarget,
    "land": Land,
}
"""By the last level of ``sitl/<run>/command/...``."""

VEHICLE_COMMANDS: dict[str, type[BusCommand]] = {
    **dict(_event_commands()),
    "abort": Abort,
    "arm": Arm,
    "takeoff": TakeOff,
    "land": LandVehicle,
    "velocity": SetVelocity,
    "goto": GoTo,
    "sticks": MoveSticks,
}
"""By the last level of ``sitl/<run>/vehicle/<name>/command/...``."""

PUBLISHED: dict[str, type[BusMessage]] = {
    "status": Status,
    "clock": Clock,
    "world": WorldState,
    "vehicle_state": VehicleState,
    "vehicle_health": VehicleHealth,
    "vehicle_event": Event,
    "reply": Reply,
}
"""By the last level of their topics, with a ``vehicle_`` in front of a vehicle's."""


def message_models() -> dict[
    str, tuple[type[BusMessage | BusCommand], Literal["serialization", "validation"]]
]:
    """Model of each topic below ``sitl/RUN/``, by the topic with NAME and REQUEST_ID in it, and its use."""
    published = {name.replace("vehicle_", "vehicle/NAME/"): model for name, model in PUBLISHED.items()}
    published["reply/REQUEST_ID"] = published.pop("reply")
    commands = {f"command/{kind}": model for kind, model in RUN_COMMANDS.items()}
    commands |= {f"vehicle/NAME/command/{kind}": model for kind, model in VEHICLE_COMMANDS.items()}
    return {
        **{topic: (model, "serialization") for topic, model in published.items()},
        **{topic: (model, "validation") for topic, model in commands.items()},
    }
