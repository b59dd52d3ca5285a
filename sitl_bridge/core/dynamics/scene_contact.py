"""Contact of a vehicle with the shapes of a scene: which are near, and the planes its parts can touch.

Probes are a vehicle's contact points, the discs of its rotors and a sphere about its centre of gravity, in
this order.  At the start of each part of a step every probe near a shape gets the tangent plane of the
surface nearest to it, and the forces of that part act on this plane.  A probe touches one shape at a time,
the one it is deepest in; in a corner the other walls act on the other probes.  The plane down = 0 acts
beside the shapes and is in contact.py.

A probe that is behind its last plane is looked up where it would be on that plane, so that springs that
give by more than a thin wall's thickness still push it out on the side where it came in (the proxy point of
Zilles and Salisbury, "A constraint-based god-object method for haptic display", IROS 1995).
"""

from __future__ import annotations

import math

from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.kernels.array_at import array_at
from sitl_bridge.base.kernels.compiled import compiled, on_demand
from sitl_bridge.core.dynamics.contact import place_of, rotate_to_ned, velocity_of
from sitl_bridge.core.dynamics.records import MAX_NEAR, Scratch, State, Surfaces, Vehicle
from sitl_bridge.core.world.nearest_surface import box_distance_square, distance_to_shape, shapes_within
from sitl_bridge.core.world.ray_casting import cast_ray
from sitl_bridge.core.world.records import HEIGHT_MAP, MESH, SHAPE, VOXELS, SceneRecord

LOOK = 2.0
"""m beyond its reach that a vehicle looks around for shapes; it looks again once it has moved as far."""
GRID_LOOK = 6
"""The same for terrain and voxels, in cells."""
MARGIN = 0.01
"""m added to the way of a step, for what accelerations add to it."""
BODY_SHARE = 0.75
"""Radius of the body's sphere over the height of the centre of gravity above the lowest contact point, so
that it stays clear of what the vehicle stands on."""
FLOOR_SLOPE = 0.7
"""Upward part of a normal from which on a surface counts as ground: the contact of a foot is a landing."""
_TINY = 1e-9


@compiled
def vehicle_reach(vehicle: Vehicle) -> float:
    """Radius in m of the sphere about the centre of gravity that holds contact points and rotors."""
    reach = vehicle.contact_radius
    for k in range(vehicle.rotor_count):
        p = vehicle.rotor_position[k]
        hub = math.sqrt(p[0] * p[0] + p[1] * p[1] + p[2] * p[2])
        reach = max(reach, hub + vehicle.rotor_radius[k])
    return float(reach)


@compiled
def body_radius(vehicle: Vehicle) -> float:
    """Radius in m of the body's sphere."""
    lowest = 0.0
    for k in range(vehicle.contact_count):
        lowest = max(lowest, vehicle.contact_point[k, 2])
    return BODY_SHARE * lowest


@compiled
def _search(
    state: State, rows: Scratch, surfaces: Surfaces, scene: SceneRecord, reach: float, way: float
) -> None:
    """List the shapes at rest that are nearer than ``reach`` + ``way``, and note how far away the rest is."""
    x, y, z = state.position[0], state.position[1], state.position[2]
    near, stack = reach + way, rows.rays.stack[:]
    limit = near + LOOK
    found = shapes_within(scene, x, y, z, limit, surfaces.near_shape, stack)
    if found > MAX_NEAR:
        limit = near
        found = min(shapes_within(scene, x, y, z, limit, surfaces.near_shape, stack), MAX_NEAR)
    shapes = array_at(scene.shapes, scene.shape_count, SHAPE)
    least = limit
    for i in range(found):
        k = surfaces.near_shape[i]
        within = limit
        if shapes[k].kind == HEIGHT_MAP or shapes[k].kind == VOXELS:
            within = min(limit, near + GRID_LOOK * shapes[k].spacing)
        distance, _, _, _ = distance_to_shape(shapes[k], x, y, z, within, stack)
        least = min(least, within, distance)
        if distance < near:
            surfaces.near_shape[state.near_count] = k
            state.near_count += 1
    surfaces.clearance = least - reach
    for i in range(3):
        surfaces.clearance_position[i] = state.position[i]


