"""Makes airframe files of vehicles as others describe them: Gazebo, ROS, PX4, thrust stands, flight logs."""

from sitl_bridge.lab.importing.estimates import Given
from sitl_bridge.lab.importing.importer import Choices, Imported, import_vehicle

__all__ = ["Choices", "Given", "Imported", "import_vehicle"]
