"""Flight logs and recordings as time series: what replay, identification and validation read.

For research programs and for ``lab``: these names change only with a line in the changelog.
"""

from sitl_bridge.analysis.replay.vehicle_log import (
    TOO_SELDOM,
    Series,
    VehicleLog,
    motor_signal,
    read_vehicle_log,
)
from sitl_bridge.analysis.replay.vehicle_replay import ABOVE_GROUND, LOW_RATE, MARGIN, STEP
from sitl_bridge.link.hil.recorded_samples import samples_of
from sitl_bridge.record.run_reader import RecordedRun, vehicle_logs
from sitl_bridge.record.run_recorder import FRAMES, TRUTH
from sitl_bridge.record.ulog_reader import FlightLog, columns, seconds

__all__ = [
    "ABOVE_GROUND",
    "FRAMES",
    "LOW_RATE",
    "MARGIN",
    "STEP",
    "TOO_SELDOM",
    "TRUTH",
    "FlightLog",
    "RecordedRun",
    "Series",
    "VehicleLog",
    "columns",
    "motor_signal",
    "read_vehicle_log",
    "samples_of",
    "seconds",
    "vehicle_logs",
]
