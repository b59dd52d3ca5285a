"""Analysis by synthesis: the fit of simulated to measured motion by Gauss-Newton steps.

Unknown are the chosen parameters of the airframe, a constant moment (the centre of gravity's offset), biases
of both inertial sensors, the wind at knots along the flight, and the motion at the beginning of every window.
The last are eliminated window by window, so the normal equations stay small.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.errors import UserError
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.lab.identification.fitted_parameters import Parameter
from sitl_bridge.lab.identification.flight_windows import QUANTITIES, FlightWindows, Samples
from sitl_bridge.lab.identification.window_fleet import CommonMotion, Member, WindowFleet

DIFFERENCE = 0.01
"""Relative change of a parameter for its sensitivities."""
PRIOR = 0.5
"""Relative standard deviation of the airframe's own figures.  What the flight shows overrules them; what it
does not show stays near them."""
MOMENT, RATE_BIAS, ACCELERATION_BIAS = 0.05, 0.05, 0.5
"""N m, rad/s and m/s^2, standard deviations expected of the constant moment and of the sensors' biases."""
WIND_PRIOR, WIND_CHANGE = 10.0, 0.2
"""m/s expected of the wind, and m/s of its change over the square root of a second."""
START = np.array([0.3] * 3 + [0.02, 0.02, 0.05] + [0.1] * 3)
"""m/s, rad and rad/s, standard deviations of the measured motion at the beginning of a window."""
DIFFERENCES = {"moment": 0.01, "wind": 0.5, "velocity": 0.1, "turn": 0.01, "rates": 0.05}
HUBER = 4.0
"""Standard deviations from which on an error counts less."""
ITERATIONS, SETTLED, HALVINGS = 20, 0.5, 5
"""Steps at most; gain of the likelihood's logarithm that ends them; halvings of a step that gains nothing."""
LARGEST = 0.3
"""Relative change of a parameter in one step."""
BOUNDS = (0.1, 10.0)
"""Of a parameter, relative to the airframe's figure."""
CORRELATION_TIME = 5.0
"""s over which errors of different windows are taken to be correlated."""


@dataclass(frozen=True)
class Unknowns:
    """Present estimates.

    Attributes:
        values: (p,) of the parameters over their scales.
        moment: (3,) N m.
        rate_bias: (3,) rad/s.
        acceleration_bias: (3,) m/s^2.
        wind: (k, 2) m/s north, east at the knots.
        start: (w, 9) corrections of the windows' beginnings.
    """

    values: Floats
    moment: Floats
    rate_bias: Floats
    acceleration_bias: Floats
    wind: Floats
    start: Floats

    def vector(self) -> Floats:
        """All but ``start``."""
        return np.concatenate(
            [self.values, self.moment, self.rate_bias, self.acceleration_bias, self.wind.ravel()]
        )

    def changed(self, change: Floats, start: Floats, lowest: Floats) -> Unknowns:
        """After a step; parameters stay above their ``lowest`` values and within the bounds."""
        p = len(self.values)
        values, moment, rate, acceleration, wind = np.split(self.vector() + change, [p, p + 3, p + 6, p + 9])
        values = np.clip(values, lowest, BOUNDS[1])
        return Unknowns(values, moment, rate, acceleration, wind.reshape(-1, 2), self.start + start)


@dataclass(frozen=True)
class Equations:
    """Normal equations of all windows.

    Attributes:
        gradients: (w, g) of each window, its beginning eliminated.
        hessian: (g, g) sum of the windows'.
        inner: (w, 9) steps of the beginnings, for no change of the others.
        coupling: (w, 9, g) change of these steps with the others.
    """

    gradients: Floats
    hessian: Floats
    inner: Floats
    coupling: Floats


@dataclass(frozen=True)
class Quality:
    """How well the simulation fits.

    Attributes:
        deviations: (q, 3) of the residuals, by quantity and axis.
        cost: negative logarithm of the likelihood, less a constant.
    """

    deviations: Floats
    cost: float


