"""Reports on the terminal that the simulation is compiled, which takes up to a minute after an update."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from sitl_bridge.base.kernels.announcement import announce_compilation


@contextlib.contextmanager
def compilation_shown() -> Iterator[None]:
    """Within the block, a compilation prints one line on stderr if that is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    with announce_compilation(lambda line: print(line, file=sys.stderr, flush=True)):
        yield
