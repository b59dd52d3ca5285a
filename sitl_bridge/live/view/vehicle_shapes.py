"""Triangles that stand for a vehicle: its body from the airframe's rotor positions, and a rotor's blades.

Axes of the body are forward, left, up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial.transform import Rotation
from trimesh import Trimesh
from trimesh import creation as solids
from trimesh.util import concatenate

from sitl_bridge.base.arrays import Floats
from sitl_bridge.core.vehicle.airframe import Airframe


@dataclass(frozen=True)
class VehicleShape:
    """Drawing of an airframe."""

    body: Trimesh  # hub, arms and motors
    nose: Trimesh  # marks the front
    hubs: Floats  # (r, 3) m, of its rotors
    turns: Floats  # (r, 4) x, y, z, w from a rotor's axes, thrust along z, to the body's
    radii: Floats  # (r,) m
    directions: Floats  # (r,) 1 for counter-clockwise seen from above, else -1
    reach: float  # m from the centre to the outermost blade tip


def box(size: tuple[float, float, float], centre: Floats, turn: Rotation | None = None) -> Trimesh:
    """A box, turned about its centre."""
    place = np.eye(4)
    place[:3, 3] = centre
    if turn is not None:
        place[:3, :3] = turn.as_matrix()
    return solids.box(size, place)


def blades() -> Trimesh:
    """A two-bladed rotor of radius 1 m that turns about z, visible from all sides."""
    tilt = Rotation.from_euler("x", 12.0, degrees=True)
    right = box((0.95, 0.14, 0.03), np.array([0.525, 0.0, 0.0]), tilt)
    left = box((0.95, 0.14, 0.03), np.array([-0.525, 0.0, 0.0]), tilt.inv())
    return concatenate([right, left, box((0.15, 0.15, 0.12), np.zeros(3))])


def vehicle_shape(airframe: Airframe) -> VehicleShape:
    """The shape of an airframe."""
    flu = np.array([1.0, -1.0, -1.0])
    hubs = np.array([rotor.position for rotor in airframe.rotors], np.float64) * flu
    axes = np.array([rotor.axis for rotor in airframe.rotors], np.float64) * flu
    radii = np.array([rotor.combine_with(airframe.rotor_model).radius for rotor in airframe.rotors])
    turns = [Rotation.align_vectors([axis / np.linalg.norm(axis)], [[0.0, 0.0, 1.0]])[0] for axis in axes]
    length = max(float(np.linalg.norm(hubs[:, :2], axis=1).max()), float(radii.max()))
    thick = 0.07 * length
    middle = np.array([0.0, 0.0, float(hubs[:, 2].mean()) - thick])
    parts = [box((0.5 * length, 0.34 * length, 0.2 * length), middle)]
    for hub, turn in zip(hubs, turns, strict=True):
        across = hub - turn.apply([0.0, 0.0, thick]) - middle
        away = float(np.linalg.norm(across))
        if away > thick:
            arm = Rotation.align_vectors([across / away], [[1.0, 0.0, 0.0]])[0]
            parts.append(box((away, thick, thick), middle + 0.5 * across, arm))
        parts.append(box((2.0 * thick, 2.0 * thick, 1.6 * thick), hub - turn.apply([0.0, 0.0, thick]), turn))
    nose = box((0.16 * length, 0.22 * length, 0.12 * length), middle + np.array([0.3 * length, 0.0, 0.0]))
    return VehicleShape(
        concatenate(parts),
        nose,
        hubs,
        np.array([turn.as_quat() for turn in turns]),
        radii,
        np.array([1.0 if rotor.direction == "ccw" else -1.0 for rotor in airframe.rotors]),
        float((np.linalg.norm(hubs, axis=1) + radii).max()),
    )
