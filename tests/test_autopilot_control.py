"""Both control laws on the real dynamics, with a perfect estimate."""

from __future__ import annotations

import pytest
from autopilot_bench import Bench


@pytest.mark.parametrize("law", ["hector_pid", "lee"])
def test_the_iris_takes_off_and_hovers(law: str) -> None:
    bench = Bench(["iris"], law)
    bench.take_off(seconds=12.0)
    assert bench.errors().max() < 0.02
