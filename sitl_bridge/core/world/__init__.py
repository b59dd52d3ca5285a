"""The world: Earth, atmosphere, magnetic field and wind."""
