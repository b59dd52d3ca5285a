"""Real PX4 triggers a camera and manages its gimbal; MAVSDK finds both."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest
from pyulog import ULog
from support.paths import MISSIONS
from support.px4_flights import fly

from sitl_bridge.base.rotations import matrix_from_quaternion
from sitl_bridge.core.world.geography import Projection

pytestmark = pytest.mark.px4


def photos(directory: Path) -> list[dict[str, str]]:
    table = directory / "photos" / "payload_camera_0" / "photos.csv"
    return list(csv.DictReader(table.read_text().splitlines()))


def test_a_survey_leaves_a_photo_for_each_trigger_with_the_place_px4_logs(tmp_path: Path) -> None:
    outcome, _, session = fly(MISSIONS / "survey.plan", tmp_path, "iris_survey")
    assert outcome.succeeded, outcome.reason
    rows = photos(session.directory.path)
    log = ULog(str(next(session.directory.path.rglob("*.ulg"))))
    captures = log.get_dataset("camera_capture").data
    assert len(rows) == len(captures["timestamp"]) > 30
    for row, time, latitude, longitude in zip(
        rows, captures["timestamp"], captures["lat"], captures["lon"], strict=True
    ):
        assert float(row["time"]) == pytest.approx(time * 1e-6, abs=1e-6)
        here = Projection.from_degrees(latitude, longitude, 500.0)
        estimated = here.local(float(row["estimated_latitude"]), float(row["estimated_longitude"]))
        true = here.local(float(row["true_latitude"]), float(row["true_longitude"]))
        assert np.hypot(*estimated) < 0.2
        assert np.hypot(*true) < 2.0


def test_mavsdk_points_the_gimbal_and_takes_photos(tmp_path: Path) -> None:
    outcome, _, session = fly(MISSIONS / "payload" / "look_around.py", tmp_path, "iris_gimbal", speed=3.0)
    assert outcome.succeeded, outcome.reason
    rows = photos(session.directory.path)
    attitudes = matrix_from_quaternion(np.array([[float(row[f"true_q{k}"]) for k in "wxyz"] for row in rows]))
    assert attitudes[0, :, 0] == pytest.approx([0.0, 0.0, 1.0], abs=0.03)
    for attitude, yaw in zip(attitudes[1:], (0.0, 90.0, 180.0, -90.0), strict=True):
        level, down = math.cos(math.radians(20.0)), math.sin(math.radians(20.0))
        north, east = math.cos(math.radians(yaw)), math.sin(math.radians(yaw))
        assert attitude[:, 0] == pytest.approx([level * north, level * east, down], abs=0.03)
