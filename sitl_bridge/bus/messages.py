"""The messages of the bus: what is published, what is taken as a command, and its answer.

Version 1 of all of them.  Their JSON Schemas are in ``schemas/``, written by ``schema.py``; where each goes
is in topics.py.  SI units; world NED from the world's origin, body FRD; numbers that are not finite are null.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from sitl_bridge.quantities import Pace
from sitl_bridge.sensors.records import KIND_NAMES
from sitl_bridge.world.wind import WindSpecification

Version = Literal[1]
VERSION: Version = 1

IDENTIFIER = r"^[A-Za-z0-9_.-]{1,64}$"
"""Of request ids, runs and vehicles: all of them are levels of topics."""


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _to_microseconds(value: float) -> float:
    return round(value, 6)


Number = Annotated[float | None, BeforeValidator(_finite)]
Vector = tuple[Number, Number, Number]
Quaternion = tuple[Number, Number, Number, Number]
Finite = Annotated[float, Field(allow_inf_nan=False)]


class Message(BaseModel):
    """What every message says of itself."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Version = Field(VERSION, description="of the message's form")


class Timed(Message):
    """A message about a moment of the run."""

    time: Annotated[float, AfterValidator(_to_microseconds)] = Field(
        description="s of simulated time since the start"
    )


# ------------------------------------------------------------------------------------------- published


class Status(Message):
    """Retained, and the bus's last will: whether somebody serves the run, and what became of its commands."""

    online: bool
    vehicles: tuple[str, ...] = ()
    executed: int = Field(0, description="commands")
    refused: int = Field(0, description="commands")
    duplicates: int = Field(0, description="commands that came again and were not executed again")
    retained: int = Field(0, description="retained commands, ignored")
    unanswered: int = Field(0, description="refused commands without a reply, there being too many of them")


class Clock(Timed):
    """Retained: how time goes."""

    steps: int
    real_time_factor: Number = Field(description="over the last second or so of wall time")
    speed: float | None = Field(description="simulated over wall time that is asked for; null: no limit")
    paused: bool


class WorldState(Timed):
    """Retained: the place and the wind's settings; the wind at a vehicle is in its state."""

    latitude: float = Field(description="deg, of the origin")
    longitude: float = Field(description="deg")
    altitude: float = Field(description="m AMSL")
    gravity: float = Field(description="m/s^2")
    steady_wind: Vector = Field(description="m/s NED, direction the air moves to")
    profile_speed: Number = Field(description="m/s at 20 ft of the logarithmic profile, 0 without")
    profile_direction: tuple[Number, Number] = Field(description="unit vector N, E the air moves to")
    turbulence: Number = Field(description="m/s, wind at 20 ft that sets the turbulence, 0 without")
    gusts: int
    recorded: bool = Field(description="a recorded wind blows too")


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


class FaultySensor(BaseModel):
    """A sensor that does not work as it should."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sensor: str
    instance: int
    fault: Literal["off", "stuck", "jammed", "spoofed"]


class VehicleHealth(Timed):
    """Retained: link, battery, rotors, sensors and ground contact of a vehicle."""

    connected: bool = Field(description="its flight stack")
    armed: bool
    lockstep: bool = Field(description="every frame is answered before the next")
    stalled: bool = Field(description="its flight stack does not answer")
    held: bool = Field(description="its flight stack does not read; time waits for it")
    answers: int
    bad_frames: int
    battery_voltage: Number = Field(description="V")
    battery_current: Number = Field(description="A")
    battery_left: Number = Field(description="share of the charge")
    rotor_health: tuple[Number, ...] = Field(description="share of thrust left")
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
    "command",
    "text",
]


class Event(Timed):
    """Something that happened to a vehicle; not retained."""

    kind: EventKind
    text: str


class Reply(Timed):
    """The answer to a command, on a topic of its request's id; not retained."""

    request_id: str = Field(description="'unidentified' where the command had none that could be read")
    command: str = Field(description="last level of the command's topic")
    vehicle: str | None
    accepted: bool = Field(description="it was executed, at this time")
    duplicate: bool = Field(False, description="it had come before, and this is what became of it then")
    reason: str = Field("", description="why it was refused")


# -------------------------------------------------------------------------------------------- commands


