"""The lockstep server against a scripted flight stack: order, pace, pause, faults, determinism."""

from __future__ import annotations

import contextlib
import errno
import math
import queue
import socket
import threading
import time
from collections.abc import Callable

import numpy as np
import psutil
import pytest
from numpy.typing import NDArray
from pymavlink.dialects.v20 import common as mavlink
from support.link_server import Counted
from support.peer import SILENT_FRAMES, Peer

from sitl_bridge.base.errors import UserError
from sitl_bridge.base.quantities import SLOWEST_PACE
from sitl_bridge.base.system.port_holder import is_taken
from sitl_bridge.core.simulation.simulation import Simulation
from sitl_bridge.core.world.records import START
from sitl_bridge.core.world.wind import SteadyWind, WindSpecification
from sitl_bridge.link.hil.link_errors import FAULTS, fault_texts
from sitl_bridge.link.hil.link_sockets import require_free_link
from sitl_bridge.link.hil.loop import BUDGET, MAX_LAG
from sitl_bridge.link.hil.server import LockstepServer
from sitl_bridge.link.hil.time_limits import LOST_REPORT_WAIT, NEXT_REPORT_TIME
from sitl_bridge.live.bus.broker import require_free as require_free_broker
from sitl_bridge.live.view.page_server import require_free_port

Make = Callable[..., Simulation]
Wait = Callable[..., None]
STEP = 4000


class Rows:
    """A recorder that keeps rows in memory."""

    def __init__(self) -> None:
        self.blocks: list[NDArray[np.void]] = []

    def write(self, rows: NDArray[np.void], _frames: NDArray[np.uint8], _steps: NDArray[np.void]) -> None:
        self.blocks.append(rows.copy())

    def all(self) -> NDArray[np.void]:
        return np.concatenate(self.blocks)


def stands_still(server: LockstepServer, wait_for: Wait, turns: int = 5) -> int:
    """See that no step is taken in so many whole turns of the loop; returns the steps so far."""
    assert isinstance(server, Counted)
    begin = server.turns
    wait_for(lambda: server.turns > begin + 1, "the turn that is under way")
    standing = server.status().steps
    begin = server.turns
    wait_for(lambda: server.turns > begin + turns, "turns of the loop")
    assert server.status().steps == standing, "time stands still"
    return standing


def test_every_frame_is_answered_before_the_next_goes_out(
    serve: Callable[..., LockstepServer], wait_for: Wait
) -> None:
    server = serve()
    with Peer(server.ports[0]) as peer:
        wait_for(lambda: len(peer.times) > 2000, "2000 steps")
        status = server.status()
        assert status.links[0].answers >= len(peer.times) - SILENT_FRAMES - 2
        assert np.all(np.diff(peer.times) == STEP)
        assert peer.times[0] == server.simulation.start + STEP


def test_an_event_changes_the_wind_in_flight(serve: Callable[..., LockstepServer], wait_for: Wait) -> None:
    rows = Rows()
    server = serve(recorder=rows)
    simulation = server.simulation
    storm = WindSpecification(steady=SteadyWind(speed=9.0, direction=180.0))
    server.at(1_000_000, lambda: simulation.world.set_wind(storm, simulation.time))
    with Peer(server.ports[0]) as peer:
        wait_for(lambda: len(peer.times) > 400, "400 steps")
    server.close()
    table = rows.all()
    late = table["time"] > simulation.start + 1_000_000
    assert np.all(table["wind"][~late] == 0.0)
    np.testing.assert_allclose(table["wind"][late][:, 0], 9.0)


class Pipelined(Peer):
    """Answers from a thread of its own, slowly at first, with the newest time it was sent, as PX4 does."""

    def __init__(self, port: int, *, delay: float, slow: int, silent: int) -> None:
        self.frames: queue.SimpleQueue[int] = queue.SimpleQueue()
        self.outstanding: list[int] = []
        self._handled = 0
        self._delay, self._slow = delay, slow
        self._worker = threading.Thread(target=self._work, daemon=True)
        self._worker.start()
        super().__init__(port, silent=silent)

    def _take(self, time: int) -> None:
        self.times.append(time)
        self.outstanding.append(len(self.times) - 1 - self._handled)
        self.frames.put(time)

    def _work(self) -> None:
        while self.frames.get() >= 0:
            if self._handled < self._slow:
                time.sleep(self._delay)
            if self._handled >= self.silent:
                # Counted before it is sent: the next frame may be here before ``send`` returns.
                self._handled += 1
                self.send_bytes(self.answer_frame(self.times[-1]))
            else:
                self._handled += 1

    def close(self) -> None:
        self.frames.put(-1)
        self._worker.join(timeout=5.0)
        super().close()


