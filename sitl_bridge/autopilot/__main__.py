"""``python -m sitl_bridge.autopilot CONFIGURATION.json``: the built-in flight stack as a process."""

import sys

from sitl_bridge.autopilot.stack_main import main

sys.exit(main())
