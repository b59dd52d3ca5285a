"""The summary after a flight: what was flown, how closely, what went wrong, where the logs are.

Combines the figures of ``ulog_analysis.py`` with those of the simulation in one table of plain values
(``summary.json``) and a text for the terminal.  The picture is in ``plot_flight.py``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from sitl_bridge.analysis.report.flight_record import Deviation, FlightRecord
from sitl_bridge.analysis.report.object_contacts import ObjectContact, contact_values
from sitl_bridge.analysis.report.verdict import FAILED, INTERRUPTED, SUCCEEDED, UNKNOWN, Verdict
from sitl_bridge.base.output_file import write_whole
from sitl_bridge.link.px4.event_catalogue import LEVELS, WARNING
from sitl_bridge.link.px4.vehicle_status import VehicleMessage

EXPECTED_MESSAGES = ("arming warning", "request past EOF")
"""Texts that PX4 logs at each arming (name of a tune) and at the end of each file that a partner reads."""


LINK_WAIT = "poll timeout"
"""Text of PX4's simulator link that waited for a frame (SimulatorMavlink.cpp); PX4's time stands still."""
LINK_WAIT_NOTE = (
    " (PX4 waited over a second for the simulation: a busy machine, or a pause; its time stood still)"
)

FRAME = 8
"""Characters of a box's title line outside the title, with a margin."""

WAITING = "Preflight Fail"
"""Text that PX4 repeats while its sensors start; the mission reports if that lasts."""


@dataclass(frozen=True)
class Outcome:
    """Result of a vehicle's flight as known to the simulation.

    Attributes:
        mission: name of the mission as given by the user.
        airframe: its name.
        succeeded: whether the mission succeeded; of a single vehicle that was judged, whether the flight did.
        reason: of a failure; empty on success.
        flight_stack: the flight stack.
        seed: of the run.
        simulated_seconds, wall_seconds: duration.
        impact_speed: largest closing speed of a new ground contact, m/s; nan if unknown.
        vortex_ring_seconds: time with a rotor in its vortex ring state, s.
        battery_used: share of the charge, nan if unknown.
        logs: paths by name of the log.
        link_faults: faulty messages of the flight stack on the simulator link, counts by kind
            (hil/link_errors).
        contacts: contacts with objects of the scene.
        partial: whether the recording ended before the flight did.
    """

    mission: str
    airframe: str
    succeeded: bool
    reason: str = ""
    flight_stack: str = "PX4"
    seed: int = 0
    simulated_seconds: float = math.nan
    wall_seconds: float = math.nan
    impact_speed: float = math.nan
    vortex_ring_seconds: float = 0.0
    battery_used: float = math.nan
    logs: dict[str, Path] = field(default_factory=dict)
    link_faults: dict[str, int] = field(default_factory=dict)
    contacts: tuple[ObjectContact, ...] = ()
    partial: bool = False


