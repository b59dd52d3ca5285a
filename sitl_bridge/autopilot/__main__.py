"""``python -m sitl_bridge.autopilot CONFIGURATION.json``: the built-in flight stack as a process."""

import sys

from sitl_bridge.autopilot.main import main

sys.exit(main())
