"""Parameters, missions, fences and rally points over good and bad links, as QGroundControl transfers them."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pymavlink.dialects.v20 import common as mavlink
from support.mavlink_vehicle import Station, source

from sitl_bridge.autopilot.mavlink.mission_protocol import decode_item, encode_item
from sitl_bridge.autopilot.mavlink.parameter_protocol import parameter_hash
from sitl_bridge.autopilot.mavlink.services import Services
from sitl_bridge.autopilot.parameters import Parameters
from sitl_bridge.plan.plan_upload import MissionItem

STEP = 50_000
SECOND = 1_000_000
RETRIES = 12
"""More than QGroundControl's five, for the links here lose a third of everything, in both directions."""

ACCEPTED, NO_SPACE, CANCELLED = 0, 4, 15


def bits(message: Any) -> bytes:
    """The four bytes of a PARAM_VALUE's value (pymavlink has read them as a float)."""
    return struct.pack("<f", message.param_value)


def numbered(field: str, number: int, name: str = "PARAM_VALUE", kind: int = 0) -> Callable[[Any], bool]:
    """Whether a message is the one of that number."""

    def is_it(message: Any) -> bool:
        return (
            message.get_type() == name
            and getattr(message, field) == number
            and getattr(message, "mission_type", kind) == kind
        )

    return is_it


class GroundStation(Station):
    """Does what QGroundControl does on connection: one thing after the other, each until it is answered.

    Its link has no streams, which would only cost time here.
    """

    def __init__(
        self,
        services: Services,
        address: int = 50000,
        system: int = 255,
        losses: Callable[[], int] = lambda: 1,
    ) -> None:
        super().__init__(services, address, system, losses, rates={})
        self.now = 0

    def step(self) -> None:
        """Let a moment pass."""
        self.now += STEP
        for key, messages in self.services.poll(self.now, self.now):
            if key == self.key:
                self.take(messages)

    def until(self, message: Any, answer: Callable[[Any], bool]) -> Any:
        """Send a message, again each second, until an answer comes; the answer."""
        for _ in range(RETRIES):
            self.heard.clear()
            self.send(message, self.now, self.now)
            for _ in range(20):
                found = next((m for m in self.heard if answer(m)), None)
                if found is not None:
                    return found
                self.step()
        raise AssertionError(f"no answer to {message}")

    def request(self, number: int, name: str) -> Any:
        """MAV_CMD_REQUEST_MESSAGE."""
        command = mavlink.MAVLink_command_long_message(1, 1, 512, 0, float(number), *(0.0,) * 6)
        return self.until(command, lambda m: m.get_type() == name)

    def parameters(self) -> dict[str, tuple[int, bytes]]:
        """The whole list; what is lost is asked for by index."""
        values: dict[int, Any] = {}
        count = self.until(
            mavlink.MAVLink_param_request_list_message(1, 1), lambda m: m.get_type() == "PARAM_VALUE"
        ).param_count
        for _ in range(60):
            self.step()
        values = {m.param_index: m for m in self.of("PARAM_VALUE")}
        for index in range(count):
            if index not in values:
                values[index] = self.until(
                    mavlink.MAVLink_param_request_read_message(1, 1, b"", index),
                    numbered("param_index", index),
                )
        return {values[k].param_id: (values[k].param_type, bits(values[k])) for k in range(count)}

    def download(self, kind: int) -> list[Any]:
        """Items of a kind."""
        count = self.until(
            mavlink.MAVLink_mission_request_list_message(1, 1, kind),
            lambda m: m.get_type() == "MISSION_COUNT" and m.mission_type == kind,
        ).count
        items = [
            self.until(
                mavlink.MAVLink_mission_request_int_message(1, 1, seq, kind),
                numbered("seq", seq, "MISSION_ITEM_INT", kind),
            )
            for seq in range(count)
        ]
        self.send(mavlink.MAVLink_mission_ack_message(1, 1, ACCEPTED, kind), self.now, self.now)
        return items

    def upload(self, kind: int, items: list[Any], steps: int = 100_000) -> int:
        """Send items as they are asked for; the result of the acknowledgement.

        Items that are asked for twice are sent twice; the count is repeated each second until the first is
        asked for, and the last until the acknowledgement comes.
        """
        self.heard.clear()
        last = mavlink.MAVLink_mission_count_message(1, 1, len(items), kind)
        for k in range(steps):
            if k % 20 == 0 and not any(last is item for item in items[:-1]):
                self.send(last, self.now, self.now)
            heard, self.heard = self.heard, []
            for message in heard:
                if message.get_type() == "MISSION_ACK" and message.mission_type == kind:
                    return int(message.type)
                if message.get_type() == "MISSION_REQUEST_INT" and message.mission_type == kind:
                    last = items[message.seq]
                    self.send(last, self.now, self.now)
            if not heard or not self.heard:
                self.step()
        raise AssertionError("the upload did not end")


