"""Hover, full thrust, top speed and endurance against published figures, closed forms and the step itself."""

from __future__ import annotations

import math
from unittest.mock import Mock

import numpy as np
import pytest
from support.dynamics_vehicles import (
    SEA_LEVEL_DENSITY,
    add_rotors,
    advance,
    body,
    environment,
    fly,
    hector,
    iris,
    start,
)

from sitl_bridge.base.errors import UserError
from sitl_bridge.core.dynamics.performance import (
    figure_of_merit,
    hover,
    motor_lag,
    performance,
    speed_share_in_wind,
)
from sitl_bridge.core.vehicle.airframe_file import load_airframe

GRAVITY = 9.81


def ring(n: int, radius: float) -> list[tuple[float, float, float, int]]:
    angles = [math.pi / n + 2 * math.pi * i / n for i in range(n)]
    return [(radius * math.cos(a), radius * math.sin(a), 0.0, 1 - 2 * (i % 2)) for i, a in enumerate(angles)]


@pytest.mark.parametrize(
    ("mass", "rotors", "arm", "k_f", "speed"),
    [
        (1.5 + 6 * 0.005, 6, 0.215, 8.54858e-6, 541.0),
        (0.68 + 4 * 0.009, 4, 0.17, 8.54858e-6, 453.2),
        (1.0 + 4 * 0.01, 4, 0.21, 9.9865e-6, 505.4),
        (1.5 + 4 * 0.005, 4, 0.25, 8.54858e-6, 660.4),
        (3.42 + 6 * 0.005, 6, 0.2895, 1.269e-5, 666.7),
    ],
    ids=["firefly", "hummingbird", "pelican", "iris", "neo11"],
)
def test_rotors_vehicles_hover_at_their_speeds(
    mass: float, rotors: int, arm: float, k_f: float, speed: float
) -> None:
    vehicle = body(mass, np.eye(3) * 0.02)[0]
    add_rotors(vehicle, ring(rotors, arm), k_f, 0.016)
    trim = hover(vehicle, SEA_LEVEL_DENSITY, GRAVITY)
    assert trim is not None
    assert trim.rotor_speed == pytest.approx(speed, abs=0.1)


def test_canted_rotors_hover_faster_by_their_cant() -> None:
    vehicle = body(3.45, np.eye(3) * 0.1)[0]
    add_rotors(vehicle, ring(6, 0.2895), 1.269e-5, 0.016754)
    for k in range(6):
        x, y, _, direction = ring(6, 0.2895)[k]
        tangent = np.array([-y, x, 0.0]) / 0.2895
        axis = direction * math.sin(math.radians(5.0)) * tangent
        axis[2] = -math.cos(math.radians(5.0))
        vehicle["rotor_axis"][k] = axis
    trim = hover(vehicle, SEA_LEVEL_DENSITY, GRAVITY)
    assert trim is not None
    assert trim.rotor_speed == pytest.approx(666.7 / math.sqrt(math.cos(math.radians(5.0))), abs=0.1)


def test_hector_hovers_at_the_published_speed_voltage_current_and_power() -> None:
    trim = hover(hector()[0], SEA_LEVEL_DENSITY, GRAVITY)
    assert trim is not None
    assert trim.rotor_speed == pytest.approx(485.3, abs=0.1)
    assert trim.rotor_thrust == pytest.approx(3.622, abs=1e-3)
    assert trim.motor_current == pytest.approx(2.973, abs=2e-3)
    assert trim.motor_voltage == pytest.approx(7.035, abs=2e-3)
    assert trim.motor_power == pytest.approx(83.7, abs=0.1)
    assert trim.throttle == pytest.approx(7.035 / 14.8, abs=2e-4)
    assert trim.battery_current == pytest.approx(83.7 / 14.8, abs=0.01)


