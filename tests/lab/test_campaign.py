"""Campaigns: the file and its check, designs, rows that outlive a kill, and flights in this process."""

from __future__ import annotations

import csv
import errno
import os
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
from support.campaigns import PLAN, Inline, analytic, campaign, scenario
from support.paths import MISSIONS

from sitl_bridge.analysis.evaluation.measures import KINDS
from sitl_bridge.base.errors import ConfigurationError, UserError
from sitl_bridge.lab.campaign.file import distribution
from sitl_bridge.lab.campaign.flight_job import Job, RunRow, fly_job, row_of
from sitl_bridge.lab.campaign.ledger import MOST_BYTES, ROWS, Ledger, clopper_pearson, read_rows
from sitl_bridge.lab.campaign.page import CSV, write_tables
from sitl_bridge.lab.campaign.run import CampaignRun
from sitl_bridge.lab.campaign.space import CampaignSpace

WIND = "vary: {world.wind.steady.speed: 'uniform(0, 12)'}\n"


def space_of(directory: Path, text: str, base: str = "") -> CampaignSpace:
    scenario(directory, base)
    space = CampaignSpace.load(campaign(directory, text))
    space.check()
    return space


# -------------------------------------------------------------------------- distributions


@pytest.mark.parametrize(
    ("text", "low", "middle", "high"),
    [
        ("uniform(0, 12)", 0.0, 6.0, 12.0),
        ("loguniform(1, 100)", 1.0, 10.0, 100.0),
        ("normal(1.5, 0.1)", 1.0, 1.5, 2.0),
        ("normal(0, 1, -1, 1)", -1.0, 0.0, 1.0),
        ("range(3, 8)", 3, 5, 7),
        ("range(1000000000)", 0, 500000000, 999999999),
        ("choice(a, b, c)", "a", "b", "c"),
    ],
)
def test_a_distribution_is_its_quantile_function(
    text: str, low: object, middle: object, high: object
) -> None:
    found = distribution(text)
    assert [found.at(0.0), found.at(0.5), found.at(1.0)] == pytest.approx([low, middle, high])


def test_a_normal_distribution_has_the_mean_and_deviation_that_were_written() -> None:
    found = distribution("normal(1.5, 0.05)")
    drawn = np.array([found.at(u) for u in (np.arange(4000) + 0.5) / 4000], dtype=float)
    assert drawn.mean() == pytest.approx(1.5, abs=1e-4)
    assert drawn.std() == pytest.approx(0.05, rel=0.01)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("unifrom(0, 1)", "did you mean 'uniform'"),
        ("uniform(3, 1)", "low end below the high end"),
        ("uniform(1)", "has 1 figures"),
        ("normal(1, 0)", "deviation above 0"),
        ("loguniform(0, 1)", "ends above 0"),
        ("range(0)", "has no values"),
        (f"range(1{'0' * 30})", "has ends of 1e+15 or more".replace("+", r"\+")),
        ("uniform(a, b)", "'a' is not a number"),
        ("12", "is no distribution"),
        ("a" * 5000, r"^'a{76}... is no distribution"),
    ],
)
def test_a_faulty_distribution_is_refused_with_the_remedy(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message.replace("(", r"\(")):
        distribution(text)


# -------------------------------------------------------------------------- the check


