"""Contact of the airframe with the ground, the plane down = 0: springs, dampers, Coulomb friction.

The points and their constants come from the airframe; what the forces do to the body is in forces.py.  The
shapes of a scene are in scene_contact.py.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from pydantic import BaseModel, Field

from sitl_bridge.base.arrays import Floats, Records
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.base.quantities import STRICT, Mounting, NonNegative, Positive
from sitl_bridge.core.dynamics.records import MAX_CONTACT_POINTS, State, Vehicle

_STEEPEST = 0.5
"""Sine of the greatest tilt at which a vehicle is taken to stand rather than to have fallen over."""
CONTACT_STEP = 1e-3
"""s, longest integration step near the ground.  Static sinkage d of a vehicle on springs gives a natural
frequency sqrt(g/d), 99 rad/s for 1 mm, and the rotation about a single point is about three times as stiff:
1 ms keeps h omega near 0.3, where RK4 follows the motion and does not merely stay stable."""
MOST_CONTACT_STEPS = 64
"""Parts into which a substep is divided at most, however hard the ground."""


class Contact(BaseModel):
    """Contact points: one spring and damper each, Coulomb friction."""

    model_config = STRICT

    points: tuple[Mounting, ...] = Field(description="m, FRD", min_length=3, max_length=MAX_CONTACT_POINTS)
    stiffness: Positive = Field(description="N/m per point")
    damping: NonNegative = Field(description="N s/m per point")
    friction: NonNegative = Field(description="1")

    def pack(self, vehicle: Records) -> None:
        """Write the contact points of a () VEHICLE record."""
        points = np.array(self.points)
        vehicle["contact_count"] = len(points)
        vehicle["contact_point"][: len(points)] = points
        vehicle["contact_radius"] = np.linalg.norm(points, axis=1).max()
        vehicle["contact_stiffness"] = self.stiffness
        vehicle["contact_damping"] = self.damping
        vehicle["contact_friction"] = self.friction


@compiled
def contact_rate(vehicle: Vehicle) -> float:
    """Rate in 1/s of the fastest motion on the contact points' springs and dampers, at most."""
    inverse = vehicle.inertia_inverse
    radius = vehicle.contact_radius
    turning = inverse[0, 0] + inverse[1, 1] + inverse[2, 2]
    mobility = 2.0 * (1.0 / vehicle.mass + radius * radius * turning)
    return float(max(vehicle.contact_damping * mobility, math.sqrt(vehicle.contact_stiffness * mobility)))


@compiled
def contact_steps(vehicle: Vehicle, seconds: float) -> int:
    """Number of integration steps near the ground within ``seconds``.

    CONTACT_STEP decides for ordinary springs.  For harder ones it is RK4's stability on the negative real and
    imaginary axes (2.78 and 2.83, taken as 2): a point at the radius of all contact points moves with the
    inverse mass of 1/m + R^2 tr(J^-1) at most, and two of them act on the same rotation.
    """
    steps = max(seconds / CONTACT_STEP, 0.5 * contact_rate(vehicle) * seconds)
    # A multiple of CONTACT_STEP that is one but for rounding stays one.
    return int(min(max(math.ceil(steps - 1e-9), 1), MOST_CONTACT_STEPS))


@compiled
def contact_force(
    vehicle: Vehicle,
    state: State,
    k: int,
    north: float,
    east: float,
    depth: float,
    vn: float,
    ve: float,
    vd: float,
) -> tuple[float, float, float]:
    """Force of the ground on one contact point in N, NED.

    Normal: linear spring and damper, never pulling.  Tangential: a spring to the point's anchor and a
    damper, cut off at the Coulomb cone mu N (Cundall and Strack, Geotechnique 29(1), 1979).  A velocity
    regularised friction law would let a vehicle creep under any side load; the anchor holds it.

    Args:
        state: STATE record, for the anchor.
        k: which point.
        north, east: m, where the point is.
        depth: m below the ground, > 0.
        vn, ve, vd: m/s NED velocity of the point.
    """
    stiffness = vehicle.contact_stiffness
    damping = vehicle.contact_damping
    normal = stiffness * depth + damping * vd
    if normal <= 0.0:
        return 0.0, 0.0, 0.0
    fn = -damping * vn
    fe = -damping * ve
    if state.contact_touching[k] != 0:
        fn -= stiffness * (north - state.contact_anchor[k, 0])
        fe -= stiffness * (east - state.contact_anchor[k, 1])
    square = fn * fn + fe * fe
    limit = vehicle.contact_friction * normal
    if square > limit * limit:
        cut = limit / math.sqrt(square)
        fn *= cut
        fe *= cut
    return fn, fe, -normal


