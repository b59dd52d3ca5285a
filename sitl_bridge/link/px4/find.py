"""Finding a PX4 SITL build on this machine, and its version."""

from __future__ import annotations

import mmap
import os
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from sitl_bridge.base.errors import UserError

USUAL_BUILD = "px4_sitl_default"
PACKAGE = Path("/opt/px4")
"""Place of PX4's Debian package, and of its container."""
START_SCRIPT = Path("etc/init.d-posix/rcS")
SIMULATION = ("simulator_mavlink", "pwm_out_sim")
"""PX4's modules that fly with a simulator; the board file of a build may leave them out."""
_TAG = re.compile(r'PX4_GIT_TAG_STR\s+"([^"]+)"')
_TAG_IN_BINARY = re.compile(rb"\0(v[0-9]+\.[0-9]+\.[0-9]+[-+.\w]*)\0")


@dataclass(frozen=True)
class Px4Build:
    """A PX4 build that can be started."""

    root: Path  # the build directory or install prefix
    executable: Path  # its ``bin/px4``
    etc: Path  # its start-up files
    version: str  # git tag of the build, ``unknown`` if it has none


def candidates(explicit: Path | None) -> list[tuple[str, Path]]:
    """Return the locations searched for PX4, in order, each with its origin."""
    if explicit is not None:
        return [("--px4", explicit)]
    if os.environ.get("PX4_DIR"):
        return [("PX4_DIR", Path(os.environ["PX4_DIR"]))]
    found = [
        ("the default location", Path.home() / "PX4-Autopilot"),
        ("the location of PX4's package and container", PACKAGE),
    ]
    on_path = shutil.which("px4")
    if on_path is not None:
        found.append(("px4 on PATH", Path(on_path)))
    return found


def find_px4(explicit: Path | None = None) -> Px4Build:
    """Find the PX4 to fly with: ``--px4``, else ``PX4_DIR``, ~/PX4-Autopilot, /opt/px4, or ``px4`` on PATH.

    Each may be a source tree with a build, a build directory, an install prefix or the ``px4`` executable.

    Raises:
        UserError: with the searched locations and the remedy.
    """
    tried = []
    for reason, place in candidates(explicit):
        for root in _roots(place.expanduser()):
            executable = root / "bin" / "px4"
            if executable.is_file():
                return _build(root, executable)
        tried.append(f"{place} ({reason}) {_problem(place.expanduser())}")
    raise UserError(
        f"no PX4 build found: {', '.join(tried)}.  Build one with `make px4_sitl` in a PX4-Autopilot"
        " checkout, then name it with --px4 DIR or PX4_DIR"
    )


def _roots(place: Path) -> list[Path]:
    """Return the build directories that a path may refer to, the most likely first.

    Builds without lockstep do not wait for the simulator and are ignored.
    """
    if place.is_file():
        return [place.resolve().parent.parent]
    builds = sorted(
        (place / "build").glob("px4_sitl_*"), key=lambda path: (path.name != USUAL_BUILD, path.name)
    )
    return [place, *(path for path in builds if "nolockstep" not in path.name)]


def _problem(place: Path) -> str:
    if not place.exists():
        return "does not exist"
    if (place / "ROMFS" / "px4fmu_common").is_dir():
        return f"is a source tree without a build; run: make -C {place} px4_sitl"
    return "contains no bin/px4"


def _build(root: Path, executable: Path) -> Px4Build:
    if not os.access(executable, os.X_OK):
        raise UserError(f"{executable} is not executable; run: chmod +x {executable}")
    if _machine(executable) not in (None, _machine(Path(sys.executable).resolve())):
        raise UserError(f"{executable} was built for another kind of machine; build PX4 on this one")
    if not (root / START_SCRIPT).is_file():
        raise UserError(f"{root} has no {START_SCRIPT}: the build is incomplete; build it again")
    missing = [name for name in SIMULATION if not (executable.parent / f"px4-{name}").exists()]
    if missing:
        raise UserError(
            f"{root} was built without {' and '.join(missing)}, so it cannot fly in a simulator; set"
            " CONFIG_COMMON_SIMULATION=y in its board file and build it again"
        )
    return Px4Build(root, executable.resolve(), (root / "etc").resolve(), _version(root, executable))


def _machine(executable: Path) -> bytes | None:
    """Return word size and instruction set of an ELF file (e_ident[EI_CLASS] and e_machine), or None."""
    with executable.open("rb") as file:
        header = file.read(20)
    return header[4:5] + header[18:20] if header.startswith(b"\x7fELF") else None


def _version(root: Path, executable: Path) -> str:
    """Return the tag from the header of PX4's build, or the tag in the executable."""
    header = root / "src" / "lib" / "version" / "build_git_version.h"
    if header.is_file():
        text = header.read_text(encoding="utf-8")
        tag = _TAG.search(text)
        return tag.group(1) if tag else "unknown"
    with executable.open("rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return "unknown"
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            found = _TAG_IN_BINARY.search(content)
            return found.group(1).decode("ascii") if found else "unknown"