@compiled
def look_around(
    vehicle: Vehicle, state: State, rows: Scratch, surfaces: Surfaces, scene: SceneRecord, seconds: float
) -> None:
    """List the shapes that a vehicle may touch within a step, and find the floor below its rotors.

    Args:
        state: STATE record at the step's start; ``rows`` are as ``prepare_rotors`` leaves them.
        scene: SCENE, its moving shapes in their places.
        seconds: s, length of the step.
    """
    state.groundless = scene.groundless
    state.floor = math.inf if scene.groundless != 0 else 0.0
    state.hit_speed = -1.0
    near_before = state.near_count
    state.near_count = 0
    surfaces.near_elapsed = 0.0
    if scene.shape_count > 0:
        _look_at_shapes(vehicle, state, rows, surfaces, scene, seconds, near_before)


@on_demand
def _look_at_shapes(
    vehicle: Vehicle,
    state: State,
    rows: Scratch,
    surfaces: Surfaces,
    scene: SceneRecord,
    seconds: float,
    near_before: int,
) -> None:
    """``look_around`` in a scene with shapes, of which ``near_before`` were near in the step before."""
    v = state.velocity
    way = math.sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]) * seconds + MARGIN
    square = 0.0
    for i in range(3):
        square += (state.position[i] - surfaces.clearance_position[i]) ** 2
    left = surfaces.clearance - math.sqrt(square)
    reach = vehicle_reach(vehicle)
    if vehicle.contact_count > 0:
        if left <= way:
            _search(state, rows, surfaces, scene, reach, way)
            left = surfaces.clearance
        _add_moving(state, surfaces, scene, reach + way, seconds)
    if state.near_count == 0 and near_before > 0:
        for k in range(vehicle.contact_count + vehicle.rotor_count + 1):
            _forget(surfaces, k)
    _find_floor(vehicle, state, rows, scene, left + reach)


@compiled
def _add_moving(state: State, surfaces: Surfaces, scene: SceneRecord, near: float, seconds: float) -> None:
    """Add the moving shapes that may come near within a step to the list."""
    if scene.moving_first == scene.shape_count:
        return
    shapes = array_at(scene.shapes, scene.shape_count, SHAPE)
    for k in range(scene.moving_first, scene.shape_count):
        u = shapes[k].velocity
        limit = near + math.sqrt(u[0] * u[0] + u[1] * u[1] + u[2] * u[2]) * seconds
        square = box_distance_square(shapes[k], state.position[0], state.position[1], state.position[2])
        if square < limit * limit and state.near_count < MAX_NEAR:
            surfaces.near_shape[state.near_count] = k
            state.near_count += 1


@compiled
def _find_floor(vehicle: Vehicle, state: State, rows: Scratch, scene: SceneRecord, free: float) -> None:
    """Find the surface straight below the centre of gravity, where rotors could feel it.

    Args:
        state: STATE record; ``floor`` is written.
        free: m around the centre of gravity in which there is no shape at rest.
    """
    reach = rows.ground_reach
    if vehicle.ground_effect <= 0.0 or (free > reach and scene.moving_first == scene.shape_count):
        return
    down = rows.rays.direction[:]
    down[0], down[1], down[2] = 0.0, 0.0, 1.0
    distance, _, _, _, _ = cast_ray(
        scene, state.position[:], down, reach, rows.rays.local[:], rows.rays.stack[:]
    )
    state.floor = state.position[2] + distance


@compiled
def _nearest(
    state: State,
    rows: Scratch,
    surfaces: Surfaces,
    scene: SceneRecord,
    x: float,
    y: float,
    z: float,
    limit: float,
) -> tuple[float, float, float, float, int]:
    """Signed distance, normal and index of the shape nearest to a point, of those that are near."""
    shapes = array_at(scene.shapes, scene.shape_count, SHAPE)
    best, n, e, d, found = math.inf, 0.0, 0.0, 0.0, -1
    for i in range(state.near_count):
        k = surfaces.near_shape[i]
        u, t = shapes[k].velocity, surfaces.near_elapsed
        distance, a, b, c = distance_to_shape(
            shapes[k], x - u[0] * t, y - u[1] * t, z - u[2] * t, limit, rows.rays.stack[:]
        )
        if distance < best:
            best, n, e, d, found = distance, a, b, c, k
    return best, n, e, d, found


