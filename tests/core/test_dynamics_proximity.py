"""Vehicles that touch, and vehicles under one another: what must hold whatever the constants are."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from sitl_bridge.core.dynamics.proximity import WAKE_REACH, Proximity, hull, interact
from sitl_bridge.core.simulation.simulation import Simulation, VehicleSetup
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.world import World

HEIGHT = -50.0
BOTH = Proximity()


def fleet(
    *places: tuple[float, float, float],
    proximity: Proximity | None = BOTH,
    names: tuple[str, ...] = (),
    airframes: tuple[str, ...] = (),
) -> Simulation:
    """Irises (or others) that fall with motors stopped, well above the ground."""
    setups = []
    for i, (north, east, up) in enumerate(places):
        airframe = load_airframe(airframes[i] if airframes else "iris")
        name = names[i] if names else str(i)
        none = np.zeros(0, airframe.sensor_records().dtype)
        place = (north, east, HEIGHT - up)
        setups.append(VehicleSetup(airframe.vehicle(), none, place, name=name))
    return Simulation(World(), setups, proximity=proximity)


def meet(s: Simulation, *, steps: int = 100, without_air: bool = True) -> None:
    """Let them fly on; without drag, only gravity and the others act on them."""
    if without_air:
        s.vehicles["drag_force"] = 0.0
        s.vehicles["drag_moment"] = 0.0
        s.vehicles["rotor_drag"] = 0.0
        s.vehicles["blade_area"] = 0.0
    s.world.environment["gravity_slope"] = 0.0  # the same for all
    s.world.environment["earth_rate"] = 0.0
    s.advance(steps)


def momenta(s: Simulation) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Linear and angular momentum about the origin, NED."""
    linear, angular = np.zeros(3), np.zeros(3)
    for vehicle, state in zip(s.vehicles, s.states, strict=True):
        w, x, y, z = state["attitude"]
        turn = np.array(
            [
                [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
                [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
                [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
            ]
        )
        p = vehicle["mass"] * state["velocity"]
        linear += p
        angular += np.cross(state["position"], p) + turn @ (vehicle["inertia"] @ state["angular_velocity"])
    return linear, angular


# ------------------------------------------------------------------ collisions


def energy(s: Simulation) -> float:
    """J of motion, turning included, without that of the common centre of gravity."""
    common, _ = momenta(s)
    total = -0.5 * float(common @ common) / float(s.vehicles["mass"].sum())
    for vehicle, state in zip(s.vehicles, s.states, strict=True):
        spin = state["angular_velocity"]
        total += 0.5 * float(vehicle["mass"]) * float(state["velocity"] @ state["velocity"])
        total += 0.5 * float(spin @ vehicle["inertia"] @ spin)
    return total


@pytest.mark.parametrize("restitution", [1.0, 0.5])
def test_a_collision_conserves_momentum_and_leaves_the_energy_its_restitution_says(
    restitution: float,
) -> None:
    s = fleet((0.0, 0.0, 0.0), (1.5, 0.0, 0.0), proximity=Proximity(downwash=False, restitution=restitution))
    s.world.environment["gravity"] = 0.0
    s.states["velocity"][0, 0] = 3.0
    before, energy_before = momenta(s)[0], energy(s)
    meet(s)
    assert int(s.proximity[0]["count"]) == 1
    assert np.allclose(momenta(s)[0], before, atol=1e-8)
    # Energy goes as the square.  The spring is of the mass it meets, which changes as they turn, so it does
    # not give back quite all; two rotors of each touch at once, which damps a little less.
    left = energy(s) / energy_before
    assert left == pytest.approx(restitution**2, abs=0.06 if restitution == 1.0 else 0.15)


def test_a_blow_off_the_centre_turns_both_and_conserves_angular_momentum() -> None:
    s = fleet((0.0, 0.0, 0.1), (1.5, 0.35, 0.0), proximity=Proximity(downwash=False))
    s.states["velocity"][0, 0] = 3.0
    s.world.environment["gravity"] = 0.0
    _, before = momenta(s)
    meet(s)
    _, after = momenta(s)
    assert int(s.proximity[0]["count"]) >= 1
    assert np.linalg.norm(s.states["angular_velocity"], axis=1).min() > 0.1
    turned = max(
        np.linalg.norm(v["inertia"] @ x["angular_velocity"])
        for v, x in zip(s.vehicles, s.states, strict=True)
    )
    assert np.linalg.norm(after - before) < 0.03 * turned


def test_forces_are_equal_and_opposite_to_the_last_bit_and_independent_of_the_order() -> None:
    places = ((0.0, 0.0, 0.0), (0.3, 0.1, 0.05), (0.1, 0.45, -0.1), (-0.35, 0.2, 0.02))
    s = fleet(*places)
    s.states["rotor_thrust"][:, :4] = 3.7
    order = [2, 0, 3, 1]
    t = fleet(*(places[i] for i in order), names=tuple(str(i) for i in order))
    t.states["rotor_thrust"][:, :4] = 3.7
    for one in (s, t):
        interact(one.arrays.neighbours, one.vehicles, one.states, one.world.environment[0], 0, 0.004)
    assert np.all(s.states["neighbour_force"].sum(axis=0) == 0.0)
    assert np.abs(s.states["neighbour_force"]).max() > 10.0
    assert np.abs(s.states["neighbour_air"]).max() > 0.1
    for name in ("neighbour_force", "neighbour_moment", "neighbour_air"):
        assert np.array_equal(t.states[name], s.states[name][order]), name


def test_a_collision_is_told_with_time_place_parts_and_closing_speed() -> None:
    s = fleet((1.5, 0.0, 0.0), (0.0, 0.0, 0.0), proximity=Proximity(downwash=False))
    s.states["velocity"][1, 0] = 4.0
    meet(s)
    told = s.collisions[0]
    spheres = hull(s.vehicles[0])["sphere"][:5]
    ahead = float((spheres[:, 0] + spheres[:, 3]).max() + (spheres[:, 3] - spheres[:, 0]).max())
    assert tuple(told["vehicle"]) == (0, 1)
    # Iris's front rotors are 2 cm further out than its rear ones, so they meet at a slant.
    assert told["speed"] == pytest.approx(4.0, abs=0.02)
    assert 0.0 < told["position"][0] < 1.5
    assert told["time"] * 1e-6 == pytest.approx((1.5 - ahead) / 4.0, abs=0.01)
    assert told["part"].min() > 0  # propellers meet first


def test_a_rotor_hit_fast_enough_breaks() -> None:
    for limit, broken in ((3.0, True), (6.0, False), (None, False)):
        s = fleet((0.0, 0.0, 0.0), (1.5, 0.0, 0.0), proximity=Proximity(breaking_speed=limit))
        s.states["velocity"][0, 0] = 4.0
        meet(s)
        assert bool((s.states["rotor_health"] == 0.0).any()) is broken


def test_vehicles_out_of_reach_fly_as_if_alone() -> None:
    alone = fleet((0.0, 0.0, 0.0), proximity=None)
    alone.controls[:, :4], alone.armed[:] = 0.7, 1
    meet(alone, without_air=False)
    among = fleet((0.0, 0.0, 0.0), (9.0, 0.0, 0.0), (0.0, 9.0, 0.0), (0.0, 0.0, 1.2 * WAKE_REACH))
    among.controls[:, :4], among.armed[:] = 0.7, 1
    meet(among, without_air=False)
    assert among.states[0].tobytes() == alone.states[0].tobytes()


def test_one_vehicle_has_the_same_bytes_with_the_effects_switched_on() -> None:
    runs = []
    for proximity in (None, Proximity()):
        s = fleet((0.0, 0.0, 0.0), proximity=proximity)
        s.controls[:, :4], s.armed[:] = 0.7, 1
        meet(s, without_air=False)
        runs.append(s.states.tobytes())
    assert runs[0] == runs[1]


# ------------------------------------------------------------------ downwash


def hovering(*places: tuple[float, float, float]) -> Simulation:
    """Air that the others feel under a vehicle with the thrust of its weight."""
    s = fleet(*places, proximity=Proximity(collisions=False))
    weight = float(s.vehicles[0]["mass"]) * float(s.world.environment[0]["gravity"])
    s.states["rotor_thrust"][0, :4] = weight / 4
    interact(s.arrays.neighbours, s.vehicles, s.states, s.world.environment[0], 0, 0.004)
    return s


def test_the_jet_carries_the_thrust_at_every_distance() -> None:
    """Momentum theory: the flux of momentum through any plane below is the thrust."""
    density = 1.225 * (1 - 2.25577e-5 * (488.0 - HEIGHT)) ** 4.2559
    for below in (0.5, 2.0, 5.0, 8.0):
        radii = np.linspace(0.02, 2.45, 40) ** 2
        s = hovering((0.0, 0.0, 0.0), *((0.0, float(r), -below) for r in radii))
        s.hulls["sphere_count"][1:] = 1  # at a point, not over the airframe
        interact(s.arrays.neighbours, s.vehicles, s.states, s.world.environment[0], 0, 0.004)
        speed = s.states["neighbour_air"][1:, 2]
        flux = density * 2 * math.pi * np.trapezoid(speed**2 * radii, radii)
        thrust = s.states["rotor_thrust"][0].sum()
        assert flux == pytest.approx(thrust, rel=0.05), below


def test_the_jet_spreads_and_decays_as_measured() -> None:
    """Half-width 0.102 x and a speed in inverse proportion to x (Hussein, Capp and George 1994)."""
    for below in (4.0, 8.0):
        s = hovering((0.0, 0.0, 0.0), (0.0, 0.0, -below), (0.0, 0.102 * below, -below))
        s.hulls["sphere_count"][1:] = 1
        interact(s.arrays.neighbours, s.vehicles, s.states, s.world.environment[0], 0, 0.004)
        axis, half = s.states["neighbour_air"][1:, 2]
        assert half / axis == pytest.approx(0.5, abs=0.06)
        assert axis * below == pytest.approx(22.6, rel=0.1)


def test_downwash_lowers_a_vehicle_below_and_not_one_above() -> None:
    s = hovering((0.0, 0.0, 0.0), (0.0, 0.0, -1.5), (0.0, 0.0, 1.5))
    assert s.states["neighbour_air"][1, 2] > 2.0
    assert np.all(s.states["neighbour_air"][2] == 0.0)
    sunk = []
    for proximity in (None, Proximity(collisions=False)):
        t = fleet((0.0, 0.0, 0.0), (0.0, 0.0, -2.0), proximity=proximity)
        t.controls[:, :4], t.armed[:] = 0.7, 1
        t.advance(100)
        sunk.append(float(t.states["velocity"][1, 2]))
    assert sunk[1] > sunk[0] + 0.1


def test_a_vehicle_half_inside_a_wake_is_turned_towards_the_side_that_is_blown_on() -> None:
    """The moment is that of the thrusts over their arms: the rotors in the wake have lost some."""
    s = hovering((0.0, 0.0, 0.0), (0.0, 0.35, -1.5))
    s.controls[1, :4], s.armed[1] = 0.6, 1
    s.states["rotor_speed"][1, :4] = 700.0
    s.advance(1)
    state, vehicle = s.states[1], s.vehicles[1]
    wakes = state["neighbour_air"][2] + state["rotor_air"][:4, 2]
    hubs = vehicle["rotor_position"][:4]
    assert wakes[hubs[:, 1] < 0].min() > 2.0 * wakes[hubs[:, 1] > 0].max()
    thrust = state["rotor_thrust"][:4]
    assert thrust[hubs[:, 1] < 0].max() < 0.97 * thrust[hubs[:, 1] > 0].min()
    expected = -float(hubs[:, 1] @ thrust)
    turning = float(vehicle["inertia"][0, 0] * state["angular_acceleration"][0])
    assert turning < -0.05
    assert turning == pytest.approx(expected, rel=0.2)


def test_a_vehicle_centred_below_another_is_not_turned() -> None:
    s = hovering((0.0, 0.0, 0.0), (0.0, 0.0, -1.5))
    s.states["rotor_speed"][1, :4] = 700.0
    s.advance(1)
    assert abs(s.states["angular_acceleration"][1, 0]) < 1e-4


def test_wind_carries_the_wake_away() -> None:
    s = fleet((0.0, 0.0, 0.0), (0.0, 0.0, -5.0), (2.0, 0.0, -5.0), proximity=Proximity(collisions=False))
    s.states["rotor_thrust"][0, :4] = 4.0
    s.states["wind"][:, 0] = 4.0
    interact(s.arrays.neighbours, s.vehicles, s.states, s.world.environment[0], 0, 0.004)
    assert s.states["neighbour_air"][2, 2] > 4 * s.states["neighbour_air"][1, 2]


def test_a_pair_that_parts_in_one_step_collides_anew_when_it_meets_again() -> None:
    # The third keeps the search for pairs from the south from ever reaching the one that is far away.
    s = fleet((0.0, 0.0, 0.0), (0.0, 0.3, 0.0), (20.0, 50.0, 0.0))
    s.advance(1)
    assert int(s.proximity[0]["count"]) == 1
    place = s.states[1]["position"].copy()
    s.states[1]["position"] = (500.0, 0.0, -50.0)
    s.advance(2)
    assert not s.touching.any()
    s.states[1]["position"] = place
    s.states["velocity"] = 0.0
    s.advance(1)
    assert int(s.proximity[0]["count"]) == 2
