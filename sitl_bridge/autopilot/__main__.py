"""``python -m sitl_bridge.autopilot CONFIGURATION.json``: the built-in flight stack as a process."""

import signal
import sys

from sitl_bridge.autopilot.main import main

try:
    code = main()
finally:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it ends already
sys.exit(code)
