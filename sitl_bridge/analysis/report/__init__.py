"""The report of a run: one HTML page, and pictures.

The names in ``__all__`` are for ``sitl_bridge.analysis.report`` as a library; each is loaded when it is
first used.
"""

from typing import Any

_HOMES = {
    "CustomMeasure": "evaluation.measures",
    "KINDS": "evaluation.measures",
    "constant_setpoints": "evaluation.rotors_evaluation",
    "disturbance_results": "evaluation.rotors_evaluation",
    "evaluate": "evaluation.run_evaluation",
    "hovering": "evaluation.rotors_evaluation",
    "read_run": "evaluation.run_record",
    "report": "report.reported_run",
    "settling_time": "evaluation.rotors_evaluation",
    "spectrum": "evaluation.signal_analysis",
    "step_responses": "evaluation.signal_analysis",
    "waypoint_results": "evaluation.rotors_evaluation",
    "write_figures": "report.paper_figures",
    "write_report": "report.report_page",
}
"""Module of each name."""

__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"sitl_bridge.analysis.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    """The names of the library, for completion."""
    return sorted([*globals(), *__all__])
