"""What PX4 is told follows from the airframe, and agrees with what PX4 ships for the vehicles it knows."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from support.paths import ROOT

from sitl_bridge.base.errors import UserError
from sitl_bridge.core.dynamics.performance import Performance, performance, torque_slope
from sitl_bridge.core.vehicle.airframe import Airframe, Px4Section
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.vehicle.control_effectiveness import (
    Response,
    allocation_matrix,
    effectiveness,
    geometry,
    inversion_error,
    response,
    thrust_curve_factor,
)
from sitl_bridge.core.world.atmosphere import air
from sitl_bridge.core.world.world import World
from sitl_bridge.link.px4.airframe_parameters import (
    DEFAULTS,
    Parameters,
    check_against_build,
    parameters_for,
    reason_of,
    station_time_out,
)
from sitl_bridge.link.px4.find import find_px4
from sitl_bridge.link.px4.given_parameters import build_parameters
from sitl_bridge.link.px4.rate_loop import (
    ATTITUDE_GAINS,
    GAINS,
    IRIS,
    PHASE_MARGIN,
    crossover,
    gain_for,
    phase_margin,
    reference_loop,
    with_default_gains,
)

AIRFRAMES = sorted(path.stem for path in (ROOT / "airframes").glob("*.yaml"))

NONE_IRIS = {
    "CA_AIRFRAME": 0,
    "CA_ROTOR_COUNT": 4,
    "CA_ROTOR0_PX": 0.1515,
    "CA_ROTOR0_PY": 0.245,
    "CA_ROTOR0_KM": 0.05,
    "CA_ROTOR1_PX": -0.1515,
    "CA_ROTOR1_PY": -0.1875,
    "CA_ROTOR1_KM": 0.05,
    "CA_ROTOR2_PX": 0.1515,
    "CA_ROTOR2_PY": -0.245,
    "CA_ROTOR2_KM": -0.05,
    "CA_ROTOR3_PX": -0.1515,
    "CA_ROTOR3_PY": 0.1875,
    "CA_ROTOR3_KM": -0.05,
    "PWM_MAIN_FUNC1": 101,
    "PWM_MAIN_FUNC2": 102,
    "PWM_MAIN_FUNC3": 103,
    "PWM_MAIN_FUNC4": 104,
}
"""PX4, ROMFS/px4fmu_common/init.d-posix/airframes/10016_none_iris."""

X500 = {
    "IMU_GYRO_CUTOFF": 30,
    **{
        f"MC_{axis}RATE_{gain}": value
        for axis in ("ROLL", "PITCH")
        for gain, value in zip("PID", (0.14, 0.3, 0.004), strict=True)
    },
    **{f"CA_ROTOR{i}_PX": sign for i, sign in enumerate((1, -1, 1, -1))},
    **{f"CA_ROTOR{i}_PY": sign for i, sign in enumerate((1, -1, -1, 1))},
    **{f"CA_ROTOR{i}_KM": sign * 0.05 for i, sign in enumerate((1, 1, -1, -1))},
}
"""PX4, ROMFS/px4fmu_common/init.d/airframes/4019_x500_v2."""

X500_GAZEBO = {
    "CA_ROTOR_COUNT": 4,
    "CA_ROTOR0_PX": 0.13,
    "CA_ROTOR0_PY": 0.22,
    "CA_ROTOR0_KM": 0.05,
    "CA_ROTOR1_PX": -0.13,
    "CA_ROTOR1_PY": -0.20,
    "CA_ROTOR2_PX": 0.13,
    "CA_ROTOR2_PY": -0.22,
    "CA_ROTOR3_PX": -0.13,
    "CA_ROTOR3_PY": 0.20,
    "CA_ROTOR3_KM": -0.05,
}
"""PX4, ROMFS/px4fmu_common/init.d-posix/airframes/4001_gz_x500."""


def heavier(airframe: Airframe, mass: float) -> Airframe:
    """Another vehicle, for which PX4 has no airframe."""
    return Airframe.model_validate(
        airframe.model_dump(exclude={"px4"}, exclude_defaults=True) | {"mass": mass}
    )


@cache
def told(name: str) -> Parameters:
    return parameters_for(load_airframe(name))


@cache
def flown(name: str) -> tuple[Performance, float]:
    """Performance at the default world's origin, and the density there."""
    environment = World().environment[0]
    _, _, density = air(environment, 0.0)
    return performance(load_airframe(name).record, density, float(environment["gravity"])), density


