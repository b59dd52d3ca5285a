"""How well an airframe predicts the parts of a flight that were kept out of the fit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sitl_bridge.base.arrays import Floats
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.lab.identification.flight_windows import QUANTITIES, SECONDS, FlightWindows
from sitl_bridge.lab.identification.window_fleet import CommonMotion, Member, WindowFleet

SHORT = 0.02
"""s after a window's beginning that count as one step."""


@dataclass(frozen=True)
class PredictionError:
    """RMS errors of the prediction of a quantity, over all axes."""

    name: str  # of the quantity
    unit: str  # of the errors
    short: float  # within SHORT after the beginning; nan without a sample there
    long: float  # in the last tenth of the window


def prediction_errors(
    windows: FlightWindows,
    airframe: Airframe,
    moment: Floats,
    wind: Floats,
    biases: dict[str, Floats],
    delay: float,
) -> tuple[PredictionError, ...]:
    """Simulate windows from the measured motion at their beginnings.

    Args:
        moment: (w, 3) N m.
        wind: (w, 2) m/s.
        biases: (w, 3) of the sensors, by quantity.
        delay: s after which motor commands act.
    """
    common = CommonMotion(moment, wind, np.zeros((len(windows), 15)), delay)
    early: dict[str, list[Floats]] = {name: [] for name, _ in QUANTITIES}
    late: dict[str, list[Floats]] = {name: [] for name, _ in QUANTITIES}
    for w, made in WindowFleet(windows, [Member.of(airframe)]).motions(common):
        for name, _ in QUANTITIES:
            samples = windows.samples[name][w]
            error = samples.values - samples.simulated(made[name])[:, 0]
            if name in biases:
                error -= biases[name][w]
            after = (samples.before + samples.share + 1.0) * SECONDS
            early[name].append(error[after <= SHORT])
            late[name].append(error[after >= 0.9 * windows.length])
    return tuple(
        PredictionError(name, unit, _rms(early[name]), _rms(late[name]))
        for name, unit in QUANTITIES
        if windows.turning or name != "rates"
    )


def _rms(parts: list[Floats]) -> float:
    together = np.concatenate(parts) if parts else np.zeros((0, 3))
    return float(np.sqrt(np.mean(together**2))) if together.size else float("nan")
