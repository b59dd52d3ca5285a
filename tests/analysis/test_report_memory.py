"""The memory that a report takes does not grow with the files of a long flight."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support import run_directories
from support.run_directories import make_run

REPORT = """
import resource, sys
from pathlib import Path
from sitl_bridge.analysis.report.report_page import write_report
from sitl_bridge.analysis.report.reported_run import report
from sitl_bridge.analysis.evaluation.run_record import read_run
write_report(report([read_run(Path(sys.argv[1]))]), Path(sys.argv[1]) / "report.html")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


def peak(run: Path) -> int:
    """Bytes of memory that the report of a run takes at most."""
    command = [sys.executable, "-c", REPORT, str(run)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.slow
def test_a_long_flight_takes_little_more_memory_than_a_short_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = make_run(tmp_path / "short")
    monkeypatch.setattr(run_directories, "LANDING", 1798.0)
    monkeypatch.setattr(run_directories, "END", 1800.0)
    long = make_run(tmp_path / "long")
    size = (long / "truth.npy").stat().st_size
    assert size > 70e6
    # 116 MB more before the log was read in blocks and the plots were thinned one by one; 7 MB then.
    assert peak(long) - peak(short) < 0.4 * size