@pytest.mark.parametrize(
    ("vary", "message"),
    [
        ("{'vehicles[0].mas': 'uniform(1, 2)'}", r"line 2: vary\.vehicles\[0\]\.mas: .*did you mean `mass`"),
        ("{'vehicles[3].mass': 'uniform(1, 2)'}", "has 1 entries of vehicles"),
        ("{'world.wind.steady.sped': 'uniform(1, 2)'}", "did you mean `speed`"),
        ("{'events[0].at': 'uniform(1, 2)'}", "there are only 0"),
        ("{'vehicles[0].mass': 'uniform(-1, 2)'}", "greater than 0"),
        ("{'vehicles[0].airframe': 'choice(iris, irsi)'}", "irsi"),
        ("{'vehicles[': 'uniform(1, 2)'}", "is no path"),
    ],
)
def test_a_path_or_value_that_is_not_there_is_refused_with_its_line(
    tmp_path: Path, vary: str, message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        space_of(tmp_path, f"vary: {vary}\nruns: 3\n")


def test_a_corner_that_makes_no_scenario_is_refused_with_its_values(tmp_path: Path) -> None:
    text = "vary: {'events[0].motor': 'range(1, 6)', world.wind.steady.speed: 'uniform(0, 5)'}\nruns: 3\n"
    with pytest.raises(ConfigurationError, match=r"events\[0\]\.motor: cannot be 5: .*motors 1 to 4"):
        space_of(tmp_path, text, "events: [{at: 3, kind: motor_loss}]\n")


def test_a_grid_of_more_flights_than_memory_has_points_is_refused(tmp_path: Path) -> None:
    text = "vary: {seed: 'range(1000000000)'}\ndesign: grid\n"
    with pytest.raises(ConfigurationError, match="design: has 1,000,000,000 flights, more than 10,000,000"):
        space_of(tmp_path, text)


@pytest.mark.parametrize(
    ("missions", "place"),
    [
        ("[a.plan, a.plan]", "at any of 2 corners: .*a.plan: no such mission file"),
        (
            f"['{PLAN}', a.plan]",
            r"at 2 of 4 corners, the first at .*speed = 0, .*mission = a.plan: .*no such",
        ),
    ],
)
def test_a_reason_of_many_corners_is_printed_once_with_their_number(
    tmp_path: Path, missions: str, place: str
) -> None:
    text = f"vary: {{world.wind.steady.speed: 'uniform(0, 5)', 'vehicles[0].mission': {missions}}}\nruns: 3\n"
    with pytest.raises(ConfigurationError, match=place) as error:
        space_of(tmp_path, text)
    assert len(error.value.faults) == 1


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("mission.py", "async def fly(:\n", "mission.py: is not a Python program"),
        ("mission.py", None, "mission.py: no such mission file"),
        ("mission.txt", "", "mission.txt"),
    ],
)
def test_a_script_that_cannot_be_flown_is_refused_once_before_anything_starts(
    tmp_path: Path, name: str, content: str | None, message: str
) -> None:
    if content is not None:
        (tmp_path / name).write_text(content, encoding="utf-8")
    (tmp_path / "base.yaml").write_text(
        f"world: {{wind: {{steady: {{speed: 3}}}}}}\nvehicles: [{{airframe: iris, mission: {name}}}]\n",
        encoding="utf-8",
    )
    space = CampaignSpace.load(campaign(tmp_path, WIND + "runs: 3\n"))
    with pytest.raises(ConfigurationError, match=message) as error:
        space.check()
    assert len(error.value.faults) == 1


@pytest.mark.slow
def test_a_campaign_flies_scripts(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(
        "world: {wind: {steady: {speed: 3}}}\n"
        f"vehicles: [{{airframe: iris, mission: {MISSIONS / 'hover.py'}, arguments: [--seconds, '5']}}]\n",
        encoding="utf-8",
    )
    space = CampaignSpace.load(campaign(tmp_path, WIND + "runs: 1\n"))
    space.check()
    with Ledger(tmp_path / "out", space, anew=True) as ledger:
        CampaignRun(space, ledger, Inline(fly_job)).fly()
    (row,) = read_rows(tmp_path / "out")
    assert row.succeeded, row.reason
    assert row.simulated_seconds > 5.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (WIND, "runs: missing"),
        (WIND + "design: grid\nruns: 3\n", "follows from a grid"),
        (WIND + "runs: 3\nlimits: {mission_leg_max: 1}\n", "did you mean mission_legs_max"),
        (WIND + "runs: 3\nsearch: {kind: worst_case, measure: legs}\n", "no measure 'legs'"),
        (WIND + "runs: 3\nsearch: {kind: rare_events, measure: hold_max}\n", "needs a limit"),
        (WIND + "runs: 3\nstages: [px4, built_in]\n", r"write \[built_in\]"),
    ],
)
def test_a_faulty_campaign_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        space_of(tmp_path, text)


