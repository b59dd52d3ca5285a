"""The sensor samples of a recorded run, decoded from the frames that its flight stacks were sent.

The values are those on the wire: ``float32``, and integers of the message's unit for GPS and range finders.
"""

from __future__ import annotations

import numpy as np

from sitl_bridge.base.arrays import AnyArray, Bytes, Ints, Records
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.core.world.world import HOUR
from sitl_bridge.link.hil.message_layout import (
    CHECKSUM,
    FIELD_ACCELEROMETER,
    FIELD_AIRSPEED,
    FIELD_BAROMETER,
    FIELD_MAGNETOMETER,
    HEADER,
    MAGIC,
    PAYLOAD_NAMES,
    PAYLOADS,
)
from sitl_bridge.record.followed_steps import RecordedSteps

Column = tuple[str, str] | tuple[str, str, int]
"""A column: its name, its type, and how many of it."""
_KEYS: list[Column] = [("time", "i8"), ("vehicle", "i4"), ("instance", "i4")]
TABLES: dict[str, list[Column]] = {
    "imu": [*_KEYS, ("acceleration", "f4", 3), ("angular_velocity", "f4", 3), ("temperature", "f4")],
    "magnetometer": [*_KEYS, ("field", "f8", 3)],
    "barometer": [*_KEYS, ("pressure", "f8"), ("temperature", "f4"), ("altitude", "f4")],
    "airspeed": [*_KEYS, ("differential_pressure", "f8")],
    "gps": [
        *_KEYS,
        ("fix_time", "i8"),
        ("latitude", "f8"),
        ("longitude", "f8"),
        ("altitude", "f8"),
        ("velocity", "f8", 3),
        ("eph", "f8"),
        ("epv", "f8"),
        ("fix_type", "i4"),
        ("satellites", "i4"),
    ],
    "range_finder": [
        *_KEYS,
        ("distance", "f8"),
        ("minimum", "f8"),
        ("maximum", "f8"),
        ("variance", "f8"),
        ("quality", "i4"),
    ],
    "optical_flow": [
        *_KEYS,
        ("flow", "f4", 2),
        ("rotation", "f4", 3),
        ("interval", "f8"),
        ("distance", "f4"),
        ("quality", "i4"),
    ],
}
"""Columns of each table: ``time`` in us of simulated time; m, m/s, m/s^2 and rad in body FRD or NED; tesla,
pascal, degrees Celsius, degrees of latitude and longitude, s.  Flow and rotation are integrated, in rad."""


@compiled
def _walk(data: Bytes, starts: Ints, ends: Ints, found: Ints) -> int:
    """Find the MAVLink 2 frames between ``starts`` and ``ends``.

    Args:
        data: uint8.
        starts, ends: (k,) where the frames of a row begin and end.
        found: (m, 4) written: row, message ID, where the payload begins, its length.

    Returns:
        how many; negative if the bytes of a row are not whole frames, -1 for the first row.
    """
    count = 0
    for row in range(starts.shape[0]):
        at = starts[row]
        while at < ends[row]:
            if at + HEADER + CHECKSUM > ends[row] or data[at] != MAGIC:
                return -1 - row
            length = np.int64(data[at + 1])
            if at + HEADER + length + CHECKSUM > ends[row]:
                return -1 - row
            found[count, 0] = row
            found[count, 1] = np.int64(data[at + 7]) + 256 * np.int64(data[at + 8])
            found[count, 2] = at + HEADER
            found[count, 3] = length
            count += 1
            at += HEADER + length + CHECKSUM
    return count


def payloads_of(
    run: RecordedSteps, first: int = 0, last: int | None = None
) -> dict[str, tuple[Ints, Records]]:
    """Payloads of the frames of rows ``first`` to ``last``, by the names of ``PAYLOADS``.

    Returns:
        row of each payload, and the payloads as records, in the order in which they were sent.

    Raises:
        UserError: if the bytes that a row counts are not whole frames.
    """
    rows = run.rows[first:last]
    begin = run.offsets[first:last] + rows["message_bytes"]
    end = begin + rows["frame_bytes"]
    if not len(run.frames):
        end = begin
    most = int((end - begin).sum()) // (HEADER + CHECKSUM) + 1
    found = np.zeros((most, 4), np.int64)
    count = _walk(np.asarray(run.frames), begin, end, found)
    if count < 0:
        seconds = (rows["time"][-1 - count] - run.rows["time"][0]) * 1e-6
        raise UserError(f"frames.bin: is damaged: what was sent at {seconds:.3f} s is not whole frames")
    found = found[:count]
    made: dict[str, tuple[Ints, Records]] = {}
    for message, name in PAYLOAD_NAMES.items():
        these = found[found[:, 1] == message]
        dtype = PAYLOADS[name]
        # MAVLink 2 cuts trailing zeros off.
        place = np.arange(dtype.itemsize)
        index = these[:, 2:3] + place
        inside = place < these[:, 3:4]
        data = np.where(inside, run.frames[np.where(inside, index, 0)] if len(these) else index, 0)
        made[name] = these[:, 0] + first, data.astype(np.uint8).view(dtype).reshape(-1)
    return made


