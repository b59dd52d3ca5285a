"""Flies a campaign: draws runs from a design or a search, hands them to an engine, keeps what remains."""

from __future__ import annotations

import math
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from sitl_bridge.base.errors import UserError
from sitl_bridge.base.output_file import write_json
from sitl_bridge.lab.campaign.file import FEWEST_FOR_AN_INTERVAL, Stage, Value
from sitl_bridge.lab.campaign.flight_job import FULL, Job, RunRow, row_of
from sitl_bridge.lab.campaign.ledger import FOUND, Ledger, clopper_pearson, read_rows
from sitl_bridge.lab.campaign.searches import Draw, Found, Searching, search_of
from sitl_bridge.lab.campaign.space import CampaignSpace
from sitl_bridge.lab.campaign.worker_pool import DEFECT, Engine

LOOK = 0.5
"""s of wall time between reports of the progress."""
AHEAD = 2
"""Jobs for each worker that are handed out."""
LOST_SHOWN = 100
"""Losses of workers that are remembered; the table has all runs that were tried again."""
TRIES = 2
"""Of a run whose worker is lost."""


@dataclass
class CampaignProgress:
    """How far a campaign is."""

    total: int  # runs of the stage, at most
    stage: str = ""  # in flight
    done: int = 0  # runs of this part of the campaign that have ended, those of earlier parts too
    flown: int = 0  # runs that have ended since the program was started
    # monotonic s at which the first of them ended: before, a worker may have to compile
    began: float = math.inf
    counts: dict[tuple[str, str], int] = field(default_factory=dict)  # by (stage, result)
    # how workers were lost, the last ones
    lost: deque[str] = field(default_factory=lambda: deque(maxlen=LOST_SHOWN))
    ended: str = ""  # why it ended before its last run

    @property
    def rate(self) -> float:
        """Runs per second of wall time."""
        return max(self.flown - 1, 0) / max(time.monotonic() - self.began, 1e-9)

    def of(self, result: str) -> int:
        """Runs of the present stage with a result."""
        return self.counts.get((self.stage, result), 0)


