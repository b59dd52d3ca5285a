"""Rotors: the seeds' thrust and torque laws, propeller tables, in-plane forces, ground effect."""

from __future__ import annotations

import math
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from support.dynamics_vehicles import (
    SEA_LEVEL_DENSITY,
    add_rotors,
    body,
    environment,
    fly,
    hector,
    hold_at_motion,
    iris,
    start,
)

import sitl_bridge as sb
from sitl_bridge.base.errors import UserError
from sitl_bridge.core.dynamics.forces import ground_effect_factor, induced_velocity, share_of_images
from sitl_bridge.core.dynamics.performance import performance
from sitl_bridge.core.dynamics.records import TABLE_LAW, VEHICLE
from sitl_bridge.core.dynamics.rotor import CoefficientRotor, PropellerTable, Rotor
from sitl_bridge.core.dynamics.rotor_laws import pack_rotors, thrust_and_torque
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.vehicle.airframe_file import load_airframe

# UIUC propeller data base, APC Slow Flyer 10x4.7, static: rpm, C_T, C_P.
APC_10X4_7 = np.array(
    [
        (2377, 0.1059, 0.0431),
        (2676, 0.1079, 0.0437),
        (2947, 0.1079, 0.0437),
        (3234, 0.1104, 0.0444),
        (3494, 0.1117, 0.0450),
        (3762, 0.1143, 0.0460),
        (4029, 0.1158, 0.0466),
        (4319, 0.1177, 0.0474),
        (4590, 0.1200, 0.0484),
        (4880, 0.1223, 0.0494),
        (5147, 0.1237, 0.0500),
        (5417, 0.1252, 0.0508),
        (5715, 0.1263, 0.0513),
        (5960, 0.1278, 0.0520),
        (6226, 0.1286, 0.0524),
        (6528, 0.1299, 0.0531),
    ]
)
DIAMETER = 0.254


@pytest.mark.parametrize(("inflow", "thrust"), [(0.0, 3.622), (-2.0, 3.867), (2.0, 3.378)])
def test_hector_thrust_at_hover_speed_falls_in_a_climb(inflow: float, thrust: float) -> None:
    force, _ = thrust_and_torque(hector()[0], 0, 485.3, inflow, SEA_LEVEL_DENSITY)
    assert force == pytest.approx(thrust, abs=1e-3)


def test_hector_quadratic_inflow_term_has_the_released_sign() -> None:
    # T = ... - sgn(v1) C_T2 v1^2 with the value that stands commented out in the release, C_T2 = -1.3077e-2.
    vehicle = hector()[0]
    without = [thrust_and_torque(vehicle, 0, 485.3, v, SEA_LEVEL_DENSITY)[0] for v in (-3.0, 3.0)]
    vehicle["thrust_b2"] = 1.3077e-2
    with_term = [thrust_and_torque(vehicle, 0, 485.3, v, SEA_LEVEL_DENSITY)[0] for v in (-3.0, 3.0)]
    assert np.subtract(with_term, without) == pytest.approx([-1.3077e-2 * 9.0, 1.3077e-2 * 9.0])


def test_airrobot_thrust_has_a_quadratic_and_a_linear_term_and_a_linear_torque() -> None:
    vehicle = body(1.3, np.eye(3))[0]
    add_rotors(vehicle, [(0.0, 0.0, 0.0, 1)], 2e-5, 0.0)
    vehicle["thrust_c1"][0] = 3e-4
    vehicle["torque_g1"][0] = 5e-5
    thrust, torque = thrust_and_torque(vehicle, 0, 300.0, 0.0, SEA_LEVEL_DENSITY)
    assert thrust == pytest.approx(2e-5 * 300.0**2 + 3e-4 * 300.0)
    assert torque == pytest.approx(5e-5 * 300.0)


def test_thrust_and_torque_follow_the_air_density() -> None:
    vehicle = iris()[0]
    low = thrust_and_torque(vehicle, 0, 700.0, 0.0, SEA_LEVEL_DENSITY)
    high = thrust_and_torque(vehicle, 0, 700.0, 0.0, 0.736116)
    assert np.divide(high, low) == pytest.approx(0.736116 / SEA_LEVEL_DENSITY)


