"""Runs flown by processes of this machine.  A worker that is killed or hangs costs its run one retry.

Each worker has a pipe of its own, so that its end concerns nobody else.  It stays for many runs: modules and
compiled functions are loaded once.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.resource_tracker
import os
import signal
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Protocol

from sitl_bridge.base.system.launch import signal_at_end_of
from sitl_bridge.base.system.signals import delay_signals
from sitl_bridge.lab.campaign.flight_job import Job, RunRow, fly_job


class Engine(Protocol):
    """Flies jobs on several workers at once."""

    @property
    def workers(self) -> int:
        """Jobs that fly at once."""
        ...

    def submit(self, job: Job) -> None:
        """Take a job; several more than workers may wait."""
        ...

    def take_finished(self, timeout: float) -> list[tuple[Job, RunRow | str]]:
        """Jobs that have ended since the last call, each with its row, or how its worker was lost.

        Args:
            timeout: s of wall time to wait for one.
        """
        ...

    def close(self) -> None:
        """End all workers; safe to call twice."""
        ...


STOP_LIMIT = 5.0
"""s of wall time from SIGTERM to SIGKILL."""
START_LIMIT = 600.0
"""s of wall time for a worker's first run in addition to the others': it may have to compile."""
DEFECT = "a defect of this program: "
"""Beginning of what a worker sends for an error that is not the user's."""


def _serve(pipe: Connection, parent: int, fly: Callable[[Job], RunRow]) -> None:
    """Fly jobs until the pipe closes."""
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))  # without a word
    signal_at_end_of(parent, signal.SIGTERM)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent ends this one
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    while True:
        try:
            job = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            answer: RunRow | str = fly(job)
        except OSError as error:
            answer = f"{error.strerror or error}"
        except Exception:  # noqa: BLE001  (reported with the run; the next one may be flown)
            answer = DEFECT + traceback.format_exc(limit=-3)
        try:
            pipe.send(answer)
        except OSError:
            return


class _Worker:
    """A process and the job that it flies.

    Attributes:
        job: None while it waits.
        since: monotonic s at which it took the job.
        warm: whether it has flown.
    """

    def __init__(self, fly: Callable[[Job], RunRow]) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process: SpawnProcess = context.Process(
            target=_serve, args=(theirs, os.getpid(), fly), daemon=False
        )
        # It inherits this: a Ctrl-C while it imports would end it with a traceback.
        multiprocessing.resource_tracker.ensure_running()  # which would unblock the signal
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        theirs.close()
        self.job: Job | None = None
        self.since = 0.0
        self.warm = False

    def take(self, job: Job) -> bool:
        """Give it a job; False if it has ended."""
        try:
            self.pipe.send(job)
        except OSError:
            return False
        self.job, self.since = job, time.monotonic()
        return True

    def kill(self) -> str:
        """End it at once; returns how it ended."""
        self.process.kill()
        self.process.join()
        self.pipe.close()
        return f"exit code {self.process.exitcode}"


class WorkerPool:
    """Workers on this machine.

    Args:
        count: of workers.
        run_limit: s of wall time of a run; a worker that takes longer is killed.
        fly: flies a run; a function of a module.
    """

    def __init__(self, count: int, run_limit: float, fly: Callable[[Job], RunRow] = fly_job) -> None:
        self._count, self._limit, self._fly = count, run_limit, fly
        self._waiting: deque[Job] = deque()
        self._workers: list[_Worker] = []
        self._compiled = False

    @property
    def workers(self) -> int:
        """Jobs that fly at once."""
        return self._count

    def submit(self, job: Job) -> None:
        """Take a job."""
        self._waiting.append(job)
        self._hand_out()

    def _hand_out(self) -> None:
        while self._waiting:
            free = next((worker for worker in self._workers if worker.job is None), None)
            # The first worker compiles what is not compiled yet; the others would do the same beside it.
            compiling = bool(self._workers) and not self._compiled
            if free is None and (compiling or len(self._workers) >= self._count):
                return
            if free is None:
                with delay_signals():
                    free = _Worker(self._fly)
                    self._workers.append(free)
            if free.take(self._waiting[0]):
                self._waiting.popleft()
            else:
                free.kill()
                self._workers.remove(free)

    def take_finished(self, timeout: float) -> list[tuple[Job, RunRow | str]]:
        """Jobs that have ended, each with its row, or how its worker was lost."""
        busy = [worker for worker in self._workers if worker.job is not None]
        ready = set(wait([worker.pipe for worker in busy], timeout)) if busy else set()
        found: list[tuple[Job, RunRow | str]] = []
        for worker in busy:
            job = worker.job
            assert job is not None
            answer: RunRow | str
            if worker.pipe in ready:
                try:
                    answer = worker.pipe.recv()
                    worker.warm, worker.job = True, None
                    self._compiled = True
                except (EOFError, OSError):
                    answer = f"its worker ended ({self._end(worker)})"
            elif time.monotonic() - worker.since > self._limit + (0.0 if worker.warm else START_LIMIT):
                self._end(worker)
                answer = f"did not end within {self._limit:g} s of wall time"
            else:
                continue
            found.append((job, answer))
        self._hand_out()
        return found

    def _end(self, worker: _Worker) -> str:
        self._workers.remove(worker)
        return worker.kill()

    def close(self) -> None:
        """End all workers, those in flight too; safe to call twice."""
        with delay_signals():
            self._waiting.clear()
            for worker in self._workers:
                # Missions and flight stacks of a worker end by its exit handlers, or with it.
                worker.process.terminate()
            for worker in self._workers:
                worker.process.join(STOP_LIMIT)
                with contextlib.suppress(ValueError):
                    worker.kill()
            self._workers = []
