"""The flight of a plan from the ground to the ground, watched: it ends as the plan says, or with a reason.

It fails under the same conditions as in ``session/missions/plan_runner.py``, which flies plans over MAVSDK.
"""

from __future__ import annotations

import math

from sitl_bridge.api.stacks import Stacks
from sitl_bridge.base.errors import UserError
from sitl_bridge.link.mavlink import common as mavlink
from sitl_bridge.plan.plan import Plan, distance, fence_breach
from sitl_bridge.plan.plan_file import MAX_LEG
from sitl_bridge.plan.plan_upload import END_GRACE, time_limit

FLOWN = frozenset({"Mission", "Hold", "Takeoff"})
LANDING = frozenset({"Return", "Land"})
"""Modes of a mission, and at its end."""


class PlanFlight:
    """A plan that a vehicle flies.

    Args:
        stacks: of the flight.
        vehicle: its number.
        plan: that it flies.
        name: of the vehicle, for messages.

    Attributes:
        landed: whether it has landed and disarmed.
    """

    def __init__(self, stacks: Stacks, vehicle: int, plan: Plan, name: str) -> None:
        self._stacks, self._vehicle, self._plan, self._name = stacks, vehicle, plan, name
        self._began = self._held = math.nan
        self._returning = False
        self.landed = False
        self._limit = time_limit(plan)

    def _fail(self, reason: str) -> UserError:
        return UserError(f"{self._name}: {reason}" if len(self._stacks.names) > 1 else reason)

    @property
    def _now(self) -> float:
        return self._stacks.now * 1e-6

    def check_place(self, here: tuple[float, float]) -> None:
        """Refuse a plan for another place.

        Args:
            here: deg latitude, deg longitude of the world's origin.

        Raises:
            UserError: for a plan that begins far away, or forbids the place by its fence.
        """
        first = self._plan.legs[0]
        away = distance(here, first.point)
        if away > MAX_LEG:
            raise self._fail(
                f"{first.where} is {away / 1000:.1f} km from the world's origin ({here[0]:.5f},"
                f" {here[1]:.5f}): the plan is for another place"
            )
        breach = fence_breach(self._plan, here)
        if breach:
            raise self._fail(f"the world's origin ({here[0]:.5f}, {here[1]:.5f}) {breach}")

    def upload(self) -> None:
        """Give the vehicle the plan."""
        self._stacks.upload(self._vehicle, self._plan)

    def begin(self) -> None:
        """The mission has been started."""
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
            if not stacks.simulation.states[vehicle]["in_contact"]:
                raise self._fail("the autopilot disarmed in the air")
            if not self._returning and not plan.lands:
                raise self._fail("the autopilot disarmed before the mission had ended")
            self.landed = True
            return
        mode, progress = stacks.mode(vehicle), stacks.mission(vehicle)
        ending = plan.lands or self._returning
        if mode not in (FLOWN | LANDING if ending else FLOWN) and self._now > self._began + 1.0:
            raise self._fail(f"the autopilot changed to {mode} by itself while it flew the mission")
        if progress.finished and not ending:
            stacks.command(vehicle, "return", mavlink.MAV_CMD_NAV_RETURN_TO_LAUNCH, [0.0] * 7)
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
