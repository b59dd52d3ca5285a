"""Compilation: kernels are compiled once whoever calls them, and the cache on disk does not pile up."""

from __future__ import annotations

import cmath
import enum
import gc
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

import numba
import numpy as np
import pytest
from numba import types
from numba.core import event
from numpy.typing import NDArray
from typing_extensions import TypeAliasType

from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.kernels import compiled as module
from sitl_bridge.base.kernels import kernel_cache, record
from sitl_bridge.base.kernels.announcement import announce_compilation
from sitl_bridge.base.kernels.array_at import array_at, handles_of
from sitl_bridge.base.kernels.compiled import compiled, on_demand, prepare
from sitl_bridge.base.kernels.kernel_cache import KEPT_AGE, KEPT_ALWAYS, KEPT_COUNT, remove_outdated
from sitl_bridge.base.kernels.numba_extensions import arrays_of
from sitl_bridge.base.kernels.numba_internals import lie_apart
from sitl_bridge.base.kernels.record import Record, numba_type

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


class Place(Record):
    north: float
    number: int


PLACE = Place.dtype


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


class Pair(NamedTuple):
    first: float
    second: float


@on_demand
def _rare(place: Place, values: Floats, pair: Pair, at: int) -> Pair:
    place.north += values[at] * pair.first
    return Pair(place.north, pair.second)


@on_demand
def _rarer(x: float) -> float:
    return 2.0 * x


def _halved(x: float) -> float:
    return 0.5 * x


@compiled
def _seldom(places: Any, values: Any, often: bool) -> float:
    total = 0.0
    for at in range(values.shape[0]):
        pair = _rare(places[0], values, Pair(2.0, 0.5), at)
        total += pair.first * pair.second
    return total if often else _rarer(total)


def test_a_kernel_on_demand_is_compiled_when_a_kernel_calls_it_first() -> None:
    late: Any = _rarer
    places, values = np.zeros(1, Place.dtype), np.array([1.0, 10.0])
    assert _seldom(places, values, True) == 0.5 * (2.0 + 22.0)
    assert places["north"][0] == 22.0
    assert not late.overloads
    places["north"] = 0.0
    assert _seldom(places, values, False) == 2.0 * 0.5 * (2.0 + 22.0)
    assert late.overloads
    assert late(4.0) == 8.0, "Python may call it, too"
    prepare(_rare, _rarer)


@on_demand
def _rarest(x: float) -> float:
    return 3.0 * x


@compiled
def _hardly_ever(x: Any) -> float:
    return _rarest(x)