@compiled
def _plane_at(
    state: State,
    rows: Scratch,
    surfaces: Surfaces,
    scene: SceneRecord,
    probe: int,
    x: float,
    y: float,
    z: float,
    limit: float,
    plane: Floats,
) -> float:
    """Find the plane that a point can touch; returns how deep it is behind it, -inf where there is none.

    Args:
        surfaces: SURFACES record, with the probe's last plane.
        probe: whose point it is.
        x, y, z: m NED, where the point is.
        limit: m, within which surfaces are looked for.
        plane: (7,) written: point, normal, index of the shape.
    """
    known = surfaces.known[probe] != 0
    old, c = surfaces.normal[probe], surfaces.point[probe]
    qx, qy, qz = x, y, z
    if known:
        behind = (c[0] - x) * old[0] + (c[1] - y) * old[1] + (c[2] - z) * old[2]
        if behind > 0.0:
            qx, qy, qz = x + behind * old[0], y + behind * old[1], z + behind * old[2]
    distance, n, e, d, found = _nearest(state, rows, surfaces, scene, qx, qy, qz, limit)
    if found < 0 or distance == math.inf:
        return -math.inf
    plane[0], plane[1], plane[2] = qx - distance * n, qy - distance * e, qz - distance * d
    shape = array_at(scene.shapes, scene.shape_count, SHAPE)[found]
    if known and shape.kind == MESH and shape.solid == 0 and n * old[0] + e * old[1] + d * old[2] < 0.0:
        # An open mesh is touched from the side where the probe was.
        n, e, d = -n, -e, -d
    plane[3], plane[4], plane[5], plane[6] = n, e, d, found
    return (plane[0] - x) * n + (plane[1] - y) * e + (plane[2] - z) * d


@compiled
def _set_plane(
    vehicle: Vehicle, surfaces: Surfaces, scene: SceneRecord, probe: int, plane: Floats, middle: float
) -> None:
    """Give a probe its plane, where it will be after ``middle`` seconds."""
    found = int(plane[6])
    shape = array_at(scene.shapes, scene.shape_count, SHAPE)[found]
    surfaces.known[probe] = 1
    surfaces.shape[probe] = found
    surfaces.friction[probe] = vehicle.contact_friction * shape.friction
    for i in range(3):
        surfaces.velocity[probe, i] = shape.velocity[i]
        surfaces.point[probe, i] = plane[i] + middle * shape.velocity[i]
        surfaces.normal[probe, i] = plane[3 + i]


@compiled
def _forget(surfaces: Surfaces, probe: int) -> None:
    surfaces.known[probe] = 0
    surfaces.touching[probe] = 0


@compiled
def _find_for_disc(
    vehicle: Vehicle,
    state: State,
    rows: Scratch,
    surfaces: Surfaces,
    scene: SceneRecord,
    k: int,
    limit: float,
    middle: float,
    planes: Floats,
) -> None:
    """Find the plane of a rotor's disc and the disc's point nearest to it.

    The surface nearest to the hub gives two candidates: the disc's point nearest to that place, and the one
    on its rim that lies deepest in that direction.  The deeper of both counts.
    """
    probe = vehicle.contact_count + k
    q = state.attitude
    p, a, radius = vehicle.rotor_position[k], vehicle.rotor_axis[k], vehicle.rotor_radius[k]
    hx, hy, hz = place_of(state, p[0], p[1], p[2])
    ax, ay, az = rotate_to_ned(q[0], q[1], q[2], q[3], a[0], a[1], a[2])
    best, chosen = _plane_at(state, rows, surfaces, scene, probe, hx, hy, hz, limit, planes[0]), 0
    if best == -math.inf:
        _forget(surfaces, probe)
        return
    px, py, pz = hx, hy, hz
    for candidate in range(1, 3):
        if candidate == 1:
            dx, dy, dz = planes[0, 0] - hx, planes[0, 1] - hy, planes[0, 2] - hz
        else:
            dx, dy, dz = -planes[0, 3], -planes[0, 4], -planes[0, 5]
        along = dx * ax + dy * ay + dz * az
        dx, dy, dz = dx - along * ax, dy - along * ay, dz - along * az
        size = math.sqrt(dx * dx + dy * dy + dz * dz)
        if size < _TINY or (candidate == 1 and size > radius):
            continue
        scale = radius / size if candidate == 2 else 1.0
        x, y, z = hx + scale * dx, hy + scale * dy, hz + scale * dz
        depth = _plane_at(state, rows, surfaces, scene, probe, x, y, z, limit, planes[candidate])
        if depth > best:
            best, chosen, px, py, pz = depth, candidate, x, y, z
    _set_plane(vehicle, surfaces, scene, probe, planes[chosen], middle)
    _set_probe(state, surfaces, probe, px - state.position[0], py - state.position[1], pz - state.position[2])


