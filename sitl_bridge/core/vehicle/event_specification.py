"""Scheduled faults and changes of a flight, as data: motors, sensors, payloads, wind, flight stacks.

Their effects on a simulation are in scheduled_events.py.  Events of a formation, such as a vehicle that
leaves it, are in swarm/formation/events.py; a scenario file has one list of all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from sitl_bridge.base.errors import UserError
from sitl_bridge.base.quantities import STRICT, Degrees, Seconds, Vector
from sitl_bridge.core.sensors.sensor_faults import find_sensor
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.world.wind import Gust, Length, Moment, PassingSpeed, Speed, Upward, WindSpecification

Share = Annotated[float, Field(ge=0.0, le=1.0)]


class ScheduledEvent(BaseModel):
    """An event at a time."""

    model_config = STRICT

    at: Seconds = Field(description="s of simulated time since the start")

    def problem(self, _airframe: Airframe) -> str:
        """Why it cannot happen to a vehicle; empty if it can."""
        return ""


class VehicleEvent(ScheduledEvent):
    """An event of vehicles."""

    vehicles: tuple[int | str, ...] | None = Field(None, description="numbers or names; default: all")


class PassingEvent(VehicleEvent):
    """An event of vehicles that may have an end."""

    lasts: Annotated[Seconds, Field(gt=0.0)] | None = Field(
        None, description="duration in s; default: to the end of the flight"
    )


class MotorEvent(PassingEvent):
    """A rotor loses thrust and torque; with no share left, its motor stops."""

    kind: Literal["motor_loss"] = Field(description="kind of event")
    motor: int = Field(1, ge=1, description="PX4's number: the first motor of the airframe is 1")
    thrust: Share = Field(0.0, description="remaining share")

    def problem(self, airframe: Airframe) -> str:
        """Why it cannot happen to the vehicle."""
        count = len(airframe.rotors)
        return "" if self.motor <= count else f"{airframe.name} has motors 1 to {count}"


class PropellerEvent(PassingEvent):
    """A propeller loses the tip of one blade: less thrust and torque, and vibration by its imbalance."""

    kind: Literal["propeller_damage"] = Field(description="kind of event")
    motor: int = Field(1, ge=1, description="PX4's number: the first motor of the airframe is 1")
    lost: Share = Field(0.1, description="share of the blade's length")

    def problem(self, airframe: Airframe) -> str:
        """Why it cannot happen to the vehicle."""
        count = len(airframe.rotors)
        return "" if self.motor <= count else f"{airframe.name} has motors 1 to {count}"


class SensorEvent(PassingEvent):
    """A sensor stops or repeats its last sample; sensor gps with fault off is the loss of GPS."""

    kind: Literal["sensor_fault"] = Field(description="kind of event")
    sensor: str = Field(description="kind, as in airframe files")
    instance: int = Field(0, ge=0, description="number among the sensors of the kind, from 0")
    fault: Literal["off", "stuck"] = Field("off", description="no samples, or repetition of the last one")

    def problem(self, airframe: Airframe) -> str:
        """Why it cannot happen to the vehicle."""
        try:
            find_sensor(airframe.sensor_records(), self.sensor, self.instance)
        except UserError as error:
            return str(error)
        return ""


class GpsEvent(PassingEvent):
    """An event of satellite receivers."""

    def problem(self, airframe: Airframe) -> str:
        """Why it cannot happen to the vehicle."""
        kinds = {sensor.kind for sensor in airframe.sensors}
        return "" if "gps" in kinds else f"{airframe.name} has no satellite receiver"


class JammingEvent(GpsEvent):
    """Satellite signals are jammed."""

    kind: Literal["gps_jamming"] = Field(description="kind of event")
    level: Share = Field(1.0, description="1 = no signal")


class SpoofingEvent(GpsEvent):
    """Satellite signals are spoofed: the fix moves away."""

    kind: Literal["gps_spoofing"] = Field(description="kind of event")
    velocity: Vector = Field(description="of the fix, m/s north, east, down")


class PayloadEvent(VehicleEvent):
    """The payload is dropped: mass, inertia and the centre of gravity change at once."""

    kind: Literal["payload_drop"] = Field(description="kind of event")

    def problem(self, airframe: Airframe) -> str:
        """Why it cannot happen to the vehicle."""
        return "" if airframe.carried is not None else f"{airframe.name} carries no payload"


class StackEvent(VehicleEvent):
    """The flight stack's process is killed, or stopped for some seconds of wall time."""

    kind: Literal["stack_killed", "stack_stopped"] = Field(description="kind of event")
    seconds: Annotated[float, Field(gt=0.0, le=600.0)] = Field(
        5.0, description="s of wall time for which it is stopped"
    )


