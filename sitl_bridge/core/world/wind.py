"""Wind: steady, logarithmic profile, recorded, custom, turbulence, 1-cosine gusts; all of them add.

Velocities are those of the air over ground, NED.  How air pushes a vehicle is the dynamics' matter.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from sitl_bridge.base.arrays import Floats, Records
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.field_paths import name_faults_of
from sitl_bridge.base.input_file import MAX_TABLE_BYTES, read_text
from sitl_bridge.base.json_data import JsonObject
from sitl_bridge.base.kernels.array_at import call_at
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.base.quantities import STRICT, Degrees
from sitl_bridge.core.world.custom_wind import MOST_WIND, CustomWind, WindField
from sitl_bridge.core.world.records import MAX_GUSTS, WIND, WindRecord, WindState
from sitl_bridge.core.world.turbulence import CARRYING_HEIGHT, FEET, carry

TURBULENCE_SPEED = {"light": 15 * 0.514444, "moderate": 30 * 0.514444, "severe": 45 * 0.514444}
"""m/s, wind at 20 ft for the three intensities: 15, 30 and 45 knots (MIL-F-8785C, 3.7.3.4)."""

SERIES_COLUMNS = ("t", "north", "east", "down")
"""Of a recorded wind: s, m/s NED."""

LONGEST = 86_400.0
"""s of a gust's start and hold."""
Speed = Annotated[float, Field(ge=0.0, le=MOST_WIND)]
Turbulence = Annotated[float, Field(ge=0.01, le=MOST_WIND)]
Upward = Annotated[float, Field(ge=-MOST_WIND, le=MOST_WIND)]
Length = Annotated[float, Field(ge=0.1, le=1e5)]
PassingSpeed = Annotated[float, Field(ge=0.01, le=1e3)]
Moment = Annotated[float, Field(ge=0.0, le=LONGEST)]


def towards(speed: float, direction_from: float) -> tuple[float, float]:
    """Velocity N, E of air that comes *from* a compass direction in degrees, as winds are named."""
    angle = math.radians(direction_from)
    return -speed * math.cos(angle), -speed * math.sin(angle)


class SteadyWind(BaseModel):
    """The same wind at all heights."""

    model_config = STRICT

    speed: Speed = Field(description="m/s")
    direction: Degrees = Field(0.0, description="deg, where it comes from")
    upward: Upward = Field(0.0, description="m/s, updraught")


class LogProfile(BaseModel):
    """Mean wind that grows with height, MIL-F-8785C: u = W20 ln(h/z0)/ln(20 ft/z0), 3 ft < h < 1000 ft.

    The law of the surface layer goes on below 3 ft: to calm at z0.
    """

    model_config = STRICT

    speed: Speed = Field(description="m/s at 20 ft")
    direction: Degrees = Field(0.0, description="deg, where it comes from")
    roughness: float = Field(0.15 * FEET, ge=1e-6, lt=0.9, description="m, z0, 0.15 or 2 ft")


class Gust(BaseModel):
    """A 1-cosine gust, MIL-F-8785C: v = V_m/2 (1 - cos(pi x/d_m)), V_m beyond d_m.

    Its front is a plane that the wind carries: places downwind have it later, those upwind earlier.
    """

    model_config = STRICT

    start: Moment = Field(description="s of simulated time after the start, when its front passes the origin")
    speed: Speed = Field(gt=0.0, description="m/s, V_m")
    direction: Degrees = Field(0.0, description="deg, where it comes from")
    upward: Upward = Field(0.0, description="m/s, vertical part of V_m")
    length: Length = Field(description="m, d_m")
    passing_speed: PassingSpeed = Field(
        description="m/s over ground of the gust's front, which moves as the mean wind, in calm as the gust"
    )
    hold: Moment | None = Field(None, description="s at full strength before it fades; absent: it stays")


class WindSeries(BaseModel):
    """A recorded wind: a CSV file with the columns t, north, east, down (s, m/s NED), linear in between."""

    model_config = STRICT

    file: Path = Field(description="CSV, beside the file that names it")
    repeat: bool = Field(False, description="begin again after the last row; absent: its values hold on")


