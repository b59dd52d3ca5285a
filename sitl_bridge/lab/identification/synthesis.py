"""Analysis by synthesis: the fit of simulated to measured motion by Gauss-Newton steps.

Unknown are the chosen parameters of the airframe; of each flight, a constant moment (the centre of gravity's
offset), biases of both inertial sensors and the wind at knots along it; and of each window, the motion at its
beginning and a moment and a force that no figure describes (slow moments, thrust that falls while flying).
The last are eliminated window by window, so the normal equations stay small.  How large they are, the windows
themselves show (expectation maximisation; Shumway and Stoffer, Journal of Time Series Analysis 3, 1982).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sitl_bridge.api.models import Airframe
from sitl_bridge.base.arrays import Floats, Ints
from sitl_bridge.base.constants import STANDARD_GRAVITY
from sitl_bridge.base.errors import UserError
from sitl_bridge.lab.identification.fitted_parameters import DELAY, Parameter
from sitl_bridge.lab.identification.flight_windows import QUANTITIES, FlightWindows
from sitl_bridge.lab.identification.window_fleet import CommonMotion, Member, WindowFleet

DIFFERENCE = 0.01
"""Relative change of a parameter for its sensitivities."""
PRIOR = 0.5
"""Relative standard deviation of the airframe's own figures.  What the flight shows overrules them; what it
does not show stays near them."""
OFFSET = 0.02
"""Offset of the centre of gravity that is expected, over the rotors' arm: standard deviation of the constant
moment over weight times arm; and of each window's force over the weight."""
RATE_BIAS, ACCELERATION_BIAS = 0.05, 0.5
"""rad/s and m/s^2, standard deviations expected of the sensors' biases."""
WIND_PRIOR, WIND_CHANGE = 10.0, 0.2
"""m/s expected of the wind, and m/s of its change over the square root of a second."""
START = np.array([0.3] * 3 + [0.02, 0.02, 0.05] + [0.1] * 3)
"""m/s, rad and rad/s, standard deviations of the measured motion at the beginning of a window."""
OWN = 15
"""Unknowns of each window: velocity, turn, rates, moment and force."""
DIFFERENCES = {"wind": 0.5, "velocity": 0.1, "turn": 0.01, "rates": 0.05}
HUBER = 4.0
"""Standard deviations from which on an error counts less."""
NONE = 1e-3
"""Share of the windows' moments and forces that counts as none."""
ITERATIONS, SETTLED, HALVINGS = 20, 0.1, 5
"""Steps at most; change of the estimates, over their deviations, that ends them; halvings of a step without
gain."""
LARGEST = 0.3
"""Relative change of a parameter in one step."""
BOUNDS = (0.1, 10.0)
"""Of a parameter, relative to the airframe's figure."""
CORRELATION_TIME = 5.0
"""s over which errors of different windows are taken to be correlated."""


@dataclass(frozen=True)
class Unknowns:
    """Present estimates."""

    values: Floats  # (p,) of the parameters over their scales
    moment: Floats  # (f, 3) N m of each flight
    rate_bias: Floats  # (f, 3) rad/s
    acceleration_bias: Floats  # (f, 3) m/s^2
    wind: Floats  # (k, 2) m/s north, east at the knots
    start: Floats  # (w, 15) of each window, see CommonMotion
    spread: Floats  # (15,) deviations of ``start``

    def vector(self) -> Floats:
        """All but ``start``: parameters, nine of each flight, wind."""
        flights = np.concatenate([self.moment, self.rate_bias, self.acceleration_bias], axis=1)
        return np.concatenate([self.values, flights.ravel(), self.wind.ravel()])

    @property
    def biases(self) -> dict[str, Floats]:
        """(f, 3) of the sensors, by quantity."""
        return {"rates": self.rate_bias, "acceleration": self.acceleration_bias}

    def apply_step(self, change: Floats, start: Floats, lowest: Floats) -> Unknowns:
        """After a step; parameters stay above their ``lowest`` values and within the bounds."""
        p, f = len(self.values), len(self.moment)
        values, flights, wind = np.split(self.vector() + change, [p, p + 9 * f])
        values = np.clip(values, lowest, BOUNDS[1])
        moment, rate, acceleration = np.split(flights.reshape(f, 9), 3, axis=1)
        return Unknowns(
            values, moment, rate, acceleration, wind.reshape(-1, 2), self.start + start, self.spread
        )


