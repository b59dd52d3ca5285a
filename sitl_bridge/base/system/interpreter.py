"""The Python interpreter of a mission script: of a separate environment, or this program's."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from sitl_bridge.base.errors import UserError

ANSWER_LIMIT = 30.0
"""s of wall time within which an interpreter must have read a script; a cold start takes some seconds."""

THIS = Path(sys.executable)
"""This program's interpreter."""

_VERSION = (
    "import importlib.metadata as m, sys; print(*[d.version for d in m.distributions(name=sys.argv[1])][:1])"
)
_READ = "import ast, sys; ast.parse(open(sys.argv[1], 'rb').read(), sys.argv[1]); print('read')"


def find_interpreter(name: str, base: Path = Path()) -> Path:
    """Find an interpreter.

    Args:
        name: a path, or the name of a program on PATH.
        base: directory that a relative path starts from.

    Raises:
        UserError: if there is none, or it may not be executed.
    """
    if os.sep not in name:
        found = shutil.which(name)
        if found is None:
            raise UserError(f"--python: there is no program {name} on PATH; give the interpreter's path")
        return Path(found)
    # Links are not followed: an environment's interpreter is a link, and finds its packages by its own path.
    path = (base / Path(name).expanduser()).absolute()
    if path.is_dir():
        inside = path / "bin" / "python"
        hint = f"; give {inside}" if inside.is_file() else ""
        raise UserError(f"--python: {path} is a directory, not a Python interpreter{hint}")
    if not path.is_file():
        raise UserError(f"--python: {path}: no such file")
    if not os.access(path, os.X_OK):
        raise UserError(f"--python: {path} is not executable")
    return path


def check_interpreter(interpreter: Path, script: Path) -> None:
    """Let an interpreter parse a script, without running it.

    Raises:
        UserError: if the interpreter does not run, or the script is not a program for it.
    """
    done = _run(interpreter, _READ, str(script))
    lines = done.stderr.decode("utf-8", "replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    if done.returncode == 0 and done.stdout.strip() == b"read":
        return
    if "Error: " in last and str(script) in done.stderr.decode("utf-8", "replace"):
        raise UserError(f"{script}: {interpreter} cannot parse it: {last}")
    ended = f"it ended with exit code {done.returncode}" + (f" ({last})" if last else "")
    raise UserError(f"--python: {interpreter} is not a Python interpreter: {ended}")


def package_version(interpreter: Path, name: str) -> str | None:
    """Version of a package that an interpreter finds; None if it finds none.

    Raises:
        UserError: if the interpreter does not answer.
    """
    return _run(interpreter, _VERSION, name).stdout.decode().strip() or None


def _run(interpreter: Path, program: str, argument: str) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            [str(interpreter), "-c", program, argument],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=ANSWER_LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise UserError(f"--python: {interpreter} did not answer within {ANSWER_LIMIT:g} s") from error
    except OSError as error:
        raise UserError(f"--python: {interpreter} cannot be run: {error.strerror}") from error
