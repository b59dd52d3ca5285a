"""Shapes, who flies where in them, and paths through time."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sitl_bridge.base.errors import ConfigurationError, UserError
from sitl_bridge.base.rotations import matrix_from_euler
from sitl_bridge.swarm.formation.assignment import assign, assign_wide, closest_approach
from sitl_bridge.swarm.formation.choreography import Choreography, in_world
from sitl_bridge.swarm.formation.files import COLUMNS, read_csv, write_csv
from sitl_bridge.swarm.formation.patterns import (
    NAMES,
    SHAPES,
    XTDRONE,
    check_separation,
    closest_pair,
    pattern,
)
from sitl_bridge.swarm.formation.trajectory import (
    Limits,
    UnsafeShowError,
    minimum_jerk,
    move_time,
    path_through,
)

Array = NDArray[np.float64]


def points(seed: int, count: int, size: float = 10.0) -> Array:
    return np.random.default_rng(seed).uniform(-size, size, (count, 3))


# ---------------------------------------------------------------- patterns


def test_nine_slots_are_those_xtdrone_prints() -> None:
    # formation_dict.py, forward left up: its pyramid and triangle open downwards, below the leader.
    cube = {tuple(p) for p in itertools.product((2.0, -2.0), repeat=3)} | {(0.0, 0.0, 0.0)}
    assert {tuple(p) for p in pattern("cube", 9)} == cube
    pyramid = pattern("pyramid", 9)
    assert {tuple(p) for p in pyramid[1:]} == {
        (i * a, j * a, a) for a in (2.0, 4.0) for i in (1, -1) for j in (1, -1)
    }
    triangle = pattern("triangle", 9)
    assert np.all(triangle[:, 0] == 0.0)
    assert sorted(triangle[:, 2].tolist()) == [0, 2, 2, 2, 4, 4, 4, 4, 4]


@pytest.mark.parametrize("name", ["cube", "pyramid", "triangle"])
def test_shapes_for_any_number_have_xtdrones_nine_among_them(name: str) -> None:
    ours = {tuple(p) for p in SHAPES[name](9) * 4.0}
    assert ours == {tuple(p) for p in XTDRONE[name, 9]}


@pytest.mark.parametrize(("name", "nearest"), [
    ("grid", 1.0), ("column", 1.0), ("v", 1.0), ("circle", 1.0),
    ("cube", math.sqrt(0.75)), ("pyramid", math.sqrt(0.75)), ("triangle", 0.5),
])  # fmt: skip
@pytest.mark.parametrize("count", [9, 18, 100, 2000])
def test_every_shape_keeps_its_spacing_for_any_number(name: str, nearest: float, count: int) -> None:
    slots = pattern(name, count, 3.0)
    assert slots.shape == (count, 3)
    assert np.all(slots[0] == 0.0)
    assert closest_pair(slots)[0] == pytest.approx(3.0 * nearest, rel=1e-9)


def test_eighteen_of_xtdrone_stand_as_there() -> None:
    # The sphere has radius 6 about a centre 6 m ahead of the leader; the cuboid is 8 x 4 x 8 m.
    sphere = XTDRONE["sphere", 18] - (6.0, 0.0, 0.0)
    assert np.linalg.norm(sphere, axis=1) == pytest.approx(np.full(18, 6.0))
    assert np.ptp(XTDRONE["cuboid", 18], axis=0).tolist() == [8.0, 4.0, 8.0]
    assert all(len(slots) == count for (_, count), slots in XTDRONE.items())


@pytest.mark.parametrize("count", [2, 9, 50, 51])
def test_the_closest_pair_is_that_of_all_pairs(count: int) -> None:
    some = points(count, count)
    least, i, j = min(
        (float(np.linalg.norm(some[i] - some[j])), i, j) for i, j in itertools.combinations(range(count), 2)
    )
    distance, *pair = closest_pair(some)
    assert distance == pytest.approx(least, rel=1e-14)
    assert pair == [i, j]


def test_unknown_patterns_and_counts_are_refused_with_what_there_is() -> None:
    with pytest.raises(UserError, match="cuboid is for 18 vehicles, not 9"):
        pattern("cuboid", 9)
    with pytest.raises(UserError, match="no pattern is called 'cub'"):
        pattern("cub", 9)
    assert {"t", "diamond", "sphere"} <= set(NAMES)


def test_slots_that_are_too_close_are_named() -> None:
    slots = np.array([[0.0, 0, 0], [3, 0, 0], [3, 0, 0.5]])
    with pytest.raises(UserError, match=r"slots 1 and 2 are 0.50 m apart, below the limit of 1 m"):
        check_separation(slots, 1.0, "mine")


def test_a_formation_heading_east_has_forward_in_the_east() -> None:
    assert matrix_from_euler(0.0, 0.0, math.pi / 2) @ [1.0, 0.0, 0.0] == pytest.approx([0.0, 1.0, 0.0])
    assert matrix_from_euler(0.0, 0.0, math.pi / 2) @ [0.0, 1.0, 0.0] == pytest.approx([-1.0, 0.0, 0.0])


def test_derivatives_of_a_turning_frame_are_those_of_its_positions() -> None:
    f0, f1, f2, rate, h = points(1, 4), points(2, 4), points(3, 4), 0.3, 1e-4

    def place(t: float) -> Array:
        turned: Array = np.einsum(
            "ij,nj->ni", matrix_from_euler(0.0, 0.0, 0.7 + rate * t), f0 + t * f1 + 0.5 * t * t * f2
        )
        return turned

    position, velocity, acceleration = in_world(np.stack([f0, f1, f2]), np.full(4, 0.7), np.full(4, rate))
    assert position == pytest.approx(place(0.0))
    assert velocity == pytest.approx((place(h) - place(-h)) / (2 * h), abs=1e-5)
    assert acceleration == pytest.approx((place(h) - 2 * place(0) + place(-h)) / h**2, abs=1e-5)


# ---------------------------------------------------------------- assignment


@given(seed=st.integers(0, 10_000), count=st.integers(1, 6))
def test_assignment_is_the_best_of_all_permutations(seed: int, count: int) -> None:
    begin, slots = points(seed, count), points(seed + 1, count)
    cost = ((begin[:, None] - slots[None]) ** 2).sum(axis=2)
    best = min(sum(cost[i, p[i]] for i in range(count)) for p in itertools.permutations(range(count)))
    chosen = assign(begin, slots)
    assert sorted(chosen.tolist()) == list(range(count))
    assert cost[np.arange(count), chosen].sum() == pytest.approx(best)


@given(seed=st.integers(0, 10_000), count=st.integers(2, 40))
def test_straight_ways_of_an_assignment_do_not_cross(seed: int, count: int) -> None:
    begin, slots = points(seed, count), points(seed + 1, count)
    end = slots[assign(begin, slots)]
    # CAPT, theorem 4.1, of an optimal assignment
    bound = math.sqrt(0.5) * min(closest_pair(begin)[0], closest_pair(end)[0])
    assert closest_approach(begin, end)[0] >= bound - 1e-9


def test_ways_of_another_assignment_do_cross() -> None:
    begin = np.array([[0.0, 0, 0], [4, 0, 0]])
    end = begin[::-1] + np.array([0.0, 3.0, 0.0])
    distance, part, i, j = closest_approach(begin, end)
    assert (distance, part) == pytest.approx((0.0, 0.5))
    assert (i, j) == (0, 1)
    assert assign(begin, end).tolist() == [1, 0]


@pytest.mark.parametrize("seed", range(5))
def test_closest_approach_of_many_is_that_of_all_pairs(seed: int) -> None:
    begin, end = points(seed, 400, 30.0), points(seed + 50, 400, 30.0)
    part = np.linspace(0.0, 1.0, 201)
    least = min(closest_pair(begin + p * (end - begin))[0] for p in part)
    found = closest_approach(begin, end)
    assert found[0] <= least
    at_part = begin + found[1] * (end - begin)
    assert np.linalg.norm(at_part[found[2]] - at_part[found[3]]) == pytest.approx(found[0], abs=1e-9)


def test_ways_lead_around_a_vehicle_that_keeps_its_slot() -> None:
    begin = np.array([[0.0, 0, 0], [-3, 0, 0], [-3, 4, 0]])
    slots = np.array([[0.0, 0, 0], [3, 0.1, 0], [0, 4, 0]])
    blind = slots[assign(begin, slots, fixed={0: 0})]
    careful = slots[assign(begin, slots, fixed={0: 0}, clearance=1.0)]
    assert closest_approach(begin, blind)[0] < 0.1
    assert closest_approach(begin, careful)[0] > 1.0


def test_of_equally_short_ways_the_widest_are_taken() -> None:
    # Least separations by trying all permutations of the eight followers, the leader in its slot.
    begin = pattern("cube", 9)
    for name, widest in (("pyramid", 2.8284), ("triangle", 1.7889), ("cube", 1.7889)):
        slots = pattern(name, 9)
        plain = slots[assign(begin, slots, fixed={0: 0}, clearance=1.414)]
        end = slots[assign_wide(begin, slots, fixed={0: 0}, clearance=1.414)]
        assert ((end - begin) ** 2).sum() == pytest.approx(((plain - begin) ** 2).sum())
        assert closest_approach(begin, end)[0] == pytest.approx(widest, abs=1e-3)
        begin = end


def test_more_slots_than_vehicles_leave_the_far_ones_empty() -> None:
    slots = np.array([[50.0, 0, 0], [1, 0, 0], [0, 0, 0]])
    assert assign(np.array([[0.0, 0, 0], [1, 0, 0]]), slots).tolist() == [2, 1]
    with pytest.raises(ValueError, match="2 slots are too few for 3 vehicles"):
        assign(slots, slots[:2])


def test_a_move_that_would_bring_vehicles_together_is_refused() -> None:
    choreography = Choreography(np.array([[0.0, 0, 0], [3, 0, 0]]), Limits(separation=2.5))
    with pytest.raises(UserError, match=r"vehicles 0 and 1 would come within 2\.\d+ m after 50% of the way"):
        choreography.add("turned", np.array([[1.5, -1.5, 0], [1.5, 1.5, 0]]), 0)


# ---------------------------------------------------------------- trajectories


def test_a_minimum_jerk_move_reaches_its_peaks_and_no_more() -> None:
    t = np.linspace(0.0, 1.0, 100_001)
    way, rate, bend = minimum_jerk(t)
    assert (way[0], way[-1], rate[0], rate[-1], bend[0], bend[-1]) == (0, 1, 0, 0, 0, 0)
    assert way[50_000] == pytest.approx(0.5)
    assert rate.max() == pytest.approx(1.875)
    assert bend.max() == pytest.approx(10.0 / math.sqrt(3.0), rel=1e-8)
    assert move_time(8.0, 2.0, 100.0) == pytest.approx(7.5)
    assert np.gradient(way, t)[1:-1] == pytest.approx(rate[1:-1], abs=1e-8)


def test_a_path_through_waypoints_meets_them_within_its_limits() -> None:
    corners = np.array([[0.0, 0, -10], [20, 0, -10], [20, 20, -12], [0, 20, -10]])
    path = path_through(corners, speed=3.0, acceleration=1.5, holds=[2.0, 0.0, 5.0, 1.0], yaw=0.0)
    fine = path.at(np.linspace(0.0, path.duration, 20_000))
    for corner in corners:
        assert np.linalg.norm(fine.position - corner, axis=1).min() < 2e-3
    speed = np.linalg.norm(fine.velocity, axis=1)
    assert speed.max() == pytest.approx(3.0, rel=1e-4)
    assert np.linalg.norm(fine.acceleration, axis=1).max() <= 1.5 + 1e-4
    moments = np.linspace(0.0, path.duration, 20_000)
    at_rest = moments[(speed < 1e-9) & (np.linalg.norm(fine.position - corners[2], axis=1) < 1e-6)]
    assert np.ptp(at_rest) == pytest.approx(5.0, abs=0.01)


def test_the_smoothest_path_has_no_jump_in_jerk_or_snap() -> None:
    corners = np.array([[0.0, 0, -10], [20, 0, -10], [20, 20, -12], [0, 20, -10]])
    path = path_through(corners, speed=3.0, acceleration=1.5, yaw=0.0)
    h = 1e-3
    for knot in path.time[1:-1]:
        at = path.at(knot + h * np.array([-2.0, -1.0, 0.0, 1.0, 2.0])).acceleration
        before, after = (at[1] - at[0]) / h, (at[4] - at[3]) / h
        assert after == pytest.approx(before, abs=0.01 * float(np.abs(before).max()))
    # Straight through one leg it is Flash and Hogan's polynomial.
    stay = path_through(corners[:1], speed=3.0, acceleration=1.5)
    assert (stay.duration, float(stay.at(1.0).yaw)) == (0.0, 0.0)
    leg = path_through(corners[:2], speed=3.0, acceleration=100.0, yaw=0.0)
    middle = leg.at(0.3 * leg.duration)
    assert middle.position[0] == pytest.approx(20.0 * float(minimum_jerk(0.3)[0]))
    assert leg.duration == pytest.approx(move_time(20.0, 3.0, 100.0), rel=1e-4)


def test_a_path_that_faces_its_way_turns_smoothly() -> None:
    corners = np.array([[0.0, 0, -10], [20, 0, -10], [20, 20, -10], [0, 20, -10]])
    path = path_through(corners, speed=3.0, acceleration=1.5, holds=[1.0, 3.0, 3.0, 1.0])
    assert np.degrees(path.yaw[[0, -1]]) == pytest.approx([0.0, 180.0], abs=1e-6)
    rate = path.at(np.linspace(0.0, path.duration, 5000)).yaw_rate
    assert 20.0 < np.degrees(rate).max() < 60.0


def test_a_csv_file_reads_as_it_was_written(tmp_path: Path) -> None:
    path = path_through(points(3, 5), speed=3.0, acceleration=1.5)
    write_csv(tmp_path / "a.csv", path)
    assert (tmp_path / "a.csv").read_text().splitlines()[0] == "t,px,py,pz,vx,vy,vz,ax,ay,az,yaw"
    again = read_csv(tmp_path / "a.csv")
    for field in ("time", "position", "velocity", "acceleration"):
        assert np.array_equal(getattr(again, field), getattr(path, field))
    assert again.yaw == pytest.approx(path.yaw, abs=1e-12)


def test_files_of_mavsdks_example_are_read(tmp_path: Path) -> None:
    file = tmp_path / "active.csv"
    file.write_text(
        "idx,t,px,py,pz,vx,vy,vz,ax,ay,az,yaw,mode\n"
        "0,0,0,0,0,0,0,0,0,0,0,90,70\n1,0.1,0,0,-1,0,0,0,0,0,0,90,70\n"
    )
    assert read_csv(file).at(0.1).position.tolist() == [0.0, 0.0, -1.0]
    assert read_csv(file).yaw == pytest.approx(np.full(2, math.pi / 2))


def test_every_fault_of_a_csv_file_is_told_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "bad.csv"
    zeros = ",0" * 9
    file.write_text(f"{','.join(COLUMNS)}\n0,0{zeros}\n1,up{zeros}\n0,0{zeros}\n2,0,0\n3,nan{zeros}\n")
    with pytest.raises(ConfigurationError) as caught:
        read_csv(file)
    assert caught.value.faults == (
        "line 3: px: 'up' is not a finite number",
        "line 4: t: 0 s is not later than 0 s",
        "line 5: 3 columns; 11 are needed",
        "line 6: px: 'nan' is not a finite number",
    )
    file.write_text("t,px,py\n0,0,0\n")
    with pytest.raises(ConfigurationError, match="line 1: the header must be t,px,py,pz,vx"):
        read_csv(file)


# ---------------------------------------------------------------- limits


@pytest.mark.parametrize(("limits", "kind"), [
    (Limits(speed=1.5), "speed"), (Limits(acceleration=0.5), "acceleration"),
    (Limits(height=(11.0, 50.0)), "height"), (Limits(height=(1.0, 9.0)), "height"),
])  # fmt: skip
def test_speed_acceleration_and_height_are_held_to_their_limits(limits: Limits, kind: str) -> None:
    path = path_through(
        np.array([[0.0, 0.0, -10.0], [9.0, 0.0, -10.0]]), speed=2.0, acceleration=2.0, yaw=0.0
    )
    still = np.array([[0.0, 0.0, 0.0], [0.0, 5.0, 0.0]])
    with pytest.raises(UnsafeShowError) as caught:
        Choreography(still).check(path, 0.0, limits, path.duration)
    assert {v.kind for v in caught.value.violations} == {kind}
    assert 0 in {v.vehicle for v in caught.value.violations}
