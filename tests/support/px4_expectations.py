"""Expectations of PX4's own SITL tests (test/mavsdk_tests) of a multirotor: a mission script, a case each.

    python tests/support/px4_expectations.py [URL] CASE [--dead-telemetry] [--radius M]

Heights and positions are PX4's estimates and times are its own, as in PX4's tests.  What those compare with
the ground truth is compared by test_flight_expectations_px4.py, which flies the cases.
"""

import argparse
import asyncio
import math
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from mavsdk.asyncio.plugins.failure import FailureAsync
from mavsdk.asyncio.plugins.manual_control import ManualControlAsync
from mavsdk.asyncio.plugins.mission import MissionAsync
from mavsdk.plugins.failure import FailureError, FailureResult, FailureType, FailureUnit
from mavsdk.plugins.mission import MissionItem, MissionPlan
from mavsdk.plugins.offboard import Attitude, PositionNedYaw, VelocityNedYaw
from mavsdk.plugins.telemetry import FlightMode, LandedState

from sitl_bridge.core.world.geography import Projection
from sitl_bridge.session.missions.mavsdk_vehicle import Vehicle
from sitl_bridge.session.missions.mission_script import command_line, positive, run
from sitl_bridge.session.missions.setpoint_stream import OffboardControl
from sitl_bridge.session.missions.time_gate import in_real_time

LEG, HEIGHT, CORRIDOR = 20.0, 10.0, 5.0
"""m: side of the square, its height, and how far a vehicle may be off a leg."""
DROP = 4.0
"""m by which the height may change while motors fail."""
DISARMED = 180.0
"""s until it has landed and disarmed."""
BAROMETER, GPS = 0, 1
"""EKF2_HGT_REF."""

Point = tuple[float, float, float]


