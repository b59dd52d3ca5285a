"""The state a vehicle starts from in a scene: standing on terrain or an object, or above it, to fall."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.kernels.array_at import array_at
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.base.kernels.record import Packed
from sitl_bridge.base.rotations import matrix_from_quaternion, quaternion_product
from sitl_bridge.core.dynamics.records import SURFACES
from sitl_bridge.core.dynamics.step import AT_REST, initial_state, settle_start
from sitl_bridge.core.world.nearest_surface import nearest
from sitl_bridge.core.world.ray_casting import GROUND, SCRATCH, cast_rays, ray_shape
from sitl_bridge.core.world.records import HEIGHT_MAP, SCENE, SHAPE, SceneRecord

SNAP = 0.1
"""m above a surface within which a vehicle is put on it instead of falling."""
_HIGHEST = -1e5
"""m, down from which a surface is looked for from above."""
_SETTLING = 50
"""Steps of 4 ms after which it is seen whether a vehicle that was put on a surface is at rest."""
_ROUNDS = 30
"""How often, before it may start as it is."""
_TIPPED = math.radians(30.0)
_SLID = 0.05
"""m along the surface beyond which a vehicle has not come to rest where it was put."""
_DEEPEST = 20.0
"""m from a surface to which places are looked up."""
_RIM = 8
"""Points on a rotor's rim that must be free."""


@compiled
def _terrain_below(scene: SceneRecord, north: float, east: float) -> float:
    """Least down in m of all terrain at a place; inf for none."""
    local, stack = np.empty((4, 3)), np.empty(SCRATCH, np.int64)
    origin, direction = np.array([north, east, _HIGHEST]), np.array([0.0, 0.0, 1.0])
    found = math.inf
    shapes = array_at(scene.shapes, scene.shape_count, SHAPE)
    for k in range(scene.shape_count):
        if shapes[k].kind == HEIGHT_MAP:
            distance, _, _, _ = ray_shape(shapes[k], origin, direction, -2.0 * _HIGHEST, local, stack)
            found = min(found, _HIGHEST + distance)
    return found


def _below(scene: Packed, origin: Floats) -> tuple[float, Floats, int]:
    """Distance straight down in m, normal (3,) and index of what is below a point."""
    distance, normal, shape = np.empty(1), np.empty((1, 3)), np.empty(1, np.int64)
    down = np.array([[0.0, 0.0, 1.0]])
    cast_rays(scene, origin.reshape(1, 3), down, -2.0 * _HIGHEST, distance, normal, shape)
    return float(distance[0]), normal[0], int(shape[0])


def _standing_place(scene: Packed, position: Floats) -> Floats:
    """(3,) m NED of the place that a position with down 0 means: on the terrain, else on the ground."""
    north, east = float(position[0]), float(position[1])
    down = _terrain_below(scene, north, east)
    if not scene["groundless"]:
        down = min(down, 0.0)
    elif down == math.inf:
        down = _HIGHEST + _below(scene, np.array([north, east, _HIGHEST]))[0]
    if down == math.inf:
        raise UserError(
            f"there is no ground at north {north:g} m, east {east:g} m; choose a place on the terrain, or"
            " one with a height to fall from"
        )
    return np.array([north, east, down])


def _outline(vehicle: Packed, state: Packed) -> Floats:
    """(k, 3) m NED: the centre of gravity, the hubs and points on the rotors' rims."""
    hubs = vehicle["rotor_position"][: int(vehicle["rotor_count"])]
    radii = vehicle["rotor_radius"][: len(hubs), None, None]
    turns = np.arange(_RIM) * 2.0 * math.pi / _RIM
    circle = np.column_stack([np.cos(turns), np.sin(turns), np.zeros(_RIM)])
    rims = (hubs[:, None] + radii * circle).reshape(-1, 3)
    points = np.concatenate([np.zeros((1, 3)), hubs, rims])
    return np.asarray(state["position"] + points @ matrix_from_quaternion(state["attitude"]).T)


def _refuse_inside(scene: Packed, places: Floats, names: Sequence[str]) -> None:
    """Refuse places (k, 3) of which one is inside of an object; the first stands for all in the message."""
    distance, _, shape = nearest(scene, places, _DEEPEST)
    worst = int(np.argmin(distance))
    if distance[worst] >= 0.0 or shape[worst] == GROUND:
        return
    north, east, _ = places[0]
    name = _name(scene, int(shape[worst]), names)
    top = _HIGHEST + _below(scene, np.array([places[worst, 0], places[worst, 1], _HIGHEST]))[0]
    raise UserError(
        f"the vehicle at north {north:g} m, east {east:g} m is inside {name!r}, whose top is at"
        f" down {top:.2f} m; start on it or beside it"
    )


def _name(scene: Packed, shape: int, names: Sequence[str]) -> str:
    return "the ground" if shape == GROUND else names[_shape_facts(scene, shape)[0]]


