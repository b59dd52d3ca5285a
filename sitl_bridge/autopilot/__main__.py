"""``python -m sitl_bridge.autopilot CONFIGURATION.json``: the built-in flight stack as a process."""

import signal
import sys

from sitl_bridge.base.system.garbage import collect_seldom

collect_seldom()  # before anything else is imported

from sitl_bridge.autopilot.main import main  # noqa: E402

try:
    code = main()
finally:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it ends already
sys.exit(code)
