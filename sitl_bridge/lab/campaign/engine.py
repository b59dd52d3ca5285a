"""What flies the runs of a campaign: an interface, and what became of a job."""

from __future__ import annotations

from typing import Protocol

from sitl_bridge.lab.campaign.flight_job import Job, RunRow


class Engine(Protocol):
    """Flies jobs on several workers at once."""

    @property
    def workers(self) -> int:
        """Jobs that fly at once."""
        ...

    def submit(self, job: Job) -> None:
        """Take a job; several more than workers may wait."""
        ...

    def finished(self, timeout: float) -> list[tuple[Job, RunRow | str]]:
        """Jobs that have ended since the last call, each with its row, or how its worker was lost.

        Args:
            timeout: s of wall time to wait for one.
        """
        ...

    def close(self) -> None:
        """End all workers; safe to call twice."""
        ...