@dataclass(frozen=True)
class Equations:
    """Normal equations of all windows."""

    gradients: Floats  # (w, g) of each window, its beginning eliminated
    hessian: Floats  # (g, g) sum of the windows'
    inner: Floats  # (w, 15) steps of the windows' own unknowns, for no change of the others
    coupling: Floats  # (w, 15, g) change of these steps with the others
    variance: Floats  # (w, 15) of the windows' own unknowns, if the others were known


@dataclass(frozen=True)
class Quality:
    """How well the simulation fits."""

    deviations: Floats  # (q, 3) of the residuals, by quantity and axis
    cost: float  # negative logarithm of the likelihood, less a constant


@dataclass(frozen=True)
class Fit:
    """A converged fit."""

    unknowns: Unknowns  # the estimates
    covariance: Floats  # (g, g) of ``unknowns.vector()``, corrected for the correlation of the residuals
    white: Floats  # (g, g) the same for uncorrelated residuals
    settled: bool  # whether the last change was small


class Synthesis:
    """A fit of some parameters and, if wanted, the wind to the windows of flights.

    Args:
        airframe: with the figures from which the fit starts.
        parameters: to be fitted.
        knots: (k, 2) number of a flight, and s on its clock where its wind is estimated; none: calm air.
        delay: s of the motor commands, as far as it is known.
    """

    def __init__(
        self,
        airframe: Airframe,
        parameters: Sequence[Parameter],
        windows: FlightWindows,
        knots: Floats,
        delay: float = 0.0,
    ) -> None:
        self.airframe, self.parameters, self.windows = airframe, tuple(parameters), windows
        given = [parameter.value(airframe) or 0.0 for parameter in parameters]
        self.given = np.array(given)
        self.scales = np.array([v or p.natural for v, p in zip(given, parameters, strict=True)])
        self._lowest = np.where(self.given != 0.0, BOUNDS[0], 0.0)
        self.knots, self._known_delay = knots, delay
        self.flights = int(windows.flight.max()) + 1
        self.shape = self._interpolation_weights(windows.flight, windows.middles)
        weight = airframe.mass * STANDARD_GRAVITY
        arm = float(np.mean([np.hypot(*rotor.position[:2]) for rotor in airframe.rotors]))
        self._moment, self._force = OFFSET * weight * arm, OFFSET * weight
        self._sizes = {"moment": 0.2 * self._moment, **DIFFERENCES, "force": 2.0 * self._force}
        self._quantities = [name for name, _ in QUANTITIES if windows.turning or name != "rates"]

    def start(self) -> Unknowns:
        """The airframe's own figures and the given wind."""
        values = self.given / self.scales
        zero = np.zeros((self.flights, 3))
        spread = np.concatenate([START, np.zeros(6)])
        own = np.zeros((len(self.windows), OWN))
        return Unknowns(values, zero, zero, zero, np.zeros((len(self.knots), 2)), own, spread)

    def apply_estimates(self, unknowns: Unknowns) -> Airframe:
        """The airframe with the estimates."""
        airframe = self.airframe
        for parameter, scale, value in zip(self.parameters, self.scales, unknowns.values, strict=True):
            airframe = parameter.apply(airframe, float(scale * value))
        return airframe

    def delay(self, unknowns: Unknowns) -> float:
        """s after which motor commands act."""
        found = (self.scales * unknowns.values)[[p is DELAY for p in self.parameters]]
        return float(found[0]) if len(found) else self._known_delay

    def wind_at(self, unknowns: Unknowns, windows: FlightWindows) -> Floats:
        """(w, 2) m/s north, east in windows."""
        return np.asarray(self._interpolation_weights(windows.flight, windows.middles) @ unknowns.wind)

    def _interpolation_weights(self, flights: Ints, times: Floats) -> Floats:
        """(t, k) weights of linear interpolation between the knots of the same flight."""
        made = np.zeros((len(times), len(self.knots)))
        for i in np.unique(self.knots[:, 0]):
            rows, columns = flights == i, np.flatnonzero(self.knots[:, 0] == i)
            knots = self.knots[columns, 1]
            hats = [np.interp(times[rows], knots, column) for column in np.eye(len(knots))]
            made[np.ix_(rows, columns)] = np.stack(hats, axis=1)
        return made

    def fit(self) -> Fit:
        """Take steps until the likelihood settles.

        Raises:
            UserError: if the simulation diverges from the start.
        """
        unknowns, taken, settled = self.start(), 0, False
        # What figures explain comes first, then what they cannot.
        for share in (NONE, 1.0):
            spread = unknowns.spread.copy()
            spread[9:] = share * np.repeat([self._moment, self._force], 3)
            unknowns, settled, last = replace(unknowns, spread=spread), False, taken + ITERATIONS
            now = self._quality(unknowns)
            while not settled and taken < last:
                taken += 1
                equations = self._equations(unknowns, now.deviations)
                better = self._improve(unknowns, equations, now.cost)
                if better is None:
                    settled = True
                    continue
                settled = self._greatest_change(better[0].vector() - unknowns.vector(), equations) < SETTLED
                unknowns, now = better
                if share == 1.0:
                    unknowns = self._update_deviations(unknowns, equations)
                    now = self._quality(unknowns)
        equations = self._equations(unknowns, now.deviations)
        covariance, white = self._covariance(equations)
        return Fit(unknowns, covariance, white, settled)

    def _improve(
        self, unknowns: Unknowns, equations: Equations, cost: float
    ) -> tuple[Unknowns, Quality] | None:
        """The estimates after a step, halved until the cost falls; None if it does not."""
        change, start = self._step(unknowns, equations)
        for _ in range(HALVINGS):
            proposal = unknowns.apply_step(change, start, self._lowest)
            try:
                quality = self._quality(proposal)
            except UserError:
                quality = None
            if quality is not None and quality.cost < cost:
                return proposal, quality
            change, start = 0.5 * change, 0.5 * start
        return None

    def _greatest_change(self, change: Floats, equations: Equations) -> float:
        """Largest change of an estimate over its deviation.

        The likelihood's gain does not tell: each new ``spread`` costs what the next step gains.
        """
        variance = np.diag(np.linalg.inv(equations.hessian + self._information()[0]))
        return float(np.max(np.abs(change) / np.sqrt(variance)))

    @staticmethod
    def _update_deviations(unknowns: Unknowns, equations: Equations) -> Unknowns:
        """With the deviations of the windows' moments and forces as they have shown."""
        spread = unknowns.spread.copy()
        shown = np.sqrt((unknowns.start**2 + equations.variance).mean(axis=0))
        spread[9:] = np.maximum(shown[9:], NONE * spread[9:])
        return replace(unknowns, spread=spread)

    def _common(self, unknowns: Unknowns) -> CommonMotion:
        moment = unknowns.moment[self.windows.flight]
        wind = self.wind_at(unknowns, self.windows)
        return CommonMotion(moment, wind, unknowns.start, self.delay(unknowns))

    def _quality(self, unknowns: Unknowns) -> Quality:
        """Deviations of the residuals, and the negative logarithm of the likelihood with them."""
        fleet = WindowFleet(self.windows, [Member.of(self.apply_estimates(unknowns))])
        residuals: list[list[Floats]] = [[] for _ in self._quantities]
        for w, made in fleet.motions(self._common(unknowns)):
            for q, name in enumerate(self._quantities):
                residuals[q].append(self._residual(name, w, made[name], unknowns))
        deviations, logarithms = [], 0.0
        for q, parts in enumerate(residuals):
            together = np.abs(np.concatenate(parts))
            if not len(together):
                raise UserError(f"the log has no {self._quantities[q]} within the windows; lengthen --window")
            limit = HUBER * 1.4826 * np.median(together, axis=0) + 1e-6
            deviations.append(np.sqrt(np.mean(np.minimum(together, limit) ** 2, axis=0)) + 1e-6)
            logarithms += len(together) * float(np.log(deviations[-1]).sum())
        prior = self._prior_cost(unknowns) + float(((unknowns.start / unknowns.spread) ** 2).sum())
        return Quality(np.array(deviations), logarithms + 0.5 * prior)

    def _residual(self, name: str, w: int, made: Floats, unknowns: Unknowns) -> Floats:
        """(k, 3) measured less simulated in a window, of the first member."""
        samples, bias = self.windows.samples[name][w], unknowns.biases.get(name)
        offset = 0.0 if bias is None else bias[self.windows.flight[w]]
        return np.asarray(samples.values - samples.interpolate_steps(made[:, 0]) - offset)

    def _members(self, unknowns: Unknowns) -> list[Member]:
        airframe = self.apply_estimates(unknowns)
        members = [Member.of(airframe)]
        for i, parameter in enumerate(self.parameters):
            change = self._difference(unknowns, i)
            value = float(self.scales[i] * unknowns.values[i] + change)
            late = change if parameter is DELAY else 0.0
            members.append(Member.of(parameter.apply(airframe, value), delay=late))
        for name, size in self._sizes.items():
            count = 2 if name == "wind" else 3
            members += [Member.of(airframe, **{name: size * axis}) for axis in np.eye(count)]
        return members

    def _difference(self, unknowns: Unknowns, i: int) -> float:
        return float(DIFFERENCE * self.scales[i] * max(unknowns.values[i], 0.1))

    def _equations(self, unknowns: Unknowns, deviations: Floats) -> Equations:
        """Simulate all windows with the whole fleet and sum their normal equations."""
        p, w = len(self.parameters), len(self.windows)
        g = p + 9 * self.flights + 2 * len(self.knots)
        n = p + 11 + OWN
        own_shapes = (np.zeros((w, OWN)), np.zeros((w, OWN, g)), np.zeros((w, OWN)))
        made = Equations(np.zeros((w, g)), np.zeros((g, g)), *own_shapes)
        sizes = np.array(
            [self._difference(unknowns, i) / self.scales[i] for i in range(p)]
            + [size for name, size in self._sizes.items() for _ in range(2 if name == "wind" else 3)]
        )
        fleet = WindowFleet(self.windows, self._members(unknowns))
        for i, motion in fleet.motions(self._common(unknowns)):
            own, gradient = np.zeros((n, n)), np.zeros(n)
            for q, name in enumerate(self._quantities):
                samples = self.windows.samples[name][i]
                simulated = samples.interpolate_steps(motion[name])
                slope = ((simulated[:, 1:] - simulated[:, :1]) / sizes[:, None]).transpose(0, 2, 1)
                flat = (self._columns(slope, name) / deviations[q][:, None]).reshape(-1, n)
                scaled = (self._residual(name, i, motion[name], unknowns) / deviations[q]).ravel()
                weighted = flat * np.minimum(1.0, HUBER / np.maximum(np.abs(scaled), 1e-12))[:, None]
                own += weighted.T @ flat
                gradient += weighted.T @ scaled
            made.gradients[i], hessian, made.inner[i], made.coupling[i], made.variance[i] = _eliminate(
                own, gradient, unknowns.start[i], unknowns.spread, self._spread(i, p)
            )
            made.hessian[:] += hessian
        return made

    def _columns(self, slope: Floats, name: str) -> Floats:
        """(k, 3, p + 26): parameters, moment, biases of rates and acceleration, wind; the window's own.

        The window's moment acts as the flight's.  Where rotation is taken as measured, moment, turn and rates
        have no effect.
        """
        p = len(self.parameters)
        k = len(slope)
        bias = np.zeros((k, 3, 6))
        if name in ("rates", "acceleration"):
            first = 0 if name == "rates" else 3
            bias[:, :, first : first + 3] = np.eye(3)
        moment = slope[..., p : p + 3]
        parts = [slope[..., : p + 3], bias, slope[..., p + 3 : -3], moment, slope[..., -3:]]
        return np.concatenate(parts, axis=2)

    def _spread(self, i: int, p: int) -> Floats:
        """(p + 11, g) from a window's columns to the global ones; its wind is between two knots."""
        k, flight, wind = len(self.knots), p + 9 * int(self.windows.flight[i]), p + 9 * self.flights
        made = np.zeros((p + 11, wind + 2 * k))
        made[:p, :p] = np.eye(p)
        made[p : p + 9, flight : flight + 9] = np.eye(9)
        for axis in range(2):
            made[p + 9 + axis, wind + axis :: 2] = self.shape[i] if k else 0.0
        return made

    def _information(self) -> tuple[Floats, Floats]:
        """(g, g) information that is there before the flight, and (g,) the values it is about."""
        p, k = len(self.parameters), len(self.knots)
        spread = np.concatenate(
            [
                np.full(p, PRIOR),
                np.tile(np.repeat([self._moment, RATE_BIAS, ACCELERATION_BIAS], 3), self.flights),
                np.full(2 * k, WIND_PRIOR),
            ]
        )
        about = np.zeros(len(spread))
        about[:p] = self.given / self.scales
        matrix = np.diag(spread**-2.0)
        for j in range(1, k):
            if self.knots[j, 0] != self.knots[j - 1, 0]:
                continue
            for axis in range(2):
                a, b = (p + 9 * self.flights + 2 * m + axis for m in (j - 1, j))
                stiffness = 1.0 / (WIND_CHANGE**2 * (self.knots[j, 1] - self.knots[j - 1, 1]))
                matrix[[a, b], [a, b]] += stiffness
                matrix[[a, b], [b, a]] -= stiffness
        return matrix, about

    def _prior_cost(self, unknowns: Unknowns) -> float:
        matrix, about = self._information()
        off = unknowns.vector() - about
        return float(off @ matrix @ off)

    def _step(self, unknowns: Unknowns, equations: Equations) -> tuple[Floats, Floats]:
        matrix, about = self._information()
        gradient = equations.gradients.sum(axis=0) - matrix @ (unknowns.vector() - about)
        change = np.linalg.solve(equations.hessian + matrix, gradient)
        p = len(self.parameters)
        most = float(np.max(np.abs(change[:p]) / np.maximum(np.abs(unknowns.values), 0.3), initial=0.0))
        shortened = min(1.0, LARGEST / most) if most > 0.0 else 1.0
        change = shortened * change
        return change, shortened * equations.inner - np.einsum("wig,g->wi", equations.coupling, change)

    def _covariance(self, equations: Equations) -> tuple[Floats, Floats]:
        """Covariance with the windows' gradients as they scatter and correlate, and that of white residuals.

        C = H^-1 (sum_l w_l sum_w g_w g_(w+l)^T) H^-1 with Bartlett's weights w_l (Newey and West 1987); it is
        the correction of Morelli and Klein (1997) for coloured residuals, by windows.
        """
        matrix, _ = self._information()
        inverse = np.linalg.inv(equations.hessian + matrix)
        gradients = equations.gradients - equations.gradients.mean(axis=0)
        lags = min(round(CORRELATION_TIME / self.windows.length), len(gradients) - 1)
        scatter = gradients.T @ gradients
        for lag in range(1, lags + 1):
            same = self.windows.flight[:-lag] == self.windows.flight[lag:]
            product = gradients[:-lag][same].T @ gradients[lag:][same]
            scatter += (1.0 - lag / (lags + 1.0)) * (product + product.T)
        n, g = gradients.shape
        scatter *= n / max(n - g, 1)
        covariance = inverse @ (scatter + matrix) @ inverse
        # The deviations are at least those of white residuals; the correlations stay as they are.
        ratio = np.sqrt(np.maximum(np.diag(inverse) / np.diag(covariance), 1.0))
        return np.asarray(covariance * np.outer(ratio, ratio)), np.asarray(inverse)


def _eliminate(
    own: Floats, gradient: Floats, start: Floats, deviation: Floats, to_all: Floats
) -> tuple[Floats, ...]:
    """A window's part of ``Equations``, its own unknowns eliminated (Schur complement)."""
    free = len(own) - OWN
    outer = to_all.T @ own[:free, :free] @ to_all
    mixed = to_all.T @ own[:free, free:]
    inverse = np.linalg.inv(own[free:, free:] + np.diag(deviation**-2.0))
    begin = gradient[free:] - start / deviation**2
    return (
        to_all.T @ gradient[:free] - mixed @ inverse @ begin,
        outer - mixed @ inverse @ mixed.T,
        inverse @ begin,
        inverse @ mixed.T,
        np.diag(inverse),
    )
