"""sitl-bridge: a physics-and-sensor server that real PX4 firmware flies against, in lockstep."""

from importlib.metadata import version

__version__ = version("sitl-bridge")
