"""Effects of vehicles on one another, collisions and downwash, and the list of their contacts with objects.

All forces are found from the states before any vehicle moves, and summed in whole numbers of a small unit:
they are equal and opposite to the last bit and do not depend on the order of the vehicles.  What the results
do to a body is in forces.py; the ground is in contact.py, objects of the scene in scene_contact.py.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import BaseModel, Field

from sitl_bridge.base.arrays import Bytes, Floats, Ints, Records
from sitl_bridge.base.kernels.array_at import array_at
from sitl_bridge.base.kernels.compiled import compiled, on_demand
from sitl_bridge.base.kernels.record import Record
from sitl_bridge.base.quantities import STRICT, Positive
from sitl_bridge.core.dynamics.contact import place_of, rotate_to_ned, velocity_of
from sitl_bridge.core.dynamics.records import MAX_ROTORS, STATE, VEHICLE, State, Surfaces, Vehicle
from sitl_bridge.core.world.atmosphere import air
from sitl_bridge.core.world.records import SHAPE, Environment, SceneRecord

CONTACT_RATE = 125.0
"""rad/s of the spring between two vehicles that touch, w = sqrt(k/m) with the mass that the contact point
feels.  A collision then lasts pi/w = 25 ms and gives by v/w, 16 mm at 2 m/s: plastic frames and propellers,
not steel.  It is as hard as a step of 4 ms follows (w dt = 0.5); longer steps make it softer."""
STIFFEST = 0.5
"""w dt at most.  The force is that of the middle of the step, so that the map of one step
of an undamped spring has the determinant 1, neither gaining nor losing, up to w dt = 2; several points that
touch at once add up."""
UNIT = 2.0**-30
"""N, N m and m/s in which sums are counted."""

JET_DECAY = 5.8
"""B of the round turbulent jet, U_c/U_J = B d/x (Hussein, Capp and George, J. Fluid Mech. 258, 1994, by
laser-Doppler; Pope, Turbulent Flows, 2000, table 5.1).  Measured below quadrotors of several sizes, the flow
of all rotors together is such a jet from 2.5 vehicle diameters on (Bauersfeld et al., IEEE Robotics and
Automation Letters 2025, arXiv 2403.13321); nearer it is one stream at the speed of the contracted wake."""
WAKE_REACH = 12.0
"""m below a vehicle to which its downwash is followed; over the last quarter it fades.  A jet of 15 N has
fallen to 2 m/s there and is 3 s old: further on, the steady picture does not hold for vehicles that move."""
WAKE_EDGE = 3.0
"""Widths from the axis where 1 % of the speed on it is left, 1/(1 + 3^2)^2; beyond, the wake is left out."""

NOW, BEFORE = 2, 1
"""Marks of pairs that touch."""
MOST_SPHERES = 1 + MAX_ROTORS
REPORTS = 256
"""Collisions, and contacts with objects, of which the particulars are kept; all are counted."""
APART = 500_000
"""us without a new contact after which the next one with the same object counts as another."""


class ProximityRecord(Record):
    """How vehicles act on one another, and counters."""

    collisions: int  # 1: vehicles that touch push one another
    downwash: int  # 1: vehicles fly in the wakes of those above
    damping_ratio: float  # of a collision
    breaking_speed: float  # m/s of closing speed above which a rotor that is hit stops; inf: never
    count: int  # collisions so far
    touching: int  # pairs that touched in the step before, each counted twice
    contact_count: int  # contacts with objects so far


PROXIMITY = ProximityRecord.dtype


class Hull(Record):
    """The spheres in which a vehicle is touched, and what others do to it in a step."""

    order: int  # of this row: the vehicle that is here when sorted from south to north
    radius: float  # m about the centre of gravity, holds all spheres
    sphere_count: int
    sphere: Annotated[Floats, MOST_SPHERES, 4]  # m, centre in body axes and radius: the body, then each rotor
    force: Annotated[Ints, 3]  # UNIT, NED
    moment: Annotated[Ints, 3]  # UNIT, body
    wake: Annotated[Ints, 3]  # UNIT, NED, mean over the spheres
    rotor_wake: Annotated[Ints, MAX_ROTORS, 3]  # UNIT, NED, at each rotor
    # --- its own wake: a jet against the thrust, bent by the air that comes across
    jet: Annotated[Floats, 3]  # unit vector NED
    jet_top: float  # m/s at its beginning
    jet_decay: float  # m^2/s, speed times distance where it decays
    jet_width: float  # m^2/s, speed times the distance from the axis where a quarter of it is left
    across: Annotated[Floats, 3]  # m/s NED of the air across the jet, seen from the vehicle
    jet_box: Annotated[Floats, 3]  # m, how far north or south, east or west, up or down it is felt


HULL = Hull.dtype


class Collision(Record):
    """Two vehicles that touched."""

    time: int  # us
    vehicle: Annotated[Ints, 2]
    part: Annotated[Ints, 2]  # 0: the body, k: rotor k
    speed: float  # m/s, closing speed of the two parts when they touched
    position: Annotated[Floats, 3]  # m NED


COLLISION = Collision.dtype


class ContactRecord(Record):
    """A vehicle's contact with an object, other than standing on it."""

    time: int  # us, end of the step in which they touched first
    vehicle: int
    object: int  # of the scene
    part: int  # 0: the body, k: rotor k, -k: contact point k
    speed: float  # m/s, greatest closing speed of the contact
    position: Annotated[Floats, 3]  # m NED