def test_asymmetric_rotors_are_trimmed_without_any_moment() -> None:
    # RotorS's asymmetric_quadrotor: arms of 0.6, 0.2, 0.6 and 0.6 m at 0, 120, 180 and 240 degrees there;
    # here a shape that has a trim with thrusts of one sign.
    vehicle = body(1.04, np.eye(3) * 0.02)[0]
    places = [(0.3, 0.2, 0.0, 1), (-0.2, -0.25, 0.0, 1), (0.25, -0.2, 0.0, -1), (-0.3, 0.2, 0.05, -1)]
    add_rotors(vehicle, places, 9.9865e-6, 0.016)
    trim = hover(vehicle, SEA_LEVEL_DENSITY, GRAVITY)
    assert trim is not None
    x, y, direction = (np.array([place[i] for place in places]) for i in (0, 1, 3))
    thrust = 9.9865e-6 * trim.rotor_speed**2
    assert thrust.sum() == pytest.approx(1.04 * GRAVITY)
    for moment in (-y * thrust, x * thrust, direction * 0.016 * thrust):
        assert moment.sum() == pytest.approx(0.0, abs=1e-7)
    assert np.ptp(thrust) > 0.1


@pytest.mark.parametrize("capacity", [math.inf, 3600.0 * 5.0])
@pytest.mark.parametrize("kind", ["iris", "hector"])
def test_trim_keeps_the_simulated_vehicle_in_place(kind: str, capacity: float) -> None:
    vehicles, environments = (iris() if kind == "iris" else hector()), environment()
    vehicles["battery_capacity"] = capacity
    vehicles["battery_resistance"] = 0.02
    trim = hover(vehicles[0], SEA_LEVEL_DENSITY, 9.80665)
    assert trim is not None
    states = start(vehicles, environments)
    states["position"][0] = 0.0
    states["contact_touching"] = 0
    vehicles["contact_count"], vehicles["contact_radius"] = 0, 0.0
    states["rotor_speed"][0, :4] = trim.rotor_speed
    states["rotor_torque"][0, :4] = trim.rotor_torque
    states["battery_voltage"] = trim.battery_voltage
    controls = np.zeros(16)
    controls[:4] = trim.command
    advance(vehicles, states, controls, 1, environments, 0.004, 2, 125)
    state = states[0]
    assert np.abs(state["velocity"]).max() < 5e-3
    assert np.abs(state["angular_velocity"]).max() < 1e-3
    assert state["battery_current"] == pytest.approx(trim.battery_current, rel=5e-3)
    assert state["battery_voltage"] == pytest.approx(trim.battery_voltage, rel=2e-3)


def test_full_thrust_and_its_ratio_to_weight() -> None:
    figures = performance(iris()[0], SEA_LEVEL_DENSITY, GRAVITY)
    assert figures.full_thrust == pytest.approx(4 * 5.84e-6 * 1100.0**2)
    assert figures.thrust_to_weight == pytest.approx(4 * 5.84e-6 * 1100.0**2 / (1.55 * GRAVITY))
    assert figures.hover.throttle == pytest.approx(
        (math.sqrt(1.55 * GRAVITY / 4 / 5.84e-6) - 100.0) / 1000.0, abs=1e-6
    )


def test_full_speed_of_a_dc_motor_is_the_one_the_simulated_motor_settles_at() -> None:
    vehicles, environments = hector(), environment(gravity=0.0)
    figures = performance(vehicles[0], SEA_LEVEL_DENSITY, GRAVITY)
    vehicles["mass"] = 1e9
    states = start(vehicles, environments)
    state = fly(vehicles, states, environments, 4.0, 1.0)
    assert state["rotor_speed"][:4] == pytest.approx(figures.full_speed, rel=1e-4)


def test_top_speed_balances_drag_with_the_thrust_that_weight_leaves() -> None:
    vehicle = body(1.5, np.eye(3) * 0.02)[0]
    add_rotors(vehicle, ring(4, 0.25), 8.54858e-6, 0.016)
    vehicle["drag_force"] = 0.06
    figures = performance(vehicle, SEA_LEVEL_DENSITY, GRAVITY)
    thrust, weight = 4 * 8.54858e-6 * 1000.0**2, 1.5 * GRAVITY
    assert figures.top_speed == pytest.approx(math.sqrt(math.sqrt(thrust**2 - weight**2) / 0.06), rel=1e-6)