def item(seq: int, kind: int = 0, command: int = 16, frame: int = 6, **values: Any) -> Any:
    fields: dict[str, Any] = {
        "current": int(seq == 0),
        "autocontinue": 1,
        "param1": 0.0,
        "param2": 0.0,
        "param3": 0.0,
        "param4": 0.0,
        "x": 473977420 + seq,
        "y": 85455940 - seq,
        "z": 10.0,
        **values,
    }
    return mavlink.MAVLink_mission_item_int_message(1, 1, seq, frame, command, mission_type=kind, **fields)


def mission(count: int) -> list[Any]:
    return [item(0, command=22), *(item(seq) for seq in range(1, count))]


def fence() -> list[Any]:
    return [item(k, 1, 5001, 0, param1=4.0, x=473977420 + 1000 * k) for k in range(4)]


def rally() -> list[Any]:
    return [item(k, 2, 5100, 3) for k in range(2)]


def lossy(seed: int) -> Callable[[], int]:
    """A third of the frames is lost, a sixth comes twice."""
    generator = random.Random(seed)
    return lambda: generator.choice((0, 0, 1, 1, 1, 2))


def same(sent: Any, got: Any) -> bool:
    names = ("seq", "frame", "command", "autocontinue", "param1", "x", "y", "z", "mission_type")
    return all(getattr(sent, name) == getattr(got, name) for name in names)


@pytest.fixture
def station() -> GroundStation:
    return GroundStation(Services(source()))


# ------------------------------------------------------------------ all of it


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
def test_a_ground_station_connects_and_moves_plans_both_ways_over_any_link(seed: int | None) -> None:
    station = GroundStation(Services(source()), losses=lossy(seed) if seed is not None else lambda: 1)
    commander = station.commander
    station.until(mavlink.MAVLink_heartbeat_message(6, 8, 0, 0, 4, 3), lambda m: m.get_type() == "HEARTBEAT")
    version = station.request(148, "AUTOPILOT_VERSION")
    wanted = mavlink.MAV_PROTOCOL_CAPABILITY_MISSION_FENCE | mavlink.MAV_PROTOCOL_CAPABILITY_MISSION_RALLY
    assert version.capabilities & wanted == wanted
    station.request(300, "PROTOCOL_VERSION")
    found = station.parameters()
    assert list(found) == sorted(commander.parameters.infos)
    for name, (kind, value) in found.items():
        integer = commander.parameters.infos[name].is_integer
        assert kind == (mavlink.MAV_PARAM_TYPE_INT32 if integer else mavlink.MAV_PARAM_TYPE_REAL32)
        assert struct.unpack("<i" if integer else "<f", value)[0] == commander.parameters.get(name)
    for kind in (0, 1, 2):
        assert station.download(kind) == []
    for kind, items in ((0, mission(25)), (1, fence()), (2, rally())):
        assert station.upload(kind, items) == ACCEPTED
        assert all(map(same, items, station.download(kind)))
        assert len(station.download(kind)) == len(items)
    assert [len(commander.flight.items), len(commander.plans.fence), len(commander.plans.rally)] == [25, 4, 2]


def test_a_plan_of_500_items_uploads_even_where_a_third_is_lost() -> None:
    station = GroundStation(Services(source()), losses=lossy(4))
    items = mission(500)
    assert station.upload(0, items) == ACCEPTED
    kept = station.commander.flight.items
    assert [i.seq for i in kept] == list(range(500))
    assert [round(i.x * 1e7) for i in kept] == [m.x for m in items]


