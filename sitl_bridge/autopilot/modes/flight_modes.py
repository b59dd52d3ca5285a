"""Flight modes: PX4's encoding, the requirements of each mode, and its kind of control.

Numbers follow PX4's px4_custom_mode.h and vehicle_status.  The tasks of the modes are in tasks/; the checks
before a mode change are in arming_checks.py.
"""

from __future__ import annotations

from dataclasses import dataclass

# --- requirements of a mode, as bits (PX4: ModeUtil/mode_requirements.cpp)
ATTITUDE = 1
LOCAL_POSITION = 2
RELAXED_POSITION = 4
"""Horizontal velocity is sufficient; the position may be unknown."""
ALTITUDE = 8
GLOBAL_POSITION = 16
HOME = 32
MISSION = 64
OFFBOARD_SIGNAL = 128
MANUAL_CONTROL = 256
NO_ARMING = 512
"""The vehicle cannot be armed in this mode."""

# --- MAV_MODE_FLAG
FLAG_CUSTOM = 1
FLAG_AUTO = 4
FLAG_GUIDED = 8
FLAG_STABILIZE = 16
FLAG_MANUAL = 64
FLAG_ARMED = 128


@dataclass(frozen=True, slots=True, eq=False)
class Mode:
    """A flight mode; there is one object for each, compare with ``is``."""

    name: str  # PX4's name
    nav_state: int  # PX4's internal number (vehicle_status.nav_state)
    main: int  # PX4's main mode
    sub: int  # PX4's sub mode
    needs: int  # requirement bits, see above
    base: int  # MAV_MODE_FLAG bits of HEARTBEAT.base_mode without ``FLAG_ARMED``

    @property
    def custom_mode(self) -> int:
        """HEARTBEAT.custom_mode."""
        return self.main << 16 | self.sub << 24

    def base_mode(self, armed: bool) -> int:
        """HEARTBEAT.base_mode."""
        return self.base | FLAG_ARMED if armed else self.base

    @property
    def manual(self) -> bool:
        """Whether the sticks control the vehicle."""
        return bool(self.base & FLAG_MANUAL)

    @property
    def automatic(self) -> bool:
        """Whether the navigator controls the vehicle."""
        return bool(self.base & FLAG_AUTO)


_STICKS = FLAG_CUSTOM | FLAG_MANUAL
_AUTO = FLAG_CUSTOM | FLAG_AUTO | FLAG_GUIDED | FLAG_STABILIZE
_FULL = ATTITUDE | LOCAL_POSITION | ALTITUDE | GLOBAL_POSITION

MANUAL = Mode("Manual", 0, 1, 0, ATTITUDE | MANUAL_CONTROL, _STICKS | FLAG_STABILIZE)
ALTITUDE_CONTROL = Mode("Altitude", 1, 2, 0, ATTITUDE | ALTITUDE | MANUAL_CONTROL, _STICKS | FLAG_STABILIZE)
POSITION_CONTROL = Mode(
    "Position", 2, 3, 0, ATTITUDE | ALTITUDE | RELAXED_POSITION | MANUAL_CONTROL, _STICKS | FLAG_STABILIZE
)
AUTO_MISSION = Mode("Mission", 3, 4, 4, _FULL | MISSION, _AUTO)
AUTO_LOITER = Mode("Hold", 4, 4, 3, _FULL, _AUTO)
AUTO_RTL = Mode("Return", 5, 4, 5, _FULL | HOME | NO_ARMING, _AUTO)
ACRO = Mode("Acro", 10, 5, 0, MANUAL_CONTROL, _STICKS)
DESCEND = Mode("Descend", 12, 4, 6, ATTITUDE | NO_ARMING, _AUTO)
TERMINATION = Mode("Termination", 13, 10, 0, NO_ARMING, FLAG_CUSTOM)
OFFBOARD = Mode("Offboard", 14, 6, 0, ATTITUDE | OFFBOARD_SIGNAL, FLAG_CUSTOM | FLAG_STABILIZE)
STABILIZED = Mode("Stabilized", 15, 7, 0, ATTITUDE | MANUAL_CONTROL, _STICKS | FLAG_STABILIZE)
AUTO_TAKEOFF = Mode("Takeoff", 17, 4, 2, ATTITUDE | LOCAL_POSITION | ALTITUDE, _AUTO)
AUTO_LAND = Mode("Land", 18, 4, 6, ATTITUDE | ALTITUDE | RELAXED_POSITION | NO_ARMING, _AUTO)
AUTO_FOLLOW = Mode("Follow", 19, 4, 8, _FULL | HOME, _AUTO)
ORBIT = Mode("Orbit", 21, 3, 1, ATTITUDE | LOCAL_POSITION | ALTITUDE | NO_ARMING, _AUTO)

MODES = tuple(one for one in tuple(globals().values()) if isinstance(one, Mode))
"""All of them."""

_SELECTABLE = {(mode.main, mode.sub): mode for mode in MODES if mode not in (DESCEND, TERMINATION, ORBIT)}


def mode_of(main: int, sub: int) -> Mode | None:
    """Return the mode with PX4's main and sub mode; None if there is none.

    As in PX4, AUTO without a sub mode is the mission, and modes other than AUTO have no sub mode here.
    """
    if main == AUTO_MISSION.main:
        return _SELECTABLE.get((main, sub or AUTO_MISSION.sub))
    return _SELECTABLE.get((main, 0))


def mode_of_base_mode(base_mode: int) -> Mode:
    """Return the mode that PX4 derives from MAV_MODE_FLAG if no custom mode is given."""
    if base_mode & FLAG_AUTO:
        return AUTO_MISSION
    if base_mode & FLAG_MANUAL and base_mode & FLAG_GUIDED:
        return POSITION_CONTROL
    if base_mode & FLAG_MANUAL and base_mode & FLAG_STABILIZE:
        return STABILIZED
    return MANUAL
