"""The links of all vehicles: new and closed connections, overdue answers, faults, and messages about them.

All of it runs on the lockstep thread, while the compiled loop does not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence

import numpy as np
from pymavlink.dialects.v20 import common as mavlink

from sitl_bridge.base.errors import UserError
from sitl_bridge.link.hil.link_errors import FAULTS
from sitl_bridge.link.hil.link_sockets import LinkSockets, is_busy, is_stopped
from sitl_bridge.link.hil.link_state import (
    LINK,
    LOCKSTEP_STATES,
    Answer,
    LinkState,
    OnStall,
    frames_unread,
    when_overdue,
)
from sitl_bridge.link.hil.link_status import LinkStatus
from sitl_bridge.link.hil.loop import ARMED, SEND_BUFFER, LinkArrays
from sitl_bridge.link.hil.message_layout import COMPONENT_ID, MAX_STEP_BYTES, SYSTEM_ID
from sitl_bridge.link.mavlink.message import MavlinkMessage, pack

FROZEN_AFTER = 0.25
"""s of frames that lie unread before a flight stack that does not answer counts as frozen: far more than a
busy machine delays a reader, and little enough to catch up at once."""
FAULT_INTERVAL = 0.2
"""s of wall time between checks of the links' fault counters."""
MOST_EXTENSIONS = 10
"""Times ``timeout`` that an answer of a busy flight stack is waited for.  Measured: answers took up to 2.6 s
beside 16 other runnable threads on two processors."""
_NOT_WAITED_FOR = (LinkState.STARTING, LinkState.SILENT, LinkState.FROZEN, LinkState.LEFT_BEHIND)