@compiled
def update_contact(vehicle: Vehicle, state: State, y: Floats) -> None:
    """Set, drag along or release the anchors after an integration step, and note new impacts.

    An anchor is set where its point first touches and released when the point leaves the ground.  Where the
    point slides, the anchor follows so that the spring alone carries no more than the friction's limit.

    Args:
        state: STATE record, still with the motion at the start of the step.
        y: (25,) the motion at its end.
    """
    state.in_contact = 0
    reach = vehicle.contact_radius
    if state.groundless != 0:
        return
    if -y[2] > reach and -state.position[2] > reach:
        for k in range(vehicle.contact_count):
            state.contact_touching[k] = 0
        return
    qw = y[6]
    qx = y[7]
    qy = y[8]
    qz = y[9]
    for k in range(vehicle.contact_count):
        cx = vehicle.contact_point[k, 0]
        cy = vehicle.contact_point[k, 1]
        cz = vehicle.contact_point[k, 2]
        turned = rotate_to_ned(qw, qx, qy, qz, cx, cy, cz)
        depth = y[2] + turned[2]
        if depth <= 0.0:
            state.contact_touching[k] = 0
            continue
        state.in_contact += 1
        north, east = y[0] + turned[0], y[1] + turned[1]
        if state.contact_touching[k] == 0:
            state.contact_touching[k] = 1
            state.contact_anchor[k, 0] = north
            state.contact_anchor[k, 1] = east
            state.impact_speed = max(state.impact_speed, velocity_of(state, cx, cy, cz)[2])
            continue
        dn = north - state.contact_anchor[k, 0]
        de = east - state.contact_anchor[k, 1]
        stretch = math.sqrt(dn * dn + de * de)
        limit = vehicle.contact_friction * depth
        if stretch > limit:
            keep = limit / stretch
            state.contact_anchor[k, 0] = north - keep * dn
            state.contact_anchor[k, 1] = east - keep * de


@compiled
def rotate_to_ned(
    qw: float, qx: float, qy: float, qz: float, x: float, y: float, z: float
) -> tuple[float, float, float]:
    """NED components of a body vector under a unit quaternion body to NED."""
    return (
        x + 2.0 * (-(qy * qy + qz * qz) * x + (qx * qy - qw * qz) * y + (qx * qz + qw * qy) * z),
        y + 2.0 * ((qx * qy + qw * qz) * x - (qx * qx + qz * qz) * y + (qy * qz - qw * qx) * z),
        z + 2.0 * ((qx * qz - qw * qy) * x + (qy * qz + qw * qx) * y - (qx * qx + qy * qy) * z),
    )


@compiled
def place_of(state: State, x: float, y: float, z: float) -> tuple[float, float, float]:
    """Place in m NED of a point of the body, by the motion held in the state."""
    p, q = state.position, state.attitude
    n, e, d = rotate_to_ned(q[0], q[1], q[2], q[3], x, y, z)
    return p[0] + n, p[1] + e, p[2] + d


@compiled
def velocity_of(state: State, x: float, y: float, z: float) -> tuple[float, float, float]:
    """Velocity in m/s NED of a point of the body, by the motion held in the state."""
    v, q, w = state.velocity, state.attitude, state.angular_velocity
    moving = w[1] * z - w[2] * y, w[2] * x - w[0] * z, w[0] * y - w[1] * x
    n, e, d = rotate_to_ned(q[0], q[1], q[2], q[3], moving[0], moving[1], moving[2])
    return v[0] + n, v[1] + e, v[2] + d


