"""The text of a report in HTML: verdict, figures, measures, events, configuration.  All text is escaped."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

import numpy as np

from sitl_bridge.analysis.evaluation.flight_record import FIGURES
from sitl_bridge.analysis.evaluation.measures import KINDS, Measure, MeasureKind
from sitl_bridge.analysis.evaluation.run_record import RunRecord
from sitl_bridge.analysis.evaluation.verdict import FAILED, INTERRUPTED, SUCCEEDED, UNKNOWN
from sitl_bridge.analysis.report.reported_run import Reported

VERDICTS = {
    SUCCEEDED: ("passed", "\N{HEAVY CHECK MARK}"),
    FAILED: ("failed", "\N{HEAVY BALLOT X}"),
    INTERRUPTED: ("unknown", "\N{BLACK SQUARE FOR STOP}"),
    UNKNOWN: ("unknown", "\N{WHITE QUESTION MARK ORNAMENT}"),
}
"""Style and sign of each verdict."""
KEPT = {True: ("passed", "\N{HEAVY CHECK MARK}", "kept"), False: ("failed", "\N{HEAVY BALLOT X}", "exceeded")}
"""Style, sign and word of a measure that keeps its limit, and of one that does not."""
MOST_EVENTS = 300
"""Rows of the list of events."""


def body(reported: Sequence[Reported]) -> str:
    """The page's body without its data and scripts."""
    several = len(reported) > 1
    parts = ['<header class="page">', *(_verdict(one) for one in reported), "</header>"]
    parts.append(
        '<nav><a href="#flight">Flight</a><a href="#time">Over time</a><a href="#measures">Measures</a>'
        '<a href="#events">Events</a><a href="#details">Details</a></nav><main>'
    )
    parts.append("<noscript><p>The map, the 3-D view and the curves need JavaScript.</p></noscript>")
    parts.append('<section id="flight"><h2>Flight</h2><div id="views"></div></section>')
    parts.append('<section id="time"><h2>Over time</h2><div id="curves"></div></section>')
    parts.append(f'<section id="measures"><h2>Measures</h2>{_measures(reported)}</section>')
    parts.append('<section id="events"><h2>Events</h2>')
    parts += [_events(one, several) for one in reported]
    parts.append("</section>")
    if any(one.pictures for one in reported):
        parts.append('<section id="pictures"><h2>Pictures</h2>')
        parts += [_pictures(one, several) for one in reported]
        parts.append("</section>")
    parts.append('<section id="details"><h2>Details</h2>')
    parts += [_details(one, several) for one in reported]
    parts.append("</section></main>")
    return "\n".join(parts)


def _pictures(one: Reported, several: bool) -> str:
    """The pictures of a run's cameras; each names its camera and its time."""
    label = f"<h3>{escape(one.label)}</h3>" if several and one.pictures else ""
    figures = "".join(
        f'<figure><img alt="{escape(p.camera)} at {p.time:.1f} s" src="data:image/jpeg;base64,{p.data}">'
        f"<figcaption>{escape(p.camera)}, {p.time:.1f} s</figcaption></figure>"
        for p in one.pictures
    )
    return f'{label}<div class="pictures">{figures}</div>'


# -------------------------------------------------------------------------- verdict


def _verdict(one: Reported) -> str:
    run = one.run
    verdict = one.verdict
    kind, sign = VERDICTS.get(verdict.word, VERDICTS[UNKNOWN])
    word = "Incomplete" if run.partial and verdict.word == UNKNOWN else verdict.word.capitalize()
    name = Path(run.name).name if Path(run.name).is_absolute() else run.name
    judged = f" \N{MIDDLE DOT} {verdict.origin}" if verdict.origin else ""
    return "\n".join(
        [
            f'<article class="verdict {kind}"><div class="mark">',
            f'<span aria-hidden="true">{sign}</span> {escape(word)}</div>',
            f"<div><h1>{escape(name)}</h1><p class='what'>{escape(describe_flight(run) + judged)}</p>",
            _list("reasons", verdict.reasons),
            _list("notes", one.notes),
            f"</div>{_facts(one)}</article>",
        ]
    )


def describe_flight(run: RunRecord) -> str:
    """Vehicles, flight stack and date in one line."""
    airframes = list(dict.fromkeys(v.airframe for v in run.vehicles if v.airframe))
    count = len(run.vehicles)
    vehicles = f"{count} vehicles" if count > 1 else "1 vehicle"
    if not run.vehicles and run.tracks is not None and "position" in run.tracks:
        vehicles = f"{run.tracks['position'].shape[1]} vehicles, simulated"
    words = [vehicles + (f" ({', '.join(airframes)})" if airframes else "")]
    words += [f"flown by {run.stack}"] if run.stack else []
    wind = wind_words(run)
    words += [wind] if wind else []
    words += (
        [str(run.run["started"]).replace("T", " ").replace("+00:00", " UTC")]
        if run.run.get("started")
        else []
    )
    words += [f"seed {run.run['seed']}"] if "seed" in run.run else []
    return " \N{MIDDLE DOT} ".join([*words, run.path.name])


