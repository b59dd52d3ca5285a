"""Pose errors of a flight stack's own estimate against the truth, absolute and relative, as evo has them."""

from __future__ import annotations

import numpy as np
from scipy.spatial.transform import Rotation

from sitl_bridge.analysis.report.flight_record import seconds
from sitl_bridge.analysis.report.pose_error import Comparison, Floats, PoseTrajectory, compare
from sitl_bridge.analysis.report.run_record import RecordedVehicle
from sitl_bridge.base.errors import UserError

DELTA = 1.0
"""s of flight between the two poses of a relative error."""
MOST_POSES = 100_000
"""Poses that are compared, evenly chosen of those of a long flight: an hour has 90,000 at 25 Hz."""


def estimate_pose_errors(vehicle: RecordedVehicle) -> Comparison | None:
    """Errors in flight, the estimate aligned with the truth (SE(3)); None without an estimate or a truth."""
    flight, log = vehicle.flight(), vehicle.log
    position = None if log is None else log.topic("vehicle_local_position")
    attitude = None if log is None else log.topic("vehicle_attitude")
    if flight is None or position is None or attitude is None or len(vehicle.time) < 2:
        return None
    if "q[0]" not in attitude or len(attitude["q[0]"]) < 2:
        return None
    time = seconds(position)
    begin = max(flight[0], float(vehicle.time[0]), float(seconds(attitude)[0]))
    end = min(flight[1], float(vehicle.time[-1]), float(seconds(attitude)[-1]))
    inside = np.flatnonzero((time >= begin) & (time <= end))
    inside = inside[:: max(1, len(inside) // MOST_POSES)]
    time = time[inside]
    if len(time) < 3:
        return None
    place = np.stack([np.asarray(position[axis], np.float64)[inside] for axis in "xyz"], axis=-1)
    turned = np.stack([np.asarray(attitude[f"q[{k}]"], np.float64) for k in range(4)], axis=-1)
    estimate = PoseTrajectory(time, place + vehicle.to_world, _nearest(time, seconds(attitude), turned))
    known = PoseTrajectory(
        time,
        np.stack(
            [np.interp(time, vehicle.time, vehicle.true(f"position_{a}")) for a in ("north", "east", "down")],
            axis=-1,
        ),
        _nearest(time, vehicle.time, vehicle.true("attitude", "w", "x", "y", "z")),
    )
    try:
        return compare(estimate, known, how="se3", delta=DELTA, unit="s", all_pairs=True)
    except UserError:
        return None  # a vehicle that hardly moves cannot be aligned


def _nearest(time: Floats, known: Floats, quaternions: Floats) -> Floats:
    """(k, 3, 3) of the w, x, y, z that are nearest to some times."""
    after = np.clip(np.searchsorted(known, time), 1, len(known) - 1)
    index = np.where(time - known[after - 1] < known[after] - time, after - 1, after)
    return np.asarray(Rotation.from_quat(quaternions[index][:, [1, 2, 3, 0]]).as_matrix())