def test_endurance_is_the_time_the_simulated_battery_lasts() -> None:
    vehicles, environments = iris(), environment(gravity=0.0)
    vehicles["battery_capacity"] = 3600.0 * 0.2
    vehicles["battery_resistance"] = 0.005
    vehicles["battery_idle_current"] = 1.0
    figures = performance(vehicles[0], SEA_LEVEL_DENSITY, GRAVITY)
    assert 0.0 < figures.endurance < math.inf
    # A thrust stand that follows the falling voltage with its command.
    vehicles["mass"], vehicles["inertia"], vehicles["inertia_inverse"] = (
        1e9,
        np.eye(3) * 1e9,
        np.eye(3) * 1e-9,
    )
    states = start(vehicles, environments, 10.0)
    controls = np.zeros(16)
    seconds = 0.0
    while seconds < 2.0 * figures.endurance:
        ratio = float(states["battery_voltage"][0]) / 16.0
        controls[:4] = (figures.hover.rotor_speed / max(ratio, 0.1) - 100.0) / 1000.0
        if controls.max() > 1.0 or states["battery_charge"][0] <= 0.0:
            break
        advance(vehicles, states, controls, 1, environments, 0.004, 2, 5)
        seconds += 0.02
    assert seconds == pytest.approx(figures.endurance, rel=0.03)


def test_endurance_on_an_ideal_source_is_endless() -> None:
    assert math.isinf(performance(iris()[0], SEA_LEVEL_DENSITY, GRAVITY).endurance)


def test_vehicle_that_is_too_heavy_is_named_as_such() -> None:
    vehicle = iris()[0]
    vehicle["mass"] = 4.0
    with pytest.raises(UserError, match=r"cannot hover: it weighs 39\.24 N"):
        performance(vehicle, SEA_LEVEL_DENSITY, GRAVITY)


def test_rotors_that_cannot_balance_the_vehicle_are_named_as_such() -> None:
    vehicle = body(1.0, np.eye(3))[0]
    add_rotors(vehicle, [(0.2, 0.0, 0.0, 1), (0.1, 0.0, 0.0, -1)], 1e-5, 0.016)
    with pytest.raises(UserError, match="moment"):
        hover(vehicle, SEA_LEVEL_DENSITY, GRAVITY)
    vehicle = body(1.0, np.eye(3))[0]
    add_rotors(
        vehicle,
        [(0.3, 0.2, 0.0, 1), (0.3, -0.2, 0.0, -1), (0.1, 0.2, 0.0, -1), (0.1, -0.2, 0.0, 1)],
        1e-5,
        0.016,
    )
    with pytest.raises(UserError, match="pull downwards"):
        hover(vehicle, SEA_LEVEL_DENSITY, GRAVITY)


@pytest.mark.parametrize(
    ("name", "most"), [("x500_gazebo", 39.0), ("hummingbird", 18.5), ("iris_gazebo", 13.7)]
)
def test_the_lag_of_the_motors_contains_current_limit_and_sag(name: str, most: float) -> None:
    """As the whole step has it for a step of 10 to 15 %: 32 to 39, 18 and 13.6 ms, where files say 12.5."""
    record = load_airframe(name).record
    trim = performance(record, 1.225, 9.80665).hover
    assert 0.8 * most < 1e3 * motor_lag(record, trim, 1.225) < most


def test_the_lag_of_slow_motors_without_limits_is_their_time_constant() -> None:
    record = load_airframe("iris").record.copy()
    record["battery_capacity"], record["esc_current_limit"] = np.inf, 0.0
    for constant in (0.1, 2.0):
        record["motor_tau_up"] = constant
        lag = motor_lag(record, performance(record, 1.225, 9.80665).hover, 1.225)
        assert lag == pytest.approx(constant, rel=0.02)


def test_motors_without_lag_of_their_own_have_that_of_supply_and_inertia() -> None:
    record = load_airframe("crazyflie_identified").record
    lags = []
    for constant in (1e-3, 1e-12):
        record["motor_tau_up"] = constant
        lags.append(motor_lag(record, performance(record, 1.225, 9.80665).hover, 1.225))
    assert lags[1] == pytest.approx(lags[0], abs=1e-3)


