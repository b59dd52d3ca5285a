"""Plans of QGroundControl: what is read, what PX4 is sent, and what is refused, with which words."""

from __future__ import annotations

import contextlib
import copy
import json
import math
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.paths import MISSIONS

from sitl_bridge.base.errors import ConfigurationError
from sitl_bridge.plan.plan import Polygon, distance_on_sphere, fence_breach, with_fence_of
from sitl_bridge.plan.plan_file import json_lines, load_plan, parse_plan
from sitl_bridge.plan.plan_upload import fence_items, mission_items, rally_items, time_limit

HOME = (47.397742, 8.545594)
METRE = 1 / 111_194.93  # deg of latitude a metre, on a sphere of 6,371,000 m radius


def waypoint(north: float, east: float = 0.0, height: float = 10.0, command: int = 16) -> dict[str, Any]:
    longitude = HOME[1] + east * METRE / math.cos(math.radians(HOME[0]))
    return {
        "autoContinue": True,
        "command": command,
        "doJumpId": 1,
        "frame": 3,
        "params": [0, 0, 0, None, HOME[0] + north * METRE, longitude, height],
        "type": "SimpleItem",
    }


def plain(command: int, *params: float | None) -> dict[str, Any]:
    padded = [*params, *[0] * (7 - len(params))]
    return {"autoContinue": True, "command": command, "frame": 2, "params": padded, "type": "SimpleItem"}


def document(*items: dict[str, Any], **parts: Any) -> dict[str, Any]:
    return {
        "fileType": "Plan",
        "version": 1,
        "groundStation": "QGroundControl",
        "mission": {
            "version": 2,
            "firmwareType": 12,
            "items": list(items),
            "plannedHomePosition": [*HOME, 488.0],
        },
        **parts,
    }


def faults(data: Any) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        parse_plan(json.dumps(data))
    return list(caught.value.faults)


def one_fault(data: Any) -> str:
    found = faults(data)
    assert len(found) == 1, found
    assert found[0].startswith("line 1: ")
    return found[0].removeprefix("line 1: ")


def test_the_shipped_square_is_a_square_of_30_m() -> None:
    plan = load_plan(MISSIONS / "square.plan")
    assert [item.command for item in plan.items] == [22, 16, 16, 16, 16, 20]
    assert plan.length == pytest.approx(120.0, abs=0.1)
    assert plan.lands


def test_the_shipped_survey_is_expanded_and_carries_fence_and_rally_points() -> None:
    plan = load_plan(MISSIONS / "survey.plan")
    raw = json.loads((MISSIONS / "survey.plan").read_text())
    inside = raw["mission"]["items"][2]["TransectStyleComplexItem"]["Items"]
    assert len(plan.items) == 3 + len(inside)
    assert plan.items[2].where == "item 3 (survey), part 1"
    assert [item.command for item in plan.items[2:-1]] == [item["command"] for item in inside]
    assert len(fence_items(plan)) == 5
    assert [item.command for item in rally_items(plan)] == [5100, 5100]


def test_items_go_out_as_mavlink_has_them() -> None:
    plan = parse_plan(json.dumps(document(waypoint(0, command=22), waypoint(50.0), plain(178, 1, 5, -1))))
    takeoff, point, speed = mission_items(plan)
    assert (takeoff.seq, point.seq, speed.seq) == (0, 1, 2)
    assert (takeoff.current, point.current) == (1, 0)
    assert point.message((1, 1)).x == round((HOME[0] + 50.0 * METRE) * 1e7)
    assert point.message((1, 1)).y == round(HOME[1] * 1e7)
    assert math.isnan(point.param4)  # open heading
    assert (speed.frame, speed.param1, speed.param2, speed.param3) == (2, 1, 5, -1)


def test_jumps_point_at_sequence_numbers() -> None:
    first, second = waypoint(10.0), waypoint(20.0)
    first["doJumpId"], second["doJumpId"] = 7, 9
    jump = plain(177, 9, 3) | {"doJumpId": 10}
    plan = parse_plan(json.dumps(document(first, second, jump)))
    assert mission_items(plan)[2].param1 == 1.0
    assert time_limit(plan) > time_limit(parse_plan(json.dumps(document(first, second))))


