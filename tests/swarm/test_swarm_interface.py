"""The arithmetic of a fleet over MAVSDK, without vehicles: clocks, the common frame, who is gone."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
from mavsdk.plugins.telemetry import FlightMode

from sitl_bridge.core.world.geography import Projection
from sitl_bridge.session.missions.mavsdk_fleet import MavsdkFleet
from sitl_bridge.session.missions.mavsdk_vehicle import MissionFailedError
from sitl_bridge.session.missions.swarm_vehicle import SwarmVehicle
from sitl_bridge.swarm.interface import Setpoints

PLACES = np.array([[0.0, 0.0, -8.0], [3.0, 0.0, -8.0], [0.0, 3.0, -8.0]])
COMMON = (47.397742, 8.545594, 488.0)


class Targets:
    """Keeps what would be sent."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def set_position_velocity_acceleration_ned(self, *target: Any) -> None:
        self.sent.append(target)


class Fake:
    """A member that says what the test has it say: ``origin_at`` is m NED from COMMON."""

    def __init__(
        self, number: int, origin_at: tuple[float, float, float], stands: np.ndarray[Any, Any]
    ) -> None:
        projection = Projection(math.radians(COMMON[0]), math.radians(COMMON[1]), COMMON[2])
        self.number = number
        self.shift, self.stamp, self.heard = 0.0, 10.0, 0.0
        self.origin = np.full(3, np.nan)
        self.local = np.array([*(stands - origin_at), 0.0, 0.0, 0.0])
        latitude, longitude = projection.point(float(stands[0]), float(stands[1]))
        # As GLOBAL_POSITION_INT rounds them: 1e-7 deg and mm.
        self.global_position = (
            round(latitude, 7),
            round(longitude, 7),
            round(projection.altitude(float(stands[2])), 3),
        )
        self.attitude = (0.0, 0.0, 90.0)
        self.fixes, self.left, self.armed, self.mode = 0, "", True, FlightMode.OFFBOARD
        self.targets = Targets()

    @property
    def clock(self) -> float:
        return self.stamp + self.shift

    @property
    def flying_here(self) -> bool:
        return self.armed and self.mode == FlightMode.OFFBOARD and not self.left

    async def wait(self, what: str, condition: Callable[[], bool], limit: float) -> None:
        assert limit > 0.0
        self.fixes += 1
        assert condition(), what


ORIGINS = ((0.1, -0.2, 1.3), (3.4, 0.3, -0.6), (-0.3, 2.8, 0.2))


def fleet_of(stands: np.ndarray[Any, Any]) -> tuple[MavsdkFleet, list[Fake], list[str]]:
    said: list[str] = []
    fleet = MavsdkFleet(said.append)
    fakes = [Fake(i, origin, stands[i]) for i, origin in enumerate(ORIGINS)]
    fleet.members = cast(list[SwarmVehicle], fakes)
    fleet._alive = np.ones(len(fakes), dtype=np.bool_)
    fleet.time = 10.0
    return fleet, fakes, said


@pytest.mark.parametrize("common", [COMMON, None])
def test_origins_of_their_own_come_to_one_frame_within_two_centimetres(
    common: tuple[float, float, float] | None,
) -> None:
    async def found() -> None:
        stands = PLACES * (1.0, 1.0, 0.0)
        fleet, _, _ = fleet_of(stands)
        origin = await fleet.find_origins(PLACES, common)
        assert origin == pytest.approx(COMMON, abs=0.02)
        assert origin[:2] == pytest.approx(COMMON[:2], abs=2e-7)
        # One message's rounding: 11 mm in latitude.
        assert fleet.states().position == pytest.approx(stands, abs=0.02)

    asyncio.run(found())


def test_surveyed_vehicles_are_where_they_stand_whatever_their_receivers_say() -> None:
    async def found() -> None:
        stands = PLACES * (1.0, 1.0, 0.0)
        off = np.array([[0.4, -0.3, 0.8], [0.0, 0.5, -0.7], [-0.6, 0.1, 0.0]])
        fleet, _, _ = fleet_of(stands + off)
        await fleet.find_origins(PLACES, COMMON, surveyed=True)
        assert fleet.states().position == pytest.approx(stands, abs=1e-9)

    asyncio.run(found())


def test_vehicles_in_each_others_places_are_refused_by_name() -> None:
    async def found() -> None:
        stands = PLACES[[0, 2, 1]] * (1.0, 1.0, 0.0)
        fleet, _, _ = fleet_of(stands)
        with pytest.raises(MissionFailedError, match=r"vehicle 1 by 4\.2 m, vehicle 2 by 4\.2 m"):
            await fleet.find_origins(PLACES)

    asyncio.run(found())