# ------------------------------------------------------------------ parameters


def test_integers_travel_as_their_own_four_bytes(station: GroundStation) -> None:
    parameters = station.commander.parameters
    name = "COM_FLT_TIME_MAX"
    for value in (-1, 0, 5, 1000000):
        packed = struct.unpack("<f", struct.pack("<i", value))[0]
        answer = station.ask(mavlink.MAVLink_param_set_message(1, 1, name.encode(), packed, 6), "PARAM_VALUE")
        assert parameters.get(name) == value
        assert bits(answer) == struct.pack("<i", value)


def test_parameters_are_refused_with_the_reason_and_the_old_value(station: GroundStation) -> None:
    def refusal(name: bytes, value: float, kind: int) -> tuple[int, Any]:
        message = mavlink.MAVLink_param_set_message(1, 1, name, value, kind)
        error = station.ask(message, "PARAM_ERROR")
        values = station.of("PARAM_VALUE")
        return error.error, values[0].param_value if values else None

    assert refusal(b"NO_SUCH_THING", 1.0, 9) == (1, None)  # MAV_PARAM_ERROR_DOES_NOT_EXIST
    assert refusal(b"MPC_XY_CRUISE", 100.0, 9) == (2, 5.0)  # VALUE_OUT_OF_RANGE
    assert refusal(b"MPC_XY_CRUISE", math.nan, 9) == (2, 5.0)
    assert refusal(b"MPC_XY_CRUISE", 6.0, 6) == (7, 5.0)  # TYPE_MISMATCH
    assert station.ask(mavlink.MAVLink_param_request_read_message(1, 1, b"", 9999), "PARAM_ERROR").error == 1
    assert (
        station.ask(mavlink.MAVLink_param_request_read_message(1, 1, b"NOPE", -1), "PARAM_ERROR").error == 1
    )
    read = station.ask(mavlink.MAVLink_param_request_read_message(1, 1, b"MPC_XY_CRUISE", -1), "PARAM_VALUE")
    assert read.param_value == 5.0


def test_parameters_of_other_vehicles_are_left_alone(station: GroundStation) -> None:
    for target in ((2, 1), (1, 100)):
        station.send(mavlink.MAVLink_param_set_message(*target, b"MPC_XY_CRUISE", 6.0, 9), 0, 0)
        station.send(mavlink.MAVLink_param_request_list_message(*target), 0, 0)
    assert not station.heard
    assert station.commander.parameters.get("MPC_XY_CRUISE") == 5.0


def test_the_hash_is_the_one_qgroundcontrol_computes_from_its_cache(station: GroundStation) -> None:
    parameters = station.commander.parameters
    table = []
    for k in range(256):  # CRC-32 of QGC.cc: table of the reflected polynomial, begun at 0, not inverted
        value = k
        for _ in range(8):
            value = value >> 1 ^ (0xEDB88320 if value & 1 else 0)
        table.append(value)
    crc = 0
    for name, info in parameters.infos.items():
        packed = struct.pack("<i" if info.is_integer else "<f", parameters.get(name))
        for byte in name.encode() + packed:
            crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    assert parameter_hash(parameters) == crc


def test_a_station_that_knows_the_hash_stops_the_list(station: GroundStation) -> None:
    answer = station.ask(mavlink.MAVLink_param_request_list_message(1, 1), "PARAM_VALUE")
    assert (answer.param_id, answer.param_index) == ("_HASH_CHECK", 0xFFFF)
    station.step()
    station.send(mavlink.MAVLink_param_set_message(1, 1, b"_HASH_CHECK", answer.param_value, 5), 0, 0)
    station.heard.clear()
    for _ in range(20):
        station.step()
    assert not station.of("PARAM_VALUE")


def test_a_change_is_told_to_the_other_stations(station: GroundStation) -> None:
    other = GroundStation(station.services, 50010, 254)
    station.ask(mavlink.MAVLink_param_set_message(1, 1, b"MPC_XY_CRUISE", 7.0, 9), "PARAM_VALUE")
    other.step()
    assert [(m.param_id, m.param_value) for m in other.of("PARAM_VALUE")] == [("MPC_XY_CRUISE", 7.0)]
    station.heard.clear()
    station.step()
    assert not station.of("PARAM_VALUE")  # it has been answered