def standing_pose(vehicle: Records, gravity: float) -> tuple[float, float, float]:
    """Static equilibrium of a vehicle on its contact springs on level ground.

    It is the minimum of the springs' energy less the weight's work, found by Gauss and Newton's method over
    the sinking of the centre of gravity and the tilt of the vertical in body axes.

    Args:
        vehicle: () VEHICLE record with at least one contact point.
        gravity: m/s^2.

    Returns:
        down of the centre of gravity in m (ground at 0), roll and pitch in rad.

    Raises:
        UserError: if the centre of gravity is not above the area between the contact points.
    """
    points = vehicle["contact_point"][: int(vehicle["contact_count"])]
    stiffness, weight = float(vehicle["contact_stiffness"]), float(vehicle["mass"]) * gravity
    return _equilibrium(points.tobytes(), stiffness, weight)


@lru_cache(maxsize=32)
def _equilibrium(contact: bytes, stiffness: float, weight: float) -> tuple[float, float, float]:
    """``standing_pose``, once for the vehicles of a fleet that are alike.

    A pose is the down of the centre of gravity in m and the tilt, x and y of the vertical in body axes.
    """
    points = np.frombuffer(contact).reshape(-1, 3)

    def depths(down: float, tilt: Floats) -> Floats:
        """Depths of the points in m, positive below the ground."""
        vertical = np.array([tilt[0], tilt[1], math.sqrt(1.0 - tilt @ tilt)])
        return np.asarray(down + points @ vertical)

    def energy(down: float, tilt: Floats) -> float:
        """Energy of the springs less the work of the weight in J; inf beyond the steepest tilt."""
        if tilt @ tilt >= _STEEPEST**2:
            return math.inf
        pressed = np.maximum(depths(down, tilt), 0.0)
        return float(0.5 * stiffness * pressed @ pressed - weight * down)

    tilt = np.zeros(2)
    down = weight / stiffness / len(points) - float(points[:, 2].max())
    for _ in range(200):
        depth = depths(down, tilt)
        active = depth > 0.0
        slope = tilt / math.sqrt(1.0 - tilt @ tilt)
        levers = np.column_stack([np.ones(len(points)), points[:, :2] - points[:, 2:] * slope])[active]
        gradient = stiffness * levers.T @ depth[active] - np.array([weight, 0.0, 0.0])
        if abs(gradient[0]) < 1e-10 * weight and np.abs(gradient[1:]).max() < 1e-10 * weight:
            if np.linalg.matrix_rank(levers) < 3:
                break
            vertical = (tilt[0], tilt[1], math.sqrt(1.0 - tilt @ tilt))
            return down, math.atan2(vertical[1], vertical[2]), math.asin(-vertical[0])
        hessian = stiffness * levers.T @ levers
        # The height of the centre of gravity above the springs tips the vehicle over: weight times height.
        hessian[1:, 1:] -= np.eye(2) * weight * max(-down, 0.0)
        lowest = float(np.linalg.eigvalsh(hessian)[0])
        if lowest < 1e-6 * weight:
            hessian += np.eye(3) * (1e-3 * weight - lowest)
        step, share = np.asarray(-np.linalg.solve(hessian, gradient), np.float64), 1.0
        # The step is halved until the energy does not rise; the gain of the last steps is below rounding.
        enough = energy(down, tilt) + 1e-12 * weight
        while share > 1e-9 and energy(down + share * step[0], tilt + share * step[1:]) > enough:
            share *= 0.5
        if share <= 1e-9:
            break
        down += share * float(step[0])
        tilt = tilt + share * step[1:]
    raise UserError(
        "the vehicle cannot stand: its centre of gravity is not above the area between its contact points; "
        "move or add contact points"
    )