def test_the_balance_of_the_rotors_is_found_once_for_all_charges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it converges slowly, finding it for each of 50 charges took minutes."""
    record, solved = load_airframe("ar200").record, Mock(wraps=np.linalg.lstsq)
    monkeypatch.setattr(np.linalg, "lstsq", solved)
    density = 1.2134  # of which no other test asks: what was found once is remembered
    hover(record, density, 9.80665)
    once = solved.call_count
    performance(record, density, 9.80665)
    assert once > 0
    assert solved.call_count <= 3 * once  # for the hover and for the endurance


def test_shipped_rotors_are_as_good_as_real_propellers() -> None:
    """The UIUC data base's 158 static tests have figures of merit of 0.29 to 0.71."""
    for name in [
        "iris",
        "x500",
        "typhoon_h480",
        "hummingbird",
        "pelican",
        "firefly",
        "neo11",
        "ar100b",
        "ar200",
    ]:
        record = load_airframe(name).record
        assert 0.29 < figure_of_merit(record, performance(record, 1.225, 9.80665).hover, 1.225) < 0.72, name


@pytest.mark.parametrize(("kind", "limit"), [("iris", 12.0), ("hector", 6.0)])
def test_full_speed_is_the_one_at_which_the_speed_controllers_hold_the_simulated_motors(
    kind: str, limit: float
) -> None:
    vehicles, environments = (iris() if kind == "iris" else hector()), environment(gravity=0.0)
    free = performance(vehicles[0], SEA_LEVEL_DENSITY, 0.7 * GRAVITY)
    vehicles["esc_current_limit"] = limit
    figures = performance(vehicles[0], SEA_LEVEL_DENSITY, 0.7 * GRAVITY)
    assert np.all(figures.full_speed < 0.95 * free.full_speed), "the limit has to bind"
    assert figures.thrust_to_weight < free.thrust_to_weight
    vehicles["mass"], vehicles["contact_count"] = 1e9, 0
    vehicles["inertia"], vehicles["inertia_inverse"] = 1e9 * np.eye(3), 1e-9 * np.eye(3)
    states = start(vehicles, environments)
    state = fly(vehicles, states, environments, 6.0, 1.0)
    assert state["rotor_speed"][:4] == pytest.approx(figures.full_speed, rel=2e-3)


def test_a_hover_beyond_the_speed_controllers_is_refused_with_both_currents() -> None:
    vehicle = iris()[0]
    needed = float(performance(vehicle, SEA_LEVEL_DENSITY, GRAVITY).hover.motor_current.max())
    vehicle["esc_current_limit"] = 1.02 * needed
    assert performance(vehicle, SEA_LEVEL_DENSITY, GRAVITY).current_share == pytest.approx(1.0 / 1.02)
    vehicle["esc_current_limit"] = 0.98 * needed
    with pytest.raises(UserError, match=f"a motor needs {needed:.1f} A, and esc.current_limit allows"):
        performance(vehicle, SEA_LEVEL_DENSITY, GRAVITY)


def test_the_thrust_that_holds_in_wind_balances_weight_and_drag() -> None:
    vehicle = iris()[0]
    vehicle["rotor_drag"], vehicle["rolling_moment"], vehicle["inflow_loss_speed"] = 0.0, 0.0, 1e9
    vehicle["rotor_position"][:, 2], vehicle["drag_force"] = 0.0, 0.1
    figures = performance(vehicle, SEA_LEVEL_DENSITY, GRAVITY)
    calm = float(figures.hover.rotor_speed.max() / figures.full_speed[0])
    assert speed_share_in_wind(vehicle, 0.0, SEA_LEVEL_DENSITY, GRAVITY) == pytest.approx(calm, abs=1e-5)
    for wind in (5.0, 10.0, 15.0):
        drag = 0.1 * SEA_LEVEL_DENSITY / float(vehicle["drag_density"]) * wind**2 / (1.55 * GRAVITY)
        share = speed_share_in_wind(vehicle, wind, SEA_LEVEL_DENSITY, GRAVITY)
        assert share == pytest.approx(calm * (1.0 + drag**2) ** 0.25, rel=1e-4)
