"""PX4's estimator through minutes of turns, climbs and fast legs, all sensors noisy: nothing is rejected."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.paths import MISSIONS
from support.px4_flights import fly

pytestmark = pytest.mark.px4


@pytest.mark.parametrize(("airframe", "estimators"), [("iris", 1), ("iris_full", 3), ("x500_full", 3)])
def test_no_innovation_is_rejected_and_no_check_of_px4s_own_fails(
    airframe: str, estimators: int, tmp_path: Path
) -> None:
    outcome, record, _ = fly(MISSIONS / "estimator_check.py", tmp_path, airframe)
    assert outcome.succeeded, outcome.reason
    assert record.air_time > 300.0
    assert record.max_speed > 7.5
    assert record.max_height > 20.0
    assert record.failsafes == []
    assert len(record.estimators) == estimators
    for estimator in record.estimators:
        print(estimator)
        assert estimator.rejected == {}
        assert estimator.failures == ()
        assert max(estimator.ratios.values()) < 1.0
        # Of the warnings none is allowed either: biases, output tracking, vibration.
        assert estimator.warnings == ()
