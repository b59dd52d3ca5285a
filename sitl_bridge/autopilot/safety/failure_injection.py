"""MAV_CMD_INJECT_FAILURE: the units and failure types supported here."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sitl_bridge.autopilot.commander_data import ACCEPTED, DENIED, UNSUPPORTED, VehicleFacts

UNITS = {
    0: "gyroscope",
    1: "accelerometer",
    2: "magnetometer",
    3: "barometer",
    4: "gps",
    5: "optical_flow",
    7: "range_finder",
    101: "motor",
}
"""FAILURE_UNIT."""

OK, OFF, STUCK = 0, 1, 2
"""FAILURE_TYPE."""

EVERY = 0
"""Instance number for all instances."""


def inject(
    params: Sequence[float], facts: VehicleFacts, failures: dict[str, dict[int, str]]
) -> tuple[int, str]:
    """Store a failure in ``failures`` by kind and instance (from 1, 0 for all).

    Returns:
        MAV_RESULT and a text.
    """
    if not all(map(math.isfinite, params[:2])):
        return DENIED, "Failure injection: unit and type must be given"
    unit, kind = int(params[0]), int(params[1])
    instance = int(params[2]) if math.isfinite(params[2]) else EVERY
    name = UNITS.get(unit)
    if name is None:
        return UNSUPPORTED, f"Failure injection: unit {unit} is not supported"
    how = {OK: "ok", OFF: "off", STUCK: "stuck"}.get(kind)
    if how is None or (name == "motor" and kind == STUCK):
        return UNSUPPORTED, f"Failure injection: {name} failure of type {kind} is not supported"
    if instance < 0 or (name == "motor" and instance > facts.motors):
        return DENIED, f"Failure injection: no {name} {instance}"
    present = failures.setdefault(name, {})
    if kind != OK:
        if instance == EVERY:
            present.clear()
        present[instance] = how
    elif instance == EVERY:
        present.clear()
    else:
        present.pop(instance, None)
        if name == "motor" and EVERY in present:
            del present[EVERY]
            present.update({k: "off" for k in range(1, facts.motors + 1) if k != instance})
    if not present:
        del failures[name]
    which = "all" if instance == EVERY else str(instance)
    return ACCEPTED, f"Failure injection: {name} {which} {how}"
