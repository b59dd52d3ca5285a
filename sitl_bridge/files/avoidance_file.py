"""Avoidance scenarios: YAML in, a checked specification out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sitl_bridge.errors import ConfigurationError
from sitl_bridge.files.yaml_file import read, validate
from sitl_bridge.swarm.avoidance.avoidance_specification import Scenario, flight_faults


def is_avoidance(data: Any) -> bool:
    """Whether data of a file are of this kind: no other has a duration, a circle or routes."""
    if not isinstance(data, dict):
        return False
    vehicles = data.get("vehicles")
    groups = [v for v in vehicles if isinstance(v, dict)] if isinstance(vehicles, list) else []
    own = any("route" in group or "table" in group for group in groups)
    return own or "duration" in data or "circle" in data


def load_avoidance(path: Path) -> Scenario:
    """Read and check a scenario.

    Raises:
        ConfigurationError: with every fault: of the file, of its values, and those of ``flight_faults``.
    """
    document = read(path)
    scenario = validate(Scenario, document)
    faults = [f"line {document.line(where)}: {message}" for where, message in flight_faults(scenario)]
    if faults:
        raise ConfigurationError(str(path), faults)
    return scenario
