"""Where the machine code of compiled kernels is kept on disk.

Numba notices that a file changed, but not that a kernel *called from* that file changed.  The directory of a
file's kernels is therefore named after a digest of all sources that its kernels are made of: its own and, of
those it imports, the ones that define kernels, named tuples or constants.  An edited or upgraded package
never runs stale machine code, and kernels that an edit does not concern are not compiled again, in whichever
directory the package is installed or checked out.  Directories that are no longer used are removed when new
ones are made.  Kernels of other programs stay where numba keeps them.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import shutil
import time
from pathlib import Path

import numba

PACKAGE = Path(__file__).resolve().parent.parent.parent
KEPT_AGE = 14 * 86400.0
"""s without use after which a directory of compiled kernels is removed."""
KEPT_COUNT, KEPT_ALWAYS = 600, 86400.0
"""Directories kept however often a developer edits (a version has about 90), and the age in s below which
none is removed: it may be in use in another checkout."""
_DIRECTORY_NAME = re.compile(r"[0-9a-f]{16}")

_MARKS = (b"@compiled", b"@intrinsic", b"(NamedTuple)", b"ClassVar[tuple[Callable")
"""What a file contains that defines or lists kernels, or defines what they are passed."""
_IMPORT = re.compile(r"^from (sitl_bridge[\w.]*) import (?:\(([^)]*)\)|([^\n#]*))", re.MULTILINE)


def _imported(package: Path, source: bytes, everything: bool) -> set[Path]:
    """Files of the package from which a source imports.

    Args:
        package: directory.
        source: content of a Python file.
        everything: modules that functions and classes come from, too; else whole modules, and modules that
            constants (names in capitals) come from.
    """
    found = set()
    for module, several, one in _IMPORT.findall(source.decode("utf-8")):
        base = package.joinpath(*module.split(".")[1:])
        names = [name.split(" as ")[0].strip() for name in (several or one).split(",")]
        found |= {base / f"{name}.py" for name in names}
        if everything or any(name.lstrip("_").isupper() for name in names):
            found |= {base.with_suffix(".py"), base / "__init__.py"}
    return found


def kernel_sources(package: Path = PACKAGE) -> dict[Path, bytes]:
    """The files that make up kernels, and their content.

    They are those that define kernels or named tuples, those that list kernels by class, and those that
    constants or whole modules are imported from there.  Numba compiles a constant's value into the code, and
    tells named tuples apart by their names and types, but not by their fields.
    """
    sources = {path: path.read_bytes() for path in sorted(package.rglob("*.py"))}
    todo = [path for path, text in sources.items() if any(mark in text for mark in _MARKS)]
    todo.remove(package / "base" / "kernels" / Path(__file__).name)  # of the marks alone
    todo.append(package / "base" / "kernels" / "compiled.py")  # decides how every kernel is compiled
    found: dict[Path, bytes] = {}
    while todo:
        path = todo.pop()
        if path in found or path not in sources:
            continue
        found[path] = sources[path]
        todo += _imported(package, sources[path], everything=False)
    return dict(sorted(found.items()))


@functools.cache
def _sources() -> dict[Path, bytes]:
    return kernel_sources()


def sources_of(path: Path) -> list[Path]:
    """The files that the kernels of a file are made of, sorted.

    Args:
        path: of a file of the package that defines kernels, or of any other file: the kernels of that one may
            be made of all.
    """
    sources = _sources()
    if path not in sources:
        return list(sources)
    found: set[Path] = set()
    todo = [path, PACKAGE / "base" / "kernels" / "compiled.py"]
    while todo:
        each = todo.pop()
        if each not in found and each in sources:
            found.add(each)
            todo += _imported_kernels(each)
    return sorted(found)


@functools.cache
def _imported_kernels(path: Path) -> set[Path]:
    return _imported(PACKAGE, _sources()[path], everything=True) & _sources().keys()


@functools.cache
def _digest(path: Path) -> bytes:
    return hashlib.sha256(_sources()[path]).digest()


def _root() -> Path:
    given = os.environ.get("NUMBA_CACHE_DIR")
    if given:
        return Path(given) / "sitl-bridge-kernels"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sitl-bridge"


def cache_directory(path: Path) -> Path:
    """Directory of the compiled kernels of a file as it is now.

    It is in ``NUMBA_CACHE_DIR`` where that is set; otherwise in ``$XDG_CACHE_HOME/sitl-bridge`` or
    ``~/.cache/sitl-bridge``.  Kernels of a file outside the package have a directory of their own within the
    one that is returned.

    Args:
        path: of the file that defines the kernels.
    """
    digest = hashlib.sha256(numba.__version__.encode())
    for source in sources_of(path):
        digest.update(str(source.relative_to(PACKAGE)).encode() + _digest(source))
    return _root() / digest.hexdigest()[:16]


def is_cached(path: Path, kernel: str) -> bool:
    """Whether the cache holds machine code of a kernel that Python calls.

    Args:
        path: of the file of the package that defines it.
        kernel: its name.
    """
    return any(cache_directory(path).glob(f"{path.stem}.{kernel}-*.nbi"))


@functools.cache
def is_own(path: str) -> bool:
    """Whether a file is one of the package's that define kernels."""
    return Path(path).resolve() in _sources()


@functools.cache
def used_directory(path: str) -> str:
    """``cache_directory`` of a file, made where it is new and marked as used now.

    If it cannot be made or written, compiled.py reports that when there is code to keep.
    """
    directory = cache_directory(Path(path).resolve())
    with contextlib.suppress(OSError):
        new = not directory.is_dir()
        directory.mkdir(parents=True, exist_ok=True)
        os.utime(directory)
        if new:
            _remove_outdated_once(directory.parent)
    return str(directory)


@functools.cache
def _remove_outdated_once(root: Path) -> None:
    remove_outdated(root, time.time())


def remove_outdated(root: Path, now: float) -> list[Path]:
    """Remove the compiled kernels of sources that are no longer used.

    A directory counts as used when a process starts with it.  One that runs does not mind: its code is in
    memory, and numba makes the directory again before it writes.

    Args:
        root: holds the directories.
        now: s since the epoch.

    Returns:
        what was removed.
    """
    ages = {}
    for path in root.iterdir():
        if _DIRECTORY_NAME.fullmatch(path.name) is None:
            continue  # not of this program
        with contextlib.suppress(FileNotFoundError):  # another process removes it right now
            ages[path] = now - path.stat().st_mtime
    removed = []
    for rank, path in enumerate(sorted(ages, key=lambda path: ages[path])):
        if ages[path] > KEPT_AGE or (rank >= KEPT_COUNT and ages[path] > KEPT_ALWAYS):
            shutil.rmtree(path, ignore_errors=True)
            removed.append(path)
    return removed
