"""The ideal odometry sensor: the truth, its noise, its rate and where it is out."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from estimator_bench import product, rotation_vector
from matplotlib.image import imsave
from numpy.typing import NDArray

from sitl_bridge.autopilot.estimation.odometry import ROTORS_NOISE, OdometrySettings, ideal_odometry
from sitl_bridge.autopilot.records import ATTITUDE, ESTIMATE, GLOBAL, POSITION, VELOCITY
from sitl_bridge.dynamics.records import STATE
from sitl_bridge.errors import UserError
from sitl_bridge.world.world import World

DT = 0.004


class Sensor:
    def __init__(self, settings: OdometrySettings, seed: int = 1, name: str = "0") -> None:
        self.states = np.zeros(1, STATE)
        self.states["attitude"] = (math.cos(0.2), 0.0, math.sin(0.2), 0.0)
        self.states["position"] = (1.0, 2.0, -3.0)
        self.states["velocity"] = (0.1, 0.2, 0.3)
        self.states["angular_velocity"] = (0.4, 0.5, 0.6)
        self.settings = settings.pack(seed, name).reshape(1)
        self.estimates = np.zeros(1, ESTIMATE)
        self.environment = World().environment
        self.time = 0

    def step(self) -> Any:
        self.time += 4000
        ideal_odometry(
            self.states[0], self.environment[0], self.settings[0], self.estimates[0], self.time, DT
        )
        return self.estimates[0]

    def many(self, field: str, count: int) -> NDArray[np.float64]:
        return np.array([self.step()[field].copy() for _ in range(count)])


def test_without_noise_it_tells_the_truth() -> None:
    sensor = Sensor(OdometrySettings())
    estimate = sensor.step()
    for field in ("position", "velocity", "attitude", "angular_velocity"):
        assert (estimate[field] == sensor.states[0][field]).all()
    assert estimate["valid"] & (ATTITUDE | VELOCITY | POSITION | GLOBAL)
    assert np.degrees(estimate["origin"][0]) == pytest.approx(47.397742)


def test_noise_has_the_deviation_that_was_set() -> None:
    sensor = Sensor(ROTORS_NOISE)
    count = 4000
    tolerance = 4.0 / math.sqrt(2 * count)
    for field, deviation in (("position", 0.01), ("velocity", 0.01)):
        noise = sensor.many(field, count) - sensor.states[0][field]
        assert noise.std(axis=0) == pytest.approx(deviation, rel=tolerance)
        assert np.abs(noise.mean(axis=0)).max() < 4.0 * deviation / math.sqrt(count)
    turned = product(sensor.states[0]["attitude"] * [1, -1, -1, -1], sensor.many("attitude", count))
    assert rotation_vector(turned).std(axis=0) == pytest.approx(0.017, rel=tolerance)
    assert (sensor.many("angular_velocity", 10) == sensor.states[0]["angular_velocity"]).all()


def test_the_same_seed_gives_the_same_noise_and_another_name_another() -> None:
    first, second, other = (Sensor(ROTORS_NOISE, name=name).many("position", 5) for name in "aab")
    assert (first == second).all()
    assert (first != other).any()


def test_the_divisor_holds_a_measurement_for_so_many_steps() -> None:
    sensor = Sensor(OdometrySettings(divisor=5))
    seen = []
    for k in range(20):
        sensor.states["position"][0, 0] = k
        seen.append(float(sensor.step()["position"][0]))
    assert seen == [5.0 * (k // 5) for k in range(20)]


def test_where_the_mask_is_black_the_last_estimate_stays_and_soon_is_not_valid(tmp_path: Path) -> None:
    picture = np.ones((10, 20))
    # Rows along north, columns along east, centred: north 1 to 2 m, east -4 to -2 m at 2 m a pixel.
    picture[5, 8] = 0.0
    imsave(tmp_path / "mask.png", picture, cmap="gray", vmin=0, vmax=1)
    sensor = Sensor(OdometrySettings(mask=tmp_path / "mask.png", mask_scale=2.0))
    sensor.states["position"] = (1.0, -1.0, 0.0)
    assert sensor.step()["valid"] & POSITION
    sensor.states["position"] = (1.0, -3.0, 0.0)
    for _ in range(49):
        estimate = sensor.step()
    assert estimate["position"][1] == -1.0
    assert estimate["valid"] & POSITION
    sensor.step()
    assert sensor.step()["valid"] == GLOBAL
    for away in ((-1.0, -3.0), (3.0, -3.0), (1.0, -5.0), (500.0, 500.0)):
        sensor.states["position"][0, :2] = away
        assert sensor.step()["position"][1] == away[1]


def test_bad_settings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="velocity_noise is a deviation"):
        OdometrySettings(velocity_noise=-1.0)
    with pytest.raises(UserError, match="divisor"):
        OdometrySettings(divisor=0)
    with pytest.raises(UserError, match="mask_scale"):
        OdometrySettings(mask_scale=math.nan)
    with pytest.raises(UserError, match="cannot read the mask"):
        OdometrySettings(mask=tmp_path / "none.png").pack(1, "0")
    (tmp_path / "text.png").write_text("no picture")
    with pytest.raises(UserError, match="cannot read the mask"):
        OdometrySettings(mask=tmp_path / "text.png").pack(1, "0")
    imsave(tmp_path / "large.png", np.ones((200, 20)), cmap="gray")
    with pytest.raises(UserError, match="20 x 200 pixels"):
        OdometrySettings(mask=tmp_path / "large.png").pack(1, "0")
