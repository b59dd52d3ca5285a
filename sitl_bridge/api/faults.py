"""Faults and changes for ``Sitl``: classes that ``sitl.fault(...)`` and ``faults=[...]`` take.

They are the events of scenario files, of the message bus and of the live page.
"""

from sitl_bridge.core.simulation.events import (
    CustomEvent,
    CustomFault,
    GpsJamming,
    GpsSpoofing,
    MotorLoss,
    PayloadDrop,
    PropellerDamage,
    SensorFault,
    StackEvent,
    WindEvent,
)

__all__ = [
    "CustomEvent",
    "CustomFault",
    "GpsJamming",
    "GpsSpoofing",
    "MotorLoss",
    "PayloadDrop",
    "PropellerDamage",
    "SensorFault",
    "StackEvent",
    "WindEvent",
]