class GustEvent(ScheduledEvent):
    """A 1-cosine gust on all vehicles, as in the wind of a world."""

    kind: Literal["gust"] = Field(description="kind of event")
    speed: Annotated[Speed, Field(gt=0.0)] = Field(description="m/s")
    direction: Degrees = Field(0.0, description="deg from which it comes")
    upward: Upward = Field(0.0, description="m/s")
    length: Length = Field(30.0, description="m")
    passing_speed: PassingSpeed = Field(10.0, description="m/s")
    hold: Moment | None = Field(2.0, description="s at full strength")

    def gust(self) -> Gust:
        """The gust of a wind."""
        figures = {name: getattr(self, name) for name in Gust.model_fields if name != "start"}
        return Gust(start=self.at, **figures)


class WindEvent(ScheduledEvent):
    """The wind changes to another."""

    kind: Literal["wind_change"] = Field(description="kind of event")
    wind: WindSpecification = Field(description="new wind")

    def problem(self, _airframe: Airframe) -> str:
        """Why its recorded wind cannot be read; empty if it can."""
        try:
            self.wind.load_series()
        except UserError as error:
            return str(error)
        return ""


AnyEvent = (
    MotorEvent
    | PropellerEvent
    | SensorEvent
    | JammingEvent
    | SpoofingEvent
    | PayloadEvent
    | StackEvent
    | GustEvent
    | WindEvent
)
EventSpecification = Annotated[AnyEvent, Field(discriminator="kind")]


def concerned(event: ScheduledEvent, names: Sequence[str]) -> list[int]:
    """Vehicles of an event.

    Raises:
        UserError: for a vehicle that does not exist.
    """
    if not isinstance(event, VehicleEvent) or event.vehicles is None:
        return list(range(len(names)))
    found = []
    for vehicle in event.vehicles:
        if isinstance(vehicle, str) and vehicle in names:
            found.append(names.index(vehicle))
        elif isinstance(vehicle, int) and 0 <= vehicle < len(names):
            found.append(vehicle)
        else:
            raise UserError(f"there is no vehicle {vehicle!r}; there are {len(names)}, from {names[0]!r} on")
    return found


def event_faults(
    events: Iterable[ScheduledEvent], names: Sequence[str], airframes: Sequence[Airframe]
) -> list[tuple[int, str]]:
    """Events that cannot happen: number and reason."""
    found = []
    for i, event in enumerate(events):
        try:
            for vehicle in concerned(event, names) if isinstance(event, VehicleEvent) else [0]:
                problem = event.problem(airframes[vehicle])
                if problem:
                    prefix = f"vehicle {names[vehicle]}: " if isinstance(event, VehicleEvent) else ""
                    found.append((i, f"{prefix}{problem}"))
        except UserError as error:
            found.append((i, str(error)))
    return found


def problems(
    events: Sequence[ScheduledEvent], names: Sequence[str], airframes: Sequence[Airframe]
) -> list[str]:
    """Messages about events that cannot happen."""
    faults = event_faults(events, names, airframes)
    return [f"events[{i}] at {events[i].at:g} s: {reason}" for i, reason in faults]
