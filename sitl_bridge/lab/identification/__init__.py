"""Estimates an airframe's parameters and the wind from recorded flights, by analysis by synthesis."""