# ------------------------------------------------------------------ missions


def test_a_second_station_cannot_upload_while_a_first_does_and_may_read_meanwhile(
    station: GroundStation,
) -> None:
    """As PX4's ``mavlink_mission.cpp``: one upload of all links; a link that is idle clears."""
    services = station.services
    assert station.upload(0, mission(3)) == ACCEPTED
    station.send(mavlink.MAVLink_mission_count_message(1, 1, 5, 0), 0, 0)
    same_link = GroundStation(services, 50000, 254)
    other_link = GroundStation(services, 50001, 254)
    for other in (same_link, other_link):
        for kind in (0, 1):
            ack = other.ask(mavlink.MAVLink_mission_count_message(1, 1, 2, kind), "MISSION_ACK", wall=STEP)
            assert ack.type == mavlink.MAV_MISSION_ERROR
        assert len(other.download(0)) == 3
    same_link.heard.clear()
    same_link.send(mavlink.MAVLink_mission_clear_all_message(1, 1, 0), 0, STEP)
    assert not same_link.of("MISSION_ACK")
    assert len(same_link.download(0)) == 3
    clear = mavlink.MAVLink_mission_clear_all_message(1, 1, 0)
    assert other_link.ask(clear, "MISSION_ACK", wall=STEP).type == ACCEPTED
    for message in mission(5):
        station.send(message, 0, STEP)
    assert station.of("MISSION_ACK")[-1].type == ACCEPTED
    assert other_link.upload(0, mission(4)) == ACCEPTED


def test_a_lost_item_is_asked_for_again_and_an_upload_without_peer_is_given_up(
    station: GroundStation,
) -> None:
    station.send(mavlink.MAVLink_mission_count_message(1, 1, 2, 0), 0, 0)
    station.heard.clear()
    for _ in range(int(4.9 * SECOND / STEP)):
        station.step()
    assert len(station.of("MISSION_REQUEST_INT")) in range(15, 21)  # every 0.25 s, mavlink_mission.h
    assert not station.of("MISSION_ACK")
    for _ in range(10):
        station.step()
    assert station.of("MISSION_ACK")[0].type == CANCELLED
    assert station.upload(0, mission(2)) == ACCEPTED


def test_an_upload_is_as_patient_at_a_hundred_times_real_time(station: GroundStation) -> None:
    station.send(mavlink.MAVLink_mission_count_message(1, 1, 2, 0), 0, 0)
    for k in range(1, 200):  # 10 s of simulated time, 0.1 s of wall time
        station.take([m for _, messages in station.services.poll(k * STEP, k * 500) for m in messages])
    assert len(station.of("MISSION_REQUEST_INT")) == 1
    for message in mission(2):
        station.send(message, 200 * STEP, 100_000)
    assert station.of("MISSION_ACK")[-1].type == ACCEPTED


def test_items_in_the_wrong_order_are_not_taken_over(station: GroundStation) -> None:
    items = mission(4)
    station.send(mavlink.MAVLink_mission_count_message(1, 1, 4, 0), 0, 0)
    for seq in (2, 0, 0, 3, 1, 0, 2, 2, 3):
        station.send(items[seq], 0, 0)
    assert station.of("MISSION_ACK")[-1].type == ACCEPTED
    assert [i.seq for i in station.commander.flight.items] == [0, 1, 2, 3]


def test_the_last_item_again_brings_the_lost_acknowledgement_again(station: GroundStation) -> None:
    items = mission(3)
    assert station.upload(0, items) == ACCEPTED
    assert station.ask(items[2], "MISSION_ACK").type == ACCEPTED
    assert station.ask(items[1], "MISSION_ACK") is None
    assert (
        GroundStation(station.services, 50002).ask(items[2], "MISSION_ACK").type == 1
    )  # no upload of its own