class Pilot:
    """A vehicle, with what PX4's tests do to it."""

    def __init__(self, vehicle: Vehicle, options: argparse.Namespace) -> None:
        self.vehicle = vehicle
        self.options = options
        requests = ("upload_mission", "start_mission", "set_return_to_launch_after_mission")
        self.mission = in_real_time(MissionAsync(vehicle.system), vehicle.gate, requests)
        self.failure = in_real_time(FailureAsync(vehicle.system), vehicle.gate)
        self.manual = ManualControlAsync(vehicle.system)
        self.corners: list[Point] = []
        self.item = self.items = 0

    async def set(self, **values: int) -> None:
        for name, value in values.items():
            await self.vehicle.param.set_param_int(name, value)

    async def inject(self, unit: FailureUnit, kind: FailureType, instance: int = 0) -> None:
        self.vehicle.say(f"injecting {unit.name} {kind.name} {instance}")
        await self.failure.inject(unit, kind, instance)

    async def fail_motor(self, motor: int) -> None:
        await self.inject(FailureUnit.SYSTEM_MOTOR, FailureType.OFF, motor)
        if self.options.dead_telemetry:
            await self.inject(FailureUnit.SYSTEM_MOTOR, FailureType.STUCK, motor)

    # ------------------------------------------------------------------ waiting

    async def take_off(self, height: float, tolerance: float = 0.5, limit: float = 30.0) -> None:
        """As PX4's tests do: in the air in 45 s, at the height in ``limit`` more, then slower than 1 m/s."""
        vehicle = self.vehicle
        await vehicle.arm()
        await vehicle.action.takeoff()
        if height <= HEIGHT:
            await vehicle.wait("it to be in the air", lambda: vehicle.landed == LandedState.IN_AIR, 45.0)
        tolerance = max(tolerance, self.options.take_off_tolerance)
        await vehicle.wait(
            f"{height:g} m of height",
            lambda: abs(vehicle.height - height) <= tolerance,
            limit,
            state=lambda: f"height {vehicle.height:.2f} m",
        )
        await vehicle.wait("a speed below 1 m/s", lambda: math.hypot(*vehicle.velocity) <= 1.0, limit)

    async def disarmed(self, limit: float = DISARMED) -> None:
        vehicle = self.vehicle
        await vehicle.wait(
            "it to disarm",
            lambda: not vehicle.armed,
            limit,
            state=lambda: f"mode {FlightMode(vehicle.mode).name}, height {vehicle.height:.1f} m",
        )

    async def return_home(self) -> None:
        await self.vehicle.action.return_to_launch()
        await self.disarmed()

    @asynccontextmanager
    async def checking(self, check: Callable[[], None]) -> AsyncIterator[None]:
        """Look at every report of the vehicle; the first that fails the check fails the flight."""

        async def look() -> None:
            while True:
                check()
                await self.vehicle.changed()

        task = asyncio.create_task(look())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled():
                task.result()

    def height_kept(self, most: float) -> Callable[[], None]:
        begun = self.vehicle.position[2]

        def check() -> None:
            change = begun - self.vehicle.position[2]
            if abs(change) > most:
                self.vehicle.fail(f"the height changed by {change:.2f} m, at most {most:g} m are expected")

        return check

    # ------------------------------------------------------------------ missions

    async def upload(self, corners: list[tuple[float, float]], *, returning: bool, through: bool) -> None:
        vehicle = self.vehicle
        home = await vehicle.telemetry.home()
        there = Projection.from_degrees(home.latitude_deg, home.longitude_deg)
        north, east, down = vehicle.position
        here = there.local(*vehicle.global_position[:2])
        items = []
        for x, y in corners:
            items.append(MissionItem(*there.point(x, y), HEIGHT, is_fly_through=through))
            self.corners.append((north + x - here[0], east + y - here[1], down - HEIGHT))
        await self.mission.set_return_to_launch_after_mission(returning)
        await self.mission.upload_mission(MissionPlan(items))
        await vehicle.sleep(1.0)

    async def square(self, *, returning: bool) -> None:
        corners = [(LEG, 0.0), (LEG, LEG), (0.0, LEG)]
        await self.upload(corners, returning=returning, through=False)

    async def start_mission(self) -> None:
        await self.mission.start_mission()

    async def mission_reaches(self, item: int, limit: float = 60.0) -> None:
        await self.vehicle.wait(f"mission item {item}", lambda: self.item >= item, limit)

    async def mission_finished(self, limit: float = 500.0) -> None:
        vehicle, begun = self.vehicle, self.vehicle.time
        while not await self.mission.is_mission_finished():
            if vehicle.time - begun > limit:
                vehicle.fail(f"waited {limit:g} s for the mission to end, at {vehicle.position}")
            if not vehicle.armed and vehicle.time - begun > 5.0:
                vehicle.fail("PX4 disarmed during the mission")
            due = vehicle.time + 0.5
            await vehicle.wait("time to pass", lambda due=due: vehicle.time >= due, 5.0)  # type: ignore[misc]

    async def follow_mission(self) -> None:
        """Keep ``item`` and ``items`` at what the vehicle reports."""
        async for progress in self.mission.subscribe_mission_progress():
            self.item, self.items = progress.current, progress.total

    def on_the_legs(self) -> None:
        """Between two corners the vehicle is near the line from one to the next."""
        if 0 < self.item < self.items:
            off = off_line(self.vehicle.position, self.corners[self.item - 1], self.corners[self.item])
            if off > CORRIDOR:
                self.vehicle.fail(f"{off:.2f} m off its leg, at most {CORRIDOR:g} m are expected")


def off_line(point: Point, begin: Point, end: Point) -> float:
    """Distance in m of a point from the line through two others."""
    along = [b - a for a, b in zip(begin, end, strict=True)]
    way = [b - a for a, b in zip(begin, point, strict=True)]
    length = math.hypot(*along)
    done = sum(a * b for a, b in zip(along, way, strict=True)) / length
    return math.sqrt(max(sum(c * c for c in way) - done * done, 0.0))


# ---------------------------------------------------------------------- test_multicopter_basics, _mission


async def takeoff_and_hold(pilot: Pilot) -> None:
    await pilot.vehicle.action.set_takeoff_altitude(HEIGHT)
    await pilot.vehicle.sleep(1.0)
    await pilot.take_off(HEIGHT, tolerance=0.2)
    async with pilot.checking(pilot.height_kept(0.3)):
        await pilot.vehicle.sleep(60.0, modes={FlightMode.HOLD, FlightMode.TAKEOFF})
    await pilot.vehicle.land()