def crazyflie() -> Airframe:
    """Crazyflie 2.0: arms and torque over thrust of crazyflie-firmware, power_distribution_quadrotor.c; mass
    and inertia of Foerster, System Identification of the Crazyflie 2.0, ETH Zurich, 2015."""
    data = load_airframe("hummingbird").model_dump(exclude_defaults=True, by_alias=True)
    data |= {"mass": 0.028, "inertia": {"xx": 16.57e-6, "yy": 16.66e-6, "zz": 29.26e-6}}
    data["rotor_model"] |= {
        "radius": 0.0231, "inertia": 2.0e-8, "thrust_c2": 2.2e-8, "torque_thrust_ratio": 0.00596,
    }  # fmt: skip
    arm = 0.046 / math.sqrt(2.0)
    places = ((arm, arm, "ccw"), (-arm, -arm, "ccw"), (arm, -arm, "cw"), (-arm, arm, "cw"))
    data["rotors"] = [{"position": (x, y, 0.0), "direction": turn} for x, y, turn in places]
    data["motor"] |= {"speed_range": 2600.0, "idle_speed": 0.0}
    return Airframe.model_validate(data)


def answer(name: str, parameters: Parameters, factor: float) -> Response:
    result, density = flown(name)
    return response(load_airframe(name), parameters, result.hover, density, factor)


@pytest.mark.parametrize(
    ("name", "shipped"), [("iris", NONE_IRIS), ("x500", X500), ("x500_gazebo", X500_GAZEBO)]
)
def test_vehicles_that_px4_knows_fly_as_px4_has_them(name: str, shipped: dict[str, float]) -> None:
    found = told(name)
    assert {key: found[key] for key in shipped} == shipped
    assert [
        key for key in found if key.startswith(("MC_", "MPC_", "THR_", "NAV_")) and key not in shipped
    ] == ["MPC_THR_HOVER"]


def test_x500_hovers_near_the_thrust_px4_ships() -> None:
    # 4019_x500_v2 leaves MPC_THR_HOVER at 0.5, without a thrust curve: the command itself.
    assert told("x500")["MPC_THR_HOVER"] == pytest.approx(0.5, abs=0.05)
    # 4001_gz_x500 has 0.60, for a battery that does not sag.
    hover = performance(load_airframe("x500_gazebo").record, 1.225, 9.80665).hover
    assert hover.throttle == pytest.approx(0.66, abs=0.01)
    assert told("x500_gazebo")["MPC_THR_HOVER"] == pytest.approx(hover.throttle, abs=0.03)


@pytest.mark.parametrize("name", AIRFRAMES)
def test_every_parameter_has_its_reason_and_is_not_what_px4_has_anyhow(name: str) -> None:
    airframe = load_airframe(name)
    for key, value in told(name).items():
        assert reason_of(key, airframe)
        if not key.startswith(("MPC_THR_HOVER", "COM_")):
            assert DEFAULTS.get(key) != value, key