def test_an_upload_can_be_cancelled_and_begun_anew(station: GroundStation) -> None:
    assert station.upload(0, mission(2)) == ACCEPTED
    station.send(mavlink.MAVLink_mission_count_message(1, 1, 9, 0), 0, 0)
    station.send(mission(9)[0], 0, 0)
    station.send(mavlink.MAVLink_mission_ack_message(1, 1, CANCELLED, 0), 0, 0)
    assert len(station.commander.flight.items) == 2
    other = GroundStation(station.services, 50003, 254)
    assert other.upload(0, mission(3)) == ACCEPTED
    station.send(mavlink.MAVLink_mission_count_message(1, 1, 9, 0), 0, 0)
    station.send(mission(9)[0], 0, 0)
    assert station.upload(0, mission(4)) == ACCEPTED  # without a word about the first


def test_too_many_items_unknown_types_and_wrong_numbers_are_refused(station: GroundStation) -> None:
    def result(message: Any) -> int:
        return int(station.ask(message, "MISSION_ACK").type)

    assert result(mavlink.MAVLink_mission_count_message(1, 1, 501, 0)) == NO_SPACE
    assert result(mavlink.MAVLink_mission_count_message(1, 1, 2, 7)) == mavlink.MAV_MISSION_UNSUPPORTED
    assert result(mavlink.MAVLink_mission_request_list_message(1, 1, 255)) == mavlink.MAV_MISSION_UNSUPPORTED
    assert result(mavlink.MAVLink_mission_request_int_message(1, 1, 0, 9)) == mavlink.MAV_MISSION_UNSUPPORTED
    assert (
        result(mavlink.MAVLink_mission_request_int_message(1, 1, 0, 0))
        == mavlink.MAV_MISSION_INVALID_SEQUENCE
    )
    assert result(mavlink.MAVLink_mission_clear_all_message(1, 1, 9)) == mavlink.MAV_MISSION_UNSUPPORTED
    assert result(item(0)) == mavlink.MAV_MISSION_ERROR
    assert station.ask(mavlink.MAVLink_mission_count_message(2, 1, 3, 0), "MISSION_ACK") is None


def test_a_faulty_item_is_refused_with_its_number_and_leaves_the_mission_as_it_was(
    station: GroundStation,
) -> None:
    assert station.upload(0, mission(2)) == ACCEPTED
    bad = mission(5)
    bad[3].command = 31000
    assert station.upload(0, bad) == mavlink.MAV_MISSION_UNSUPPORTED
    assert len(station.commander.flight.items) == 2
    station.heard.clear()
    station.step()
    assert "item 3" in station.of("STATUSTEXT")[0].text
    bad[3].command = 16
    bad[3].x = 950000000
    assert station.upload(0, bad) == mavlink.MAV_MISSION_INVALID_PARAM5_X


def test_clearing_takes_one_kind_or_all(station: GroundStation) -> None:
    commander = station.commander
    for kind, items in ((0, mission(3)), (1, fence()), (2, rally())):
        assert station.upload(kind, items) == ACCEPTED
    assert station.ask(mavlink.MAVLink_mission_clear_all_message(1, 1, 1), "MISSION_ACK").type == ACCEPTED
    assert [len(commander.flight.items), len(commander.plans.fence), len(commander.plans.rally)] == [3, 0, 2]
    assert station.upload(2, []) == ACCEPTED
    assert [len(commander.flight.items), len(commander.plans.fence), len(commander.plans.rally)] == [3, 0, 0]
    assert station.ask(mavlink.MAVLink_mission_clear_all_message(1, 1, 255), "MISSION_ACK").type == ACCEPTED
    assert commander.flight.items == ()


def test_the_current_item_is_set_told_and_refused_in_words(station: GroundStation) -> None:
    assert station.upload(0, mission(6)) == ACCEPTED
    current = station.ask(mavlink.MAVLink_mission_set_current_message(1, 1, 4), "MISSION_CURRENT")
    assert (current.seq, current.total) == (4, 6)
    assert (
        station.ask(mavlink.MAVLink_mission_request_int_message(1, 1, 4, 0), "MISSION_ITEM_INT").current == 1
    )
    assert station.ask(mavlink.MAVLink_mission_set_current_message(1, 1, 6), "MISSION_CURRENT") is None
    station.step()
    assert "no item 6" in station.of("STATUSTEXT")[0].text
    long = mavlink.MAVLink_command_long_message(1, 1, 224, 0, 2.0, *(0.0,) * 6)
    assert station.ask(long, "COMMAND_ACK").result == ACCEPTED
    long.param1 = 77.0
    assert station.ask(long, "COMMAND_ACK").result == mavlink.MAV_RESULT_DENIED