def test_the_shipped_campaigns_are_valid() -> None:
    files = [file for file in (MISSIONS / "campaigns").glob("*.yaml") if "vary:" in file.read_text()]
    assert files
    for file in files:
        CampaignSpace.load(file).check()


def test_the_name_of_a_run_follows_from_everything_that_decides_it(tmp_path: Path) -> None:
    space = space_of(tmp_path, WIND + "runs: 3\n")
    name = space.run_id((3.0,), 1, "built_in", None)
    assert name == space_of(tmp_path, WIND + "runs: 99\n").run_id((3.0,), 1, "built_in", None)
    assert name != space.run_id((3.1,), 1, "built_in", None)
    assert name != space.run_id((3.0,), 2, "built_in", None)
    assert name != space.run_id((3.0,), 1, "px4", Path("/px4"))
    other = space_of(tmp_path, WIND + "runs: 3\n", "time_limit: 99\n")
    assert name != other.run_id((3.0,), 1, "built_in", None)


# -------------------------------------------------------------------------- designs and intervals


@pytest.mark.parametrize("design", ["random", "lhs", "sobol"])
def test_a_design_fills_the_cube_and_repeats_with_its_seed(tmp_path: Path, design: str) -> None:
    space = space_of(tmp_path, WIND + f"runs: 60\ndesign: {design}\nseed: 3\n")
    points = space.points()
    assert points.shape == (60, 1)
    assert np.histogram(points, 4, (0, 1))[0].min() >= (6 if design == "random" else 14)
    assert np.array_equal(points, space.points())


def test_a_grid_has_every_combination(tmp_path: Path) -> None:
    text = "vary: {world.wind.steady.speed: 'uniform(0, 8)', 'vehicles[0].yaw': [0, 90, 180]}\n"
    space = space_of(tmp_path, text + "design: grid\nlevels: 2\n")
    points = space.points()
    assert {space.values_at(point) for point in points} == {(w, y) for w in (0.0, 8.0) for y in (0, 90, 180)}


def test_the_interval_of_a_rate_is_that_of_the_tables() -> None:
    # Clopper and Pearson 1934; figures of R's binom.test.
    assert clopper_pearson(9, 10) == pytest.approx((0.5549839, 0.9974714), abs=1e-6)
    assert clopper_pearson(0, 20) == pytest.approx((0.0, 0.1684335), abs=1e-6)
    assert clopper_pearson(0, 0) == (0.0, 1.0)


# -------------------------------------------------------------------------- running


def test_a_campaign_goes_on_after_a_kill_and_repeats_no_finished_run(tmp_path: Path) -> None:
    space = space_of(tmp_path, WIND + "runs: 10\nlimits: {mission_legs_max: 6}\n")
    engine = analytic(space, lambda wind: wind)

    class KilledError(Exception):
        pass

    def dies(job: Job) -> RunRow | str:
        if len(engine.jobs) == 4:
            raise KilledError
        engine.jobs.append(job)
        return engine.answer(job)

    with pytest.raises(KilledError), Ledger(tmp_path / "out", space) as ledger:
        CampaignRun(space, ledger, Inline(dies)).fly()
    with (tmp_path / "out" / ROWS).open("ab") as file:
        file.write(b'{"id": "half a li')
    again = analytic(space, lambda wind: wind)
    with Ledger(tmp_path / "out", space) as ledger:
        progress = CampaignRun(space, ledger, again).fly()
    assert len(again.jobs) == 6
    assert (progress.done, progress.flown) == (10, 6)
    rows = list(read_rows(tmp_path / "out"))
    assert len({row.id for row in rows}) == len(rows) == 10
    assert [row.succeeded for row in rows] == [row.measures["mission_legs_max"] <= 6.0 for row in rows]