@dataclass(frozen=True)
class Fit:
    """A converged fit.

    Attributes:
        unknowns: the estimates.
        covariance: (g, g) of ``unknowns.vector()``, corrected for the correlation of the residuals.
        white: (g, g) the same for uncorrelated residuals.
        deviations: (9,) of the residuals.
        iterations: taken.
        settled: whether the last change was small.
    """

    unknowns: Unknowns
    covariance: Floats
    white: Floats
    deviations: Floats
    iterations: int
    settled: bool


class Synthesis:
    """A fit of some parameters and, if wanted, the wind to a flight's windows.

    Args:
        airframe: with the figures from which the fit starts.
        parameters: to be fitted.
        windows: of the flight.
        knots: (k,) s at which the wind is estimated; none for a wind that is known.
        wind: (2,) m/s north, east to start from, or the known one.
    """

    def __init__(
        self,
        airframe: Airframe,
        parameters: Sequence[Parameter],
        windows: FlightWindows,
        knots: Floats,
        wind: Floats,
    ) -> None:
        self.airframe, self.parameters, self.windows = airframe, tuple(parameters), windows
        given = [parameter.value(airframe) or 0.0 for parameter in parameters]
        self.given = np.array(given)
        self.scales = np.array([v or p.natural for v, p in zip(given, parameters, strict=True)])
        self._lowest = np.where(self.given != 0.0, BOUNDS[0], 0.0)
        self.knots, self._known_wind = knots, wind
        self.shape = _hats(windows.middles, knots)
        self._quantities = [name for name, _ in QUANTITIES if windows.turning or name != "rates"]

    def start(self) -> Unknowns:
        """The airframe's own figures and the given wind."""
        values = self.given / self.scales
        zero = np.zeros(3)
        wind = np.tile(self._known_wind, (len(self.knots), 1))
        return Unknowns(values, zero, zero, zero, wind, np.zeros((len(self.windows), 9)))

    def fitted(self, unknowns: Unknowns) -> Airframe:
        """The airframe with the estimates."""
        airframe = self.airframe
        for parameter, scale, value in zip(self.parameters, self.scales, unknowns.values, strict=True):
            airframe = parameter.applied(airframe, float(scale * value))
        return airframe

    def wind_at(self, unknowns: Unknowns, times: Floats) -> Floats:
        """(t, 2) m/s north, east at times in s."""
        if not len(self.knots):
            return np.tile(self._known_wind, (len(times), 1))
        return np.asarray(_hats(times, self.knots) @ unknowns.wind)

    def fit(self) -> Fit:
        """Take steps until the likelihood settles.

        Raises:
            UserError: if the simulation diverges from the start.
        """
        unknowns = self.start()
        now = self._quality(unknowns)
        settled, taken = False, 0
        while not settled and taken < ITERATIONS:
            taken += 1
            equations = self._equations(unknowns, now.deviations)
            better = self._improved(unknowns, equations, now.cost)
            settled = better is None or now.cost - better[1].cost < SETTLED
            if better is not None:
                unknowns, now = better
        equations = self._equations(unknowns, now.deviations)
        covariance, white = self._covariance(equations)
        return Fit(unknowns, covariance, white, now.deviations, taken, settled)

    def _improved(
        self, unknowns: Unknowns, equations: Equations, cost: float
    ) -> tuple[Unknowns, Quality] | None:
        """The estimates after a step, halved until the cost falls; None if it does not."""
        change, start = self._step(unknowns, equations)
        for _ in range(HALVINGS):
            proposal = unknowns.changed(change, start, self._lowest)
            try:
                quality = self._quality(proposal)
            except UserError:
                quality = None
            if quality is not None and quality.cost < cost:
                return proposal, quality
            change, start = 0.5 * change, 0.5 * start
        return None

    def _common(self, unknowns: Unknowns) -> CommonMotion:
        return CommonMotion(unknowns.moment, self.wind_at(unknowns, self.windows.middles), unknowns.start)

    def _quality(self, unknowns: Unknowns) -> Quality:
        """Deviations of the residuals, and the negative logarithm of the likelihood with them.

        Raises:
            UserError: if the simulation diverges.
        """
        fleet = WindowFleet(self.windows, [Member.of(self.fitted(unknowns))])
        residuals: list[list[Floats]] = [[] for _ in self._quantities]
        for w, made in fleet.motions(self._common(unknowns)):
            for q, name in enumerate(self._quantities):
                samples = self.windows.samples[name][w]
                residuals[q].append(self._residual(name, samples, made[name], unknowns))
        deviations, logarithms = [], 0.0
        for q, parts in enumerate(residuals):
            together = np.abs(np.concatenate(parts))
            if not len(together):
                raise UserError(f"the log has no {self._quantities[q]} within the windows; lengthen --window")
            limit = HUBER * 1.4826 * np.median(together, axis=0) + 1e-6
            deviations.append(np.sqrt(np.mean(np.minimum(together, limit) ** 2, axis=0)) + 1e-6)
            logarithms += len(together) * float(np.log(deviations[-1]).sum())
        prior = self._prior_cost(unknowns) + float(((unknowns.start / START) ** 2).sum())
        return Quality(np.array(deviations), logarithms + 0.5 * prior)

    def _residual(self, name: str, samples: Samples, made: Floats, unknowns: Unknowns) -> Floats:
        """(k, 3) measured less simulated, of the first member."""
        biases = {"rates": unknowns.rate_bias, "acceleration": unknowns.acceleration_bias}
        return np.asarray(samples.values - samples.simulated(made[:, 0]) - biases.get(name, 0.0))

    def _members(self, unknowns: Unknowns) -> list[Member]:
        airframe = self.fitted(unknowns)
        members = [Member.of(airframe)]
        for i, parameter in enumerate(self.parameters):
            value = self.scales[i] * unknowns.values[i]
            members.append(
                Member.of(parameter.applied(airframe, float(value + self._difference(unknowns, i))))
            )
        for name, size in DIFFERENCES.items():
            count = 2 if name == "wind" else 3
            members += [Member.of(airframe, **{name: size * axis}) for axis in np.eye(count)]
        return members

    def _difference(self, unknowns: Unknowns, i: int) -> float:
        return float(DIFFERENCE * self.scales[i] * max(unknowns.values[i], 0.1))

    def _equations(self, unknowns: Unknowns, deviations: Floats) -> Equations:
        """Simulate all windows with the whole fleet and sum their normal equations."""
        p, w = len(self.parameters), len(self.windows)
        g = p + 9 + 2 * len(self.knots)
        made = Equations(np.zeros((w, g)), np.zeros((g, g)), np.zeros((w, 9)), np.zeros((w, 9, g)))
        sizes = np.array(
            [self._difference(unknowns, i) / self.scales[i] for i in range(p)]
            + [size for name, size in DIFFERENCES.items() for _ in range(2 if name == "wind" else 3)]
        )
        fleet = WindowFleet(self.windows, self._members(unknowns))
        for i, motion in fleet.motions(self._common(unknowns)):
            own, gradient = np.zeros((p + 20, p + 20)), np.zeros(p + 20)
            for q, name in enumerate(self._quantities):
                samples = self.windows.samples[name][i]
                simulated = samples.simulated(motion[name])
                slope = ((simulated[:, 1:] - simulated[:, :1]) / sizes[:, None]).transpose(0, 2, 1)
                flat = (self._with_biases(slope, name) / deviations[q][:, None]).reshape(-1, p + 20)
                scaled = (self._residual(name, samples, motion[name], unknowns) / deviations[q]).ravel()
                weighted = flat * np.minimum(1.0, HUBER / np.maximum(np.abs(scaled), 1e-12))[:, None]
                own += weighted.T @ flat
                gradient += weighted.T @ scaled
            reduced = _eliminated(own, gradient, unknowns.start[i], self._spread(i, p))
            made.inner[i], made.coupling[i] = reduced.inner, reduced.coupling
            made.gradients[i] = reduced.gradient
            made.hessian[:] += reduced.hessian
        return made

    def _with_biases(self, slope: Floats, name: str) -> Floats:
        """(k, 3, p + 20) with the columns parameters, moment, biases of rates and acceleration, wind, start.

        Where rotation is taken as measured, moment, turn and rates have no effect.
        """
        p = len(self.parameters)
        k = len(slope)
        bias = np.zeros((k, 3, 6))
        if name in ("rates", "acceleration"):
            first = 0 if name == "rates" else 3
            bias[:, :, first : first + 3] = np.eye(3)
        return np.concatenate([slope[..., : p + 3], bias, slope[..., p + 3 :]], axis=2)

    def _spread(self, i: int, p: int) -> Floats:
        """(p + 11, g) from a window's own columns to the global ones: its wind is between two knots."""
        k = len(self.knots)
        made = np.zeros((p + 11, p + 9 + 2 * k))
        made[: p + 9, : p + 9] = np.eye(p + 9)
        for axis in range(2):
            made[p + 9 + axis, p + 9 + axis :: 2] = self.shape[i] if k else 0.0
        return made

    def _information(self) -> tuple[Floats, Floats]:
        """(g, g) information that is there before the flight, and (g,) the values it is about."""
        p, k = len(self.parameters), len(self.knots)
        spread = np.concatenate(
            [
                np.full(p, PRIOR),
                np.repeat([MOMENT, RATE_BIAS, ACCELERATION_BIAS], 3),
                np.full(2 * k, WIND_PRIOR),
            ]
        )
        about = np.zeros(len(spread))
        about[:p] = self.given / self.scales
        matrix = np.diag(spread**-2.0)
        for j in range(1, k):
            for axis in range(2):
                a, b = (p + 9 + 2 * m + axis for m in (j - 1, j))
                stiffness = 1.0 / (WIND_CHANGE**2 * (self.knots[j] - self.knots[j - 1]))
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
            product = gradients[:-lag].T @ gradients[lag:]
            scatter += (1.0 - lag / (lags + 1.0)) * (product + product.T)
        n, g = gradients.shape
        scatter *= n / max(n - g, 1)
        covariance = inverse @ (scatter + matrix) @ inverse
        # The deviations are at least those of white residuals; the correlations stay as they are.
        ratio = np.sqrt(np.maximum(np.diag(inverse) / np.diag(covariance), 1.0))
        return np.asarray(covariance * np.outer(ratio, ratio)), np.asarray(inverse)


@dataclass(frozen=True)
class _Reduced:
    gradient: Floats
    hessian: Floats
    inner: Floats
    coupling: Floats


def _eliminated(own: Floats, gradient: Floats, start: Floats, spread: Floats) -> _Reduced:
    """A window's normal equations without its beginning (Schur complement)."""
    free = len(own) - 9
    outer = spread.T @ own[:free, :free] @ spread
    mixed = spread.T @ own[:free, free:]
    inverse = np.linalg.inv(own[free:, free:] + np.diag(START**-2.0))
    begin = gradient[free:] - start / START**2
    return _Reduced(
        gradient=spread.T @ gradient[:free] - mixed @ inverse @ begin,
        hessian=outer - mixed @ inverse @ mixed.T,
        inner=inverse @ begin,
        coupling=inverse @ mixed.T,
    )


def _hats(times: Floats, knots: Floats) -> Floats:
    """(t, k) weights of linear interpolation between knots."""
    if not len(knots):
        return np.zeros((len(times), 0))
    return np.stack([np.interp(times, knots, column) for column in np.eye(len(knots))], axis=1)
