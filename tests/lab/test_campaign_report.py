"""The report of a campaign: what it states, and that two stages are compared."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from support.browser import open_browser
from support.campaigns import analytic, campaign, scenario

from sitl_bridge.analysis.evaluation.measures import KINDS, kind_of
from sitl_bridge.cli.campaign import status
from sitl_bridge.lab.campaign.ledger import Ledger, read_rows
from sitl_bridge.lab.campaign.page import (
    agreement,
    axis_ticks,
    cluster_of,
    write_campaign_report,
    write_tables,
)
from sitl_bridge.lab.campaign.run import CampaignRun
from sitl_bridge.lab.campaign.space import CampaignSpace

TEXT = (
    "vary: {world.wind.steady.speed: 'uniform(0, 12)', world.wind.steady.upward: 'uniform(-1, 1)'}\n"
    "limits: {mission_legs_max: 9}\n"
)


def flown(directory: Path, text: str = TEXT + "runs: 40\n") -> Path:
    scenario(directory)
    space = CampaignSpace.load(campaign(directory, text))
    with Ledger(directory / "out", space, anew=True) as ledger:
        CampaignRun(space, ledger, analytic(space, lambda speed, up: speed + up)).fly()
    return directory / "out"


def test_axes_have_round_ticks() -> None:
    assert axis_ticks(0.0, 10.0) == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
    assert axis_ticks(0.31, 0.78) == pytest.approx([0.4, 0.5, 0.6, 0.7])
    assert axis_ticks(0.5, 0.5) == [0.5]


def test_the_report_states_rate_failures_and_the_command_that_flies_one_again(tmp_path: Path) -> None:
    place = flown(tmp_path)
    rows = list(read_rows(place))
    failed = [row for row in rows if not row.succeeded]
    page = write_campaign_report(place).read_text(encoding="utf-8")
    assert f"{40 - len(failed)} of 40 flights by the built-in stack succeeded" in page
    assert any(f"sitl-bridge campaign reproduce {place} {row.id}" in page for row in failed)
    assert page.count("<circle") == 2 * 40
    assert "http://" not in page.replace("http://www.w3.org", "")


@pytest.mark.parametrize(
    ("more", "sample"),
    [
        ("runs: 8\n", True),
        ("design: grid\nlevels: 2\n", False),
        ("runs: 8\nsearch: {kind: smallest_failure}\n", False),
    ],
)
def test_only_runs_that_were_drawn_have_a_success_rate(
    more: str, *, sample: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = flown(tmp_path, TEXT + more)
    page = write_campaign_report(place).read_text(encoding="utf-8")
    assert ("interval of the success rate" in page) is sample
    assert ("do not show how often flights succeed" in page) is not sample
    status(place)
    assert ("runs were chosen" in capsys.readouterr().out) is not sample


def test_a_measure_of_ones_own_stays_in_the_tables_of_another_process(tmp_path: Path) -> None:
    file = tmp_path / "far.py"
    file.write_text("import sitl_bridge as sb\nclass Far(sb.report.CustomMeasure):\n    unit = 'm'\n")
    scenario(tmp_path)
    text = TEXT.replace("mission_legs_max", "far.py:Far") + "runs: 3\n"
    space = CampaignSpace.load(campaign(tmp_path, text))
    (name,) = space.limits
    with Ledger(tmp_path / "out", space, anew=True) as ledger:
        CampaignRun(space, ledger, analytic(space, lambda speed, up: speed + up, name)).fly()
    for gone in (False, True):
        if gone:
            file.unlink()
        assert name in write_tables(tmp_path / "out")[0].read_text("utf-8").partition("\n")[0]
        assert "<h2>" in write_campaign_report(tmp_path / "out").read_text("utf-8")
        assert kind_of(name).unit == ("" if gone else "m")
    assert name not in KINDS  # which other flights of the process read


def test_two_stages_are_compared_run_by_run(tmp_path: Path) -> None:
    place = flown(
        tmp_path, TEXT + "runs: 60\nstages: [built_in, px4]\nconfirm: {failures: 4, near_misses: 3}\n"
    )
    rows = list(read_rows(place))
    second = [row for row in rows if row.stage == "px4"]
    good = sorted(row.margin for row in rows if row.stage == "built_in" and row.succeeded)
    assert sum(not row.succeeded for row in second) == 4
    assert set(good[:3]) <= {row.margin for row in second}
    found = agreement(rows)
    assert found is not None
    assert found.pairs == len(second) == 4 + 3 + 10
    assert found.confusion == {
        (True, True): 13,
        (True, False): 0,
        (False, True): 0,
        (False, False): 4,
    }
    assert found.correlations["mission_legs_max"] == pytest.approx(1.0)
    turned = [replace(row, succeeded=not row.succeeded) if row.stage == "px4" else row for row in rows]
    other = agreement(turned)
    assert other is not None
    assert (other.confusion[True, False], other.confusion[False, True]) == (13, 4)
    page = write_campaign_report(place).read_text(encoding="utf-8")
    assert "Agreement of the stages" in page
    # PX4's runs are failures and near misses.
    assert page.count("interval of the success rate") == page.count("do not show how often") == 1


def test_failures_that_differ_in_figures_only_are_one_cluster(tmp_path: Path) -> None:
    row = next(row for row in read_rows(flown(tmp_path)) if not row.succeeded)
    one, other = (replace(row, reason=f"beyond its limit: {x} m", margin=math.nan) for x in ("9.2", "10.75"))
    assert cluster_of(one) == cluster_of(other)


@pytest.mark.slow
def test_the_report_opens_in_a_browser_without_an_error(tmp_path: Path) -> None:
    page_file = write_campaign_report(flown(tmp_path))
    faults: list[str] = []
    with open_browser() as browser:
        page = browser.new_page(viewport={"width": 1300, "height": 900})
        page.on("console", lambda message: faults.append(message.text))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("request", lambda one: None if one.url.startswith("file:") else faults.append(one.url))
        page.goto(page_file.as_uri())
        assert page.locator("article.verdict").count() == 1
        box = page.locator("svg").first.bounding_box()
        assert box is not None
        assert box["width"] > 200
        page.screenshot(path=str(tmp_path / "page.png"), full_page=True)
    assert faults == []
