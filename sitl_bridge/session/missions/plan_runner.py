"""Fly a plan file saved by QGroundControl: ``python -m sitl_bridge.session.missions.plan_runner FILE
[--url URL]``.

Uploads mission, geofence and rally points, arms, starts the mission and monitors it until the vehicle has
landed and disarmed.  After a mission that ends in the air, the vehicle returns to launch.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import sys
from contextlib import aclosing
from typing import Any

from mavsdk.asyncio import MavsdkError
from mavsdk.plugins.mission_raw import MissionItem
from mavsdk.plugins.telemetry import FlightMode

from sitl_bridge.base.errors import UserError
from sitl_bridge.plan.plan import (
    POSITION_FRAMES,
    Item,
    Plan,
    command_name,
    distance,
    fence_breach,
)
from sitl_bridge.plan.plan_file import MAX_LEG, load_plan
from sitl_bridge.plan.plan_upload import (
    END_GRACE,
    UploadRow,
    fence_rows,
    mission_rows,
    rally_rows,
    time_limit,
)
from sitl_bridge.session.missions.environment import FAILED
from sitl_bridge.session.missions.mavlink_request import request
from sitl_bridge.session.missions.mavsdk_vehicle import STATE_LIMIT, Vehicle, reason
from sitl_bridge.session.missions.mission_script import command_line, run

MISSION, FENCE, RALLY = 0, 1, 2
"""MAV_MISSION_TYPE."""

ACCEPTED = 0
"""MAV_MISSION_ACCEPTED."""


def mission_items(plan: Plan) -> list[MissionItem]:
    """The mission as MAVSDK sends it."""
    return [_item(sequence, MISSION, row) for sequence, row in enumerate(mission_rows(plan))]


def fence_items(plan: Plan) -> list[MissionItem]:
    """The geofence as MAVSDK sends it."""
    return [_item(sequence, FENCE, row) for sequence, row in enumerate(fence_rows(plan))]


def rally_items(plan: Plan) -> list[MissionItem]:
    """The rally points as MAVSDK sends them."""
    return [_item(sequence, RALLY, row) for sequence, row in enumerate(rally_rows(plan))]


def _item(sequence: int, kind: int, row: UploadRow) -> MissionItem:
    p1, p2, p3, p4, p5, p6, p7 = row.params
    scale = 1e7 if row.frame in POSITION_FRAMES else 1.0  # degE7, or whole numbers as they are
    x, y = (0 if math.isnan(value) else round(value * scale) for value in (p5, p6))
    return MissionItem(
        seq=sequence,
        frame=row.frame,
        command=row.command,
        current=int(sequence == 0),
        autocontinue=int(row.auto_continue),
        param1=p1,
        param2=p2,
        param3=p3,
        param4=p4,
        x=x,
        y=y,
        z=0.0 if math.isnan(p7) else p7,
        mission_type=kind,
    )


SETTLING = 1.0
"""s, at real time, in which PX4 loads the uploaded plan before it is armed: its mission storage works in wall
time, and PX4 reports a fence that is still being loaded as invalid.  Not with turns, which the built-in stack
alone takes: time stands still during requests."""


async def upload(vehicle: Vehicle, plan: Plan) -> None:
    """Upload the plan to the vehicle; parts that the plan does not have are cleared there.

    Raises:
        MissionFailedError: if the autopilot refuses a part, with the part and the reason.
    """
    for note in plan.notes:
        vehicle.say(note)
    raw = vehicle.mission_raw
    parts: list[tuple[str, int, Any, list[MissionItem]]] = [
        ("geofence", FENCE, raw.upload_geofence, fence_items(plan)),
        ("rally points", RALLY, raw.upload_rally_points, rally_items(plan)),
        ("mission", MISSION, raw.upload_mission, mission_items(plan)),
    ]
    async with vehicle.gate.request():
        for name, kind, send, sent in parts:
            try:
                if sent:
                    await send(sent)
                else:
                    await _clear(vehicle, kind)
            except MavsdkError as refusal:
                vehicle.fail(
                    f"the autopilot refused the plan's {name} ({len(sent)} items): {reason(refusal)}"
                )
            vehicle.say(f"{name}: {len(sent)} items uploaded" if sent else f"{name}: none, cleared")
        if not vehicle.gate.turn:
            await vehicle.sleep(SETTLING)


async def _clear(vehicle: Vehicle, kind: int) -> None:
    """Clear one kind of items on the vehicle.  MAVSDK has no function for rally points only."""
    answer = await request(
        vehicle,
        "MISSION_CLEAR_ALL",
        {"mission_type": kind},
        "MISSION_ACK",
        lambda ack: ack.get("mission_type", MISSION) == kind,
        f"to clear items of type {kind}",
    )
    if answer["type"] != ACCEPTED:
        vehicle.fail(f"the autopilot did not clear items of type {kind}: MAV_MISSION_RESULT {answer['type']}")


async def fly(vehicle: Vehicle, plan: Plan) -> None:
    """Fly a plan from the ground to the ground.

    Raises:
        MissionFailedError: if PX4 refuses the plan or does not finish it.
    """
    await vehicle.wait_until_armable()
    _check_place(vehicle, plan)
    await upload(vehicle, plan)
    await vehicle.arm()
    vehicle.say("starting the mission")
    await vehicle.mission_raw.start_mission()
    await vehicle.wait(
        "the autopilot to report mission mode",
        lambda: vehicle.mode == FlightMode.MISSION,
        STATE_LIMIT,
        must_stay_armed=True,
        state=lambda: f"it is in {FlightMode(vehicle.mode).name}",
    )
    await _follow(vehicle, plan)
    if vehicle.armed and not plan.lands:
        vehicle.say("the mission ends in the air: returning to launch")
        await vehicle.action.return_to_launch()
    await vehicle.wait_until_landed(
        limit=time_limit(plan),
        modes={FlightMode.MISSION, FlightMode.RETURN_TO_LAUNCH, FlightMode.LAND, FlightMode.HOLD},
    )


def _check_place(vehicle: Vehicle, plan: Plan) -> None:
    here = vehicle.global_position[:2]
    first = plan.legs[0]
    away = distance(here, first.point)
    if away > MAX_LEG:
        vehicle.fail(
            f"{first.where} is {away / 1000:.1f} km from the vehicle "
            f"({here[0]:.5f}, {here[1]:.5f}): the plan is for another place"
        )
    breach = fence_breach(plan, (here[0], here[1]))
    if breach:
        vehicle.fail(f"the position of the vehicle ({here[0]:.5f}, {here[1]:.5f}) {breach}")


class _Progress:
    """Progress of a mission, reported item by item."""

    def __init__(self, vehicle: Vehicle, plan: Plan) -> None:
        self.vehicle = vehicle
        self.plan = plan
        self.total = len(plan.items)
        self.reached = -1
        self.held_since = math.nan

    async def report(self) -> None:
        """Print each item when the vehicle begins it; runs until cancelled."""
        async with aclosing(self.vehicle.mission_raw.subscribe_mission_progress()) as progress:
            async for state in progress:
                if state.total == self.total and state.current > self.reached:
                    self.reached = state.current
                    if self.reached < self.total:
                        item = self.plan.items[self.reached]
                        self.vehicle.say(f"{describe(item)} ({self.reached + 1} of {self.total})")

    def finished(self) -> bool:
        """Whether the mission has ended.

        Raises:
            MissionFailedError: if PX4 stopped it before its end.
        """
        if self.reached >= self.total or (self.reached >= 0 and not self.vehicle.armed):
            return True
        # PX4 also changes to Hold at the end of a mission, perhaps before it reports the end.
        if self.vehicle.mode != FlightMode.HOLD or self.reached < 0:
            self.held_since = math.nan
        elif math.isnan(self.held_since):
            self.held_since = self.vehicle.time
        elif self.vehicle.time - self.held_since > END_GRACE:
            self.vehicle.fail(
                f"the autopilot stopped the mission at item {self.reached + 1} of {self.total} and holds"
            )
        return False


async def _follow(vehicle: Vehicle, plan: Plan) -> None:
    """Report each item of the mission, until it is finished or the vehicle has landed."""
    progress = _Progress(vehicle, plan)
    modes = {FlightMode.MISSION, FlightMode.HOLD, FlightMode.TAKEOFF}
    if plan.lands:
        modes |= {FlightMode.RETURN_TO_LAUNCH, FlightMode.LAND}
    reporter = asyncio.create_task(progress.report())
    try:
        await vehicle.wait(
            "the mission to finish",
            progress.finished,
            time_limit(plan),
            modes=modes,
            state=lambda: f"it has reached item {progress.reached + 1} of {progress.total}",
        )
    finally:
        reporter.cancel()
        await asyncio.wait([reporter])
    if not plan.lands or progress.reached >= 0:
        vehicle.say("mission finished")


def describe(item: Item) -> str:
    """Short text of an item, for the log."""
    name = command_name(item.command).removeprefix("MAV_CMD_").split(" ")[0].lower().replace("_", " ")
    return f"{item.where}: {name}"


async def _mission(vehicle: Vehicle, options: argparse.Namespace) -> None:
    await fly(vehicle, options.plan)


def main(arguments: list[str] | None = None) -> int:
    """Command line; the plan is checked first."""
    parser = command_line(__doc__, url="--url")
    parser.add_argument("file", metavar="FILE", help="plan saved by QGroundControl")
    options = parser.parse_args(arguments)
    try:
        plan = load_plan(options.file)
    except UserError as error:
        print(error, file=sys.stderr)
        return FAILED
    parser.set_defaults(plan=plan)
    return run(_mission, parser, arguments)


if __name__ == "__main__":
    sys.exit(main())
