"""Measures, verdicts and figures of recorded runs, beside those of ``sb.report``.

For research programs and for ``lab``: these names change only with a line in the changelog.
"""

from sitl_bridge.analysis.evaluation.measures import KINDS as KINDS
from sitl_bridge.analysis.evaluation.measures import OWN as OWN
from sitl_bridge.analysis.evaluation.measures import kind_of as kind_of
from sitl_bridge.analysis.evaluation.measures import near_measure as near_measure
from sitl_bridge.analysis.evaluation.measures import sort_names as sort_names
from sitl_bridge.analysis.evaluation.measures import validate_limits as validate_limits
from sitl_bridge.analysis.evaluation.measures import whole_name as whole_name
from sitl_bridge.analysis.evaluation.rotors_evaluation import constant_setpoints as constant_setpoints
from sitl_bridge.analysis.evaluation.rotors_evaluation import disturbance_results as disturbance_results
from sitl_bridge.analysis.evaluation.rotors_evaluation import waypoint_results as waypoint_results
from sitl_bridge.analysis.evaluation.run_changes import missed_events as missed_events
from sitl_bridge.analysis.evaluation.run_record import RunRecord as RunRecord
from sitl_bridge.analysis.evaluation.signal_analysis import Spectrum as Spectrum
from sitl_bridge.analysis.evaluation.signal_analysis import spectrum as spectrum
from sitl_bridge.analysis.evaluation.signal_analysis import step_responses as step_responses
from sitl_bridge.analysis.evaluation.verdict import Verdict as Verdict
from sitl_bridge.analysis.report.report_page import html_page as html_page
