"""``python -m sitl_bridge.autopilot``: the built-in flight stack on the simulator link."""

import sys

from sitl_bridge.autopilot.stack_main import main

sys.exit(main())