CONTACT = ContactRecord.dtype


class VehicleContact(NamedTuple):
    """A vehicle's contact with an object of the scene, other than standing on it."""

    time: float  # s
    vehicle: str  # its name
    object: str  # name of the object
    part: str  # of the vehicle: ``"body"``, ``"rotor 2"``, ``"contact point 1"``
    speed: float  # m/s, greatest closing speed
    position: tuple[float, float, float]  # m NED


class ProximityArrays(NamedTuple):
    """Input and memory of ``interact`` for n vehicles."""

    proximity: Annotated[Records, PROXIMITY]  # (1,) PROXIMITY
    hulls: Annotated[Records, HULL]  # (n,) HULL
    # (n, n) uint8, NOW for pairs that touch in this step, BEFORE for those that did in the last
    touching: Annotated[Bytes, 2]
    collisions: Annotated[Records, COLLISION]  # (k,) COLLISION, written from the first on
    contacts: Annotated[Records, CONTACT]  # (k,) CONTACT, likewise


class Proximity(BaseModel):
    """Collisions and downwash between vehicles.

    The restitution is an assumption: nobody has measured two multirotors that collide; a half is between a
    caged one off a wall and wreckage.
    """

    model_config = STRICT

    collisions: bool = Field(True, description="whether vehicles that touch collide")
    downwash: bool = Field(True, description="whether downwash of rotors acts on vehicles below")
    restitution: float = Field(
        0.5, ge=0.001, le=1.0, description="share of the closing speed after a collision"
    )
    breaking_speed: Positive | None = Field(
        None,
        description="closing speed in m/s above which a rotor that hits a vehicle or an object stops for"
        " good; default: it never stops",
    )

    def pack(self) -> Records:
        """(1,) PROXIMITY."""
        made = np.zeros(1, PROXIMITY)
        made["collisions"], made["downwash"] = self.collisions, self.downwash
        # e = exp(-pi z/sqrt(1 - z^2)) of a damped half oscillation.
        decrement = -math.log(self.restitution)
        made["damping_ratio"] = decrement / math.hypot(math.pi, decrement)
        made["breaking_speed"] = math.inf if self.breaking_speed is None else self.breaking_speed
        return made


def hull(vehicle: Records) -> Records:
    """() HULL of a VEHICLE: a sphere at each rotor with its radius, and one about the centre of gravity.

    The body's sphere reaches as far up or down as a contact point or a hub.
    """
    made = np.zeros((), HULL)
    rotors, points = int(vehicle["rotor_count"]), int(vehicle["contact_count"])
    hubs = vehicle["rotor_position"][:rotors]
    heights = np.abs(np.concatenate([hubs[:, 2], vehicle["contact_point"][:points, 2]]))
    made["sphere_count"] = 1 + rotors
    made["sphere"][0, 3] = heights.max(initial=0.0)
    made["sphere"][1 : 1 + rotors, :3] = hubs
    made["sphere"][1 : 1 + rotors, 3] = vehicle["rotor_radius"][:rotors]
    spheres = made["sphere"][: 1 + rotors]
    made["radius"] = float((np.linalg.norm(spheres[:, :3], axis=1) + spheres[:, 3]).max())
    return made


