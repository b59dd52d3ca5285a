"""The report of a campaign as one HTML file: success rate, measures, failures, scatter plots; and its table.

The table has a row for each run, as CSV and as Parquet.
"""

from __future__ import annotations

import csv
import json
import math
import random
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from sitl_bridge.api.judging import html_page, kind_of, sort_names
from sitl_bridge.base.json_data import JsonObject
from sitl_bridge.base.output_file import whole_file, write_whole
from sitl_bridge.lab.campaign.flight_job import RunRow
from sitl_bridge.lab.campaign.ledger import FOUND, campaign_header, clopper_pearson, is_sample, read_rows

PAGE = "report.html"
MOST_POINTS = 1500
"""Runs in a scatter plot; of more, a random sample."""
MOST_FAILURES = 8
"""Runs of a cluster of failures whose commands are listed."""
WIDTH, HEIGHT, EDGE = 420, 210, 42
"""Of a plot, in pixels."""
BINS = 24


def write_campaign_report(directory: Path) -> Path:
    """Write the page; returns its file.

    Raises:
        UserError: for a directory without a campaign, and for a file that cannot be written.
    """
    header = campaign_header(directory)
    rows = list(read_rows(directory))
    content = "\n".join(_body(directory, header, rows))
    return write_whole(directory / PAGE, html_page(f"campaign {header['name']}", content, ("report.css",)))


def _body(directory: Path, header: JsonObject, rows: Sequence[RunRow]) -> Iterator[str]:
    stages = [stage for stage in header["asked"]["stages"] if any(row.stage == stage for row in rows)]
    yield '<header class="page">'
    for stage in stages:
        yield _verdict(header, stage, [row for row in rows if row.stage == stage])
    yield "</header>"
    yield (
        '<nav><a href="#failures">Failures</a><a href="#measures">Measures</a><a href="#values">Values</a>'
        '<a href="#details">Details</a></nav><main>'
    )
    yield from _findings(directory)
    yield from _agreement(rows)
    yield '<section id="failures"><h2>Failures</h2>'
    yield from _failures(directory, rows)
    yield "</section>"
    flown = [row for row in rows if row.status == "flown" and row.stage == (stages[0] if stages else "")]
    yield '<section id="measures"><h2>Distributions of the measures</h2><div class="grid">'
    yield from _distributions(header, flown)
    yield '</div></section><section id="values"><h2>Values against measures</h2><div class="grid">'
    yield from _scatters(header, flown)
    yield "</div></section>"
    yield f'<section id="details"><h2>Details</h2>{_details(header)}</section></main>'


# -------------------------------------------------------------------------- text


def _verdict(header: JsonObject, stage: str, rows: Sequence[RunRow]) -> str:
    flown = [row for row in rows if row.status == "flown"]
    good, count = sum(row.succeeded for row in flown), len(flown)
    low, high = clopper_pearson(good, count)
    kind = "passed" if good == count and count else "failed" if count else "unknown"
    mark = f"{good / count:.1%}" if count else "no runs"
    stack = "the built-in stack" if stage == "built_in" else "PX4"
    words = f"{good} of {count} flights by {stack} succeeded"
    interval = f"95 % Clopper-Pearson interval of the success rate: {low:.2%} to {high:.2%}"
    if not is_sample(header, stage):
        interval = "these runs were chosen, and do not show how often flights succeed"
    notes = [
        f"<li>{count} runs {what}</li>"
        for what, status in (("made no valid scenario", "invalid"), ("were lost with their workers", "lost"))
        if (count := sum(row.status == status for row in rows))
    ]
    if missed := sum(bool(row.missed_events) for row in flown):
        notes.append(f"<li>{missed} flights had ended before an event (missed_events in the table)</li>")
    return (
        f'<article class="verdict {kind}"><div class="mark">{mark}</div>'
        f"<div><h1>{escape(header['name'])}</h1><p class='what'>{words}; {interval}</p>"
        f'<ul class="notes">{"".join(notes)}</ul></div></article>'
    )