class WindSpecification(BaseModel):
    """Parts of the wind; everything given adds up."""

    model_config = STRICT

    steady: SteadyWind | None = Field(None, description="the same at all heights and times")
    log_profile: LogProfile | None = Field(None, description="that grows with height")
    turbulence: Literal["light", "moderate", "severe"] | Turbulence | None = Field(
        None, description="intensity, or the wind at 20 ft in m/s that sets it"
    )
    gusts: tuple[Gust, ...] = Field((), max_length=MAX_GUSTS, description="at set times")
    series: WindSeries | None = Field(None, description="recorded")
    custom: CustomWind | None = Field(None, description="of your own, a function of place and time")

    def pack(self, now: int) -> Records:
        """(1,) WIND whose gusts count their start from ``now`` (us)."""
        wind = np.zeros(1, WIND)
        record = wind[0]
        record["log_roughness"] = 0.15 * FEET
        if self.steady is not None:
            record["steady"] = *towards(self.steady.speed, self.steady.direction), -self.steady.upward
        if self.log_profile is not None:
            record["log_speed_20ft"] = self.log_profile.speed
            record["log_direction"] = towards(1.0, self.log_profile.direction)
            record["log_roughness"] = self.log_profile.roughness
        if self.turbulence is not None:
            known = self.turbulence
            record["dryden_speed_20ft"] = TURBULENCE_SPEED[known] if isinstance(known, str) else known
        record["gust_count"] = len(self.gusts)
        carried = self._mean_direction(record)
        for i, gust in enumerate(self.gusts):
            record["gust_start"][i] = now + round(gust.start * 1e6)
            record["gust_velocity"][i] = *towards(gust.speed, gust.direction), -gust.upward
            record["gust_length"][i] = gust.length
            record["gust_speed"][i] = gust.passing_speed
            record["gust_heading"][i] = carried or towards(1.0, gust.direction)
            record["gust_hold"][i] = math.inf if gust.hold is None else gust.hold
        return wind

    def _mean_direction(self, record: Records) -> tuple[float, float] | None:
        """Unit vector N, E of the mean wind at 20 ft, of ``steady`` and ``log_profile``; None in calm."""
        north, east = record["steady"][:2] + record["log_speed_20ft"] * record["log_direction"]
        speed = math.hypot(north, east)
        return (float(north / speed), float(east / speed)) if speed > 0.0 else None

    def load_series(self) -> Floats:
        """(k, 4) time s and wind NED m/s; (0, 4) without a series.

        Raises:
            UserError: when the file is missing or is not such a table.
        """
        if self.series is None:
            return np.zeros((0, 4))
        path = self.series.file
        lines = read_text(path, MAX_TABLE_BYTES).splitlines()
        data = [_row(path, k, line) for k, line in enumerate(_data_lines(path, lines), 1)]
        if len(data) < 2:
            raise UserError(f"{path}: a recorded wind has the columns t,north,east,down and two rows or more")
        rows = np.array(data)
        if not np.all(np.diff(rows[:, 0]) > 0.0):
            raise UserError(f"{path}: the times of a recorded wind must rise")
        return np.ascontiguousarray(rows)


def _row(path: Path, number: int, line: str) -> list[float]:
    """The figures of a row of a recorded wind.

    Raises:
        UserError: for another count, for what is not finite, and for a wind that is too strong.
    """
    try:
        found = [float(cell) for cell in line.split(",")]
    except ValueError:
        found = []
    where = f"{path}: row {number} of a recorded wind"
    if len(found) != 4 or not all(math.isfinite(figure) for figure in found):
        raise UserError(
            f"{where} is {line.strip()[:60]!r}, not four finite numbers {','.join(SERIES_COLUMNS)}; leave out"
            " rows with gaps: in between it is linear"
        )
    if max(abs(speed) for speed in found[1:]) > MOST_WIND:
        raise UserError(f"{where}, {line.strip()[:60]!r}, is above {MOST_WIND:g} m/s, which is its unit")
    return found


def _custom_of_python(data: object) -> object:
    if isinstance(data, WindField) or callable(data):
        return {"custom": CustomWind.of(data)}
    return data


class _OfPython:
    """From Python a function, an object or a class stands for a wind of the user's own."""

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema = handler(source)
        # Before the model, a validator would end the JSON mode, in which lists stand for tuples.
        return core_schema.json_or_python_schema(
            schema, core_schema.no_info_before_validator_function(_custom_of_python, schema)
        )


Wind = Annotated[WindSpecification, _OfPython()]
"""A wind as a world takes it."""


def _data_lines(path: Path, lines: list[str]) -> list[str]:
    """Lines of figures: without comments, empty lines and a first line of column names."""
    filled = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
    if not filled or filled[0].lstrip()[:1].strip("+-.0123456789") == "":
        return filled
    names = tuple(name.strip().strip('"').lower() for name in filled[0].split(","))
    if names != SERIES_COLUMNS:
        raise UserError(
            f"{path}: the columns of a recorded wind are {','.join(SERIES_COLUMNS)} in this order (s, m/s"
            f" NED), not {filled[0].strip()}"
        )
    return filled[1:]


def parse_wind(text: str) -> WindSpecification:
    """Wind from a command line: ``8@270``, ``5@180,turbulence=light``, ``6@270,profile=log``.

    ``SPEED@DIRECTION`` is in m/s and in degrees it comes from; ``turbulence=`` takes light, moderate, severe
    or the wind at 20 ft in m/s; ``profile=log`` makes SPEED the wind at 20 ft of a logarithmic profile.

    Raises:
        UserError: when the text is not of that form, says something twice, or gives a profile no speed.
    """
    fields: JsonObject = {}
    for part in (piece.strip() for piece in text.split(",")):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        try:
            name, read = _read_part(name, value) if equals else ("speed", _read_speed(part))
        except ValueError as error:
            raise UserError(
                f"--wind {text!r}: cannot read {part!r}; write it as 8@270,turbulence=light,profile=log"
            ) from error
        if name in fields:
            raise UserError(f"--wind {text!r}: the {name} is said twice; write it as 8@270,turbulence=light")
        fields[name] = read
    profile = fields.pop("profile", "steady")
    if "speed" in fields:
        speed, direction = fields.pop("speed")
        fields["log_profile" if profile == "log" else "steady"] = {"speed": speed, "direction": direction}
    elif profile == "log":
        raise UserError(f"--wind {text!r}: a profile needs a speed; write it as 8@270,profile=log")
    with name_faults_of(f"--wind {text!r}"):
        return WindSpecification.model_validate(fields)


