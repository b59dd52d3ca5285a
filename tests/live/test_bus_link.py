"""What the bus and its process send to one another: JSON lines, of which none from the network is trusted."""

from __future__ import annotations

import json
import math
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitl_bridge.core.simulation.simulation import Simulation
from sitl_bridge.core.world.wind import SteadyWind, WindSpecification
from sitl_bridge.link.hil.server import LockstepServer
from sitl_bridge.live.bus.address import BusAddress
from sitl_bridge.live.bus.bus import Bus
from sitl_bridge.live.bus.client_settings import ClientSettings
from sitl_bridge.live.run.client_link import (
    Connected,
    Orders,
    PipeEnd,
    Results,
    Sent,
    Settings,
    SimulationSnapshot,
    SnapshotRequest,
    Stop,
    UserNotice,
    decode,
    encode,
)
from sitl_bridge.live.run.command_queue import Counts, Order, Result
from sitl_bridge.live.run.messages import SetWind
from sitl_bridge.live.run.outlet import RunContext
from sitl_bridge.live.run.topics import Address

WIND = SetWind(
    version=1, request_id="w", wind=WindSpecification(steady=SteadyWind(speed=3.0, direction=90.0))
)
ORDER = Order(Address("wind"), WIND)
SETTINGS = ClientSettings(BusAddress.parse("embedded", "p"), "run", ("0", "b"), Path("/somewhere"))
SENT: list[Sent] = [
    SETTINGS.message(),
    SnapshotRequest(Counts(executed=3)),
    SimulationSnapshot(
        1.5,
        {"paused": False},
        {"gusts": 0},
        {"position": [[math.nan, 1.0, math.inf]]},
        {"rotor_speed": [[1.0]]},
        [{"a": []}],
        [(0, 1.2, "rotor 2", "garage", 4.5)],
    ),
    Orders([ORDER]),
    Results([Result(ORDER, 2.0, None)]),
    Connected(True),
    UserNotice("line one\nline two"),
    Stop(),
]


@pytest.mark.parametrize("message", SENT, ids=lambda message: type(message).__name__)
def test_the_bus_and_its_process_understand_one_another(message: Sent) -> None:
    line = encode(message)
    assert line.count(b"\n") == 1
    assert repr(decode(line[:-1])) == repr(message)


def test_the_settings_of_the_bus_arrive_whole_and_without_the_password_in_their_text() -> None:
    sent = decode(encode(SETTINGS.message())[:-1])
    assert isinstance(sent, Settings)
    assert ClientSettings.from_message(sent) == SETTINGS
    assert "'p'" not in f"{sent} {SETTINGS}"


def test_an_order_is_checked_again_where_it_is_carried_out() -> None:
    assert decode(encode(Orders([ORDER]))) == Orders([ORDER])
    for kind, vehicle, command in (
        ("wind", None, {"version": 1, "request_id": "w", "wind": {"steady": {"speed": -1.0}}}),
        ("teleport", None, {"version": 1, "request_id": "w"}),
        ("__class__", "0", {}),
    ):
        order = {"address": {"kind": kind, "vehicle": vehicle}, "command": command}
        with pytest.raises(ValueError, match="not a valid Orders"):
            decode(json.dumps(["Orders", {"orders": [order]}]).encode())


@given(
    st.one_of(
        st.binary(max_size=300),
        st.builds(
            lambda kind, body: json.dumps([kind, body]).encode(),
            st.sampled_from([type(message).__name__ for message in SENT] + ["os.system"]),
            st.recursive(
                st.none() | st.booleans() | st.floats() | st.text(max_size=10),
                lambda inner: (
                    st.lists(inner, max_size=4)
                    | st.dictionaries(
                        st.sampled_from(["orders", "line", "counts", "kind"]), inner, max_size=4
                    )
                ),
                max_leaves=20,
            ),
        ),
    )
)
def test_whatever_the_bus_s_process_sends_is_a_message_or_a_value_error(line: bytes) -> None:
    try:
        message = decode(line)
    except ValueError:
        return
    assert type(message) in {type(known) for known in SENT}


def test_lines_arrive_in_pieces_and_one_without_end_is_the_end() -> None:
    here, there = socket.socketpair()
    with here, there:
        link = PipeEnd(here, 1000)
        assert not link.poll(0.0)
        data = encode(UserNotice("first")) + b"[not a message\n" + encode(UserNotice("second"))
        for i in range(0, len(data), 7):
            there.sendall(data[i : i + 7])
        there.sendall(b"x" * 2000)
        assert link.poll(0.0)
        assert link.receive() == UserNotice("first")
        with pytest.raises(ValueError, match="Expecting"):
            link.receive()
        assert link.receive() == UserNotice("second")
        with pytest.raises(EOFError, match="more than 1000 bytes"):
            link.receive()


def test_a_faulty_line_of_the_bus_costs_one_message_and_not_the_bus(
    make_simulation: Callable[..., Simulation], free_port: Callable[[], int], tmp_path: Path
) -> None:
    notes: list[str] = []
    here, there = socket.socketpair()
    server = LockstepServer(make_simulation(), ports=[free_port()])
    address = BusAddress.parse("embedded")
    bus = Bus(RunContext(server, tmp_path, notify=notes.append), address)
    bus.link = PipeEnd(here, 1 << 20)
    there.sendall(b"[1]\n" + b'["Orders", {"orders": [{"kind": "x", "vehicle": null, "command": {}}]}]\n')
    there.sendall(encode(UserNotice("still there")))
    there.close()
    bus.work()
    here.close()
    server.close()
    assert notes[1:] == ["still there"]
    assert bus.failure is None
    assert [line[-9:] for line in bus.errors.lines] == ["(2 times)"]
