"""The depth camera: noise, shadows and edges against their models, presets, and colour."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from scipy.special import ndtr

from sitl_bridge.core.sensors.perception.depth_camera import DepthCameraSpecification
from sitl_bridge.core.sensors.perception.scene_caster import SceneCaster
from sitl_bridge.core.sensors.perception.view import Arrays, Poses, View
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.scene import Scene
from sitl_bridge.core.world.scene_specification import BoxObject, SceneSpecification

WALL = BoxObject(kind="box", size=(2.0, 60.0, 60.0), position=(5.0, 0.0, -50.0))
"""Its face is 4 m ahead."""
PLATE = BoxObject(kind="box", size=(0.2, 1.0, 20.0), position=(2.1, 0.0, -50.0), color=(0.0, 0.0, 0.0))
"""Black, 1 m wide, its face 2 m ahead, before the wall."""
PLAIN: dict[str, Any] = {"baseline": 0.0, "edge_noise": 0.0, "quadratic_noise": 0.0}


def camera(**fields: Any) -> DepthCameraSpecification:
    return DepthCameraSpecification.model_validate({"kind": "depth_camera", **fields})


def sample(sensor: DepthCameraSpecification, *objects: BoxObject, seed: int = 1) -> Arrays:
    caster = SceneCaster(Scene(SceneSpecification(objects=objects)), 0, np.zeros((0, 4)))
    poses = Poses(np.array([0, 4000]), np.tile([0.0, 0, -50], (2, 1)), np.tile([1.0, 0, 0, 0], (2, 1)))
    return sensor.measure(View(caster, poses, 4000, np.random.default_rng(seed)))


@pytest.mark.parametrize(("model", "figure"), [("kinect", 1.43e-3), ("realsense_d435", 3.58e-3)])
def test_the_noise_grows_with_the_square_of_the_depth(model: str, figure: float) -> None:
    sensor = camera(model=model)
    near, far = (
        sample(sensor, WALL.model_copy(update={"position": (x, 0.0, -50.0)}))["depth"].astype(float)
        for x in (3.0, 7.0)
    )
    assert (near - 2.0).std() == pytest.approx(figure * 4.0, rel=0.02)
    assert (far - 6.0).std() == pytest.approx(figure * 36.0, rel=0.02)


def test_the_preset_of_the_realsense_follows_from_its_disparity() -> None:
    sensor = camera(model="realsense_d435", rate=15.0)
    assert (sensor.width, sensor.height, sensor.rate) == (848, 480, 15.0)
    assert sensor.quadratic_noise == pytest.approx(0.08 / (sensor.focal_length * sensor.baseline), rel=1e-3)
    assert camera(model="realsense_d435", width=424).width == 424


def test_an_object_casts_a_shadow_as_wide_as_the_difference_of_disparities() -> None:
    sensor = camera(**{**PLAIN, "baseline": 0.1})
    row = sample(sensor, WALL, PLATE)["depth"][240].astype(float)
    lost = np.flatnonzero(np.isnan(row))
    width = sensor.focal_length * 0.1 * (1.0 / 2.0 - 1.0 / 4.0)
    assert len(lost) == pytest.approx(width, abs=1.5)
    assert row[lost[-1] + 1] == pytest.approx(2.0)  # to the left of the plate
    assert row[lost[0] - 1] == pytest.approx(4.0)


def test_edges_are_ragged_by_the_stated_deviation() -> None:
    depth = sample(camera(**{**PLAIN, "edge_noise": 0.8}), WALL, PLATE)["depth"].astype(float)
    clean = sample(camera(**PLAIN), WALL, PLATE)["depth"][240]
    first = int(np.flatnonzero(clean < 3.0)[0])
    shares = (depth[20:460, first - 2 : first + 2] < 3.0).mean(axis=0)
    assert shares == pytest.approx(ndtr((np.arange(-2, 2) + 0.5) / 0.8), abs=0.07)
    assert set(np.unique(np.round(depth, 3))) == {2.0, 4.0}
    mixed = sample(camera(**{**PLAIN, "edge_noise": 0.8, "mixed": True}), WALL, PLATE)["depth"].astype(float)
    between = (mixed > 2.01) & (mixed < 3.99)
    assert between.any()
    assert not between[:, : first - 4].any()


def test_depths_beyond_the_limits_are_left_out() -> None:
    near = sample(camera(**{**PLAIN, "minimum": 3.0}), WALL, PLATE)["depth"].astype(float)
    assert np.nanmin(near) > 3.0
    far = sample(camera(**{**PLAIN, "maximum": 3.0}), WALL, PLATE)["depth"].astype(float)
    assert np.nanmax(far) < 3.0
    with pytest.raises(ValidationError, match="minimum must be less than maximum"):
        camera(minimum=9.0)


def test_colour_and_depth_show_the_same_pixels() -> None:
    arrays = sample(camera(width=160, height=120, color=True, **PLAIN), WALL, PLATE)
    assert arrays["color"].shape == (120, 160, 3)
    dark = arrays["color"].astype(int).sum(axis=2) < 45
    assert (dark == (arrays["depth"].astype(float) < 3.0)).mean() > 0.995


def test_the_same_seed_gives_the_same_bytes() -> None:
    sensor = camera(width=80, height=60)
    first, again, other = (sample(sensor, WALL, PLATE, seed=k)["depth"].tobytes() for k in (1, 1, 2))
    assert first == again != other


def test_an_example_airframe_carries_a_depth_camera_with_a_place() -> None:
    sensor = load_airframe("iris_depth").perception_sensors()[1]
    assert (sensor.name, sensor.rate, sensor.position) == ("depth_camera_0", 15.0, (0.1, 0.0, 0.0))