def samples_of(run: RecordedSteps, first: int = 0, last: int | None = None) -> dict[str, Records]:
    """The samples of rows ``first`` to ``last`` as tables with the columns of ``TABLES``; those with rows."""
    payloads = payloads_of(run, first, last)
    made = _inertial(run, *payloads["sensor"])
    made["gps"] = _gps(run, *payloads["gps"])
    made["range_finder"] = _ranges(run, *payloads["distance"])
    made["optical_flow"] = _flow(run, *payloads["flow"])
    return {name: made[name] for name in TABLES if len(made[name])}


def _table(name: str, run: RecordedSteps, rows: Ints, instance: AnyArray | int) -> Records:
    dtype: np.dtype[np.void] = np.dtype(TABLES[name])
    table: Records = np.zeros(len(rows), dtype)
    table["time"], table["vehicle"] = run.rows["time"][rows], run.rows["vehicle"][rows]
    table["instance"] = instance
    return table


def _inertial(run: RecordedSteps, rows: Ints, sent: Records) -> dict[str, Records]:
    def fresh(name: str, fields: int) -> tuple[Records, Records]:
        these = (sent["fields_updated"] & fields) != 0
        return _table(name, run, rows[these], sent["id"][these]), sent[these]

    imu, given = fresh("imu", FIELD_ACCELEROMETER)
    imu["acceleration"], imu["angular_velocity"] = given["acc"], given["gyro"]
    imu["temperature"] = given["temperature"]
    magnetometer, given = fresh("magnetometer", FIELD_MAGNETOMETER)
    magnetometer["field"] = given["mag"].astype(np.float64) * 1e-4
    barometer, given = fresh("barometer", FIELD_BAROMETER)
    barometer["pressure"] = given["abs_pressure"].astype(np.float64) * 1e2
    barometer["temperature"], barometer["altitude"] = given["temperature"], given["pressure_alt"]
    airspeed, given = fresh("airspeed", FIELD_AIRSPEED)
    airspeed["differential_pressure"] = given["diff_pressure"].astype(np.float64) * 1e2
    return {"imu": imu, "magnetometer": magnetometer, "barometer": barometer, "airspeed": airspeed}


def _gps(run: RecordedSteps, rows: Ints, sent: Records) -> Records:
    table = _table("gps", run, rows, sent["id"])
    # UTC is a whole number of hours ahead of simulated time.
    ahead = (sent["time_usec"].astype(np.int64) - table["time"] + HOUR // 2) // HOUR * HOUR
    table["fix_time"] = sent["time_usec"].astype(np.int64) - ahead
    table["latitude"], table["longitude"] = sent["lat"] * 1e-7, sent["lon"] * 1e-7
    table["altitude"] = sent["alt"] * 1e-3
    for axis, name in enumerate(("vn", "ve", "vd")):
        table["velocity"][:, axis] = sent[name] * 1e-2
    table["eph"], table["epv"] = sent["eph"] * 1e-2, sent["epv"] * 1e-2
    table["fix_type"], table["satellites"] = sent["fix_type"], sent["satellites_visible"]
    return table


def _ranges(run: RecordedSteps, rows: Ints, sent: Records) -> Records:
    table = _table("range_finder", run, rows, sent["id"])
    table["distance"], table["variance"] = sent["current_distance"] * 1e-2, sent["covariance"] * 1e-4
    table["minimum"], table["maximum"] = sent["min_distance"] * 1e-2, sent["max_distance"] * 1e-2
    table["quality"] = sent["signal_quality"]
    return table


def _flow(run: RecordedSteps, rows: Ints, sent: Records) -> Records:
    table = _table("optical_flow", run, rows, sent["sensor_id"])
    table["flow"][:, 0], table["flow"][:, 1] = sent["integrated_x"], sent["integrated_y"]
    table["rotation"], table["distance"] = sent["integrated_gyro"], sent["distance"]
    table["interval"], table["quality"] = sent["integration_time_us"] * 1e-6, sent["quality"]
    return table
