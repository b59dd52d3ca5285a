"""Evaluation after a flight: measures, figures, plots, the summary and the report.

The names in ``__all__`` are for ``sitl_bridge.analysis.report`` as a library; each is loaded when it is
first used.
"""

from typing import Any

__all__ = [
    "KINDS",
    "constant_setpoints",
    "disturbance_results",
    "evaluate",
    "hovering",
    "read_run",
    "report",
    "settling_time",
    "spectrum",
    "step_responses",
    "waypoint_results",
    "write_figures",
    "write_report",
]

_HOMES = {
    "KINDS": "measures",
    "constant_setpoints": "rotors_evaluation",
    "disturbance_results": "rotors_evaluation",
    "evaluate": "run_evaluation",
    "hovering": "rotors_evaluation",
    "read_run": "run_record",
    "report": "reported_run",
    "settling_time": "rotors_evaluation",
    "spectrum": "signal_analysis",
    "step_responses": "signal_analysis",
    "waypoint_results": "rotors_evaluation",
    "write_figures": "paper_figures",
    "write_report": "report_page",
}
"""Module of each name."""


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    """The names of the library, for completion."""
    return sorted([*globals(), *__all__])