def test_a_run_whose_worker_is_lost_is_tried_once_more_and_reported(tmp_path: Path) -> None:
    space = space_of(tmp_path, WIND + "runs: 3\n")
    good = analytic(space, lambda wind: wind)
    engine = Inline(
        lambda job: "its worker ended" if job.number == 0 or job.attempt < job.number else good.answer(job)
    )
    with Ledger(tmp_path / "out", space) as ledger:
        progress = CampaignRun(space, ledger, engine).fly()
    by_number = {row.number: row for row in read_rows(tmp_path / "out")}
    assert [by_number[i].status for i in range(3)] == ["lost", "flown", "flown"]
    assert by_number[2].attempt == 2
    assert len(progress.lost) == 3


def test_a_disk_that_stays_full_ends_the_campaign_which_goes_on_when_there_is_room(tmp_path: Path) -> None:
    """Only some runs write files, such as failures: leaving those out would raise the success rate."""
    space = space_of(tmp_path, WIND + "runs: 6\n")
    good = analytic(space, lambda wind: wind)
    engine = Inline(lambda job: os.strerror(errno.ENOSPC) if job.number == 3 else good.answer(job))
    with (
        pytest.raises(UserError, match=r"No space left on device; make room and run the campaign again"),
        Ledger(tmp_path / "out", space) as ledger,
    ):
        CampaignRun(space, ledger, engine).fly()
    with Ledger(tmp_path / "out", space) as ledger:
        CampaignRun(space, ledger, good).fly()
    assert sorted((row.number, row.status) for row in read_rows(tmp_path / "out")) == [
        (number, "flown") for number in range(6)
    ]


def test_stop_rules_end_a_campaign_early(tmp_path: Path) -> None:
    space = space_of(tmp_path, WIND + "runs: 500\nlimits: {mission_legs_max: 6}\nstop: {failures: 5}\n")
    with Ledger(tmp_path / "a", space) as ledger:
        progress = CampaignRun(space, ledger, analytic(space, lambda wind: wind)).fly()
    assert 5 <= progress.of("failed") <= 9
    assert "have failed" in progress.ended
    space = space_of(tmp_path, WIND + "runs: 500\nstop: {half_width: 0.02}\n")
    with Ledger(tmp_path / "b", space) as ledger:
        progress = CampaignRun(space, ledger, analytic(space, lambda wind: wind)).fly()
    low, high = clopper_pearson(progress.done, progress.done)
    assert 0.5 * (high - low) <= 0.02
    assert progress.done < 110


def test_a_directory_of_another_campaign_is_refused(tmp_path: Path) -> None:
    space = space_of(tmp_path, WIND + "runs: 3\n")
    with Ledger(tmp_path / "out", space) as ledger:
        CampaignRun(space, ledger, analytic(space, lambda wind: wind)).fly()
        with pytest.raises(UserError, match="another process"):
            Ledger(tmp_path / "out", space)
    other = space_of(tmp_path, WIND + "runs: 3\nseed: 1\n")
    with pytest.raises(UserError, match="another campaign: the campaign file changed"):
        Ledger(tmp_path / "out", other)
    with Ledger(tmp_path / "out", other, anew=True) as ledger:
        assert len(ledger) == 0


