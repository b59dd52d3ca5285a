"""Range finder and optical flow over objects and terrain: closed forms."""

from __future__ import annotations

import math

import pytest
from support.scenes import mesh_object

from sitl_bridge.core.sensors.registry import KIND_NAMES
from sitl_bridge.core.simulation.simulation import Simulation, VehicleSetup
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.scene_specification import AnyObject, BoxObject, SceneSpecification
from sitl_bridge.core.world.world import World, WorldSpecification

ROOF = BoxObject(kind="box", size=(6.0, 6.0, 4.0), position=(0.0, 0.0, -2.0))
SLOPE = mesh_object(
    [[-50.0, -50.0, 25.0], [50.0, -50.0, -25.0], [50.0, 50.0, -25.0], [-50.0, 50.0, 25.0]],
    [[0, 2, 1], [0, 3, 2]],
    solid=False,
)
"""Rises by a half towards the north, through the origin."""


def samples(
    thing: AnyObject, north: float, down: float, *, pitch: float = 0.0, speed: float = 0.0
) -> tuple[float, float, float]:
    """Range in m, flow about x and y in rad/s, without noise, of a vehicle held at a place for 0.1 s."""
    x500 = load_airframe("x500_full")
    setup = VehicleSetup(x500.vehicle(), x500.sensor_records(), (0.0, 0.0, -30.0))
    world = World(WorldSpecification(scene=SceneSpecification(objects=(thing,))))
    core = Simulation(world, [setup])
    core.sensors["noise"] = 0.0
    core.sensors["bias_start"] = core.sensors["bias_step"] = core.sensors["turn_on_sigma"] = 0.0
    values = {}
    for _ in range(25):
        core.states[0]["position"] = (north - speed * 0.002, 0.0, down)
        core.states[0]["velocity"] = (speed, 0.0, 0.0)
        core.states[0]["attitude"] = (math.cos(pitch / 2), 0.0, math.sin(pitch / 2), 0.0)
        core.states[0]["angular_velocity"] = 0.0
        core.advance()
        for sensor, state in zip(core.sensors[0], core.sensor_states[0], strict=True):
            if state["fresh"]:
                values[KIND_NAMES[int(sensor["kind"])]] = state["values"].copy()
    flow = values["optical_flow"]
    return float(values["range_finder"][0]), float(flow[0] / flow[5]), float(flow[1] / flow[5])


def test_the_range_finder_measures_to_the_roof_and_beside_it_to_the_ground() -> None:
    assert samples(ROOF, 0.0, -9.0)[0] == pytest.approx(5.0, abs=2e-3)
    assert samples(ROOF, 5.0, -9.0)[0] == pytest.approx(9.0, abs=2e-3)


def test_a_tilted_range_finder_measures_along_its_beam() -> None:
    # The beam goes down and, with the nose up, forward: 5 m above the roof by 1/cos(pitch).
    assert samples(ROOF, -2.0, -9.0, pitch=0.3)[0] == pytest.approx(5.0 / math.cos(0.3), abs=5e-3)


def test_flow_is_speed_over_the_distance_to_what_is_below() -> None:
    _, about_x, about_y = samples(ROOF, 0.0, -8.0, speed=1.0)
    assert about_y == pytest.approx(1.0 / 4.0, rel=5e-3)
    assert about_x == pytest.approx(0.0, abs=1e-3)


def test_the_range_over_a_slope_is_that_below() -> None:
    for north in (1.0, 3.0, 6.0):
        assert samples(SLOPE, north, -0.5 * north - 5.0)[0] == pytest.approx(5.0, abs=5e-3)