class CampaignRun:
    """A campaign in flight.

    Args:
        space: checked.
        engine: flies its runs.
        px4: to fly the stage with.
        on_progress: called when a run has ended, and about twice a second.
    """

    def __init__(
        self,
        space: CampaignSpace,
        ledger: Ledger,
        engine: Engine,
        *,
        px4: Path | None = None,
        on_progress: Callable[[CampaignProgress], None] = lambda _progress: None,
    ) -> None:
        self.space, self.ledger, self.engine, self.px4 = space, ledger, engine, px4
        self.progress = CampaignProgress(space.size)
        self._tell = on_progress
        self._number = 0

    def fly(self) -> CampaignProgress:
        """Fly all stages to the end; what has been flown before is not repeated."""
        made = self.space.specification
        first, *others = made.stages
        self._begin(first, self.space.size)
        search = search_of(self.space)
        if search is None:
            draws = (Draw(tuple(point.tolist())) for point in self.space.points())
            self._fly(self._jobs(draws, first), self._enough)
        else:
            write_json(self.ledger.directory / FOUND, self._fly_search(search, first))
        for stage in others:
            chosen = list(self._choose_runs(stage))
            self._begin(stage, len(chosen))
            self._fly(chosen)
        return self.progress

    def _begin(self, stage: Stage, total: int) -> None:
        self.progress.stage, self.progress.total, self.progress.done = stage, total, 0

    def _fly_search(self, search: Searching, stage: Stage) -> Found:
        try:
            wanted = next(search)
            while True:
                jobs = list(self._jobs(wanted, stage))
                self._fly(jobs)
                wanted = search.send([self.ledger.row(job.id) for job in jobs])
        except StopIteration as end:
            found: Found = end.value
            return found

    # ------------------------------------------------------------------ jobs

    def _job(
        self,
        number: int,
        point: tuple[float, ...],
        values: tuple[Value, ...],
        seed: int,
        stage: Stage,
        weight: float,
    ) -> Job:
        run = self.space.run_id(values, seed, stage, self.px4)
        return Job(
            file=self.space.file.resolve(),
            id=run,
            number=number,
            point=point,
            values=values,
            seed=seed,
            stage=stage,
            work=self.ledger.work.resolve() / run,
            px4=self.px4,
            weight=weight,
            keep=self.ledger.keep,
        )

    def _jobs(self, draws: Iterable[Draw], stage: Stage) -> Iterator[Job]:
        """Jobs of draws, numbered."""
        made = self.space.specification
        for draw in draws:
            values = self.space.values_at(draw.point)
            seed = made.seed if draw.same_seed else made.seed + self._number
            yield self._job(self._number, draw.point, values, seed, stage, draw.weight)
            self._number += 1

    def _choose_runs(self, stage: Stage) -> Iterator[Job]:
        """Runs of the first stage that are flown again: failures, near misses, and others at random."""
        made = self.space.specification
        wanted, random = made.confirm, np.random.default_rng(made.seed)
        failed: list[int] = []
        near: list[tuple[float, int]] = []
        rest: list[int] = []
        for number, row in enumerate(read_rows(self.ledger.directory)):
            if row.stage != made.stages[0] or row.status != "flown":
                continue
            if not row.succeeded:
                failed.append(number)
            elif np.isfinite(row.margin):
                near.append((row.margin, number))
            else:
                rest.append(number)
        near.sort()
        chosen = set(_sample(random, failed, wanted.failures))
        chosen |= {number for _, number in near[: wanted.near_misses]}
        rest += [number for _, number in near[wanted.near_misses :]]
        chosen |= set(_sample(random, rest, wanted.sample))
        for number, row in enumerate(read_rows(self.ledger.directory)):
            if number in chosen:
                values = tuple(row.values[name] for name in self.space.names)
                yield self._job(row.number, row.point, values, row.seed, stage, row.weight)

    # ------------------------------------------------------------------ flying

    def _fly(self, jobs: Iterable[Job], enough: Callable[[], bool] = lambda: False) -> None:
        """Fly jobs that have no row yet.

        Args:
            jobs: are drawn as workers become free.
            enough: whether no further ones are to be begun; those in flight end as usual.
        """
        left = iter(jobs)
        flying: set[str] = set()
        more = True
        while more or flying:
            while more and len(flying) < AHEAD * self.engine.workers:
                job = None if enough() else next(left, None)
                if job is None:
                    more = False
                elif job.id in self.ledger:
                    self._note_done()
                elif job.id not in flying:
                    flying.add(job.id)
                    self.engine.submit(job)
            for job, answer in self.engine.take_finished(LOOK) if flying else ():
                again = self._take(job, answer)
                if again is not None:
                    self.engine.submit(again)
                    continue
                flying.discard(job.id)
                self.progress.flown += 1
                self.progress.began = min(self.progress.began, time.monotonic())
                self._note_done()
            self._tell(self.progress)

    def _note_done(self) -> None:
        self.progress.done += 1
        self.progress.counts = dict(self.ledger.counts)
        self._tell(self.progress)

    def _take(self, job: Job, answer: RunRow | str) -> Job | None:
        """Keep the row of a run; returns the job again if its worker was lost for the first time."""
        if isinstance(answer, RunRow):
            self.ledger.add(job, answer)
            return None
        if answer.startswith(DEFECT):
            raise UserError(f"run {job.id}: {answer}")
        self.progress.lost.append(f"run {job.id}: {answer}")
        if job.attempt < TRIES:
            return replace(job, attempt=job.attempt + 1)
        if answer in map(
            os.strerror, FULL
        ):  # of a run with files, such as each failure: others would seem rare
            raise UserError(f"run {job.id}: {answer}; make room and run the campaign again")
        values = dict(zip(self.space.names, job.values, strict=True))
        self.ledger.add(job, row_of(job, values, status="lost", reason=answer))
        return None

    def _enough(self) -> bool:
        """Whether a stop rule ends the campaign."""
        stop = self.space.specification.stop
        good, bad = self.progress.of("succeeded"), self.progress.of("failed")
        if stop.failures is not None and bad >= stop.failures:
            self.progress.ended = f"{bad} flights have failed"
        if stop.half_width is not None and good + bad >= FEWEST_FOR_AN_INTERVAL:
            low, high = clopper_pearson(good, good + bad)
            if 0.5 * (high - low) <= stop.half_width:
                self.progress.ended = f"the success rate is known to within {0.5 * (high - low):.3f}"
        return bool(self.progress.ended)


def _sample(random: np.random.Generator, numbers: Sequence[int], most: int) -> list[int]:
    count = min(most, len(numbers))
    return [int(n) for n in random.choice(numbers, count, replace=False)] if count else []