def test_answers_that_are_late_at_the_start_do_not_leave_the_flight_stack_behind(
    serve: Callable[..., LockstepServer], wait_for: Wait
) -> None:
    server = serve()
    peer = Pipelined(server.ports[0], delay=0.006, slow=30, silent=5)
    with peer:
        wait_for(lambda: len(peer.times) > 600, "600 steps")
        assert max(peer.outstanding[:30]) > 0, "frames went out before their predecessors were answered"
        assert max(peer.outstanding[100:600]) == 0, "every frame found all before it answered"
        assert server.status().links[0].lockstep


def test_truth_comes_at_the_interval_the_flight_stack_asked_for(
    serve: Callable[..., LockstepServer], wait_for: Wait
) -> None:
    server = serve()
    with Peer(server.ports[0]) as peer:
        wait_for(lambda: len(peer.times) > 1500, "1500 steps")
        times = [m.time_usec for m in peer.messages if m.get_type() == "HIL_STATE_QUATERNION"]
        assert np.mean(np.diff(times)) == pytest.approx(5000, rel=0.01)


def test_sensors_come_at_their_own_rates_and_latency(
    serve: Callable[..., LockstepServer], wait_for: Wait
) -> None:
    server = serve()
    with Peer(server.ports[0]) as peer:
        wait_for(lambda: len(peer.times) > 2600, "10 s")
        sensors = [m for m in peer.messages if m.get_type() == "HIL_SENSOR"]
        span = (sensors[-1].time_usec - sensors[0].time_usec) * 1e-6
        magnetic = sum(bool(m.fields_updated & 0x1C0) for m in sensors)
        pressure = sum(bool(m.fields_updated & 0x1A00) for m in sensors)
        positions = [m for m in peer.messages if m.get_type() == "HIL_GPS"]
        assert magnetic / span == pytest.approx(100.0, rel=0.02)
        assert pressure / span == pytest.approx(50.0, rel=0.02)
        assert len(positions) / span == pytest.approx(5.0, rel=0.05)
        arrival = {}
        last = 0
        for m in peer.messages:
            if m.get_type() == "HIL_SENSOR":
                last = m.time_usec
            elif m.get_type() == "HIL_GPS":
                arrival[m.time_usec] = last
        utc = int(server.simulation.world.environment[0]["utc"])
        assert {late - (taken - utc) for taken, late in arrival.items()} == {120_000}


def run_alone(server: LockstepServer, steps: int) -> int:
    """Run the compiled loop for up to so many steps, on this thread and without flight stacks."""
    return server.run_to(int(server.loop["time"]) + steps * STEP)


def test_no_step_begins_before_the_pace_allows_it(
    make_simulation: Make, free_port: Callable[[], int]
) -> None:
    server = LockstepServer(make_simulation(), ports=[free_port()], speed=2.0)
    assert server.loop["pace"] == 500 * STEP
    server.loop["due"] = time.monotonic_ns() + 3600 * 10**9
    assert run_alone(server, 10) == BUDGET
    assert server.status().steps == 0
    begin = time.monotonic_ns()
    server.loop["due"] = begin
    end = int(server.loop["time"]) + 5 * STEP
    while server.status().steps < 5:  # on a busy machine the loop's share of wall time ends before
        assert server.run_to(end) == BUDGET
    assert server.status().steps == 5
    assert server.loop["due"] >= begin + 5 * 500 * STEP, "one pace a step, more only after a long delay"
    server.close()


def test_a_pace_far_behind_starts_anew_instead_of_rushing(
    make_simulation: Make, free_port: Callable[[], int]
) -> None:
    server = LockstepServer(make_simulation(), ports=[free_port()], speed=2.0)
    begin = time.monotonic_ns()
    server.loop["due"] = begin - 2 * MAX_LAG
    run_alone(server, 1)
    assert server.loop["due"] >= begin + 500 * STEP
    server.loop["pace"] = 1
    server.loop["due"] = due = time.monotonic_ns() - 1
    run_alone(server, 1)
    assert server.loop["due"] == due + 1 or time.monotonic_ns() - due > MAX_LAG, (
        "a little behind, it catches up"
    )
    server.close()


def test_a_paused_run_stands_still_takes_single_steps_and_goes_on(
    serve: Callable[..., LockstepServer], wait_for: Wait
) -> None:
    server = serve()
    with Peer(server.ports[0]) as peer:
        wait_for(lambda: len(peer.times) > 100, "the first steps")
        server.pause()
        standing = stands_still(server, wait_for)
        server.step(3)
        wait_for(lambda: server.status().steps == standing + 3, "three single steps")
        assert stands_still(server, wait_for) == standing + 3
        wait_for(lambda: len(peer.times) == standing + 3, "their frames")
        server.resume()
        wait_for(lambda: len(peer.times) > standing + 200, "the run to go on")
        assert np.all(np.diff(peer.times) == STEP)