def _read_speed(part: str) -> tuple[float, float]:
    """``SPEED@DIRECTION`` or ``SPEED``, which then comes from the north."""
    head, at, tail = part.partition("@")
    speed, direction = float(head), float(tail) if at else 0.0
    if not (math.isfinite(speed) and speed >= 0.0 and math.isfinite(direction)):
        raise ValueError(part)
    return speed, direction


def _read_part(name: str, value: str) -> tuple[str, str | float]:
    """``turbulence=...`` or ``profile=...``."""
    if name == "profile" and value in ("log", "steady"):
        return name, value
    if name != "turbulence":
        raise ValueError(name)
    if value in TURBULENCE_SPEED:
        return name, value
    speed = float(value)
    if not (math.isfinite(speed) and speed > 0.0):
        raise ValueError(value)
    return name, speed


@compiled
def _interpolate(series: Floats, seconds: float, column: int) -> float:
    """Linear value of a table over its first column, its end values beyond."""
    last = series.shape[0] - 1
    if seconds <= series[0, 0]:
        return series[0, column]
    if seconds >= series[last, 0]:
        return series[last, column]
    low = 0
    high = last
    while high - low > 1:
        middle = (low + high) // 2
        if series[middle, 0] <= seconds:
            low = middle
        else:
            high = middle
    share = (seconds - series[low, 0]) / (series[high, 0] - series[low, 0])
    return series[low, column] * (1.0 - share) + series[high, column] * share


@compiled
def _gust_strength(wind: WindRecord, i: int, time: int, north: float, east: float) -> float:
    """Share of V_m of the gust ``i`` at ``time`` (us) and a place (m)."""
    way = north * wind.gust_heading[i, 0] + east * wind.gust_heading[i, 1]
    seconds = (time - wind.gust_start[i]) * 1e-6 - way / wind.gust_speed[i]
    rise = wind.gust_length[i] / wind.gust_speed[i]
    if seconds <= 0.0:
        return 0.0
    if seconds < rise:
        return 0.5 * (1.0 - math.cos(math.pi * seconds / rise))
    falling = seconds - rise - wind.gust_hold[i]
    if falling <= 0.0:
        return 1.0
    if falling < rise:
        return 0.5 * (1.0 + math.cos(math.pi * falling / rise))
    return 0.0


@compiled
def mean_wind(
    wind: WindRecord, series: Floats, time: int, north: float, east: float, down: float
) -> tuple[float, float, float]:
    """Velocity NED in m/s of the steady, logarithmic, recorded and custom wind at a place (m NED)."""
    vn = wind.steady[0]
    ve = wind.steady[1]
    vd = wind.steady[2]
    if wind.log_speed_20ft > 0.0:
        bounded = min(max(-down, wind.log_roughness), 1000.0 * FEET)
        speed = wind.log_speed_20ft * math.log(bounded / wind.log_roughness)
        speed /= math.log(20.0 * FEET / wind.log_roughness)
        vn += speed * wind.log_direction[0]
        ve += speed * wind.log_direction[1]
    if series.shape[0] > 0:
        moment = (time - wind.series_start) * 1e-6
        if wind.series_period > 0:
            # The times of the table lie between its first and its last, wherever it begins.
            moment = series[0, 0] + (moment - series[0, 0]) % (wind.series_period * 1e-6)
        vn += _interpolate(series, moment, 1)
        ve += _interpolate(series, moment, 2)
        vd += _interpolate(series, moment, 3)
    if wind.custom != 0:
        own = call_at(wind.custom, 0, (time - wind.series_start) * 1e-6, north, east, down)
        vn += own[0]
        ve += own[1]
        vd += own[2]
    return vn, ve, vd


@compiled
def with_gusts(
    wind: WindRecord, time: int, north: float, east: float, vn: float, ve: float, vd: float
) -> tuple[float, float, float]:
    """A velocity NED in m/s with that of the gusts added, at ``time`` (us) and a place (m)."""
    for i in range(wind.gust_count):
        strength = _gust_strength(wind, i, time, north, east)
        vn += strength * wind.gust_velocity[i, 0]
        ve += strength * wind.gust_velocity[i, 1]
        vd += strength * wind.gust_velocity[i, 2]
    return vn, ve, vd


@compiled
def carry_turbulence(wind: WindRecord, memory: WindState, series: Floats, time: int, seconds: float) -> None:
    """Carry the turbulence on, from ``time`` (us) over a step, with the mean wind above the origin."""
    if wind.dryden_speed_20ft > 0.0:
        north, east, _ = mean_wind(wind, series, time, 0.0, 0.0, -CARRYING_HEIGHT)
        carry(memory, north, east, seconds)