def test_px4_axial_loss_reaches_zero_thrust_at_25_metres_a_second() -> None:
    vehicle = iris()[0]
    static = thrust_and_torque(vehicle, 0, 800.0, 0.0, SEA_LEVEL_DENSITY)[0]
    assert thrust_and_torque(vehicle, 0, 800.0, 10.0, SEA_LEVEL_DENSITY)[0] == pytest.approx(0.6 * static)
    assert thrust_and_torque(vehicle, 0, 800.0, -10.0, SEA_LEVEL_DENSITY)[0] == pytest.approx(0.6 * static)
    assert thrust_and_torque(vehicle, 0, 800.0, 30.0, SEA_LEVEL_DENSITY)[0] == 0.0


def test_backwards_rotor_is_the_mirror_image() -> None:
    vehicle = hector()[0]
    vehicle["thrust_c1"] = 1e-3
    vehicle["thrust_b2"] = 2e-3
    forward = thrust_and_torque(vehicle, 0, 450.0, 1.5, 1.1)
    backward = thrust_and_torque(vehicle, 0, -450.0, -1.5, 1.1)
    assert backward == pytest.approx((-forward[0], -forward[1]))


def test_load_torque_never_drives_the_rotor() -> None:
    # Below 297 rad/s hector's identified load torque is negative.
    assert thrust_and_torque(hector()[0], 0, 200.0, 0.0, SEA_LEVEL_DENSITY)[1] == 0.0
    assert thrust_and_torque(hector()[0], 0, 485.3, 0.0, SEA_LEVEL_DENSITY)[1] > 0.0


def apc_vehicle() -> Any:
    vehicles = body(1.0, np.eye(3))
    vehicle = vehicles[0]
    add_rotors(vehicle, [(0.0, 0.0, 0.0, 1)], 0.0, 0.0)
    vehicle["rotor_law"] = TABLE_LAW
    rpm, thrust, power = APC_10X4_7.T.tolist()
    table = PropellerTable(
        diameter=DIAMETER,
        rpm=tuple(rpm),
        thrust=tuple((c,) for c in thrust),
        power=tuple((c,) for c in power),
    )
    vehicle["table"][0] = table.address()
    return vehicles[0]


def coefficients(vehicle: Any, speed: float, advance: float) -> tuple[float, float]:
    """C_T and C_P of the first rotor's table, from its loads."""
    turns = speed / (2.0 * math.pi)
    thrust, torque = thrust_and_torque(vehicle, 0, speed, advance * turns * DIAMETER, SEA_LEVEL_DENSITY)
    scale = SEA_LEVEL_DENSITY * turns**2 * DIAMETER**4
    return thrust / scale, torque * 2.0 * math.pi / (scale * DIAMETER)


@pytest.mark.parametrize(("rpm", "c_t", "c_p"), APC_10X4_7)
def test_propeller_table_is_followed_over_its_whole_range(rpm: float, c_t: float, c_p: float) -> None:
    thrust, torque = thrust_and_torque(apc_vehicle(), 0, rpm * 2.0 * math.pi / 60.0, 0.0, SEA_LEVEL_DENSITY)
    turns = rpm / 60.0
    assert thrust == pytest.approx(c_t * SEA_LEVEL_DENSITY * turns**2 * DIAMETER**4, rel=1e-12)
    power = c_p * SEA_LEVEL_DENSITY * turns**3 * DIAMETER**5
    assert torque * 2.0 * math.pi * turns == pytest.approx(power, rel=1e-12)


def test_table_is_linear_between_rows_and_held_beyond_its_speeds() -> None:
    vehicle = apc_vehicle()
    speed = APC_10X4_7[:, 0] * 2.0 * math.pi / 60.0
    middle = 0.5 * (speed[1:] + speed[:-1])
    c_t = [coefficients(vehicle, float(w), 0.0)[0] for w in middle]
    assert c_t == pytest.approx(0.5 * (APC_10X4_7[1:, 1] + APC_10X4_7[:-1, 1]))
    assert coefficients(vehicle, 10.0, 0.0) == pytest.approx((0.1059, 0.0431))
    assert coefficients(vehicle, 2000.0, 0.3) == pytest.approx((0.1299, 0.0531))