@compiled
def _set_probe(state: State, surfaces: Surfaces, probe: int, n: float, e: float, d: float) -> None:
    """Set a probe's point from its place relative to the centre of gravity, NED."""
    q, f = state.attitude, surfaces.probe[probe]
    f[0], f[1], f[2] = rotate_to_ned(q[0], -q[1], -q[2], -q[3], n, e, d)


@on_demand
def find_surfaces(
    vehicle: Vehicle, state: State, rows: Scratch, surfaces: Surfaces, scene: SceneRecord, seconds: float
) -> None:
    """Give every probe the plane that it can touch within a part of a step.

    Args:
        surfaces: SURFACES record; ``near_shape`` lists the shapes, ``near_elapsed`` their time in the step.
        seconds: s, length of the part.
    """
    middle = 0.5 * seconds
    reach = vehicle_reach(vehicle)
    v = state.velocity
    limit = 2.0 * reach + math.sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]) * seconds
    planes = rows.work[:, :7]
    count = vehicle.contact_count
    for k in range(count):
        x, y, z = vehicle.contact_point[k, 0], vehicle.contact_point[k, 1], vehicle.contact_point[k, 2]
        n, e, d = place_of(state, x, y, z)
        if _plane_at(state, rows, surfaces, scene, k, n, e, d, limit, planes[0]) == -math.inf:
            _forget(surfaces, k)
            continue
        _set_plane(vehicle, surfaces, scene, k, planes[0], middle)
        surfaces.probe[k, 0], surfaces.probe[k, 1], surfaces.probe[k, 2] = x, y, z
    for k in range(vehicle.rotor_count):
        _find_for_disc(vehicle, state, rows, surfaces, scene, k, limit, middle, planes)
    last = count + vehicle.rotor_count
    p = state.position
    if _plane_at(state, rows, surfaces, scene, last, p[0], p[1], p[2], limit, planes[0]) == -math.inf:
        _forget(surfaces, last)
        return
    _set_plane(vehicle, surfaces, scene, last, planes[0], middle)
    radius = -body_radius(vehicle)
    _set_probe(state, surfaces, last, radius * planes[0, 3], radius * planes[0, 4], radius * planes[0, 5])


@compiled
def hull_share(vehicle: Vehicle) -> float:
    """Stiffness and damping of rotors and body over those of a contact point.

    Less than one where a rotor's rim is further out than the contact points, for which the integration's
    steps are chosen: a point at radius R moves with the inverse mass 1/m + R^2 tr(J^-1) at most.
    """
    inverse = vehicle.inertia_inverse
    turning = vehicle.mass * (inverse[0, 0] + inverse[1, 1] + inverse[2, 2])
    reach = vehicle_reach(vehicle)
    inner = vehicle.contact_radius
    return float(min(1.0, (1.0 + inner * inner * turning) / (1.0 + reach * reach * turning)))


