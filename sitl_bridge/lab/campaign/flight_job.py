"""One run of a campaign: what a worker needs for it, how it is flown, and the row that remains of it."""

from __future__ import annotations

import errno
import math
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path

from sitl_bridge.api.in_process import FleetPool, InProcessStacks
from sitl_bridge.api.judging import RunRecord, Verdict, kind_of, missed_events
from sitl_bridge.api.pool import needs_processes
from sitl_bridge.api.scenarios import FlightOptions, FlightSettings, Plan, Session, claim_instance, fly_plans
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.json_data import JsonObject, ReadJson
from sitl_bridge.lab.campaign.file import Keep, Stage, Value
from sitl_bridge.lab.campaign.space import CampaignSpace

FULL = (errno.ENOSPC, errno.EDQUOT)
"""Of a disk that is full, which may have room again."""


@dataclass(frozen=True)
class Job:
    """A run to fly."""

    file: Path  # of the campaign
    id: str  # name of the run
    number: int  # in the campaign, from 0
    point: tuple[float, ...]  # in the unit cube; empty for values that were not drawn there
    values: tuple[Value, ...]  # in the order of the file
    seed: int  # of the flight
    stage: Stage  # the flight stack
    work: Path  # directory for its files
    px4: Path | None = None  # to fly with
    weight: float = 1.0  # of importance sampling: probability density of the campaign over that of the draw
    attempt: int = 1  # 1, and 2 after a worker was lost
    keep: Keep = "all"  # which runs leave a directory; others that are flown within the process write nothing


OF_JOB = ("id", "number", "stage", "seed", "weight", "point", "attempt")
"""Fields of a row that are those of its job."""


@dataclass(frozen=True)
class RunRow:
    """Result of a run."""

    # those of OF_JOB are the job's
    id: str
    number: int
    stage: str
    seed: int
    values: Mapping[str, Value]  # by name
    status: str  # ``flown``, ``invalid`` for values that make no scenario, or ``lost`` if its workers ended
    succeeded: bool  # whether the flight succeeded within its limits
    reason: str = ""  # of a failure
    # least distance from a limit as a share of it; negative beyond it, nan without limits
    margin: float = math.nan
    measures: Mapping[str, float] = field(default_factory=dict)  # by name; of several vehicles the worst
    # simulated_seconds, wall_seconds: of the flight
    simulated_seconds: float = math.nan
    wall_seconds: float = math.nan
    weight: float = 1.0
    point: tuple[float, ...] = ()
    attempt: int = 1
    directory: str = ""  # of the run, in its work directory or kept; empty where it was removed
    missed_events: str = ""  # scheduled events before which the run had ended

    @property
    def result(self) -> str:
        """``succeeded``, ``failed``, ``invalid`` or ``lost``."""
        return "succeeded" if self.succeeded else "failed" if self.status == "flown" else self.status

    def as_data(self) -> JsonObject:
        """For JSON: figures that are not finite as texts."""
        return {key: _finite(value) for key, value in asdict(self).items()}

    @classmethod
    def of_data(cls, data: ReadJson) -> RunRow:
        """Undo ``as_data``."""
        figures = ("margin", "simulated_seconds", "wall_seconds", "weight")
        found = {**data, **{name: float(data[name]) for name in figures}}
        # A report holds many rows: their names are the same objects.
        found["measures"] = {sys.intern(name): float(value) for name, value in data["measures"].items()}
        found["values"] = {sys.intern(name): value for name, value in data["values"].items()}
        found["point"] = tuple(data["point"])
        return cls(**found)


def _finite(value: object) -> object:
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


@cache
def _space(file: Path, _changed: float) -> CampaignSpace:
    return CampaignSpace.load(file)


@cache
def _fleets() -> FleetPool:
    return FleetPool()


def fly_job(job: Job) -> RunRow:
    """Fly a run in this process, and evaluate it.

    Raises:
        OSError: on a full disk; the run may be repeated.
    """
    names: tuple[str, ...] = ()
    try:
        space = _space(job.file, job.file.stat().st_mtime)
        names = space.names
        return _fly(space, job)
    except UserError as error:
        cause = error.__cause__
        if isinstance(cause, OSError) and cause.errno in FULL:
            raise cause from error
        values = dict(zip(names, job.values, strict=False))
        return row_of(job, values, status="invalid", reason=str(error))


def row_of(job: Job, values: Mapping[str, Value], *, status: str, reason: str, **more: object) -> RunRow:
    """A row of a job without a flight that succeeded."""
    same = {name: getattr(job, name) for name in OF_JOB}
    return RunRow(**{"succeeded": False, **same, **more}, values=values, status=status, reason=reason)