def test_ctrl_c_while_a_kernel_is_compiled_on_demand_ends_the_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    late: Any = _rarest
    attempts: list[None] = []

    def prepare_interrupted() -> None:
        attempts.append(None)
        if len(attempts) == 1:
            raise KeyboardInterrupt
        type(late).prepare(late)

    monkeypatch.setattr(late, "prepare", prepare_interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a shell's background
    try:
        with pytest.raises(KeyboardInterrupt):
            _hardly_ever(2.0)
    finally:
        signal.signal(signal.SIGINT, before)
    assert _hardly_ever(2.0) == 6.0
    assert len(attempts) == 2


INTERRUPTED = """
import signal, sys
from numba import types
from sitl_bridge.base.kernels.compiled import compiled, on_demand
from sitl_bridge.base.system import signals
interrupt = types.ExternalFunction("raise", types.intc(types.intc))
@on_demand
def late(x: float) -> float:
    return x - 1.0
@compiled
def fly(x: float) -> float:
    interrupt(2)
    return late(x)
signal.signal(signal.SIGINT, signal.default_int_handler)
def work() -> int:
    print(fly(3.0), flush=True)
    signal.pause()
    return 0
sys.exit(signals.run(work))
"""

HANDED_OVER = """
import os, signal, sys
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.base.system import signals
@compiled
def fly(x: float) -> float:
    return x - 1.0
def interrupt(frame, event, _argument):
    if event == "call" and frame.f_code.co_name == "_object_compiled_hook" and "fly" in str(frame.f_locals):
        sys.setprofile(None)
        os.kill(os.getpid(), signal.SIGINT)
def work() -> int:
    sys.setprofile(interrupt)
    fly(3.0)
    return 0
sys.exit(signals.run(work))
"""


@pytest.mark.parametrize(
    "text", [INTERRUPTED, HANDED_OVER], ids=["just before it is on demand", "handed over by LLVM"]
)
def test_ctrl_c_while_a_kernel_is_compiled_ends_the_program(tmp_path: Path, text: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(text)
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    ran = subprocess.run([sys.executable, program], env=environment, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (130, "sitl-bridge: interrupted by Ctrl-C\n")


UNKNOWN = (
    "import numba, numpy as np; numba.__version__ = '0.999.0'\n{change}"
    "from sitl_bridge.flight import fly\n"
    "from sitl_bridge.base.kernels.compiled import on_demand, prepare\n"
    "rare = on_demand(double); prepare(rare); print(fly(2.0), rare(3.0))\n"
)


def _fly_under_unknown_numba(root: Path, change: str = "") -> tuple[str, list[str]]:
    """What a program prints, and the kernels that it leaves on the disk."""
    _small_package(root, 2.0)
    environment = os.environ | {"NUMBA_CACHE_DIR": str(root / "cache"), "PYTHONPATH": str(root)}
    double = "def double(x: float) -> float:\n    return 2.0 * x\n"
    program = root / "program.py"
    program.write_text(double + UNKNOWN.format(change=change))
    ran = subprocess.run(
        [sys.executable, program], cwd=root, env=environment, capture_output=True, text=True, check=True
    )
    assert ran.stdout == "4.0 6.0\n"
    return ran.stderr, sorted(path.name.split("-")[0] for path in root.rglob("*.nbc"))


def test_an_unknown_numba_whose_internals_are_the_same_is_used_like_a_known_one(tmp_path: Path) -> None:
    printed, kept = _fly_under_unknown_numba(tmp_path)
    assert printed == ""
    assert {"fly_motion", "double"} <= set(kept)


@pytest.mark.parametrize(
    "change",
    [
        "import numba.core.codegen as c; del c.JITCodeLibrary\n",
        "import numba.core.compiler as c; c.CompileResult._rebuild = c.CompileResult._reduce = None\n",
    ],
)
def test_under_a_numba_that_differs_kernels_work_and_say_that_nothing_is_kept(
    tmp_path: Path, change: str
) -> None:
    printed, kept = _fly_under_unknown_numba(tmp_path, change)
    assert printed.startswith(
        "numba 0.999.0 is not known and differs: compiled code is made anew at every start;"
    )
    assert printed.count("\n") == 1
    assert kept == []


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
    assert [path.name.split("-")[0] for path in tmp_path.rglob("*.nbc")] == ["air"]


def _code(place: Path, number: int, made: float) -> Path:
    """An empty file that is called like machine code, of a time in s since the epoch."""
    path = place / f"fly-{number:016x}-01234567.nbc"
    path.touch()
    os.utime(path, (made, made))
    return path


def test_code_of_another_decorator_is_not_taken_for_that_of_on_demand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert compiled(_halved)(8.0) == 4.0
    prepare(on_demand(_halved))
    assert len(list(tmp_path.rglob("_halved-*.nbc"))) == 2


def test_the_decorator_of_a_callee_and_the_name_of_a_field_tell_versions_apart() -> None:
    def digest(decorator: str, field: str) -> str:
        source = f"""
def inner(x: float) -> float:
    return 2.0 * x

inner = {decorator}(inner)

def outer(x, row):
    return inner(x) + row["{field}"]
"""
        names: dict[str, Any] = {"compiled": compiled, "on_demand": on_demand, "__name__": "law"}
        exec(source, names)
        return kernel_cache.digest_of(names["outer"])

    cases = [("compiled", "mass"), ("on_demand", "mass"), ("compiled", "drag")]
    assert len({digest(*case) for case in cases}) == 3
    assert digest("compiled", "mass") == digest("compiled", "mass")


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
    """``several`` files more are used right now."""
    assert (KEPT_AGE, KEPT_ALWAYS) == (14 * DAY, DAY)
    now = 2e9
    made = {age: _code(tmp_path, int(10 * age), now - age * DAY) for age in ages}
    others = [_code(tmp_path, 10000 + k, now) for k in range(several)]
    remove_outdated(tmp_path, now)
    assert [age for age, path in made.items() if path.exists()] == kept
    assert all(path.exists() for path in others)


def test_new_code_removes_outdated_code_and_known_code_counts_as_used(tmp_path: Path) -> None:
    _small_package(tmp_path, 2.0)
    place = tmp_path / "cache" / "sitl-bridge-kernels"
    place.mkdir(parents=True)
    old = _code(place, 1, 0.0)
    for _ in range(2):
        _run_kernel(tmp_path, 1 << 30)
        (file,) = place.iterdir()
        assert file != old
        assert file.stat().st_mtime > 1e9
        os.utime(file, (1e9, 1e9))


def test_what_is_not_this_programs_code_is_left_alone(tmp_path: Path) -> None:
    others = [tmp_path / "my_project_1a2b", tmp_path / "mine.fly-3.py311.nbi", tmp_path / "0123456789abcdef"]
    for path in others:
        path.mkdir()
        os.utime(path, (0.0, 0.0))
    remove_outdated(tmp_path, 2e9)
    assert sorted(tmp_path.iterdir()) == sorted(others)


LAW = """
from sitl_bridge.base.kernels.compiled import compiled, on_demand, prepare
from sitl_bridge.law import LIFT

@compiled
def thrust(speed: float) -> float:
    return LIFT * speed
"""
FLIGHT = """
from sitl_bridge.base.kernels.compiled import compiled, on_demand, prepare
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
from sitl_bridge.base.kernels.compiled import compiled, on_demand, prepare

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


AT_ONCE = {"PYTHONDONTWRITEBYTECODE": "1"}
"""Python's bytecode files know the time of their source in whole seconds only; these tests edit faster."""


def _small_package(root: Path, lift: float) -> None:
    """The decorator alone, with a kernel, the one that it calls, and a constant of that one."""
    package = root / "sitl_bridge"
    base = package / "base"
    kernels = base / "kernels"
    system = base / "system"
    for directory in (kernels, system):
        directory.mkdir(parents=True, exist_ok=True)
    source = Path(module.__file__).parent
    for name in (
        "compiled.py",
        "numba_internals.py",
        "kernel_cache.py",
        "announcement.py",
        "record.py",
        "numba_extensions.py",
    ):
        shutil.copy(source / name, kernels)
    for name in ("errors.py", "error_log.py"):
        shutil.copy(source.parent / name, base)
    shutil.copy(source.parent / "system" / "signals.py", system)
    for directory in (package, base, kernels, system):
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
    environment |= AT_ONCE
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
    assert [path.name.split("-")[0] for path in ours.rglob("*.nbc")] == ["fly_motion"]
    assert [path.name.split("-")[0] for path in (tmp_path / "__pycache__").glob("*.nbc")] == ["user.mine"]
    (tmp_path / "sitl_bridge" / "law.py").write_text("LIFT = 3.0\n")
    assert _fly(tmp_path) == "6.0 2.0 True\n"
    rotor = tmp_path / "sitl_bridge" / "rotor.py"
    rotor.write_text(LAW.replace("LIFT * speed", "LIFT * speed + 1.0"))
    assert _fly(tmp_path) == "7.0 2.0 True\n"
    motion = tmp_path / "sitl_bridge" / "motion.py"
    motion.write_text(MOTION.replace("speed: float\n    climb: float", "climb: float\n    speed: float"))
    assert _fly(tmp_path) == "-2.0 2.0 True\n"


def test_a_program_finds_numba_as_it_was_after_kernels_were_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program may compile functions of its own, with look-ups that are numba's."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))

    def changeable() -> tuple[object, ...]:
        return types.Function.get_call_type, gc.get_threshold()

    before = changeable()
    meanwhile: list[tuple[object, ...]] = []

    class Watch(event.Listener):  # type: ignore[misc]
        def on_start(self, event: Any) -> None:
            del event
            meanwhile.append(changeable())

        def on_end(self, event: Any) -> None:
            pass

    @compiled
    def sound(x: float) -> float:
        return 2.0 * x

    @compiled
    def faulty(x: float) -> float:
        return x + "1"  # type: ignore[operator]

    with event.install_listener("numba:compile", Watch()):
        assert sound(2.0) == 4.0
        assert changeable() == before
        with pytest.raises(numba.TypingError):
            faulty(2.0)
    assert meanwhile
    assert before not in meanwhile
    assert changeable() == before
    assert numba.njit(lambda x: sound(x) + 1.0)(2.0) == 5.0, "a function of one's own calls a kernel"
    assert changeable() == before


def test_processes_that_start_together_compile_a_kernel_once(tmp_path: Path) -> None:
    _small_package(tmp_path, 2.0)
    cache = tmp_path / "cache"
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(tmp_path)} | AT_ONCE
    program = (
        "from sitl_bridge.flight import fly, fly_motion as kernel\n"
        "fly(1.0); print(*(sum(found.values()) for found in (kernel._cache_hits, kernel._cache_misses)))"
    )
    together = [
        subprocess.Popen(
            [sys.executable, "-c", program], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    counts = sorted(process.communicate(timeout=60)[0].strip() for process in together)
    assert counts == ["0 1", "1 0", "1 0", "1 0"], "found in the cache, and not"
    assert not list(cache.rglob("*.lock"))


def test_threads_that_call_a_new_kernel_together_all_get_its_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    for factor in range(5):

        @compiled
        def times(x: float, factor: int = factor) -> float:
            return x * factor

        with ThreadPoolExecutor(8) as pool:
            assert set(pool.map(times, [2.0] * 8)) == {2.0 * factor}


def test_kernels_that_an_edit_does_not_concern_are_not_compiled_again(tmp_path: Path) -> None:
    """In another checkout, too."""
    program = (
        "from sitl_bridge.flight import fly; from sitl_bridge.other import other; print(fly(other(1.0)))"
    )
    cache = tmp_path / "cache"

    def run(root: Path) -> str:
        environment = os.environ | {"NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(root)} | AT_ONCE
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
    assert kept() == ["fly_motion", "other"]
    _small_package(second, 2.0)
    assert run(second) == "4.0\n"
    assert kept() == ["fly_motion", "other"]
    (second / "sitl_bridge" / "law.py").write_text("LIFT = 3.0\n")
    assert run(second) == "6.0\n"
    assert kept() == ["fly_motion", "fly_motion", "other"]


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


def test_damaged_code_is_compiled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))

    def run() -> tuple[int, str]:
        """Misses of the cache and errors, of a kernel that nothing is known of but its code on the disk."""
        kernel: Any = compiled(_halved)
        assert (kernel(8.0), kernel(2.0)) == (4.0, 1.0)
        return sum(kernel._cache_misses.values()), capsys.readouterr().err

    assert run() == (1, "")
    for damage in (lambda raw: raw[:-20], lambda raw: raw[:0], lambda raw: bytes(len(raw))):
        (file,) = tmp_path.rglob("*.nbc")
        file.write_bytes(damage(file.read_bytes()))
        misses, error = run()
        assert misses == 1
        assert "compiled code cannot be read: " in error
        assert error.count("\n") == 1
    assert run() == (0, "")


SCALE = 2.0
TABLE = np.array([1.0, 2.0])


class Mode(enum.IntEnum):
    SLOW = 1


class Gains(Record):
    gain: float


GAINS = Gains.dtype


@compiled
def _uses_much(place: Inner, address: int) -> float:
    """A docstring."""
    gains = array_at(address, 1, GAINS)[0]
    return float(_scaled(TABLE, Mode.SLOW, SCALE) + gains.gain + math.sin(place.places[0].north))


def _digest(function: Any) -> str:
    """Its digest, anew."""
    kernel_cache.parts_of.cache_clear()
    kernel_cache.digest_of.cache_clear()
    return kernel_cache.digest_of(function.py_func)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SCALE", 3.0),
        ("SCALE", 2),
        ("TABLE", np.array([1.0, 2.5])),
        ("Mode", enum.IntEnum("Mode", {"SLOW": 0})),
        ("GAINS", np.dtype([("gain", "f4")])),
        ("_scaled", _twice),
        ("math", cmath),
    ],
)
def test_a_kernels_digest_changes_with_all_that_it_is_made_of(
    monkeypatch: pytest.MonkeyPatch, name: str, value: object
) -> None:
    before = _digest(_uses_much)
    assert _digest(_uses_much) == before
    monkeypatch.setitem(globals(), name, value)
    assert _digest(_uses_much) != before
    monkeypatch.undo()
    assert _digest(_uses_much) == before


def test_a_kernel_that_names_what_has_no_versions_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "SCALE", object())
    with pytest.raises(TypeError, match=r"_uses_much: SCALE is <object .*versions the cache cannot tell"):
        _digest(_uses_much)


