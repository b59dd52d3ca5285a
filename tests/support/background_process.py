"""Programs that tests run beside themselves, with their output in a file."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def background_process(
    command: list[str], log: Path, *, stop: signal.Signals = signal.SIGINT, **options: Any
) -> Iterator[subprocess.Popen[bytes]]:
    """A process within the block; it gets the signal at the end, and is killed a minute later."""
    with (
        log.open("w") as output,
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, **options
        ) as process,
    ):
        try:
            yield process
        finally:
            process.send_signal(stop)
            try:
                process.wait(60.0)
            except subprocess.TimeoutExpired:
                process.kill()
