"""Current limits and heat of speed controllers, and the slow voltage of a battery."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from sitl_bridge.cli.facts import yaw_acceleration, yaw_warning
from sitl_bridge.core.dynamics.battery import Battery
from sitl_bridge.core.dynamics.motor import SpeedControllers
from sitl_bridge.core.dynamics.performance import performance, static_thrusts
from sitl_bridge.core.simulation.simulation import Simulation, VehicleSetup
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.world import World

IDEAL = SpeedControllers()


def hovering(name: str, controllers: SpeedControllers = IDEAL, **battery: Any) -> Simulation:
    """A vehicle in the air with its motors as in a hover; its speed controllers are ideal by default."""
    airframe = load_airframe(name).model_copy(update={"esc": controllers})
    if battery:
        pack = Battery.model_validate({**airframe.battery.model_dump(), **battery})
        airframe = airframe.model_copy(update={"battery": pack})
    none = airframe.sensor_records()[:0]
    s = Simulation(World(), [VehicleSetup(airframe.vehicle(), none)])
    s.states["position"][0, 2] = -100.0
    s.armed[:] = 1
    return s


def held(s: Simulation, control: float, steps: int) -> Any:
    """(steps, 2) voltage and current of the battery, the vehicle held in its place."""
    s.controls[:] = control
    found = np.zeros((steps, 2))
    for k in range(steps):
        s.advance(1)
        s.states["velocity"], s.states["angular_velocity"] = 0.0, 0.0
        found[k] = s.states["battery_voltage"][0], s.states["battery_current"][0]
    return found


@pytest.mark.parametrize(("name", "limit"), [("x500", 12.0), ("iris", 10.0), ("hector", 6.0)])
def test_a_speed_controller_limits_the_inrush(name: str, limit: float) -> None:
    free, limited = hovering(name), hovering(name, SpeedControllers(current_limit=limit))
    for s in (free, limited):
        held(s, 0.55, 200)
    rotors = int(limited.vehicles[0]["rotor_count"])
    assert held(free, 1.0, 3)[:, 1].max() > 1.2 * rotors * limit
    inrush = held(limited, 1.0, 300)
    idle = float(limited.vehicles[0]["battery_idle_current"])
    assert inrush[:, 1].max() <= 1.03 * (rotors * limit + idle)
    assert limited.states["motor_current"][0, :rotors].max() <= limit * 1.001


def test_the_x500_takes_no_more_than_its_controllers_let_it() -> None:
    """A step to full throttle took 214 A without them."""
    s = hovering("x500", load_airframe("x500").esc)
    held(s, 0.55, 200)
    assert held(s, 1.0, 100)[:, 1].max() < 1.03 * (4 * 20.0 + 0.35)


def test_a_limit_that_is_not_reached_changes_nothing() -> None:
    free, limited = hovering("x500"), hovering("x500", SpeedControllers(current_limit=500.0))
    np.testing.assert_array_equal(held(free, 0.7, 50), held(limited, 0.7, 50))


def test_the_currents_of_the_controllers_add_up_to_the_battery_s() -> None:
    for name in ("x500", "hector"):
        s = hovering(name)
        current = held(s, 0.6, 400)[-1, 1]
        total = s.states["motor_current"][0].sum() + s.vehicles[0]["battery_idle_current"]
        assert total == pytest.approx(current, rel=2e-3)


def test_a_controller_warms_up_by_the_square_of_its_current() -> None:
    esc = SpeedControllers(resistance=0.003, thermal_resistance=20.0, thermal_time=2.0)
    s = hovering("x500", esc)
    held(s, 0.55, 2000)
    current = s.states["motor_current"][0, 0]
    assert s.states["esc_rise"][0, 0] == pytest.approx(0.06 * current**2, rel=0.1)
    assert current > 2.0


def test_a_lasting_current_lowers_the_voltage_further_by_the_slow_resistance() -> None:
    """Plett's RC pair: V falls by R I (1 - exp(-t/tau)) below that of a pack without it."""
    plain = held(hovering("x500"), 0.55, 1000)
    s = hovering("x500", slow_resistance=0.02, slow_time=1.0)
    slow = held(s, 0.55, 1000)
    fallen = 0.02 * slow[-1, 1] * (1.0 - math.exp(-4.0))
    assert s.states["battery_slow_voltage"][0] == pytest.approx(fallen, rel=0.02)
    assert plain[-1, 0] - slow[-1, 0] == pytest.approx(fallen, rel=0.15)
    s.armed[:] = 0
    held(s, 0.0, 2000)
    assert s.states["battery_slow_voltage"][0] < 0.02 * 0.4


@pytest.mark.parametrize("name", ["iris", "x500", "octo_x", "typhoon_h480"])
def test_yaw_saturates_where_check_says(name: str) -> None:
    """Rotors of one direction carry all they can; after the motors' lag the turn gains what is told."""
    airframe = load_airframe(name)
    density, record = 1.225, airframe.record
    result = performance(record, density, 9.81)
    told = yaw_acceleration(airframe, result, density)
    count, lift = len(airframe.rotors), float(result.hover.rotor_thrust.sum())
    turns = np.array(record["rotor_direction"][:count])
    gained = []
    for up in (turns > 0, turns < 0):
        share = lift / float(static_thrusts(record, 1.0, density)[up].sum())
        s = hovering(name)
        command = np.zeros(count)
        command[up] = min(1.0, float(np.interp(share, *_thrust_curve(airframe, density))))
        s.controls[0, :count] = command
        rates = []
        for _ in range(41):
            s.advance(1)
            s.states["velocity"] = 0.0
            rates.append(abs(math.degrees(float(s.states["angular_velocity"][0, 2]))))
        gained.append((rates[40] - rates[20]) / 0.08)
    # The lift is met within an eighth, as the pack is full; the air already brakes the turn.
    assert told == pytest.approx(min(gained), rel=0.2)


def test_a_turn_that_saturates_is_a_warning() -> None:
    airframe = load_airframe("iris")
    result = performance(airframe.record, 1.225, 9.81)
    assert yaw_warning(airframe, result, 1.225, {}) == []
    (line,) = yaw_warning(airframe, result, 1.225, {"MPC_YAWRAUTO_ACC": 300.0})
    assert "deg/s² only; PX4 plans turns with 300 (MPC_YAWRAUTO_ACC)" in line
    data = {**airframe.motor.model_dump(), "reversible": True}
    reversing = airframe.model_copy(update={"motor": type(airframe.motor).model_validate(data)})
    own = performance(reversing.record, 1.225, 9.81)
    assert yaw_acceleration(reversing, own, 1.225) > yaw_acceleration(airframe, result, 1.225)


def _thrust_curve(airframe: Airframe, density: float) -> tuple[list[float], list[float]]:
    """Shares of the full thrust, and the commands that give them."""
    commands = [0.01 * k for k in range(1, 101)]
    full = float(static_thrusts(airframe.record, 1.0, density).sum())
    return [float(static_thrusts(airframe.record, c, density).sum()) / full for c in commands], commands
