"""Display of flights on the terminal: one live line in flight, a table at the end."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from sitl_bridge.analysis.evaluation.flight_record import FIGURES, Deviation, FlightFigures, FlightRecord
from sitl_bridge.analysis.evaluation.summary import Outcome, warnings_of
from sitl_bridge.analysis.evaluation.vehicle_distances import MIN_FLIGHT_HEIGHT, closest_distance
from sitl_bridge.analysis.evaluation.verdict import FAILED, INTERRUPTED, SUCCEEDED, UNKNOWN, Verdict
from sitl_bridge.link.px4.vehicle_status import VehicleMessage
from sitl_bridge.session.outcome import FlightOutcome
from sitl_bridge.session.settings import BUILTIN
from sitl_bridge.session.started_run import Progress

MOST_LISTED = 8
"""Collisions, reasons and notes of several vehicles that are printed; the others are in the summary."""

FRAME = 8
"""Characters of a box's title line outside the title, with a margin."""


def live_line(progress: Progress) -> Text:
    """The live line during a flight."""
    if len(progress.vehicles) > 1:
        return _fleet_line(progress)
    server, (vehicle,) = progress.server, progress.vehicles
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append(f"{server.seconds:7.1f} s", "bold")
    line.append(f"  {server.real_time_factor:4.1f} x", "cyan")
    if not server.links[0].connected:
        line.append(
            "  waiting for the flight stack" if server.steps == 0 else "  flight stack disconnected", "yellow"
        )
        return line
    if vehicle.silent:
        line.append("  no telemetry", "red")
    line.append(f"  {vehicle.mode or 'starting'}", "bold green" if vehicle.armed else "green")
    line.append("  armed" if vehicle.armed else "  disarmed")
    north, east, down = (float(value) for value in server.position[0])
    line.append(f"  N {north:.1f} E {east:.1f} up {-down:.1f} m")
    line.append(f"  {float(math.hypot(*server.velocity[0])):.1f} m/s")
    voltage, current, left = (float(value) for value in server.battery[0])
    line.append(f"  {voltage:.1f} V {current:.0f} A {left:.0%}")
    if server.links[0].stalled:
        line.append("  the flight stack does not answer", "red")
    if vehicle.waits_for and not vehicle.armed:
        line.append(f"  cannot arm yet: {'; '.join(vehicle.waits_for)}", "yellow")
    return line


def _fleet_line(progress: Progress) -> Text:
    server = progress.server
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append(f"{server.seconds:7.1f} s", "bold")
    line.append(f"  {server.real_time_factor:4.1f} x", "cyan")
    connected = sum(link.connected for link in server.links)
    if server.steps == 0:
        line.append(f"  {connected} of {len(server.links)} flight stacks have connected", "yellow")
        return line
    flying = int(np.count_nonzero(-server.position[:, 2] > MIN_FLIGHT_HEIGHT))
    armed = sum(vehicle.armed for vehicle in progress.vehicles)
    line.append(f"  {len(server.links)} vehicles: {armed} armed, {flying} in the air", "green")
    modes = [vehicle.mode for vehicle in progress.vehicles if vehicle.mode]
    if modes:
        line.append(f", most in {max(set(modes), key=modes.count)}")
    apart = float(closest_distance(server.position[None])[0])
    if math.isfinite(apart):
        line.append(f"  nearest two {apart:.1f} m")
    line.append(f"  battery {float(server.battery[:, 2].min()):.0%}")
    stalled = sum(link.stalled for link in server.links)
    if stalled:
        line.append(f"  {stalled} flight stacks do not answer", "red")
    if any(progress.lost):
        line.append(f"  {sum(progress.lost)} lost", "red")
    waiting = [v.waits_for[0] for v in progress.vehicles if v.waits_for and not v.armed]
    if waiting and not flying:
        line.append(f"  {len(waiting)} cannot arm yet, e.g.: {waiting[0]}", "yellow")
    return line


