"""Every file a user writes: YAML with line numbers, airframes, worlds, scenarios and QGroundControl plans."""
