"""Two hosts on this machine: network namespaces joined by a line with delay, loss and cuts.

Packets pass between a TUN device in each namespace through a relay in this process, so TCP works on the line
as it does on a real one.
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import os
import random
import select
import struct
import subprocess
import threading
import time
from pathlib import Path
from typing import Self

CLONE_NEWNET = 0x40000000
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
NEAR, FAR = "10.99.0.1", "10.99.0.2"
LIBC = ctypes.CDLL(None, use_errno=True)


def available() -> bool:
    """Whether this process may make namespaces and TUN devices."""
    probe = ["unshare", "-n", "ip", "link", "set", "lo", "up"]
    return (
        os.geteuid() == 0
        and Path("/dev/net/tun").exists()
        and subprocess.run(probe, capture_output=True, check=False).returncode == 0
    )


class Host:
    """A network namespace with an address at one end of the line."""

    def __init__(self, address: str, peer: str) -> None:
        self.address = address
        self.keeper = subprocess.Popen(["unshare", "-n", "sleep", "infinity"])
        home = os.open("/proc/self/ns/net", os.O_RDONLY)
        try:
            self._enter()
            self.device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            fcntl.ioctl(self.device, TUNSETIFF, struct.pack("16sH", b"line", IFF_TUN | IFF_NO_PI))
            for words in (
                ("link", "set", "lo", "up"),
                ("addr", "add", address, "peer", peer, "dev", "line"),
                ("link", "set", "line", "up"),
            ):
                subprocess.run(["ip", *words], check=True)
        finally:
            _set_namespace(home)
            os.close(home)

    def _enter(self) -> None:
        own = Path("/proc/self/ns/net").stat().st_ino
        path = Path(f"/proc/{self.keeper.pid}/ns/net")
        while path.stat().st_ino == own:  # until unshare has made its own
            assert self.keeper.poll() is None
            time.sleep(0.005)
        descriptor = os.open(path, os.O_RDONLY)
        _set_namespace(descriptor)
        os.close(descriptor)

    def command(self, *words: str) -> list[str]:
        """A command line that runs on this host."""
        return ["nsenter", "-t", str(self.keeper.pid), "-n", *words]

    def close(self) -> None:
        os.close(self.device)
        self.keeper.kill()
        self.keeper.wait()


def _set_namespace(descriptor: int) -> None:
    if LIBC.setns(descriptor, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


class Line:
    """The line between two hosts.

    Args:
        delay: s one way.
        loss: share of the packets that are lost, each way.
    """

    def __init__(self, delay: float = 0.0, loss: float = 0.0, seed: int = 1) -> None:
        self.delay, self.loss = delay, loss
        self.cut = False
        self.carried = self.dropped = 0
        self._random = random.Random(seed)
        self._ended = threading.Event()
        self._relay = threading.Thread(target=self._carry, daemon=True)

    def __enter__(self) -> Self:
        self.near, self.far = Host(NEAR, FAR), Host(FAR, NEAR)
        self._relay.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._relay.join()
        self.near.close()
        self.far.close()

    def _carry(self) -> None:
        other = {self.near.device: self.far.device, self.far.device: self.near.device}
        waiting: list[tuple[float, int, int, bytes]] = []
        number = 0
        while not self._ended.is_set():
            now = time.monotonic()
            while waiting and waiting[0][0] <= now:
                _, _, device, packet = heapq.heappop(waiting)
                os.write(device, packet)
            left = min(0.1, waiting[0][0] - now) if waiting else 0.1
            for device in select.select(list(other), [], [], left)[0]:
                packet = os.read(device, 65536)
                if self.cut or self._random.random() < self.loss:
                    self.dropped += 1
                    continue
                self.carried += 1
                number += 1
                heapq.heappush(waiting, (time.monotonic() + self.delay, number, other[device], packet))
