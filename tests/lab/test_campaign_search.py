"""Searches on functions whose answers are known: rare events, the worst case, the smallest failure, Sobol."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr, ndtri
from support.campaigns import analytic, campaign, scenario

from sitl_bridge.base.errors import ConfigurationError
from sitl_bridge.lab.campaign.ledger import FOUND, Ledger, read_rows
from sitl_bridge.lab.campaign.run import CampaignRun
from sitl_bridge.lab.campaign.space import CampaignSpace

TWO = "vary: {world.wind.steady.speed: 'uniform(0, 1)', world.wind.steady.upward: 'uniform(0, 1)'}\n"


def found_by(directory: Path, text: str, measure: Any) -> tuple[dict[str, Any], int]:
    """What a search finds on a function of two values in 0..1, and the runs it took."""
    scenario(directory)
    space = CampaignSpace.load(campaign(directory, TWO + text))
    space.check()
    with Ledger(directory / "out", space, anew=True) as ledger:
        progress = CampaignRun(space, ledger, analytic(space, measure)).fly()
    return json.loads((directory / "out" / FOUND).read_text()), progress.flown


def linear(a: float, b: float) -> float:
    """Standard normal in z: exceeds 4 with the probability 3.17e-5."""
    return float((ndtri(a) + ndtri(b)) / math.sqrt(2.0))


def test_the_rare_event_estimate_agrees_with_the_exact_probability(tmp_path: Path) -> None:
    exact = float(ndtr(-4.0))
    inside = 0
    estimates = []
    for seed in range(5):
        text = (
            f"runs: 1000\nseed: {seed}\nlimits: {{mission_legs_max: 4}}\n"
            "search: {kind: rare_events, measure: mission_legs_max, batch: 100}\n"
        )
        found, flown = found_by(tmp_path, text, linear)
        assert flown == 1000
        inside += found["low"] <= exact <= found["high"]
        estimates.append(found["probability"])
    assert inside >= 4
    assert np.mean(estimates) == pytest.approx(exact, rel=0.2)


def test_the_rare_event_estimate_agrees_with_brute_force_where_both_can_be_had(tmp_path: Path) -> None:
    random = np.random.default_rng(7)
    z = random.standard_normal((400_000, 2))
    brute = float(np.mean(np.maximum(z[:, 0], z[:, 1]) > 2.5))  # two regions of failure
    text = (
        "runs: 3000\nlimits: {mission_legs_max: 2.5}\n"
        "search: {kind: rare_events, measure: mission_legs_max, batch: 300, elite: 0.2}\n"
    )
    found, _ = found_by(tmp_path, text, lambda a, b: float(max(ndtri(a), ndtri(b))))
    assert found["low"] <= brute <= found["high"]
    assert all(0.0 < row.weight <= 10.0 for row in read_rows(tmp_path / "out"))


def test_an_event_that_never_happens_has_an_upper_bound(tmp_path: Path) -> None:
    text = (
        "runs: 600\nlimits: {mission_legs_max: 100}\n"
        "search: {kind: rare_events, measure: mission_legs_max, batch: 100}\n"
    )
    found, _ = found_by(tmp_path, text, linear)
    assert (found["probability"], found["low"]) == (0.0, 0.0)
    assert 0.0 < found["high"] < 0.2


def test_the_worst_case_is_searched_by_the_same_runs_again_whatever_else_draws(tmp_path: Path) -> None:
    found = []
    for other in (1, 2):
        np.random.seed(other)
        text = "runs: 60\nseed: 4\nsearch: {kind: worst_case, measure: mission_legs_max}\n"
        found_by(tmp_path, text, lambda a, b: -((a - 0.9) ** 2) - (b - 0.2) ** 2)
        found.append([row.point for row in read_rows(tmp_path / "out")])
    assert found[0] == found[1]
    assert len(set(found[0])) == 60


def test_a_search_names_a_measure_of_ones_own_as_limits_do(tmp_path: Path) -> None:
    own = "import sitl_bridge as sb\nclass Far(sb.report.CustomMeasure):\n    unit = 'm'\n"
    (tmp_path / "far.py").write_text(own)
    scenario(tmp_path)
    text = TWO + "runs: 60\nsearch: {kind: worst_case, measure: far.py:Far}\n"
    with pytest.raises(ConfigurationError, match=r"far\.py:Far is taken where it has a limit; add it"):
        CampaignSpace.load(campaign(tmp_path, text)).check()
    space = CampaignSpace.load(campaign(tmp_path, text + "limits: {far.py:Far: null}\n"))
    space.check()
    (name,) = space.limits
    with Ledger(tmp_path / "out", space, anew=True) as ledger:
        CampaignRun(space, ledger, analytic(space, lambda a, b: a - b, name)).fly()
    found = json.loads((tmp_path / "out" / FOUND).read_text())
    assert found["measure"] == name
    assert found["value"] > 0.5


def test_the_worst_case_beats_a_thousand_random_samples_in_two_hundred_runs(tmp_path: Path) -> None:
    def measure(a: float, b: float) -> float:
        return -((a - 0.93) ** 2) - 4.0 * (b - 0.11 - 0.2 * (a - 0.93)) ** 2

    text = "runs: 200\nsearch: {kind: worst_case, measure: mission_legs_max}\n"
    found, flown = found_by(tmp_path, text, measure)
    random = np.random.default_rng(3)
    assert flown == 200
    assert found["value"] > max(measure(*point) for point in random.random((1000, 2)))


def test_the_smallest_failure_names_the_value_that_matters_and_its_threshold(tmp_path: Path) -> None:
    text = "runs: 80\nlimits: {mission_legs_max: 0.8}\nsearch: {kind: smallest_failure, tolerance: 0.005}\n"
    found, _ = found_by(tmp_path, text, lambda a, _b: a)
    assert found["needed"] == ["world.wind.steady.speed"]
    assert found["values"]["world.wind.steady.speed"] == pytest.approx(0.8, abs=0.006)
    assert found["values"]["world.wind.steady.upward"] == 0.5


def test_sobol_indices_are_those_of_a_known_function(tmp_path: Path) -> None:
    # a + 2 b + a b on the unit square: variances 0.1875, 0.52083 and 0.00694 of 0.71528, each over 1.
    text = "search: {kind: sensitivity, measures: [mission_legs_max], samples: 1000}\n"
    found, flown = found_by(tmp_path, text, lambda a, b: a + 2 * b + a * b)
    indices = found["measures"]["mission_legs_max"]
    # 1,000 samples are 1,024, which `check` prints, too.
    assert flown == 4096 == CampaignSpace.load(tmp_path / "campaign.yaml").size
    assert indices["world.wind.steady.speed"]["first"] == pytest.approx(0.2621, abs=0.02)
    assert indices["world.wind.steady.upward"]["first"] == pytest.approx(0.7282, abs=0.02)
    assert indices["world.wind.steady.upward"]["total"] == pytest.approx(0.7379, abs=0.02)
