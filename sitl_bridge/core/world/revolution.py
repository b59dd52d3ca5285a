"""Closed meshes of solids of revolution: cone, capsule and ellipsoid, which a scene has no closed form of."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.core.world.geometry import TriangleMesh

SEGMENTS = 64
"""Around the axis.  With the corners on the surface, the faces lie within 0.12 % of the radius of it."""


def revolved(
    profile: NDArray[np.float64], scale: tuple[float, float, float] = (1.0, 1.0, 1.0)
) -> TriangleMesh:
    """The solid that a profile makes about the z axis.

    Args:
        profile: (k, 2) distance from the axis and z in m, from the lowest point, on the axis, to the highest.
        scale: factors along x, y and z.
    """
    angle = 2.0 * np.pi * np.arange(SEGMENTS) / SEGMENTS
    around = np.stack([np.cos(angle), np.sin(angle), np.zeros(SEGMENTS)], axis=1)
    rings = [radius * around + [0.0, 0.0, z] for radius, z in profile[1:-1]]
    ends = np.array([[0.0, 0.0, profile[0, 1]], [0.0, 0.0, profile[-1, 1]]])
    k = np.arange(SEGMENTS)
    beside = (k + 1) % SEGMENTS
    bottom, top = len(rings) * SEGMENTS, len(rings) * SEGMENTS + 1
    last = (len(rings) - 1) * SEGMENTS
    faces = [np.stack([np.full(SEGMENTS, bottom), beside, k], axis=1)]
    for ring in range(len(rings) - 1):
        low, high = ring * SEGMENTS, (ring + 1) * SEGMENTS
        faces.append(np.stack([low + k, low + beside, high + beside], axis=1))
        faces.append(np.stack([low + k, high + beside, high + k], axis=1))
    faces.append(np.stack([last + k, last + beside, np.full(SEGMENTS, top)], axis=1))
    vertices = np.concatenate([*rings, ends]) * np.asarray(scale)
    return TriangleMesh(vertices, np.concatenate(faces), None, True)


def _arc(first: float, last: float) -> NDArray[np.float64]:
    """Points (k, 2) of a unit circle between two latitudes in rad."""
    latitude = np.linspace(first, last, max(round(abs(last - first) / (2.0 * np.pi) * SEGMENTS), 2) + 1)
    return np.stack([np.cos(latitude), np.sin(latitude)], axis=1)


def cone(radius: float, length: float) -> TriangleMesh:
    """A cone about the origin, its tip at the top."""
    half = 0.5 * length
    return revolved(np.array([[0.0, -half], [radius, -half], [0.0, half]]))


def capsule(radius: float, length: float) -> TriangleMesh:
    """A cylinder of a length about the origin, closed by half spheres."""
    shift = np.array([0.0, 0.5 * length])
    quarter = 0.5 * np.pi
    return revolved(
        np.concatenate([radius * _arc(-quarter, 0.0) - shift, radius * _arc(0.0, quarter) + shift])
    )


def ellipsoid(x: float, y: float, z: float) -> TriangleMesh:
    """An ellipsoid about the origin of given half axes."""
    return revolved(_arc(-0.5 * np.pi, 0.5 * np.pi), (x, y, z))
