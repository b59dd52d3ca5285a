"""The exit codes of the program, and their meanings in the documentation."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """How a command ended."""

    SUCCESS = 0
    FAILED = 1
    USER_ERROR = 2
    DEFECT = 70
    """EX_SOFTWARE of sysexits.h."""
    HANGUP = 129
    INTERRUPTED = 130
    TERMINATED = 143


MEANINGS = {
    ExitCode.SUCCESS: "success; of a flight also: every limit was kept",
    ExitCode.FAILED: (
        "a negative result: a flight failed or exceeded a limit, `doctor` found something missing or taken,"
        " `replay` found a difference"
    ),
    ExitCode.USER_ERROR: "an error in the command line or in a file; nothing was started",
    ExitCode.DEFECT: "a defect of the program; `SITL_BRIDGE_TRACEBACK=1` prints where",
    ExitCode.HANGUP: "ended by SIGHUP; everything recorded was saved",
    ExitCode.INTERRUPTED: "ended by Ctrl-C (SIGINT); everything recorded was saved",
    ExitCode.TERMINATED: "ended by SIGTERM; everything recorded was saved",
}
"""By code."""
