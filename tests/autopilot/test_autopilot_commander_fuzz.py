"""Whatever a commander is told, it answers with the protocol's results and goes on steering with numbers."""

from __future__ import annotations

import math
from operator import attrgetter
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from support.autopilot_point import ALTITUDE, LATITUDE, LONGITUDE, Point

from sitl_bridge.autopilot.commander import HANDLERS
from sitl_bridge.autopilot.commander_data import OffboardTarget
from sitl_bridge.autopilot.modes import flight_modes
from sitl_bridge.autopilot.parameters import Parameters
from sitl_bridge.base.errors import UserError
from sitl_bridge.plan import commands
from sitl_bridge.plan.plan_upload import MissionItem

RESULTS = range(7)  # MAV_RESULT
ODD = (math.nan, math.inf, -math.inf, 3.4e38, -3.4e38, 1e-45, 2.0**31, 2.0**63, -0.0, 0.5, 65536.0)
NAMES = tuple(Parameters().infos)

numbers = st.one_of(
    st.sampled_from(ODD), st.integers(-5, 30).map(float), st.floats(width=32), st.just(math.nan)
)
latitudes = st.one_of(st.just(LATITUDE + 1e-4), numbers)
longitudes = st.one_of(st.just(LONGITUDE - 1e-4), numbers)
heights = st.one_of(st.just(ALTITUDE + 10.0), st.just(10.0), numbers)
vectors = st.tuples(numbers, numbers, numbers)

orders = st.tuples(
    st.just("command"),
    st.one_of(st.sampled_from(sorted(HANDLERS)), st.integers(0, 65535)),
    st.tuples(numbers, numbers, numbers, numbers, latitudes, longitudes, heights),
)
items = st.builds(
    MissionItem,
    seq=st.just(0),
    frame=st.sampled_from([0, 2, 3, 5, 6, 6, 6, 1, 255]),
    command=st.one_of(
        st.sampled_from(sorted(commands.POSITION_COMMANDS | commands.PLAIN_COMMANDS)),
        st.sampled_from([5000, 5001, 5002, 5003, 5004, 5100]),
        st.integers(0, 65535),
    ),
    param1=numbers,
    param2=numbers,
    param3=numbers,
    param4=numbers,
    x=latitudes,
    y=longitudes,
    z=heights,
)
plans = st.tuples(
    st.just("plan"),
    st.sampled_from(["set_mission", "set_mission", "set_fence", "plans.set_rally"]),
    st.lists(items, max_size=5).map(
        lambda listed: tuple(
            MissionItem(
                n, i.frame, i.command, False, True, i.param1, i.param2, i.param3, i.param4, i.x, i.y, i.z
            )
            for n, i in enumerate(listed)
        )
    ),
)
targets = st.tuples(
    st.just("offboard"),
    st.builds(
        OffboardTarget,
        position=vectors,
        velocity=vectors,
        acceleration=vectors,
        yaw=numbers,
        yaw_rate=numbers,
        attitude=st.one_of(st.none(), st.tuples(numbers, numbers, numbers, numbers)),
        angular_velocity=st.one_of(st.none(), vectors),
        thrust=numbers,
        body_frame=st.booleans(),
    ),
    st.none(),
)
sticks = st.tuples(st.just("sticks"), st.tuples(numbers, numbers, numbers, numbers), st.none())
changes = st.tuples(st.just("parameter"), st.sampled_from(NAMES), numbers)
mode_orders = st.tuples(
    st.just("command"),
    st.just(176),
    st.sampled_from(flight_modes.MODES).map(
        lambda mode: (1.0, float(mode.main), float(mode.sub), *(math.nan,) * 4)
    ),
)
script = st.lists(st.one_of(orders, plans, targets, sticks, changes, mode_orders), max_size=25)


def tell(point: Point, what: str, first: Any, second: Any) -> None:
    commander = point.commander
    if what == "command":
        assert commander.command(first, second, point.now) in RESULTS
    elif what == "plan":
        before = commander.flight.items
        fault = attrgetter(first)(commander)(second)
        if fault is not None:
            assert fault.result in range(1, 16)
            assert 0 <= fault.seq <= len(second)
            assert commander.flight.items == before
    elif what == "offboard":
        commander.offboard(first, point.now)
    elif what == "sticks":
        pitch, roll, throttle, yaw = first
        commander.manual_control(pitch, roll, throttle, yaw, point.now)
    else:
        try:
            point.parameters.set(first, second)
        except UserError:
            return
        info = point.parameters.infos[first]
        assert info.minimum <= point.parameters.get(first) <= info.maximum


def assert_steers(point: Point) -> None:
    """Setpoints are numbers or nan for what is not controlled; infinity cannot be followed."""
    for name in point.setpoint.dtype.names:
        assert not np.isinf(point.setpoint[name]).any(), name
    assert np.isfinite(point.setpoint["attitude"]).all()
    assert np.isfinite(point.setpoint["thrust"])
    assert np.isfinite(point.setpoint["max_tilt"])


@settings(max_examples=150, deadline=None)
@given(script)
def test_a_commander_in_the_air_survives_whatever_it_is_told(told: list[Any]) -> None:
    point = Point()
    point.run(1.0)
    point.do(400, 1.0)
    point.do(22)
    point.run(8.0)
    assert point.commander.armed
    for step in told:
        tell(point, *step)
        point.run(0.3)
        assert_steers(point)


@settings(max_examples=100, deadline=None)
@given(script)
def test_a_commander_on_the_ground_survives_whatever_it_is_told(told: list[Any]) -> None:
    point = Point()
    point.run(1.0)
    for step in told:
        tell(point, *step)
        point.run(0.2)
        assert_steers(point)