def test_single_steps_are_taken_however_slowly_they_are_answered(
    serve: Callable[..., LockstepServer], wait_for: Wait
) -> None:
    server = serve(timeout=5.0)
    with Peer(server.ports[0]) as peer:
        wait_for(lambda: len(peer.times) > 100, "the first steps")
        peer.delay = 0.05  # longer than the loop stays away from requests
        server.pause()
        standing = stands_still(server, wait_for)
        server.step(2)
        server.step()
        wait_for(lambda: server.status().steps >= standing + 3, "three single steps")
        assert stands_still(server, wait_for) == standing + 3
    with pytest.raises(ValueError, match="at least 1"):
        server.step(0)


def test_a_step_asked_of_a_running_simulation_pauses_it(
    serve: Callable[..., LockstepServer], wait_for: Wait
) -> None:
    server = serve()
    with Peer(server.ports[0]) as peer:
        wait_for(lambda: len(peer.times) > 100, "the first steps")
        server.step()
        wait_for(lambda: server.status().paused, "the pause")
        stands_still(server, wait_for)


def test_the_speed_is_set_in_flight(serve: Callable[..., LockstepServer], wait_for: Wait) -> None:
    server = serve(speed=SLOWEST_PACE)
    with Peer(server.ports[0], silent=1) as peer:
        wait_for(lambda: len(peer.times) > 0, "the first step")
        server.set_speed(math.inf)
        wait_for(lambda: len(peer.times) > 1000, "400 s of steps at the speed before")
        server.set_speed(0.5)
        assert server.loop["pace"] == 2000 * STEP
    with pytest.raises(ValueError, match=r"the speed must be 0\.01 to"):
        server.set_speed(0.0)


def test_time_begins_when_every_flight_stack_has_connected(
    serve: Callable[..., LockstepServer], wait_for: Wait
) -> None:
    notes: list[str] = []
    server = serve("iris", "iris", notes=notes)
    with Peer(server.ports[1]) as second:
        wait_for(lambda: any(f"waiting for {server.ports[0]}" in note for note in notes), "the note")
        assert stands_still(server, wait_for) == 0
        assert not second.times
        with Peer(server.ports[0]) as first:
            wait_for(lambda: len(first.times) > 200 and len(second.times) > 200, "both to fly")
            assert first.times[0] == second.times[0] == server.simulation.start + STEP
        gone = len(second.times)
        wait_for(lambda: len(second.times) > gone + 200, "the other one to fly on alone")


def test_events_run_at_their_simulated_time_in_order(
    serve: Callable[..., LockstepServer], wait_for: Wait
) -> None:
    server = serve()
    seen: list[tuple[str, int]] = []
    for name, seconds in (("late", 2.0), ("early", 1.0)):
        server.at(round(seconds * 1e6), lambda name=name: seen.append((name, server.simulation.time)))  # type: ignore[misc]
    with Peer(server.ports[0]):
        wait_for(lambda: len(seen) == 2, "both events")
    start = server.simulation.start
    assert seen == [("early", start + 1_000_000), ("late", start + 2_000_000)]


def test_a_second_client_is_refused_and_the_first_flies_on(
    serve: Callable[..., LockstepServer], wait_for: Wait
) -> None:
    notes: list[str] = []
    server = serve(notes=notes)
    with Peer(server.ports[0]) as peer:
        wait_for(lambda: len(peer.times) > 50, "the first steps")
        with socket.create_connection(("127.0.0.1", server.ports[0]), timeout=5.0) as second:
            second.settimeout(5.0)
            assert second.recv(10) == b""
        before = len(peer.times)
        wait_for(lambda: len(peer.times) > before + 100, "the first client to fly on")
    assert any("second client" in note for note in notes)


def test_an_address_that_is_not_this_machine_s_is_told_as_that(
    make_simulation: Make, free_port: Callable[[], int]
) -> None:
    with pytest.raises(UserError, match=r"cannot listen on 203\.0\.113\.7, port \d+"):
        LockstepServer(make_simulation(), ports=[free_port()], host="203.0.113.7")


def test_a_taken_port_is_named_with_its_holder_before_anything_starts(
    serve: Callable[..., LockstepServer], make_simulation: Make
) -> None:
    server = serve()
    threads = threading.active_count()
    with pytest.raises(UserError, match=rf"port {server.ports[0]} .* taken by .*pid"):
        LockstepServer(make_simulation(), ports=[server.ports[0]])
    assert threading.active_count() == threads


@pytest.mark.parametrize("how", ["close", "reset"])
def test_a_flight_stack_that_goes_is_told_and_a_new_one_may_come(
    serve: Callable[..., LockstepServer], wait_for: Wait, how: str
) -> None:
    notes: list[str] = []
    server = serve(notes=notes)
    peer = Peer(server.ports[0])
    wait_for(lambda: len(peer.times) > 200, "the first steps")
    getattr(peer, how)()
    wait_for(lambda: any("closed" in note for note in notes), "the loss to be told")
    last = peer.times[-1]
    with Peer(server.ports[0]) as successor:
        wait_for(lambda: len(successor.times) > 200, "the successor's steps")
        assert successor.times[0] > last, "time never goes backwards"