def test_geofence_items_carry_radius_and_vertex_count_and_circles_come_last_for_px4() -> None:
    corners = [[HOME[0] + n * METRE * 100, HOME[1] + e * METRE * 100] for n, e in ((-1, -1), (2, -1), (0, 3))]
    fence = {
        "version": 2,
        "circles": [{"circle": {"center": [HOME[0] + 0.01, HOME[1]], "radius": 30}, "inclusion": False}],
        "polygons": [{"polygon": corners, "inclusion": True}],
    }
    items = fence_items(parse_plan(json.dumps(document(waypoint(5.0), geoFence=fence))))
    assert [(item.command, item.param1) for item in items] == [(5001, 3.0)] * 3 + [(5004, 30.0)]
    assert {item.frame for item in items} == {0}


def test_all_faults_are_told_at_once_with_their_items() -> None:
    bad = waypoint(10.0)
    bad["params"][4] = 95.0
    worse = waypoint(10.0)
    worse["params"][6] = None
    data = document(bad, worse, plain(9999), {"type": "SimpleItem"})
    text = json.dumps(data, indent=1)
    with pytest.raises(ConfigurationError) as caught:
        parse_plan(text)
    found = caught.value.faults
    rows = text.splitlines()
    line = rows.index("     95.0,") + 1
    assert found[0] == f"line {line}: item 1: latitude 95 deg is not within -90..90"
    line = rows.index("     null") + 1
    assert found[1] == f"line {line}: item 2: param 7 (altitude) is open: PX4 needs one here"
    line = rows.index('    "command": 9999,') + 1
    assert found[2].startswith(f"line {line}: item 3: PX4 does not accept command 9999")
    line = max(k for k, row in enumerate(rows, start=1) if row == "   {")
    assert f"line {line}: item 4: command: must be a whole number, not null" in found


def test_text_that_is_no_json_is_refused_with_its_line() -> None:
    for text, said in (
        ('{\n"mission": }', "line 2: is not a JSON file: Expecting value (column 12)"),
        ('{"NaN": 1,\n\n"a": NaN}', "line 3: is not a JSON file: NaN is not JSON; an open parameter"),
    ):
        with pytest.raises(ConfigurationError) as caught:
            parse_plan(text)
        assert caught.value.faults[0].startswith(said)