def _findings(directory: Path) -> Iterator[str]:
    file = directory / FOUND
    if not file.is_file():
        return
    found: JsonObject = json.loads(file.read_text(encoding="utf-8"))
    yield f"<section><h2>{escape(found['kind'].replace('_', ' ').capitalize())}</h2>"
    if found["kind"] == "rare_events":
        yield (
            f"<p>Probability of failure {found['probability']:.3g}, 95 % interval {found['low']:.3g} to"
            f" {found['high']:.3g}, from {found['failures']} failures.</p>"
        )
    elif found["kind"] == "sensitivity":
        for measure, indices in found["measures"].items():
            yield f"<h3>{escape(kind_of(measure).title)}</h3>"
            rows = [
                (name, f"{one['first']:.3f}", f"{one['total']:.3f}") for name, one in (indices or {}).items()
            ]
            yield _table(("value", "first-order index", "total index"), rows)
    else:
        values = [(name, str(value)) for name, value in (found.get("values") or {}).items()]
        if found.get("id"):
            yield f"<p>Run <code>{escape(found['id'])}</code>: {_command(directory, found['id'])}</p>"
        yield _table(("value", ""), values)
    yield "</section>"


def _agreement(rows: Sequence[RunRow]) -> Iterator[str]:
    found = agreement(rows)
    if found is None:
        return
    yield f"<section id='agreement'><h2>Agreement of the stages</h2><p>{found.pairs} runs in both.</p>"
    counts = found.confusion
    yield _table(
        ("", "succeeded on PX4", "failed on PX4"),
        [
            ("succeeded on the built-in stack", str(counts[True, True]), str(counts[True, False])),
            ("failed on the built-in stack", str(counts[False, True]), str(counts[False, False])),
        ],
    )
    known = [
        (kind_of(n).title, f"{value:.3f}") for n, value in found.correlations.items() if math.isfinite(value)
    ]
    yield _table(("measure", "correlation"), known) + "</section>"


def cluster_of(row: RunRow) -> str:
    """Return what failures have in common: the reason without its figures."""
    return re.sub(r"\d+(\.\d+)?(e[-+]?\d+)?", "#", row.reason.split(";")[0])


def _failures(directory: Path, rows: Sequence[RunRow]) -> Iterator[str]:
    failed = [row for row in rows if not row.succeeded]
    if not failed:
        yield "<p>None.</p>"
        return
    clusters: dict[tuple[str, str], list[RunRow]] = {}
    for row in failed:
        clusters.setdefault((row.stage, cluster_of(row)), []).append(row)
    for (stage, _), members in sorted(clusters.items(), key=lambda pair: -len(pair[1])):
        reason = Counter(row.reason for row in members).most_common(1)[0][0]
        yield f"<h3>{len(members)} x {escape(reason)} <span class='dim'>{escape(stage)}</span></h3>"
        names = list(members[0].values)
        lines = [
            (row.id, *(_figure(row.values[name]) for name in names), _command(directory, row.id))
            for row in sorted(members, key=lambda row: (math.isnan(row.margin), -row.margin))[:MOST_FAILURES]
        ]
        yield _table(("run", *names, "to fly it again"), lines, safe_last=True)


def _command(directory: Path, run: str) -> str:
    return f"<code>sitl-bridge campaign reproduce {escape(shlex.quote(str(directory)))} {escape(run)}</code>"


def _figure(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], *, safe_last: bool = False) -> str:
    titles = "".join(f"<th>{escape(title)}</th>" for title in head)
    lines = []
    for row in rows:
        cells = [escape(cell) for cell in row]
        if safe_last:
            cells[-1] = row[-1]
        lines.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    head_row, body = f"<thead><tr>{titles}</tr></thead>", "".join(lines)
    return f'<div class="wide"><table>{head_row}<tbody>{body}</tbody></table></div>'


def _details(header: JsonObject) -> str:
    asked = header["asked"]
    rows = [(name, str(text)) for name, text in asked["vary"].items()]
    rows += [(f"limit of {name}", str(limit)) for name, limit in header["limits"].items()]
    rows += [(name, str(asked[name])) for name in ("base", "design", "runs", "seed", "stages")]
    return _table(("", ""), [*rows, ("campaign file", header["file"]), ("version", header["version"])])


# -------------------------------------------------------------------------- plots


def _shown_measures(header: JsonObject, rows: Sequence[RunRow]) -> list[str]:
    """Measures that vary: those with limits first."""
    limited = [name for name, limit in header["limits"].items() if limit is not None]
    known = dict.fromkeys(name for row in rows for name in row.measures)
    others = [name for name in sort_names(known) if name not in limited]
    return [name for name in [*limited, *others] if name in known and len(set(_column(rows, name))) > 1]


