"""Every parameter that PX4 was given is compared with what it has; what differs or is missing is named."""

from __future__ import annotations

import struct
from typing import Any

from pymavlink.dialects.v20 import common as mavlink

from sitl_bridge.link.mavlink.decoder import Decoder
from sitl_bridge.link.px4.read_back import BATCH, RETRY, TIMEOUT, ReadBack


def answer(name: str, value: float) -> Any:
    """PX4's PARAM_VALUE as decoded: an int as its bytes."""

    kind = mavlink.MAV_PARAM_TYPE_INT32 if isinstance(value, int) else mavlink.MAV_PARAM_TYPE_REAL32
    raw = struct.unpack("<f", struct.pack("<i", value))[0] if isinstance(value, int) else value
    message = mavlink.MAVLink_param_value_message(name.encode(), raw, kind, 900, 3)
    frame: bytes = message.pack(mavlink.MAVLink(None, srcSystem=1, srcComponent=1))
    return Decoder().message(frame)


def test_all_parameters_that_arrived_leave_no_fault() -> None:
    given = {"MPC_XY_P": 0.95, "CA_ROTOR_COUNT": 6, "RTL_TIME_MARGIN": -1_000_000, "A": 0, "CA_R_REV": 0.1}
    reader = ReadBack(given)
    assert reader.requests(0.0) == [*given]
    for name, value in given.items():
        assert not reader.done
        reader.take(answer(name, value), 0.01)
    assert reader.done
    assert reader.fault() == ""


def test_a_value_of_another_kind_or_size_is_named_with_both() -> None:
    reader = ReadBack({"MC_ROLL_P": 6.5, "CA_ROTOR_COUNT": 6})
    reader.requests(0.0)
    reader.take(answer("MC_ROLL_P", 4.0), 0.0)
    assert reader.fault() == "", "not all have been compared"
    reader.take(answer("CA_ROTOR_COUNT", 4), 0.0)
    assert reader.fault() == (
        "2 of 2 parameters did not reach PX4: MC_ROLL_P is 4, not 6.5, CA_ROTOR_COUNT is 4, not 6"
    )


def test_what_is_lost_is_asked_for_again_and_given_up_after_a_while() -> None:
    given: dict[str, int | float] = {f"P{i}": i for i in range(BATCH + 5)}
    reader = ReadBack(given)
    first = reader.requests(0.0)
    assert len(first) == BATCH
    assert reader.requests(0.5 * RETRY) == []
    for name in first[1:]:
        reader.take(answer(name, given[name]), 0.01)
    assert reader.requests(0.02) == [], "one answer of the batch is still awaited"
    assert reader.requests(RETRY + 0.01) == ["P0", *(f"P{i}" for i in range(BATCH, BATCH + 5))]
    assert reader.requests(TIMEOUT + 1.0) == []
    assert reader.done
    assert "6 of 45 parameters did not reach PX4: no answer for P0, P40" in reader.fault()


def test_next_batch_follows_the_last_answer_at_once() -> None:
    given: dict[str, int | float] = {f"P{i}": float(i) for i in range(BATCH + 1)}
    reader = ReadBack(given)
    for name in reader.requests(0.0):
        reader.take(answer(name, given[name]), 0.01)
    assert reader.requests(0.01) == [f"P{BATCH}"]


def test_a_parameter_that_this_px4_may_lack_is_not_asked_for() -> None:
    reader = ReadBack(
        {"EKF2_GPS_DELAY": 1.0, "SENS_GPS0_DELAY": 1.0, "A": 1}, {"EKF2_GPS_DELAY", "SENS_GPS0_DELAY"}
    )
    assert reader.requests(0.0) == ["A"]
    reader.take(answer("B", 1), 0.0)
    reader.take(answer("A", 1), 0.0)
    assert reader.done
