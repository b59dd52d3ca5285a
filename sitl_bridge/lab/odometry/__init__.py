"""Runs estimators of motion over recorded sensors, and compares them with the truth."""

from sitl_bridge.lab.odometry.evaluation import (
    MotionEstimator,
    OdometryResult,
    Yardstick,
    built_in_estimator,
    collect_results,
    evaluate,
    external_estimator,
    picture_writer,
)
from sitl_bridge.lab.odometry.sensor_run import recorded_sensors
from sitl_bridge.lab.odometry.tum_file import read_tum

__all__ = [
    "MotionEstimator",
    "OdometryResult",
    "Yardstick",
    "built_in_estimator",
    "collect_results",
    "evaluate",
    "external_estimator",
    "picture_writer",
    "read_tum",
    "recorded_sensors",
]
