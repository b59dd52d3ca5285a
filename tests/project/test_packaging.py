"""The wheel: what it holds, that it needs no compiler, and that it flies where only it is installed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.paths import DOCS, ROOT

from sitl_bridge.cli.main import COMMANDS, module

SOURCES = ("sitl_bridge", "airframes", "missions", "pyproject.toml", "README.md", "LICENSE")
WORKFLOWS = ROOT / ".github" / "workflows"
BUILD = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"


def project() -> dict[str, Any]:
    """The table of the project in pyproject.toml."""
    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return table


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this tree, built from a copy, so that the tree stays clean."""
    source, made = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, source)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run(
        [sys.executable, "-c", BUILD, str(made)],
        cwd=source, env=environment, check=True, capture_output=True, timeout=200,
    )  # fmt: skip
    (built,) = made.glob("*.whl")
    return built


def installed_name(path: Path) -> str:
    """Where a file of the tree lies in the wheel."""
    relative = path.relative_to(ROOT)
    return relative.as_posix() if relative.parts[0] == "sitl_bridge" else f"sitl_bridge/{relative.as_posix()}"


def test_the_wheel_holds_every_source_airframe_mission_and_world_and_nothing_else(wheel: Path) -> None:
    wanted = {
        installed_name(path)
        for folder in ("sitl_bridge", "airframes", "missions")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(wheel) as archive:
        found = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert found == wanted
    assert {
        "sitl_bridge/py.typed",
        "sitl_bridge/airframes/iris.yaml",
        "sitl_bridge/missions/square.plan",
        "sitl_bridge/missions/worlds/hills.npz",
    } <= found


def test_the_wheel_is_pure_python_with_a_command_a_plugin_and_documented_extras(wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        info = next(name.split("/")[0] for name in archive.namelist() if ".dist-info/" in name)
        metadata = Parser().parsestr(archive.read(f"{info}/METADATA").decode())
        entries = archive.read(f"{info}/entry_points.txt").decode()
    assert "sitl-bridge = sitl_bridge.__main__:main" in entries
    assert "[pytest11]" in entries
    page = (DOCS / "install.md").read_text("utf-8")
    for extra in metadata.get_all("Provides-Extra", []):
        assert f"`{extra}`" in page, f"docs/install.md does not describe the extra {extra}"


@pytest.fixture(scope="module")
def empty_environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new virtual environment with the wheel alone, its dependencies from wheels only."""
    directory = tmp_path_factory.mktemp("empty") / "env"
    subprocess.run([sys.executable, "-m", "venv", directory], check=True, timeout=200)
    subprocess.run(
        [directory / "bin" / "pip", "install", "--quiet", "--only-binary", ":all:", str(wheel)],
        check=True, timeout=280,
    )  # fmt: skip
    return directory


def clean(environment: Path, home: Path) -> dict[str, str]:
    """The variables of a new user: no compiler on PATH, an empty home, nothing of this test run."""
    return {"PATH": f"{environment / 'bin'}", "HOME": str(home), "LANG": "C.UTF-8"}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_demo_flies_where_only_the_wheel_is_installed(empty_environment: Path, tmp_path: Path) -> None:
    flown = subprocess.run(
        [empty_environment / "bin" / "sitl-bridge", "demo"],
        cwd=tmp_path, env=clean(empty_environment, tmp_path), capture_output=True, text=True,
        timeout=800, check=False,
    )  # fmt: skip
    assert flown.returncode == 0, flown.stdout + flown.stderr
    assert "mission succeeded" in flown.stdout
    assert (tmp_path / "runs" / "latest" / "report.html").is_file()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "words",
    [
        ("check", "x500"),
        ("check", "square.plan"),
        ("check", "formation_cube.yaml"),
        ("check", "warehouse"),
        ("simulate", "crossing_pair.yaml"),
    ],
)
def test_shipped_files_are_found_by_name_where_only_the_wheel_is_installed(
    empty_environment: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    found = subprocess.run(
        [empty_environment / "bin" / "sitl-bridge", *words],
        cwd=tmp_path, env=clean(empty_environment, tmp_path), capture_output=True, text=True,
        timeout=800, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stdout + found.stderr


ONLY_DEPENDENCIES = """
import importlib, importlib.abc, importlib.metadata as metadata, json, sys

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

dependencies, modules = json.loads(sys.argv[1]), sys.argv[2:]
needed, waiting = set(), [(line, "") for line in dependencies]
while waiting:
    line, extra = waiting.pop()
    wanted = Requirement(line)
    if wanted.marker is not None and not wanted.marker.evaluate({"extra": extra}):
        continue
    for part in {"", *wanted.extras}:
        if (canonicalize_name(wanted.name), part) not in needed:
            needed.add((canonicalize_name(wanted.name), part))
            waiting += [(line, part) for line in metadata.requires(wanted.name) or ()]
names = {name for name, _ in needed} | {"sitl-bridge"}
hidden = {
    module
    for module, of in metadata.packages_distributions().items()
    if not names & {canonicalize_name(name) for name in of}
}

class Hidden(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in hidden:
            raise ModuleNotFoundError(f"No module named {name!r}: it is no dependency", name=name)

sys.meta_path.insert(0, Hidden())
for module in modules:
    importlib.import_module(module)
print(*sorted(hidden))
"""
"""Imports modules where nothing but the given dependencies, and what these need, can be imported."""


def test_every_command_is_imported_with_the_dependencies_alone() -> None:
    modules = sorted(map(module, COMMANDS))
    done = subprocess.run(
        [
            sys.executable, "-c", ONLY_DEPENDENCIES, json.dumps(project()["dependencies"]),
            *modules,
        ],
        capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert {"trimesh", "matplotlib", "viser"} <= set(done.stdout.split()), "packages of extras are hidden"


@pytest.mark.parametrize("uv", ["absent", "works", "fails"])
def test_the_demonstration_installs_what_flights_need_and_the_tests_add_to_it(
    tmp_path: Path, uv: str
) -> None:
    """pip and uv are programs that print their arguments; one environment serves both."""
    checkout, found = tmp_path / "checkout", tmp_path / "programs" / "uv"
    if uv != "absent":
        found.parent.mkdir()
        says = "shift 5\necho pip install $*" if uv == "works" else "exit 1"
        found.write_text(f"#!/bin/sh\n{says}\n", encoding="utf-8")
        found.chmod(0o755)
    environment = os.environ | {"PATH": f"{found.parent}:{os.defpath}"}
    for program in ("python", "pip"):
        file = checkout / ".venv" / "bin" / program
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(
            "#!/bin/sh\nshift 6\n[ $1 = --target ] && exit 1\necho pip install $*\n", encoding="utf-8"
        )
        file.chmod(0o755)
    (checkout / "scripts").mkdir()
    for name in ("scripts/environment.sh", "pyproject.toml"):
        (checkout / name).write_bytes((ROOT / name).read_bytes())

    def install(*extras: str) -> list[str]:
        command = ["bash", "-c", '. scripts/environment.sh; make_environment "$@"', "bash", *extras]
        done = subprocess.run(
            command, cwd=checkout, env=environment, capture_output=True, text=True, check=True
        )
        return [line for line in done.stdout.splitlines() if line.startswith("pip")]

    assert install() == ["pip install -e ."]
    assert install() == []
    assert install("[dev,docs]") == ["pip install -e .[dev,docs]"]
    assert install("[dev,docs]") == []
    assert install() == []
    checkout = checkout.rename(tmp_path / "moved")  # its programs name the old place
    assert install() == ["pip install -e ."]
    assert install() == []


def test_an_environment_that_python_could_not_finish_is_finished(tmp_path: Path) -> None:
    """Debian's Python without python3-venv fails once it has written bin/python."""
    left, programs = tmp_path / ".venv" / "bin", tmp_path / "programs"
    for directory in (left, programs):
        directory.mkdir(parents=True)
        (directory / "python").write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
        (directory / "python").chmod(0o755)
    python = programs / "python3.13"
    python.write_text('#!/bin/sh\n[ "$1" = -c ] || echo "python $*"\n', encoding="utf-8")
    python.chmod(0o755)
    for name in ("scripts/environment.sh", "pyproject.toml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    done = subprocess.run(
        ["bash", "-c", ". scripts/environment.sh; make_environment"],
        cwd=tmp_path, env={"PATH": f"{programs}:{os.defpath}"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "python -m venv .venv" in done.stdout, done.stderr


@pytest.mark.parametrize("workflow", sorted(WORKFLOWS.glob("*.yml")), ids=lambda path: str(path.name))
def test_a_workflow_names_files_and_extras_that_exist(workflow: Path) -> None:
    text = workflow.read_text(encoding="utf-8")
    named = re.findall(r"(?<!uses: )(?<![\w./-])(?:tests|docker|scripts)/[\w./-]+", text)
    assert [name for name in named if not (ROOT / name).exists()] == []
    extras = project()["optional-dependencies"]
    asked = [extra for found in re.findall(r"'\.\[([\w,]+)\]'", text) for extra in found.split(",")]
    assert [extra for extra in asked if extra not in extras] == []
    jobs = yaml.safe_load(text)["jobs"]
    assert {job["needs"] for job in jobs.values() if "needs" in job} <= set(jobs)


def test_package_citation_and_changelog_state_one_version() -> None:
    version = project()["version"]
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))["version"] == version
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert version in headings[:2], "the newest release of CHANGELOG.md, below Unreleased if that has lines"