def test_table_over_speed_and_advance_ratio_is_bilinear_and_goes_on_past_its_last_advance_ratio() -> None:
    vehicle = apc_vehicle()
    speeds, advances = (300.0, 500.0, 800.0), (0.0, 0.2, 0.6)

    def c_t(w: float, j: float) -> float:
        return 0.1 + 2e-5 * w - 0.15 * j + 3e-5 * w * j

    table = PropellerTable(
        diameter=DIAMETER,
        speeds=speeds,
        advance_ratios=advances,
        thrust=tuple(tuple(c_t(w, j) for j in advances) for w in speeds),
        power=(tuple(0.05 - 0.1 * j for j in advances),) * 3,
    )
    vehicle["table"][0] = table.address()
    for w, j in [(300.0, 0.0), (410.0, 0.13), (640.0, 0.55), (800.0, 0.6), (555.0, 0.9), (555.0, -0.3)]:
        assert coefficients(vehicle, w, j)[0] == pytest.approx(c_t(w, j), rel=1e-12)
    assert coefficients(vehicle, 555.0, 50.0)[0] == pytest.approx(c_t(555.0, 1.2))
    assert coefficients(vehicle, 555.0, 0.9)[1] == 0.0


RAGGED = {
    "diameter": DIAMETER,
    "rpm": (4000.0, 6512.0),
    "advance_ratios": ((0.0, 0.2, 0.4), (0.1, 0.5)),
    "thrust": ((0.115, 0.10, 0.06), (0.12, 0.04)),
    "power": ((0.05, 0.05, 0.04), (0.052, 0.034)),
}
"""As the tables of the UIUC data base: each speed has its own advance ratios."""


def test_each_speed_of_a_table_has_its_own_advance_ratios() -> None:
    model = CoefficientRotor.model_validate({"radius": 0.5 * DIAMETER, "inertia": 1e-5, "table": RAGGED})
    vehicle: Any = np.zeros(1, VEHICLE)[0]
    pack_rotors(vehicle, (Rotor(position=(0.0, 0.0, 0.0), direction="ccw"),), model)
    low, high = (rpm * 2.0 * math.pi / 60.0 for rpm in (4000.0, 6512.0))
    assert coefficients(vehicle, low, 0.3) == pytest.approx((0.08, 0.045))
    assert coefficients(vehicle, high, 0.3) == pytest.approx((0.08, 0.043))
    assert coefficients(vehicle, 0.5 * (low + high), 0.0)[0] == pytest.approx(0.5 * (0.115 + 0.14))


# UIUC propeller data base, volume 1, apcsf_11x4.7_pg0532_6006: J, C_T, C_P.
ELEVEN_INCH = (
    (0.087, 0.1151, 0.0482),
    (0.175, 0.0996, 0.0454),
    (0.264, 0.0844, 0.0426),
    (0.436, 0.0496, 0.0336),
)
# The same of the 10x4.7, apcsf_10x4.7_rd0841_6512.
TEN_INCH = (
    (0.089, 0.1201, 0.0523),
    (0.176, 0.1059, 0.0500),
    (0.266, 0.0895, 0.0465),
    (0.445, 0.0562, 0.0381),
)


def one_speed(rows: tuple[tuple[float, float, float], ...], diameter: float, rpm: float) -> dict[str, Any]:
    """A table of one speed."""
    ratios, thrust, power = zip(*rows, strict=True)
    return {
        "diameter": diameter,
        "rpm": (rpm,),
        "advance_ratios": ratios,
        "thrust": (thrust,),
        "power": (power,),
    }


