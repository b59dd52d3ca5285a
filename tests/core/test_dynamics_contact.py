"""Ground contact: standing, pushing, dropping, tipping over, crashing, leaving the ground."""

from __future__ import annotations

import math

import numpy as np
import pytest
from support.dynamics_vehicles import Record, add_feet, advance, body, environment, fly, iris, rotation, start
from support.paths import AIRFRAMES

from sitl_bridge.base.errors import UserError
from sitl_bridge.core.vehicle.airframe_file import load_airframe

GRAVITY = 9.80665
FRICTION = 0.6


def box(mass: float = 2.0, half: float = 0.2, height: float = 0.1) -> Record:
    """(1,) box of uniform density on its four lower corners, with its upper ones as points as well."""
    edges = np.array([2 * half, 2 * half, 2 * height])
    inertia = np.diag(mass / 12.0 * (np.sum(edges**2) - edges**2))
    vehicles = body(mass, inertia)
    corners = [(x, y, z) for z in (height, -height) for x in (half, -half) for y in (half, -half)]
    add_feet(vehicles[0], corners, FRICTION)
    return vehicles


def test_vehicle_stands_for_ten_minutes_without_creeping() -> None:
    """Off-centre, on turning rotors, in a side wind of 5 m/s: what a regularised friction lets creep."""
    vehicles, environments = iris(), environment()
    vehicles["contact_point"][0, :4, 0] += 0.04
    vehicles["contact_radius"] += 0.04
    states = start(vehicles, environments, yaw=0.4)
    states["wind"][0] = (3.0, 4.0, 0.0)
    fly(vehicles, states, environments, 2.0, 0.1)
    settled = states[0].copy()
    state = fly(vehicles, states, environments, 600.0, 0.1)
    assert np.abs(state["position"] - settled["position"]).max() < 1e-9
    assert np.abs(state["attitude"] - settled["attitude"]).max() < 1e-9
    assert np.linalg.norm(state["position"][:2]) < 1e-3
    assert np.abs(state["velocity"]).max() < 1e-9
    assert np.abs(state["angular_velocity"]).max() < 1e-9
    assert np.linalg.norm(state["specific_force"]) == pytest.approx(GRAVITY, rel=1e-9)
    assert state["in_contact"] == 4
    assert state["impact_speed"] == 0.0


def test_start_is_the_static_equilibrium() -> None:
    vehicles, environments = iris(), environment()
    vehicles["contact_point"][0, :4, 0] += 0.05
    vehicles["contact_point"][0, 0, 2] += 0.004
    vehicles["contact_radius"] = 0.4
    states = start(vehicles, environments, yaw=2.0)
    before = states[0].copy()
    assert before["specific_force"] == pytest.approx(
        rotation(before["attitude"]).T @ np.array([0.0, 0.0, -GRAVITY]), abs=1e-7
    )
    assert before["angular_acceleration"] == pytest.approx(0.0, abs=1e-6)
    state = fly(vehicles, states, environments, 2.0, armed=0)
    assert np.abs(state["position"] - before["position"]).max() < 1e-8
    assert np.abs(state["attitude"] - before["attitude"]).max() < 1e-8


def test_vehicle_whose_centre_of_gravity_is_beside_its_feet_cannot_start_on_them() -> None:
    vehicles, environments = iris(), environment()
    vehicles["contact_count"] = 4
    vehicles["contact_point"][0, :4, 0] += 0.2
    vehicles["contact_radius"] = 0.5
    with pytest.raises(UserError, match="cannot stand"):
        start(vehicles, environments)


def test_start_under_the_ground_is_refused() -> None:
    with pytest.raises(ValueError, match="under the ground"):
        start(iris(), environment(), height=-0.5)


@pytest.mark.parametrize("direction", [0.0, 0.6, math.pi / 2.0])
def test_push_inside_the_friction_cone_moves_nothing(direction: float) -> None:
    vehicles, environments = box(), environment()
    states = start(vehicles, environments)
    push = 0.95 * FRICTION * 2.0 * GRAVITY
    states["external_force"][0, :2] = (push * math.cos(direction), push * math.sin(direction))
    fly(vehicles, states, environments, 2.0)
    first = states["position"][0].copy()
    # The sudden push makes the springs overshoot once before friction holds.
    assert np.linalg.norm(first[:2]) < 5e-3
    state = fly(vehicles, states, environments, 60.0)
    assert np.abs(state["position"] - first).max() < 1e-7


