"""Runs flown by the workers of a Dask scheduler, on this machine or on many (extra ``campaign``).

The workers need this program and the same directories: the scenario's, and the campaign's.
"""

from __future__ import annotations

import queue
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sitl_bridge.base.errors import UserError
from sitl_bridge.base.extras import missing_package
from sitl_bridge.base.json_data import JsonObject
from sitl_bridge.lab.campaign.flight_job import Job, RunRow, fly_job

if TYPE_CHECKING:
    from distributed import Client, Future

SCHEME = "dask://"
EXTRA = "campaign"
CONNECT_LIMIT = 15.0
"""s of wall time to reach the scheduler."""


def fly_on_worker(job: Job, fly: Callable[[Job], RunRow]) -> RunRow | str:
    """Fly a run in a worker's process; returns a text where it may be tried again."""
    try:
        return fly(job)
    except OSError as error:
        return f"{error.strerror or error}"


class DaskEngine:
    """Workers of a Dask scheduler.

    Args:
        address: ``dask://HOST:PORT``.
        fly: flies a run.

    Raises:
        UserError: where distributed is missing, or no scheduler answers.
    """

    def __init__(self, address: str, fly: Callable[[Job], RunRow] = fly_job) -> None:
        try:
            from distributed import Client
        except ImportError as error:
            raise missing_package("distributed", "campaigns on Dask workers", EXTRA) from error
        place, self._fly = address.removeprefix(SCHEME), fly
        try:
            self._client = Client(f"tcp://{place}", timeout=CONNECT_LIMIT, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            raise UserError(f"--engine {address}: no Dask scheduler answers there: {error}") from error
        self._ended: queue.SimpleQueue[tuple[Future, str]] = queue.SimpleQueue()
        self._flying: dict[str, tuple[Future, Job]] = {}

    @property
    def workers(self) -> int:
        """Threads of all workers now."""
        return max(1, int(sum(self._client.nthreads().values())))

    def submit(self, job: Job) -> None:
        """Take a job."""
        key = f"{job.id}-{job.stage}-{job.attempt}"
        future = self._client.submit(fly_on_worker, job, self._fly, key=key, pure=False, retries=0)
        self._flying[key] = future, job
        future.add_done_callback(lambda done: self._ended.put((done, key)))

    def take_finished(self, timeout: float) -> list[tuple[Job, RunRow | str]]:
        """Jobs that have ended, each with its row, or how its worker was lost."""
        ended: JsonObject = {}
        try:
            future, key = self._ended.get(timeout=timeout)
            ended[key] = future
            while True:
                future, key = self._ended.get_nowait()
                ended[key] = future
        except queue.Empty:
            pass
        found: list[tuple[Job, RunRow | str]] = []
        # Dask would hand the run of a worker that ends to another one, several times, without a word.
        for key in _suspicious(self._client, list(self._flying)):
            future, job = self._flying.pop(key)
            future.cancel(force=True)
            found.append((job, "its worker ended"))
        found += [self._answer(future, key) for key, future in ended.items() if key in self._flying]
        return found

    def _answer(self, future: Future, key: str) -> tuple[Job, RunRow | str]:
        _, job = self._flying.pop(key)
        if future.status == "finished":
            return job, future.result()
        error = future.exception() if future.status == "error" else None
        return job, f"its worker ended ({error or future.status})"

    def close(self) -> None:
        """Cancel what flies and leave the scheduler; safe to call twice."""
        for future, _ in self._flying.values():
            future.cancel()
        self._flying.clear()
        self._client.close()


def _suspicious(client: Client, keys: list[str]) -> list[str]:
    """Those of some tasks that a worker had when it ended, as the scheduler counts them."""
    if not keys:
        return []

    # Within a function, so that it is sent as code: the scheduler's machine need not have this program.
    def look(dask_scheduler: Any = None) -> list[str]:
        known = dask_scheduler.tasks
        return [key for key in keys if key in known and known[key].suspicious]

    found: list[str] = client.run_on_scheduler(look)
    return found
