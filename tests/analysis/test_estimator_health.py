"""Checks of PX4's estimator, read from a log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sitl_bridge.analysis.evaluation.estimator_health import check_estimator
from sitl_bridge.analysis.evaluation.flight_record import FlightRecord
from sitl_bridge.record.ulog_reader import FlightLog

OUT_OF_RANGE = (40.0, 50.0)
"""s"""


def ratios(high: tuple[float, float], orientation: int = 25) -> dict[str, float]:
    """Test ratios of a flight of 100 s, out of the range finder's range from 40 to 50 s.

    The ratio of the height above ground is 2 between two times in s, else 0.1.
    """
    time = np.arange(0.0, 100.0, 0.2)
    ratio = np.where((time >= high[0]) & (time < high[1]), 2.0, 0.1)
    status: dict[str, Any] = {"timestamp": (time * 1e6).astype(np.uint64), "hagl_test_ratio": ratio}
    status["filter_fault_flags"] = np.zeros(len(time))
    for name in ("output_tracking_error[0]", "output_tracking_error[1]", "output_tracking_error[2]"):
        status[name] = np.zeros(len(time))
    beams = np.arange(0.0, 100.0, 1.0)
    above = (beams >= OUT_OF_RANGE[0]) & (beams < OUT_OF_RANGE[1])
    beam = {
        "timestamp": (beams * 1e6).astype(np.uint64),
        "current_distance": np.where(above, 12.01, 9.0),
        "min_distance": np.full(len(beams), 0.05),
        "max_distance": np.full(len(beams), 12.0),
        "orientation": np.full(len(beams), orientation),
    }
    log = FlightLog({("estimator_status", 0): status, ("distance_sensor", 0): beam})
    return check_estimator(log, 0, FlightRecord(Path("flight.ulg"), take_off=5.0, landing=95.0)).ratios


@pytest.mark.parametrize(
    ("high", "expected"),
    [
        ((40.0, 52.0), 0.1),  # the filtered ratio forgets within seconds of the return into range
        ((60.0, 61.0), 2.0),
        ((30.0, 31.0), 2.0),
    ],
)
def test_the_ratio_of_a_range_finder_counts_only_within_its_range(
    high: tuple[float, float], expected: float
) -> None:
    assert ratios(high)["height above ground"] == expected


def test_a_range_finder_that_looks_elsewhere_does_not_matter() -> None:
    assert ratios((40.0, 52.0), orientation=0)["height above ground"] == 2.0
