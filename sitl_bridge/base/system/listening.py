"""Finds whether a program listens on a TCP port of this host: the health check of a container.

It reads the list of sockets, because a test connection would be taken for a flight stack.  It imports little,
because it runs every few seconds.
"""

from __future__ import annotations

import sys
from pathlib import Path

LISTEN = "0A"
"""State of a listening socket in /proc/net/tcp."""


def is_listening(port: int) -> bool:
    """Whether a program listens on the port, in this network namespace."""
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        if not table.exists():
            continue
        for line in table.read_text(encoding="ascii").splitlines()[1:]:
            _, local, _, state, *_ = line.split()
            if state == LISTEN and int(local.rsplit(":", 1)[1], 16) == port:
                return True
    return False


if __name__ == "__main__":
    sys.exit(0 if is_listening(int(sys.argv[1])) else 1)