@pytest.mark.parametrize("name", AIRFRAMES)
def test_positive_torque_setpoints_turn_the_vehicle_the_positive_way(name: str) -> None:
    airframe = load_airframe(name)
    mix = allocation_matrix(told(name))
    record, n = airframe.record, len(airframe.rotors)
    for axis in range(3):
        force = mix[:, axis, None] * record["rotor_axis"][:n]
        moment = np.cross(record["rotor_position"][:n], force).sum(axis=0)
        share = airframe.mass * 9.81 / n
        drag = np.array([torque_slope(record, k, share, 1.225) for k in range(n)])
        moment -= ((record["rotor_direction"][:n] * drag)[:, None] * force).sum(axis=0)
        assert moment[axis] > 0.0
    assert -(mix[:, 5, None] * record["rotor_axis"][:n]).sum(axis=0)[2] == pytest.approx(-n, rel=0.05)


def test_mix_of_a_square_quadrotor_is_px4s_textbook_one() -> None:
    # Roll and pitch of a quad X are normalised to 1/sqrt(2), yaw and thrust to 1.
    arm = 0.17
    square: Parameters = {"CA_ROTOR_COUNT": 4}
    places = ((arm, arm, 1), (-arm, -arm, 1), (arm, -arm, -1), (-arm, arm, -1))
    for i, (x, y, turn) in enumerate(places):
        square |= {f"CA_ROTOR{i}_PX": x, f"CA_ROTOR{i}_PY": y, f"CA_ROTOR{i}_PZ": 0.0}
        square |= {f"CA_ROTOR{i}_AX": 0.0, f"CA_ROTOR{i}_AY": 0.0, f"CA_ROTOR{i}_AZ": -1.0}
        square |= {f"CA_ROTOR{i}_KM": 0.05 * turn, f"CA_ROTOR{i}_CT": 6.5}
    half = 1.0 / math.sqrt(2.0)
    expected = np.array(
        [
            [-half, half, 1, 0, 0, -1],
            [half, -half, 1, 0, 0, -1],
            [half, half, -1, 0, 0, -1],
            [-half, -half, -1, 0, 0, -1],
        ]
    )
    np.testing.assert_allclose(allocation_matrix(square), expected, atol=1e-6)


def test_thrust_curve_of_a_motor_without_idle_speed_is_quadratic() -> None:
    # T = c2 (range c)^2 exactly.
    assert thrust_curve_factor(load_airframe("hummingbird")) == pytest.approx(1.0, abs=1e-6)


def test_thrust_curve_of_the_iris_follows_its_motor() -> None:
    # Thrust over its greatest: ((100 + 1000 c)/1100)^2, PX4's Gazebo iris; f c^2 + (1 - f) c must be near.
    factor = thrust_curve_factor(load_airframe("iris"))
    command = np.linspace(0.2, 1.0, 9)
    thrust = ((100.0 + 1000.0 * command) / 1100.0) ** 2
    np.testing.assert_allclose(factor * command**2 + (1 - factor) * command, thrust, atol=0.025)


@pytest.mark.parametrize("name", AIRFRAMES)
def test_rate_loops_cross_over_where_the_reference_does_or_keep_their_margin(name: str) -> None:
    wanted = [reference_loop(axis) for axis in range(3)]
    parameters = told(name)
    if load_airframe(name).px4.airframe is not None:
        pytest.skip("flies with PX4's own gains of this vehicle")
    plant = answer(name, parameters, float(parameters["THR_MDL_FAC"]))
    for axis, key in enumerate(("MC_ROLL", "MC_PITCH", "MC_YAW")):
        integral = float(parameters.get(f"{key}RATE_I", GAINS[axis][1])) / GAINS[axis][1]
        at = crossover(axis, plant, float(parameters.get(f"{key}RATE_K", 1.0)), integral)
        assert phase_margin(axis, plant, at, integral) > PHASE_MARGIN - 0.02
        assert at >= 1.99 * float(parameters.get(f"{key}_P", ATTITUDE_GAINS[axis]))
        if f"{key}RATE_K" in parameters:
            assert 0.7 * wanted[axis].crossover <= at <= 1.01 * wanted[axis].crossover


