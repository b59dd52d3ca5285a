"""The physics: world, dynamics, sensors, vehicle, simulation; no link and no thread."""