async def takeoff_and_land(pilot: Pilot) -> None:
    vehicle = pilot.vehicle
    await vehicle.arm()
    await vehicle.action.takeoff()
    await vehicle.wait("it to be in the air", lambda: vehicle.landed == LandedState.IN_AIR, 45.0)
    await vehicle.action.land()
    await pilot.disarmed()


async def square_with_return(pilot: Pilot) -> None:
    await pilot.square(returning=True)
    await pilot.vehicle.arm()
    await pilot.start_mission()
    await pilot.mission_finished()
    await pilot.disarmed()


async def square_then_return(pilot: Pilot) -> None:
    await pilot.square(returning=False)
    async with pilot.checking(pilot.on_the_legs):
        await pilot.vehicle.arm()
        await pilot.start_mission()
        await pilot.mission_finished()
    await pilot.return_home()


async def straight_line(pilot: Pilot) -> None:
    """Through points on a line without stopping: faster than 4 m/s towards the third."""
    vehicle = pilot.vehicle
    await pilot.upload([(k * LEG, 0.0) for k in range(5)], returning=False, through=True)

    def fast_on_the_third_leg() -> None:
        speed = math.hypot(*vehicle.velocity[:2])
        if pilot.item == 2 and speed <= 4.0:
            vehicle.fail(f"{speed:.2f} m/s on the way to the third point, above 4 m/s are expected")

    async with pilot.checking(pilot.on_the_legs), pilot.checking(fast_on_the_third_leg):
        await vehicle.arm()
        await pilot.start_mission()
        await pilot.mission_finished()
    await pilot.return_home()


# ---------------------------------------------------------------------- test_multicopter_offboard


async def offboard_land(pilot: Pilot, control: OffboardControl) -> None:
    await control.hold(VelocityNedYaw(0.0, 0.0, 1.0, 0.0), 0.1)
    await pilot.disarmed(120.0)


async def offboard_takeoff_and_land(pilot: Pilot) -> None:
    await offboard_points(pilot, [], 90.0)


async def offboard_position(pilot: Pilot) -> None:
    points = [
        PositionNedYaw(0.0, 5.0, -2.0, 180.0),
        PositionNedYaw(5.0, 5.0, -4.0, 180.0),
        PositionNedYaw(5.0, 0.0, -4.0, 90.0),
        PositionNedYaw(0.0, 0.0, -2.0, 0.0),
    ]
    await offboard_points(pilot, points, 10.0)


async def offboard_points(pilot: Pilot, points: list[PositionNedYaw], limit: float) -> None:
    vehicle = pilot.vehicle
    first = PositionNedYaw(0.0, 0.0, -2.0, 0.0)
    await pilot.set(COM_RCL_EXCEPT=1 << 2)
    async with OffboardControl(vehicle, first) as control:
        await vehicle.arm()
        for target in (first, *points):
            limit = max(limit, pilot.options.limit)
            await control.go_to(target, tolerance=pilot.options.radius, settle=0.0, limit=limit)
        await offboard_land(pilot, control)


async def offboard_attitude(pilot: Pilot) -> None:
    vehicle = pilot.vehicle
    await pilot.set(COM_RCL_EXCEPT=1 << 2)
    async with OffboardControl(vehicle, Attitude(0.0, 0.0, 0.0, 0.0)) as control:
        await vehicle.arm()
        ground = vehicle.position[2]
        climbing = Attitude(0.0, 0.0, 0.0, 0.8)
        await control.hold(climbing, 0.1)
        await control.wait("10 m of height", lambda: ground - vehicle.position[2] >= 10.0, 30.0)
        await control.hold(Attitude(0.0, -20.0, 0.0, 0.8), 3.0)
        if max(abs(vehicle.attitude[0]), abs(vehicle.attitude[1] + 20.0)) >= 5.0:
            vehicle.fail(f"roll and pitch are {vehicle.attitude[:2]} deg, not 0 and -20")
        await control.hold(Attitude(0.0, 0.0, 0.0, 0.4), 6.0)
        await control.hold(Attitude(0.0, 0.0, 0.0, 0.0), 0.1)
        await pilot.disarmed(120.0)


# ---------------------------------------------------------------------- test_multicopter_manual


async def manual_position(pilot: Pilot) -> None:
    await by_hand(pilot, pilot.manual.start_position_control)