@pytest.mark.parametrize("direction", [0.0, 0.6, math.pi / 2.0])
def test_push_beyond_the_friction_cone_slides_with_what_friction_leaves(direction: float) -> None:
    vehicles, environments = box(), environment()
    states = start(vehicles, environments)
    push = 1.3 * FRICTION * 2.0 * GRAVITY
    states["external_force"][0, :2] = (push * math.cos(direction), push * math.sin(direction))
    early = fly(vehicles, states, environments, 0.5)["velocity"].copy()
    late = fly(vehicles, states, environments, 1.0)["velocity"].copy()
    gained = np.linalg.norm(late - early)
    assert gained == pytest.approx(0.3 * FRICTION * GRAVITY, rel=0.01)
    assert math.atan2(late[1], late[0]) == pytest.approx(direction, abs=1e-3)
    states["external_force"] = 0.0
    speed = float(np.linalg.norm(late))
    place = states["position"][0].copy()
    state = fly(vehicles, states, environments, 5.0)
    assert np.linalg.norm(state["velocity"]) < 1e-6
    assert np.linalg.norm(state["position"] - place) == pytest.approx(
        speed**2 / (2 * FRICTION * GRAVITY), rel=0.02
    )


@pytest.mark.parametrize("height", [0.05, 1.0, 20.0])
def test_drop_is_seen_as_an_impact_and_ends_at_rest(height: float) -> None:
    vehicles, environments = box(), environment()
    states = start(vehicles, environments, height)
    state = fly(vehicles, states, environments, math.sqrt(2 * height / GRAVITY) + 3.0, armed=0)
    assert state["impact_speed"] == pytest.approx(math.sqrt(2 * GRAVITY * height), rel=0.02)
    assert state["in_contact"] == 4
    assert state["position"][2] == pytest.approx(-0.1, abs=2e-3)
    assert np.abs(state["velocity"]).max() < 1e-6
    assert np.abs(state["angular_velocity"]).max() < 1e-6


def test_bounce_gains_no_energy() -> None:
    vehicles, environments = box(), environment()
    vehicles["contact_damping"] *= 0.05
    states = start(vehicles, environments, 0.5)
    states["angular_velocity"][0] = (2.0, 1.0, 0.5)
    inertia = vehicles["inertia"][0]

    def energy() -> float:
        state = states[0]
        spin = state["angular_velocity"]
        kinetic = 0.5 * 2.0 * state["velocity"] @ state["velocity"] + 0.5 * spin @ inertia @ spin
        return float(kinetic - 2.0 * GRAVITY * state["position"][2])

    last = energy()
    for _ in range(300):
        fly(vehicles, states, environments, 0.02)
        if states["in_contact"][0] == 0:
            assert energy() < last + 1e-3
            last = energy()


def test_vehicle_tips_over_when_pushed_past_its_edge_and_not_before() -> None:
    edge = 2.0 * GRAVITY * 0.2
    for share, overturned in ((0.9, False), (1.2, True)):
        vehicles, environments = box(), environment()
        states = start(vehicles, environments)
        states["external_moment"][0, 0] = share * edge
        state = fly(vehicles, states, environments, 0.46)
        states["external_moment"] = 0.0
        state = fly(vehicles, states, environments, 4.0)
        upright = rotation(state["attitude"])[2, 2]
        assert (upright < 0.1) == overturned
        assert np.abs(state["velocity"]).max() < 1e-6


@pytest.mark.parametrize("speed", [5.0, 30.0, 80.0])
def test_crash_at_any_speed_and_attitude_comes_to_rest_above_the_ground(speed: float) -> None:
    vehicles, environments = iris(), environment()
    states = start(vehicles, environments, 3.0)
    states["attitude"][0] = np.array([0.3, 0.8, -0.4, 0.2]) / np.linalg.norm([0.3, 0.8, -0.4, 0.2])
    states["velocity"][0] = (0.5 * speed, 0.2 * speed, speed)
    states["angular_velocity"][0] = (10.0, -7.0, 3.0)
    state = fly(vehicles, states, environments, 40.0, armed=0)
    # Air drag takes up to 7 % of the speed on the way down.
    assert state["impact_speed"] > 0.9 * speed
    assert state["in_contact"] >= 3
    assert -0.5 < state["position"][2] < 0.01
    assert np.abs(state["velocity"]).max() < 1e-5
    assert np.linalg.norm(state["specific_force"]) == pytest.approx(GRAVITY, rel=1e-4)


def test_take_off_releases_the_ground_and_landing_takes_it_again() -> None:
    vehicles, environments = iris(), environment()
    states = start(vehicles, environments)
    assert states["in_contact"][0] == 4
    state = fly(vehicles, states, environments, 1.0, 0.85)
    assert state["position"][2] < -0.3
    assert state["in_contact"] == 0
    assert not state["contact_touching"].any()
    state = fly(vehicles, states, environments, 3.0, 0.0)
    assert state["in_contact"] == 4
    assert state["impact_speed"] > 1.0


