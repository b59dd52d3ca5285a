"""A directory that looks like a PX4 build to the search for one."""

from __future__ import annotations

from pathlib import Path

from sitl_bridge.link.px4.find import SIMULATION, START_SCRIPT


def make_build(root: Path, program: bytes | str = b"#!/bin/sh\n") -> Path:
    """Write a build whose ``bin/px4`` is a program; returns the build's directory."""
    (root / "bin").mkdir(parents=True)
    executable = root / "bin" / "px4"
    executable.write_bytes(program.encode() if isinstance(program, str) else program)
    executable.chmod(0o755)
    for module in SIMULATION:
        (root / "bin" / f"px4-{module}").symlink_to("px4")
    (root / START_SCRIPT).parent.mkdir(parents=True)
    (root / START_SCRIPT).write_text("#!/bin/sh\n")
    return root