def spheres_beside(hulls: Records, states: Records, vehicle: int) -> Floats:
    """(k, 4) m: centres NED and radii of the spheres that stand for the vehicles other than one."""
    if len(hulls) == 1:
        return np.zeros((0, 4))
    counts = hulls["sphere_count"].copy()
    counts[vehicle] = 0
    which, sphere = np.nonzero(np.arange(hulls["sphere"].shape[1]) < counts[:, None])
    spheres: Floats = hulls["sphere"][which, sphere]
    # Turn by the quaternion: v + 2 u x (u x v + w v).
    w, u = np.split(states["attitude"][which], [1], axis=1)
    spheres[:, :3] += 2.0 * np.cross(u, np.cross(u, spheres[:, :3]) + w * spheres[:, :3])
    spheres[:, :3] += states["position"][which]
    return spheres


def touching_pairs(hulls: Records, states: Records) -> list[tuple[int, int]]:
    """Pairs of vehicles, the first one first, that touch one another in these (n,) states."""
    found = []
    for i in range(len(hulls) - 1):
        apart = np.linalg.norm(states["position"][i + 1 :] - states["position"][i], axis=1)
        for j in i + 1 + np.flatnonzero(apart < hulls["radius"][i] + hulls["radius"][i + 1 :]):
            pair = np.array([i, j])
            a, b = (spheres_beside(hulls[pair], states[pair], other) for other in (1, 0))
            gaps = np.linalg.norm(a[:, None, :3] - b[None, :, :3], axis=2) - a[:, None, 3] - b[None, :, 3]
            if gaps.min() < 0.0:
                found.append((i, int(j)))
    return found


@compiled
def _units(value: float) -> int:
    """A force, moment or speed in whole units, cut towards zero, so that its opposite gives the opposite."""
    return int(value / UNIT)


@compiled
def _prepare(hulls: Records, vehicles: Records, states: Records, environment: Environment) -> float:
    """Empty the sums and describe every wake; returns how far north or south any is felt in m.

    The jet carries the momentum of the thrust T.  Its speed begins at that of the contracted wake,
    2 v_i = sqrt(2 T/(rho A)) with A all discs (momentum theory), and falls as B sqrt(4 T/(pi rho))/x, the
    round jet of that momentum (U_J d = sqrt(4 T/(pi rho))).  With the profile U = U_c/(1 + (r/b)^2)^2 (Pope
    eq. 5.82) its momentum rho U_c^2 pi b^2/3 is T where b = sqrt(3 T/(pi rho))/U_c; the half-width is then
    0.096 x, measured 0.102 x.
    """
    furthest = 0.0
    for i in range(states.shape[0]):
        h = hulls[i]
        s = states[i]
        v = vehicles[i]
        for k in range(3):
            h.force[k] = 0
            h.moment[k] = 0
            h.wake[k] = 0
            for r in range(v.rotor_count):
                h.rotor_wake[r, k] = 0
            h.across[k] = s.wind[k] - s.neighbour_air[k] - s.velocity[k]
        bx, by, bz, area = 0.0, 0.0, 0.0, 0.0
        for k in range(v.rotor_count):
            bx += s.rotor_thrust[k] * v.rotor_axis[k, 0]
            by += s.rotor_thrust[k] * v.rotor_axis[k, 1]
            bz += s.rotor_thrust[k] * v.rotor_axis[k, 2]
            area += math.pi * v.rotor_radius[k] * v.rotor_radius[k]
        thrust = math.sqrt(bx * bx + by * by + bz * bz)
        h.jet_top = 0.0
        if thrust < 1e-3:
            continue
        _, _, density = air(environment, s.position[2])
        q = s.attitude
        n, e, d = rotate_to_ned(q[0], q[1], q[2], q[3], bx, by, bz)
        h.jet[0], h.jet[1], h.jet[2] = -n / thrust, -e / thrust, -d / thrust
        h.jet_top = math.sqrt(2.0 * thrust / (density * area))
        h.jet_decay = JET_DECAY * math.sqrt(4.0 * thrust / (math.pi * density))
        h.jet_width = math.sqrt(3.0 * thrust / (math.pi * density))
        edge = WAKE_EDGE * h.jet_width / min(h.jet_top, h.jet_decay / WAKE_REACH)
        drift = h.across[0] * h.jet[0] + h.across[1] * h.jet[1] + h.across[2] * h.jet[2]
        age = _age(h, WAKE_REACH)
        for k in range(3):
            h.across[k] -= drift * h.jet[k]
            h.jet_box[k] = abs(h.jet[k]) * WAKE_REACH + age * abs(h.across[k]) + edge
        furthest = max(furthest, h.jet_box[0])
    return furthest


