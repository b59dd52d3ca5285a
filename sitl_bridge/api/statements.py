"""Statements about a flight so far, decided on the truth: reached, stayed inside, landed within."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from sitl_bridge.api.truth_table import TruthTable
from sitl_bridge.base.arrays import Floats, Mask
from sitl_bridge.base.errors import UserError
from sitl_bridge.session.stacks import Message

Range: TypeAlias = tuple[float, float] | None
"""Least and greatest value; None for no limit."""


class FlightCheck:
    """Whether a statement about a flight holds, and the figures that decide.

    pytest prints it where an ``assert`` fails, so that the message needs no words of the test's own.

    Attributes:
        holds: whether it does.
        text: the figures.
    """

    def __init__(self, holds: bool, text: str) -> None:
        self.holds, self.text = bool(holds), text

    def __bool__(self) -> bool:
        return self.holds

    def __repr__(self) -> str:
        return f"<{'yes' if self.holds else 'NO'}: {self.text}>"


class Statements:
    """Statements about the motion so far; positions are NED in m from the world's origin.

    With several vehicles a statement holds when it does for each.
    """

    names: tuple[str, ...]  # of the vehicles

    @property
    def _track(self) -> TruthTable:
        """The true motion since the vehicles were ready, with the vehicle axis."""
        raise NotImplementedError

    @property
    def _armed(self) -> Mask:
        """(n,) whether the motors may turn now."""
        raise NotImplementedError

    @property
    def messages(self) -> Sequence[Message]:
        """Status texts of the flight stacks so far, oldest first."""
        raise NotImplementedError

    # ------------------------------------------------------------------ statements

    def reached(self, position: ArrayLike, within: float) -> FlightCheck:
        """Whether a vehicle has come within a distance of a place at any time.

        Args:
            position: m NED; (n, 3) gives each vehicle its own.
            within: m.
        """
        time, places = self._motion()
        targets = self._places(position)
        verdicts = []
        for i in range(len(self.names)):
            distance = np.linalg.norm(places[:, i] - targets[i], axis=1)
            k = int(np.argmin(distance))
            verdicts.append(
                (
                    bool(distance[k] <= within),
                    f"{self._who(i)}came within {distance[k]:.2f} m of {_point(targets[i])} at"
                    f" {time[k]:.1f} s, at {_point(places[k, i])}; {within:g} m were to be reached",
                )
            )
        return _all(verdicts)

    def within(self, distance: float, of: ArrayLike) -> FlightCheck:
        """Whether a vehicle is within a distance of a place now.

        Args:
            distance: m.
            of: m NED.
        """
        _, places = self._motion()
        targets = self._places(of)
        verdicts = []
        for i in range(len(self.names)):
            away = float(np.linalg.norm(places[-1, i] - targets[i]))
            text = f"{self._who(i)}is {away:.2f} m from {_point(targets[i])}, at {_point(places[-1, i])}"
            verdicts.append((away <= distance, f"{text}; {distance:g} m are allowed"))
        return _all(verdicts)

    def stayed_inside(
        self,
        *,
        north: Range = None,
        east: Range = None,
        height: Range = None,
        radius: float | None = None,
        speed: Range = None,
    ) -> FlightCheck:
        """Whether a vehicle has always been inside limits.

        Args:
            north: m.
            east: m.
            height: m over the world's origin.
            radius: m horizontally from the world's origin.
            speed: m/s.

        Raises:
            UserError: for limits that are none.
        """
        time, places = self._motion()
        quantities: list[tuple[str, str, Floats, Range]] = [
            ("north", "m", places[:, :, 0], north),
            ("east", "m", places[:, :, 1], east),
            ("height", "m", -places[:, :, 2], height),
            (
                "radius",
                "m",
                np.hypot(places[:, :, 0], places[:, :, 1]),
                None if radius is None else (0, radius),
            ),
        ]
        if speed is not None:
            quantities.append(("speed", "m/s", np.linalg.norm(self._track.velocity, axis=2), speed))
        verdicts = []
        for i in range(len(self.names)):
            for name, unit, values, limits in quantities:
                if limits is not None:
                    verdicts.append(_inside(f"{self._who(i)}{name}", unit, time, values[:, i], limits))
        if not verdicts:
            raise UserError("stayed_inside: give a limit: north, east, height, radius or speed")
        return _all(verdicts)

    def landed_within(self, distance: float, of: ArrayLike | None = None) -> FlightCheck:
        """Whether a vehicle has flown, and stands disarmed within a horizontal distance of a place.

        Args:
            distance: m.
            of: m north and east, or NED; None for where it stood at the start.
        """
        _, places = self._motion()
        contact = self._track.rows["in_contact"][-1]
        verdicts = []
        for i in range(len(self.names)):
            target = places[0, i] if of is None else self._places(of, 2)[i]
            away = float(np.hypot(*(places[-1, i, :2] - target[:2])))
            climbed = float((places[0, i, 2] - places[:, i, 2]).max())
            who = self._who(i)
            if climbed < 0.3:
                verdicts.append((False, f"{who}has not left the ground"))
            elif self._armed[i] or not contact[i]:
                height = places[0, i, 2] - places[-1, i, 2]
                state = "armed" if self._armed[i] else "disarmed"
                verdicts.append((False, f"{who}has not landed: it is {state}, at a height of {height:.2f} m"))
            else:
                text = f"{who}landed {away:.2f} m from {_point(target[:2])}, at {_point(places[-1, i, :2])}"
                verdicts.append((away <= distance, f"{text}; {distance:g} m are allowed"))
        return _all(verdicts)

    def kept_apart(self, distance: float) -> FlightCheck:
        """Whether any two vehicles have always been further apart than a distance in m."""
        time, places = self._motion()
        nearest = (math.inf, 0, 0, 0)
        for i in range(len(self.names)):
            for j in range(i):
                apart = np.linalg.norm(places[:, i] - places[:, j], axis=1)
                k = int(np.argmin(apart))
                nearest = min(nearest, (float(apart[k]), k, j, i))
        least, k, j, i = nearest
        if not math.isfinite(least):
            return FlightCheck(True, "there is one vehicle")
        who = f"{self.names[j]} and {self.names[i]}"
        return FlightCheck(
            least >= distance,
            f"{who} were {least:.2f} m apart at {time[k]:.1f} s; {distance:g} m had to be kept",
        )

    def said(self, text: str) -> FlightCheck:
        """Whether a flight stack has sent a status text that contains ``text``, in any case."""
        said = [str(message) for message in self.messages]
        found = [line for line in said if text.lower() in line.lower()]
        last = "; ".join(said[-5:]) or "nothing"
        return FlightCheck(
            bool(found), found[-1] if found else f"{text!r} was not said; the last was: {last}"
        )

    # ------------------------------------------------------------------ helpers

    def _motion(self) -> tuple[Floats, Floats]:
        """Times (k,) and true positions (k, n, 3)."""
        track = self._track
        if not len(track):
            raise UserError("no simulated time has passed in this flight yet; call run() or fly first")
        return track.time, track.position

    def _who(self, i: int) -> str:
        return f"vehicle {self.names[i]}: " if len(self.names) > 1 else ""

    def _places(self, given: ArrayLike, least: int = 3) -> Floats:
        """(n, 3) m, one a vehicle."""
        rows = np.atleast_2d(np.asarray(given, dtype=np.float64))
        n = len(self.names)
        if rows.ndim != 2 or rows.shape[0] not in (1, n) or not least <= rows.shape[1] <= 3:
            raise UserError(f"a place has the figures north, east, down in m, not the shape {rows.shape}")
        return np.broadcast_to(rows, (n, rows.shape[1])).copy()


def _inside(
    name: str, unit: str, time: Floats, values: Floats, limits: tuple[float, float]
) -> tuple[bool, str]:
    try:
        low, high = (float(limit) for limit in limits)
    except (TypeError, ValueError):
        low, high = math.nan, math.nan
    if not low <= high:
        raise UserError(f"stayed_inside: {name}: a least and a greatest value are needed, not {limits!r}")
    out = np.flatnonzero((values < low) | (values > high))
    extent = f"{name} was {values.min():.2f} to {values.max():.2f} {unit}; {low:g} to {high:g} are allowed"
    return (True, extent) if not len(out) else (False, f"{extent}; it left them at {time[out[0]]:.1f} s")


def _all(verdicts: Sequence[tuple[bool, str]]) -> FlightCheck:
    wrong = [text for holds, text in verdicts if not holds]
    return FlightCheck(not wrong, "; ".join(wrong or [text for _, text in verdicts]))


def _point(figures: ArrayLike) -> str:
    return "(" + ", ".join(f"{float(value):.2f}" for value in np.asarray(figures)) + ")"
