"""The directory of a campaign: what was asked, one line for every run that has ended, and the runs kept.

A line is written whole or not at all, so a campaign goes on after any kill.  Only the place of each line
stays in memory.
"""

from __future__ import annotations

import fcntl
import io
import json
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from sitl_bridge import __version__
from sitl_bridge.base.closing import Closing
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.json_data import JsonObject
from sitl_bridge.base.output_file import append_whole, write_json
from sitl_bridge.lab.campaign.file import Keep
from sitl_bridge.lab.campaign.flight_job import Job, RunRow
from sitl_bridge.lab.campaign.space import CampaignSpace

ROWS, CAMPAIGN, FOUND = "rows.jsonl", "campaign.json", "search.json"
FREE = ("keep", "keep_at_most", "stop", "run_limit", "confirm")
"""Fields that may change between two parts of a campaign."""

MOST_BYTES = 1_500_000_000
"""Of failed runs that are kept, beyond which no more are."""


def _size(directory: Path) -> int:
    return sum(file.lstat().st_size for file in directory.rglob("*") if not file.is_dir())


def identity(space: CampaignSpace) -> JsonObject:
    """Description of a campaign in its directory; another campaign has another."""
    asked = space.specification.model_dump(mode="json")
    return {
        "name": space.name,
        "file": str(space.file.resolve()),
        "version": __version__,
        "digest": space.digest,
        "limits": space.limits,
        "asked": {name: value for name, value in asked.items() if name not in FREE},
    }


