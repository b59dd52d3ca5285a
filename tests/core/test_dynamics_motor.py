"""Motors and battery: exact first-order response, hector's DC motor, voltage sag, discharge."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from support.dynamics_vehicles import (
    SEA_LEVEL_DENSITY,
    STEP,
    Record,
    add_rotors,
    advance,
    body,
    environment,
    fly,
    hector,
    iris,
    start,
)

import sitl_bridge as sb
from sitl_bridge.core.dynamics.battery import Battery, discharge, open_circuit_voltage, source_voltage
from sitl_bridge.core.dynamics.motor import dc_current
from sitl_bridge.core.dynamics.performance import performance
from sitl_bridge.core.dynamics.records import SURFACES
from sitl_bridge.core.dynamics.step import settle_flow
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.vehicle.airframe_file import load_airframe


def bench(vehicles: Record) -> Record:
    """The same vehicle bolted down, as on a thrust stand."""
    vehicles["mass"] = 1e9
    vehicles["inertia"] = np.eye(3) * 1e9
    vehicles["inertia_inverse"] = np.eye(3) * 1e-9
    return vehicles


@pytest.mark.parametrize(("step", "substeps"), [(0.004, 2), (0.001, 1), (0.025, 3)])
def test_first_order_response_is_exact_at_every_step_size(step: float, substeps: int) -> None:
    vehicles, environments = bench(iris()), environment(gravity=0.0)
    states = start(vehicles, environments, 10.0)
    state = fly(vehicles, states, environments, 0.1, 0.6, step=step, substeps=substeps)
    assert state["rotor_speed"][:4] == pytest.approx(700.0 * (1.0 - math.exp(-0.1 / 0.0125)), rel=1e-12)
    state = fly(vehicles, states, environments, 0.1, 0.2, step=step, substeps=substeps)
    top = 700.0 * (1.0 - math.exp(-8.0))
    assert state["rotor_speed"][:4] == pytest.approx(300.0 + (top - 300.0) * math.exp(-4.0), rel=1e-12)


def test_a_command_acts_after_the_dead_time() -> None:
    iris = sb.Airframe.load("iris")
    commands = [0.3 + 0.02 * k for k in range(30)]

    def flown(dead_time: float, given: list[float]) -> NDArray[np.float64]:
        airframe = iris.changed(motor={"dead_time": dead_time})
        simulation = sb.Simulation(airframe, sensors=False)
        speeds = []
        for command in given:
            simulation.step(command)
            speeds.append(np.array(simulation.rotor_speed))
        return np.array(speeds)

    late = flown(0.012, commands)  # three steps of 4 ms
    assert (late == flown(0.0, [0.0] * 3 + commands[:-3])).all()
    assert (late != flown(0.0, commands)).any()


def test_motor_stops_when_disarmed_and_idles_when_armed() -> None:
    vehicles, environments = bench(iris()), environment(gravity=0.0)
    states = start(vehicles, environments, 10.0)
    assert fly(vehicles, states, environments, 1.0, 0.0, armed=1)["rotor_speed"][0] == pytest.approx(100.0)
    assert fly(vehicles, states, environments, 1.0, 0.7, armed=0)["rotor_speed"][0] == pytest.approx(
        0.0, abs=1e-9
    )


def test_rotor_without_health_stops_and_with_half_gives_half_the_thrust() -> None:
    vehicles, environments = bench(iris()), environment(gravity=0.0)
    states = start(vehicles, environments, 10.0)
    states["rotor_health"][0, :2] = (0.0, 0.5)
    state = fly(vehicles, states, environments, 1.0, 0.6)
    assert state["rotor_speed"][0] == 0.0
    assert state["rotor_thrust"][0] == 0.0
    assert state["rotor_thrust"][1] == pytest.approx(0.5 * state["rotor_thrust"][2])
    assert state["rotor_torque"][1] == pytest.approx(0.5 * state["rotor_torque"][2])


def test_reversible_motor_turns_backwards_and_pushes_down() -> None:
    vehicles, environments = bench(iris()), environment(gravity=0.0)
    vehicles["motor_reversible"] = 1
    states = start(vehicles, environments, 10.0)
    fly(vehicles, states, environments, 1.0, 0.5)
    state = fly(vehicles, states, environments, 1.0, -0.5)
    assert state["rotor_speed"][:4] == pytest.approx(-600.0)
    assert state["rotor_thrust"][:4] == pytest.approx(-5.84e-6 * 600.0**2, rel=2e-3)


def reversible_iris(share: float, inflow: str = "momentum") -> Record:
    """(1,) the iris with motors that reverse, and the thrust of its propellers in reverse."""
    data = load_airframe("iris").model_dump(exclude_defaults=True, by_alias=True)
    data["motor"]["reversible"] = True
    data["rotor_model"] |= {"reverse_thrust": share, "inflow": inflow, "torque_thrust_ratio": 0.016}
    return Airframe.model_validate(data).vehicle().reshape(1)


@pytest.mark.parametrize("inflow", ["none", "momentum"])
def test_a_propeller_that_turns_backwards_gives_a_share_of_its_thrust(inflow: str) -> None:
    vehicles, environments = bench(reversible_iris(0.4, inflow)), environment(gravity=0.0)
    forward = fly(vehicles, start(vehicles, environments, 10.0), environments, 1.0, 0.5)
    backward = fly(vehicles, start(vehicles, environments, 10.0), environments, 1.0, -0.5)
    # It takes less power, so the pack sags less.
    assert backward["rotor_speed"][:4] == pytest.approx(-forward["rotor_speed"][:4], rel=5e-3)
    assert backward["rotor_thrust"][:4] == pytest.approx(-0.4 * forward["rotor_thrust"][:4], rel=0.02)
    # The profile power of its sections stays, the induced one falls as T^(3/2) (momentum theory).
    disc = 2.0 * SEA_LEVEL_DENSITY * math.pi * 0.128**2
    profile = []
    for state in (forward, backward):
        shaft = state["rotor_torque"][:4] * state["rotor_speed"][:4]
        induced = np.abs(state["rotor_thrust"][:4]) ** 1.5 / math.sqrt(disc)
        assert (shaft > induced).all(), "no more power in the wake than on the shaft"
        profile.append(shaft - induced)
    assert profile[1] == pytest.approx(profile[0], rel=0.03)


def test_the_air_goes_on_through_a_rotor_that_is_reversed() -> None:
    vehicles, environments = bench(reversible_iris(0.4)), environment(gravity=0.0)
    state = fly(vehicles, start(vehicles, environments, 10.0), environments, 1.0, 0.5)
    before = state["induced_velocity"][0]
    assert before == pytest.approx(
        math.sqrt(state["rotor_thrust"][0] / (2 * 1.225 * math.pi * 0.128**2)), rel=0.02
    )
    states = start(vehicles, environments, 10.0)
    fly(vehicles, states, environments, 1.0, 0.5)
    flows = []
    for _ in range(60):
        flows.append(float(fly(vehicles, states, environments, STEP, -0.5)["induced_velocity"][0]))
    assert np.abs(np.diff([before, *flows])).max() < 0.35 * before, (
        "it changes gradually, also where speed does sign"
    )
    assert flows[-1] == pytest.approx(-math.sqrt(0.4) * before, rel=0.05)


def test_a_reversible_motor_stands_still_at_command_zero_and_passes_zero_without_a_jump() -> None:
    vehicles, environments = bench(reversible_iris(0.4)), environment(gravity=0.0)
    states = start(vehicles, environments, 10.0)
    fly(vehicles, states, environments, 1.0, 0.3)
    assert abs(fly(vehicles, states, environments, 1.0, 0.0)["rotor_speed"][0]) < 1e-6
    fly(vehicles, states, environments, 1.0, 0.3)
    speeds = [float(fly(vehicles, states, environments, STEP, -0.3)["rotor_speed"][0]) for _ in range(40)]
    assert speeds[0] > 0.0 > speeds[-1]
    # The fastest a first-order lag allows: the whole way over a time constant.
    assert np.abs(np.diff(speeds)).max() < 800.0 * STEP / 0.0125


def test_command_outside_its_range_is_clipped() -> None:
    vehicles, environments = bench(iris()), environment(gravity=0.0)
    states = start(vehicles, environments, 10.0)
    assert fly(vehicles, states, environments, 1.0, 7.0)["rotor_speed"][0] == pytest.approx(1100.0)
    assert fly(vehicles, states, environments, 1.0, -7.0)["rotor_speed"][0] == pytest.approx(100.0)


def test_hector_motor_holds_hover_speed_at_the_published_voltage_and_current() -> None:
    # 485.3 rad/s, 3.622 N, 7.035 V and 2.973 A a motor, 83.7 W in all; from standstill.
    vehicles, environments = bench(hector()), environment(gravity=0.0)
    states = start(vehicles, environments, 0.0)
    state = fly(vehicles, states, environments, 4.0, 7.035 / 14.8)
    assert state["rotor_speed"][:4] == pytest.approx(485.3, rel=1e-3)
    assert state["rotor_thrust"][:4] == pytest.approx(3.622, rel=2e-3)
    assert dc_current(vehicles[0], 7.035, float(state["rotor_speed"][0])) == pytest.approx(2.973, rel=2e-3)
    assert state["battery_current"] * 14.8 == pytest.approx(83.7, rel=2e-3)


def test_the_released_form_without_alpha_and_with_a_beta_of_one_is_the_papers_equation() -> None:
    vehicles = hector()
    vehicles["dc_alpha"], vehicles["dc_beta"] = 0.0, 1.0
    flux, resistance = float(vehicles[0]["dc_flux"]), float(vehicles[0]["dc_resistance"])
    # Eq. 4: U = R I + Psi w.  docs/papers/hector.md: 17.5 A.
    assert dc_current(vehicles[0], 7.035, 485.3) == pytest.approx((7.035 - flux * 485.3) / resistance)
    assert dc_current(vehicles[0], 7.035, 485.3) == pytest.approx(17.5, abs=0.05)
    assert dc_current(vehicles[0], 3.0, 485.3) == 0.0


def test_dc_motor_that_is_not_driven_brakes_to_a_stop() -> None:
    vehicles, environments = bench(hector()), environment(gravity=0.0)
    states = start(vehicles, environments, 0.0)
    fly(vehicles, states, environments, 3.0, 0.6)
    state = fly(vehicles, states, environments, 3.0, 0.0)
    assert (state["rotor_speed"][:4] >= 0.0).all()
    assert state["rotor_speed"][:4].max() < 1.0


# Kokam SLPB 75106100, Ecker et al., J. Electrochem. Soc. 162 (2015) A1849, in PyBaMM's figures: Ah, V.
KOKAM = {
    7.5: ((0.821, 3.981), (1.713, 3.875), (2.596, 3.790), (3.478, 3.725), (4.356, 3.688), (5.262, 3.636),
          (6.134, 3.510), (6.979, 3.382)),
    37.5: ((0.862, 3.727), (1.556, 3.655), (2.132, 3.604), (2.888, 3.556), (4.077, 3.491), (4.975, 3.411),
           (5.980, 3.291), (6.606, 3.176)),
}  # fmt: skip


@pytest.mark.parametrize(("current", "error"), [(7.5, 0.011), (37.5, 0.036)])
def test_a_cell_discharges_as_measured(current: float, error: float) -> None:
    battery = Battery(
        cells=1, capacity=7.754, resistance=7.66e-3, nominal_voltage=3.7, cell_voltage="kokam_slpb75106100"
    )
    vehicles = iris()
    battery.pack(vehicles[0])
    states = start(vehicles, environment(), 10.0)
    state = states[0]
    state["battery_charge"] = vehicles[0]["battery_capacity"]
    taken, errors = 0.0, []
    for charge, measured in KOKAM[current]:
        while taken < charge * 3600.0:
            discharge(vehicles[0], state, current, 0.1)
            taken += 0.1 * current
        voltage = source_voltage(vehicles[0], state) - current * battery.resistance
        errors.append(voltage - measured)
    assert np.abs(errors).max() < error


def test_an_unknown_cell_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match="no such cell; known are kokam_slpb75106100"):
        Battery(cells=1, nominal_voltage=3.7, cell_voltage="kokam")


def test_first_order_speed_follows_the_battery_voltage() -> None:
    vehicles, environments = bench(iris()), environment(gravity=0.0)
    vehicles["battery_capacity"] = 3600.0 * 100.0
    vehicles["battery_resistance"] = 0.01
    states = start(vehicles, environments, 10.0)
    state = fly(vehicles, states, environments, 0.5, 0.6)
    assert state["battery_voltage"] < 16.8 - 0.1
    assert state["rotor_speed"][0] == pytest.approx(700.0 * state["battery_voltage"] / 16.0, rel=1e-3)


def test_terminal_voltage_is_open_circuit_voltage_less_the_drop_in_the_pack() -> None:
    vehicles, environments = bench(iris()), environment(gravity=0.0)
    vehicles["battery_capacity"] = 3600.0 * 5.0
    vehicles["battery_resistance"] = 0.02
    states = start(vehicles, environments, 10.0)
    state = fly(vehicles, states, environments, 30.0, 0.5)
    source = open_circuit_voltage(vehicles[0], float(state["battery_charge"]))
    current = float(state["battery_current"])
    shaft = float(np.sum(state["rotor_torque"][:4] * state["rotor_speed"][:4]))
    assert state["battery_voltage"] == pytest.approx(source - 0.02 * current, rel=1e-3)
    assert current * state["battery_voltage"] == pytest.approx(shaft / 0.8, rel=1e-3)


@pytest.mark.parametrize("kind", ["first order", "dc"])
def test_voltage_does_not_oscillate_with_the_current_it_drives(kind: str) -> None:
    # The current of an accelerating motor grows with voltage faster than 1/R here: the loop gain passes 1.
    vehicles, environments = bench(iris() if kind == "first order" else hector()), environment(gravity=0.0)
    vehicles["battery_capacity"] = 3600.0 * 5.0
    vehicles["battery_resistance"] = 0.06
    states = start(vehicles, environments, 10.0)
    fly(vehicles, states, environments, 1.0, 0.2)
    controls = np.full(16, 0.6)
    voltages = []
    for _ in range(250):
        advance(vehicles, states, controls, 1, environments, 0.004, 2, 1)
        voltages.append(float(states["battery_voltage"][0]))
    change = np.diff(voltages)
    turns = np.sum(change[1:] * change[:-1] < 0.0)
    assert turns <= 2


def test_discharge_at_constant_current_takes_capacity_over_current() -> None:
    vehicles, environments = body(1.0, np.eye(3)), environment(gravity=0.0)
    vehicles["battery_capacity"] = 40.0
    vehicles["battery_idle_current"] = 2.0
    vehicles["battery_resistance"] = 0.05
    states = start(vehicles, environments)
    state = fly(vehicles, states, environments, 19.9)
    assert state["battery_charge"] == pytest.approx(40.0 - 2.0 * 19.9, rel=1e-9)
    assert state["battery_voltage"] == pytest.approx(4 * (3.3 + 0.9 * 0.005) - 0.1, rel=1e-3)
    state = fly(vehicles, states, environments, 4.0)
    assert state["battery_charge"] == pytest.approx(-0.12 * 40.0)
    assert state["battery_voltage"] == pytest.approx(0.0, abs=1e-9)


def test_empty_battery_stops_the_motors() -> None:
    vehicles, environments = bench(iris()), environment(gravity=0.0)
    vehicles["battery_capacity"] = 1e5
    states = start(vehicles, environments, 10.0)
    fly(vehicles, states, environments, 0.5, 0.6)
    states["battery_charge"] = -0.12e5
    state = fly(vehicles, states, environments, 0.5, 0.6)
    assert state["rotor_speed"][0] < 1.0
    assert state["battery_current"] == 0.0


def test_ideal_source_neither_sags_nor_empties() -> None:
    vehicles, environments = bench(iris()), environment(gravity=0.0)
    vehicles["battery_resistance"] = 0.1
    states = start(vehicles, environments, 10.0)
    state = fly(vehicles, states, environments, 1.0, 1.0)
    assert state["battery_voltage"] == 16.0
    assert math.isinf(state["battery_charge"])
    assert state["battery_current"] > 10.0


def test_overload_never_takes_the_voltage_below_half_the_sources() -> None:
    vehicles, environments = body(1e9, np.eye(3)), environment(gravity=0.0)
    add_rotors(vehicles[0], [(0.0, 0.0, 0.0, 1)], 1e-4, 0.1)
    vehicles["battery_capacity"] = 1e9
    vehicles["battery_resistance"] = 1.0
    states = start(vehicles, environments)
    for _ in range(100):
        state = fly(vehicles, states, environments, 0.05, 1.0)
        assert 0.5 * 16.8 * (1 - 1e-6) <= state["battery_voltage"] <= 16.8
        assert state["battery_current"] <= 0.5 * 16.8 * (1 + 1e-6)


def test_a_battery_sags_to_empty() -> None:
    """Past its empty point it falls over 12 % more of its capacity, in place of at once."""
    vehicles, environments = bench(iris()), environment(gravity=0.0)
    vehicles["battery_capacity"], vehicles["battery_resistance"] = 1000.0, 0.01
    states = start(vehicles, environments, 10.0)
    states["battery_charge"] = 20.0
    voltages = []
    for _ in range(600):
        voltages.append(float(fly(vehicles, states, environments, 0.02, 0.5)["battery_voltage"]))
    assert np.abs(np.diff(voltages[10:])).max() < 0.2
    assert voltages[-1] < 0.5 * voltages[0]
    assert states["battery_charge"][0] < -50.0


def test_a_failed_motor_keeps_the_thrust_of_its_remaining_speed() -> None:
    vehicles, environments = bench(iris()), environment(gravity=0.0)
    states = start(vehicles, environments, 10.0)
    before = fly(vehicles, states, environments, 1.0, 0.6)["rotor_thrust"][0]
    states["rotor_health"][0, 0] = 0.0
    state = fly(vehicles, states, environments, STEP, 0.6)
    left = math.exp(-STEP / 0.025)
    assert state["rotor_speed"][0] == pytest.approx(700.0 * left)
    assert state["rotor_thrust"][0] == pytest.approx(before * left**2)
    assert state["rotor_torque"][0] == pytest.approx(0.06 * before * left**2)


def test_broken_blades_give_no_thrust() -> None:
    vehicles, environments = bench(iris()), environment(gravity=0.0)
    states = start(vehicles, environments, 10.0)
    fly(vehicles, states, environments, 1.0, 0.6)
    states["rotor_health"][0, 0], states["rotor_broken"][0, 0] = 0.0, 1
    state = fly(vehicles, states, environments, STEP, 0.6)
    assert state["rotor_speed"][0] > 500.0
    assert state["rotor_thrust"][0] == state["rotor_torque"][0] == 0.0


@pytest.mark.parametrize("name", ["x500_gazebo", "iris", "x500"])
def test_the_whole_step_is_of_second_order(name: str) -> None:
    """Battery, current limit and induced flow included: errors fall to a quarter by half the step."""
    airframe = load_airframe(name)
    trim = performance(airframe.record, SEA_LEVEL_DENSITY, 9.80665).hover
    assert trim is not None
    count = len(airframe.rotors)
    x, y, _ = np.array([rotor.position for rotor in airframe.rotors]).T

    def flown(step: float) -> NDArray[np.float64]:
        vehicles, environments = airframe.vehicle().reshape(1), environment()
        states = start(vehicles, environments, 100.0)
        states["rotor_speed"][0, :count], states["rotor_torque"][0, :count] = (
            trim.rotor_speed,
            trim.rotor_torque,
        )
        hover = np.zeros((1, 16))
        hover[0, :count] = trim.throttle
        # From rotors that turn without a flow, the first steps alone would leave an error of first order.
        settle_flow(vehicles, states, np.zeros(1, SURFACES), environments, hover)
        for k in range(15):
            t = 0.04 * k
            command = trim.throttle * (1.0 + 0.15 * (t > 0.2) + 0.1 * math.sin(7.0 * t))
            tilt = 0.02 * math.sin(5.0 * t) * np.sign(x) + 0.015 * math.cos(6.0 * t) * np.sign(y)
            state = fly(vehicles, states, environments, 0.04, command + tilt, step=step, substeps=1)
        return np.concatenate([state["position"], state["velocity"], state["attitude"]])

    exact = flown(0.000125)
    errors = [float(np.linalg.norm(flown(step) - exact)) for step in (0.004, 0.002, 0.001)]
    assert errors[0] < 5e-3
    assert math.log2(errors[0] / errors[2]) / 2.0 > 1.7
