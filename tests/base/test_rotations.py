"""Rotations, against scipy's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from sitl_bridge.base import rotations
from sitl_bridge.base.kernels import rotations as kernels
from sitl_bridge.base.kernels.compiled import compiled

ANGLE = st.floats(-math.pi, math.pi)
PITCH = st.floats(-1.5, 1.5)
VECTOR = st.tuples(*[st.floats(-10.0, 10.0)] * 3)


def scipys(roll: float, pitch: float, yaw: float) -> Any:
    return Rotation.from_euler("ZYX", (yaw, pitch, roll))


@compiled
def all_of(q: Any, angles: Any, v: Any, matrix: Any, written: Any, out: Any) -> float:
    out[0, 0], out[0, 1], out[0, 2] = kernels.to_ned(q, v[0], v[1], v[2])
    out[1, 0], out[1, 1], out[1, 2] = kernels.to_body(q, v[0], v[1], v[2])
    kernels.write_matrix(q, matrix)
    kernels.write_quaternion(written, angles[0], angles[1], angles[2])
    return kernels.heading(q)


@given(roll=ANGLE, pitch=PITCH, yaw=ANGLE, vector=VECTOR)
def test_rotations_are_scipys(
    roll: float, pitch: float, yaw: float, vector: tuple[float, float, float]
) -> None:
    rotation = scipys(roll, pitch, yaw)
    q = np.array(rotations.quaternion_from_euler(roll, pitch, yaw))
    expected = rotation.as_quat()[[3, 0, 1, 2]]
    assert q * np.sign(q @ expected) == pytest.approx(expected, abs=1e-12)
    assert rotations.matrix_from_euler(roll, pitch, yaw) == pytest.approx(rotation.as_matrix(), abs=1e-12)
    assert rotations.matrix_from_quaternion(q) == pytest.approx(rotation.as_matrix(), abs=1e-12)
    back = rotations.quaternion_from_matrix(rotation.as_matrix())
    assert back[0] >= 0.0
    assert abs(back @ expected) == pytest.approx(1.0, abs=1e-12)
    for angles in (rotations.euler_angles(*q), rotations.euler_arrays(q[None])[0]):
        assert scipys(*angles).as_matrix() == pytest.approx(rotation.as_matrix(), abs=1e-9)
    assert rotations.heading(*q) == rotations.euler_angles(*q)[2]
    matrix, written, out = np.zeros((3, 3)), np.zeros(4), np.zeros((2, 3))
    yawed = all_of(q, np.array([roll, pitch, yaw]), np.array(vector), matrix, written, out)
    assert yawed == pytest.approx(rotations.heading(*q))
    assert out[0] == pytest.approx(rotation.apply(vector), abs=1e-12)
    assert out[1] == pytest.approx(rotation.inv().apply(vector), abs=1e-12)
    assert matrix == pytest.approx(rotation.as_matrix(), abs=1e-12)
    assert written == pytest.approx(q, abs=1e-15)


@given(first=st.tuples(ANGLE, PITCH, ANGLE), second=st.tuples(ANGLE, PITCH, ANGLE))
def test_a_product_of_quaternions_is_one_rotation_after_another(
    first: tuple[float, float, float], second: tuple[float, float, float]
) -> None:
    a, b = (np.array(rotations.quaternion_from_euler(*angles)) for angles in (first, second))
    found = rotations.matrix_from_quaternion(rotations.quaternion_product(a, b))
    assert found == pytest.approx((scipys(*first) * scipys(*second)).as_matrix(), abs=1e-12)


@given(angle=st.floats(-50.0, 50.0))
def test_wrapped_angles_are_the_same_directions_within_half_a_turn(angle: float) -> None:
    for wrapped in (rotations.wrap_angle(angle), kernels.wrap_angle(angle)):
        assert -math.pi <= wrapped <= math.pi
        assert (math.cos(wrapped), math.sin(wrapped)) == pytest.approx(
            (math.cos(angle), math.sin(angle)), abs=1e-9
        )