class Links:
    """The links to the flight stacks of n vehicles.

    Args:
        ports: TCP ports, for messages.
        on_stall: what to do if an answer is overdue.
        timeout: ns after which an answer is overdue.
        step: us of simulated time a step.
        note_stall: takes the vehicle, and whether its flight stack stops answering or is in lockstep again.
        prompt: vehicles whose flight stacks answer every frame from the first on.
    """

    def __init__(
        self,
        arrays: LinkArrays,
        sockets: LinkSockets,
        ports: Sequence[int],
        *,
        on_stall: OnStall,
        timeout: int,
        step: int,
        notify: Callable[[str], None],
        restart: Callable[[int], None],
        note_stall: Callable[[int, bool], None],
        prompt: Collection[int] = (),
    ) -> None:
        self.arrays, self.sockets, self.ports = arrays, sockets, ports
        self._records = arrays.links
        self._on_stall, self._timeout, self._step = on_stall, timeout, step
        self._notify, self._note_stall = notify, note_stall
        self._restart, self._prompt = restart, prompt
        self._flown: set[int] = set()  # vehicles whose flight stack has gone
        self._encoder = mavlink.MAVLink(None, srcSystem=SYSTEM_ID, srcComponent=COMPONENT_ID)
        self._past_faults = [dict.fromkeys(FAULTS, 0) for _ in ports]  # of connections that have ended
        self._reported_faults: set[tuple[int, str]] = set()  # vehicle, kind
        self._faults_due = 0.0
        self._reported_stalls: dict[int, int] = {}  # vehicle: its answers when its stall was reported
        self.extensions: dict[int, tuple[int, int]] = {}  # vehicle: its answers, longer waits since
        self._reported_busy: set[int] = set()

    @property
    def connected(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """(n,) whether a flight stack is connected."""
        connected: np.ndarray[tuple[int], np.dtype[np.bool_]] = self._records["fd"] >= 0
        return connected

    @property
    def overdue(self) -> bool:
        """Whether time waits for an answer that is overdue."""
        return bool((self._records["state"] == LinkState.OVERDUE).any())

    def status(self) -> tuple[LinkStatus, ...]:
        """A snapshot of every link; safe from any thread."""
        return tuple(
            LinkStatus(
                port=port,
                state=LinkState(int(link["state"])),
                answers=int(link["answers"]),
                armed=bool(int(link["mode"]) & ARMED),
                faults=self._faults_of(i),
            )
            for i, (port, link) in enumerate(zip(self.ports, self._records, strict=True))
        )

    def accept(self, begun: bool) -> bool:
        """Accept new connections; returns whether there was one.

        Args:
            begun: whether time has begun, so that it does not wait for the other vehicles.
        """
        accepted = False
        for i in range(len(self.ports)):
            waiting = self.sockets.accept_waiting(i)
            if waiting is None:
                continue
            connection, address = waiting
            if self.sockets.connections[i] is not None:
                self.drop_ended()
            if self.sockets.connections[i] is not None:
                connection.close()
                self._say(i, f"refused a second client from {address}")
                continue
            self.sockets.keep(i, connection)
            self._connect(i, connection.fileno(), begun)
            accepted = True
        return accepted

    def _connect(self, vehicle: int, fd: int, begun: bool) -> None:
        """Transitions a and n of link_state.py."""
        self._records[vehicle] = np.zeros((), LINK)
        link = self._records[vehicle]
        link["state"] = LinkState.LOCKSTEP if vehicle in self._prompt else LinkState.STARTING
        link["answer"] = Answer.NOT_AWAITED
        link["fd"], link["wait_start"] = fd, time.monotonic_ns()
        self.extensions.pop(vehicle, None)
        self._reported_busy.discard(vehicle)
        if vehicle in self._flown:
            self._restart(vehicle)
            self._say(vehicle, "a flight stack connected; its vehicle is back at its start")
            return
        missing = [str(port) for port, there in zip(self.ports, self.connected, strict=True) if not there]
        wait = "" if begun or not missing else f"; waiting for {', '.join(missing)}"
        self._say(vehicle, f"a flight stack connected{wait}")

    def drop_ended(self) -> None:
        """Drop connections that the peer closed while the loop did not run."""
        for i, link in enumerate(self._records):
            if self.sockets.has_ended(i):
                link["state"] = LinkState.CLOSED
        self.drop_closed()

    def drop_closed(self) -> None:
        """Transition k of link_state.py, for every closed link."""
        for i, link in enumerate(self._records):
            if link["state"] != LinkState.CLOSED:
                continue
            self._report_faults_of(i)
            self._past_faults[i] = self._faults_of(i)
            self.sockets.drop(i)
            if self._reported_stalls.pop(i, None) is not None:
                self._note_stall(i, False)
            self._flown.add(i)
            self._records[i] = np.zeros((), LINK)
            self._records[i]["fd"], self._records[i]["answer"] = -1, Answer.NOT_AWAITED
            self._say(
                i,
                "the flight stack closed the connection; PX4 never reconnects, so its process has ended."
                "  Another one may connect",
            )

    def decide_overdue(self) -> None:
        """Decide how to continue without an overdue answer: wait, or let time run (``when_overdue``).

        Raises:
            UserError: if the run is to end then.
        """
        now = time.monotonic_ns()
        seconds = self._timeout * 1e-9
        for i, link in enumerate(self._records):
            late = link["answer"] == Answer.AWAITED and now - link["wait_start"] >= self._timeout
            if link["fd"] < 0 or not late:
                continue
            if self._answer_may_come(i):
                link["wait_start"] = now
                continue
            if self._on_stall == "abort":
                raise UserError(f"port {self.ports[i]}: no answer for {seconds:g} s (--on-stall abort)")
            link["wait_start"] = now
            # One that was stopped after it read a frame, and before it answered, reads no more.
            stopped = is_stopped(self.sockets.process(i))
            reads = not stopped and self.sockets.unread(i) == 0 and link["out_end"] == 0
            link["state"] = state = when_overdue(link, self._on_stall, self._others_fly(i), reads)
            if state is LinkState.LEFT_BEHIND:
                link["streak"], link["answer"] = 0, Answer.NOT_AWAITED
                self._report_stall(i, f"does not answer for {seconds:g} s; the others fly on without it")
            elif state is LinkState.SILENT:
                self._report_stall(
                    i,
                    f"does not answer for {seconds:g} s; the simulation continues at real time with its last"
                    " commands until it answers again",
                )
            elif state is not LinkState.STARTING:
                what = "does not answer" if reads else "does not read its link"
                self._report_stall(i, f"{what} for {seconds:g} s; the simulation waits until it does")

    def _answer_may_come(self, vehicle: int) -> bool:
        """Whether an overdue answer is waited for further: the machine is late, not the flight stack.

        Its answer has arrived while this thread did not run, or it has not had the processor time to answer.
        """
        answers = int(self._records[vehicle]["answers"])
        known, extensions = self.extensions.get(vehicle, (answers, 0))
        extensions = extensions + 1 if known == answers else 1
        if extensions > MOST_EXTENSIONS:
            return False
        if not self.sockets.readable(vehicle):
            if not is_busy(self.sockets.process(vehicle)):
                # A flight stack that computed until now has answered, and sleeps: look once more.
                if not self.sockets.readable(vehicle):
                    return False
            elif vehicle not in self._reported_busy:
                self._reported_busy.add(vehicle)
                self._say(
                    vehicle,
                    "the machine is busy: the flight stack has computed or waited for a processor for"
                    f" {self._timeout * 1e-9:g} s; the simulation waits for its answer",
                )
        self.extensions[vehicle] = answers, extensions
        return True

    def _others_fly(self, vehicle: int) -> bool:
        return any(
            int(link["state"]) in LOCKSTEP_STATES for i, link in enumerate(self._records) if i != vehicle
        )

    def check_readers(self) -> None:
        """Stop time for a flight stack out of lockstep that does not read, until it reads again."""
        for i, link in enumerate(self._records):
            if int(link["state"]) in _NOT_WAITED_FOR:
                bytes_a_second = link["sent_bytes"] / max(link["sent_frames"], 1) * 1e6 / self._step
                unread, most = self.sockets.unread(i), FROZEN_AFTER * bytes_a_second
                link["state"] = frames_unread(link, self._others_fly(i), unread, most)

    def _report_stall(self, vehicle: int, what: str) -> None:
        """Report a stall once, however often its state changes."""
        if vehicle not in self._reported_stalls:
            answers = self._reported_stalls[vehicle] = int(self._records[vehicle]["answers"])
            if answers > 0:  # one that has not begun to answer cannot stop
                self._note_stall(vehicle, True)
            self._say(vehicle, f"the flight stack {what}")

    def report_recovered(self) -> None:
        """Report flight stacks that are back in lockstep after a stall."""
        for i, answers in tuple(self._reported_stalls.items()):
            link = self._records[i]
            if link["state"] == LinkState.LOCKSTEP and int(link["answers"]) > answers:
                del self._reported_stalls[i]
                self._note_stall(i, False)
                self._say(i, "the flight stack answers again, in lockstep")

    def report_faults(self, *, now: bool = False) -> None:
        """Report wrong input from flight stacks, every FAULT_INTERVAL or now."""
        wall = time.monotonic()
        if now or wall >= self._faults_due:
            self._faults_due = wall + FAULT_INTERVAL
            for i in range(len(self.ports)):
                self._report_faults_of(i)

    def _report_faults_of(self, vehicle: int) -> None:
        for kind, count in self._faults_of(vehicle).items():
            if count and (vehicle, kind) not in self._reported_faults:
                self._reported_faults.add((vehicle, kind))
                self._say(vehicle, f"the flight stack {FAULTS[kind][0]}")

    def _faults_of(self, vehicle: int) -> dict[str, int]:
        """Wrong input over all of a vehicle's connections by kind, including zeros."""
        link = self._records[vehicle]
        return {kind: past + int(link[kind]) for kind, past in self._past_faults[vehicle].items()}

    def _say(self, vehicle: int, message: str) -> None:
        self._notify(f"port {self.ports[vehicle]}: {message}")

    def put(self, vehicle: int, message: MavlinkMessage, sensor: str) -> None:
        """Send a sensor's message before the frames of the next step.

        Without room it is lost, as on a full port.

        Raises:
            UserError: naming the sensor, for a message that cannot be packed.
        """
        link = self._records[vehicle]
        packed = pack(message, self._encoder, int(link["sequence"]), sensor)
        if link["fd"] < 0:
            return
        end = int(link["out_end"]) + len(packed)
        if end <= SEND_BUFFER - MAX_STEP_BYTES:
            self.arrays.outs[vehicle, end - len(packed) : end] = np.frombuffer(packed, np.uint8)
            link["out_end"] = end
            link["sequence"] += 1
