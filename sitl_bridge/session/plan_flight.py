"""Flights of plans from the ground to the ground, watched: each ends as its plan says, or with a reason."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from sitl_bridge.base.errors import UserError
from sitl_bridge.link.mavlink import common as mavlink
from sitl_bridge.plan.plan import Item, Plan, command_name, distance_on_sphere, fence_breach
from sitl_bridge.plan.plan_file import MAX_LEG
from sitl_bridge.plan.plan_upload import END_GRACE, time_limit
from sitl_bridge.session.stacks import FlightStacks

FLOWN = frozenset({"Mission", "Hold", "Takeoff"})
LANDING = frozenset({"Return", "Land", "Precision land"})
"""Modes of a mission, and at its end."""
Say = Callable[[str], None]


def fly_plans(
    stacks: FlightStacks,
    plans: Mapping[int, Plan],
    *,
    limit: float = math.inf,
    say: Say = lambda _line: None,
) -> None:
    """Fly plans; a vehicle whose plan ends in the air returns home.

    Args:
        plans: by the numbers of the vehicles.
        limit: s of simulated time in which all have landed; each plan has a generous one of its own.

    Raises:
        UserError: when a flight stack refuses a plan, ends it by itself or does not end it in time.
    """
    flights = [PlanFlight(stacks, vehicle, plan, say) for vehicle, plan in plans.items()]
    for flight in flights:
        flight.check_place()
    for flight in flights:
        flight.upload()
    for flight in flights:
        flight.begin()
    end = stacks.now + limit * 1e6
    while not all(flight.landed for flight in flights):
        if stacks.now > end:
            raise UserError(f"the time limit of {limit:g} s of simulated time has passed")
        stacks.advance(stacks.steps_to_look)
        for flight in flights:
            flight.follow()


class PlanFlight:
    """A plan that a vehicle flies.

    Args:
        vehicle: its number.

    Attributes:
        landed: whether it has landed and disarmed.
    """

    def __init__(self, stacks: FlightStacks, vehicle: int, plan: Plan, say: Say) -> None:
        self._stacks, self._vehicle, self._plan, self.say = stacks, vehicle, plan, say
        self._began = self._held = math.nan
        self._reached = -1
        self._returning = False
        self.landed = False
        self._limit = time_limit(plan)

    def _fail(self, reason: str) -> UserError:
        alone = len(self._stacks.names) == 1
        return UserError(reason if alone else f"{self._stacks.title(self._vehicle)}: {reason}")

    @property
    def _now(self) -> float:
        return self._stacks.now * 1e-6

    def check_place(self) -> None:
        """Refuse a plan for another place.

        Raises:
            UserError: for a plan that begins far away, or forbids the place by its fence.
        """
        here, first = self._stacks.place, self._plan.legs[0]
        away = distance_on_sphere(here, first.point)
        if away > MAX_LEG:
            raise self._fail(
                f"{first.where} is {away / 1000:.1f} km from the origin ({here[0]:.5f}, {here[1]:.5f}): the"
                " plan is for another place"
            )
        breach = fence_breach(self._plan, here)
        if breach:
            raise self._fail(f"the origin ({here[0]:.5f}, {here[1]:.5f}) {breach}")

    def upload(self) -> None:
        """Give the vehicle the plan.

        Raises:
            UserError: when it refuses a part.
        """
        plan = self._plan
        for note in plan.notes:
            self.say(note)
        self._stacks.upload(self._vehicle, plan)
        corners = sum(len(polygon.vertices) for polygon in plan.polygons)
        self.say(
            f"uploaded: {len(plan.items)} mission items, {corners + len(plan.circles)} of the geofence,"
            f" {len(plan.rally_points)} rally points"
        )

    def begin(self) -> None:
        """Arm the vehicle, and start the mission.

        Raises:
            UserError: when it refuses.
        """
        self._stacks.arm([self._vehicle])
        self.say("armed: starting the mission")
        self._stacks.set_mode([self._vehicle], "Mission")
        self._began = self._now

    def follow(self) -> None:
        """Look at the flight.

        Raises:
            UserError: when the stack has ended the mission by itself, or the time is over.
        """
        stacks, vehicle, plan = self._stacks, self._vehicle, self._plan
        if self.landed:
            return
        if not stacks.is_armed(vehicle):
            if not stacks.on_ground(vehicle):
                raise self._fail("the autopilot disarmed in the air")
            if not self._returning and not plan.lands:
                raise self._fail("the autopilot disarmed before the mission had ended")
            if not self._returning and self._reached < plan.landing:
                raise self._fail(
                    f"the autopilot ended the mission by itself at item {self._reached + 1} of"
                    f" {len(plan.items)}, and landed"
                )
            self.landed = True
            self.say("landed and disarmed")
            return
        mode, progress = stacks.mode(vehicle), stacks.mission(vehicle)
        self._tell(progress.item)
        ending = plan.lands or self._returning
        if mode not in (FLOWN | LANDING if ending else FLOWN) and self._now > self._began + 1.0:
            raise self._fail(
                f"the autopilot changed to {mode}, by itself or by another's command, in the mission"
            )
        if progress.finished and not ending:
            self.say("the mission ends in the air: returning to launch")
            stacks.command([vehicle], "return", mavlink.MAV_CMD_NAV_RETURN_TO_LAUNCH)
            self._returning = True
        item, count = progress.item + 1, len(plan.items)
        if mode != "Hold" or progress.finished:
            self._held = math.nan
        elif math.isnan(self._held):
            self._held = self._now
        elif self._now - self._held > END_GRACE:
            raise self._fail(f"the autopilot stopped the mission at item {item} of {count} and holds")
        limit = self._limit * (2.0 if self._returning else 1.0)
        if self._now - self._began > limit:
            raise self._fail(f"the mission has not ended within {limit:.0f} s; it is at item {item}")

    def _tell(self, reached: int) -> None:
        if self._reached < reached < len(self._plan.items):
            self._reached = reached
            self.say(f"{describe_item(self._plan.items[reached])} ({reached + 1} of {len(self._plan.items)})")


def describe_item(item: Item) -> str:
    """Short text of an item, for the log."""
    name = command_name(item.command).removeprefix("MAV_CMD_").split(" ")[0].lower().replace("_", " ")
    return f"{item.where}: {name}"
