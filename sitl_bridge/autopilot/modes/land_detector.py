"""The land detector: detects ground contact in PX4's three stages.

Ground contact, then maybe landed, then landed; each stage must hold for a third of LNDMC_TRIG_TIME
(MulticopterLandDetector.cpp).
"""

from __future__ import annotations

import math

from sitl_bridge.autopilot.estimate import EstimatedState
from sitl_bridge.autopilot.setpoint_output import Output
from sitl_bridge.base.constants import STANDARD_GRAVITY

LOW_THRUST_SHARE = 0.3
"""Share of the range from minimum to hover thrust that counts as low thrust (MulticopterLandDetector.cpp)."""

NO_THRUST_SHARE = 0.1
"""Share of the same range that counts as no thrust."""

MAX_LANDED_HEIGHT = 1.0
"""Largest height of a landed vehicle by the range finder, m."""

LANDED_WITHOUT_HEIGHT = 8.0
"""Time without thrust after which a vehicle with unknown vertical velocity counts as landed, s."""

PRESS_DELAY, PRESS_TIME = 0.5, 1.0
"""Time of a blocked descent before extra descent acceleration is added, and time until it reaches gravity,
s."""

PRESS_RECOVERY = 3.0
"""Ratio at which movement shortens the time of a blocked descent."""


class Hysteresis:
    """A condition with a hold time: it becomes true after the time and false at once."""

    __slots__ = ("_since", "state")

    def __init__(self) -> None:
        self.state = True
        self._since = 0.0

    def update(self, condition: bool, dt: float, hold: float) -> None:
        """Update with the condition over ``dt`` s; it must hold for ``hold`` s."""
        self._since = self._since + dt if condition else 0.0
        self.state = bool(condition and (self.state or self._since >= hold - 1e-9))


class LandDetector:
    """Detects whether one vehicle is on the ground.

    Attributes:
        landed: on the ground, motors idle.
        maybe_landed: second stage.
        ground_contact: first stage.
        press: m/s^2, extra downward acceleration while a commanded descent is blocked.
    """

    __slots__ = ("_blocked", "_contact", "_landed", "_least", "_maybe", "_values", "in_descend", "press")

    def __init__(self, values: dict[str, float]) -> None:
        self._values = values
        self._contact = Hysteresis()
        self._maybe = Hysteresis()
        self._landed = Hysteresis()
        self._least = 0.0  # s of minimum thrust
        self._blocked = 0.0  # s of blocked descent
        self.in_descend = False
        self.press = 0.0

    @property
    def landed(self) -> bool:
        """Whether the vehicle is landed."""
        return self._landed.state

    @property
    def maybe_landed(self) -> bool:
        """Whether the vehicle is probably landed: thrust is reduced to verify."""
        return self._maybe.state

    @property
    def ground_contact(self) -> bool:
        """Whether a commanded descent is stopped by contact."""
        return self._contact.state

    @property
    def descent_blocked(self) -> bool:
        """Whether a commanded descent is blocked: the vehicle stands on something and could tip over."""
        return self.press > 0.0 or (self.in_descend and self.ground_contact)

    @property
    def ground_load(self) -> float:
        """Estimated share of the weight on the ground, 0 to 1, while thrust is reduced."""
        return min(self.press / STANDARD_GRAVITY, 1.0)

    def note_disarmed(self) -> None:
        """Set the landed state: the motors stopped."""
        self._contact.state = self._maybe.state = self._landed.state = True
        self._least = self._blocked = self.press = 0.0
        self.in_descend = False

    def update(
        self, state: EstimatedState, output: Output, thrust: float, climb_controlled: bool, dt: float
    ) -> None:
        """Update from the last setpoint (``output``, ``thrust`` 0..1 of full) and the measured state."""
        values = self._values
        slow = values["LNDMC_Z_VEL_MAX"]
        descent = output.vz
        self.in_descend = bool(climb_controlled and descent == descent and descent >= 1.1 * slow)
        moving = abs(state.vz) >= (2.5 * slow if self._landed.state else slow)
        drifting = math.hypot(state.vx, state.vy) > values["LNDMC_XY_VEL_MAX"]
        self._update_press(moving, dt)

        least, hover = values["MPC_THR_MIN"], values["MPC_THR_HOVER"]
        pressed = self.press >= STANDARD_GRAVITY
        low = thrust <= least + LOW_THRUST_SHARE * (hover - least) or pressed
        contact = low and not moving and not drifting
        if climb_controlled and not self._maybe.state and not self._landed.state:
            contact = contact and self.in_descend
        height = state.height_above_ground
        if height == height and height > MAX_LANDED_HEIGHT:
            contact = False
        third = values["LNDMC_TRIG_TIME"] / 3.0
        self._contact.update(contact, dt, third)

        limit = (
            least + NO_THRUST_SHARE * (hover - least) if climb_controlled else values["MPC_MANTHR_MIN"] + 0.01
        )
        none = thrust <= limit or pressed
        self._least = self._least + dt if none else 0.0
        # With idling rotors, rotation is only the airframe settling; an airborne vehicle would fall.
        turning = not self._maybe.state and math.hypot(state.p, state.q) > math.radians(
            values["LNDMC_ROT_MAX"]
        )
        maybe = none and not turning and (self._contact.state or self._least >= LANDED_WITHOUT_HEIGHT)
        self._maybe.update(maybe, dt, third)
        self._landed.update(self._maybe.state, dt, third)

    def _update_press(self, moving: bool, dt: float) -> None:
        # On the ground a controller may settle at a large share of the weight.  Without thrust, only a
        # vehicle that stands on something does not fall.
        if not self.in_descend:
            self._blocked = 0.0
        elif moving:  # it may rock on its landing gear
            self._blocked = max(0.0, self._blocked - PRESS_RECOVERY * dt)
        else:
            self._blocked = min(self._blocked + dt, PRESS_DELAY + PRESS_TIME)
        self.press = STANDARD_GRAVITY * max(0.0, (self._blocked - PRESS_DELAY) / PRESS_TIME)