def test_kernels_of_the_package_have_the_same_digests_in_every_process() -> None:
    program = (
        "import importlib, pkgutil, sys, sitl_bridge.core, sitl_bridge.link.hil.server\n"
        "from sitl_bridge.base.kernels import kernel_cache, numba_internals\n"
        "for found in pkgutil.walk_packages(sitl_bridge.core.__path__, 'sitl_bridge.core.'):\n"
        "    importlib.import_module(found.name)\n"
        "for name, module in sorted(sys.modules.items()):\n"
        "    for value in vars(module).values() if name.startswith('sitl_bridge') else ():\n"
        "        if isinstance(value, numba_internals.Kernel):\n"
        "            print(name, value.py_func.__name__, kernel_cache.digest_of(value.py_func))\n"
    )
    told = [
        subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        for seed in ("1", "2")
    ]
    assert told[0] == told[1]
    assert len(told[0]) > 300


def test_only_a_compilation_is_announced() -> None:
    told: list[str] = []
    _scaled(np.zeros(3), 1, 1.0)
    with announce_compilation(told.append, after=0.0):
        _scaled(np.zeros(3), 1, 1.0)
        time.sleep(0.05)
    assert told == []
    never_compiled_before = float(time.time_ns())

    @compiled
    def new(x: float) -> float:
        return x * never_compiled_before

    with announce_compilation(told.append, after=0.0):
        new(2.0)
        new(3.0)
        time.sleep(0.05)
    assert told[0] == "compiling the simulation, once for this version; `sitl-bridge warm` does it ahead"
    assert told[-1].startswith("compiled the simulation: 1 kernel in ")


