"""Compilation: kernels are compiled once whoever calls them, and the cache on disk does not pile up."""

from __future__ import annotations

import ast
import math
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from sitl_bridge.base.kernels import compiled as module
from sitl_bridge.base.kernels.announcement import announced
from sitl_bridge.base.kernels.array_at import arrays_of, handles_of
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.base.kernels.kernel_cache import (
    KEPT_AGE,
    KEPT_ALWAYS,
    KEPT_COUNT,
    PACKAGE,
    kernel_sources,
    remove_outdated,
    sources_of,
)

DAY = 86400.0


@compiled
def _scaled(values: Any, at: int, factor: float) -> float:
    return float(values[at] * factor)


@compiled
def _sum_of_two(values: Any, at: int) -> float:
    return _scaled(values, 0, 2.0) + _scaled(values, 1, 3.0) + _scaled(values, at, 1.0)


@compiled
def _twice(values: Any, at: int) -> float:
    return _sum_of_two(values, at) + _scaled(values, at, 1.0)


def test_a_kernel_answers_alike_to_python_and_to_kernels() -> None:
    values = np.array([1.0, 10.0, 100.0])
    assert _scaled(values, 2, 1.0) == 100.0
    assert _sum_of_two(values, 2) == 132.0
    assert _twice(values, 2) == 232.0


PLACE = np.dtype([("north", "f8"), ("number", "i8")])


class Inner(NamedTuple):
    flags: NDArray[np.uint8]
    places: Annotated[NDArray[np.void], PLACE]


class Outer(NamedTuple):
    table: Annotated[NDArray[np.float64], 2]
    inner: Inner
    cube: Annotated[NDArray[np.int64], 3]
    rows: Annotated[NDArray[np.void], PLACE, 2]


@compiled
def _read_and_write(handles: Any) -> float:
    outer = arrays_of(handles, Outer)
    outer.cube[1, 2, 3] += 1
    outer.rows[1, 0].number = outer.cube.shape[2]
    inner = outer.inner
    return float(outer.table[1, 2] + inner.flags[4] + inner.places[1].north + inner.places.shape[0])


def test_handles_stand_for_the_arrays_of_a_named_tuple() -> None:
    places = np.array([(0.0, 0), (1000.0, 0)], PLACE)
    inner = Inner(np.array([0, 0, 0, 0, 100], np.uint8), places)
    outer = Outer(np.arange(6.0).reshape(2, 3), inner, np.zeros((2, 3, 4), np.int64), np.zeros((2, 1), PLACE))
    assert _read_and_write(handles_of(outer)) == 5.0 + 100.0 + 1000.0 + 2.0
    assert outer.cube[1, 2, 3] == outer.cube.sum() == 1
    assert outer.rows["number"].tolist() == [[0], [4]]
    with pytest.raises(ValueError, match="not contiguous"):
        handles_of(outer._replace(table=np.zeros((4, 4))[:, ::2]))


def test_literal_arguments_make_no_further_specialisation() -> None:
    _sum_of_two(np.zeros(3), 2)
    dispatcher: Any = _scaled
    assert len(dispatcher._part.signatures) <= 1, "none where it came from the cache"


