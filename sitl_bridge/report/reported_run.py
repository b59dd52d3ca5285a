"""A run with its evaluation and its time line: what a report shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sitl_bridge.errors import UserError
from sitl_bridge.report.flight_pictures import FlightPicture, flight_pictures
from sitl_bridge.report.measures import Limits, checked_limits
from sitl_bridge.report.run_evaluation import Evaluation, evaluate
from sitl_bridge.report.run_events import TimelineEntry, timeline
from sitl_bridge.report.run_record import RunRecord


@dataclass(frozen=True)
class Reported:
    """A run with its evaluation, time line and pictures, ready for the page."""

    label: str
    run: RunRecord
    evaluation: Evaluation
    events: list[TimelineEntry]
    pictures: list[FlightPicture] = field(default_factory=list)

    @property
    def passed(self) -> bool | None:
        """The verdict: None where the run's summary does not tell and no limit is exceeded."""
        if self.evaluation.exceeded or self.evaluation.unmeasured or self.run.succeeded is False:
            return False
        return None if self.run.partial or self.run.succeeded is None else True


def report(runs: Sequence[RunRecord], limits: Limits | None = None) -> list[Reported]:
    """Evaluate runs for a report."""
    labels = _labels(runs)
    return [
        Reported(
            label, run, evaluate(run, _limits(run) | dict(limits or {})), timeline(run), flight_pictures(run)
        )
        for label, run in zip(labels, runs, strict=True)
    ]


def _labels(runs: Sequence[RunRecord]) -> list[str]:
    """Names that tell the runs apart: of the directory; numbered where two are the same."""
    names = [run.path.name for run in runs]
    return [name if names.count(name) == 1 else f"{name} ({i + 1})" for i, name in enumerate(names)]


def _limits(run: RunRecord) -> dict[str, float | None]:
    """Limits with which the run was flown."""
    limits = run.run.get("limits")
    try:
        return checked_limits(limits, "limits of run.json") if isinstance(limits, dict) else {}
    except UserError as error:
        run.notes.append(str(error))
        return {}