def test_a_long_compilation_reports_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sitl_bridge.base.kernels.announcement.REPORT_INTERVAL", 0.01)
    told: list[str] = []
    factors = [float(time.time_ns()), float(time.time_ns() + 1)]

    def make(factor: float) -> Callable[[float], float]:
        @compiled
        def kernel(x: float) -> float:
            return math.sin(x * factor) + math.exp(x)

        return kernel

    with announce_compilation(told.append, "both", after=0.0):
        for factor in factors:
            make(factor)(2.0)
    assert any(line.startswith("still compiling both: 1 kernel done in ") for line in told)
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


def test_array_annotations_are_read_where_numpy_keeps_the_alias(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As numpy 2.5 does, on Python 3.12 and later."""
    item = TypeVar("item", bound=np.generic)
    kept: Any = TypeAliasType("kept", np.ndarray[Any, np.dtype[item]], type_params=(item,))  # type: ignore[arg-type]
    monkeypatch.setattr(record, "NDArray", kept)
    assert record.numba_type(kept[np.float64]) == types.Array(types.float64, 1, "C")
    row: Any = type("Row", (Record,), {"__annotations__": {"force": Annotated[kept[np.float64], 3]}})
    assert row.dtype == np.dtype([("force", "f8", (3,))])


class Part(Record):
    value: float


class Whole(Record):
    part: Part
    value: float


class Beside(Record):
    values: Annotated[Floats, 3]


@pytest.mark.parametrize(
    ("kinds", "apart"),
    [
        ((Whole, Beside, float), True),
        ((Part, Beside), True),
        ((Whole, Whole, float), False),
        ((Whole, Part), False),
        ((Whole, Beside, Floats), False),
        ((Whole, float), False),
    ],
)
def test_arguments_lie_apart_where_their_types_keep_them_from_sharing_memory(
    kinds: tuple[Any, ...], apart: bool
) -> None:
    assert lie_apart([numba_type(kind) for kind in kinds]) is apart
