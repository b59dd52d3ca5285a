"""Faults and changes for ``Sitl``: classes that ``sitl.fault(...)`` and ``faults=[...]`` take.

They are the events of scenario files, of the message bus and of the live page.
"""

from sitl_bridge.core.simulation.events import CustomEvent as CustomEvent
from sitl_bridge.core.simulation.events import CustomFault as CustomFault
from sitl_bridge.core.simulation.events import GpsJamming as GpsJamming
from sitl_bridge.core.simulation.events import GpsSpoofing as GpsSpoofing
from sitl_bridge.core.simulation.events import MotorLoss as MotorLoss
from sitl_bridge.core.simulation.events import PayloadDrop as PayloadDrop
from sitl_bridge.core.simulation.events import PropellerDamage as PropellerDamage
from sitl_bridge.core.simulation.events import SensorFault as SensorFault
from sitl_bridge.core.simulation.events import StackEvent as StackEvent
from sitl_bridge.core.simulation.events import WindEvent as WindEvent
