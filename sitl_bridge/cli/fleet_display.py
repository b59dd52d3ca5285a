"""Display of a flight of several vehicles: one live line in flight, a table at the end."""

from __future__ import annotations

import math

import numpy as np
from rich.console import Console, Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from sitl_bridge.analysis.report.summary import headline, verdict_lines, verdict_text
from sitl_bridge.analysis.report.vehicle_distances import MIN_FLIGHT_HEIGHT, closest_distance
from sitl_bridge.session.autopilot_choice import BUILTIN
from sitl_bridge.session.fleet_outcome import FleetOutcome, FleetProgress

MOST_LISTED = 8
"""Collisions, reasons and notes that are printed; the others are in the summary."""


def fleet_line(progress: FleetProgress) -> Text:
    """The live line during a flight of several vehicles."""
    server = progress.server
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append(f"{server.time:7.1f} s", "bold")
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


def show_fleet(console: Console, outcome: FleetOutcome) -> None:
    """Print the summary."""
    table = Table.grid(padding=(0, 2))
    for heading in ("vehicle", "airframe", "stack", "in the air", "flown", "highest", "touchdown", "battery"):
        table.add_column(heading)
    table.add_row(*(Text(str(column.header), "bold") for column in table.columns))
    for name, (one, record) in zip(outcome.names, outcome.vehicles, strict=True):
        flew = record is not None and record.air_time > 0
        table.add_row(
            name,
            one.airframe,
            "built-in" if one.flight_stack == BUILTIN else one.flight_stack,
            f"{record.air_time:.1f} s" if flew and record else "-",
            f"{record.distance:.0f} m" if flew and record else "-",
            f"{record.max_height:.1f} m" if flew and record else "-",
            f"{one.impact_speed:.2f} m/s",
            f"{one.battery_used:.0%}" if math.isfinite(one.battery_used) else "-",
        )
    parts: list[Table | Text] = [table]
    simulated, wall = outcome.vehicles[0][0].simulated_seconds, outcome.vehicles[0][0].wall_seconds
    if wall > 0 and math.isfinite(simulated):
        parts.append(Text(f"{simulated:.1f} s in {wall:.1f} s ({simulated / wall:.1f} x real time)"))
    if outcome.formation:
        flown = outcome.formation
        parts.append(
            Text(
                f"slot error while the centre moved steadily: at most {flown['estimated']:.2f} m by the "
                f"estimates, {flown['true_worst_slot_error_steady_m']:.2f} m in truth; "
                f"least separation {flown['true_least_separation_m']:.2f} m"
            )
        )
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