def headline(what: str, verdict: Text, width: int) -> Text:
    """Return a box title of ``width`` characters: the flight, shortened in its middle, and the result."""
    room = width - FRAME - len(": ") - len(verdict.plain)
    if len(what) > room:
        end = max(room // 2 - 1, 1)
        what = f"{what[: max(room - end - 3, 1)]}...{what[-end:]}"
    return Text.assemble(f"{what}: ", verdict)


STYLES = {SUCCEEDED: "green", FAILED: "red", INTERRUPTED: "yellow", UNKNOWN: "yellow"}
"""Colour of each verdict."""


def verdict_text(verdict: Verdict) -> Text:
    """The word of a verdict in its colour."""
    return Text(verdict.word, f"bold {STYLES.get(verdict.word, '')}")


def verdict_lines(verdict: Verdict, most: int = 1000) -> list[Text]:
    """Reasons and notes of a verdict under their headings, at most so many of each."""
    lines = []
    for heading, texts, colour in (
        ("What went wrong", verdict.reasons, "red"),
        ("Notes", verdict.notes, "yellow"),
    ):
        if texts:
            lines += [Text(heading, "bold"), *(Text(f"  {text}", colour) for text in texts[:most])]
        if len(texts) > most:
            lines.append(Text(f"  and {len(texts) - most} more, in the summary", colour))
    return lines


def show(
    console: Console,
    outcome: Outcome,
    record: FlightRecord | None,
    messages: Iterable[VehicleMessage],
    verdict: Verdict,
) -> None:
    """Print the summary."""
    mission = Path(outcome.mission)
    flown = mission.name if mission.is_absolute() else mission
    title = headline(
        f"{flown} with {outcome.airframe}, {outcome.flight_stack}", verdict_text(verdict), console.width
    )
    parts: list[RenderableType] = [_format_values(outcome, record), *verdict_lines(verdict)]
    warnings = warnings_of(record, messages)
    if warnings:
        parts.append(Text(f"{outcome.flight_stack[0].upper()}{outcome.flight_stack[1:]} warned", "bold"))
        parts += [Text(f"  {time:8.1f} s  {level}: {text}", "yellow") for time, level, text in warnings[:12]]
        if len(warnings) > 12:
            parts.append(Text(f"  and {len(warnings) - 12} more, in the logs", "yellow"))
    if outcome.logs:
        parts.append(Text("Logs", "bold"))
        parts += [Text(f"  {name}: {path}") for name, path in outcome.logs.items()]
    console.print(Panel(Group(*parts), title=title, title_align="left", expand=False))


def _format_values(outcome: Outcome, record: FlightRecord | None) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold")
    table.add_column()
    figures, estimated = outcome.figures or FlightFigures(), None if record is None else record.figures
    if figures.air_time > 0 or (record is not None and record.air_time > 0):
        time, way, speed, height = (figures.in_words(name, estimated) for name in FIGURES)
        table.add_row("Flown", f"{time} in the air, {way}, up to {speed} and {height} high")
    else:
        table.add_row("Flown", "it never left the ground")
    if record is not None and record.air_time > 0:
        table.add_row("Modes", ", ".join(f"{mode} {seconds:.0f} s" for mode, seconds in record.modes))
        for name, deviation in record.deviations.items():
            true = record.true_deviations.get(name)
            unit = "m/s" if name.endswith("velocity") else "m"
            table.add_row(f"Off {name}", _deviation_words(deviation, true, unit))
        if record.estimate_error is not None:
            error = record.estimate_error
            table.add_row("Estimate error", f"RMS {error.rms:.2f} m, at most {error.max:.2f} m")
        table.add_row("Estimator", _estimator_words(record))
    if outcome.impact_speed > 0.0:
        table.add_row("Touchdown", f"{outcome.impact_speed:.2f} m/s")
    if outcome.vortex_ring_seconds >= 0.05:
        table.add_row("Vortex ring state", f"{outcome.vortex_ring_seconds:.1f} s: descend more slowly")
    if math.isfinite(outcome.battery_used):
        table.add_row("Battery used", f"{outcome.battery_used:.0%}")
    if outcome.wall_seconds > 0 and math.isfinite(outcome.simulated_seconds):
        factor = outcome.simulated_seconds / outcome.wall_seconds
        table.add_row(
            "Simulated",
            f"{outcome.simulated_seconds:.1f} s in {outcome.wall_seconds:.1f} s ({factor:.1f} x real time), "
            f"seed {outcome.seed}",
        )
    return table


def _deviation_words(deviation: Deviation, true: Deviation | None, unit: str) -> str:
    words = f"RMS {deviation.rms:.2f} {unit}, at most {deviation.max:.2f} {unit} in {deviation.seconds:.0f} s"
    return f"{words} (true: {true.rms:.2f}, {true.max:.2f})" if true else words


def _estimator_words(record: FlightRecord) -> str:
    if not record.estimators:
        return "no log"
    failures = sum(len(estimator.failures) for estimator in record.estimators)
    warnings = sum(len(estimator.warnings) for estimator in record.estimators)
    worst = max((ratio for e in record.estimators for ratio in e.ratios.values()), default=math.nan)
    count = f"{len(record.estimators)} instances" if len(record.estimators) > 1 else "1 instance"
    verdict = "no measurement rejected" if not failures else f"{failures} checks failed"
    return f"{count}, {verdict}, {warnings} warnings, greatest test ratio {worst:.2f}"


def show_fleet(console: Console, outcome: FlightOutcome) -> None:
    """Print the summary."""
    table = Table.grid(padding=(0, 2))
    for heading in ("vehicle", "airframe", "stack", "in the air", "flown", "highest", "touchdown", "battery"):
        table.add_column(heading)
    table.add_row(*(Text(str(column.header), "bold") for column in table.columns))
    for name, (one, record) in zip(outcome.names, outcome.vehicles, strict=True):
        figures, estimated = one.figures or FlightFigures(), None if record is None else record.figures
        flew = figures.air_time > 0 or (estimated is not None and estimated.air_time > 0)
        table.add_row(
            name,
            one.airframe,
            "built-in" if one.flight_stack == BUILTIN else one.flight_stack,
            *(
                figures.in_words(figure, estimated) if flew else "-"
                for figure in ("air_time", "distance", "max_height")
            ),
            f"{one.impact_speed:.2f} m/s",
            f"{one.battery_used:.0%}" if math.isfinite(one.battery_used) else "-",
        )
    parts: list[Table | Text] = [table]
    simulated, wall = outcome.vehicles[0][0].simulated_seconds, outcome.vehicles[0][0].wall_seconds
    if wall > 0 and math.isfinite(simulated):
        parts.append(Text(f"{simulated:.1f} s in {wall:.1f} s ({simulated / wall:.1f} x real time)"))
    if outcome.formation:
        flown = outcome.formation
        true = flown["true_worst_slot_error_steady_m"]
        judged = (
            f"slot error while the centre moved steadily: at most {flown['estimated']:.2f} m by the "
            f"estimates, {true:.2f} m in truth"
            if math.isfinite(true)
            else "the centre never moved steadily, so no slot error is judged"
        )
        parts.append(Text(f"{judged}; least separation {flown['true_least_separation_m']:.2f} m"))
    if outcome.closest is not None:
        near = outcome.closest
        first, second = (outcome.names[i] for i in near.vehicles)
        parts.append(
            Text(f"nearest two in the air: {first} and {second}, {near.distance:.2f} m at {near.time:.1f} s")
        )
    parts += verdict_lines(outcome.verdict, MOST_LISTED)
    if outcome.collision_count:
        parts.append(Text(f"{outcome.collision_count} collisions", "bold red"))
        for row in outcome.collisions[:MOST_LISTED]:
            pair = " and ".join(outcome.names[i] for i in row["vehicle"].tolist())
            parts.append(Text(f"  {row['time'] * 1e-6:8.1f} s  {pair} at {row['speed']:.1f} m/s", "red"))
    parts.append(Text("Logs", "bold"))
    parts += [Text(f"  {name}: {path}") for name, path in outcome.logs.items()]
    title = headline(
        f"{outcome.name}, {len(outcome.vehicles)} vehicles", verdict_text(outcome.verdict), console.width
    )
    console.print(Panel(Group(*parts), title=title, title_align="left", expand=False))
