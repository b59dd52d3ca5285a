"""Arbitrary bytes on the simulator link: the decoder takes only what is valid, and the lockstep goes on."""

from __future__ import annotations

import math
import socket
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pymavlink.dialects.v20 import common as mavlink
from support.peer import Peer
from test_hil_frames import TIME, Decoder

from sitl_bridge.core.simulation.simulation import Simulation
from sitl_bridge.link.hil.link_errors import FAULTS
from sitl_bridge.link.hil.link_state import Answer
from sitl_bridge.link.hil.message_layout import MAX_FRAME
from sitl_bridge.link.hil.server import LockstepServer

STEP = 4000
SENDER = mavlink.MAVLink(None, srcSystem=1, srcComponent=1)


def answer(time: int, controls: list[float], mode: int) -> bytes:
    """A whole HIL_ACTUATOR_CONTROLS frame."""
    packed: bytes = mavlink.MAVLink_hil_actuator_controls_message(time, controls, mode, 1).pack(SENDER)
    return packed


def command(number: int, first: float, second: float) -> bytes:
    """A whole COMMAND_LONG frame."""
    message = mavlink.MAVLink_command_long_message(0, 0, number, 0, first, second, 0, 0, 0, 0, 0)
    packed: bytes = message.pack(SENDER)
    return packed


def heartbeat(old: bool) -> bytes:
    """A HEARTBEAT of MAVLink 1 or 2."""
    packed: bytes = mavlink.MAVLink_heartbeat_message(2, 12, 0, 0, 3, 3).pack(SENDER, force_mavlink1=old)
    return packed


def damaged(frame: bytes, at: int, bits: int, end: int) -> bytes:
    """A frame with a byte changed, and cut off."""
    broken = bytearray(frame)
    broken[at % len(broken)] ^= bits
    return bytes(broken[: end % (len(broken) + 1)])


NUMBERS = st.floats(width=32)
TIMES = st.one_of(
    st.integers(0, 2**64 - 1), st.integers(TIME - 3, TIME + 3), st.sampled_from([0, 2**63, 2**64 - 1])
)
ANSWERS = st.builds(answer, TIMES, st.lists(NUMBERS, min_size=16, max_size=16), st.integers(0, 255))
FRAMES = st.one_of(
    ANSWERS,
    st.builds(command, st.sampled_from([511, 512, 0]), NUMBERS, NUMBERS),
    st.builds(heartbeat, st.booleans()),
)
PARTS = st.one_of(
    FRAMES,
    st.builds(damaged, FRAMES, st.integers(0, 300), st.integers(0, 255), st.integers(0, 300)),
    st.binary(max_size=80),
    st.builds(
        lambda head, rest: b"\xfd" + bytes(head) + rest,
        st.lists(st.integers(0, 255), max_size=9),
        st.binary(),
    ),
)
STREAMS = st.lists(PARTS, max_size=12).map(b"".join)


def take_anything(data: bytes, piece: int) -> None:
    """Feed a decoder, and hold what it may have taken against what was sent."""
    decoder = Decoder()
    link: Any = decoder.links[0]
    for at in range(0, len(data), piece):
        link = decoder.feed(data[at : at + piece])
    controls = np.array(link["controls"])
    assert np.all(np.isfinite(controls))
    assert np.all(np.abs(controls) <= 1.0)
    assert 0 <= link["have"] < MAX_FRAME
    assert 0 <= link["truth_interval"] <= 1_000_000_000
    assert all(link[kind] >= 0 for kind in FAULTS)
    counted = [link["answers"], link["ahead"], link["heartbeats"], link["bad_checksums"], link["mavlink1"]]
    assert sum(int(count) for count in counted) * 8 <= len(data), "no more frames than fit"
    if link["answer"] == Answer.RECEIVED:
        assert TIME.to_bytes(8, "little").rstrip(b"\0") in data, "only the frame's own time answers it"
    # The stream is found again, whatever was before.
    good = answer(TIME, [0.5] * 16, 129)
    link = decoder.feed(good)
    assert link["answer"] == Answer.RECEIVED
    assert link["have"] == 0
    np.testing.assert_array_equal(link["controls"], np.full(16, 0.5, np.float32))


@settings(max_examples=300)
@given(STREAMS, st.integers(1, 400))
def test_the_decoder_takes_only_what_is_valid(data: bytes, piece: int) -> None:
    take_anything(data, piece)


@pytest.mark.slow
@settings(max_examples=50_000)
@given(STREAMS, st.integers(1, 400))
def test_the_decoder_takes_only_what_is_valid_many_times(data: bytes, piece: int) -> None:
    take_anything(data, piece)


@pytest.fixture(scope="module")
def server() -> Iterator[LockstepServer]:
    """One vehicle at full speed, whose flight stacks come and go."""
    from sitl_bridge.core.simulation.simulation import VehicleSetup
    from sitl_bridge.core.vehicle.airframe_file import load_airframe
    from sitl_bridge.core.world.world import World

    iris = load_airframe("iris")
    simulation = Simulation(
        World(None), [VehicleSetup(iris.vehicle(), iris.sensor_records(), name="0")], seed=1
    )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    served = LockstepServer(simulation, ports=[port], speed=math.inf)
    served.prepare()
    with served:
        yield served
    assert served.failure is None


def survive(server: LockstepServer, wait_for: Callable[..., None], data: bytes) -> None:
    """Send bytes in the middle of a lockstep, which goes on, step for step."""
    blobs = [data]
    with Peer(server.ports[0], silent=0) as peer:
        peer.before_answer = lambda _peer: blobs.pop() if blobs and len(peer.times) > 5 else b""
        wait_for(
            lambda: not blobs and server.status().links[0].lockstep and len(peer.times) > 40, "the lockstep"
        )
        assert np.all(np.diff(peer.times) == STEP)
    wait_for(lambda: not server.status().links[0].connected, "the end of the connection")
    assert server.running
    assert np.all(np.isfinite(server.simulation.states["position"]))
    assert np.all(np.abs(server.simulation.controls) <= 1.0)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=STREAMS)
def test_a_lockstep_goes_on_whatever_comes(
    server: LockstepServer, wait_for: Callable[..., None], data: bytes
) -> None:
    survive(server, wait_for, data)


@pytest.mark.slow
@settings(max_examples=500, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=STREAMS)
def test_a_lockstep_goes_on_whatever_comes_many_times(
    server: LockstepServer, wait_for: Callable[..., None], data: bytes
) -> None:
    survive(server, wait_for, data)