async def manual_altitude(pilot: Pilot) -> None:
    await by_hand(pilot, pilot.manual.start_altitude_control)


async def by_hand(pilot: Pilot, start: Callable[[], Awaitable[None]]) -> None:
    """5 s upwards, 10 s forwards with half the stick, then down until it stands."""
    vehicle = pilot.vehicle
    sticks = [0.0, 0.0, 0.5, 0.0]

    async def move() -> None:
        while True:
            await pilot.manual.set_manual_control_input(*sticks)
            await vehicle.changed()

    task = asyncio.create_task(move())
    try:
        await vehicle.sleep(1.0)
        await start()
        await vehicle.sleep(1.0)
        await vehicle.arm()
        sticks[:] = [0.0, 0.0, 1.0, 0.0]
        await vehicle.sleep(5.0)
        sticks[:] = [0.5, 0.0, 0.5, 0.0]
        await vehicle.sleep(10.0)
        sticks[:] = [0.0, 0.0, 0.0, 0.0]
        await pilot.disarmed()
    finally:
        task.cancel()
        await asyncio.wait([task])


# ---------------------------------------------------------------------- test_multicopter_failsafe


def lose_sensor(
    unit: FailureUnit, kind: FailureType, reference: int | None = None
) -> Callable[[Pilot], Awaitable[None]]:
    """A sensor fails on the way to the second corner; the mission goes on and ends within 90 s."""

    async def case(pilot: Pilot) -> None:
        if reference is not None:
            await pilot.set(EKF2_HGT_REF=reference)
        await pilot.vehicle.wait_until_armable()
        await pilot.square(returning=True)
        await pilot.vehicle.arm()
        await pilot.start_mission()
        await pilot.mission_reaches(1)
        await pilot.inject(unit, kind)
        if unit == FailureUnit.SENSOR_GPS:
            vehicle = pilot.vehicle
            await vehicle.wait("a blind landing", lambda: vehicle.mode == FlightMode.LAND, 30.0)
            await pilot.disarmed(300.0 if reference == BAROMETER else DISARMED)
        else:
            await pilot.mission_finished(90.0)
            await pilot.disarmed()

    return case


async def injection_disabled(pilot: Pilot) -> None:
    vehicle = pilot.vehicle
    await pilot.set(SYS_FAILURE_EN=0)
    await vehicle.arm()
    await vehicle.action.takeoff()
    await vehicle.wait("it to be in the air", lambda: vehicle.landed == LandedState.IN_AIR, 45.0)
    try:
        await pilot.inject(FailureUnit.SYSTEM_MOTOR, FailureType.OFF, 1)
    except FailureError as refusal:
        if refusal.result != FailureResult.DISABLED:
            vehicle.fail(f"the failure was refused with {refusal}, not as disabled")
    else:
        vehicle.fail("a failure was injected although SYS_FAILURE_EN is 0")
    await pilot.return_home()


# ---------------------------------------------------------------------- test_multicopter_control_allocation


async def hexarotor(pilot: Pilot, height: float = HEIGHT, *, square: bool = True, action: int = 0) -> None:
    """Parameters, mission and take-off of the cases in which motors of a hexarotor fail."""
    await pilot.set(SYS_FAILURE_EN=1, FD_ACT_EN=1, MC_AIRMODE=1, CA_FAILURE_MODE=1)
    if action:
        await pilot.set(COM_ACT_FAIL_ACT=action)
    if square:
        await pilot.square(returning=False)
    await pilot.vehicle.action.set_takeoff_altitude(height)
    if height == HEIGHT:
        await pilot.vehicle.action.set_return_to_launch_altitude(height)
    await pilot.vehicle.sleep(1.0)
    await pilot.take_off(height, limit=30.0 if height == HEIGHT else 60.0)


async def one_motor(pilot: Pilot) -> None:
    await hexarotor(pilot)
    async with pilot.checking(pilot.on_the_legs):
        async with pilot.checking(pilot.height_kept(DROP)):
            await pilot.fail_motor(1)
            await pilot.vehicle.sleep(1.0)
            await pilot.start_mission()
            await pilot.mission_finished()
        pilot.vehicle.say("the mission has ended")
    await pilot.return_home()