def test_iris_gets_back_the_gains_of_px4() -> None:
    # With PX4's own thrust curve (none) the derivation must return PX4's defaults, a factor of 1.
    plant = answer("iris_gazebo", geometry(load_airframe("iris_gazebo")), 0.0)
    for axis in range(3):
        assert gain_for(axis, plant, reference_loop(axis)).factor == pytest.approx(1.0, abs=1e-6)


def test_the_reference_response_is_that_of_the_iris() -> None:
    plant = answer("iris_gazebo", geometry(load_airframe("iris_gazebo")), 0.0)
    assert plant.authority == pytest.approx(IRIS.authority, rel=1e-9)
    assert plant.motor_lag == pytest.approx(IRIS.motor_lag)
    assert plant.yaw_lead == pytest.approx(IRIS.yaw_lead, rel=1e-9)
    assert plant.delay == IRIS.delay


def test_gain_falls_as_authority_rises_and_as_motors_slow_down() -> None:
    plant = answer("iris", geometry(load_airframe("iris")), 0.0)
    wanted = with_default_gains(0, plant)
    strong = Response(8.0 * plant.authority, plant.motor_lag, plant.yaw_lead, plant.delay)
    assert gain_for(0, strong, wanted).factor == pytest.approx(0.125, rel=1e-6)
    slow = gain_for(0, Response(plant.authority, 0.15, plant.yaw_lead, plant.delay), wanted)
    assert 3.0 < slow.crossover < wanted.crossover
    assert slow.integral == pytest.approx(slow.crossover / wanted.crossover, rel=0.01)
    assert slow.phase_margin == pytest.approx(PHASE_MARGIN, abs=0.03)


@pytest.mark.parametrize("name", AIRFRAMES)
def test_px4_finds_its_mix_also_when_a_motor_of_six_has_failed(name: str) -> None:
    assert inversion_error(told(name)) < 0.01


def test_px4_inverts_in_single_precision() -> None:
    # A hexarotor with arms of 0.215 m, torque over thrust 0.016 m and its first motor failed: the motor
    # opposite to it must stop; PX4's arithmetic gives it a share of the thrust with the wrong sign.
    given = dict(told("firefly"))
    for i in range(6):
        given[f"CA_ROTOR{i}_KM"] = math.copysign(0.016, given[f"CA_ROTOR{i}_KM"])
    assert inversion_error(given) > 0.1


@pytest.mark.parametrize("name", AIRFRAMES)
def test_rotors_stand_where_the_airframe_has_them_in_metres(name: str) -> None:
    airframe, given = load_airframe(name), told(name)
    if airframe.px4.allocation is not None:
        pytest.skip("the file gives PX4's own allocation")
    record = airframe.record
    for i, rotor in enumerate(airframe.rotors):
        place = [given[f"CA_ROTOR{i}_P{axis}"] for axis in "XYZ"]
        assert place == pytest.approx(rotor.position, abs=1e-6)
        share = airframe.mass * 9.80665 / len(airframe.rotors)
        real = torque_slope(record, i, share, airframe.rotor_model.reference_density)
        factor = abs(given[f"CA_ROTOR{i}_KM"]) / real
        # Larger than the real one only where PX4's arithmetic needs it: four hexarotors and one with a
        # rotor near its centre of gravity.
        scaled = name in (
            "firefly",
            "firefly_vi_sensor",
            "ar100_x6",
            "ar200",
            "typhoon_h480",
            "octo_cox",
            "octo_x",
            "asymmetric_quadrotor",
        )
        assert factor == pytest.approx(2.0 ** round(math.log2(factor)), rel=1e-3)
        assert (factor > 1.5) == scaled


def test_the_yaw_of_a_small_vehicle_is_not_dropped_by_px4() -> None:
    # Arms of 46 mm and a torque over thrust of 5.96 mm (crazyflie-firmware).  With PX4's default
    # CA_ROTORn_CT no rotor's yaw effect exceeds 0.05, below which PX4 clears the axis.
    small = geometry(crazyflie())
    effect = np.abs(effectiveness(small)[:3]).max(axis=1)
    assert effect.min() > 0.05
    assert 6.5 * abs(small["CA_ROTOR0_KM"]) < 0.05


