"""Refines an imported airframe by flight logs, by analysis by synthesis (lab/identification)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sitl_bridge.api.models import load_airframe
from sitl_bridge.lab.identification.airframe_identification import (
    identified_fields,
    identified_sources,
    identify_airframe,
)
from sitl_bridge.lab.identification.flight_source import read_identification_flight
from sitl_bridge.lab.importing.figures import Figures

FITTED = ("inertia", "thrust", "drag", "lag", "wind")


def fit_logs(logs: Sequence[Path], airframe_file: Path, figures: Figures) -> None:
    """Replace the figures that flights show by fitted ones.

    Raises:
        UserError: for logs that cannot be read, or that show too little.
    """
    airframe = load_airframe(airframe_file)
    flights = [read_identification_flight(log, len(airframe.rotors)) for log in logs]
    found = identify_airframe(flights, airframe, fit=list(FITTED), fix={}, window=1.0)
    changed, notes = identified_fields(airframe.unloaded(), found)
    sources = identified_sources(found, ", ".join(log.name for log in logs))
    for section, value in changed.items():
        fields = value if isinstance(value, dict) and not figures.get(section) else {"": value}
        for name, item in fields.items():
            path = f"{section}.{name}" if name else section
            if isinstance(item, dict) and isinstance(figures.get(path), dict):
                item = figures.get(path) | item
            key = path if path in sources else section
            figures.give(path, item, sources.get(key, next(iter(sources.values()))))
    for note in (*notes, *found.advice):
        figures.note(note)