def two_propellers(**change: Any) -> dict[str, Any]:
    """Data of an iris with 10-inch propellers, the second of 11 inches with a table of its own."""
    data = load_airframe("iris").model_dump(by_alias=True, exclude_defaults=True)
    ten = one_speed(TEN_INCH, 0.254, 6512.0)
    data["rotor_model"] = {"radius": 0.127, "inertia": 1e-5, "table": ten}
    eleven = one_speed(ELEVEN_INCH, 0.2794, 6006.0)
    data["rotors"][1]["model"] = {"radius": 0.1397, "table": eleven} | change
    return data


def test_each_rotor_may_have_a_propeller_table_of_its_own() -> None:
    vehicle = Airframe.model_validate(two_propellers()).vehicle()
    for k, rows, diameter, rpm in ((0, TEN_INCH, 0.254, 6512.0), (1, ELEVEN_INCH, 0.2794, 6006.0)):
        turns = rpm / 60.0
        for advance, c_t, c_p in rows:
            thrust, torque = thrust_and_torque(
                vehicle[()], k, 2.0 * math.pi * turns, advance * turns * diameter, SEA_LEVEL_DENSITY
            )
            scale = SEA_LEVEL_DENSITY * turns**2 * diameter**4
            assert thrust == pytest.approx(c_t * scale, rel=1e-9)
            assert torque == pytest.approx(c_p * scale * diameter / (2.0 * math.pi), rel=1e-9)
    # The other three share theirs.
    assert len(set(vehicle["table"][[0, 2, 3]].tolist())) == 1


LOADS = """
import pickle, sys
from sitl_bridge.core.dynamics.rotor_laws import thrust_and_torque
print(thrust_and_torque(pickle.load(sys.stdin.buffer).record, 1, 500.0, 2.0, 1.225))
"""


def test_an_airframe_with_a_table_flies_in_another_process() -> None:
    airframe = Airframe.model_validate(two_propellers())
    expected = thrust_and_torque(airframe.record, 1, 500.0, 2.0, 1.225)
    told = subprocess.run(
        [sys.executable, "-c", LOADS], input=pickle.dumps(airframe), capture_output=True, check=True
    )
    assert told.stdout.decode().strip() == str(expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"radius": 0.127}, "the table is of a diameter of 0.2794 m, the rotor of 0.254 m"),
        ({"thrust_c2": 8e-6}, "leave thrust_c2 out"),
    ],
)
def test_a_rotors_own_table_that_does_not_fit_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Airframe.model_validate(two_propellers(**change))


