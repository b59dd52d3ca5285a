"""Finding a PX4 SITL build on this machine."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from sitl_bridge.errors import UserError

_BUILD = Path("build/px4_sitl_default")


@dataclass(frozen=True)
class Px4Build:
    """A PX4 that can be started.

    Attributes:
        root: the build directory or install prefix.
        executable: ``bin/px4`` in it.
        etc: its start-up files.
        version: as the build's own git header says, ``unknown`` where there is none.
    """

    root: Path
    executable: Path
    etc: Path
    version: str


def candidates(explicit: Path | None) -> list[tuple[str, Path]]:
    """Where PX4 is looked for, in order, each with the reason."""
    if explicit is not None:
        return [("--px4", explicit)]
    if os.environ.get("PX4_DIR"):
        return [("PX4_DIR", Path(os.environ["PX4_DIR"]))]
    return [("the usual place", Path.home() / "PX4-Autopilot"), ("the container's place", Path("/opt/px4"))]


def find_px4(explicit: Path | None = None) -> Px4Build:
    """The PX4 build to fly with: ``--px4``, else ``PX4_DIR``, else ~/PX4-Autopilot, else /opt/px4.

    Each may be a source tree with a build in it, a build directory or an install prefix.

    Raises:
        UserError: saying what was looked at and what to type.
    """
    tried = []
    for reason, place in candidates(explicit):
        for root in (place, place / _BUILD):
            executable = root / "bin" / "px4"
            if not executable.is_file():
                continue
            if not os.access(executable, os.X_OK):
                raise UserError(f"{executable} is not executable; type: chmod +x {executable}")
            if not (root / "etc" / "init.d-posix" / "rcS").is_file():
                raise UserError(f"{root} has no etc/init.d-posix/rcS: is the build complete?")
            return Px4Build(root, executable.resolve(), (root / "etc").resolve(), _version(root))
        tried.append(f"{place} ({reason})")
    raise UserError(
        f"no PX4 build found in {' or '.join(tried)}; build one with `make px4_sitl` in a PX4-Autopilot"
        " checkout, then name it with --px4 DIR or PX4_DIR"
    )


def _version(root: Path) -> str:
    """Tag of the build from the header that PX4's own build system writes."""
    for header in root.glob("src/lib/version/build_git_version.h"):
        match = re.search(r'PX4_GIT_TAG_STR\s+"([^"]+)"', header.read_text(encoding="utf-8"))
        if match:
            return match.group(1)
    return "unknown"
