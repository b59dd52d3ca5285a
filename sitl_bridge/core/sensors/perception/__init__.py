"""Sensors that see the scene: what they measure, without threads or files.  perception/ runs them."""
