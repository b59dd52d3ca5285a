"""Campaigns of tests: files in a directory, and an engine within the process."""

from __future__ import annotations

import errno
import os
import signal
from collections import deque
from collections.abc import Callable
from pathlib import Path

from sitl_bridge.lab.campaign.flight_job import Job, RunRow, row_of
from sitl_bridge.lab.campaign.space import CampaignSpace
from support.paths import MISSIONS

PLAN = MISSIONS / "square.plan"


def scenario(directory: Path, text: str = "") -> Path:
    """A scenario that flies the square, with more text."""
    path = directory / "base.yaml"
    path.write_text(
        "world: {wind: {steady: {speed: 3, direction: 270}}}\n"
        f"vehicles: [{{airframe: iris, mission: {PLAN}}}]\n" + text,
        encoding="utf-8",
    )
    return path


def campaign(directory: Path, text: str) -> Path:
    """A campaign of the scenario ``base.yaml`` beside it."""
    path = directory / "campaign.yaml"
    path.write_text("base: base.yaml\n" + text, encoding="utf-8")
    return path


class Inline:
    """Answers each job by a function, one after the other, in the order in which they were submitted."""

    def __init__(self, answer: Callable[[Job], RunRow | str]) -> None:
        self.jobs: list[Job] = []
        self.workers = 2
        self.answer = answer
        self._waiting: deque[Job] = deque()

    def submit(self, job: Job) -> None:
        self._waiting.append(job)

    def take_finished(self, timeout: float) -> list[tuple[Job, RunRow | str]]:
        del timeout
        job = self._waiting.popleft()
        self.jobs.append(job)
        return [(job, self.answer(job))]

    def close(self) -> None:
        pass


def analytic(space: CampaignSpace, measure: Callable[..., float], name: str = "mission_legs_max") -> Inline:
    """An engine that computes a measure of the values in place of a flight."""

    def answer(job: Job) -> RunRow:
        value = measure(*job.values)
        limit = space.limits.get(name)
        good = limit is None or value <= limit
        return row_of(
            job,
            dict(zip(space.names, job.values, strict=True)),
            status="flown",
            reason="" if good else "beyond its limit",
            succeeded=good,
            margin=float("nan") if limit is None else (limit - value) / abs(limit or 1.0),
            measures={name: value},
        )

    return Inline(answer)


def accident(job: Job) -> RunRow:
    """A run in a worker: the first try of run 1 kills the worker, that of run 4 hangs."""
    first = job.work.parent / f"tried-{job.number}"
    if job.number in (1, 4) and not first.exists():
        first.parent.mkdir(parents=True, exist_ok=True)
        first.touch()
        if job.number == 4:
            signal.pause()
        os.kill(os.getpid(), signal.SIGKILL)
    values = {"world.wind.steady.speed": job.values[0]}
    return row_of(job, values, status="flown", reason="", succeeded=True, measures={"mission_legs_max": 1.0})


def full_once(job: Job) -> RunRow:
    """A run in a worker: at the first try of run 2 the disk is full."""
    first = job.work.parent / f"tried-{job.number}"
    if job.number == 2 and not first.exists():
        first.parent.mkdir(parents=True, exist_ok=True)
        first.touch()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    values = {"world.wind.steady.speed": job.values[0]}
    return row_of(job, values, status="flown", reason="", succeeded=True)


def kill_once(job: Job) -> RunRow:
    """A run in a worker: the first try of run 3 kills the worker."""
    first = job.work.parent / "tried"
    if job.number == 3 and not first.exists():
        first.parent.mkdir(parents=True, exist_ok=True)
        first.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    values = {"world.wind.steady.speed": job.values[0]}
    return row_of(job, values, status="flown", reason="", succeeded=True)