def test_items_reached_are_told_at_once_and_ten_times_more(station: GroundStation) -> None:
    assert station.upload(0, mission(3)) == ACCEPTED
    for _ in range(40):
        station.step()
    station.heard.clear()
    station.commander.reached.append(1)
    station.step()
    assert [m.seq for m in station.of("MISSION_ITEM_REACHED")][:1] == [1]
    for _ in range(30 * SECOND // STEP):
        station.step()
    assert len(station.of("MISSION_ITEM_REACHED")) == 11
    assert len(station.of("MISSION_CURRENT")) in (30, 31)


@given(
    frame=st.sampled_from([0, 2, 3, 5, 6, 10, 11, 1]),
    x=st.integers(-(2**31), 2**31 - 1),
    y=st.integers(-(2**31), 2**31 - 1),
    params=st.lists(st.floats(width=32), min_size=5, max_size=5),
)
def test_an_item_comes_back_bit_for_bit(frame: int, x: int, y: int, params: list[float]) -> None:
    p1, p2, p3, p4, z = params
    sent = item(3, frame=frame, x=x, y=y, z=z, param1=p1, param2=p2, param3=p3, param4=p4)
    stored = decode_item(sent)
    assert isinstance(stored, MissionItem)
    back = encode_item(stored, (1, 1), current=False)
    sender = mavlink.MAVLink(None, 1, 1)
    assert back.pack(sender) == sent.pack(sender)


# ------------------------------------------------------------------ anything in any order

MESSAGES = st.sampled_from(
    [
        *(
            mavlink.MAVLink_mission_count_message(1, 1, count, kind)
            for count in (0, 1, 2)
            for kind in (0, 1, 2, 255)
        ),
        *(item(seq, kind) for seq in (0, 1, 2, 60000) for kind in (0, 1, 9)),
        *(mavlink.MAVLink_mission_ack_message(1, 1, result, 0) for result in (0, 1, 3, 15)),
        *(mavlink.MAVLink_mission_request_int_message(1, 1, seq, 0) for seq in (0, 1, 9)),
        mavlink.MAVLink_mission_request_list_message(1, 1, 0),
        mavlink.MAVLink_mission_clear_all_message(1, 1, 255),
        mavlink.MAVLink_mission_set_current_message(1, 1, 1),
        mavlink.MAVLink_param_request_list_message(1, 1),
        None,
    ]
)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), MESSAGES, st.integers(0, 6 * SECOND)), max_size=40))
def test_after_anything_at_all_a_station_can_still_upload(script: list[tuple[int, Any, int]]) -> None:
    services = Services(source())
    stations = [GroundStation(services, 50000 + k, 255 - k) for k in range(3)]
    now = 0
    for who, message, pause in script:
        now += pause
        if message is not None:
            stations[who].send(message, now, now)
        services.poll(now, now)
    stations[0].now = now + 6 * SECOND
    stations[0].step()
    assert stations[0].upload(0, mission(3), 1000) == ACCEPTED


def test_qgroundcontrol_finds_the_vehicle_set_up_and_cannot_change_that() -> None:
    vehicle = source()
    vehicle.commander.parameters = Parameters()
    found = GroundStation(Services(vehicle)).parameters()
    station = GroundStation(Services(vehicle))
    for name in ("SYS_AUTOSTART", "CAL_GYRO0_ID", "CAL_ACC0_ID", "CAL_MAG0_ID"):
        assert struct.unpack("<i", found[name][1])[0] != 0
        error = station.ask(mavlink.MAVLink_param_set_message(1, 1, name.encode(), 0.0, 6), "PARAM_ERROR")
        assert error.error == 2  # out of range
    assert struct.unpack("<i", found["COM_RC_IN_MODE"][1])[0] == 1  # no radio to set up
