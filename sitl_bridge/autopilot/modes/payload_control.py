"""Controls cameras and gimbals: triggers by distance or time, and passes commands on.

A trigger goes to the camera as CAMERA_TRIGGER, as from PX4's camera_trigger with TRIG_MODE 4.  Other commands
of missions, and those about regions of interest, go to the components on board as commands.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

from sitl_bridge.autopilot.estimate import EstimatedState

SHOOT, TRIGGER_DISTANCE, TRIGGER_INTERVAL, TRIGGER_CONTROL = 203, 206, 214, 2003
"""MAV_CMD_DO_DIGICAM_CONTROL, DO_SET_CAM_TRIGG_DIST, DO_SET_CAM_TRIGG_INTERVAL, DO_TRIGGER_CONTROL"""
IMAGE_START = 2000
"""MAV_CMD_IMAGE_START_CAPTURE"""
TRIGGERS = frozenset({SHOOT, TRIGGER_DISTANCE, TRIGGER_INTERVAL, TRIGGER_CONTROL})
"""Commands executed here."""
REGIONS = frozenset({195, 197})
"""MAV_CMD_DO_SET_ROI_LOCATION and DO_SET_ROI_NONE"""
PASSED_ON = REGIONS | {530, 531, 532, 534, 1000, 1001, IMAGE_START, 2001, 2500, 2501}
"""Commands for components on board: camera, gimbal."""

Params = Sequence[float]


class PayloadControl:
    """Triggers of one vehicle's camera, and commands to its payload.

    Attributes:
        triggers: us and sequence number of triggers that are not yet sent.
        commands: MAV_CMD and seven parameters to be passed on.
    """

    def __init__(self, state: EstimatedState) -> None:
        self._state = state
        self.triggers: deque[tuple[int, int]] = deque(maxlen=100)
        self.commands: deque[tuple[int, tuple[float, ...]]] = deque(maxlen=100)
        self._distance = math.inf
        self._interval = math.inf
        self._active = False
        self._last: tuple[float, float] | None = None
        """m north, east of the last photo by distance."""
        self._due = -1
        """us of the next photo by time."""
        self._count = 0

    def command(self, command: int, params: Params) -> None:
        """Execute or pass on a command; others have no effect."""
        if command == IMAGE_START and params[2] == 1:
            self._shoot()  # as PX4: one photo goes by the trigger
        elif command in PASSED_ON:
            self.commands.append((command, tuple(params)))
        elif command == SHOOT:
            if params[4] == 1:
                self._shoot()
        elif command == TRIGGER_DISTANCE:
            self._by_distance(params)
        elif command == TRIGGER_INTERVAL:
            if params[0] > 0.0:
                self._interval, self._distance = params[0] * 1e-3, math.inf
        elif command == TRIGGER_CONTROL:
            if params[2] in (0, 1):
                self._activate(params[2] == 0 and (params[0] == 1 or self._active))
            if params[1] == 1:
                self._count = 0
            if params[0] in (0, 1):
                self._activate(params[0] == 1)

    def _by_distance(self, params: Params) -> None:
        if params[0] > 0.0:
            self._distance, self._interval = params[0], math.inf
            self._active, self._last = True, None
        elif params[0] <= 0.0:
            self._activate(False)
        if params[2] > 0.0:
            self._shoot()

    def _activate(self, active: bool) -> None:
        self._active = active
        self._last, self._due = None, -1

    def _shoot(self) -> None:
        self.triggers.append((self._state.time, self._count))
        self._count += 1

    def update(self) -> None:
        """Trigger what is due at the estimate's position and time."""
        if not self._active:
            return
        state = self._state
        if math.isfinite(self._distance):
            here = (state.x, state.y)
            if self._last is None or math.dist(here, self._last) >= self._distance:
                self._last = here
                self._shoot()
        elif math.isfinite(self._interval) and state.time >= self._due:
            self._due = state.time + round(self._interval * 1e6)
            self._shoot()
