"""Says how well simulators predict real flights."""

from sitl_bridge.lab.validation.benchmark import compare, lines, update_page
from sitl_bridge.lab.validation.flight_facts import facts_of_flight
from sitl_bridge.lab.validation.flights import read_flights
from sitl_bridge.lab.validation.log_statistics import statistics, table
from sitl_bridge.lab.validation.predictors import default_predictors, find_predictor
from sitl_bridge.lab.validation.windows import Windows

__all__ = [
    "Windows",
    "compare",
    "default_predictors",
    "facts_of_flight",
    "find_predictor",
    "lines",
    "read_flights",
    "statistics",
    "table",
    "update_page",
]