def test_px4_learns_which_motors_reverse_and_with_what_thrust() -> None:
    data = load_airframe("firefly").model_dump(exclude_defaults=True, by_alias=True)
    assert "CA_R_REV" not in geometry(Airframe.model_validate(data))
    data["motor"]["reversible"] = True
    data["rotor_model"]["reverse_thrust"] = 0.7
    given = geometry(Airframe.model_validate(data))
    assert (given["CA_R_REV"], given["CA_REV_THR_FRAC"]) == (0b111111, 0.7)


def test_different_rotors_get_thrust_coefficients_in_the_ratio_of_their_thrusts() -> None:
    data = load_airframe("hummingbird").model_dump(exclude_defaults=True, by_alias=True)
    data["rotors"][0]["model"] = {"thrust_c2": 0.5 * data["rotor_model"]["thrust_c2"]}
    given = geometry(Airframe.model_validate(data))
    shares = [given[f"CA_ROTOR{i}_CT"] for i in range(4)]
    assert shares[0] == pytest.approx(0.5 * shares[1], rel=1e-3)
    assert np.mean(shares) == pytest.approx(6.5, rel=1e-3)


@pytest.mark.parametrize("name", AIRFRAMES)
def test_the_current_px4_makes_up_is_that_of_healthy_motors(name: str) -> None:
    given = told(name)
    factor = given.get("THR_MDL_FAC", 0.0)
    slope, low = given["FD_ACT_MOT_C2T"], given["FD_ACT_LOW_OFF"]
    command = np.linspace(0.0, 1.0, 101)
    thrust = factor * command**2 + (1.0 - factor) * command
    # SimulatorMavlink.cpp, send_esc_telemetry; FailureDetector.cpp to v1.17 (no offsets) and of March 2026.
    current = 1.0 + 15.0 * command
    assert np.all(current > slope * thrust + 0.5)
    assert np.all(current < slope * thrust + 10.0 - 0.5)
    # Telemetry injected as wrong is a tenth (FailureInjector.cpp), judged above a thrust of 0.2.
    assert np.all((0.1 * current < slope * thrust - low)[thrust > 0.2])
    # escCheck.cpp of v1.18: an offset in both directions, later versions also have a constant.
    slope, idle, most = (given[key] for key in ("MOTFAIL_C2T", "MOTFAIL_IDLE", "MOTFAIL_OFF"))
    for constant in (0.0, idle):
        assert np.all(np.abs(current - slope * thrust - constant) < most - 0.5)


BEARINGS = {
    "hexarotor x": (90, -90, -30, 150, 30, -150),
    "quadrotor x": (45, -135, -45, 135),
    "quadrotor +": (90, -90, 0, 180),
}
"""deg from the nose, to the right, of motor 1, 2, ... (PX4, ROMFS/px4fmu_common/init.d/airframes/6001_hexa_x,
4001_quad_x and 5001_quad_+)."""
LAYOUTS = {
    "hexarotor x": ("typhoon_h480", "firefly", "neo11", "ar100_x6", "ar200"),
    "quadrotor x": ("iris", "x500", "ar100b"),
    "quadrotor +": ("hummingbird", "pelican", "hector"),
}


@pytest.mark.parametrize(("layout", "name"), [(key, name) for key in LAYOUTS for name in LAYOUTS[key]])
def test_motors_have_the_numbers_that_px4_gives_them_in_this_layout(layout: str, name: str) -> None:
    given = told(name)
    for motor, bearing in enumerate(BEARINGS[layout]):
        x, y = given[f"CA_ROTOR{motor}_PX"], given[f"CA_ROTOR{motor}_PY"]
        off = (math.degrees(math.atan2(y, x)) - bearing + 180.0) % 360.0 - 180.0
        assert abs(off) < 20.0, f"motor {motor + 1}"