def test_only_what_python_calls_is_cached(tmp_path: Path) -> None:
    source = (
        "import numpy as np\nfrom sitl_bridge.core.world.atmosphere import air\n"
        "from sitl_bridge.core.world.world import World\nprint(air(World().environment[0], 0.0)[0])\n"
    )
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    told = [
        subprocess.run(
            [sys.executable, "-c", source], env=environment, capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    ]
    assert told[0] == told[1]
    assert [path.name.split(".")[1].split("-")[0] for path in tmp_path.rglob("*.nbc")] == ["air"]


@pytest.mark.parametrize(
    ("ages", "several", "kept"),
    [
        ([0.0, 1.0, 13.0], 0, [0.0, 1.0, 13.0]),
        ([0.0, 13.0, 15.0, 400.0], 0, [0.0, 13.0]),
        ([2.0, 3.0, 4.0, 5.0], KEPT_COUNT - 2, [2.0, 3.0]),
        ([0.1, 0.2, 0.3, 0.4, 2.0], KEPT_COUNT - 2, [0.1, 0.2, 0.3, 0.4]),
    ],
)
def test_the_cache_keeps_what_is_in_use_and_some_versions_more(
    tmp_path: Path, ages: list[float], several: int, kept: list[float]
) -> None:
    """``several`` directories more are used right now."""
    assert (KEPT_AGE, KEPT_ALWAYS) == (14 * DAY, DAY)
    now = 2e9
    for age in ages:
        (tmp_path / f"{int(10 * age):016x}" / "deep").mkdir(parents=True)
        os.utime(tmp_path / f"{int(10 * age):016x}", (now - age * DAY,) * 2)
    for k in range(several):
        (tmp_path / f"f{k:015x}").mkdir()
        os.utime(tmp_path / f"f{k:015x}", (now, now))
    remove_outdated(tmp_path, now)
    assert sorted(int(path.name, 16) / 10 for path in tmp_path.glob("0*")) == kept
    assert len(list(tmp_path.glob("f*"))) == several


def test_new_kernels_remove_outdated_ones_and_known_ones_count_as_used(tmp_path: Path) -> None:
    root = tmp_path / "sitl-bridge"
    old = root / "0123456789abcdef"
    old.mkdir(parents=True)
    os.utime(old, (0.0, 0.0))
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    environment["XDG_CACHE_HOME"] = str(tmp_path)
    command = [
        sys.executable,
        "-c",
        "from sitl_bridge.base.kernels.kernel_cache import PACKAGE, used_directory as d;"
        "print(d(str(PACKAGE / 'core' / 'world' / 'atmosphere.py')))",
    ]
    for _ in range(2):
        told = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
        directory = Path(told.strip())
        assert list(root.iterdir()) == [directory]
        assert directory.stat().st_mtime > 1e9
        os.utime(directory, (0.0, 0.0))


def test_what_is_not_a_versions_directory_is_left_alone(tmp_path: Path) -> None:
    others = [tmp_path / "my_project_1a2b", tmp_path / "mine.fly-3.py311.nbi", tmp_path / "0123456789abcde"]
    for path in others:
        path.mkdir()
        os.utime(path, (0.0, 0.0))
    assert remove_outdated(tmp_path, 2e9) == []
    assert sorted(tmp_path.iterdir()) == sorted(others)


def test_users_kernels_stay_in_a_cache_directory_that_is_called_like_this_program(tmp_path: Path) -> None:
    root = tmp_path / "sitl-bridge"
    theirs = [root / "mine_0123", root / "0123456789abcdef"]
    for path in theirs:
        path.mkdir(parents=True)
        os.utime(path, (0.0, 0.0))
    subprocess.run(
        [sys.executable, "-c", "import sitl_bridge.core.world.atmosphere"],
        env=os.environ | {"NUMBA_CACHE_DIR": str(root)},
        check=True,
    )
    assert set(theirs) < set(root.iterdir())


LAW = """
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.law import LIFT

@compiled
def thrust(speed: float) -> float:
    return LIFT * speed
"""
FLIGHT = """
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.motion import Motion
from sitl_bridge.rotor import thrust

@compiled
def fly_motion(motion: Motion) -> float:
    return thrust(motion.speed)

def fly(speed: float) -> float:
    return fly_motion(Motion(speed, -1.0))
"""
MOTION = """
from typing import NamedTuple

class Motion(NamedTuple):
    speed: float
    climb: float
"""
OTHER = """
from sitl_bridge.base.kernels.compiled import compiled

@compiled
def other(speed: float) -> float:
    return speed + 1.0
"""
USER = """
import numba
{first}
from sitl_bridge.flight import fly

@numba.njit(cache=True)
def mine(x):
    return x + 1.0

print(fly(2.0), mine(1.0), numba.config.CACHE_DIR == "")
"""


def _small_package(root: Path, lift: float) -> None:
    """The decorator alone, with a kernel, the one that it calls, and a constant of that one."""
    package = root / "sitl_bridge"
    base = package / "base"
    kernels = base / "kernels"
    kernels.mkdir(parents=True, exist_ok=True)
    source = Path(module.__file__).parent
    for name in ("compiled.py", "kernel_cache.py"):
        shutil.copy(source / name, kernels)
    for name in ("errors.py", "error_log.py"):
        shutil.copy(source.parent / name, base)
    for directory in (package, base, kernels):
        (directory / "__init__.py").touch()
    (package / "law.py").write_text(f"LIFT = {lift}\n")
    (package / "rotor.py").write_text(LAW)
    (package / "motion.py").write_text(MOTION)
    (package / "flight.py").write_text(FLIGHT)
    (package / "other.py").write_text(OTHER)


def _fly(root: Path, first: str = "") -> str:
    script = root / "user.py"
    script.write_text(USER.format(first=first))
    kept = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    environment = kept | {"XDG_CACHE_HOME": str(root / "cache"), "PYTHONPATH": str(root)}
    ran = subprocess.run(
        [sys.executable, str(script)], env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert "Warning" not in ran.stderr, ran.stderr
    return ran.stdout


def test_an_edited_law_flies_whoever_imported_numba_first(tmp_path: Path) -> None:
    _small_package(tmp_path, 2.0)
    assert _fly(tmp_path) == "4.0 2.0 True\n"
    ours = tmp_path / "cache" / "sitl-bridge"
    assert [path.name.split("-")[0] for path in ours.rglob("*.nbc")] == ["flight.fly_motion"]
    assert [path.name.split("-")[0] for path in (tmp_path / "__pycache__").glob("*.nbc")] == ["user.mine"]
    (tmp_path / "sitl_bridge" / "law.py").write_text("LIFT = 3.0\n")
    assert _fly(tmp_path) == "6.0 2.0 True\n"
    rotor = tmp_path / "sitl_bridge" / "rotor.py"
    rotor.write_text(LAW.replace("LIFT * speed", "LIFT * speed + 1.0"))
    assert _fly(tmp_path) == "7.0 2.0 True\n"
    motion = tmp_path / "sitl_bridge" / "motion.py"
    motion.write_text(MOTION.replace("speed: float\n    climb: float", "climb: float\n    speed: float"))
    assert _fly(tmp_path) == "-2.0 2.0 True\n"


def test_kernels_that_an_edit_does_not_concern_are_not_compiled_again(tmp_path: Path) -> None:
    """In another checkout, too."""
    program = (
        "from sitl_bridge.flight import fly; from sitl_bridge.other import other; print(fly(other(1.0)))"
    )
    cache = tmp_path / "cache"

    def run(root: Path) -> str:
        environment = os.environ | {"NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(root)}
        command = [sys.executable, "-c", program]
        ran = subprocess.run(
            command, cwd=root, env=environment, capture_output=True, text=True, check=True, timeout=60
        )
        return ran.stdout

    def kept() -> list[str]:
        return sorted(path.name.split("-")[0] for path in cache.rglob("*.nbc"))

    first, second = tmp_path / "first", tmp_path / "second"
    _small_package(first, 2.0)
    assert run(first) == "4.0\n"
    assert kept() == ["flight.fly_motion", "other.other"]
    _small_package(second, 2.0)
    assert run(second) == "4.0\n"
    assert kept() == ["flight.fly_motion", "other.other"]
    (second / "sitl_bridge" / "law.py").write_text("LIFT = 3.0\n")
    assert run(second) == "6.0\n"
    assert kept() == ["flight.fly_motion", "flight.fly_motion", "other.other"]


def _run_kernel(root: Path, limit: int) -> tuple[str, str]:
    """Output and errors of a program with one kernel, while no file may have more than ``limit`` bytes."""
    program = (
        f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}));"
        "from sitl_bridge.flight import fly; print(fly(2.0), fly(3.0))"
    )
    environment = os.environ | {"NUMBA_CACHE_DIR": str(root / "cache"), "PYTHONPATH": str(root)}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"  # Python cannot read what it wrote within the limit either
    ran = subprocess.run(
        [sys.executable, "-c", program],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout, ran.stderr


def test_code_that_cannot_be_kept_runs_and_is_reported_once(tmp_path: Path) -> None:
    _small_package(tmp_path, 2.0)
    told = "compiled code cannot be kept: File too large; it is compiled at every start\n"
    for _ in range(2):
        said, error = _run_kernel(tmp_path, 50)
        assert said == "4.0 6.0\n"
        assert error.endswith(told)
        assert error.count("\n") == 1
    assert _run_kernel(tmp_path, 1 << 30) == ("4.0 6.0\n", "")


@pytest.mark.parametrize("kind", ["nbi", "nbc"])
def test_damaged_code_is_compiled_again(tmp_path: Path, kind: str) -> None:
    _small_package(tmp_path, 2.0)
    assert _run_kernel(tmp_path, 1 << 30) == ("4.0 6.0\n", "")
    for damage in (lambda raw: raw[:-20], lambda raw: raw[:0], lambda raw: bytes(len(raw))):
        (file,) = tmp_path.rglob(f"*.{kind}")
        file.write_bytes(damage(file.read_bytes()))
        said, error = _run_kernel(tmp_path, 1 << 30)
        assert said == "4.0 6.0\n"
        assert "compiled code cannot be read: " in error
        assert error.count("\n") == 1
    assert _run_kernel(tmp_path, 1 << 30) == ("4.0 6.0\n", "")


def _reached(tree: ast.Module) -> Iterator[ast.Name]:
    """What of a file goes into kernels: theirs, decorated functions, its constants, and what these call."""
    parts = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    kernels = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.decorator_list]
    values = [n for n in tree.body if isinstance(n, ast.Assign | ast.AnnAssign)]
    todo: list[ast.AST] = [
        n for n in kernels if n in tree.body or "compiled" in ast.dump(n.decorator_list[0])
    ]
    todo += [n.value for n in values if n.value is not None]
    seen: set[int] = set()
    while todo:
        for node in ast.walk(todo.pop()):
            if isinstance(node, ast.Name):
                yield node
                part = parts.get(node.id)
                if part is not None and id(part) not in seen and isinstance(part, ast.FunctionDef):
                    seen.add(id(part))
                    todo.append(part)