@compiled
def surface_force(
    vehicle: Vehicle,
    surfaces: Surfaces,
    k: int,
    share: float,
    x: float,
    y: float,
    z: float,
    vn: float,
    ve: float,
    vd: float,
) -> tuple[float, float, float]:
    """Force of a shape's surface on a probe in N, NED: spring, damper and friction as on the ground.

    Rotors and the body have no anchor: they slide, at the friction's limit or the damper's force.

    Args:
        surfaces: SURFACES record, for plane and anchor.
        k: which probe.
        share: of its springs and dampers, ``hull_share`` for rotors and body.
        x, y, z: m NED, where its point is.
        vn, ve, vd: m/s NED velocity of the point.
    """
    c, n, u = surfaces.point[k], surfaces.normal[k], surfaces.velocity[k]
    depth = (c[0] - x) * n[0] + (c[1] - y) * n[1] + (c[2] - z) * n[2]
    if depth <= 0.0:
        return 0.0, 0.0, 0.0
    stiffness, damping = share * vehicle.contact_stiffness, share * vehicle.contact_damping
    vn, ve, vd = vn - u[0], ve - u[1], vd - u[2]
    leaving = vn * n[0] + ve * n[1] + vd * n[2]
    normal = stiffness * depth - damping * leaving
    if normal <= 0.0:
        return 0.0, 0.0, 0.0
    fn = -damping * (vn - leaving * n[0])
    fe = -damping * (ve - leaving * n[1])
    fd = -damping * (vd - leaving * n[2])
    if k < vehicle.contact_count and surfaces.touching[k] != 0:
        anchor = surfaces.anchor[k]
        dn, de, dd = x - anchor[0], y - anchor[1], z - anchor[2]
        out = dn * n[0] + de * n[1] + dd * n[2]
        fn -= stiffness * (dn - out * n[0])
        fe -= stiffness * (de - out * n[1])
        fd -= stiffness * (dd - out * n[2])
    square = fn * fn + fe * fe + fd * fd
    limit = surfaces.friction[k] * normal
    if square > limit * limit:
        cut = limit / math.sqrt(square)
        fn, fe, fd = fn * cut, fe * cut, fd * cut
    return fn + normal * n[0], fe + normal * n[1], fd + normal * n[2]


@on_demand
def update_surfaces(vehicle: Vehicle, state: State, surfaces: Surfaces, y: Floats, seconds: float) -> None:
    """Set, drag along or release the anchors on shapes after a part of a step, and note new contacts.

    Args:
        state: STATE record, still with the motion at the start of the part.
        y: (13,) the motion at its end.
        seconds: s, length of the part.
    """
    surfaces.near_elapsed += seconds
    for k in range(vehicle.contact_count + vehicle.rotor_count + 1):
        if surfaces.known[k] == 0:
            continue
        c, n, u = surfaces.point[k], surfaces.normal[k], surfaces.velocity[k]
        r = surfaces.probe[k]
        dn, de, dd = rotate_to_ned(y[6], y[7], y[8], y[9], r[0], r[1], r[2])
        north, east, down = y[0] + dn, y[1] + de, y[2] + dd
        anchor = surfaces.anchor[k]
        for i in range(3):
            c[i] += 0.5 * seconds * u[i]
            anchor[i] += seconds * u[i]
        depth = (c[0] - north) * n[0] + (c[1] - east) * n[1] + (c[2] - down) * n[2]
        if depth <= 0.0:
            surfaces.touching[k] = 0
            continue
        if k < vehicle.contact_count and state.contact_touching[k] == 0:
            state.in_contact += 1
        if surfaces.touching[k] == 0:
            surfaces.touching[k] = 1
            anchor[0], anchor[1], anchor[2] = north, east, down
            _note_contact(vehicle, state, surfaces, k, north, east, down)
            continue
        dn, de, dd = north - anchor[0], east - anchor[1], down - anchor[2]
        out = dn * n[0] + de * n[1] + dd * n[2]
        dn, de, dd = dn - out * n[0], de - out * n[1], dd - out * n[2]
        stretch = math.sqrt(dn * dn + de * de + dd * dd)
        limit = surfaces.friction[k] * depth
        if stretch > limit:
            keep = limit / stretch
            anchor[0], anchor[1], anchor[2] = north - keep * dn, east - keep * de, down - keep * dd


@compiled
def _note_contact(
    vehicle: Vehicle, state: State, surfaces: Surfaces, k: int, north: float, east: float, down: float
) -> None:
    """Note a new contact: of a foot on the ground as a landing, of anything else as a hit."""
    n, u, r = surfaces.normal[k], surfaces.velocity[k], surfaces.probe[k]
    speed, v = 0.0, velocity_of(state, r[0], r[1], r[2])
    for i in range(3):
        speed -= (v[i] - u[i]) * n[i]
    if k < vehicle.contact_count and -n[2] > FLOOR_SLOPE:
        state.impact_speed = max(state.impact_speed, speed)
        return
    rotor = k - vehicle.contact_count
    if 0 <= rotor < vehicle.rotor_count:
        surfaces.rotor_hit[rotor] = max(surfaces.rotor_hit[rotor], speed)
    if speed > state.hit_speed:
        state.hit_speed, surfaces.hit_part, surfaces.hit_shape = speed, k, surfaces.shape[k]
        surfaces.hit_position[0], surfaces.hit_position[1], surfaces.hit_position[2] = north, east, down