@pytest.mark.parametrize(
    "value", [1, [], {}, [[], {"a": [1, {"b": 'x,\\n]"}'}]}], {"k": {"": [True, None, {"deep": [[1], [2]]}]}}]
)
def test_every_field_of_a_json_text_has_its_line(value: Any) -> None:
    def fields(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        yield path
        pairs = (
            value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        )
        for key, inner in pairs:
            yield from fields(inner, (*path, key))

    lines = json_lines(json.dumps(value, indent=2))
    assert set(lines) == set(fields(value, ()))
    assert sorted(lines.values()) == [*lines.values()]
    assert set(json_lines(json.dumps(value)).values()) == {1}


@pytest.mark.parametrize(
    ("item", "words"),
    [
        (waypoint(20_000.0), "20.0 km from the planned home"),
        (waypoint(10.0, height=20_000.0), "altitude 20000 m"),
        (waypoint(10.0) | {"frame": 10}, "PX4 does not accept frame 10"),
        (waypoint(10.0) | {"command": 82}, "PX4 does not accept MAV_CMD_NAV_SPLINE_WAYPOINT (82)"),
        (waypoint(10.0) | {"frame": 2}, "it needs a position"),
        (waypoint(10.0) | {"params": [0, 0, 0]}, "seven numbers"),
        (waypoint(10.0) | {"params": [None, 0, 0, None, *HOME, 10]}, "param 1 (hold time)"),
        (waypoint(10.0) | {"params": [-5, 0, 0, None, *HOME, 10]}, "is negative: -5"),
        (waypoint(10.0) | {"params": [0, 0, 0, None, 0, 0, 10]}, "both 0"),
        (waypoint(10.0) | {"command": True}, "must be a whole number"),
        (waypoint(10.0) | {"type": "Fancy"}, "SimpleItem or ComplexItem"),
        (waypoint(0.0, command=22, height=-3.0), "takes off to -3 m"),
        ({"type": "ComplexItem", "complexItemType": "fwLandingPattern"}, "(fwLandingPattern)"),
        (
            {"type": "ComplexItem", "complexItemType": "survey", "TransectStyleComplexItem": {"Items": []}},
            "has no items",
        ),
    ],
)
def test_what_px4_would_refuse_or_never_reach_is_told_with_its_reason(item: Any, words: str) -> None:
    assert any(words in fault for fault in faults(document(item))), faults(document(item))


def test_missions_px4_would_refuse_as_a_whole() -> None:
    assert "starts with a landing" in one_fault(document(waypoint(5.0, command=21)))
    assert "take-off as the first" in one_fault(document(waypoint(5.0), waypoint(5.0, command=22)))
    assert "never reached" in one_fault(document(waypoint(5.0, command=17), waypoint(6.0)))
    assert "jumps to item 44" in one_fault(document(waypoint(5.0), plain(177, 44, 1)))
    assert "has no item with a position" in one_fault(document(plain(20)))
    assert "is empty; add items" in one_fault(document())


def test_a_waypoint_outside_the_fence_or_in_an_excluded_part_is_refused() -> None:
    circle = {"center": list(HOME), "radius": 50}
    inclusion = {"version": 2, "circles": [{"circle": circle, "inclusion": True}], "polygons": []}
    assert one_fault(document(waypoint(60.0), geoFence=inclusion)) == "item 1: is outside the geofence"
    beside = {"center": [HOME[0] + 60 * METRE, HOME[1]], "radius": 20}
    exclusion = {"version": 2, "circles": [{"circle": beside, "inclusion": False}], "polygons": []}
    assert "is in an exclusion area" in one_fault(document(waypoint(60.0), geoFence=exclusion))


FENCE = {
    "version": 2,
    "circles": [{"circle": {"center": [*HOME], "radius": 20.0}, "inclusion": True, "version": 1}],
    "polygons": [],
}


def test_a_geofence_without_a_mission_is_read_as_such_and_not_flown() -> None:
    alone = document(geoFence=FENCE)
    assert "a geofence alone; fly a mission within it, or let vehicles wait in it" in one_fault(alone)
    for fence in (True, None):
        plan = parse_plan(json.dumps(alone), fence=fence)
        assert (len(plan.items), plan.circles[0].radius, plan.notes) == (0, 20.0, ())
    with_mission = parse_plan(json.dumps(document(waypoint(60.0), geoFence=FENCE)), fence=True)
    assert "not flown" in with_mission.notes[0]
    flown = with_fence_of(parse_plan(json.dumps(document(waypoint(5.0)))), plan)
    assert (len(flown.items), flown.circles) == (1, plan.circles)


@pytest.mark.parametrize(
    "data", [document(waypoint(5.0)), document(), {}, [], {"mission": [], "geoFence": 1}]
)
def test_a_plan_without_a_geofence_is_none_for_it(data: Any) -> None:
    with pytest.raises(ConfigurationError):
        parse_plan(json.dumps(data), fence=True)


def test_a_plan_for_another_autopilot_or_of_another_kind_is_refused() -> None:
    other = document(waypoint(5.0))
    other["mission"]["firmwareType"] = 3
    assert "another autopilot" in one_fault(other)
    assert 'fileType: must be "Plan"' in faults({"fileType": "GeoFence", "mission": {}})[0]


@pytest.mark.parametrize("text", ["", "[]", "3", "{", '{"a": NaN}', "[" * 100_000, '{"x": 1e999}'])
def test_files_that_are_no_plans_are_refused_without_a_traceback(text: str) -> None:
    with pytest.raises(ConfigurationError):
        parse_plan(text)


def test_nan_is_named_as_such() -> None:
    text = json.dumps(document(waypoint(5.0))).replace("null", "NaN", 1)
    with pytest.raises(ConfigurationError, match="an open parameter is written null"):
        parse_plan(text)


def test_too_many_items_are_told_with_px4s_limits() -> None:
    assert "PX4 stores 500" in one_fault(document(*[waypoint(float(k % 9)) for k in range(501)]))
    rally = {"version": 2, "points": [[*HOME, 10]] * 33}
    assert "PX4 stores 32" in one_fault(document(waypoint(5.0), rallyPoints=rally))


def test_distance_is_that_of_px4s_sphere() -> None:
    assert distance_on_sphere((47.0, 8.0), (48.0, 8.0)) == pytest.approx(111_194.93, rel=1e-6)
    assert distance_on_sphere((60.0, 8.0), (60.0, 9.0)) == pytest.approx(111_194.93 / 2, rel=1e-4)


@given(st.floats(-3, 3), st.floats(-3, 3))
def test_a_square_contains_what_lies_between_its_sides(latitude: float, longitude: float) -> None:
    square = Polygon(((-1.0, -1.0), (-1.0, 1.0), (1.0, 1.0), (1.0, -1.0)), inclusion=True)
    if min(abs(abs(latitude) - 1), abs(abs(longitude) - 1)) > 1e-9:
        assert square.contains((latitude, longitude)) == (abs(latitude) < 1 and abs(longitude) < 1)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    entries = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    return [path, *(p for key, entry in entries for p in paths(entry, (*path, key)))]


SURVEY = json.loads((MISSIONS / "survey.plan").read_text())
SURVEY_PATHS = [path for path in paths(SURVEY) if path]


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(SURVEY_PATHS), JSON)
def test_a_plan_with_any_part_replaced_loads_or_is_refused_with_faults(path: Any, value: Any) -> None:
    data = copy.deepcopy(SURVEY)
    place = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    plan = None
    with contextlib.suppress(ConfigurationError):  # any other exception fails
        plan = parse_plan(json.dumps(data))
    if plan is None:
        return
    # What was accepted can be sent: every item fits its message's fields.
    for item in [*mission_items(plan), *fence_items(plan), *rally_items(plan)]:
        message = item.message((1, 1))
        assert -(2**31) <= message.x < 2**31
        assert -(2**31) <= message.y < 2**31
        assert 0 <= item.command < 2**16
        assert math.isfinite(item.z)
    assert math.isfinite(time_limit(plan))


