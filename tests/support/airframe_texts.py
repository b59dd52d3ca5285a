"""Text of shipped airframe files, for tests that change lines of it."""

from __future__ import annotations

from pathlib import Path

from support.paths import AIRFRAMES


def spell_out(name: str) -> str:
    """An airframe file with the sensors and sources of its suite in it."""
    text = (AIRFRAMES / f"{name}.yaml").read_text(encoding="utf-8")
    (line,) = [line for line in text.splitlines() if line.startswith("sensors: ")]
    suite = (AIRFRAMES / "sensors" / f"{line.removeprefix('sensors: ')}.yaml").read_text(encoding="utf-8")
    sources, sensors = suite.split("sources:\n")[1].split("sensors:\n", 1)
    return text.replace("sources:\n", f"sources:\n{sources}").replace(line, f"sensors:\n{sensors.rstrip()}")


def write_based(path: Path, text: str, base: str = "iris") -> Path:
    """An airframe file in a directory, based on a shipped one."""
    file = path / "mine.yaml"
    file.write_text(f"base: {base}\nname: mine\ndescription: a variant\n{text}", encoding="utf-8")
    return file
