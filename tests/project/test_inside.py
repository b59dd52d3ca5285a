"""What pages, docstrings and comments say of the package's own files."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.paths import ROOT

FILE = re.compile(r"(?<![\w/{}*.])((?:[\w-]+/)*\w+\.(?:py|js|c))\b")
OTHERS = {
    "FILE.py",  # of a user
    "bagToCsv.py",  # Blackbird
    "coordination/formation_demo/formation_dict.py",  # XTDrone
    "ddsi_endpoint_match.c",  # Cyclone DDS
    "disturbance_eval.py",
    "helpers.py",
    "hovering_eval.py",
    "mavsdk/_legacy.py",
    "metrics.py",  # PX4, Tools/ecl_ekf
    "models.py",  # IDSIA
    "scripts/jinja_gen.py",  # PX4-SITL_gazebo-classic
    "src/lib/version/px_update_git_header.py",  # PX4
    "waypoints_eval.py",
}
"""Files of other programs that our text names.  The evaluations are those of RotorS."""


def own_files() -> set[str]:
    places = ("sitl_bridge", "tests", "scripts", "missions", "airframes", "docs", "docker")
    return {
        f"/{path.relative_to(ROOT).as_posix()}"
        for place in places
        for path in (ROOT / place).rglob("*")
        if path.suffix in (".py", ".js", ".c")
    }


def unknown(text: str, files: set[str]) -> list[str]:
    named = [match[1] for match in FILE.finditer(text)]
    return [name for name in named if not any(file.endswith(f"/{name}") for file in files)]


def prose(path: Path) -> Iterator[str]:
    """Comments and docstrings of a file."""
    reader = io.StringIO(path.read_text(encoding="utf-8")).readline
    for token in tokenize.generate_tokens(reader):
        text = token.string
        is_docstring = token.type == tokenize.STRING and text.lstrip("rf").startswith('"""')
        if is_docstring or token.type == tokenize.COMMENT:
            yield text


def test_files_that_docstrings_and_comments_name_exist() -> None:
    files = own_files()
    missing = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in (ROOT / "sitl_bridge").rglob("*.py")
        for text in prose(path)
        for name in unknown(text, files)
        if name not in OTHERS
    }
    assert sorted(missing) == []


@pytest.mark.parametrize("page", ["inside.md", "lockstep.md", "model.md"])
def test_files_of_the_package_that_a_page_names_exist(page: str) -> None:
    assert unknown((ROOT / "docs" / page).read_text(encoding="utf-8"), own_files()) == []
