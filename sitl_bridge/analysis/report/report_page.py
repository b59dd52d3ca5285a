"""The report of one or several runs as one HTML file that needs nothing else."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from pathlib import Path

import numpy as np

from sitl_bridge.analysis.evaluation.run_record import RunRecord
from sitl_bridge.analysis.report.flight_map import (
    fewer,
    plan_outline,
    round_numbers,
    scene_outline,
    track,
    tracks_of_arrays,
)
from sitl_bridge.analysis.report.report_text import body
from sitl_bridge.analysis.report.reported_run import Reported
from sitl_bridge.analysis.report.run_events import LANES
from sitl_bridge.analysis.report.time_lines import (
    Line,
    Plot,
    fleet_plots,
    spectrum_plot,
    thin_out,
    vehicle_plots,
)
from sitl_bridge.base.arrays import AnyArray
from sitl_bridge.base.json_data import JsonObject
from sitl_bridge.base.output_file import write_whole

PAGE = "report.html"
"""Name of a report's file."""
LARGEST = 2_900_000
"""Size of a report, bytes, above which its curves are thinned further."""
POINTS = 1600
"""Points per curve of a single vehicle, about as many as a screen is wide."""
FEWEST_POINTS = 100
MOST_DETAILED = 12
"""Vehicles of a run with curves of their own."""
COMPARED = ("height", "deviation", "velocity_north", "velocity_east", "rates", "voltage", "test_ratios_0")
"""Plots of which several runs are drawn into one."""


def write_report(reported: Sequence[Reported], path: Path) -> Path:
    """Write the HTML file.

    Raises:
        UserError: if it cannot be written.
    """
    return write_whole(path, page(reported))


@dataclass(frozen=True)
class _Drawn:
    """Data of a run's drawings, with as many points as the page may have."""

    scene: list[JsonObject]  # outlines of the objects
    tracks: list[JsonObject]  # of the vehicles
    fleet: list[Plot]  # plots of the fleet
    vehicles: list[tuple[str, list[Plot]]]  # plots of each vehicle that has some, by its name


