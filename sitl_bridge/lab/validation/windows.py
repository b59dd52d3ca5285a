"""Parts of real flights to be predicted: the measured start, the motor commands, and what came of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sitl_bridge.api.logs import Series, VehicleLog
from sitl_bridge.base.arrays import Floats, Ints, Mask
from sitl_bridge.base.constants import STANDARD_GRAVITY
from sitl_bridge.base.rotations import matrix_from_quaternion, quaternion_product

GRID = 0.01
"""s for which a motor command is held."""
HORIZONS = (0.1, 0.25, 0.5)
"""s after the start at which predictions are compared."""
EVERY = 0.1
"""s between starts."""
LEAD = 0.3
"""s of commands before the start, from which the rotors' speeds follow."""
FIELDS = ("position", "velocity", "attitude", "rates")


@dataclass(frozen=True)
class Motion:
    """Motion of w vehicles at h times."""

    # position, velocity: (w, h, 3) m, m/s NED
    position: Floats
    velocity: Floats
    attitude: Floats  # (w, h, 4) quaternion w, x, y, z, body FRD to NED
    rates: Floats  # (w, h, 3) rad/s body


@dataclass(frozen=True)
class Windows:
    """Predictions to be made."""

    flights: tuple[str, ...]  # names of the flights
    flight: Ints  # (w,) number of each window's flight
    begins: Floats  # (w,) s on its flight's clock
    airborne: Floats  # (w,) s since its take-off
    start: Motion  # the measured motion at the start, h = 1
    commands: Floats  # (w, k, m) 0..1, each held for GRID; the first are those of LEAD before the start
    voltage: Floats  # (w, k) V, likewise; nan where it was not logged
    truth: Motion  # the measured motion at HORIZONS
    altitude: float  # m above mean sea level
    all: Windows | None  # from every EVERY s of the flights' times in the air; None if it is these
    row: Ints  # (w,) of each window in them

    def __len__(self) -> int:
        return len(self.begins)

    def part(self, where: Mask) -> Windows:
        """The windows that a mask chooses."""
        return replace(
            self,
            flight=self.flight[where],
            begins=self.begins[where],
            airborne=self.airborne[where],
            start=_part(self.start, where),
            commands=self.commands[where],
            voltage=self.voltage[where],
            truth=_part(self.truth, where),
            row=self.row[where],
        )

    @property
    def horizons(self) -> tuple[float, ...]:
        """HORIZONS that the commands reach."""
        reach = self.commands.shape[1] * GRID - LEAD
        return tuple(h for h in HORIZONS if h <= reach + 1e-9)

    def cut_at_first_horizon(self) -> Windows:
        """The windows with what is commanded until the first of HORIZONS alone."""
        cells = round((LEAD + HORIZONS[0]) / GRID)
        return replace(self, commands=self.commands[:, :cells], voltage=self.voltage[:, :cells])

    @classmethod
    def of(cls, flights: Mapping[str, VehicleLog], every: float = EVERY) -> Windows:
        """Windows from every ``every`` s, a multiple of EVERY, of the flights' times in the air."""
        rows: list[tuple[Floats, ...]] = []
        for i, log in enumerate(flights.values()):
            for first, last in log.airborne:
                begins = np.arange(max(first, log.commands.time[0] + LEAD), last - HORIZONS[-1], EVERY)
                if not len(begins):
                    continue
                grid = begins[:, None] + GRID * np.arange(-round(LEAD / GRID), round(HORIZONS[-1] / GRID))
                voltage = np.full(grid.shape, np.nan)
                if log.voltage is not None:
                    voltage = log.voltage.at(grid.ravel()).reshape(grid.shape)
                rows.append(
                    (
                        np.full(len(begins), i),
                        np.arange(len(begins), dtype=np.float64),
                        begins,
                        begins - first,
                        hold_values(log.commands, grid),
                        voltage,
                        *_motion(log, begins[:, None]),
                        *_motion(log, begins[:, None] + HORIZONS),
                    )
                )
        flight, number, begins, airborne, commands, voltage, *motion = (
            np.concatenate(c) for c in zip(*rows, strict=True)
        )
        altitude = next(iter(flights.values())).origin[2]
        made = cls(
            tuple(flights), flight.astype(np.int64), begins, airborne, Motion(*motion[:4]), commands, voltage,
            Motion(*motion[4:]), altitude, None, np.arange(len(begins)),
        )  # fmt: skip
        return replace(made.part(number % max(round(every / EVERY), 1) == 0), all=made)


def _part(motion: Motion, where: Mask) -> Motion:
    return Motion(*(getattr(motion, name)[where] for name in FIELDS))


