"""A run with its evaluation and its time line: what a report shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sitl_bridge.analysis.evaluation.measures import Limits
from sitl_bridge.analysis.evaluation.run_evaluation import Evaluation, evaluate
from sitl_bridge.analysis.evaluation.run_record import RunRecord
from sitl_bridge.analysis.evaluation.verdict import Verdict, flown_limits, verdict_of
from sitl_bridge.analysis.report.flight_pictures import FlightPicture, flight_pictures
from sitl_bridge.analysis.report.run_events import TimelineEntry, timeline


@dataclass(frozen=True)
class Reported:
    """A run with its verdict, evaluation, time line and pictures, ready for the page."""

    label: str
    run: RunRecord
    verdict: Verdict
    evaluation: Evaluation
    events: list[TimelineEntry]
    pictures: list[FlightPicture] = field(default_factory=list)

    @property
    def notes(self) -> list[str]:
        """What the reader should know: of the flight, and of what could not be read."""
        partial = [self.run.partial] if self.run.partial else []
        return list(dict.fromkeys([*partial, *self.run.notes, *self.verdict.notes]))


def report(runs: Sequence[RunRecord], limits: Limits | None = None) -> list[Reported]:
    """Evaluate runs for a report.

    Args:
        runs: as read back.
        limits: by which they are judged anew; without any, a report shows the verdict of the flight.
    """
    given, found = dict(limits or {}), []
    for label, run in zip(_labels(runs), runs, strict=True):
        evaluation = evaluate(run, flown_limits(run) | given)
        verdict = verdict_of(run, evaluation, given)
        found.append(Reported(label, run, verdict, evaluation, timeline(run), flight_pictures(run)))
    return found


def _labels(runs: Sequence[RunRecord]) -> list[str]:
    """Names that tell the runs apart: of the directory; numbered where two are the same."""
    names = [run.path.name for run in runs]
    return [name if names.count(name) == 1 else f"{name} ({i + 1})" for i, name in enumerate(names)]
