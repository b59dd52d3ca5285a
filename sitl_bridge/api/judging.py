"""Measures, verdicts and figures of recorded runs, beside those of ``sb.report``.

For research programs and for ``lab``: these names change only with a line in the changelog.
"""

from sitl_bridge.analysis.evaluation.measures import (
    KINDS,
    OWN,
    kind_of,
    near_measure,
    sort_names,
    validate_limits,
    whole_name,
)
from sitl_bridge.analysis.evaluation.rotors_evaluation import (
    constant_setpoints,
    disturbance_results,
    waypoint_results,
)
from sitl_bridge.analysis.evaluation.run_changes import missed_events
from sitl_bridge.analysis.evaluation.run_record import RunRecord
from sitl_bridge.analysis.evaluation.signal_analysis import Spectrum, spectrum, step_responses
from sitl_bridge.analysis.evaluation.verdict import Verdict
from sitl_bridge.analysis.report.report_page import html_page

__all__ = [
    "KINDS",
    "OWN",
    "RunRecord",
    "Spectrum",
    "Verdict",
    "constant_setpoints",
    "disturbance_results",
    "html_page",
    "kind_of",
    "missed_events",
    "near_measure",
    "sort_names",
    "spectrum",
    "step_responses",
    "validate_limits",
    "waypoint_results",
    "whole_name",
]
