"""Flights of the scout: with the built-in flight stack in seconds, with PX4 by --sitl-autopilot px4."""

import asyncio
import math

import pytest
from mavsdk.asyncio import ComponentType, Configuration, Mavsdk
from mavsdk.asyncio.plugins.action import ActionAsync
from mavsdk.asyncio.plugins.telemetry import TelemetryAsync


def test_flies_a_leg_and_lands_there(sitl):
    sitl.arm()
    sitl.take_off(5)
    sitl.go_to((20, 0, -5))
    assert sitl.reached((20, 0, -5), within=1.5)
    assert sitl.stayed_inside(north=(-3, 23), east=(-4, 4), height=(-1, 8))
    sitl.land()
    assert sitl.landed_within(2.0, of=(20, 0))


@pytest.mark.parametrize("wind", [pytest.param(w, marks=pytest.mark.wind(w)) for w in ("8@0", "8@90")])
def test_comes_home_in_strong_wind(sitl, wind):
    sitl.arm()
    sitl.take_off(10)
    sitl.go_to((15, 15, -10), within=1.0)
    sitl.return_home()
    assert sitl.landed_within(3.0), f"in wind {wind}"


@pytest.mark.faults({"at": 15.0, "kind": "gps_jamming"})
def test_lands_when_gps_is_lost(sitl):
    sitl.arm()
    sitl.take_off(5)
    sitl.run_until(lambda flight: not flight.armed, limit=120)
    assert sitl.landed_within(40.0)


async def climb(url: str) -> None:
    """A MAVSDK program; with pytest-asyncio or anyio it may be the test itself."""
    async with Mavsdk(Configuration.create_with_component_type(ComponentType.GROUND_STATION)) as mavsdk:
        await mavsdk.add_any_connection(url)
        drone = await mavsdk.first_autopilot(timeout_s=30)
        action, telemetry = ActionAsync(drone), TelemetryAsync(drone)
        async for ok in telemetry.subscribe_health_all_ok():
            if ok:
                break
        await action.set_takeoff_altitude(6.0)
        await action.arm()
        await action.takeoff()
        async for position in telemetry.subscribe_position():
            if math.isclose(position.relative_altitude_m, 6.0, abs_tol=1.0):
                break
        await action.land()
        async for armed in telemetry.subscribe_armed():
            if not armed:
                break


def test_a_mavsdk_program_climbs(sitl):
    asyncio.run(asyncio.wait_for(climb(sitl.url()), timeout=120))
    assert sitl.landed_within(3.0)
