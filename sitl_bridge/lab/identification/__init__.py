"""Estimates an airframe's parameters and the wind from recorded flights, by analysis by synthesis."""

from sitl_bridge.lab.flights.flight_source import flight_log, read_identification_flight
from sitl_bridge.lab.identification.airframe_identification import (
    Identification,
    check_output,
    identify_airframe,
    write_identified,
)
from sitl_bridge.lab.identification.attitude import identify as identify_attitude
from sitl_bridge.lab.identification.attitude import read_flight as read_attitude_flight
from sitl_bridge.lab.identification.estimates import WindEstimate
from sitl_bridge.lab.identification.flight_windows import measured_speeds

__all__ = [
    "Identification",
    "WindEstimate",
    "check_output",
    "flight_log",
    "identify_airframe",
    "identify_attitude",
    "measured_speeds",
    "read_attitude_flight",
    "read_identification_flight",
    "write_identified",
]
