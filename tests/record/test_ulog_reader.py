"""Reading ULogs whose time goes back."""

from __future__ import annotations

from pathlib import Path

import pytest

from sitl_bridge.base.errors import UserError
from sitl_bridge.record.ulog_reader import FlightLog
from sitl_bridge.record.ulog_writer import UlogWriter

TOPIC = "vehicle_air_data"


def test_a_topic_ends_where_its_time_goes_back_and_the_log_counts_as_damaged(tmp_path: Path) -> None:
    file = tmp_path / "twice.ulg"
    with UlogWriter(file, 0, {TOPIC: ["uint64_t timestamp", "float baro_alt_meter"]}, [TOPIC]) as log:
        for k in (1, 2, 2, 3, 1, 2, 3, 4):
            log.write(TOPIC, 1_000_000 * k, 100.0 * k)
        log.flush()
    found = FlightLog.read(file, {TOPIC: ()})
    assert found.damaged
    assert found.columns[TOPIC, 0]["timestamp"].tolist() == [1_000_000, 2_000_000, 2_000_000, 3_000_000]
    assert found.columns[TOPIC, 0]["baro_alt_meter"].tolist() == [100.0, 200.0, 200.0, 300.0]
    with pytest.raises(UserError, match=r"twice\.ulg: is damaged; take another flight"):
        FlightLog.read(file, {TOPIC: ()}, whole=True)