@compiled
def _shape_facts(scene: SceneRecord, index: int) -> tuple[int, float, float, float, float]:
    """Number of the object that a shape belongs to, its friction factor, and its velocity in m/s NED."""
    shape = array_at(scene.shapes, scene.shape_count, SHAPE)[index]
    return int(shape.object), shape.friction, shape.velocity[0], shape.velocity[1], shape.velocity[2]


def start_state(
    vehicle: Packed, environment: Packed, position: Floats, yaw: float, names: Sequence[str]
) -> tuple[Packed, Packed]:
    """State of a vehicle that stands still, in a scene: on what is below it, or above it, to fall.

    Args:
        vehicle: () VEHICLE record.
        environment: () ENVIRONMENT record, with the scene.
        position: (3,) m NED of the point below the centre of gravity; its down is that of the lowest contact
            point.  Down 0 is on the ground, and where there is terrain, on its surface.
        yaw: rad.
        names: of the scene's objects, for messages.

    Returns:
        () STATE record, as of ``initial_state``, and its () SURFACES record.

    Raises:
        UserError: where the vehicle would not stay upright on its contact points, slides or tips on a slope,
            or is inside of something.
        ValueError: for a position under the ground, or contact points outside ``contact_radius``.
    """
    scene, surfaces = environment["scene"], np.zeros(1, SURFACES)[0]
    bare = environment.copy()
    bare["scene"] = np.zeros((), SCENE)
    if not (scene["shape_count"] or scene["groundless"]) or not vehicle["contact_count"]:
        return initial_state(vehicle, environment, position, yaw), surfaces
    place = _standing_place(scene, position) if position[2] == 0.0 else np.array(position, float)
    above = place - (0.0, 0.0, SNAP)
    _refuse_inside(scene, above.reshape(1, 3), names)
    gap, normal, shape = _below(scene, above)
    stands = shape != GROUND and gap <= 2.0 * SNAP
    if stands:
        place[2] += gap - SNAP
        state = _put_on_slope(initial_state(vehicle, bare, np.array([*place[:2], 0.0]), yaw), place, normal)
    elif scene["groundless"]:
        state = initial_state(vehicle, bare, np.array([*place[:2], -1.0]), yaw)
        state["position"][2] += place[2] + 1.0
    else:
        state = initial_state(vehicle, bare, place, yaw)
    _refuse_inside(scene, _outline(vehicle, state), names)
    if stands:
        _settle(vehicle, state, surfaces, environment, shape, normal, names)
    settle_start(vehicle, state, surfaces, environment, np.zeros(16), 0)
    return state, surfaces


def _put_on_slope(state: Packed, place: Floats, normal: Floats) -> Packed:
    """The state of a vehicle on level ground, put on a slope instead."""
    state["position"] = place - normal * state["position"][2]
    up = np.array([0.0, 0.0, -1.0])
    turn = np.array([1.0 + up @ normal, *np.cross(up, normal)])  # the least, of the vertical
    state["attitude"] = quaternion_product(turn / np.linalg.norm(turn), state["attitude"])
    for name in ("contact_anchor", "contact_touching", "in_contact"):
        state[name] = 0
    return state


def _settle(
    vehicle: Packed,
    state: Packed,
    surfaces: Packed,
    environment: Packed,
    shape: int,
    normal: Floats,
    names: Sequence[str],
) -> None:
    """Let a vehicle come to rest on a surface; one that moves takes the surface's velocity."""
    before = state.copy()
    velocity = np.array(_shape_facts(environment["scene"], shape)[2:])
    if velocity.any():
        state["velocity"] = velocity
        return
    for _ in range(_ROUNDS):
        settle_start(vehicle, state, surfaces, environment, np.zeros(16), _SETTLING)
        way = state["position"] - before["position"]
        slid = float(np.linalg.norm(way - (way @ normal) * normal)) > _SLID
        up, before_up = (matrix_from_quaternion(one["attitude"])[:, 2] for one in (state, before))
        if slid or up @ before_up < math.cos(_TIPPED):
            raise _no_footing(vehicle, state, environment["scene"], shape, normal, names)
        if np.linalg.norm(state["velocity"]) < AT_REST:
            break
    state["velocity"] = state["angular_velocity"] = 0.0
    state["impact_speed"] = 0.0
    for name in ("battery_charge", "battery_voltage", "battery_current"):
        state[name] = before[name]
    surfaces["rotor_hit"] = 0.0


def _no_footing(
    vehicle: Packed, state: Packed, scene: Packed, shape: int, normal: Floats, names: Sequence[str]
) -> UserError:
    """The error for a vehicle that does not stay where it is to start."""
    slope = math.degrees(math.acos(min(-float(normal[2]), 1.0)))
    friction = float(vehicle["contact_friction"]) * _shape_facts(scene, shape)[1]
    held = math.degrees(math.atan(friction))
    north, east, _ = state["position"]
    what = "slide" if slope > held else "tip over"
    name = _name(scene, shape, names)
    return UserError(
        f"the vehicle would {what} at north {north:.2f} m, east {east:.2f} m: {name!r} has a slope of"
        f" {slope:.0f} deg there, and the feet's friction holds up to {held:.0f} deg; choose another place"
    )
