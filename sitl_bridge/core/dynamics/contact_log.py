"""The list of vehicles' contacts with objects of the scene, and the rotors that break in them."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.kernels.array_at import array_at
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.base.kernels.record import Record
from sitl_bridge.core.dynamics.records import State, Vehicle
from sitl_bridge.core.world.records import SHAPE, SceneRecord

APART = 500_000
"""us without a new contact after which the next one with the same object counts as another."""


class ContactRecord(Record):
    """A vehicle's contact with an object, other than standing on it."""

    time: int  # us, end of the step in which they touched first
    vehicle: int
    object: int  # of the scene
    part: int  # 0: the body, k: rotor k, -k: contact point k
    speed: float  # m/s, greatest closing speed of the contact
    position: Annotated[Floats, 3]  # m NED


CONTACT = ContactRecord.dtype


@compiled
def note_contacts(arrays: Any, i: int, vehicle: Vehicle, state: State, scene: SceneRecord, time: int) -> None:
    """List what a vehicle hit in a step, and stop the rotors that broke.

    Contacts with one object that follow one another within ``APART`` are one, with the speed and part of the
    fastest.

    Args:
        arrays: ``ProximityArrays``.
        i: which vehicle.
        state: STATE record at the end of the step.
        time: us at the end of the step.
    """
    if state.hit_speed < 0.0:
        return
    proximity = arrays.proximity[0]
    for k in range(vehicle.rotor_count):
        if state.rotor_hit[k] > proximity.breaking_speed:
            state.rotor_health[k], state.rotor_broken[k] = 0.0, 1
        state.rotor_hit[k] = 0.0
    thing = array_at(scene.shapes, scene.shape_count, SHAPE)[state.hit_shape].object
    again = state.hit_object == thing + 1 and time - state.hit_time < APART
    state.hit_object, state.hit_time = thing + 1, time
    if not again:
        state.hit_row = proximity.contact_count
        proximity.contact_count += 1
    if state.hit_row >= arrays.contacts.shape[0]:
        return
    row = arrays.contacts[state.hit_row]
    if again and row.speed >= state.hit_speed:
        return
    if not again:
        row.time, row.vehicle, row.object = time, i, thing
    part = state.hit_part - vehicle.contact_count
    row.part = part + 1 if part >= 0 else -1 - state.hit_part
    if part == vehicle.rotor_count:
        row.part = 0
    row.speed = state.hit_speed
    for k in range(3):
        row.position[k] = state.hit_position[k]


class VehicleContact(NamedTuple):
    """A vehicle's contact with an object of the scene, other than standing on it."""

    time: float  # s
    vehicle: str  # its name
    object: str  # name of the object
    part: str  # of the vehicle: ``"body"``, ``"rotor 2"``, ``"contact point 1"``
    speed: float  # m/s, greatest closing speed
    position: tuple[float, float, float]  # m NED
