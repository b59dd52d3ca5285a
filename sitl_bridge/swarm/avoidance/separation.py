"""Predicts where others will be, and measures from there: distances to vehicles and obstacles.

Neighbours fly the plan that they broadcast, or keep their velocity (eq. 13) where they broadcast none.
Obstacles are convex bodies, so the linearised distance never exceeds the true one, and a plan that keeps the
linear constraint keeps the distance.
"""

from __future__ import annotations

import math

from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.swarm.avoidance.records import BOX, CYLINDER, SPHERE, VEHICLE, Entity

VERTICAL_SHARE = 0.3
"""Of a direction's vertical part when giving way: sideways is preferred.  Nothing decides who climbs and who
descends, so vehicles that meet at one height would all choose the same; and downwash reaches far below."""


@compiled
def expected_motion(entity: Entity, ahead: float, place: Floats, course: Floats) -> None:
    """Position and velocity of an entity ``ahead`` s from now.

    A plan is interpolated linearly; behind its end the vehicle keeps the velocity of its last step.

    Args:
        ahead: s from now.
        place: (3,) filled, m NED.
        course: (3,) filled, m/s NED.
    """
    if entity.kind != VEHICLE:
        for i in range(3):
            place[i], course[i] = entity.position[i], 0.0
        return
    time = entity.age + ahead
    if entity.points < 2:
        for i in range(3):
            place[i], course[i] = entity.position[i] + entity.velocity[i] * time, entity.velocity[i]
        return
    k = min(int(time / entity.step), entity.points - 2)
    rest = time - k * entity.step
    for i in range(3):
        course[i] = (entity.plan[k + 1, i] - entity.plan[k, i]) / entity.step
        place[i] = entity.plan[k, i] + rest * course[i]


@compiled
def separation(entity: Entity, place: Floats, position: Floats, normal: Floats) -> float:
    """Distance from an entity at a place, negative inside an obstacle.

    Args:
        place: (3,) m NED, where the entity is then.
        position: (3,) m NED.
        normal: (3,) filled: unit vector away from the entity, the gradient of the distance.

    Returns:
        m from the centre of a vehicle, from the surface of an obstacle.
    """
    for i in range(3):
        normal[i] = position[i] - place[i]
    depth = 0.0
    if entity.kind == CYLINDER:
        across = math.hypot(normal[0], normal[1])
        side, lid = across - entity.size[0], abs(normal[2]) - entity.size[1]
        if side <= 0.0 and lid <= 0.0:
            depth = max(side, lid)
        if side > 0.0 or (lid <= 0.0 and side > lid):
            keep = max(side, 0.0) if depth == 0.0 else 1.0
            scale = keep / across if across > 0.0 else 0.0
            normal[0] *= scale
            normal[1] *= scale
        else:
            normal[0] = normal[1] = 0.0
        if lid > 0.0 or (side <= 0.0 and lid >= side):
            keep = max(lid, 0.0) if depth == 0.0 else 1.0
            normal[2] = math.copysign(keep, normal[2])
        else:
            normal[2] = 0.0
    elif entity.kind == BOX:
        depth = -math.inf
        nearest = 0
        for i in range(3):
            beyond = abs(normal[i]) - entity.size[i]
            if beyond > depth:
                depth, nearest = beyond, i
        if depth > 0.0:
            depth = 0.0
            for i in range(3):
                normal[i] = math.copysign(max(abs(normal[i]) - entity.size[i], 0.0), normal[i])
        else:
            for i in range(3):
                normal[i] = math.copysign(1.0, normal[i]) if i == nearest else 0.0
    distance = math.sqrt(normal[0] ** 2 + normal[1] ** 2 + normal[2] ** 2)
    if distance < 1e-9:
        # Right on top of it: up is as good as any direction, and the same for all.
        normal[0] = normal[1] = 0.0
        normal[2] = -1.0
    else:
        for i in range(3):
            normal[i] /= distance
    if depth < 0.0:
        return depth
    return distance - entity.size[0] if entity.kind == SPHERE else distance


@compiled
def aside(
    entity: Entity,
    course: Floats,
    velocity: Floats,
    distance: float,
    normal: Floats,
    minimum: float,
    lead: float,
    direction: Floats,
) -> float:
    """Direction in which to give way, and how far apart the two are along it.

    Where a plan leads through somebody, the gradient of the distance points back before the encounter and on
    behind it, and never to a side.  So the direction turns to the right of the relative motion, as by the
    rules of the air, the more the deeper the plan is within the minimum distance, unless it passes on the
    left already.  For any unit vector m, m . (p - p_j) <= |p - p_j|: a plan that keeps the distance along m
    keeps it.  Round bodies are taken by their axis and radius; boxes keep their normal.  All of this is this
    project's addition.

    Args:
        course: (3,) m/s NED of the entity.
        velocity: (3,) m/s NED of the plan.
        distance, normal: from ``separation``.
        minimum: m to be kept.
        lead: m to the right even where nothing is too close, which decides symmetric encounters.
        direction: (3,) filled, unit vector.

    Returns:
        m along the direction, of the same kind as ``distance``.
    """
    for i in range(3):
        direction[i] = normal[i]
    if entity.kind == BOX or (entity.kind == CYLINDER and abs(normal[2]) > 1e-6):
        return distance
    core = 0.0 if entity.kind == VEHICLE else entity.size[0]
    away = distance + core
    right_x, right_y = -(velocity[1] - course[1]), velocity[0] - course[0]
    speed = math.hypot(right_x, right_y)
    if speed < 0.1:
        return distance
    right_x, right_y = right_x / speed, right_y / speed
    lateral = normal[0] * right_x + normal[1] * right_y
    push = (lead + max(core + minimum - away, 0.0)) * min(max(1.0 + 2.0 * lateral, 0.0), 1.0)
    direction[0] = normal[0] * away + push * right_x
    direction[1] = normal[1] * away + push * right_y
    direction[2] = VERTICAL_SHARE * normal[2] * away
    length = math.sqrt(direction[0] ** 2 + direction[1] ** 2 + direction[2] ** 2)
    along = 0.0
    for i in range(3):
        direction[i] /= length
        along += direction[i] * normal[i]
    return along * away - core


@compiled
def largest_eigenvalue(m: Floats) -> float:
    """Largest eigenvalue of a symmetric (3, 3) matrix, in closed form (Smith 1961, Comm. ACM 4(4))."""
    off = m[0, 1] ** 2 + m[0, 2] ** 2 + m[1, 2] ** 2
    mean = (m[0, 0] + m[1, 1] + m[2, 2]) / 3.0
    square = (m[0, 0] - mean) ** 2 + (m[1, 1] - mean) ** 2 + (m[2, 2] - mean) ** 2 + 2.0 * off
    p = math.sqrt(square / 6.0)
    if p <= 1e-12 * abs(mean) or p == 0.0:
        return float(mean)
    a, b, c = (m[0, 0] - mean) / p, (m[1, 1] - mean) / p, (m[2, 2] - mean) / p
    d, e, f = m[0, 1] / p, m[0, 2] / p, m[1, 2] / p
    half = 0.5 * (a * (b * c - f * f) - d * (d * c - f * e) + e * (d * f - b * e))
    angle = math.acos(min(1.0, max(-1.0, half))) / 3.0
    return float(mean + 2.0 * p * math.cos(angle))