def _fly(space: CampaignSpace, job: Job) -> RunRow:
    begun = time.monotonic()
    options = FlightOptions(
        autopilot="builtin" if job.stage == "built_in" else "px4",
        speed=math.inf,
        px4=job.px4 if job.stage == "px4" else None,
        runs=job.work,
        limits=space.limits,
    )
    settings = space.settings(job.values, job.seed, options)
    if job.stage == "built_in" and _flies_here(settings):
        plans = [plan for _, plan in settings.check() if plan is not None]
        if job.keep != "all":
            row = _row(space, job, *fly_here(settings, plans, _fleets(), files=False), begun)
            if row.succeeded or job.keep == "none":
                return row
        # The same flight once more, to the bit, with its files.
        run, verdict = fly_here(settings, plans, _fleets())
    else:
        run, verdict = _fly_processes(space, job, options)
    return _row(space, job, run, verdict, begun, run.path)


def _flies_here(settings: FlightSettings) -> bool:
    """Whether each vehicle has a plan and no event concerns the process of a flight stack."""
    return (
        settings.mission is None
        and all(v.mission is not None and v.mission.suffix == ".plan" for v in settings.vehicles)
        and not needs_processes(settings)
    )


def fly_here(
    settings: FlightSettings, plans: Sequence[Plan], fleets: FleetPool, *, files: bool = True
) -> tuple[RunRecord, Verdict]:
    """Fly plans with the built-in stack in this process, from the ground to the ground.

    Args:
        settings: of the flight, checked.
        plans: of the vehicles.
        fleets: that are reset for the next flight of the same vehicles.
        files: whether to write the files of ``sitl-bridge fly``; else the run has what measures need.

    Returns:
        the run as read back, and the verdict.

    Raises:
        UserError: for vehicles that cannot be built, and when a file cannot be written.
    """
    stacks = InProcessStacks(settings, pool=fleets, files=files)
    reason = ""
    try:
        stacks.settle()
        left = settings.time_limit - (stacks.now - stacks.simulation.start) * 1e-6
        fly_plans(stacks.commands, dict(enumerate(plans)), limit=left)
    except UserError as error:  # a refusal, a motion that diverges, the user's own code that fails
        reason = str(error)
    flown = stacks.finish(reason)
    return flown.run, flown.verdict


def _fly_processes(space: CampaignSpace, job: Job, options: FlightOptions) -> tuple[RunRecord, Verdict]:
    """Fly with the processes of ``sitl-bridge fly``, at ports that no other run uses."""
    count = len(space.base.vehicles)
    claims = [claim_instance()]
    try:
        # The instances of a fleet follow one another.
        while len(claims) < count:
            claims.append(claim_instance())
            if claims[-1].number != claims[0].number + len(claims) - 1:
                for one in claims[:-1]:
                    one.release()
                claims = claims[-1:]
        options = replace(options, instance=claims[0].number)
        session = Session(space.settings(job.values, job.seed, options))
        with session:
            session.fly()
        outcome = session.conclude()
        return outcome.run, outcome.verdict
    finally:
        for one in claims:
            one.release()


def _row(
    space: CampaignSpace,
    job: Job,
    run: RunRecord,
    verdict: Verdict,
    begun: float,
    directory: Path | None = None,
) -> RunRow:
    summary = run.of_vehicle(run.vehicles[0].name) if run.vehicles else run.summary
    return row_of(
        job,
        dict(zip(space.names, job.values, strict=True)),
        status="flown",
        reason=next(iter(verdict.reasons), ""),
        succeeded=verdict.succeeded,
        margin=_margin(verdict),
        measures=worst_measures(verdict),
        simulated_seconds=float(summary.get("simulated_seconds") or math.nan),
        wall_seconds=time.monotonic() - begun,
        directory="" if directory is None else str(directory),
        missed_events="; ".join(f"{one.text} at {one.begin:g} s" for one in missed_events(run)),
    )


def worst_measures(found: Verdict) -> dict[str, float]:
    """Values by name; of several vehicles the worst, which is the smallest of those with a lower bound."""
    values: dict[str, float] = {}
    for one in found.measures:
        name = one.kind.name
        pick = min if one.kind.at_least else max
        values[name] = pick(values[name], one.value) if name in values else one.value
    values.pop("real_time_factor", None)  # of the machine, not of the flight
    return values


def margin(name: str, value: float, limit: float) -> float:
    """Distance of a measure from its limit, as a share of the limit; negative beyond it."""
    scale = abs(limit) or 1.0
    return (value - limit) / scale if kind_of(name).at_least else (limit - value) / scale


def _margin(found: Verdict) -> float:
    margins = [
        margin(one.kind.name, one.value, one.limit)
        for one in found.measures
        if one.set_by_user and one.limit is not None
    ]
    return min(margins, default=math.nan)