def _column(rows: Sequence[RunRow], name: str) -> list[float]:
    return [row.measures[name] for row in rows if math.isfinite(row.measures.get(name, math.nan))]


def _distributions(header: JsonObject, rows: Sequence[RunRow]) -> Iterator[str]:
    for name in _shown_measures(header, rows):
        values = np.array(_column(rows, name))
        counts, edges = np.histogram(values, BINS)
        low, high, tall = float(edges[0]), float(edges[-1]), int(counts.max())
        bars = "".join(
            f'<rect x="{_x(float(a), low, high):.1f}" y="{_y(int(n), 0, tall):.1f}"'
            f' width="{max((WIDTH - 2 * EDGE) / BINS - 1, 1):.1f}"'
            f' height="{HEIGHT - EDGE - _y(int(n), 0, tall):.1f}" fill="var(--c0)"/>'
            for n, a in zip(counts, edges[:-1], strict=True)
        )
        note = f"median {np.median(values):.3g}, 5 to 95 %: {np.quantile(values, 0.05):.3g} to"
        note += f" {np.quantile(values, 0.95):.3g}"
        limit = header["limits"].get(name)
        if limit is not None and low <= limit <= high:
            at = _x(limit, low, high)
            bars += f'<line x1="{at:.1f}" x2="{at:.1f}" y1="8" y2="{HEIGHT - EDGE}" stroke="var(--bad)"/>'
        yield _plot(kind_of(name).title, note, bars, (low, high), (0, tall), kind_of(name).unit)


def _scatters(header: JsonObject, rows: Sequence[RunRow]) -> Iterator[str]:
    """The measures with limits, or the first that varies, over every value that is a number."""
    shown = _shown_measures(header, rows)
    limited = [name for name in shown if header["limits"].get(name) is not None]
    drawn = list(rows) if len(rows) <= MOST_POINTS else random.Random(0).sample(list(rows), MOST_POINTS)
    for measure in limited or shown[:1]:
        kind = kind_of(measure)
        known = [row for row in drawn if math.isfinite(row.measures.get(measure, math.nan))]
        for name in header["asked"]["vary"]:
            points = [row for row in known if isinstance(row.values.get(name), int | float)]
            x = [float(row.values[name]) for row in points]
            if len(set(x)) < 2:  # nothing depends on a value that did not vary
                continue
            y = [row.measures[measure] for row in points]
            bounds, heights = (min(x), max(x)), (min(y), max(y))
            dots = "".join(
                f'<circle cx="{_x(a, *bounds):.1f}" cy="{_y(b, *heights):.1f}" r="2.2" fill="var(--'
                f'{"c2" if row.succeeded else "bad"})" fill-opacity="0.7"/>'
                for row, a, b in zip(points, x, y, strict=True)
            )
            yield _plot(f"{kind.title} over {name}", "", dots, bounds, heights, kind.unit)


def _x(value: float, low: float, high: float) -> float:
    return EDGE + (WIDTH - 2 * EDGE) * ((value - low) / ((high - low) or 1.0))


def _y(value: float, low: float, high: float) -> float:
    return HEIGHT - EDGE - (HEIGHT - EDGE - 10) * ((value - low) / ((high - low) or 1.0))