async def two_motors(pilot: Pilot) -> None:
    await hexarotor(pilot)
    async with pilot.checking(pilot.on_the_legs), pilot.checking(pilot.height_kept(DROP)):
        for motor in (1, 2):
            await pilot.fail_motor(motor)
            await pilot.vehicle.sleep(1.0)
        await pilot.start_mission()
        await pilot.mission_finished()
    await pilot.vehicle.action.land()
    await pilot.disarmed()


async def each_motor_and_back(pilot: Pilot) -> None:
    await hexarotor(pilot)
    async with pilot.checking(pilot.on_the_legs), pilot.checking(pilot.height_kept(DROP)):
        for motor in range(1, 7):
            await pilot.fail_motor(motor)
            await pilot.vehicle.sleep(1.0)
            await pilot.inject(FailureUnit.SYSTEM_MOTOR, FailureType.OK, motor)
            await pilot.vehicle.sleep(1.0)
        await pilot.start_mission()
        await pilot.mission_finished()
    await pilot.return_home()


async def return_on_failure(pilot: Pilot) -> None:
    await hexarotor(pilot, square=False, action=3)
    await pilot.fail_motor(1)
    await pilot.disarmed()


async def terminate_on_failure(pilot: Pilot) -> None:
    """From 100 m it must fall freely to be down and disarmed in time: 2 s + sqrt(2 h/g)."""
    await hexarotor(pilot, 100.0, square=False, action=4)
    await pilot.fail_motor(1)
    await pilot.disarmed(1.0 + int(2.0 + math.sqrt(100.0 * 2.0 / 10.0)))


CASES: dict[str, Callable[[Pilot], Awaitable[None]]] = {
    "takeoff_and_hold": takeoff_and_hold,
    "takeoff_and_land": takeoff_and_land,
    "square_with_return": square_with_return,
    "square_then_return": square_then_return,
    "straight_line": straight_line,
    "offboard_takeoff_and_land": offboard_takeoff_and_land,
    "offboard_position": offboard_position,
    "offboard_attitude": offboard_attitude,
    "manual_position": manual_position,
    "manual_altitude": manual_altitude,
    "gps_off_barometer_height": lose_sensor(FailureUnit.SENSOR_GPS, FailureType.OFF, BAROMETER),
    "gps_off_gps_height": lose_sensor(FailureUnit.SENSOR_GPS, FailureType.OFF, GPS),
    "mag_off": lose_sensor(FailureUnit.SENSOR_MAG, FailureType.OFF),
    "baro_off_barometer_height": lose_sensor(FailureUnit.SENSOR_BARO, FailureType.OFF, BAROMETER),
    "baro_off_gps_height": lose_sensor(FailureUnit.SENSOR_BARO, FailureType.OFF, GPS),
    "baro_stuck_barometer_height": lose_sensor(FailureUnit.SENSOR_BARO, FailureType.STUCK, BAROMETER),
    "baro_stuck_gps_height": lose_sensor(FailureUnit.SENSOR_BARO, FailureType.STUCK, GPS),
    "injection_disabled": injection_disabled,
    "one_motor": one_motor,
    "two_motors": two_motors,
    "each_motor_and_back": each_motor_and_back,
    "return_on_failure": return_on_failure,
    "terminate_on_failure": terminate_on_failure,
}


async def fly(vehicle: Vehicle, options: argparse.Namespace) -> None:
    """Fly the case."""
    await vehicle.wait_until_armable()
    pilot = Pilot(vehicle, options)
    following = asyncio.create_task(pilot.follow_mission())
    try:
        await CASES[options.case](pilot)
    finally:
        following.cancel()
        await asyncio.wait([following])


if __name__ == "__main__":
    parser = command_line(__doc__)
    parser.add_argument("case", choices=CASES)
    parser.add_argument(
        "--dead-telemetry", action="store_true", help="a motor that fails reports nothing more"
    )
    parser.add_argument("--radius", type=positive, default=0.3, help="m within which a point is reached")
    parser.add_argument(
        "--limit", type=positive, default=1.0, help="s for a point, where more than the case's"
    )
    parser.add_argument(
        "--take-off-tolerance", type=positive, default=0.1, help="m, where more than the case's"
    )
    sys.exit(run(fly, parser))
