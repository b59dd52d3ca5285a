"""Commands of this program, run within the tests' process."""

from __future__ import annotations

from typer.testing import CliRunner, Result

from sitl_bridge.cli.main import build


def run_command(*words: str) -> Result:
    """The result of a command: its exit code, its output, and the error that it ended with."""
    return CliRunner().invoke(build(list(words)), list(words))