@pytest.mark.parametrize("name", AIRFRAMES)
def test_only_channels_with_a_motor_drive_one(name: str) -> None:
    rotors = len(load_airframe(name).rotors)
    functions = [told(name)[f"PWM_MAIN_FUNC{k}"] for k in range(1, 17)]
    assert functions == [101 + k for k in range(rotors)] + [0] * (16 - rotors)


def test_hexarotor_and_quadrotor_say_what_they_are() -> None:
    # MAV_TYPE_QUADROTOR 2, MAV_TYPE_HEXAROTOR 13.
    assert told("iris")["MAV_TYPE"] == 2
    assert told("firefly")["MAV_TYPE"] == 13


def test_time_outs_of_wall_time_links_grow_with_the_speed_within_px4s_limits(iris: Airframe) -> None:
    slow, fast = parameters_for(iris, speed=0.5), parameters_for(iris, speed=20.0)
    unbounded = parameters_for(iris, speed=math.inf)
    assert (slow["COM_OF_LOSS_T"], slow["COM_DISARM_PRFLT"]) == (1.0, 10.0)
    assert (fast["COM_OF_LOSS_T"], fast["COM_DISARM_PRFLT"], fast["COM_DL_LOSS_T"]) == (20.0, 200.0, 200)
    assert (unbounded["COM_OBC_LOSS_T"], unbounded["COM_DL_LOSS_T"]) == (60.0, 300)
    assert (slow["UXRCE_DDS_SYNCT"], fast["UXRCE_DDS_SYNCT"], unbounded["UXRCE_DDS_SYNCT"]) == (0, 0, 0)
    assert "UXRCE_DDS_SYNCT" not in parameters_for(iris, speed=1.0)  # there it follows the agent's clock
    assert station_time_out(1.0) == {"COM_DL_LOSS_T": 10}
    assert station_time_out(math.inf) == {"COM_DL_LOSS_T": 300}


def test_estimator_knows_the_sensors_of_an_airframe() -> None:
    full = told("x500_full")
    assert (full["EKF2_MULTI_IMU"], full["SYS_HAS_MAG"], full["SYS_HAS_NUM_DIST"]) == (3, 1, 1)
    # 0.12 s late; skids end 0.217 m below the centre of gravity, where the range finder is.
    assert full["EKF2_GPS_DELAY"] == 120.0
    assert full["EKF2_MIN_RNG"] == pytest.approx(0.217)
    assert "SYS_HAS_NUM_DIST" not in told("iris")
    # Its barometer feels the wind, which an owner measures in flight first; PX4 as shipped does not do so.
    assert not any(name.startswith("EKF2_PCOEF") for name in full)


def test_noisy_gyro_of_hector_is_told_as_the_deviation_of_a_prediction() -> None:
    # 0.05 rad/s and 0.35 m/s^2 at 100 Hz, which is EKF2's prediction rate; PX4's own 0.35 is enough.
    assert told("hector")["EKF2_GYR_NOISE"] == pytest.approx(0.05, rel=1e-3)
    assert "EKF2_ACC_NOISE" not in told("hector")
    # 8.7266e-4 rad/s/sqrt(Hz) is below PX4's own 0.015, 0.1 m/s of the receiver below 0.3.
    assert not {"EKF2_GYR_NOISE", "EKF2_ACC_NOISE", "EKF2_GPS_V_NOISE"} & set(told("iris"))


def test_airframe_without_some_sensors_is_not_kept_on_the_ground(iris: Airframe) -> None:
    inertial = tuple(sensor for sensor in iris.sensors if sensor.kind == "imu")
    found = parameters_for(iris.model_copy(update={"sensors": inertial}))
    assert (found["SYS_HAS_MAG"], found["SYS_HAS_GPS"], found["SYS_HAS_BARO"]) == (0, 0, 0)
    assert found["EKF2_GPS_CTRL"] == 0