@compiled
def _age(h: Hull, distance: float) -> float:
    """s that a jet takes to a distance from its beginning, by the speed on its axis."""
    core = h.jet_decay / h.jet_top
    if distance <= core:
        return distance / h.jet_top
    return core / h.jet_top + (distance * distance - core * core) / (2.0 * h.jet_decay)


@compiled
def _apply_downwash(h: Hull, source: State, target: Hull, state: State) -> None:
    """Add the downwash of one vehicle to another, along the jet: at each rotor, and the mean over all parts.

    The axis is bent by what the air moves across in the time that the jet takes to a distance.
    """
    for k in range(3):
        if abs(state.position[k] - source.position[k]) > h.jet_box[k] + target.radius:
            return
    sx, sy, sz = source.position[0], source.position[1], source.position[2]
    jx, jy, jz = h.jet[0], h.jet[1], h.jet[2]
    total = 0.0
    for k in range(target.sphere_count):
        x, y, z = target.sphere[k, 0], target.sphere[k, 1], target.sphere[k, 2]
        n, e, d = place_of(state, x, y, z)
        dn, de, dd = n - sx, e - sy, d - sz
        along = dn * jx + de * jy + dd * jz
        if along <= 0.0 or along >= WAKE_REACH:
            continue
        age = _age(h, along)
        rn = dn - along * jx - age * h.across[0]
        re = de - along * jy - age * h.across[1]
        rd = dd - along * jz - age * h.across[2]
        speed = min(h.jet_top, h.jet_decay / along)
        ratio = math.sqrt(rn * rn + re * re + rd * rd) * speed / h.jet_width
        if ratio > WAKE_EDGE:
            continue
        shape = 1.0 / (1.0 + ratio * ratio)
        speed *= shape * shape * min(1.0, 4.0 * (1.0 - along / WAKE_REACH))
        total += speed
        if k > 0:
            target.rotor_wake[k - 1, 0] += _units(speed * jx)
            target.rotor_wake[k - 1, 1] += _units(speed * jy)
            target.rotor_wake[k - 1, 2] += _units(speed * jz)
    if total > 0.0:
        mean = total / target.sphere_count
        target.wake[0] += _units(mean * jx)
        target.wake[1] += _units(mean * jy)
        target.wake[2] += _units(mean * jz)


@compiled
def _spot(state: State, hull: Hull, k: int, ahead: float, spot: Floats) -> None:
    """Position and velocity of a sphere's centre, NED: (6,) position ``ahead`` s from now, velocity."""
    x, y, z = hull.sphere[k, 0], hull.sphere[k, 1], hull.sphere[k, 2]
    spot[3], spot[4], spot[5] = velocity_of(state, x, y, z)
    n, e, d = place_of(state, x, y, z)
    spot[0], spot[1], spot[2] = n + ahead * spot[3], e + ahead * spot[4], d + ahead * spot[5]


@compiled
def _respond_to_force(
    vehicle: Vehicle, state: State, hull: Hull, k: int, n: Floats, turning: Floats
) -> float:
    """Response to a unit force along n (NED) on a sphere: (3,) its moment, body; returns 1/kg it yields."""
    q = state.attitude
    u, v, w = rotate_to_ned(q[0], -q[1], -q[2], -q[3], n[0], n[1], n[2])
    x, y, z = hull.sphere[k, 0], hull.sphere[k, 1], hull.sphere[k, 2]
    turning[0] = y * w - z * v
    turning[1] = z * u - x * w
    turning[2] = x * v - y * u
    yields = 1.0 / vehicle.mass
    for a in range(3):
        for b in range(3):
            yields += turning[a] * vehicle.inertia_inverse[a, b] * turning[b]
    return yields


