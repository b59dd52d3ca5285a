"""The package is typed for its users: mypy checks a script of theirs against it, and finds their mistakes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.paths import ROOT

SCRIPT = """
import sitl_bridge as sb

fleet = sb.Sitl(["iris", "x500"], world=sb.World(wind="4@270"))
result: sb.FlightResult = sb.fly("square.plan", airframe="x500", speed=10.0)
print(result.succeeded, result.directory.name)
"""
MISTAKE = """
import sitl_bridge as sb

sb.fly("square.plan", sped=10.0)
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_mypy_checks_a_users_script(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text(SCRIPT, "utf-8")
    (tmp_path / "bad.py").write_text(MISTAKE, "utf-8")
    (tmp_path / "sitl_bridge").symlink_to(ROOT / "sitl_bridge")
    (tmp_path / "mypy.ini").write_text("[mypy]\nstrict = true\nignore_missing_imports = true\n", "utf-8")

    def checked(name: str) -> str:
        command = [sys.executable, "-m", "mypy", "--follow-imports", "silent", name]
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=800, check=False
        )
        return done.stdout + done.stderr

    assert "Success" in checked("good.py")
    assert 'Unexpected keyword argument "sped"' in checked("bad.py")