def test_ten_thousand_runs_leave_less_than_2_gb_and_memory_does_not_grow(tmp_path: Path) -> None:
    space = space_of(tmp_path, WIND + "runs: 10000\nlimits: {mission_legs_max: 6}\n")
    assert MOST_BYTES <= 1.5e9
    measured = dict.fromkeys(KINDS, 1.2345678901234567)
    values = {"world.wind.steady.speed": 3.2109876543210987}
    held: list[int] = []
    runs = 1500
    with Ledger(tmp_path / "out", space) as ledger:
        tracemalloc.start()
        for i in range(runs):
            job = Job(Path("c.yaml"), f"{i:012x}", i, (0.123456789,), (3.2,), i, "built_in", tmp_path / "no")
            reason = "beyond its limit: distance from the mission legs, largest"
            ledger.add(job, row_of(job, values, status="flown", reason=reason, measures=measured))
            if i % 500 == 499:
                held.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
    # An id and a place in the file for each run.
    assert (held[2] - held[1]) / 500 < 400
    write_tables(tmp_path / "out")
    size = sum(file.stat().st_size for file in (tmp_path / "out").rglob("*") if file.is_file())
    assert 10_000 * size / runs < 2e9 - MOST_BYTES


def test_failed_runs_are_kept_up_to_a_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sitl_bridge.lab.campaign.ledger.MOST_BYTES", 2500)
    space = space_of(tmp_path, WIND + "runs: 10\n")
    with Ledger(tmp_path / "out", space) as ledger:
        for i in range(5):
            job = Job(Path("c.yaml"), f"r{i}", i, (), (), i, "built_in", tmp_path / "work", keep=ledger.keep)
            made = tmp_path / "work" / "run"
            made.mkdir(parents=True)
            (made / "truth.npy").write_bytes(bytes(1000))
            ledger.add(job, row_of(job, {}, status="flown", reason="failed", directory=str(made)))
        assert ledger.keep == "none"
        assert ledger.kept == 3
    with Ledger(tmp_path / "out", space) as ledger:
        assert ledger.keep == "none"


def test_flights_in_this_process_repeat_to_the_bit_and_keep_only_failures(tmp_path: Path) -> None:
    text = WIND + "runs: 3\nlimits: {mission_legs_max: 0.9}\nkeep_at_most: 1\n"
    space = space_of(tmp_path, text, "time_limit: 200\nevents: [{at: 190, kind: gps_jamming, level: 0.1}]\n")
    with Ledger(tmp_path / "out", space) as ledger:
        CampaignRun(space, ledger, Inline(fly_job)).fly()
    rows = sorted(read_rows(tmp_path / "out"), key=lambda row: row.number)
    assert [row.status for row in rows] == ["flown"] * 3
    assert {row.missed_events for row in rows} == {"gps jamming (level 0.1) at 190 s"}
    assert all(row.measures["mission_legs_max"] > 0.1 for row in rows)
    kept = list((tmp_path / "out" / "runs").iterdir())
    assert len(kept) == min(1, sum(not row.succeeded for row in rows))
    assert not (tmp_path / "out" / "work").exists()
    row = rows[1]
    values = tuple(row.values.values())
    job = Job(tmp_path / "campaign.yaml", row.id, 1, (), values, row.seed, "built_in", tmp_path / "again")
    # With all files, read back from them.
    again = fly_job(job)
    assert (Path(again.directory) / "autopilot" / "flight.ulg").is_file()
    assert again.measures == row.measures
    assert (again.margin, again.reason) == (row.margin, row.reason)
    bare = fly_job(replace(job, keep="none", work=tmp_path / "none"))
    assert not (tmp_path / "none").exists()
    assert bare.measures == row.measures
    files = write_tables(tmp_path / "out")
    assert [file.suffix for file in files] == [".csv", ".parquet"]
    with (tmp_path / "out" / CSV).open(newline="") as file:
        table = list(csv.DictReader(file))
    assert [cells["number"] for cells in table] == ["0", "1", "2"]
    assert float(table[1]["mission_legs_max"]) == row.measures["mission_legs_max"]
    columns = pyarrow.parquet.read_table(files[1]).to_pydict()
    assert columns["succeeded"] == [row.succeeded for row in rows]
    assert columns["mission_legs_max"] == [row.measures["mission_legs_max"] for row in rows]
    assert [float(cells["margin"]) for cells in table] == columns["margin"]