@compiled
def _collide(
    proximity: ProximityRecord, hulls: Records, touching: Bytes, collisions: Records, vehicles: Records,
    states: Records, i: int, j: int, time: int, seconds: float, work: Floats,
) -> None:  # fmt: skip
    """Push two vehicles apart where their spheres overlap: a spring and a damper along the line of centres.

    There is no friction: blades and rounded arms slide.  The line through both centres is the same for both
    forces, so angular momentum is conserved with the linear one.
    """
    rate = min(CONTACT_RATE, STIFFEST / seconds)
    first, second, n, turn_i, turn_j = work[0], work[1], work[2], work[3], work[4]
    touch = 0
    fastest = -1.0
    part_i, part_j = 0, 0
    for a in range(hulls[i].sphere_count):
        _spot(states[i], hulls[i], a, 0.5 * seconds, first)
        for b in range(hulls[j].sphere_count):
            _spot(states[j], hulls[j], b, 0.5 * seconds, second)
            n[0], n[1], n[2] = second[0] - first[0], second[1] - first[1], second[2] - first[2]
            apart = math.sqrt(n[0] * n[0] + n[1] * n[1] + n[2] * n[2])
            overlap = hulls[i].sphere[a, 3] + hulls[j].sphere[b, 3] - apart
            if overlap <= 0.0 or apart <= 0.0:
                continue
            touch = 1
            closing = 0.0
            for k in range(3):
                n[k] /= apart
                closing += n[k] * (first[3 + k] - second[3 + k])
            if closing > fastest:
                fastest, part_i, part_j = closing, a, b
                for k in range(3):
                    work[5, k] = first[k] + n[k] * hulls[i].sphere[a, 3]
            yields = _respond_to_force(vehicles[i], states[i], hulls[i], a, n, turn_i)
            yields += _respond_to_force(vehicles[j], states[j], hulls[j], b, n, turn_j)
            force = rate * (rate * overlap + 2.0 * proximity.damping_ratio * closing) / yields
            if force <= 0.0:
                continue
            for k in range(3):
                whole = _units(force * n[k])
                hulls[i].force[k] -= whole
                hulls[j].force[k] += whole
                hulls[i].moment[k] -= _units(force * turn_i[k])
                hulls[j].moment[k] += _units(force * turn_j[k])
            if closing > proximity.breaking_speed:
                if a > 0:
                    states[i].rotor_health[a - 1], states[i].rotor_broken[a - 1] = 0.0, 1
                if b > 0:
                    states[j].rotor_health[b - 1], states[j].rotor_broken[b - 1] = 0.0, 1
    if touch == 1:
        if touching[i, j] == 0:
            if proximity.count < collisions.shape[0]:
                row = collisions[proximity.count]
                row.time, row.speed = time, fastest
                row.vehicle[0], row.vehicle[1] = min(i, j), max(i, j)
                row.part[0], row.part[1] = (part_i, part_j) if i < j else (part_j, part_i)
                for k in range(3):
                    row.position[k] = work[5, k]
            proximity.count += 1
        proximity.touching += 2
        touching[i, j] = NOW
        touching[j, i] = NOW


@compiled
def _age_contacts(proximity: ProximityRecord, touching: Bytes) -> None:
    """Let contacts of earlier steps end; also those of vehicles that have gone far since."""
    if proximity.touching == 0:
        return
    proximity.touching = 0
    for i in range(touching.shape[0]):
        for j in range(touching.shape[0]):
            if touching[i, j] > 0:
                touching[i, j] -= 1
                proximity.touching += touching[i, j]


@compiled
def _sort(hulls: Records, states: Records) -> tuple[float, float]:
    """Sort vehicles from south to north; returns the largest radius (m) and the highest speed along (m/s)."""
    widest = 0.0
    quickest = 0.0
    for i in range(states.shape[0]):
        widest = max(widest, hulls[i].radius)
        quickest = max(quickest, abs(states[i].velocity[0]))
        # Sorted by insertion: from step to step hardly anything changes places.
        k = i
        here = hulls[i].order
        north = states[here].position[0]
        while k > 0 and states[hulls[k - 1].order].position[0] > north:
            hulls[k].order = hulls[k - 1].order
            k -= 1
        hulls[k].order = here
    return widest, quickest


@compiled
def _write_forces(hulls: Records, states: Records) -> None:
    """Write the sums over all neighbours into the states."""
    for i in range(states.shape[0]):
        h, s = hulls[i], states[i]
        s.uneven_wake = 0
        for k in range(3):
            s.neighbour_force[k] = h.force[k] * UNIT
            s.neighbour_moment[k] = h.moment[k] * UNIT
            s.neighbour_air[k] = h.wake[k] * UNIT
            for r in range(h.sphere_count - 1):
                if h.rotor_wake[r, k] != h.wake[k]:
                    s.uneven_wake = 1


