"""The land detector: whether the vehicle stands on the ground, in PX4's three stages.

Ground contact, then maybe landed, then landed, each held for a third of LNDMC_TRIG_TIME
(MulticopterLandDetector.cpp).
"""

from __future__ import annotations

import math

from sitl_bridge.autopilot.estimate import VehicleState
from sitl_bridge.autopilot.setpoint_output import Output

GRAVITY = 9.80665
"""m/s^2, standard."""

LOW_SHARE = 0.3
"""Of the way from least to hover thrust, what counts as low (MulticopterLandDetector.cpp)."""

LEAST_SHARE = 0.1
"""The same for no thrust to speak of."""

CLOSE = 1.0
"""m above ground by the range finder, above which it is not believed that the vehicle has landed."""

WITHOUT_HEIGHT = 8.0
"""s without thrust after which a vehicle without vertical velocity counts as landed."""

PRESS_DELAY, PRESS_TIME = 0.5, 1.0
"""s without descent before the descent is asked for harder, and until no thrust at all is asked for."""


FORGIVING = 3.0
"""s of pressing that a second of movement undoes."""


class Held:
    """A condition that counts once it has held for a time."""

    __slots__ = ("_since", "state")

    def __init__(self, state: bool) -> None:
        self.state = state
        self._since = 0.0

    def update(self, condition: bool, dt: float, hold: float) -> None:
        """Take in the condition for ``dt`` s; it must hold for ``hold`` s and ends at once."""
        self._since = self._since + dt if condition else 0.0
        self.state = condition and (self.state or self._since >= hold - 1e-9)


class LandDetector:
    """Whether one vehicle is on the ground.

    Args:
        values: the parameters' values.

    Attributes:
        landed: on the ground, motors idling.
        maybe_landed: the stage before.
        ground_contact: the first stage.
        press: m/s^2 down to be asked for beside a descent that does not come about.
    """

    __slots__ = ("_contact", "_landed", "_least", "_maybe", "_stuck", "_values", "in_descend", "press")

    def __init__(self, values: dict[str, float]) -> None:
        self._values = values
        self._contact = Held(True)
        self._maybe = Held(True)
        self._landed = Held(True)
        self._least = 0.0  # s of least thrust
        self._stuck = 0.0  # s of descent asked for and not had
        self.in_descend = False
        self.press = 0.0

    @property
    def landed(self) -> bool:
        """On the ground."""
        return self._landed.state

    @property
    def maybe_landed(self) -> bool:
        """Probably on the ground: thrust is taken away to see."""
        return self._maybe.state

    @property
    def ground_contact(self) -> bool:
        """Asked to descend, and held up by something."""
        return self._contact.state

    @property
    def held_up(self) -> bool:
        """Asked to descend and not descending: it stands on something, and can only tip over."""
        return self.press > 0.0 or (self.in_descend and self.ground_contact)

    @property
    def carried(self) -> float:
        """0..1, how much of the weight the ground seems to carry, as thrust is taken away to see."""
        return min(self.press / GRAVITY, 1.0)

    def disarmed(self) -> None:
        """Without motors it stands on the ground."""
        self._contact.state = self._maybe.state = self._landed.state = True
        self._least = self._stuck = self.press = 0.0
        self.in_descend = False

    def update(
        self, state: VehicleState, output: Output, thrust: float, climb_controlled: bool, dt: float
    ) -> None:
        """Look at what was asked for last (``output``, ``thrust`` 0..1 of full) and what came of it."""
        values = self._values
        slow = values["LNDMC_Z_VEL_MAX"]
        descent = output.vz
        self.in_descend = climb_controlled and descent == descent and descent >= 1.1 * slow
        moving = abs(state.vz) >= (2.5 * slow if self._landed.state else slow)
        drifting = math.hypot(state.vx, state.vy) > values["LNDMC_XY_VEL_MAX"]
        self._update_press(moving, dt)

        least, hover = values["MPC_THR_MIN"], values["MPC_THR_HOVER"]
        pressed = self.press >= GRAVITY
        low = thrust <= least + LOW_SHARE * (hover - least) or pressed
        contact = low and not moving and not drifting
        if climb_controlled and not self._maybe.state and not self._landed.state:
            contact = contact and self.in_descend
        height = state.height_above_ground
        if height == height and height > CLOSE:
            contact = False
        third = values["LNDMC_TRIG_TIME"] / 3.0
        self._contact.update(contact, dt, third)

        limit = least + LEAST_SHARE * (hover - least) if climb_controlled else values["MPC_MANTHR_MIN"] + 0.01
        none = thrust <= limit or pressed
        self._least = self._least + dt if none else 0.0
        # Once the rotors idle, what still turns is the airframe coming to rest; one in the air would fall.
        turning = not self._maybe.state and math.hypot(state.p, state.q) > math.radians(
            values["LNDMC_ROT_MAX"]
        )
        maybe = none and not turning and (self._contact.state or self._least >= WITHOUT_HEIGHT)
        self._maybe.update(maybe, dt, third)
        self._landed.update(self._maybe.state, dt, third)

    def _update_press(self, moving: bool, dt: float) -> None:
        # On the ground a controller may settle at much of the weight; only a vehicle that stands on something
        # does not fall when no thrust is left.
        if not self.in_descend:
            self._stuck = 0.0
        elif moving:  # maybe only rocks on its legs
            self._stuck = max(0.0, self._stuck - FORGIVING * dt)
        else:
            self._stuck = min(self._stuck + dt, PRESS_DELAY + PRESS_TIME)
        self.press = GRAVITY * max(0.0, (self._stuck - PRESS_DELAY) / PRESS_TIME)