def test_the_digests_cover_every_file_that_goes_into_kernels() -> None:
    """By the syntax tree: a name that a kernel or a constant uses comes from a file of its file's digest."""
    package = PACKAGE
    sources = kernel_sources()
    missing = set()
    for path in package.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if "compiled" not in text and path not in sources:
            continue
        tree = ast.parse(text)
        decorators = [d for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) for d in n.decorator_list]
        if any(isinstance(d, ast.Name) and d.id == "compiled" for d in decorators) and path not in sources:
            missing.add(f"{path}: defines a kernel")
        if path not in sources:
            continue
        origins: dict[str, Path] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                assert not any(a.name.startswith("sitl_bridge") for a in node.names), (
                    f"{path}: from ... import"
                )
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{path}: an import by its whole name"
                if (node.module or "").split(".")[0] == "sitl_bridge":
                    base = package.joinpath(*str(node.module).split(".")[1:])
                    for alias in node.names:
                        inner = base / f"{alias.name}.py"
                        origins[alias.asname or alias.name] = (
                            inner if inner.is_file() else base.with_suffix(".py")
                        )
        used = {node.id for node in _reached(tree)}
        needed = set(sources_of(path))
        for name in used & set(origins):
            if origins[name] not in needed and origins[name].name != "kernel_cache.py":
                missing.add(f"{path.relative_to(package)}: {name} of {origins[name].relative_to(package)}")
    assert sorted(missing) == []
    assert not {"main.py", "plan.py", "yaml_file.py"} & {path.name for path in sources}