def page(reported: Sequence[Reported]) -> str:
    """The HTML text, thinned until it is small enough."""
    detailed = sum(min(len(one.run.vehicles), MOST_DETAILED) for one in reported)
    points = max(FEWEST_POINTS, round(POINTS / math.sqrt(max(detailed, 1))))
    drawn = [_draw(one, points) for one in reported]
    while True:
        text = _page(reported, drawn, points)
        if len(text) <= LARGEST or points <= FEWEST_POINTS:
            return text
        points = max(FEWEST_POINTS, points // 2)


def _draw(one: Reported, points: int) -> _Drawn:
    run = one.run
    vehicles = []
    for vehicle, found in list(zip(run.vehicles, one.evaluation.vehicles, strict=True))[:MOST_DETAILED]:
        plots = vehicle_plots(vehicle, points)
        if found.rates is not None:
            plots.append(thin_out(spectrum_plot(found.rates), points))
        if plots:
            vehicles.append((vehicle.name, plots))
    flown = _track_points(run, points)
    return _Drawn(
        scene_outline(run),
        [t for vehicle in run.vehicles if (t := track(vehicle, flown)) is not None]
        or tracks_of_arrays(run, flown),
        [thin_out(plot, 2 * points) for plot in fleet_plots(run)],
        vehicles,
    )


def _track_points(run: RunRecord, points: int) -> int:
    return max(200, 6 * points // max(1, math.ceil(math.sqrt(len(run.vehicles) or 1))))


def _page(reported: Sequence[Reported], drawn: Sequence[_Drawn], points: int) -> str:
    data = {
        "lanes": LANES,
        "runs": [_run_data(one, what, points) for one, what in zip(reported, drawn, strict=True)],
        "compared": [_plot_data(plot) for plot in _plot_runs_together(reported, drawn, points)],
    }
    title = " and ".join(one.label for one in reported)
    mark = reported[0].verdict.word if len(reported) == 1 else f"{len(reported)} runs"
    # "<" would end the script element in the middle of the data.
    encoded = json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return html_page(
        f"{mark}: {title}",
        body(reported),
        ("uPlot.min.css", "report.css"),
        (
            f'<script type="application/json" id="data">{encoded}</script>',
            f"<script>/*\n{asset('uPlot.LICENSE')}\n*/\n{asset('uPlot.iife.min.js')}</script>",
            f"<script>{asset('views.js')}\n{asset('report.js')}</script>",
        ),
    )


# -------------------------------------------------------------------------- data of the page


def _run_data(one: Reported, drawn: _Drawn, points: int) -> JsonObject:
    flown = _track_points(one.run, points)
    return {
        "label": one.label,
        "tracks": [fewer(track, flown) for track in drawn.tracks],
        "plan": plan_outline(one.run),
        "scene": drawn.scene,
        "events": [
            {"lane": LANES.index(e.lane), "begin": round(e.begin, 3), "end": round(e.end, 3), "text": e.text,
             "level": e.level, "vehicle": e.vehicle}
            for e in one.events
        ],
        "fleet": [_plot_data(thin_out(plot, 2 * points)) for plot in drawn.fleet],
        "vehicles": [
            {"name": name, "plots": [_plot_data(thin_out(plot, points)) for plot in plots]}
            for name, plots in drawn.vehicles
        ],
    }  # fmt: skip


def _plot_data(plot: Plot) -> JsonObject:
    return {
        "key": plot.key,
        "title": plot.title,
        "unit": plot.unit,
        "note": plot.note,
        "xTitle": plot.x_title,
        "log": plot.logarithmic,
        "x": _significant(plot.x) if plot.logarithmic else round_numbers(plot.x, 3),
        "lines": [
            {"name": line.name, "reference": line.reference, "y": _significant(line.values)}
            for line in plot.lines
        ],
        "levels": [list(level) for level in plot.levels],
    }


def _significant(values: AnyArray) -> list[float | int | None]:
    """Numbers with four digits; null for what is not finite."""
    return [None if not math.isfinite(v) else _short(float(f"{v:.4g}")) for v in values.tolist()]


def _short(value: float) -> float | int:
    return int(value) if value == int(value) and abs(value) < 1e9 else value


def _plot_runs_together(reported: Sequence[Reported], drawn: Sequence[_Drawn], points: int) -> list[Plot]:
    """Plots of the first vehicle of several runs in one, over the time since take-off."""
    if len(reported) < 2:
        return []
    found: dict[str, list[tuple[str, Plot, float]]] = {}
    for one, what in zip(reported, drawn, strict=True):
        flight = one.run.vehicles[0].flight() if one.run.vehicles else None
        if flight is None or not what.vehicles:
            continue
        for plot in what.vehicles[0][1]:
            if plot.key in COMPARED:
                found.setdefault(plot.key, []).append((one.label, plot, flight[0]))
    return [thin_out(_join(found[key]), points) for key in COMPARED if len(found.get(key, ())) > 1]


def _join(parts: list[tuple[str, Plot, float]]) -> Plot:
    first = parts[0][1]
    begin = min(float(plot.x[0]) - start for _, plot, start in parts)
    end = max(float(plot.x[-1]) - start for _, plot, start in parts)
    x = np.linspace(begin, end, 2 * POINTS)
    lines = tuple(
        Line(label, np.interp(x, plot.x - start, plot.lines[0].values, left=math.nan, right=math.nan))
        for label, plot, start in parts
    )
    what = first.lines[0].name
    title = first.title if what in first.title.lower() else f"{first.title}, {what}"
    return Plot(first.key, title, first.unit, x, lines, first.levels, "time since take-off, s")


def as_json(reported: Sequence[Reported]) -> list[JsonObject]:
    """Plain values of the evaluations, for ``--json``; what is infinite or unknown is null."""
    return [
        {
            "run": str(one.run.path),
            "name": one.run.name,
            "verdict": one.verdict.word,
            "judged": one.verdict.origin or "by the flight at its end",
            "reasons": list(one.verdict.reasons),
            "notes": one.notes,
            "partial": one.run.partial or None,
            "measures": [m.as_data() for m in one.verdict.measures],
            "waypoints": [
                {
                    "vehicle": v.name, "begin": w.waypoint.begin, "position": w.waypoint.position.tolist(),
                    "settling": w.settling, "position_rms": w.hover.position if w.hover else None,
                    "rates_rms": w.hover.rates if w.hover else None,
                }
                for v in one.evaluation.vehicles for w in v.waypoints
            ],
        }
        for one in reported
    ]  # fmt: skip


def asset(name: str) -> str:
    """The text of a file of the pages: a style sheet or a script."""
    return (resources.files("sitl_bridge.analysis.report") / "page" / name).read_text(encoding="utf-8")


def html_page(title: str, content: str, styles: Sequence[str], tail: Sequence[str] = ()) -> str:
    """A whole page.

    Args:
        title: of the window, as plain text.
        content: HTML within the body.
        styles: names of style sheets.
        tail: HTML after the content: data and scripts.
    """
    sheets = "\n".join(asset(name) for name in styles)
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">',
            f"<title>{escape(title)}</title>",
            f"<style>{sheets}</style></head><body>",
            content,
            *tail,
            "</body></html>\n",
        ]
    )
