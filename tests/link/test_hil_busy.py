"""A flight stack that a busy machine keeps from answering is waited for; one that sleeps is not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from support.paths import ROOT
from support.peer import Peer

from sitl_bridge.core.simulation.simulation import Simulation
from sitl_bridge.link.hil import links
from sitl_bridge.link.hil.link_sockets import is_busy, process_of_peer
from sitl_bridge.link.hil.server import LockstepServer

Make = Callable[..., Simulation]
Wait = Callable[..., None]
TIMEOUT = 0.3

PEER = """
import signal, sys, threading
from support.peer import Peer
SIGNALS = {signal.SIGUSR1, signal.SIGUSR2}
signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # in every thread: they are taken by sigwait alone
computing, awake = threading.Event(), threading.Event()
awake.set()

def delay(_peer):
    while computing.is_set():
        pass
    awake.wait()
    return b""

peer = Peer(int(sys.argv[1]))
peer.before_answer = delay
while True:
    event = computing if signal.sigwait(SIGNALS) == signal.SIGUSR1 else awake
    event.clear() if event.is_set() else event.set()
"""
"""SIGUSR1: begins or stops to compute in place of an answer.  SIGUSR2: begins or stops to sleep."""


@contextmanager
def flying_peer(server: LockstepServer, wait_for: Wait) -> Iterator[subprocess.Popen[bytes]]:
    """A flight stack in a process of its own, in lockstep."""
    path = os.pathsep.join([str(ROOT / "tests"), *sys.path])
    with subprocess.Popen(
        [sys.executable, "-c", PEER, str(server.ports[0])], env=os.environ | {"PYTHONPATH": path}
    ) as peer:
        try:
            wait_for(lambda: server.status().links[0].lockstep and server.status().steps > 100, "lockstep")
            yield peer
        finally:
            peer.kill()


def test_a_flight_stack_that_computes_is_waited_for_in_lockstep(
    serve: Callable[..., LockstepServer], wait_for: Wait
) -> None:
    notes: list[str] = []
    server = serve(notes=notes, timeout=TIMEOUT)
    with flying_peer(server, wait_for) as peer:
        peer.send_signal(signal.SIGUSR1)
        wait_for(lambda: any("the machine is busy" in note for note in notes), "the wait to be told")
        steps = server.status().steps
        wait_for(lambda: server.links.extensions[0][1] >= 3, "three longer waits")
        assert server.status().steps == steps, "time stands still"
        assert server.status().links[0].lockstep
        peer.send_signal(signal.SIGUSR1)
        wait_for(lambda: server.status().steps > steps + 100, "the run to go on")
        assert server.status().links[0].lockstep
    assert sum("machine is busy" in note for note in notes) == 1
    assert not [note for note in notes if "does not answer" in note]


def test_a_flight_stack_that_computes_without_end_counts_as_stalled(
    serve: Callable[..., LockstepServer], wait_for: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "MOST_EXTENSIONS", 2)
    notes: list[str] = []
    server = serve(notes=notes, timeout=TIMEOUT)
    with flying_peer(server, wait_for) as peer:
        peer.send_signal(signal.SIGUSR1)
        wait_for(lambda: any("does not answer" in note for note in notes), "the stall to be told")


def test_a_flight_stack_of_another_process_that_sleeps_is_not_waited_for(
    serve: Callable[..., LockstepServer], wait_for: Wait
) -> None:
    notes: list[str] = []
    server = serve(notes=notes, timeout=TIMEOUT)
    with flying_peer(server, wait_for) as peer:
        ours = server.links.sockets.connections[0]
        assert ours is not None
        assert process_of_peer(ours) == peer.pid
        peer.send_signal(signal.SIGUSR2)
        wait_for(lambda: any("real time" in note for note in notes), "the stall to be told")
        peer.send_signal(signal.SIGUSR2)
        wait_for(lambda: server.status().links[0].lockstep, "lockstep again")
    assert not [note for note in notes if "machine is busy" in note]


def test_time_stands_still_with_a_flight_stack_that_is_stopped_between_frame_and_answer(
    serve: Callable[..., LockstepServer], wait_for: Wait
) -> None:
    class Dated(list[tuple[int, bool]]):
        def append(self, stall: tuple[int, bool]) -> None:
            times.append(server.simulation.time)
            super().append(stall)

    def computing() -> bool:
        """A frame has been read and no step follows for a third of the timeout."""
        before = server.status().steps
        time.sleep(TIMEOUT / 3)
        return server.status().steps == before and server.links.sockets.unread(0) == 0 and is_busy(peer.pid)

    notes: list[str] = []
    stalls, times = Dated(), list[int]()
    server = serve(notes=notes, stalls=stalls, timeout=TIMEOUT)
    with flying_peer(server, wait_for) as peer:
        peer.send_signal(signal.SIGUSR1)
        wait_for(computing, "the flight stack to compute in place of an answer")
        steps = server.status().steps
        peer.send_signal(signal.SIGSTOP)
        wait_for(lambda: any("does not read its link" in note for note in notes), "the stall to be told")
        time.sleep(2 * TIMEOUT)
        assert server.status().steps == steps, "time stands still"
        peer.send_signal(signal.SIGUSR1)
        peer.send_signal(signal.SIGCONT)
        wait_for(lambda: server.status().steps > steps + 100, "the run to go on")
        assert server.status().links[0].lockstep
    assert not [note for note in notes if "real time" in note]
    assert stalls == [(0, True), (0, False)]
    assert times[0] == times[1], "the stall took no simulated time"


def test_an_answer_that_arrives_while_its_process_is_looked_for_is_no_stall(
    serve: Callable[..., LockstepServer], wait_for: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes: list[str] = []
    server = serve(notes=notes, timeout=TIMEOUT)
    peer, answers, asked, over = (
        Peer(server.ports[0]),
        threading.Event(),
        threading.Event(),
        threading.Event(),
    )
    answers.set()

    def late(_peer: Peer) -> bytes:
        answers.wait()
        return b""

    def busy(_process: int | None) -> bool:
        """The answer comes during the search, and the flight stack sleeps after it."""
        asked.set()
        answers.set()
        while not (server.links.sockets.readable(0) or over.is_set()):
            time.sleep(0.001)
        return False

    try:
        peer.before_answer = late
        monkeypatch.setattr(links, "is_busy", busy)
        wait_for(lambda: server.status().links[0].lockstep and server.status().steps > 100, "lockstep")
        answers.clear()
        wait_for(asked.is_set, "the question")
        steps = server.status().steps
        wait_for(lambda: server.status().steps > steps + 100, "the run to go on")
        assert server.status().links[0].lockstep
        assert not [note for note in notes if "does not answer" in note]
    finally:
        answers.set()
        over.set()
        peer.close()


def test_a_process_is_busy_while_it_computes_and_no_longer_when_it_is_stopped(wait_for: Wait) -> None:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        try:
            wait_for(lambda: is_busy(busy.pid), "the process to compute")
            busy.send_signal(signal.SIGSTOP)
            wait_for(lambda: not is_busy(busy.pid), "the process to stop")
        finally:
            busy.kill()
    assert not is_busy(busy.pid), "it has ended"
    assert not is_busy(os.getpid()), "this process looks at itself"