def test_a_flight_stack_may_be_replaced_while_time_stands_still(
    serve: Callable[..., LockstepServer], wait_for: Wait
) -> None:
    server = serve()
    peer = Peer(server.ports[0])
    wait_for(lambda: len(peer.times) > 100, "the first steps")
    server.pause()
    peer.close()
    with Peer(server.ports[0]) as successor:
        wait_for(lambda: server.status().links[0].answers == 0, "the successor to be accepted")
        server.resume()
        wait_for(lambda: len(successor.times) > 100, "the successor's steps")
        assert successor.times[0] > peer.times[-1]


@pytest.mark.parametrize(
    "check",
    [
        lambda port: require_free_link("127.0.0.1", port),
        lambda port: require_free_port(port),
        lambda port: require_free_broker(port),
        lambda port: is_taken(port),
    ],
)
def test_a_check_for_a_free_port_accepts_no_connection(
    check: Callable[[int], object], free_port: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    with socket.create_server(("127.0.0.1", port)), contextlib.suppress(UserError):
        assert check(port), "a port on which a program listens"
    # PX4 connects within 0.5 ms of the first moment at which somebody listens, and never again.
    monkeypatch.setattr(socket.socket, "listen", None, raising=False)
    check(port)


def test_a_silent_flight_stack_is_flown_on_at_real_time_with_its_last_commands(
    serve: Callable[..., LockstepServer], wait_for: Wait
) -> None:
    notes: list[str] = []
    server = serve(notes=notes, timeout=0.2)
    with Peer(server.ports[0], lambda _time: [0.3] * 4 + [0.0] * 12) as peer:
        wait_for(lambda: len(peer.times) > 200, "the first steps")
        peer.mute.set()
        wait_for(lambda: any("real time" in note for note in notes), "the stall to be told")
        assert server.loop["unanswered_wait"] == 1000 * STEP, "no faster than real time"
        silent, answers = len(peer.times), server.status().links[0].answers
        wait_for(lambda: len(peer.times) > silent + 50, "frames to go on")
        assert server.status().links[0].answers == answers
        np.testing.assert_allclose(server.simulation.controls[0, :4], 0.3, rtol=1e-6)
        assert server.simulation.armed[0] == 1
        peer.mute.clear()
        wait_for(lambda: any("answers again" in note for note in notes), "lockstep again")
        # On a loaded machine the peer may be later than the short timeout once more.
        wait_for(lambda: not server.status().links[0].stalled, "answers in lockstep")


def test_a_frozen_flight_stack_is_waited_for(serve: Callable[..., LockstepServer], wait_for: Wait) -> None:
    notes: list[str] = []
    server = serve(notes=notes, timeout=0.2)
    with Peer(server.ports[0]) as peer:
        wait_for(lambda: len(peer.times) > 200, "the first steps")
        peer.halt.set()
        wait_for(lambda: any("does not read" in note for note in notes), "the freeze to be told")
        standing = stands_still(server, wait_for)
        peer.halt.clear()
        wait_for(lambda: server.status().steps > standing + 200, "the run to go on")
        assert np.all(np.diff(peer.times) == STEP)


def test_a_stalled_flight_stack_that_then_freezes_is_waited_for_and_recovers(
    serve: Callable[..., LockstepServer], wait_for: Wait
) -> None:
    notes: list[str] = []
    server = serve(notes=notes, timeout=0.2)
    with Peer(server.ports[0]) as peer:
        wait_for(lambda: len(peer.times) > 200, "the first steps")
        peer.mute.set()
        wait_for(lambda: server.status().links[0].stalled, "the stall")
        peer.halt.set()
        wait_for(lambda: server.status().links[0].held, "the freeze to be noticed")
        standing = stands_still(server, wait_for)
        peer.halt.clear()
        wait_for(lambda: server.status().steps > standing + 50, "real time to go on")
        peer.mute.clear()
        wait_for(lambda: server.status().links[0].lockstep, "lockstep again")
        wait_for(lambda: any("answers again" in note for note in notes), "that to be told")
        assert np.all(np.diff(peer.times) == STEP), "no frame is lost"
    assert sum("does not" in note for note in notes) == 1, "a stall is told once"


def test_stray_answers_of_a_stalled_flight_stack_do_not_make_time_wait_for_more(
    serve: Callable[..., LockstepServer], wait_for: Wait
) -> None:
    server = serve(timeout=0.2)
    with Peer(server.ports[0]) as peer:
        wait_for(lambda: len(peer.times) > 200, "the first steps")
        peer.answers_every = 10
        wait_for(lambda: server.status().links[0].stalled, "the stall")
        server.loop["timeout"] = 1 << 60  # from here on, waiting for an answer would never end
        stray = len(peer.times)
        wait_for(lambda: len(peer.times) > stray + 100, "time to go on")
        assert server.status().links[0].stalled
        peer.answers_every = 1
        wait_for(lambda: server.status().links[0].lockstep, "lockstep again")


def test_a_flight_stack_that_has_not_begun_to_answer_does_not_stall(
    serve: Callable[..., LockstepServer], wait_for: Wait
) -> None:
    notes: list[str] = []
    stalls: list[tuple[int, bool]] = []
    server = serve(timeout=0.2, notes=notes, stalls=stalls)
    with Peer(server.ports[0], silent=1 << 30) as peer:
        wait_for(lambda: len(peer.times) > 20, "the first frames")
        peer.halt.set()
        wait_for(lambda: any("does not read" in note for note in notes), "the freeze to be told")
        peer.halt.clear()
        peer.silent = 0
        wait_for(lambda: server.status().links[0].lockstep, "lockstep")
    assert (0, True) not in stalls


def test_no_frame_is_torn_and_nothing_hangs_where_the_socket_takes_no_more(
    serve: Callable[..., LockstepServer], wait_for: Wait
) -> None:
    server = serve(timeout=0.2)
    with Peer(server.ports[0], receive_buffer=1) as peer:
        wait_for(lambda: len(peer.times) > 100, "the first steps")
        ours = server.links.sockets.connections[0]
        assert ours is not None
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
        peer.mute.set()
        wait_for(lambda: server.status().links[0].stalled, "the stall")
        peer.halt.set()
        wait_for(lambda: server.status().links[0].held, "the buffers to be full")
        assert server.arrays.links[0]["out_end"] > 0
        stands_still(server, wait_for)
        peer.halt.clear()
        peer.mute.clear()
        wait_for(lambda: server.status().links[0].lockstep, "lockstep again")
        assert np.all(np.diff(peer.times) == STEP)
        assert not [m for m in peer.messages if m.get_type() == "BAD_DATA"]
        peer.mute.set()
        wait_for(lambda: server.status().links[0].stalled, "another stall")
        peer.halt.set()
        wait_for(lambda: server.status().links[0].held, "the buffers to be full again")
        server.close()


def test_where_that_was_asked_for_the_others_fly_on_without_a_frozen_flight_stack(
    serve: Callable[..., LockstepServer], wait_for: Wait
) -> None:
    notes: list[str] = []
    stalls: list[tuple[int, bool]] = []
    server = serve("iris", "iris", on_stall="leave", timeout=0.2, notes=notes, stalls=stalls)
    with Peer(server.ports[0]) as frozen, Peer(server.ports[1]) as other:
        wait_for(lambda: len(other.times) > 200, "the first steps")
        frozen.halt.set()
        wait_for(lambda: any("fly on without it" in note for note in notes), "the freeze to be told")
        standing = len(other.times)
        wait_for(lambda: len(other.times) > standing + 500, "the other to fly on")
        assert server.status().links[1].lockstep
        assert server.status().links[0].stalled
        frozen.halt.clear()
        wait_for(lambda: server.status().links[0].lockstep, "lockstep again")
        wait_for(lambda: any("answers again" in note for note in notes), "that to be told")
        assert stalls == [(0, True), (0, False)]
        assert np.all(np.diff(frozen.times) == STEP), "no frame is lost"
        assert np.all(np.diff(other.times) == STEP)
        other.reset()
        frozen.halt.set()
        wait_for(lambda: server.status().links[0].held, "the last one to be waited for")


def test_time_may_begin_without_those_that_are_late(
    serve: Callable[..., LockstepServer], wait_for: Wait
) -> None:
    server = serve("iris", "iris")
    with Peer(server.ports[0]) as first:
        wait_for(lambda: server.status().links[0].connected, "the first")
        assert server.status().steps == 0
        server.begin()
        wait_for(lambda: len(first.times) > 100, "time to begin")
        with Peer(server.ports[1]) as late:
            wait_for(lambda: server.status().links[1].lockstep, "the late one to be in lockstep")
            assert late.times[0] > 100 * STEP


def test_where_waiting_was_asked_for_a_silent_flight_stack_stops_time(
    serve: Callable[..., LockstepServer], wait_for: Wait
) -> None:
    notes: list[str] = []
    server = serve(on_stall="wait", timeout=0.2, notes=notes)
    with Peer(server.ports[0]) as peer:
        wait_for(lambda: len(peer.times) > 200, "the first steps")
        peer.mute.set()
        wait_for(lambda: any("does not answer" in note for note in notes), "the stall to be told")
        standing = stands_still(server, wait_for)
        peer.mute.clear()
        peer.send_bytes(peer.answer_frame(peer.times[-1]))
        wait_for(lambda: server.status().steps > standing + 100, "the run to go on")


def test_a_stall_ends_the_run_where_that_was_asked_for(
    serve: Callable[..., LockstepServer], wait_for: Wait
) -> None:
    server = serve(on_stall="abort", timeout=0.2)
    with Peer(server.ports[0]) as peer:
        wait_for(lambda: len(peer.times) > 200, "the first steps")
        peer.mute.set()
        wait_for(lambda: not server.running, "the run to end")
    assert isinstance(server.failure, UserError)


def test_commands_that_are_no_numbers_or_out_of_range_never_reach_the_motors(
    serve: Callable[..., LockstepServer], wait_for: Wait
) -> None:
    server = serve()
    bad = [math.nan, math.inf, 1e30, -5.0] + [0.0] * 12
    with Peer(server.ports[0], lambda _time: bad) as peer:
        wait_for(lambda: len(peer.times) > 500, "500 steps")
        faults = server.status().links[0].faults
        assert faults["not_finite"] > 0
        assert faults["clamped"] == faults["not_finite"]
    assert np.all(np.isfinite(server.simulation.states[0]["position"]))
    assert np.all(np.abs(server.simulation.controls) <= 1.0)


def test_garbage_between_answers_does_no_harm(serve: Callable[..., LockstepServer], wait_for: Wait) -> None:
    server = serve()
    random = np.random.default_rng(1)
    with Peer(server.ports[0]) as peer:
        peer.before_answer = lambda _peer: random.bytes(40)
        wait_for(lambda: len(peer.times) > 500, "500 steps")
        assert np.all(np.diff(peer.times) == STEP)


def test_answers_with_a_time_ahead_of_the_simulation_do_not_let_time_run_free(
    serve: Callable[..., LockstepServer], wait_for: Wait
) -> None:
    notes: list[str] = []
    server = serve(notes=notes)
    with Peer(server.ports[0]) as peer:
        peer.halt.set()  # it reads nothing, and answers everything in advance
        for _ in range(2000):
            peer.send_bytes(peer.answer_frame(server.simulation.start + (1 << 40)))
        wait_for(lambda: server.status().links[0].faults["ahead"] == 2000, "its answers to be read")
        wait_for(lambda: server.status().links[0].held, "time to wait for it")
        link = server.status().links[0]
        assert link.answers == 0
        assert not link.lockstep
        # Time ran until FROZEN_AFTER seconds of frames lay unread, and what the loop had begun.
        assert server.status().seconds < 5.0
    assert sum("ahead of the simulation" in note for note in notes) == 1


def test_a_flight_stack_whose_clock_runs_ahead_is_flown_at_real_time_and_named(
    serve: Callable[..., LockstepServer], wait_for: Wait
) -> None:
    notes: list[str] = []
    server = serve(notes=notes, timeout=0.2)
    with Peer(server.ports[0], lambda _time: [0.3] * 4 + [0.0] * 12) as peer:
        wait_for(lambda: server.status().links[0].lockstep, "lockstep")
        peer.ahead = 4000
        wait_for(lambda: server.status().links[0].stalled, "the link to leave lockstep")
        standing = server.status().steps
        wait_for(lambda: server.status().steps > standing + 20, "time to go on")
        np.testing.assert_allclose(server.simulation.controls[0, :4], 0.3, rtol=1e-6)
        peer.ahead = 0
        wait_for(lambda: server.status().links[0].lockstep, "lockstep again")
    assert sum("ahead of the simulation" in note for note in notes) == 1


def test_what_a_flight_stack_sends_wrong_is_reported_once_a_kind_and_counted(
    serve: Callable[..., LockstepServer], wait_for: Wait
) -> None:
    notes: list[str] = []
    server = serve(notes=notes)
    bad = [math.nan, 7.0] + [0.0] * 14
    old = mavlink.MAVLink_heartbeat_message(2, 12, 0, 0, 3, 3).pack(
        mavlink.MAVLink(None), force_mavlink1=True
    )
    foreign = mavlink.MAVLink_system_time_message(1, 2).pack(mavlink.MAVLink(None))
    with Peer(server.ports[0]) as peer:
        wait_for(lambda: len(peer.times) > 50, "the first steps")
        broken = bytearray(peer.answer_frame(0))
        broken[20] ^= 0xFF
        noise = b"\x01\x02\x03" + bytes(broken) + foreign + old
        peer.before_answer = lambda peer: noise + peer.answer_frame(0, bad)
        words = (
            "checksum",
            "not part of a MAVLink frame",
            "MAVLink 1",
            "does not belong",
            "not a finite",
            "outside -1",
        )
        wait_for(lambda: all(any(word in note for note in notes) for word in words), "every kind")
        kinds = [kind for kind in FAULTS if kind != "ahead"]
        wait_for(lambda: all(server.status().links[0].faults[kind] > 1 for kind in kinds), "every kind twice")
    wait_for(lambda: not server.status().links[0].connected, "the end of the connection")
    faults = server.status().links[0].faults
    assert all(faults[kind] > 1 for kind in kinds), "counted, beyond the connection's end"
    assert faults["mavlink1"] == faults["unknown"]
    for word in words:
        (note,) = (note for note in notes if word in note)
        assert note.startswith(f"port {server.ports[0]}: the flight stack s")
    assert len(fault_texts(dict(faults))) == len(words)


def test_a_peer_that_speaks_only_mavlink_1_is_told_so(
    serve: Callable[..., LockstepServer], wait_for: Wait
) -> None:
    notes: list[str] = []
    server = serve(notes=notes)
    sender = mavlink.MAVLink(None, srcSystem=1, srcComponent=1)
    with socket.create_connection(("127.0.0.1", server.ports[0])) as peer:
        answer = mavlink.MAVLink_hil_actuator_controls_message(0, [0.0] * 16, 129, 1)
        peer.sendall(answer.pack(sender, force_mavlink1=True))
        wait_for(lambda: any("sends MAVLink 1" in note for note in notes), "the sentence")


def test_an_action_that_fails_costs_one_message_and_not_the_run(
    serve: Callable[..., LockstepServer], wait_for: Wait
) -> None:
    notes: list[str] = []
    server = serve(notes=notes)

    def fail() -> None:
        raise ZeroDivisionError("on purpose")

    with Peer(server.ports[0]) as peer:
        wait_for(lambda: len(peer.times) > 50, "the first steps")
        for _ in range(3):
            server.call(fail)
        server.at(1_000_000, fail)
        wait_for(lambda: server.status().seconds > 2.0, "the run to go on")
    assert [note for note in notes if "on purpose" in note] == [
        "an action between two steps failed: ZeroDivisionError: on purpose"
    ]
    assert server.errors.lines == [
        "an action between two steps failed: ZeroDivisionError: on purpose (4 times)"
    ]


class FullDisk(Rows):
    """A recorder that fails from its second block on."""

    def write(self, rows: NDArray[np.void], frames: NDArray[np.uint8], steps: NDArray[np.void]) -> None:
        if self.blocks:
            raise OSError(errno.ENOSPC, "No space left on device")
        super().write(rows, frames, steps)


def test_a_recorder_that_fails_costs_one_message_and_not_the_run(
    serve: Callable[..., LockstepServer], wait_for: Wait
) -> None:
    notes: list[str] = []
    server = serve(recorder=FullDisk(), notes=notes)
    with Peer(server.ports[0]) as peer:
        wait_for(lambda: len(peer.times) > 3000, "the run to go on")
    server.close()
    assert server.failure is None
    assert [note for note in notes if "No space" in note] == [
        "recording of the flight failed: No space left on device"
    ]


def test_nothing_is_left_behind(make_simulation: Make, free_port: Callable[[], int], wait_for: Wait) -> None:
    process = psutil.Process()
    threads, files = threading.active_count(), process.num_fds()
    server = LockstepServer(make_simulation(), ports=[free_port()], speed=math.inf)
    with server:
        peer = Peer(server.ports[0])
        wait_for(lambda: len(peer.times) > 100, "the first steps")
        peer.close()
    assert threading.active_count() == threads
    assert process.num_fds() == files


def flown(time_us: int) -> list[float]:
    """Commands that lift off and sway: a deterministic function of simulated time."""
    seconds = (time_us - START) * 1e-6
    base = 0.7 + 0.02 * math.sin(3.0 * seconds)
    return [base + 0.005 * math.sin(5.0 * seconds + k) for k in range(4)] + [0.0] * 12


def stream_of(
    serve: Callable[..., LockstepServer], wait_for: Wait, *names: str, speed: float = math.inf
) -> bytes:
    """The first bytes that vehicle 0 of a run receives."""
    server = serve(*names, seed=7, speed=speed)
    # A first answer may take a loaded machine longer than a step; without it time would go on.
    server.loop["unanswered_wait"] = 10_000_000_000
    peers = [Peer(port, flown, silent=0) for port in server.ports]
    wait_for(lambda: all(len(peer.received) > 150_000 for peer in peers), "enough bytes")
    server.close()
    for peer in peers:
        peer.close()
    return bytes(peers[0].received[:150_000])


def test_the_same_seed_and_commands_give_the_same_bytes_alone_or_among_others_at_any_speed(
    serve: Callable[..., LockstepServer], wait_for: Wait
) -> None:
    alone = stream_of(serve, wait_for, "iris")
    again = stream_of(serve, wait_for, "iris", speed=20.0)
    among = stream_of(serve, wait_for, "iris", "hector", "firefly")
    assert alone == again
    assert alone == among


def test_the_log_holds_every_step_with_the_commands_that_led_to_it(
    serve: Callable[..., LockstepServer], wait_for: Wait
) -> None:
    rows = Rows()
    server = serve(recorder=rows, timeout=20.0)
    with Peer(server.ports[0], flown, silent=0) as peer:
        wait_for(lambda: len(peer.times) > 3000, "3000 steps")
    server.close()
    table = rows.all()
    assert np.all(np.diff(table["time"]) == STEP)
    k = 1500
    expected = np.array(flown(int(table["time"][k - 1])), np.float32)
    np.testing.assert_array_equal(table["control"][k], expected)
    assert np.all(table["answered"][50:-1] == 1)


def test_the_log_tells_which_frames_were_not_answered(
    serve: Callable[..., LockstepServer], wait_for: Wait
) -> None:
    rows = Rows()
    server = serve(recorder=rows)
    with Peer(server.ports[0], silent=20) as peer:
        wait_for(lambda: len(peer.times) > 400, "400 steps")
    server.close()
    # Row k is of step k + 1 and tells of the frame of step k.  Before the first answer, frames go out at real
    # time: on a busy machine one more may have gone out before the peer's first answer comes.
    answered = rows.all()["answered"]
    first = int(np.argmax(answered))
    assert 20 <= first < 300
    assert answered[first:350].all()


def test_time_waits_for_a_mission_at_the_limit_that_it_gave(
    serve: Callable[..., LockstepServer], wait_for: Wait
) -> None:
    server = serve()
    limit = server.limit_time()
    limit.run_until(400_000)
    with Peer(server.ports[0]):
        wait_for(lambda: limit.reached_at < math.inf, "time to come to the limit")
        assert server.simulation.time == 400_000
        limit.run_until(1_000_000)
        wait_for(lambda: limit.reached_at < math.inf, "time to come to the next limit")
        assert server.simulation.time == 1_000_000
        limit.run_until(None)
        wait_for(lambda: server.simulation.time > 1_400_000, "time to run freely")


def test_time_goes_on_at_real_time_without_a_mission_that_does_not_move_its_limit(
    serve: Callable[..., LockstepServer], wait_for: Wait
) -> None:
    server = serve()
    limit = server.limit_time()
    limit.run_until(400_000, 0.0)
    with Peer(server.ports[0]):
        wait_for(lambda: server.simulation.time > 400_000, "time to go on")
        assert limit.speed == 1.0
        assert server.loop["pace"] == 1000 * STEP
        limit.run_until(1 << 40)
        assert server.loop["pace"] == 0, "it is as fast as it goes from the next limit on"


def test_a_limit_counts_from_when_time_comes_to_it_however_long_ago_it_was_set(
    make_simulation: Make, free_port: Callable[[], int]
) -> None:
    server = LockstepServer(make_simulation("iris"), ports=[free_port()])
    limit = server.limit_time()
    limit.run_until(400_000)
    assert server.limits.until(399_999) == 400_000
    assert limit.reached_at == math.inf
    assert server.limits.until(400_000) == 400_000
    assert limit.reached_at < math.inf
    server.close()


def test_a_mission_that_is_behind_for_want_of_lost_reports_gets_new_ones(
    make_simulation: Make, free_port: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    wall = [100.0]
    monkeypatch.setattr("sitl_bridge.link.hil.time_limits.time.monotonic", lambda: wall[0])
    server = LockstepServer(make_simulation("iris"), ports=[free_port()])
    limit = server.limit_time()
    server.loop["time"] = now = 23_000_000
    limit.run_until(20_500_000)
    assert server.limits.until(now) == 20_500_000, "more may be on their way"
    wall[0] += 2 * LOST_REPORT_WAIT
    assert server.limits.until(now) == now + NEXT_REPORT_TIME
    now = now + NEXT_REPORT_TIME
    assert server.limits.until(now) == now, "it waits for a new limit again"
    wall[0] += 2 * LOST_REPORT_WAIT
    assert server.limits.until(now) == now + NEXT_REPORT_TIME
    server.loop["time"] = now
    limit.run_until(now + 500_000)
    wall[0] += 2 * LOST_REPORT_WAIT
    now += 500_000
    assert server.limits.until(now) == now, "and for one that has caught up it waits"
    server.close()


def test_the_least_of_all_limits_and_speeds_counts_until_it_is_released(
    make_simulation: Make, free_port: Callable[[], int]
) -> None:
    server = LockstepServer(make_simulation("iris"), ports=[free_port()], speed=math.inf)
    first, second = server.limit_time(), server.limit_time()
    first.run_until(700_000)
    second.run_until(500_000)
    first.at_most(2.0)
    second.at_most(1.0)
    assert server.limits.until(0) == 500_000
    assert server.loop["pace"] == 1000 * STEP
    second.release()
    second.release()
    assert server.limits.until(0) == 700_000
    assert server.loop["pace"] == 500 * STEP
    server.set_speed(0.5)
    assert server.loop["pace"] == 2000 * STEP, "a limit never makes it faster than was chosen"
    first.release()
    assert server.limits.until(0) is None
    server.set_speed(math.inf)
    assert server.loop["pace"] == 0
    server.close()
