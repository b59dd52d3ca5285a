"""What commands print: quiet, verbose, progress on a terminal only, colours, pointers after a failure."""

from __future__ import annotations

import os
import pty
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from support.paths import MISSIONS
from test_cli import run

from sitl_bridge.cli.main import build
from sitl_bridge.cli.terminal import Terminal

LONG = ["fly", "serve", "simulate", "report", "replay", "identify", "export", "campaign run"]


@pytest.mark.parametrize("name", LONG)
def test_long_commands_can_be_quiet_and_verbose(name: str) -> None:
    first, *rest = name.split()
    command: Any = typer.main.get_command(build([first])).commands[first]  # type: ignore[attr-defined]
    if rest:
        command = command.commands[rest[0]]
    options = {text for parameter in command.params for text in parameter.opts}
    assert {"--quiet", "-q", "--verbose", "-v"} <= options


def shown_on_a_terminal(monkeypatch: pytest.MonkeyPatch, **options: bool) -> str:
    """What a step and a coloured line print where stdout is a terminal."""
    reader, writer = pty.openpty()
    with open(writer, "w", encoding="utf-8") as stdout, monkeypatch.context() as patch:  # noqa: PTH123
        patch.setattr(sys, "stdout", stdout)
        patch.setenv("TERM", "xterm-256color")
        terminal = Terminal(**options)
        with terminal.step("reading"):
            pass
        terminal.say("a warning", "yellow")
        terminal.say("the end")
        stdout.flush()
        text = b""
        os.set_blocking(reader, False)
        try:
            while piece := os.read(reader, 65536):
                text += piece
        except BlockingIOError:
            pass
    os.close(reader)
    return text.decode()


def test_progress_and_colours_are_shown_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    text = shown_on_a_terminal(monkeypatch)
    assert "reading" in text
    assert "\x1b[33ma warning" in text


def test_no_color_leaves_colours_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    text = shown_on_a_terminal(monkeypatch)
    assert "reading" in text
    assert "a warning" in text
    assert "\x1b[33m" not in text


def test_a_quiet_terminal_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown_on_a_terminal(monkeypatch, quiet=True) == ""


def test_without_a_terminal_there_is_no_progress(capsys: pytest.CaptureFixture[str]) -> None:
    terminal = Terminal()
    with terminal.step("reading") as change:
        change("half of it")
    terminal.say("done", "green")
    assert capsys.readouterr() == ("done\n", "")


def test_verbose_prints_the_duration_of_each_step(capsys: pytest.CaptureFixture[str]) -> None:
    with Terminal(verbose=True).step("reading"):
        pass
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("reading: 0.0 s")


@pytest.mark.parametrize("quiet", [False, True])
def test_a_failed_run_ends_with_what_to_look_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], quiet: bool
) -> None:
    (tmp_path / "console.log").touch()
    Terminal(quiet=quiet).point_to_run(tmp_path, "the mission ended")
    lines = capsys.readouterr().err.splitlines()
    assert lines[-2:] == [f"look at {tmp_path / 'console.log'}", f"then try: sitl-bridge report {tmp_path}"]
    assert ("failed: the mission ended" in lines) == quiet


def test_a_quiet_simulation_prints_nothing_but_the_pointer_of_a_failed_one(tmp_path: Path) -> None:
    scenario = tmp_path / "swap.yaml"
    text = (MISSIONS / "crossing_pair.yaml").read_text(encoding="utf-8")
    scenario.write_text(text + "\nlimits: {separation: 100.0}\n", encoding="utf-8")
    result = run("simulate", str(scenario), "--quiet", "--runs-dir", str(tmp_path / "runs"))
    assert result.returncode == 1
    assert result.stdout == ""
    assert "then try: sitl-bridge report" in result.stderr