class Command(BaseModel):
    """What every command has."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    version: Version
    request_id: str = Field(pattern=IDENTIFIER, description="of the sender's choice; executed once a run")


class SetWind(Command):
    """Another wind from now on; gusts count their start from now."""

    wind: WindSpecification

    @model_validator(mode="after")
    def _without_files(self) -> SetWind:
        if self.wind.series is not None:
            raise ValueError("a recorded wind is a file of the machine that simulates; give it with --world")
        if self.wind.custom is not None:
            raise ValueError("a custom wind is code of the machine that simulates; give it with --world")
        return self


class SetPace(Command):
    """Simulated over wall time."""

    speed: Pace | Literal["max"] = Field(description="1 is real time; max is as fast as it goes")


class Pause(Command):
    """Hold simulated time after the present step."""


class Resume(Command):
    """Let time run on."""


class Step(Command):
    """Pause, and take so many steps more."""

    count: int = Field(1, ge=1, le=1_000_000)


class FormationCommand(Command):
    """What is for whatever flies the formation, not for the simulation."""


class FormationTarget(FormationCommand):
    """Other slots, in the place of the changes that are planned but have not begun."""

    pattern: str | None = Field(None, max_length=64, description="grid, column, v, circle, cube ...")
    spacing: float = Field(4.0, gt=0.0, le=1000.0, description="m, of a pattern")
    scale: float | None = Field(None, gt=0.0, le=100.0, description="of the present slots")
    offsets: tuple[tuple[Finite, Finite, Finite], ...] | None = Field(
        None, max_length=1000, description="m forward, right, down of the centre, the leader's first"
    )

    @model_validator(mode="after")
    def _one(self) -> FormationTarget:
        if sum(value is not None for value in (self.pattern, self.scale, self.offsets)) != 1:
            raise ValueError("give one of pattern, scale and offsets")
        if self.pattern is None and "spacing" in self.model_fields_set:
            raise ValueError("spacing is of a pattern")
        return self


class Land(FormationCommand):
    """End the formation now and land all that are in it, side by side."""


class Abort(FormationCommand):
    """The vehicle leaves the formation for good."""

    action: Literal["hold", "land", "return"] = "land"


class SetFault(Command):
    """A sensor fails, or is mended with ``none``."""

    sensor: str = Field(description=f"one of {', '.join(KIND_NAMES.values())}")
    instance: int = Field(0, ge=0, le=255, description="id the flight stack sees")
    fault: Literal["none", "off", "stuck"]


class Jam(Command):
    """Satellite receivers of the vehicle are jammed."""

    level: float = Field(ge=0.0, le=1.0, description="0 clear sky, 1 no signal")


class Spoof(Command):
    """The fix of the vehicle's satellite receivers walks away; with null it jumps back to the truth."""

    velocity: tuple[Finite, Finite, Finite] | None = Field(description="m/s NED")


class SetRotor(Command):
    """A rotor loses thrust; with 0 its motor stops."""

    rotor: int = Field(ge=0, le=11, description="in the airframe file's order, from 0")
    health: float = Field(0.0, ge=0.0, le=1.0, description="share of thrust and torque left")


_Horizontal = Annotated[float, Field(ge=-100_000.0, le=100_000.0)]


class Teleport(Command):
    """The vehicle is elsewhere, level; its flight stack is not told."""

    position: tuple[_Horizontal, _Horizontal, Annotated[float, Field(ge=-20_000.0, le=0.0)]] = Field(
        description="m NED, lowest point of the vehicle"
    )
    velocity: tuple[Finite, Finite, Finite] = Field((0.0, 0.0, 0.0), description="m/s NED")
    yaw: float = Field(0.0, ge=-360.0, le=360.0, description="deg")


RUN_COMMANDS: dict[str, type[Command]] = {
    "wind": SetWind,
    "pace": SetPace,
    "pause": Pause,
    "resume": Resume,
    "step": Step,
    "formation": FormationTarget,
    "land": Land,
}
"""By the last level of ``sitl/<run>/command/...``."""

VEHICLE_COMMANDS: dict[str, type[Command]] = {
    "fault": SetFault,
    "jam": Jam,
    "spoof": Spoof,
    "rotor": SetRotor,
    "teleport": Teleport,
    "abort": Abort,
}
"""By the last level of ``sitl/<run>/vehicle/<name>/command/...``."""

PUBLISHED: dict[str, type[Message]] = {
    "status": Status,
    "clock": Clock,
    "world": WorldState,
    "vehicle_state": VehicleState,
    "vehicle_health": VehicleHealth,
    "vehicle_event": Event,
    "reply": Reply,
}