@settings(max_examples=60, deadline=None)
@given(JSON)
def test_any_json_is_refused_without_a_traceback(value: Any) -> None:
    with pytest.raises(ConfigurationError):
        parse_plan(json.dumps(value))


Point = tuple[float, float, float]
points = st.tuples(st.floats(-4000, 4000), st.floats(-4000, 4000), st.floats(2, 120))


@settings(max_examples=50, deadline=None)
@given(st.lists(points, min_size=1, max_size=6))
def test_any_near_waypoints_load_and_arrive_within_a_centimetre(route: list[Point]) -> None:
    plan = parse_plan(json.dumps(document(*(waypoint(*point) for point in route))))
    for item, (north, _, height) in zip(mission_items(plan), route, strict=True):
        assert (item.message((1, 1)).x * 1e-7 - HOME[0]) / METRE == pytest.approx(north, abs=0.01)
        assert item.z == pytest.approx(height)
    assert fence_breach(plan, HOME) == ""


# ------------------------------------------------------------------ as lenient as QGroundControl, and no more


@pytest.mark.parametrize("old", [{"version": 1, "polygon": [], "parameters": []}, {"circles": "no list"}])
def test_fence_and_rally_sections_of_version_1_are_ignored_and_named(old: dict[str, Any]) -> None:
    plan = parse_plan(json.dumps(document(waypoint(5.0), geoFence=old, rallyPoints=old)))
    assert (plan.circles, plan.polygons, plan.rally_points) == ((), (), ())
    assert [note.split(":")[0] for note in plan.notes] == ["geoFence", "rallyPoints"]
    later = document(waypoint(5.0), geoFence={"version": 3, "circles": [], "polygons": []})
    assert one_fault(later) == "geoFence.version: must be 2, not 3"


def test_the_altitude_of_the_planned_home_may_be_open() -> None:
    data = document(waypoint(5.0))
    data["mission"]["plannedHomePosition"] = [*HOME, None]
    plan = parse_plan(json.dumps(data))
    assert plan.home[:2] == HOME
    assert math.isnan(plan.home[2])
    data["mission"]["plannedHomePosition"] = [HOME[0], None, 488.0]
    assert "plannedHomePosition" in one_fault(data)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (1, "fixed-wing"),
        (10, "rover"),
        (11, "boat"),
        (12, "submarine"),
        (20, "VTOL"),
        (22, "VTOL"),
        (7, "MAV_TYPE 7"),
    ],
)
def test_plans_for_other_vehicles_are_refused_by_their_kind(kind: int, words: str) -> None:
    data = document(waypoint(5.0))
    data["mission"]["vehicleType"] = kind
    fault = one_fault(data)
    assert fault.startswith("mission.vehicleType: the plan was made for ")
    assert words in fault


@pytest.mark.parametrize("command", [84, 85, 3000])
def test_items_for_vtol_aircraft_are_refused(command: int) -> None:
    assert "is for VTOL aircraft" in one_fault(document(waypoint(5.0), waypoint(9.0, command=command)))


@pytest.mark.parametrize("kind", [0, 2, 13, 14, 15])
def test_plans_for_multirotors_are_read(kind: int) -> None:
    data = document(waypoint(5.0))
    data["mission"]["vehicleType"] = kind
    assert parse_plan(json.dumps(data)).notes == ()