def wind_words(run: RunRecord) -> str:
    """The wind of the run's world in a few words; empty where it is not known."""
    world = run.run.get("world")
    if not isinstance(world, dict):
        return ""
    wind = world.get("wind")
    wind = wind if isinstance(wind, dict) else {}
    words = []
    for name, where in (("steady", ""), ("log_profile", " near the ground")):
        part = wind.get(name)
        if isinstance(part, dict) and part.get("speed"):
            words.append(f"wind {part['speed']:g} m/s from {part.get('direction') or 0.0:g} deg{where}")
    turbulence = wind.get("turbulence")
    if turbulence:
        words.append(f"{turbulence} turbulence" if isinstance(turbulence, str) else "turbulence")
    words += ["gusts"] if wind.get("gusts") else []
    words += ["recorded wind"] if wind.get("series") else []
    words += ["wind of your own"] if wind.get("custom") else []
    return ", ".join(words) or "calm air"


def _speed_words(speed: object) -> str:
    if str(speed) in ("inf", "Infinity", "max"):
        return "as fast as possible"
    return f"{speed} x real time"


def _list(kind: str, lines: Iterable[str]) -> str:
    parts = [line.partition("\n") for line in lines]  # a process's last lines follow their sentence
    items = "".join(
        f"<li>{escape(head)}{f'<pre>{escape(more)}</pre>' if more else ''}</li>" for head, _, more in parts
    )
    return f'<ul class="{kind}">{items}</ul>' if items else ""


def _facts(one: Reported) -> str:
    flown = [(v.figures, None if v.record is None else v.record.figures) for v in one.run.vehicles]
    flown = [(true, own) for true, own in flown if max(true.air_time, own.air_time if own else 0.0) > 0]
    facts: list[tuple[str, str]] = []
    for figure, title in zip(FIGURES, ("in the air", "flown", "fastest", "highest"), strict=True):
        if flown:
            true, own = max(flown, key=lambda pair: max(getattr(f, figure) for f in pair if f))
            facts.append((title, true.in_words(figure, own)))
    kept = [m for m in one.verdict.measures if m.passed is not None]
    if kept:
        facts.append(("limits kept", f"{sum(m.passed is True for m in kept)} of {len(kept)}"))
    cells = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in facts)
    return f"<dl class='facts'>{cells}</dl>" if cells else ""


# -------------------------------------------------------------------------- measures


def _measures(reported: Sequence[Reported]) -> str:
    several = len(reported) > 1
    head = "<th>Measure</th><th>Limit</th>" + "".join(
        f"<th>{escape(one.label) if several else 'Value'}</th>" for one in reported
    )
    rows = []
    for name, kind in _kinds(reported).items():
        groups = [[m for m in one.verdict.measures if m.kind.name == name] for one in reported]
        known = [m for group in groups for m in group]
        if not known:
            continue
        cells = "".join(f"<td>{_worst_cell(group)}</td>" for group in groups)
        rows.append(
            f"<tr><th scope='row'>{escape(kind.title)} <code>{name}</code></th>"
            f"<td>{_limit(known[0])}</td>{cells}</tr>"
        )
    if not rows:
        return "<p>Nothing could be measured.</p>"
    hint = (
        "<p class='hint'>Set a limit by its name: <code>sitl-bridge report RUN --limit NAME=VALUE</code>,"
        " a file of limits, or <code>limits:</code> in a scenario.</p>"
    )
    return hint + _table(head, "".join(rows)) + "".join(_per_vehicle(one) for one in reported)


def _kinds(reported: Sequence[Reported]) -> dict[str, MeasureKind]:
    """Kinds of measures, those of users last."""
    return {**KINDS, **{m.kind.name: m.kind for one in reported for m in one.verdict.measures}}


def _table(head: str, rows: str, kind: str = "wide") -> str:
    return f"<div class='{kind}'><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"


def _limit(one: Measure) -> str:
    if one.limit is None:
        return '<span class="dim">none</span>'
    sign = "\N{GREATER-THAN OR EQUAL TO}" if one.kind.at_least else "\N{LESS-THAN OR EQUAL TO}"
    source = "set by you" if one.set_by_user else one.kind.source
    bound = f"{sign}\N{NO-BREAK SPACE}{one.limit:g} {escape(one.kind.unit)}"
    return f'{bound}<span class="dim"> {escape(source)}</span>'