def axis_ticks(low: float, high: float) -> list[float]:
    """Round values from low to high, four to nine of them."""
    if not high > low:
        return [low]
    raw = (high - low) / 5.0
    power = 10.0 ** math.floor(math.log10(raw))
    step = power * next(m for m in (1.0, 2.0, 5.0, 10.0) if m >= raw / power * 0.999)
    return [k * step for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def _plot(
    title: str, note: str, marks: str, x: tuple[float, float], y: tuple[float, float], unit: str
) -> str:
    base = HEIGHT - EDGE
    across, up = (
        ((value, _x(value, *x)) for value in axis_ticks(*x)),
        ((v, _y(v, *y)) for v in axis_ticks(*y)),
    )
    text = "".join(
        f'<path d="M{at:.1f} {base}v4" stroke="var(--dim)"/>'
        f'<text x="{at:.1f}" y="{base + 16}" text-anchor="middle">{value:.6g}</text>'
        for value, at in across
    )
    text += "".join(
        f'<path d="M{EDGE} {at:.1f}h-4" stroke="var(--dim)"/>'
        f'<text x="{EDGE - 6}" y="{at + 3:.1f}" text-anchor="end">{value:.6g}</text>'
        for value, at in up
    )
    axes = f'<path d="M{EDGE} 8V{base}H{WIDTH - EDGE}" fill="none" stroke="var(--rule)"/>'
    label = f"{title}, {unit}" if unit else title
    return (
        f'<div class="plot"><h3>{escape(label)}</h3><p class="note">{escape(note)}</p>'
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="100%" role="img" aria-label="{escape(label)}"'
        f' font-size="10" fill="var(--dim)">{axes}{marks}{text}</svg></div>'
    )


FEWEST = 3
"""Runs with a measure in both stages from which a correlation is computed."""


@dataclass(frozen=True)
class Agreement:
    """Of the runs that both stages have flown."""

    confusion: dict[tuple[bool, bool], int]  # counts by (succeeded in the first stage, in the second one)
    correlations: dict[str, float]  # Pearson's, by measure; nan for a measure that does not vary
    pairs: int  # runs in both stages


def agreement(rows: Iterable[RunRow]) -> Agreement | None:
    """Compare the stages; None where no run was flown in both."""
    first: dict[tuple[object, ...], RunRow] = {}
    second: dict[tuple[object, ...], RunRow] = {}
    for row in rows:
        if row.status == "flown":
            key = (row.number, row.seed, *row.values.values())
            (first if row.stage == "built_in" else second)[key] = row
    both = [(first[key], row) for key, row in second.items() if key in first]
    if not both:
        return None
    confusion = {(a, b): 0 for a in (True, False) for b in (True, False)}
    for one, other in both:
        confusion[one.succeeded, other.succeeded] += 1
    names = [name for name in both[0][0].measures if any(name in other.measures for _, other in both)]
    return Agreement(confusion, {name: _correlation(both, name) for name in names}, len(both))


def _correlation(both: list[tuple[RunRow, RunRow]], name: str) -> float:
    pairs = [
        (one.measures[name], other.measures[name])
        for one, other in both
        if name in one.measures and name in other.measures
    ]
    a, b = (np.array([pair[i] for pair in pairs if np.isfinite(pair).all()]) for i in (0, 1))
    if len(a) < FEWEST or a.std() == 0.0 or b.std() == 0.0:
        return math.nan
    return float(np.corrcoef(a, b)[0, 1])


CSV, PARQUET = "results.csv", "results.parquet"
FIRST = ("id", "number", "stage", "status", "succeeded", "seed", "weight", "margin", "attempt")
LAST = ("simulated_seconds", "wall_seconds", "reason", "missed_events", "directory")
"""Columns before and after those of values, which are called by their paths, and of measures."""
TEXTS = ("id", "stage", "status", "reason", "missed_events", "directory")
"""Columns that are text whatever is in them."""


def write_tables(directory: Path) -> list[Path]:
    """Write the table as CSV, and as Parquet where pyarrow is installed; returns the files.

    Raises:
        UserError: for a directory without a campaign, and for a file that cannot be written.
    """
    asked = campaign_header(directory)["asked"]
    rows = sorted(read_rows(directory), key=lambda row: (row.stage, row.number))
    measures = sort_names(dict.fromkeys(name for row in rows for name in row.measures))
    columns = dict.fromkeys([*FIRST, *asked["vary"], *measures, *LAST])
    with whole_file(directory / CSV) as place, place.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(columns), extrasaction="ignore")
        writer.writeheader()
        for row in rows:
            cells = {name: getattr(row, name) for name in (*FIRST, *LAST)} | {**row.measures, **row.values}
            unknown = (name for name, cell in cells.items() if isinstance(cell, float) and math.isnan(cell))
            writer.writerow(cells | dict.fromkeys(unknown, ""))
    return [directory / CSV, *([_as_parquet(directory)] if find_spec("pyarrow") is not None else [])]


def _as_parquet(directory: Path) -> Path:
    """Write the CSV file as Parquet, with a type for each column; what is unknown is null."""
    import pyarrow
    from pyarrow import csv as arrow_csv
    from pyarrow import parquet

    options = arrow_csv.ConvertOptions(column_types=dict.fromkeys(TEXTS, pyarrow.string()))
    table = arrow_csv.read_csv(directory / CSV, convert_options=options)
    with whole_file(directory / PARQUET) as place:
        parquet.write_table(table, place)
    return directory / PARQUET