def test_only_a_compilation_is_announced() -> None:
    told: list[str] = []
    _scaled(np.zeros(3), 1, 1.0)
    with announced(told.append, after=0.0):
        _scaled(np.zeros(3), 1, 1.0)
        time.sleep(0.05)
    assert told == []
    never_compiled_before = float(time.time_ns())

    @compiled
    def new(x: float) -> float:
        return x * never_compiled_before

    with announced(told.append, after=0.0):
        new(2.0)
        new(3.0)
        time.sleep(0.05)
    assert told[0] == "compiling the simulation, once for this version; `sitl-bridge warm` does it ahead"
    assert told[-1].startswith("compiled the simulation: 1 kernels in ")


def test_a_long_compilation_reports_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sitl_bridge.base.kernels.announcement.REPORT_INTERVAL", 0.01)
    told: list[str] = []
    factors = [float(time.time_ns()), float(time.time_ns() + 1)]

    def make(factor: float) -> Callable[[float], float]:
        @compiled
        def kernel(x: float) -> float:
            return math.sin(x * factor) + math.exp(x)

        return kernel

    with announced(told.append, "both", after=0.0):
        for factor in factors:
            make(factor)(2.0)
    assert any(line.startswith("still compiling both: 1 kernels done in ") for line in told)
    assert told[-1].startswith("compiled both: 2 kernels in ")


@pytest.mark.parametrize("place", ["/dev/null", "/proc/none"])
def test_a_cache_that_cannot_be_made_costs_time_only(tmp_path: Path, place: str) -> None:
    _small_package(tmp_path, 2.0)
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    environment |= {"XDG_CACHE_HOME": place, "PYTHONPATH": str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, "-c", "from sitl_bridge.flight import fly; print(fly(2.0), fly(3.0))"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "4.0 6.0\n"
    assert re.fullmatch(rf"{place}/\S+: compiled code cannot be kept: .*\n", ran.stderr)