def _worst_cell(group: Sequence[Measure]) -> str:
    if not group:
        return '<span class="dim">\N{EM DASH}</span>'
    worst = (min if group[0].kind.at_least else max)(group, key=lambda m: m.value)
    text = _value(worst)
    if len(group) > 1:
        values = [m.value for m in group]
        text += f'<span class="dim"> worst: {escape(worst.vehicle)}, median {np.median(values):.3g}</span>'
    return text


def _value(one: Measure) -> str:
    number = f"{one.value:.3g}" if math.isfinite(one.value) else "never"
    text = f"{number}\N{NO-BREAK SPACE}{escape(one.kind.unit)}"
    if one.passed is None:
        return text
    kind, sign, word = KEPT[one.passed]
    return f'<span class="{kind}"><span role="img" aria-label="{word}">{sign}</span> {text}</span>'


def _per_vehicle(one: Reported) -> str:
    names = list(dict.fromkeys(m.vehicle for m in one.verdict.measures if m.vehicle))
    if not names:
        return ""
    by_key = {(m.vehicle, m.kind.name): m for m in one.verdict.measures}
    known = _kinds([one])
    kinds = [n for n in known if any((name, n) in by_key for name in names)]
    head = "<th>Vehicle</th>" + "".join(f"<th>{escape(known[kind].title)}</th>" for kind in kinds)
    rows = []
    for name in names:
        found = [by_key.get((name, kind)) for kind in kinds]
        cells = "".join(f"<td>{'' if m is None else _value(m)}</td>" for m in found)
        rows.append(f"<tr><th scope='row'>{escape(name)}</th>{cells}</tr>")
    summary = f"Measures of each vehicle of {escape(one.label)}"
    return f"<details><summary>{summary}</summary>{_table(head, ''.join(rows))}</details>"


# -------------------------------------------------------------------------- events and details


def _events(one: Reported, several: bool) -> str:
    shown = [e for e in one.events if e.lane not in ("armed", "in the air")]
    # What was injected and what failed comes before routine messages where there is not room for all.
    if len(shown) > MOST_EVENTS:
        shown = [e for e in shown if e.lane != "message" or e.level != "info"][:MOST_EVENTS]
    rows = ""
    for e in shown:
        lasts = f"{e.end - e.begin:.1f}" if e.end > e.begin else ""
        cells = (f"{e.begin:.1f}", lasts, escape(e.vehicle), escape(e.lane), escape(e.text))
        rows += f'<tr class="{e.level}">' + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"
    title = f"<h3>{escape(one.label)}</h3>" if several else ""
    if not rows:
        return f"{title}<p>No events were recorded.</p>"
    names = ("Time, s", "Lasts, s", "Vehicle", "Kind", "Event")
    return title + _table("".join(f"<th>{name}</th>" for name in names), rows, "wide tall")


def _details(one: Reported, several: bool) -> str:
    run = one.run
    rows: list[tuple[str, object]] = [("directory", run.path)]
    command = run.run.get("command")
    if isinstance(command, list):
        rows.append(("command", " ".join(str(word) for word in command)))
    rows += [("flight stack", run.stack)] if run.stack else []
    rows += [("speed", _speed_words(run.run["speed"]))] if "speed" in run.run else []
    for key in ("machine", "versions"):
        if key in run.run:
            value = run.run[key]
            rows.append(
                (key, ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else value)
            )
    world = run.run.get("world")
    if isinstance(world, dict):
        rows += [
            ("origin", _format_settings(world.get("origin"))),
            ("wind", _format_settings(world.get("wind")) or "calm"),
        ]
    rows += [
        (f"flight log of {vehicle.name}", vehicle.record.path)
        for vehicle in run.vehicles
        if vehicle.record is not None
    ][:12]
    for vehicle in run.vehicles[:12]:
        for estimator in () if vehicle.record is None else vehicle.record.estimators:
            for text in (*estimator.failures, *estimator.warnings):
                rows.append((f"estimator {estimator.instance} of {vehicle.name}", text))
    cells = "".join(f"<tr><th scope='row'>{escape(k)}</th><td>{escape(str(v))}</td></tr>" for k, v in rows)
    title = f"<h3>{escape(one.label)}</h3>" if several else ""
    return f"{title}<div class='wide'><table class='details'>{cells}</table></div>"


def _format_settings(value: object) -> str:
    """Settings in words; what is not set is left out."""
    if not isinstance(value, dict):
        return "" if value is None else str(value)
    words = []
    for key, entry in value.items():
        if entry is None or entry == []:
            continue
        words.append(f"{key} ({_format_settings(entry)})" if isinstance(entry, dict) else f"{key} {entry}")
    return ", ".join(words)
