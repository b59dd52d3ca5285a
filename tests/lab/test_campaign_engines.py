"""Workers of this machine and of Dask: killed and hung ones cost one retry, and no run is repeated."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.campaigns import accident, campaign, full_once, kill_once, scenario

from sitl_bridge.base.errors import UserError
from sitl_bridge.lab.campaign.dask_engine import DaskEngine
from sitl_bridge.lab.campaign.flight_job import Job, RunRow
from sitl_bridge.lab.campaign.ledger import Ledger, read_rows
from sitl_bridge.lab.campaign.run import CampaignProgress, CampaignRun
from sitl_bridge.lab.campaign.space import CampaignSpace
from sitl_bridge.lab.campaign.worker_pool import WorkerPool

TEXT = "vary: {world.wind.steady.speed: 'uniform(0, 12)'}\nruns: 12\n"


def fly_campaign(
    directory: Path, limit: float, flight: Callable[[Job], RunRow]
) -> tuple[dict[int, RunRow], CampaignProgress, list[int]]:
    """Fly the campaign of these tests by two workers: rows by number, what was printed, the workers' ids.

    Args:
        limit: s that a run may take.
        flight: takes the place of a run.
    """
    scenario(directory)
    space = CampaignSpace.load(campaign(directory, TEXT))
    pool = WorkerPool(2, limit, flight)
    try:
        with Ledger(directory / "out", space) as ledger:
            progress = CampaignRun(space, ledger, pool).fly()
        processes = [worker.process.pid or 0 for worker in pool._workers]
    finally:
        pool.close()
    return {row.number: row for row in read_rows(directory / "out")}, progress, processes


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


PROGRAM = """
import os
import signal

from sitl_bridge.base.system import signals

signals.exit_on_signals()  # when it is imported, as the program does; workers import it too

from sitl_bridge.lab.campaign.worker_pool import WorkerPool

if __name__ == "__main__":
    pool = WorkerPool(1, 60.0, abs)
    pool.submit(-1)
    pool.take_finished(0.0)
    os.kill(pool._workers[0].process.pid, signal.SIGINT)  # Ctrl-C, which its whole group gets, at its start
    while not (found := pool.take_finished(1.0)):
        pass
    pool.close()
    print(found)
"""


def test_workers_end_without_a_word_when_all_runs_are_flown_ctrl_c_or_not(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=200
    )
    assert done.stdout.strip() == "[(-1, 1)]"
    assert done.stderr == ""


@pytest.mark.slow
def test_a_killed_and_a_hung_worker_cost_one_retry_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sitl_bridge.lab.campaign.worker_pool.START_LIMIT", 60.0)
    rows, progress, processes = fly_campaign(tmp_path, 3.0, accident)
    assert sorted(rows) == list(range(12))
    assert all(row.succeeded for row in rows.values())
    assert [rows[n].attempt for n in (0, 1, 4)] == [1, 2, 2]
    assert any("worker ended" in line for line in progress.lost)
    assert any("did not end within" in line for line in progress.lost)
    assert processes
    assert not any(alive(process) for process in processes)


@pytest.mark.slow
def test_a_full_disk_costs_one_retry_and_is_reported(tmp_path: Path) -> None:
    rows, progress, _ = fly_campaign(tmp_path, 60.0, full_once)
    assert (rows[2].status, rows[2].attempt) == ("flown", 2)
    assert [line for line in progress.lost if "No space left on device" in line]
    assert all(row.succeeded for row in rows.values())


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_dask_workers_fly_a_campaign_and_one_of_them_is_killed(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="pip install distributed")
    scenario(tmp_path)
    space = CampaignSpace.load(campaign(tmp_path, TEXT))
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
    ) as cluster:
        engine = DaskEngine("dask://" + cluster.scheduler_address.removeprefix("tcp://"), kill_once)
        try:
            with Ledger(tmp_path / "out", space) as ledger:
                progress = CampaignRun(space, ledger, engine).fly()
        finally:
            engine.close()
    rows = {row.number: row for row in read_rows(tmp_path / "out")}
    assert sorted(rows) == list(range(12))
    assert all(row.succeeded for row in rows.values())
    assert rows[3].attempt == 2
    assert any(rows[3].id in line and "worker ended" in line for line in progress.lost)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_a_scheduler_that_is_not_there_is_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed", reason="pip install distributed")
    monkeypatch.setattr("sitl_bridge.lab.campaign.dask_engine.CONNECT_LIMIT", 1.0)
    with pytest.raises(UserError, match="no Dask scheduler answers"):
        DaskEngine("dask://127.0.0.1:9")
