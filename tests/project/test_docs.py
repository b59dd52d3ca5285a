"""What the documentation shows works: its files are valid, its programs run, its command lines exist."""

from __future__ import annotations

import contextlib
import inspect
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, get_args
from unittest.mock import create_autospec

import pytest
import typer
from support.commands import run_command
from support.docs_pages import (
    NAMES,
    PAGES,
    blocks,
    command_lines,
    paths,
    run_commands,
    shown_commands,
    write_files,
)
from support.paths import DOCS, MISSIONS, ROOT
from support.programs import load_program

import sitl_bridge as sb
from sitl_bridge.cli.main import COMMANDS, build, with_values
from sitl_bridge.cli.schema import FileKind, file_schema
from sitl_bridge.lab.environments.stack import StackEnvironment
from sitl_bridge.session.served import ServedSimulation

NAMED = list(zip(NAMES, PAGES, strict=True))
FLIGHT_TESTS = DOCS / "how-to" / "flight-tests.md"


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_files_that_a_page_links_to_are_in_the_checkout(page: Path) -> None:
    text = re.sub(r"`[^`]*`", "", page.read_text(encoding="utf-8"))
    targets = [found.partition("#")[0] for found in re.findall(r"\]\(([^)\s]+)\)", text)]
    inside = [target for target in targets if target and "://" not in target]
    assert [target for target in inside if not (page.parent / target).exists()] == []


def test_the_pages_of_the_reference_are_what_the_code_says() -> None:
    pages = load_program(ROOT / "scripts" / "docs_reference.py").pages()
    outdated = [path.name for path, text in pages.items() if path.read_text(encoding="utf-8") != text]
    assert outdated == [], "run scripts/docs_reference.py"


@pytest.mark.parametrize("kind", get_args(FileKind))
def test_the_reference_has_every_field_of_a_schema(kind: FileKind) -> None:
    page = (DOCS / "reference" / f"{kind}-file.md").read_text(encoding="utf-8")
    assert [name for name in file_schema(kind)["properties"] if f"\n| `{name}` |" not in page] == []


def fly_the_flight_tests_of_the_page(tmp_path: Path, *options: str) -> None:
    """Run every test that the page shows, each in a file of its own, without the page's conftest.py."""
    tests = [b.text for b in blocks(FLIGHT_TESTS) if b.language == "python" and "def test_" in b.text]
    assert len(tests) == 3
    for i, text in enumerate(tests):
        (tmp_path / f"test_{i}.py").write_text(text, encoding="utf-8")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "sitl_bridge.testing.pytest_plugin",
            "-q",
            *options,
            str(tmp_path),
        ],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert "5 passed" in done.stdout


def test_the_flight_tests_of_the_page_pass_on_the_built_in_stack(tmp_path: Path) -> None:
    fly_the_flight_tests_of_the_page(tmp_path)


@pytest.mark.px4
def test_the_flight_tests_of_the_page_pass_on_px4(tmp_path: Path) -> None:
    fly_the_flight_tests_of_the_page(tmp_path, "--sitl-autopilot", "px4")


@pytest.mark.parametrize(("name", "page"), [p for p in NAMED if run_commands(p[1])])
def test_a_pages_files_pass_the_commands_that_it_gives(
    name: str, page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(page, tmp_path)
    shutil.copytree(MISSIONS, tmp_path / "missions", dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    for words in run_commands(page):
        if words[0] == "fly" and "--speed" not in words:
            words += ["--speed", "max"]
        result = run_command(*words)
        assert result.exit_code == 0, (name, words, result.output, result.exception)


@pytest.mark.parametrize(
    ("name", "page"), [p for p in NAMED if any(b.language == "python" for b in blocks(p[1]))]
)
def test_a_pages_programs_run(name: str, page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(page, tmp_path)
    monkeypatch.chdir(tmp_path)
    module = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)
    for flight in ("fly", "serve"):
        monkeypatch.setattr(sb, flight, _stand_in(getattr(sb, flight), tmp_path))
    monkeypatch.setattr(sb.learning, "StackEnvironment", _stack_environment)
    for block in blocks(page):
        if block.language == "python":
            exec(compile(block.text, block.title or name, "exec"), vars(module))


def _stack_environment(*arguments: Any, **options: Any) -> Any:
    """Takes the arguments of ``sb.learning.StackEnvironment`` without a flight stack."""
    inspect.signature(StackEnvironment).bind(*arguments, **options)
    stand_in = create_autospec(StackEnvironment, instance=True)
    stand_in.reset.return_value = (None, {})
    stand_in.step.return_value = (None, 0.0, False, False, {})
    return stand_in


def _stand_in(function: Callable[..., Any], directory: Path) -> Callable[..., Any]:
    """Takes the arguments of ``sb.fly`` or ``sb.serve`` without a flight; one step is its truth."""

    def call(*arguments: Any, **options: Any) -> Any:
        inspect.signature(function).bind(*arguments, **options)
        if function.__name__ == "serve":
            return contextlib.nullcontext(create_autospec(ServedSimulation, instance=True))
        assert (ROOT / str(arguments[0])).is_file()
        flown = sb.Simulation("iris")
        with flown.record(directory / "truth.npy"):
            flown.step(flown.hover_controls)
        return sb.FlightResult(True, "", ("0",), directory, {})

    return call


@pytest.mark.parametrize(("name", "page"), [p for p in NAMED if shown_commands(p[1])])
def test_commands_and_options_that_a_page_shows_exist(name: str, page: Path) -> None:
    for words in shown_commands(page):
        if words[0].startswith("-"):
            continue
        assert words[0] in COMMANDS, (name, words)
        command: Any = typer.main.get_command(build(words[:1])).commands[words[0]]  # type: ignore[attr-defined]
        if not command.ignore_unknown_options:
            command.make_context(words[0], with_values(words[1:]))  # fails for an option that does not exist


READERS = ("PX4 developer", "Researcher", "Test engineer", "Swarm developer", "Teacher")


def test_docs_check_runs_every_line_of_the_five_paths() -> None:
    found = paths()
    assert tuple(found) == READERS
    run = command_lines(DOCS / "index.md")
    for reader, lines in found.items():
        assert len(lines) > 2, reader
        assert [line for line in lines if line not in run] == []
        assert [line for line in lines for part in docs_check().SKIPPED if part in line] == []


def docs_check() -> Any:
    """``scripts/docs_check.py``."""
    return load_program(ROOT / "scripts" / "docs_check.py")
