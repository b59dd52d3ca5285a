"""``python -m sitl_bridge.autopilot CONFIGURATION.json``: the built-in flight stack as a process."""

import gc
import signal
import sys

gc.set_threshold(10_000, 20, 20)  # what is imported lasts; to search it takes a tenth of a start

from sitl_bridge.autopilot.main import main  # noqa: E402

try:
    code = main()
finally:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it ends already
sys.exit(code)