def hold_values(series: Series, grid: Floats) -> Floats:
    """(*grid, c) values that hold from sample to sample."""
    before = np.clip(np.searchsorted(series.time, grid + 1e-9, side="right") - 1, 0, None)
    return np.asarray(series.values[before])


def _motion(log: VehicleLog, times: Floats) -> tuple[Floats, ...]:
    made = [getattr(log, name).at(times.ravel()).reshape(*times.shape, -1) for name in FIELDS]
    made[2] = made[2] / np.linalg.norm(made[2], axis=-1, keepdims=True)
    return tuple(made)


_GRAVITY = np.array([0.0, 0.0, STANDARD_GRAVITY])


class Predictor:
    """A predictor: a simulator, or a rule to compare with."""

    name: str  # shown in the tables

    def fit(self, windows: Windows) -> None:
        """Fit what is to be fitted to the flights for fitting; nothing by default."""

    def trim(self, windows: Windows) -> Floats:
        """(m,) factors of the rotors' speeds with which each carries its share of the weight on average."""
        return np.ones(windows.commands.shape[2])

    def predict(self, windows: Windows, trim: Floats) -> Motion:
        """The motion at the windows' horizons, with the commands and factors (w, m) of rotor speeds."""
        raise NotImplementedError

    def predict_pushed(self, windows: Windows, trim: Floats, lacking: Floats) -> Motion:
        """``predict`` with what force and moment lack, constant in the body's axes.

        This adds what they do to the motion that is predicted without them, to the first order: the turn
        m t^2/2 also turns the specific force s, so that the velocity changes by f t + (m x s) t^3/6.  A
        simulator that can be pushed does it itself, and so answers to what the push changes.

        Args:
            windows: as of ``predict``.
            trim: likewise.
            lacking: (w, 6) force over mass (m/s^2) and moment over inertia (rad/s^2), body.
        """
        made, time = self.predict(windows, trim), np.array(windows.horizons)[:, None]
        body = matrix_from_quaternion(windows.start.attitude[:, 0])
        force, moment = lacking[:, None, :3], lacking[:, None, 3:]
        felt = np.einsum("wji,whj->whi", body, (made.velocity - windows.start.velocity) / time - _GRAVITY)
        leaning = np.cross(moment, felt)
        turn = np.concatenate([np.ones((*made.rates.shape[:2], 1)), 0.25 * moment * time**2], axis=-1)
        attitude = quaternion_product(made.attitude, turn)
        return Motion(
            made.position + np.einsum("wij,whj->whi", body, force * time**2 / 2.0 + leaning * time**4 / 24.0),
            made.velocity + np.einsum("wij,whj->whi", body, force * time + leaning * time**3 / 6.0),
            attitude / np.linalg.norm(attitude, axis=-1, keepdims=True),
            made.rates + moment * time,
        )


def errors(predicted: Motion, windows: Windows) -> Floats:
    """(w, h, 4) length of the error in position (m), velocity (m/s), attitude (deg) and rates (rad/s)."""
    truth = windows.truth
    lengths = [
        np.linalg.norm(getattr(predicted, name) - getattr(truth, name), axis=-1)
        for name in ("position", "velocity", "rates")
    ]
    cosine = np.abs((predicted.attitude * truth.attitude).sum(axis=-1))
    angle = np.degrees(2.0 * np.arccos(np.minimum(cosine, 1.0)))
    return np.stack([lengths[0], lengths[1], angle, lengths[2]], axis=-1)


def flight_errors(found: Floats, windows: Windows) -> Floats:
    """(f, ...) root mean square of values (w, ...) over each flight with windows."""
    used: Sequence[int] = np.unique(windows.flight).tolist()
    return np.stack([np.sqrt(np.mean(found[windows.flight == i] ** 2, axis=0)) for i in used])


SCALES = (0.01, 0.1, 2.0, 0.5)
"""m, m/s, deg, rad/s: errors after 0.1 s that count alike in a fit; later ones by their growth in time."""


def fit_residuals(predicted: Motion, windows: Windows) -> Floats:
    """(r,) errors at the first two horizons, for least squares."""
    growth = np.array(HORIZONS[:2]) / HORIZONS[0]
    parts = []
    for name, scale in zip(FIELDS, SCALES, strict=True):
        error = (getattr(predicted, name) - getattr(windows.truth, name))[:, :2]
        if name == "attitude":
            sign = np.sign((predicted.attitude * windows.truth.attitude).sum(axis=-1, keepdims=True))
            error = np.degrees(2.0 * (predicted.attitude - sign * windows.truth.attitude)[:, :2])
        parts.append((error / (scale * growth[:, None])).ravel())
    return np.concatenate(parts)
