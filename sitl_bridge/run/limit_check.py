"""Whether a run keeps the limits of measures that its user set."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def limit_faults(directory: Path, limits: Mapping[str, float | None]) -> list[str]:
    """Limits that a finished run exceeds, or has no value for, in words.

    Args:
        directory: of the run.
        limits: by name of the measure; None for no limit.

    Raises:
        UserError: if the run cannot be read.
    """
    if not any(limit is not None for limit in limits.values()):
        return []
    from sitl_bridge.report.run_evaluation import evaluate  # loads SciPy, which no flight waits for
    from sitl_bridge.report.run_record import read_run

    found = evaluate(read_run(directory), limits)
    faults = [f"beyond its limit: {one.words()}" for one in found.exceeded if one.set_by_user]
    return faults + [f"{name} has a limit, but the run has no value for it" for name in found.unmeasured]
