"""Triggers of a camera in the built-in stack, and what it passes on to the payload."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.paths import MISSIONS

from sitl_bridge.autopilot.estimate import EstimatedState
from sitl_bridge.autopilot.mavlink.telemetry import payload_messages
from sitl_bridge.autopilot.modes.payload_control import PayloadControl
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.link.mavlink import common as mavlink
from sitl_bridge.session.session import Session
from sitl_bridge.session.settings import FlightOptions, FlightSettings

INSTANCE = 167


def given(control: PayloadControl, command: int, *params: float) -> None:
    control.command(command, (*params, *(0.0,) * (7 - len(params))))


def flown(control: PayloadControl, state: EstimatedState, east: Sequence[float]) -> list[int]:
    """Sequence numbers of the triggers on a way to the east, a point each 50 ms."""
    for y in east:
        state.time += 50_000
        state.y = y
        control.update()
    numbers = [number for _, number in control.triggers]
    control.triggers.clear()
    return numbers


def test_it_triggers_each_distance_from_the_command_on_until_it_is_switched_off() -> None:
    state = EstimatedState()
    control = PayloadControl(state)
    way = [0.25 * k for k in range(41)]
    assert flown(control, state, way) == []
    given(control, mavlink.MAV_CMD_DO_SET_CAM_TRIGG_DIST, 5.0)
    assert flown(control, state, way) == [0, 1, 2]
    given(control, mavlink.MAV_CMD_DO_SET_CAM_TRIGG_DIST, 0.0)
    assert flown(control, state, way) == []
    given(control, mavlink.MAV_CMD_DO_SET_CAM_TRIGG_DIST, 5.0, 0.0, 1.0)
    assert flown(control, state, way[:2]) == [3, 4]


def test_it_triggers_by_time_and_pauses() -> None:
    state = EstimatedState()
    control = PayloadControl(state)
    given(control, mavlink.MAV_CMD_DO_SET_CAM_TRIGG_INTERVAL, 500.0)
    given(control, mavlink.MAV_CMD_DO_TRIGGER_CONTROL, 1.0, -1.0, -1.0)
    assert flown(control, state, [0.0] * 21) == [0, 1, 2]
    given(control, mavlink.MAV_CMD_DO_TRIGGER_CONTROL, -1.0, -1.0, 1.0)
    assert flown(control, state, [0.0] * 21) == []
    given(control, mavlink.MAV_CMD_DO_TRIGGER_CONTROL, 1.0, 1.0, 0.0)
    assert flown(control, state, [0.0]) == [0]


def test_a_single_photo_goes_by_the_trigger_and_others_to_the_camera() -> None:
    state = EstimatedState()
    state.time = 1_234_000
    control = PayloadControl(state)
    given(control, mavlink.MAV_CMD_IMAGE_START_CAPTURE, 0.0, 0.0, 1.0)
    given(control, mavlink.MAV_CMD_IMAGE_START_CAPTURE, 0.0, 2.0, 0.0)
    given(control, mavlink.MAV_CMD_DO_SET_ROI_LOCATION, 0.0, 0.0, 0.0, 0.0, 47.4, 8.5, 500.0)
    given(control, mavlink.MAV_CMD_DO_SET_ROI_LOCATION, 0.0, 0.0, 0.0, 0.0, math.nan, 1e30, 0.0)
    trigger, series, place, nowhere = payload_messages(control, 7)
    assert (trigger.time_usec, trigger.seq) == (1_234_000, 0)
    assert (series.command, series.target_component) == (mavlink.MAV_CMD_IMAGE_START_CAPTURE, 100)
    assert (place.x, place.y, place.z) == (474_000_000, 85_000_000, 500.0)
    for message in (trigger, series, place, nowhere):
        message.pack(mavlink.MAVLink(None, 7, 1))
    assert list(payload_messages(control, 7)) == []


@pytest.mark.slow
def test_a_survey_leaves_geotagged_photos(tmp_path: Path) -> None:
    options = FlightOptions(
        airframe=load_airframe("iris_survey"),
        speed=math.inf,
        instance=INSTANCE,
        runs=tmp_path,
        autopilot="builtin",
    )
    with Session(FlightSettings.from_mission(MISSIONS / "survey.plan", options)) as session:
        session.fly()
    outcome = session.conclude()
    assert outcome.succeeded, outcome.reason
    folder = session.directory.path / "photos" / "payload_camera_0"
    rows = list(csv.DictReader((folder / "photos.csv").read_text().splitlines()))
    assert len(rows) == len(list(folder.glob("*.jpg"))) > 30
    assert all(row["estimated_latitude"] for row in rows)
    for row in rows:
        assert float(row["true_latitude"]) == pytest.approx(float(row["estimated_latitude"]), abs=2e-5)