def warnings_of(
    record: FlightRecord | None, messages: Iterable[VehicleMessage]
) -> list[tuple[float, str, str]]:
    """Return (s, level, text) of PX4's warnings and errors from its log and its link, each once, in order."""
    found = [(m.time, m.level, m.text) for m in messages]
    if record is not None:
        found += [(t, level, text.split("] ", 1)[-1]) for t, level, text in record.messages]
    seen: set[tuple[str, int]] = set()
    kept = []
    for time, level, text in sorted(found, key=lambda entry: (math.isnan(entry[0]), entry[0])):
        if level > WARNING or text in EXPECTED_MESSAGES or text.startswith(WAITING):
            continue
        # The same text within some seconds came from both sources.
        mark = (text, 0 if math.isnan(time) else int(time // 5.0))
        if mark in seen or (mark[0], mark[1] - 1) in seen:
            continue
        seen.add(mark)
        kept.append((time, LEVELS[level], text + LINK_WAIT_NOTE * text.startswith(LINK_WAIT)))
    return kept


def summarise(
    outcome: Outcome, record: FlightRecord | None, messages: Iterable[VehicleMessage]
) -> dict[str, Any]:
    """A vehicle's values for ``summary.json``, without the verdict."""
    summary: dict[str, Any] = {
        "mission": outcome.mission,
        "airframe": outcome.airframe,
        "flight_stack": outcome.flight_stack,
        "reason": outcome.reason,
        "partial": outcome.partial,
        "seed": outcome.seed,
        "simulated_seconds": outcome.simulated_seconds,
        "wall_seconds": outcome.wall_seconds,
        "impact_speed": outcome.impact_speed,
        "vortex_ring_seconds": outcome.vortex_ring_seconds,
        "battery_used": outcome.battery_used,
        "link_faults": outcome.link_faults,
        "contacts": [contact_values(one) for one in outcome.contacts],
        "warnings": [
            {"time": time, "level": level, "text": text}
            for time, level, text in warnings_of(record, messages)
        ],
        "logs": {name: str(path) for name, path in outcome.logs.items()},
    }
    if record is not None:
        summary["flight"] = {
            "take_off": record.take_off,
            "landing": record.landing,
            "air_time": record.air_time,
            "distance": record.distance,
            "max_speed": record.max_speed,
            "max_height": record.max_height,
            "modes": [{"mode": mode, "seconds": seconds} for mode, seconds in record.modes],
            "deviations": {name: asdict(d) for name, d in record.deviations.items()},
            "true_deviations": {name: asdict(d) for name, d in record.true_deviations.items()},
            "estimate_error": asdict(record.estimate_error) if record.estimate_error else None,
            "estimators": [asdict(estimator) for estimator in record.estimators],
            "failsafes": record.failsafes,
            "vibration": record.vibration,
        }
    return summary


def whole_summary(name: str, vehicles: Mapping[str, dict[str, Any]], **facts: Any) -> dict[str, Any]:
    """The content of ``summary.json`` but for the verdict, as plain values.

    Args:
        name: of the flight.
        vehicles: what ``summarise`` gives, by name; of several vehicles it stands under their names.
        facts: of the whole flight, such as the reason of a failure.
    """
    if len(vehicles) == 1:
        found: dict[str, Any] = plain_values(next(iter(vehicles.values())) | facts)
        return found
    return dict(plain_values({"name": name, **facts, "vehicles": dict(vehicles)}))


def write_json(summary: dict[str, Any], path: Path) -> None:
    """Write a summary; values that are not finite become null in JSON.

    Raises:
        UserError: if it cannot be written.
    """
    write_whole(path, json.dumps(plain_values(summary), indent=2, ensure_ascii=False) + "\n")


def plain_values(value: Any) -> Any:
    """A value as JSON gives it back: what is not finite is None, and tuples are lists."""
    if isinstance(value, dict):
        return {key: plain_values(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain_values(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


# -------------------------------------------------------------------------- text


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
    parts: list[Any] = [_figures(outcome, record), *verdict_lines(verdict)]
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


def _figures(outcome: Outcome, record: FlightRecord | None) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold")
    table.add_column()
    if record is not None and record.air_time > 0:
        table.add_row(
            "Flown",
            f"{record.air_time:.1f} s in the air, {record.distance:.0f} m, up to {record.max_speed:.1f} m/s "
            f"and {record.max_height:.1f} m high",
        )
        table.add_row("Modes", ", ".join(f"{mode} {seconds:.0f} s" for mode, seconds in record.modes))
        for name, deviation in record.deviations.items():
            true = record.true_deviations.get(name)
            unit = "m/s" if name.endswith("velocity") else "m"
            table.add_row(f"Off {name}", _deviation_words(deviation, true, unit))
        if record.estimate_error is not None:
            error = record.estimate_error
            table.add_row("Estimate error", f"RMS {error.rms:.2f} m, at most {error.max:.2f} m")
        table.add_row("Estimator", _estimator_words(record))
    else:
        table.add_row("Flown", "it never left the ground")
    if math.isfinite(outcome.impact_speed):
        table.add_row("Touchdown", f"{outcome.impact_speed:.2f} m/s")
    if outcome.vortex_ring_seconds > 0.0:
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