def test_sensors_see_a_landed_vehicle_at_rest_within_a_second() -> None:
    vehicles, environments = iris(), environment()
    states = start(vehicles, environments, 0.02)
    states["velocity"][0] = (0.1, 0.0, 0.5)
    state = fly(vehicles, states, environments, 1.0, 0.0)
    assert np.linalg.norm(state["specific_force"] + np.array([0.0, 0.0, GRAVITY])) < 1e-3
    assert np.abs(state["angular_velocity"]).max() < 1e-4


@pytest.mark.parametrize(("harder", "damped"), [(100.0, 1.0), (1.0, 30.0), (100.0, 10.0)])
def test_hard_ground_stays_stable_at_the_usual_step(harder: float, damped: float) -> None:
    vehicles, environments = iris(), environment()
    vehicles["contact_stiffness"] *= harder
    vehicles["contact_damping"] *= damped
    states = start(vehicles, environments, 1.0)
    states["angular_velocity"][0] = (4.0, -2.0, 1.0)
    state = fly(vehicles, states, environments, 15.0, armed=0)
    assert np.abs(state["velocity"]).max() < 1e-4
    assert np.linalg.norm(state["specific_force"]) == pytest.approx(GRAVITY, rel=1e-3)


@pytest.mark.parametrize(
    ("height", "forward", "down", "command", "bound"),
    [(300.0, 3.0, 0.0, 0.72, 0.005), (0.5, 0.0, 0.0, 0.0, 0.05), (0.05, 0.3, 0.5, 0.3, 0.05)],
    ids=["flight", "drop", "landing"],
)
def test_specific_force_integrates_to_the_true_velocity(
    height: float, forward: float, down: float, command: float, bound: float
) -> None:
    """By the trapezoidal rule over 4 ms samples, as PX4's integrator does, with the true attitude."""
    vehicles, environments = iris(), environment()
    states = start(vehicles, environments, height)
    states["velocity"][0] = (forward, 0.0, down)
    controls = np.zeros(16)
    velocity, last, turned = None, np.zeros(3), np.eye(3)
    for i in range(750):
        controls[:4] = command
        if command > 0.5:
            controls[:4] += 0.02 * math.sin(0.036 * i) * np.array([1.0, -1.0, -1.0, 1.0])
        advance(vehicles, states, controls, 1, environments, 0.004, 2, 1)
        state = states[0]
        now = rotation(state["attitude"])
        if velocity is None:
            velocity = state["velocity"].copy()
        else:
            mean = 0.5 * (state["specific_force"] + last)
            velocity += 0.004 * (0.5 * (now + turned) @ mean + np.array([0.0, 0.0, 9.80665]))
        last, turned = state["specific_force"].copy(), now
    assert velocity is not None
    assert np.linalg.norm(velocity - states["velocity"][0]) < bound


@pytest.mark.parametrize("airframe", sorted(path.stem for path in AIRFRAMES.glob("*.yaml")))
def test_every_airframe_stands_still_and_survives_a_crash(airframe: str) -> None:
    vehicles, environments = (
        load_airframe(str(AIRFRAMES / f"{airframe}.yaml")).vehicle().reshape(1),
        environment(),
    )
    states = start(vehicles, environments)
    before = states[0].copy()
    state = fly(vehicles, states, environments, 60.0, armed=0)
    assert np.abs(state["position"] - before["position"]).max() < 1e-6
    assert np.abs(state["angular_velocity"]).max() < 1e-9
    states = start(vehicles, environments, 3.0)
    states["attitude"][0] = np.array([0.3, 0.8, -0.4, 0.2]) / np.linalg.norm([0.3, 0.8, -0.4, 0.2])
    states["angular_velocity"][0] = (5.0, -3.0, 2.0)
    state = fly(vehicles, states, environments, 25.0, armed=0)
    assert np.abs(state["velocity"]).max() < 1e-6
    assert state["in_contact"] >= 3
    assert -1.0 < state["position"][2] < 0.0


def test_a_sliding_point_drags_its_friction_spring_at_the_limit() -> None:
    """The anchor follows so that the spring holds mu N and not more: it gives that back at the stop."""
    vehicles, environments = box(), environment()
    states = start(vehicles, environments)
    states["external_force"][0] = (2.0 * FRICTION * 2.0 * GRAVITY, 0.0, 0.0)
    state = fly(vehicles, states, environments, 0.2)
    assert state["velocity"][0] > 0.5
    turned = rotation(state["attitude"])
    for k in np.flatnonzero(state["contact_touching"]):
        point = state["position"] + turned @ vehicles["contact_point"][0, k]
        stretch = float(np.linalg.norm(point[:2] - state["contact_anchor"][k]))
        assert stretch == pytest.approx(FRICTION * point[2], rel=1e-6)
