"""Flies a real vehicle's motor commands on an airframe, and compares the motion with the measured one.

A simulation driven by recorded commands alone drifts away within seconds, because nothing corrects it: an
error of 1 % in thrust is 0.5 m after 3 s.  Hence the flight is cut into windows (1 s by default), and each
begins with the measured position, velocity, attitude and rates.  Rotor speeds go on from the window before,
for they depend on the commands alone.  What is compared is the motion within windows.  Commands that were
logged too seldom to steer the vehicle leave rotation as measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sitl_bridge.analysis.replay.vehicle_log import VehicleLog
from sitl_bridge.base.arrays import Floats, Records
from sitl_bridge.base.errors import UserError
from sitl_bridge.core.simulation.simulation import Simulation, VehicleSetup
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.world.wind import SteadyWind, WindSpecification
from sitl_bridge.core.world.world import Origin, World, WorldSpecification

WindChoice = Literal["auto", "log", "fit", "none"]

STEP = 4000
"""us."""
MARGIN = 2.0
"""s after take-off and before landing that are left out: ground effect and contact."""
ITERATIONS, CHANGE = 6, 0.5
"""Gauss-Newton steps at most, and m/s of the differences for derivatives."""
SETTLED = 0.01
"""m/s of change of the wind below which the fit has converged."""
ABOVE_GROUND = 200.0
"""m by which the simulated ground lies deeper than the log's origin, so that no contact disturbs a flight
below the height of its take-off.  The air has the density of the true height."""
LOW_RATE = 50.0
"""Hz of motor commands or angular rates below which rotation is taken as measured instead of simulated."""


@dataclass(frozen=True)
class Error:
    """Simulated against measured values of one quantity, over all windows."""

    name: str  # of the quantity
    unit: str  # of all figures but the correlation
    measured: float  # RMS of what was measured, about its mean
    # rms, largest: of the error
    rms: float
    largest: float
    bias: float  # mean error
    correlation: float  # of simulated and measured values


@dataclass(frozen=True)
class VehicleReplay:
    """Result of a replay."""

    source: str  # of the motor commands
    rate: float  # Hz of the motor commands
    turning: bool  # whether rotation was simulated; else it is that measured, and its errors are left out
    windows: int  # how many were simulated
    length: float  # s of each
    wind: tuple[float, float]  # m/s north and east, mean over the flight
    wind_source: str  # where it comes from
    wind_error: tuple[float, float]  # m/s, standard errors of a fitted wind; nan for others
    errors: tuple[Error, ...]  # of each quantity
    table: Records  # (k,) time in s on the log's clock, measured and simulated values of every step


_QUANTITIES = (
    ("rates", "angular rate", "rad/s", ("roll", "pitch", "yaw")),
    ("acceleration", "specific force", "m/s^2", ("x", "y", "z")),
    ("velocity", "velocity", "m/s", ("north", "east", "down")),
)
TABLE = np.dtype(
    [("time", "f8")]
    + [(f"{what}_{name}", "f8", 3) for name, *_ in _QUANTITIES for what in ("measured", "simulated")]
)


class _Windows:
    """The windows of a flight, on a grid of steps, with the measured motion at every step.

    Args:
        length: s of a window.
    """

    def __init__(self, log: VehicleLog, airframe: Airframe, length: float) -> None:
        self.steps = max(round(length * 1e6 / STEP), 2)
        begins = [
            np.arange(begin + MARGIN, end - MARGIN - length, length)
            for begin, end in log.airborne
            if end - begin > 2.0 * MARGIN + length
        ]
        if not begins:
            least = 2.0 * MARGIN + length
            raise UserError(f"the log has no flight of {least:g} s, which the replay needs; shorten --window")
        self.begins = np.concatenate(begins)
        seconds = STEP * 1e-6
        self.time = self.begins[:, None] + seconds * np.arange(1, self.steps + 1)
        flat, at_begin = self.time.ravel(), self.begins
        self.commands = log.commands.at(flat - seconds).reshape(len(self.begins), self.steps, -1)
        self.measured = {
            name: getattr(log, name).at(flat).reshape(*self.time.shape, 3) for name, *_ in _QUANTITIES
        }
        self.turning = min(log.commands.rate, log.rates.rate) >= LOW_RATE
        middles = self.begins + 0.5 * length
        self.voltage, self.current = (
            np.full(len(middles), np.nan) if series is None else series.at(middles)[:, 0]
            for series in (log.voltage, log.current)
        )
        whole = np.concatenate([at_begin[:, None], self.time], axis=1)
        attitude = log.attitude.at(whole.ravel()).reshape(*whole.shape, 4)
        self.attitude = attitude / np.linalg.norm(attitude, axis=2, keepdims=True)
        self.position, self.velocity = log.position.at(at_begin), log.velocity.at(at_begin)
        self.rates = log.rates.at(at_begin)
        self.supplied = log.voltage is not None
        self._setup = VehicleSetup(airframe.vehicle(), airframe.sensor_records()[:0])
        latitude, longitude, altitude = log.origin
        depth = max(altitude - ABOVE_GROUND, -500.0)
        self._world = WorldSpecification(
            origin=Origin(latitude=latitude, longitude=longitude, altitude=depth)
        )
        self.position = self.position - (0.0, 0.0, altitude - depth)

    def simulate(self, winds: Floats) -> dict[str, Floats]:
        """Simulated motion at every step, by the names of ``measured``.

        Args:
            winds: (windows, 2) m/s north and east.
        """
        simulation = Simulation(World(self._world), [self._setup], step=STEP)
        state: np.void = simulation.states[0]
        simulation.armed[0] = 1
        made = {name: np.zeros((*self.time.shape, 3)) for name in self.measured}
        fields = {"rates": "angular_velocity", "acceleration": "specific_force", "velocity": "velocity"}
        for w in range(len(self.begins)):
            simulation.world.set_wind(_steady(winds[w]), simulation.time)
            if self.supplied:
                simulation.supply(self.voltage[w : w + 1], self.current[w : w + 1])
            state["position"], state["velocity"] = self.position[w], self.velocity[w]
            state["attitude"], state["angular_velocity"] = self.attitude[w, 0], self.rates[w]
            if w == 0 or self.begins[w] - self.begins[w - 1] > 1.5 * self.steps * STEP * 1e-6:
                simulation.controls[0, : self.commands.shape[2]] = self.commands[w, 0]
                for _ in range(self.steps):  # the rotors come to the first commands, the body is held
                    simulation.advance_held()
            for k in range(self.steps):
                simulation.controls[0, : self.commands.shape[2]] = self.commands[w, k]
                simulation.advance()
                if not self.turning:
                    state["attitude"] = self.attitude[w, k + 1]
                    state["angular_velocity"] = self.measured["rates"][w, k]
                for name, field in fields.items():
                    made[name][w, k] = state[field]
        return made


def _steady(wind: Floats) -> WindSpecification:
    """A steady wind of m/s north and east; its direction is where it comes from."""
    speed = float(np.hypot(*wind))
    direction = float(np.degrees(np.arctan2(-wind[1], -wind[0]))) % 360.0
    return WindSpecification(steady=SteadyWind(speed=speed, direction=direction))


def replay_log(
    log: VehicleLog, airframe: Airframe, *, window: float = 1.0, wind: WindChoice = "auto"
) -> VehicleReplay:
    """Simulate a flight with its motor commands.

    Args:
        airframe: that is to fly like the vehicle.
        window: s.
        wind: ``log``: as PX4 estimated it; ``fit``: constant, fitted to the velocities; ``none``: calm;
            ``auto``: the log's if it has one, else fitted.

    Raises:
        UserError: if there is no flight, or no wind in the log though it is to come from there.
    """
    windows = _Windows(log, airframe, window)
    source = wind if wind != "auto" else "fit" if log.wind is None else "log"
    error = np.full(2, np.nan)
    if source == "log":
        if log.wind is None:
            raise UserError("the log has no wind; PX4 estimates one with EKF2_DRAG_CTRL, or with airspeed")
        winds = log.wind.at(windows.begins)
    else:
        winds = np.zeros((len(windows.begins), 2))
        if source == "fit":
            fitted, error = _fitted_wind(windows)
            winds += fitted
    simulated = windows.simulate(winds)
    mean = winds.mean(axis=0)
    words = {"log": "of the log", "fit": "fitted to the velocities", "none": "calm assumed"}
    return VehicleReplay(
        source=log.source,
        rate=log.commands.rate,
        turning=windows.turning,
        windows=len(windows.begins),
        length=windows.steps * STEP * 1e-6,
        wind=(float(mean[0]), float(mean[1])),
        wind_source=words[source],
        wind_error=(float(error[0]), float(error[1])),
        errors=tuple(_errors(windows.measured, simulated, _QUANTITIES[0 if windows.turning else 1 :])),
        table=_table(windows, simulated),
    )


def _fitted_wind(windows: _Windows) -> tuple[Floats, Floats]:
    """Constant wind and its standard errors that fit the horizontal velocities at the ends of windows best.

    Gauss-Newton with derivatives by differences (analysis by synthesis).
    """

    def residual(wind: Floats) -> Floats:
        simulated = windows.simulate(np.tile(wind, (len(windows.begins), 1)))["velocity"]
        return np.asarray((windows.measured["velocity"] - simulated)[:, -1, :2].ravel())

    wind, error = np.zeros(2), np.full(2, np.nan)
    for _ in range(ITERATIONS):
        now = residual(wind)
        slopes = np.stack([(residual(wind + CHANGE * axis) - now) / CHANGE for axis in np.eye(2)], axis=1)
        inverse = np.linalg.pinv(slopes.T @ slopes)
        change = -inverse @ slopes.T @ now
        wind = wind + np.clip(change, -5.0, 5.0)
        freedom = max(len(now) - 2, 1)
        error = np.sqrt(np.diag(inverse) * float(now @ now) / freedom)
        if np.abs(change).max() < SETTLED:
            break
    return wind, error


def _errors(
    measured: dict[str, Floats],
    simulated: dict[str, Floats],
    quantities: Sequence[tuple[str, str, str, tuple[str, str, str]]],
) -> Iterator[Error]:
    for name, words, unit, axes in quantities:
        for axis, label in enumerate(axes):
            one, other = measured[name][..., axis].ravel(), simulated[name][..., axis].ravel()
            error = other - one
            spread = float(np.std(one)), float(np.std(other))
            correlation = float(np.corrcoef(one, other)[0, 1]) if min(spread) > 0.0 else float("nan")
            rms, largest = float(np.sqrt(np.mean(error**2))), float(np.abs(error).max())
            yield Error(f"{words} {label}", unit, spread[0], rms, largest, float(error.mean()), correlation)


def _table(windows: _Windows, simulated: dict[str, Floats]) -> Records:
    table = np.zeros(windows.time.size, TABLE)
    table["time"] = windows.time.ravel()
    for name, *_ in _QUANTITIES:
        table[f"measured_{name}"] = windows.measured[name].reshape(-1, 3)
        table[f"simulated_{name}"] = simulated[name].reshape(-1, 3)
    return table