@on_demand
def interact(
    arrays: ProximityArrays,
    vehicles: Annotated[Records, VEHICLE],
    states: Annotated[Records, STATE],
    environment: Environment,
    time: int,
    seconds: float,
) -> None:
    """Write the effects of all other vehicles over the coming step into every vehicle's state.

    Vehicles are kept sorted from south to north, and only pairs that are near one another that way are
    looked at.  Speeds are those at the step's start; the spheres are where they will be in its middle.

    Args:
        vehicles: (n,) VEHICLE.
        states: (n,) STATE; ``neighbour_force``, ``neighbour_moment``, ``neighbour_air`` and ``uneven_wake``
            are written.
        time: us at the start of the step.
        seconds: s, length of the step.
    """
    proximity = arrays.proximity[0]
    hulls, touching, collisions = arrays.hulls, arrays.touching, arrays.collisions
    count = states.shape[0]
    _age_contacts(proximity, touching)
    work = np.empty((6, 6))
    furthest = _prepare(hulls, vehicles, states, environment)
    widest, quickest = _sort(hulls, states)
    margin = 2.0 * quickest * seconds
    for a in range(count):
        i = hulls[a].order
        for b in range(a + 1, count):
            j = hulls[b].order
            gap = states[j].position[0] - states[i].position[0]
            if gap > max(2.0 * widest + margin, furthest + widest):
                break
            if proximity.collisions != 0:
                east = states[j].position[1] - states[i].position[1]
                down = states[j].position[2] - states[i].position[2]
                near = hulls[i].radius + hulls[j].radius + margin
                if gap * gap + east * east + down * down < near * near:
                    _collide(
                        proximity, hulls, touching, collisions, vehicles, states, i, j, time, seconds, work
                    )
            if proximity.downwash != 0:
                if hulls[i].jet_top > 0.0:
                    _apply_downwash(hulls[i], states[i], hulls[j], states[j])
                if hulls[j].jet_top > 0.0:
                    _apply_downwash(hulls[j], states[j], hulls[i], states[i])
    _write_forces(hulls, states)


@compiled
def uneven_wake(hull: Hull, k: int, axis: int) -> float:
    """Return the air in m/s NED of others' wakes at a rotor beyond their mean, ``neighbour_air``."""
    return (hull.rotor_wake[k, axis] - hull.wake[axis]) * UNIT


@compiled
def note_contacts(
    arrays: ProximityArrays,
    i: int,
    vehicle: Vehicle,
    state: State,
    surfaces: Surfaces,
    scene: SceneRecord,
    time: int,
) -> None:
    """List what a vehicle hit in a step, and stop the rotors that broke.

    Contacts with one object that follow one another within ``APART`` are one, with the speed and part of the
    fastest.

    Args:
        i: which vehicle.
        state: STATE record at the end of the step.
        time: us at the end of the step.
    """
    if state.hit_speed < 0.0:
        return
    proximity = arrays.proximity[0]
    for k in range(vehicle.rotor_count):
        if surfaces.rotor_hit[k] > proximity.breaking_speed:
            state.rotor_health[k], state.rotor_broken[k] = 0.0, 1
        surfaces.rotor_hit[k] = 0.0
    thing = array_at(scene.shapes, scene.shape_count, SHAPE)[surfaces.hit_shape].object
    again = surfaces.hit_object == thing + 1 and time - surfaces.hit_time < APART
    surfaces.hit_object, surfaces.hit_time = thing + 1, time
    if not again:
        surfaces.hit_row = proximity.contact_count
        proximity.contact_count += 1
    if surfaces.hit_row >= arrays.contacts.shape[0]:
        return
    row = arrays.contacts[surfaces.hit_row]
    if again and row.speed >= state.hit_speed:
        return
    if not again:
        row.time, row.vehicle, row.object = time, i, thing
    part = surfaces.hit_part - vehicle.contact_count
    row.part = part + 1 if part >= 0 else -1 - surfaces.hit_part
    if part == vehicle.rotor_count:
        row.part = 0
    row.speed = state.hit_speed
    for k in range(3):
        row.position[k] = surfaces.hit_position[k]