def test_airframe_file_overrides_what_is_derived(iris: Airframe) -> None:
    section = Px4Section(parameters={"MPC_THR_HOVER": 0.33, "MPC_XY_CRUISE": 7.0})
    found = parameters_for(iris.model_copy(update={"px4": section}))
    assert (found["MPC_THR_HOVER"], found["MPC_XY_CRUISE"]) == (0.33, 7.0)
    # What PX4 would lower itself, and so not be read back as it was sent.
    section = Px4Section(parameters={"MPC_XY_VEL_MAX": 3, "MPC_VEL_MANUAL": 4, "MPC_Z_VEL_MAX_UP": 1})
    found = parameters_for(iris.model_copy(update={"px4": section}))
    assert (found["MPC_XY_CRUISE"], found["MPC_VEL_MANUAL"], found["MPC_Z_V_AUTO_UP"]) == (3, 4, 1)


def test_battery_is_px4s_own_where_nobody_sends_one(iris: Airframe) -> None:
    own = parameters_for(iris, battery_over_mavlink=False)
    assert own["SIM_BAT_ENABLE"] == 1
    assert own["SIM_BAT_DRAIN"] == pytest.approx(flown("iris")[0].endurance, abs=0.1)
    assert told("iris")["SIM_BAT_ENABLE"] == 0


def test_weak_vehicle_tilts_climbs_and_flies_less(iris: Airframe) -> None:
    found = parameters_for(heavier(iris, 2.6))
    assert found["MPC_TILTMAX_AIR"] < 45.0
    assert found["MPC_Z_VEL_MAX_UP"] < 3.0
    assert not {"MPC_TILTMAX_AIR", "MPC_Z_VEL_MAX_UP"} & set(parameters_for(heavier(iris, 1.55)))
    assert found["MPC_ACC_HOR"] <= 9.80665 * math.tan(math.radians(float(found["MPC_TILTMAX_AIR"])))


def test_a_climb_costs_thrust_also_where_a_descent_gains_some() -> None:
    # hector's thrust changes by its C_T1 with the sign of the inflow; at 3.6 kg it climbs at 1.7 to 1.8 m/s.
    hector = parameters_for(heavier(load_airframe("hector"), 3.6))
    assert 1.5 <= hector["MPC_Z_VEL_MAX_UP"] <= 1.9


def test_yaw_is_planned_within_half_and_stopped_within_all_of_its_authority() -> None:
    for name in AIRFRAMES:
        if load_airframe(name).px4.airframe is not None:
            continue
        found = DEFAULTS | told(name)
        plant = answer(name, found, float(found["THR_MDL_FAC"]))
        room = min(found["MPC_THR_HOVER"], 1.0 - found["MPC_THR_HOVER"])
        most = math.degrees(float(plant.authority[2]) * room)
        assert found["MPC_YAWRAUTO_ACC"] <= 0.51 * most
        assert found["MC_YAW_P"] * found["MC_YAWRATE_MAX"] <= 1.02 * most
        assert found["MPC_YAWRAUTO_MAX"] <= found["MC_YAWRATE_MAX"]


@pytest.mark.px4
@pytest.mark.parametrize("name", AIRFRAMES)
def test_px4_has_and_allows_every_parameter(name: str) -> None:
    build = find_px4()
    known = build_parameters(build.etc)
    assert known is not None
    handed_over, _ = check_against_build(told(name), build.etc, {})
    for key, value in handed_over.items():
        entry = known[key]
        if key == "RTL_TIME_MARGIN":
            continue  # below PX4's own range on purpose, see _battery
        assert float(entry.get("min", -math.inf)) <= value <= float(entry.get("max", math.inf)), key
        assert entry["type"] == "Float" or float(value) == int(value), key


def test_vehicle_that_cannot_hover_is_the_users_to_mend(iris: Airframe) -> None:
    with pytest.raises(UserError, match="cannot hover"):
        parameters_for(heavier(iris, 5.0))
