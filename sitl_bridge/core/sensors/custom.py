"""A user's own sensor: one Python file, one line in an airframe.

It samples in Python between steps, at its own rate, from the truth and a random stream of its own.  Its
samples go to a table of the run, and the messages it makes of them to the flight stack.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field

from sitl_bridge.base.arrays import Floats, Records
from sitl_bridge.base.error_log import ErrorLog, print_error
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.field_paths import name_faults_of
from sitl_bridge.base.kernels.random_streams import stream
from sitl_bridge.base.output_file import LineLog
from sitl_bridge.base.user_file import UserClass, failure_text
from sitl_bridge.core.sensors.error_model import SLOWEST
from sitl_bridge.core.world.records import START

Sample = dict[str, float]


@dataclass(frozen=True)
class Truth:
    """True state of the sensor's vehicle now; arrays are copies.

    Attributes:
        time: s of simulated time since the start.
        position: (3,) m NED from the world's origin.
        velocity: (3,) m/s NED.
        attitude: (4,) quaternion w, x, y, z, body to NED.
        angular_velocity: (3,) rad/s body.
        specific_force: (3,) m/s^2 body.
        wind: (3,) m/s NED, velocity of the air at the vehicle.
        rotor_speed: (12,) rad/s.
    """

    time: float
    position: Floats
    velocity: Floats
    attitude: Floats
    angular_velocity: Floats
    specific_force: Floats
    wind: Floats
    rotor_speed: Floats


class CustomSensor:
    """Base of a user's own sensor.  The options of the airframe's line are the constructor's arguments."""

    def sample(self, truth: Truth, random: np.random.Generator) -> Sample:
        """Measure: named figures, always the same names in the same order."""
        raise NotImplementedError

    def messages(self, sample: Sample, time: int) -> Sequence[Any]:
        """pymavlink messages for the flight stack, sent on the simulator link; none by default.

        Args:
            sample: what ``sample`` returned.
            time: us of simulated time.
        """
        del sample, time
        return ()


class CustomSpecification(UserClass):
    """A line of an airframe that carries a user's own sensor."""

    kind: Literal["custom"]
    instance: int = Field(0, ge=0, le=15, description="tells several of one class apart")
    rate: float = Field(ge=SLOWEST, le=250.0, description="Hz")

    @classmethod
    def of(
        cls, sensor: type[CustomSensor], *, rate: float, instance: int = 0, **options: object
    ) -> CustomSpecification:
        """The same for a class object, wherever it is defined.

        Args:
            sensor: class derived from CustomSensor.
            rate: Hz.
            instance: tells several of one class apart.
            options: arguments of the class.

        Raises:
            UserError: for anything but such a class, and for a rate or an option that does not fit.
        """
        if not (inspect.isclass(sensor) and issubclass(sensor, CustomSensor)):
            raise UserError(f"{sensor!r} is no class derived from CustomSensor")
        with name_faults_of(f"sensor {sensor.__name__}"):
            return cls.of_class(sensor, kind="custom", rate=rate, instance=instance, options=options)

    @property
    def name(self) -> str:
        """Name of the sensor and of its table."""
        return f"{self.class_name}_{self.instance}"

    def load(self) -> CustomSensor:
        """Make the sensor; runs the user's file, where the class is not known already.

        Raises:
            UserError: when file or class is missing, or the class does not take the options.
        """
        return self.make(CustomSensor, "custom sensor")


def _validate_values(sample: object) -> Sample:
    """Check the result of a user's ``sample``, as named floats."""
    if not isinstance(sample, Mapping):
        raise TypeError(f"sample returned {sample!r} instead of a dictionary of figures")
    figures = {}
    for name, value in sample.items():
        try:
            figures[str(name)] = float(value)
        except (TypeError, ValueError) as error:
            raise TypeError(f"{name!r} is {value!r}, not a number") from error
    return figures


def _validate_messages(messages: object) -> Sequence[Any]:
    """Check the result of a user's ``messages``, whose items are checked where they are packed."""
    if not isinstance(messages, Sequence) or isinstance(messages, str | bytes):
        raise TypeError(f"messages returned {messages!r} instead of a list of pymavlink messages")
    return messages


class CustomSensorHost:
    """Runs one custom sensor of one vehicle.

    Args:
        specification: the airframe's line.
        vehicle: index of the vehicle.
        name: the vehicle's name, for the random stream.
        seed: of the run.
        start: us of simulated time at the start.
        table: CSV file for the samples; None keeps none.
        errors: takes the error of a table that can no longer be written; sampling goes on.  Without, it is
                printed to standard error.

    Raises:
        UserError: when the sensor cannot be loaded or the table cannot be made.
    """

    def __init__(
        self,
        specification: CustomSpecification,
        *,
        vehicle: int = 0,
        name: str = "0",
        seed: int = 0,
        start: int = START,
        table: Path | None = None,
        errors: ErrorLog | None = None,
    ) -> None:
        self.specification = specification
        self.vehicle = vehicle
        self.sensor = specification.load()
        self.period = round(1e6 / specification.rate)
        self._due = start + self.period
        self._start = start
        words = stream(seed, name, "custom", specification.name)
        self._random = np.random.Generator(np.random.PCG64(np.random.SeedSequence([int(w) for w in words])))
        self.label = f"{specification.file}: {specification.name}"
        """File and name, for messages."""
        self.latest: Sample | None = None
        """The last sample; None before the first."""
        self._columns: tuple[str, ...] = ()
        self._table = LineLog(table) if table is not None else None
        self._errors = ErrorLog(print_error) if errors is None else errors
        self._recording = f"recording of {specification.name} of vehicle {name}"

    @property
    def name(self) -> str:
        """Name of the sensor."""
        return self.specification.name

    @property
    def due(self) -> int:
        """Us of simulated time of the next sample."""
        return self._due

    def run(self, state: Records, time: int) -> Sequence[Any]:
        """Sample at ``time`` (us) from a STATE record; returns messages for the flight stack, unchecked.

        Raises:
            UserError: when the sensor fails or changes the names of its figures.
        """
        while self._due <= time:
            self._due += self.period
        truth = Truth(
            time=(time - self._start) * 1e-6,
            **{field.name: state[field.name].copy() for field in fields(Truth) if field.name != "time"},
        )
        try:
            sample = _validate_values(self.sensor.sample(truth, self._random))
            messages = _validate_messages(self.sensor.messages(sample, time))
        except Exception as error:
            what = f"{self.label} failed at {truth.time:.3f} s: {failure_text(error)}"
            raise UserError(what) from error
        if self._columns and tuple(sample) != self._columns:
            raise UserError(f"{self.label} changed its figures' names")
        self.latest = sample
        with self._errors.guard(self._recording):
            self._write(sample, time)
        self._columns = tuple(sample)
        return messages

    def _write(self, sample: Sample, time: int) -> None:
        """Append a row to the table, after a header line before the first one."""
        if self._table is None:
            return
        if not self._columns:
            self._table.write(",".join(("time", *sample)))
        self._table.write(",".join((str(time), *(repr(value) for value in sample.values()))))

    def close(self) -> None:
        """Close the table."""
        if self._table is not None:
            self._table.close()