class Ledger(Closing):
    """The rows of a campaign, on disk.

    Args:
        directory: of the campaign; made where it is missing.
        anew: whether an earlier campaign there is removed.

    Attributes:
        counts: finished runs by (stage, result).
        kept: directories of runs kept.

    Raises:
        UserError: for a directory of another campaign, or one that another process uses.
    """

    def __init__(self, directory: Path, space: CampaignSpace, *, anew: bool = False) -> None:
        self.directory, self._space = directory, space
        try:
            self.runs.mkdir(parents=True, exist_ok=True)
            self._file = io.FileIO(directory / ROWS, "a+")
        except OSError as error:
            raise UserError(f"{directory}: cannot keep a campaign there: {error.strerror}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.close()
            raise UserError(f"{directory}: another process runs this campaign; wait for it") from error
        self._offsets: dict[str, int] = {}
        self._reader: io.BufferedReader | None = None
        self.counts: Counter[tuple[str, str]] = Counter()
        if anew:
            self._clear()
        self._compare()
        shutil.rmtree(self.work, ignore_errors=True)
        self._index()
        self.kept = sum(1 for _ in self.runs.iterdir())
        self._kept_bytes = _size(self.runs)

    @property
    def runs(self) -> Path:
        """Parent of the runs that are kept."""
        return self.directory / "runs"

    @property
    def work(self) -> Path:
        """Parent of the runs in flight."""
        return self.directory / "work"

    @property
    def keep(self) -> Keep:
        """Runs that leave a directory, of those that end from now on."""
        made = self._space.specification
        full = self.kept >= made.keep_at_most or self._kept_bytes >= MOST_BYTES
        return "none" if made.keep == "failures" and full else made.keep

    def _clear(self) -> None:
        self._file.truncate(0)
        for name in (CAMPAIGN, FOUND):
            (self.directory / name).unlink(missing_ok=True)
        shutil.rmtree(self.runs, ignore_errors=True)
        self.runs.mkdir()

    def _compare(self) -> None:
        """Refuse a directory of another campaign."""
        path, mine = self.directory / CAMPAIGN, identity(self._space)
        if not path.is_file():
            write_json(path, mine)
            return
        before = json.loads(path.read_text(encoding="utf-8"))
        changed = [name for name, value in mine.items() if before.get(name) != json.loads(json.dumps(value))]
        if changed:
            self._file.close()
            what = {"digest": "the program, or the scenario and its files", "asked": "the campaign file"}
            words = ", ".join(what.get(name, name) for name in changed)
            raise UserError(
                f"{self.directory}: holds runs of another campaign: {words} changed since; give --out another"
                " directory, or --anew to remove them"
            )

    def _index(self) -> None:
        """Read which runs have ended; a line that was cut off is removed."""
        self._file.seek(0)
        at = 0
        for line in io.BufferedReader(io.FileIO(self._file.fileno(), closefd=False)):
            if not line.endswith(b"\n"):
                break
            self._count(RunRow.of_data(json.loads(line)), at)
            at += len(line)
        self._file.truncate(at)

    def _count(self, row: RunRow, at: int) -> None:
        self._offsets[row.id] = at
        self.counts[row.stage, row.result] += 1

    def __contains__(self, run: str) -> bool:
        return run in self._offsets

    def __len__(self) -> int:
        return len(self._offsets)

    def row(self, run: str) -> RunRow:
        """The row of a run."""
        if self._reader is None:
            self._reader = (self.directory / ROWS).open("rb")
        self._reader.seek(self._offsets[run])
        return RunRow.of_data(json.loads(self._reader.readline()))

    def add(self, job: Job, row: RunRow) -> RunRow:
        """Keep a row, and the run's directory where it is wanted; returns the row as kept."""
        wanted = self.keep == "all" or (self.keep == "failures" and not row.succeeded)
        directory = ""
        if row.directory and wanted:
            place = self.runs / row.id
            if not place.exists():
                Path(row.directory).rename(place)
                self.kept += 1
                self._kept_bytes += _size(place)
            directory = str(place.relative_to(self.directory))
        if job.work.exists():
            shutil.rmtree(job.work, ignore_errors=True)
        data = row.as_data() | {"directory": directory}
        at = self._file.seek(0, io.SEEK_END)
        try:
            append_whole(self._file, json.dumps(data).encode() + b"\n")
        except OSError as error:
            raise UserError(
                f"{self.directory / ROWS}: {error.strerror}; make room and run the campaign again"
            ) from error
        row = RunRow.of_data(data)
        self._count(row, at)
        return row

    def close(self) -> None:
        """Let others have it; safe to call twice."""
        shutil.rmtree(self.work, ignore_errors=True)
        if self._reader is not None:
            self._reader.close()
        self._file.close()


def read_rows(directory: Path) -> Iterator[RunRow]:
    """The rows of a campaign, in the order in which runs ended.

    Raises:
        UserError: for a directory without a campaign.
    """
    with _part(directory, ROWS).open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield RunRow.of_data(json.loads(line))


def campaign_header(directory: Path) -> JsonObject:
    """Read the description of a campaign in its directory.

    Raises:
        UserError: for a directory without a campaign.
    """
    found: JsonObject = json.loads(_part(directory, CAMPAIGN).read_text(encoding="utf-8"))
    return found


def _part(directory: Path, name: str) -> Path:
    path = directory / name
    if not path.is_file():
        raise UserError(f"{directory}: holds no campaign; give the directory that `campaign run` printed")
    return path


def is_sample(header: JsonObject, stage: str) -> bool:
    """Whether a stage's runs were drawn from the distributions, so that they show how often flights succeed.

    Those of a search, of a grid and of the second stage were chosen.
    """
    asked = header["asked"]
    return bool(stage == asked["stages"][0] and asked["search"] is None and asked["design"] != "grid")


def clopper_pearson(count: int, total: int) -> tuple[float, float]:
    """The exact 95 % interval of a rate (Clopper and Pearson 1934), (0, 1) without trials.

    Args:
        count: successes.
        total: trials.
    """
    from scipy.special import betaincinv  # loads slowly

    tail = 0.5 * (1.0 - 0.95)
    low = 0.0 if count == 0 else float(betaincinv(count, total - count + 1, tail))
    high = 1.0 if count == total else float(betaincinv(count + 1, total - count, 1.0 - tail))
    return low, high
