"""How closely flights of real PX4 repeat.  The simulation does to the bit; PX4's links run on wall time."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from support.paths import MISSIONS
from support.px4_flights import fly

from sitl_bridge.record.truth_log import read_truth

pytestmark = pytest.mark.px4
FLIGHTS = 3


def from_lift_off(table: NDArray[np.void]) -> NDArray[np.float64]:
    """(k, 3) true positions in m from where it stood, at every step from 0.5 m of height on."""
    position = np.stack([table[f"position_{axis}"] for axis in ("north", "east", "down")], axis=-1)
    position = position - position[0]
    off = int(np.flatnonzero(position[:, 2] < -0.5)[0])
    flown: NDArray[np.float64] = position[off:]
    return flown


def test_the_same_plan_with_the_same_seed_is_flown_alike(tmp_path: Path) -> None:
    flights, ready = [], []
    for number in range(FLIGHTS):
        outcome, record, session = fly(MISSIONS / "square.plan", tmp_path / str(number), seed=5)
        assert outcome.succeeded, outcome.reason
        flights.append(from_lift_off(read_truth(session.directory.truth)))
        ready.append(record.take_off)
    for (i, one), (j, other) in itertools.combinations(enumerate(flights), 2):
        both = min(len(one), len(other))
        apart = np.linalg.norm(one[:both] - other[:both], axis=1)
        rms, most = float(np.sqrt(np.mean(apart**2))), float(apart.max())
        print(
            f"flights {i} and {j}: RMS {rms:.2f} m, at most {most:.2f} m apart over {both * 0.004:.0f} s",
            end="",
        )
        print(f"; they took off at {ready[i]:.2f} and {ready[j]:.2f} s")
        # PX4's links run on wall time: it saw a setpoint or two earlier or later.
        assert abs(ready[i] - ready[j]) < 0.5
        assert rms < 0.5