def test_a_rotors_own_table_beside_coefficients_is_refused() -> None:
    data = two_propellers()
    data["rotor_model"] = load_airframe("iris").rotor_model.model_dump(exclude_defaults=True)
    with pytest.raises(ValueError, match="needs a table in rotor_model, too"):
        Airframe.model_validate(data)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"thrust_c2": 8e-6}, "the table gives thrust and torque: leave thrust_c2 or the table out"),
        ({"torque_thrust_ratio": 0.016}, "leave torque_thrust_ratio or the table out"),
        ({"radius": 0.2}, "diameter of 0.254 m, the rotor of 0.4 m"),
        ({"table": RAGGED | {"speeds": (400.0, 680.0)}}, "either speeds"),
        (
            {"table": RAGGED | {"thrust": ((0.115, 0.1), (0.12, 0.04))}},
            "row 1: 2 values for 3 advance ratios",
        ),
    ],
)
def test_a_table_that_contradicts_itself_or_other_fields_is_refused(
    fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        CoefficientRotor.model_validate({"radius": 0.5 * DIAMETER, "inertia": 1e-5, "table": RAGGED} | fields)


def test_in_plane_drag_and_rolling_moment_are_those_of_rotors() -> None:
    # F = -|w| lambda v_perp at the hub, M = -|w| mu v_perp (gazebo_motor_model.cpp), whatever the direction.
    environments = environment()
    for direction in (1, -1):
        vehicles = body(2.0, np.diag([0.02, 0.03, 0.04]))
        vehicle = vehicles[0]
        add_rotors(vehicle, [(0.0, 0.0, 0.0, direction)], 0.0, 0.0)
        vehicle["rotor_drag"][0] = 8.06428e-5
        vehicle["rolling_moment"][0] = 1e-6
        vehicle["motor_speed_idle"] = 500.0
        states = start(vehicles, environments, 0.0)
        states["rotor_speed"][0, 0] = 500.0
        states["velocity"][0] = (3.0, -4.0, 2.0)
        state = fly(vehicles, states, environments, 1e-6, step=1e-6, substeps=1)
        assert state["specific_force"] == pytest.approx(
            [-500 * 8.06428e-5 * 3 / 2, 500 * 8.06428e-5 * 4 / 2, 0.0], rel=1e-4, abs=1e-6
        )
        moment = vehicle["inertia"] @ state["angular_acceleration"]
        assert moment == pytest.approx([-500 * 1e-6 * 3, 500 * 1e-6 * 4, 0.0], rel=1e-4, abs=1e-9)


def test_the_hubs_move_with_the_turn_of_the_body() -> None:
    # v + w x r at (x, y, z), felt by the in-plane drag alone: F = -|w| lambda (q z - r y, r x - p z).
    x, y, z = 0.3, -0.2, 0.1
    rate = 500.0 * 8.06428e-5 / 2.0
    environments = environment()
    for p, q, r in ((0.0, 0.0, 2.0), (1.5, 0.0, 0.0), (0.0, -1.0, 0.0)):
        vehicles = body(2.0, np.diag([0.02, 0.03, 0.04]))
        vehicle = vehicles[0]
        add_rotors(vehicle, [(x, y, z, 1)], 0.0, 0.0)
        vehicle["rotor_drag"][0] = 8.06428e-5
        vehicle["motor_speed_idle"] = 500.0
        states = start(vehicles, environments, 0.0)
        states["rotor_speed"][0, 0] = 500.0
        states["angular_velocity"][0] = (p, q, r)
        state = fly(vehicles, states, environments, 1e-6, step=1e-6, substeps=1)
        expected = [-rate * (q * z - r * y), -rate * (r * x - p * z), 0.0]
        assert state["specific_force"] == pytest.approx(expected, rel=1e-3, abs=1e-5)


@pytest.mark.parametrize(
    ("height", "factor"),
    [(2.0, 64.0 / 63.0), (1.0, 16.0 / 15.0), (0.5, 4.0 / 3.0), (0.25, 4.0 / 3.0), (-1.0, 4.0 / 3.0)],
)
def test_ground_effect_is_cheeseman_and_bennetts_and_bounded(height: float, factor: float) -> None:
    radius = 0.13
    assert ground_effect_factor(radius, height * radius, 1.0, 0.0, 5.0) == pytest.approx(factor)


@pytest.mark.parametrize(
    ("height", "factor"),
    # The published formula with R 1, d 2.784, b 3.937 and K_b 2, its four terms added up with a calculator.
    [(1.0, 1.16222), (2.0, 1.09147), (3.0, 1.05690), (4.0, 1.03722), (8.0, 1.01101)],
)
def test_the_ground_effect_of_a_quadrotor_is_that_of_sanchez_cuevas(height: float, factor: float) -> None:
    def factor_of(spacing: float) -> float:
        images = share_of_images(0.127, height * 0.127, 1.0, spacing)
        return ground_effect_factor(0.127, height * 0.127, 1.0, 0.0, 5.0, images)

    assert factor_of(2.784 * 0.127) == pytest.approx(factor, abs=1e-4)
    assert factor_of(1e4) == pytest.approx(ground_effect_factor(0.127, height * 0.127, 1.0, 0.0, 5.0))


def test_a_quadrotor_s_ground_effect_needs_four_rotors() -> None:
    with pytest.raises(UserError, match="quadrotor is of four rotors, not 6; true: of each alone"):
        sb.Airframe.load("firefly").changed(ground_effect="quadrotor")
    spacing = sb.Airframe.load("x500").changed(ground_effect="quadrotor").vehicle()["rotor_spacing"]
    assert spacing == pytest.approx(2.0 * 0.1768)


def test_ground_effect_fades_with_forward_flight_and_on_an_overturned_rotor() -> None:
    # ARC R&M 3021 with forward flight: at V = v_i the gain's square term halves.
    assert ground_effect_factor(0.1, 0.1, 1.0, 5.0, 5.0) == pytest.approx(1.0 / (1.0 - 1.0 / 32.0))
    assert ground_effect_factor(0.1, 0.1, -1.0, 0.0, 5.0) == 1.0
    assert ground_effect_factor(0.1, 0.1, 1.0, 0.0, 0.0) == 1.0
    overturned = share_of_images(0.1, 0.1, -1.0, 0.3)
    assert ground_effect_factor(0.1, 0.1, -1.0, 0.0, 5.0, overturned) == 1.0


def test_induced_velocity_is_that_of_momentum_theory() -> None:
    velocity = induced_velocity(3.8, 0.127, SEA_LEVEL_DENSITY)
    assert 2.0 * SEA_LEVEL_DENSITY * math.pi * 0.127**2 * velocity**2 == pytest.approx(3.8)
    assert induced_velocity(-1.0, 0.127, SEA_LEVEL_DENSITY) == 0.0
    assert induced_velocity(3.8, 0.0, SEA_LEVEL_DENSITY) == 0.0


def test_vehicle_near_the_ground_has_more_thrust_at_the_same_command() -> None:
    thrusts = []
    for height in (0.05, 50.0):
        vehicles, environments = iris(), environment()
        vehicles["ground_effect"] = 1.0
        vehicles["rotor_radius"][:] = 0.128
        states = start(vehicles, environments, height)
        state = fly(vehicles, states, environments, 0.02, 0.5)
        thrusts.append(float(state["rotor_thrust"][:4].sum()))
    hub = (0.05 + 0.1 + 0.023) / 0.128
    # The hubs sink by 2 mm meanwhile and the air is 0.5 % denser at the ground.
    assert thrusts[0] / thrusts[1] == pytest.approx(1.0 / (1.0 - (0.25 / hub) ** 2), rel=0.01)


def moment_in_forward_flight(name: str, *, released: bool) -> float:
    """Rolling moment in N m of a vehicle in hover trim that moves forward at 10 m/s."""
    data = load_airframe(name).model_dump(by_alias=True, exclude_defaults=True)
    data["rotor_model"]["rolling_moment_released"] = released
    simulation = hold_at_motion(Airframe.model_validate(data), (10.0, 0.0, 0.0))
    inertia = simulation.vehicles[0]["inertia"]
    return float((inertia @ simulation.states[0]["angular_acceleration"])[0])


@pytest.mark.parametrize("name", ["x500_gazebo", "hummingbird"])
def test_rolling_moments_of_opposite_rotors_cancel(name: str) -> None:
    assert abs(moment_in_forward_flight(name, released=False)) < 1e-3
    # gazebo_motor_model.cpp, whatever the rotation: -|w| mu v for each rotor.
    expected = (
        -10.0 * 1e-6 * float(performance(load_airframe(name).record, 1.225, 9.81).hover.rotor_speed.sum())
    )
    assert moment_in_forward_flight(name, released=True) == pytest.approx(expected, rel=0.1)


def test_a_rotor_that_stands_drags_across_the_flow() -> None:
    """Hoerner's plate: 1.2 q S of the blades."""
    airframe = load_airframe("x500_gazebo")
    vehicles, environments = airframe.vehicle().reshape(1), environment(gravity=0.0)
    vehicles["drag_force"] = 0.0
    states = start(vehicles, environments, 100.0)
    states["velocity"][0] = (0.0, 0.0, 10.0)
    state = fly(vehicles, states, environments, 1e-5, 0.0, armed=0, step=1e-5, substeps=1)
    area = 2.0 * 0.168 * 0.1396**2
    assert state["rotor_thrust"][:4] == pytest.approx(0.5 * 1.225 * 100.0 * 1.2 * area, rel=0.02)
    assert state["specific_force"][2] < 0.0