def test_positions_are_carried_to_the_moment_of_the_tick() -> None:
    async def flown() -> None:
        fleet, fakes, _ = fleet_of(PLACES)
        for fake in fakes:
            fake.origin = np.zeros(3)
            fake.local = np.array([1.0, 2.0, -8.0, 2.0, 0.0, 0.0])
        fakes[1].stamp = 9.9
        # Switched on an hour before the others.
        fakes[2].stamp, fakes[2].shift = 3609.95, -3600.0
        states = fleet.states()
        assert states.time == 10_000_000
        assert states.position[:, 0] == pytest.approx([1.0, 1.2, 1.1])
        assert states.yaw == pytest.approx(math.pi / 2)

    asyncio.run(flown())


def test_a_vehicle_that_falls_silent_or_is_taken_over_is_gone_and_told_once() -> None:
    async def flown() -> None:
        fleet, fakes, said = fleet_of(PLACES)
        fleet._monitoring = True
        now = asyncio.get_running_loop().time()
        for fake in fakes:
            fake.heard = now
        assert fleet.states().alive.all()
        fleet.time = fakes[0].stamp = fakes[2].stamp = 11.5
        # Simulated time alone does not make it lost: the computer may just be slow.
        assert fleet.states().alive.all()
        fakes[1].heard = now - 1.0
        fakes[2].mode = FlightMode.RETURN_TO_LAUNCH
        for _ in range(3):
            assert fleet.states().alive.tolist() == [True, False, False]
        assert [line.split("] ")[1] for line in said] == [
            "vehicle 1 sends no telemetry any more",
            "vehicle 2 changed to RETURN_TO_LAUNCH by itself",
        ]
        fakes[1].stamp, fakes[1].heard = 11.5, now
        assert fleet.states().alive.tolist() == [True, True, False]

    asyncio.run(flown())


def test_setpoints_go_out_in_each_vehicles_frame_as_they_will_be_half_an_interval_later() -> None:
    async def flown() -> None:
        fleet, fakes, _ = fleet_of(PLACES)
        fleet.interval = 0.1
        for fake, origin in zip(fakes, ORIGINS, strict=True):
            fake.origin = np.array(origin)
        fakes[2].left = "land"
        told = Setpoints(PLACES.copy(), np.full((3, 3), 2.0), np.full((3, 3), 1.0), np.zeros(3))
        told.put(np.array([1]), Setpoints.none(1))
        await fleet.command(told)
        assert [len(fake.targets.sent) for fake in fakes] == [1, 0, 0]
        position, velocity, acceleration = fakes[0].targets.sent[0]
        later = 2.0 * 0.05 + 0.5 * 0.05**2
        assert position.north_m == pytest.approx(0.0 - 0.1 + later)
        assert position.down_m == pytest.approx(-8.0 - 1.3 + later)
        assert velocity.east_m_s == pytest.approx(2.05)
        assert acceleration.down_m_s2 == pytest.approx(1.0)

    asyncio.run(flown())


def test_setpoints_that_are_late_go_out_as_they_will_be_when_they_come() -> None:
    async def flown() -> None:
        fleet, fakes, _ = fleet_of(PLACES)
        for fake in fakes:
            fake.origin = np.zeros(3)
        # The states of the tick are of 10 s; the vehicles' clock is at 10.08 s by now.
        fleet._ticked, fleet.time = 10.0, 10.08
        told = Setpoints(PLACES.copy(), np.full((3, 3), 2.0), np.zeros((3, 3)), np.zeros(3))
        await fleet.command(told)
        position, _, _ = fakes[0].targets.sent[0]
        assert position.north_m == pytest.approx(PLACES[0, 0] + 2.0 * (0.08 + 0.5 * fleet.interval))

    asyncio.run(flown())


def test_the_clock_goes_on_at_its_pace_between_two_messages() -> None:
    async def flown() -> None:
        fleet, fakes, _ = fleet_of(PLACES)
        begun = time.monotonic()
        for k in range(12):
            fakes[0].stamp = 10.0 + 2.0 * (time.monotonic() - begun)
            fleet.on_position(cast(SwarmVehicle, fakes[0]))
            await asyncio.sleep(0.05)
            assert fleet.now() <= fleet.time + 0.3, k
        # Twice real time, of a twentieth of a second that may have been longer on a busy computer.
        assert fleet.now() - fleet.time >= 0.99 * 2.0 * 0.05

    asyncio.run(flown())
