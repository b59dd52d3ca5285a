"""Flight logs and recordings as time series: what replay, identification and validation read.

For research programs and for ``lab``: these names change only with a line in the changelog.
"""

from sitl_bridge.analysis.replay.vehicle_log import TOO_SELDOM as TOO_SELDOM
from sitl_bridge.analysis.replay.vehicle_log import Series as Series
from sitl_bridge.analysis.replay.vehicle_log import VehicleLog as VehicleLog
from sitl_bridge.analysis.replay.vehicle_log import motor_signal as motor_signal
from sitl_bridge.analysis.replay.vehicle_log import read_vehicle_log as read_vehicle_log
from sitl_bridge.analysis.replay.vehicle_replay import ABOVE_GROUND as ABOVE_GROUND
from sitl_bridge.analysis.replay.vehicle_replay import LOW_RATE as LOW_RATE
from sitl_bridge.analysis.replay.vehicle_replay import MARGIN as MARGIN
from sitl_bridge.analysis.replay.vehicle_replay import STEP as STEP
from sitl_bridge.link.hil.recorded_samples import samples_of as samples_of
from sitl_bridge.record.run_reader import RecordedRun as RecordedRun
from sitl_bridge.record.run_reader import vehicle_logs as vehicle_logs
from sitl_bridge.record.run_recorder import FRAMES as FRAMES
from sitl_bridge.record.run_recorder import TRUTH as TRUTH
from sitl_bridge.record.ulog_reader import FlightLog as FlightLog
from sitl_bridge.record.ulog_reader import columns as columns
from sitl_bridge.record.ulog_reader import seconds as seconds
