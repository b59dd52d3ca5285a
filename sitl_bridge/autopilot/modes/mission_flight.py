"""Mission execution item by item, with climbs, delays, jumps and landings, as in PX4's mission mode.

safety/plans.py checks missions before flight; the flight tasks plan the motion between two positions.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from sitl_bridge.autopilot.commander_data import CRITICAL, INFO
from sitl_bridge.autopilot.modes.mission_items import ROI_LOCATION, ROI_NONE
from sitl_bridge.autopilot.modes.position_target import GO, GROUND, HOLD, IDLE, PositionTarget
from sitl_bridge.autopilot.modes.position_target import TAKEOFF as CLIMB_OFF
from sitl_bridge.autopilot.vehicle_part import Vehicle, VehiclePart
from sitl_bridge.base.rotations import wrap_angle
from sitl_bridge.link.mavlink import common as mavlink
from sitl_bridge.plan import commands
from sitl_bridge.plan.plan_upload import MissionItem

# --- present step of the current item (PX4: work items)
ITEM, CLIMB, MOVE_TO_LAND, LEVEL_OFF = range(4)


def _seconds(item: MissionItem) -> float:
    """Return the hold time of an item in seconds; 0 if it has none."""
    return item.param1 if item.param1 > 0.0 else 0.0


class MissionFlight(VehiclePart):
    """The mission of one vehicle and its progress.

    Args:
        payload: takes commands for cameras and gimbals, MAV_CMD and seven parameters.

    Attributes:
        current: sequence number of the current item.
        finished: whether the last item is completed.
        reached: sequence numbers of completed items that are not reported yet.
        failed: whether the mission cannot be continued.
        wants_return: whether an item requests a return to launch.
        active: whether the mission is being flown.
    """

    def __init__(
        self, vehicle: Vehicle, target: PositionTarget, payload: Callable[[int, Sequence[float]], None]
    ) -> None:
        super().__init__(vehicle)
        self._target = target
        self._payload = payload
        self.items: tuple[MissionItem, ...] = ()
        self.current = 0
        self.finished = False
        self.active = False
        self.reached: deque[int] = deque()
        self.failed = False
        self.wants_return = False
        self._jumps: dict[int, int] = {}
        self._work = ITEM
        self._begun = False
        self._disarmed = False
        self._arrived = -1  # us
        self._interest: tuple[float, float] | None = None  # deg, region of interest
        self._resume_speed = math.nan

    # ------------------------------------------------------------------ commands

    def set_items(self, items: tuple[MissionItem, ...], now: int) -> None:
        """Replace the mission; restart it if it is being flown."""
        self.items = items
        self.current = next((item.seq for item in items if item.current), 0)
        self.finished = self.failed = False
        self._begun = False
        self._jumps = {}
        self._resume_speed = math.nan
        if self.active:
            self.begin(now)

    def set_current(self, seq: int) -> bool:
        """Continue with another item; return False if it does not exist."""
        if not 0 <= seq < len(self.items):
            return False
        self.current = seq
        self.finished = False
        if self.active:
            self._start_from_here()
            self._start_item(self._state.time)
        return True

    def note_disarmed(self) -> None:
        """Note that the motors stopped: a completed mission restarts next time."""
        self._disarmed = True

    def begin(self, now: int) -> None:
        """Start or resume the mission."""
        if self._begun and self._disarmed and self.current + 1 >= len(self.items):
            self.current = 0
            self._jumps = {}
            self._resume_speed = math.nan
        self._begun = bool(self.items)
        self._disarmed = False
        self.active = True
        self.finished = False
        self.wants_return = False
        self._interest = None
        self._start_from_here()
        self._target.speed = self._resume_speed
        if not self.items:
            refusal = "refusing takeoff" if self._land.landed else "loitering"
            self._send_text(CRITICAL, f"No valid mission available, {refusal}")
            self.finished = True
            return
        self._send_text(INFO, "Executing Mission")
        self._start_item(now, climb_first=True)

    def _start_from_here(self) -> None:
        """Take the present position as the last target: the next path begins here."""
        target, state = self._target, self._state
        target.aim(IDLE if self._land.landed else HOLD, state.x, state.y, state.z)

    def pause(self) -> None:
        """Pause the mission; it can be resumed."""
        self.active = False
        self._resume_speed = self._target.speed

    def update(self, now: int) -> None:
        """Advance when the current item is completed."""
        if not self.active or self.finished or not self.items or self.wants_return:
            return
        item = self.items[self.current]
        self._point_at_interest(item)
        if not self._is_done(item, now):
            return
        if self._work in (CLIMB, MOVE_TO_LAND, LEVEL_OFF):
            self._go_to(item, self._work)
            self._arrived = -1
            return
        self.reached.append(item.seq)
        if not item.autocontinue:
            self._arrived = -1
        elif self._go_on_after(self.current):
            self._start_item(now)

    # ------------------------------------------------------------------ sequence of items

    def _go_on_after(self, seq: int) -> bool:
        """Make the item after ``seq`` the current one; at the end, finish the mission and return False."""
        following = self._next_index(seq, self._jumps)
        if following is None:
            self._finish()
            return False
        self.current = following
        return True

    def _next_index(self, seq: int, jumps: dict[int, int]) -> int | None:
        """Return the index of the item after ``seq``, with jumps counted in ``jumps``; None at the end."""
        seq += 1
        for _ in range(len(self.items) + 1):
            if seq >= len(self.items):
                return None
            item = self.items[seq]
            if item.command != mavlink.MAV_CMD_DO_JUMP:
                return seq
            done = jumps.get(seq, 0)
            if item.param2 < 0 or done < item.param2:
                jumps[seq] = done + 1
                seq = int(item.param1)
            else:
                seq += 1
        self._send_text(CRITICAL, "Mission cannot be completed: its jumps form an endless loop")
        self.failed = True
        return None

    def _remaining_items(self) -> Iterator[MissionItem]:
        """Yield the items after the current one in flight order."""
        jumps = dict(self._jumps)
        seq = self._next_index(self.current, jumps)
        for _ in range(len(self.items)):
            if seq is None:
                return
            yield self.items[seq]
            seq = self._next_index(seq, jumps)

    def _start_item(self, now: int, climb_first: bool = False) -> None:
        climb_first |= self._land.landed
        for _ in range(len(self.items) + 1):
            item = self.items[self.current]
            self._arrived = -1
            self._work = ITEM
            if item.command == mavlink.MAV_CMD_DO_JUMP:  # set as current by a command
                if not self._go_on_after(self.current - 1):
                    return
                continue
            if item.is_destination:
                if not (climb_first and self._start_climb(item)):
                    self._go_to(item, ITEM)
                return
            if item.command == mavlink.MAV_CMD_NAV_DELAY:
                self._arrived = now
                self._target.after = None
                return
            self._execute(item)
            self.reached.append(item.seq)
            if self.wants_return or not item.autocontinue:
                self.finished = self.wants_return and self.current + 1 == len(self.items)
                return
            if not self._go_on_after(self.current):
                return

    def _execute(self, item: MissionItem) -> None:
        command = item.command
        altitude = item.altitude(self._home_altitude)
        params = (item.param1, item.param2, item.param3, item.param4, item.x, item.y, altitude)
        self._payload(command, params)
        if command == mavlink.MAV_CMD_NAV_RETURN_TO_LAUNCH:
            self.wants_return = True
        elif command == mavlink.MAV_CMD_DO_CHANGE_SPEED:
            self._target.speed = item.param2 if item.param2 > 0.0 else math.nan
        elif command == mavlink.MAV_CMD_DO_SET_HOME:
            self._home.set_by_item(item)
        elif command == mavlink.MAV_CMD_DO_SET_ROI_LOCATION or (
            command in commands.ROI_COMMANDS and item.param1 == ROI_LOCATION
        ):
            self._interest = (item.x, item.y)
        elif command == mavlink.MAV_CMD_DO_SET_ROI_NONE or (
            command in commands.ROI_COMMANDS and item.param1 == ROI_NONE
        ):
            self._interest = None

    def _finish(self) -> None:
        self.finished = True
        target = self._target
        target.after = None
        if self._land.landed:
            target.kind = IDLE
            self._send_text(INFO, "Mission finished, landed")
        else:
            target.kind = HOLD
            self._send_text(INFO, "Mission finished, loitering")

    # ------------------------------------------------------------------ positions

    @property
    def _home_altitude(self) -> float:
        return self._home.place[2] if self._home.place is not None else 0.0

    def _position_of(self, item: MissionItem) -> tuple[float, float, float]:
        projection = self._state.projection
        assert projection is not None
        north, east = projection.local(item.x, item.y)
        return north, east, projection.down_of_altitude(item.altitude(self._home_altitude))

    def _start_climb(self, item: MissionItem) -> bool:
        """Start a vertical climb if the item is higher; return whether a climb is needed."""
        state, target = self._state, self._target
        _, _, z = self._position_of(item)
        if item.command == mavlink.MAV_CMD_NAV_LAND or state.z - z <= self._values["NAV_MC_ALT_RAD"]:
            return False
        self._work = CLIMB
        target.aim(CLIMB_OFF if self._land.landed else HOLD, state.x, state.y, z)
        target.acceptance = self._values["NAV_ACC_RAD"]
        if self._home.place is not None and state.projection is not None:
            above = state.projection.altitude(z) - self._home_altitude
            self._send_text(INFO, f"Climb to {above:.1f} meters above home")
        return True

    def _go_to(self, item: MissionItem, done: int) -> None:
        """Set the target to an item after the step ``done`` of its work."""
        target, state, values = self._target, self._state, self._values
        before = (target.x, target.y, target.z) if target.kind in (GO, HOLD, CLIMB_OFF) else None
        if done == LEVEL_OFF:
            before = None  # the height changes from the present position
        x, y, z = self._position_of(item)
        command = item.command
        self._work = ITEM
        target.kind = GO
        target.yaw = (
            math.radians(item.param4)
            if command
            in (
                mavlink.MAV_CMD_NAV_WAYPOINT,
                mavlink.MAV_CMD_NAV_LOITER_TIME,
                mavlink.MAV_CMD_NAV_LOITER_UNLIM,
            )
            else math.nan
        )
        target.acceptance = values["NAV_ACC_RAD"]
        if command == mavlink.MAV_CMD_NAV_WAYPOINT and item.param2 > 0.0:
            target.acceptance = item.param2
        if command == mavlink.MAV_CMD_NAV_LAND:
            away = math.hypot(x - state.x, y - state.y)
            if done != MOVE_TO_LAND and away > target.acceptance and not self._land.landed:
                self._work = MOVE_TO_LAND
                z = target.z if before is not None else state.z
            else:
                target.kind = GROUND
        elif command in (mavlink.MAV_CMD_NAV_LOITER_TIME, mavlink.MAV_CMD_NAV_LOITER_UNLIM):
            target.kind = HOLD
        elif command == mavlink.MAV_CMD_NAV_LOITER_TO_ALT:
            # As for a fixed-wing loiter circle, PX4 uses the radius for multirotors too, which fly to the
            # centre (mission_block.cpp, is_mission_item_reached_or_completed).
            target.kind = HOLD
            own = math.isfinite(item.param2) and item.param2 != 0.0
            target.acceptance += abs(item.param2) if own else values["NAV_LOITER_RAD"]
            if done != LEVEL_OFF:
                self._work = LEVEL_OFF
                z = state.z
        target.x, target.y, target.z = x, y, z
        target.before = before if before != (x, y, z) else None
        target.after = self._next_destination(item) if target.kind == GO and self._work == ITEM else None

    def _next_destination(self, item: MissionItem) -> tuple[float, float, float] | None:
        """Return the next destination flown without a stop; None if the vehicle stops at the item."""
        if not item.autocontinue or (item.command == mavlink.MAV_CMD_NAV_WAYPOINT and item.param1 > 0.0):
            return None
        for following in self._remaining_items():
            if following.is_destination:
                x, y, z = self._position_of(following)
                if following.command == mavlink.MAV_CMD_NAV_LAND:
                    z = self._target.z
                return x, y, z
            if (
                following.command in (mavlink.MAV_CMD_NAV_DELAY, mavlink.MAV_CMD_NAV_RETURN_TO_LAUNCH)
                or not following.autocontinue
            ):
                return None
        return None

    def _point_at_interest(self, item: MissionItem) -> None:
        projection = self._state.projection
        if (
            self._interest is None
            or projection is None
            or item.command in (mavlink.MAV_CMD_NAV_TAKEOFF, mavlink.MAV_CMD_NAV_LAND)
        ):
            return
        north, east = projection.local(*self._interest)
        if math.hypot(north - self._state.x, east - self._state.y) > 1.0:
            self._target.yaw = math.atan2(east - self._state.y, north - self._state.x)

    # ------------------------------------------------------------------ completion

    def _is_done(self, item: MissionItem, now: int) -> bool:
        if item.command == mavlink.MAV_CMD_NAV_DELAY:
            return now - self._arrived >= _seconds(item) * 1e6
        if not item.is_destination:
            return False  # already executed; without autocontinue the mission waits here
        if item.command == mavlink.MAV_CMD_NAV_LAND and self._work == ITEM:
            return self._land.landed
        if self._land.landed:
            return False
        if self._arrived < 0 and self._is_at_target():
            self._arrived = now
        if self._arrived < 0 or (self._work == ITEM and not self._has_heading(item)):
            return False
        if self._work != ITEM:
            return True
        if item.command == mavlink.MAV_CMD_NAV_LOITER_UNLIM:
            return False
        stay = (
            _seconds(item)
            if item.command in (mavlink.MAV_CMD_NAV_WAYPOINT, mavlink.MAV_CMD_NAV_LOITER_TIME)
            else 0.0
        )
        return now - self._arrived >= stay * 1e6

    def _is_at_target(self) -> bool:
        target, state = self._target, self._state
        margin = self._values["NAV_MC_ALT_RAD"]
        if self._work == CLIMB:
            if target.kind == CLIMB_OFF and self._home.place is not None and state.projection is not None:
                height = state.projection.altitude(target.z) - self._home_altitude
                if 0.0 < height < margin:
                    margin = 0.5 * height
            return state.z < target.z + margin
        away = math.hypot(target.x - state.x, target.y - state.y)
        return away <= target.acceptance and abs(target.z - state.z) <= margin

    def _has_heading(self, item: MissionItem) -> bool:
        if item.command == mavlink.MAV_CMD_NAV_TAKEOFF or self._interest is not None:
            return True
        return has_heading(self._target.yaw, self._state.yaw, self._values)


def has_heading(wanted: float, yaw: float, values: dict[str, float]) -> bool:
    """Return whether a heading in rad counts as reached; nan is none to be reached."""
    if not math.isfinite(wanted):
        return True
    return abs(wrap_angle(wanted - yaw)) < math.radians(values["MIS_YAW_ERR"])
