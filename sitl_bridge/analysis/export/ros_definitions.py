"""Definitions of the messages that recordings are exported as, without comments.

They are ROS 2 Humble's, and actuator_msgs (github.com/rudislabs/actuator_msgs) of ROS's bridge to Gazebo.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

DEFINITIONS = {
    "builtin_interfaces/Time": "int32 sec\nuint32 nanosec",
    "std_msgs/Header": "builtin_interfaces/Time stamp\nstring frame_id",
    "std_msgs/Bool": "bool data",
    "actuator_msgs/Actuators": (
        "std_msgs/Header header\nfloat64[] position\nfloat64[] velocity\nfloat64[] normalized"
    ),
    "geometry_msgs/Vector3": "float64 x\nfloat64 y\nfloat64 z",
    "geometry_msgs/Point": "float64 x\nfloat64 y\nfloat64 z",
    "geometry_msgs/Quaternion": "float64 x 0\nfloat64 y 0\nfloat64 z 0\nfloat64 w 1",
    "geometry_msgs/QuaternionStamped": "std_msgs/Header header\ngeometry_msgs/Quaternion quaternion",
    "geometry_msgs/Pose": "geometry_msgs/Point position\ngeometry_msgs/Quaternion orientation",
    "geometry_msgs/PoseWithCovariance": "geometry_msgs/Pose pose\nfloat64[36] covariance",
    "geometry_msgs/Twist": "geometry_msgs/Vector3 linear\ngeometry_msgs/Vector3 angular",
    "geometry_msgs/TwistWithCovariance": "geometry_msgs/Twist twist\nfloat64[36] covariance",
    "geometry_msgs/Vector3Stamped": "std_msgs/Header header\ngeometry_msgs/Vector3 vector",
    "geometry_msgs/Transform": "geometry_msgs/Vector3 translation\ngeometry_msgs/Quaternion rotation",
    "geometry_msgs/TransformStamped": (
        "std_msgs/Header header\nstring child_frame_id\ngeometry_msgs/Transform transform"
    ),
    "tf2_msgs/TFMessage": "geometry_msgs/TransformStamped[] transforms",
    "nav_msgs/Odometry": (
        "std_msgs/Header header\nstring child_frame_id\n"
        "geometry_msgs/PoseWithCovariance pose\ngeometry_msgs/TwistWithCovariance twist"
    ),
    "sensor_msgs/Imu": (
        "std_msgs/Header header\ngeometry_msgs/Quaternion orientation\nfloat64[9] orientation_covariance\n"
        "geometry_msgs/Vector3 angular_velocity\nfloat64[9] angular_velocity_covariance\n"
        "geometry_msgs/Vector3 linear_acceleration\nfloat64[9] linear_acceleration_covariance"
    ),
    "sensor_msgs/JointState": (
        "std_msgs/Header header\nstring[] name\nfloat64[] position\nfloat64[] velocity\nfloat64[] effort"
    ),
    "sensor_msgs/BatteryState": (
        "uint8 POWER_SUPPLY_STATUS_UNKNOWN=0\nuint8 POWER_SUPPLY_STATUS_CHARGING=1\n"
        "uint8 POWER_SUPPLY_STATUS_DISCHARGING=2\nuint8 POWER_SUPPLY_STATUS_NOT_CHARGING=3\n"
        "uint8 POWER_SUPPLY_STATUS_FULL=4\nuint8 POWER_SUPPLY_HEALTH_UNKNOWN=0\n"
        "uint8 POWER_SUPPLY_HEALTH_GOOD=1\nuint8 POWER_SUPPLY_HEALTH_OVERHEAT=2\n"
        "uint8 POWER_SUPPLY_HEALTH_DEAD=3\nuint8 POWER_SUPPLY_HEALTH_OVERVOLTAGE=4\n"
        "uint8 POWER_SUPPLY_HEALTH_UNSPEC_FAILURE=5\nuint8 POWER_SUPPLY_HEALTH_COLD=6\n"
        "uint8 POWER_SUPPLY_HEALTH_WATCHDOG_TIMER_EXPIRE=7\nuint8 POWER_SUPPLY_HEALTH_SAFETY_TIMER_EXPIRE=8\n"
        "uint8 POWER_SUPPLY_TECHNOLOGY_UNKNOWN=0\nuint8 POWER_SUPPLY_TECHNOLOGY_NIMH=1\n"
        "uint8 POWER_SUPPLY_TECHNOLOGY_LION=2\nuint8 POWER_SUPPLY_TECHNOLOGY_LIPO=3\n"
        "uint8 POWER_SUPPLY_TECHNOLOGY_LIFE=4\nuint8 POWER_SUPPLY_TECHNOLOGY_NICD=5\n"
        "uint8 POWER_SUPPLY_TECHNOLOGY_LIMN=6\nstd_msgs/Header header\nfloat32 voltage\n"
        "float32 temperature\nfloat32 current\nfloat32 charge\nfloat32 capacity\nfloat32 design_capacity\n"
        "float32 percentage\nuint8 power_supply_status\nuint8 power_supply_health\n"
        "uint8 power_supply_technology\nbool present\nfloat32[] cell_voltage\n"
        "float32[] cell_temperature\nstring location\nstring serial_number"
    ),
    "sensor_msgs/MagneticField": (
        "std_msgs/Header header\ngeometry_msgs/Vector3 magnetic_field\nfloat64[9] magnetic_field_covariance"
    ),
    "sensor_msgs/FluidPressure": "std_msgs/Header header\nfloat64 fluid_pressure\nfloat64 variance",
    "sensor_msgs/NavSatStatus": (
        "int8 STATUS_NO_FIX=-1\nint8 STATUS_FIX=0\nint8 STATUS_SBAS_FIX=1\nint8 STATUS_GBAS_FIX=2\n"
        "uint16 SERVICE_GPS=1\nuint16 SERVICE_GLONASS=2\nuint16 SERVICE_COMPASS=4\n"
        "uint16 SERVICE_GALILEO=8\nint8 status\nuint16 service"
    ),
    "sensor_msgs/NavSatFix": (
        "uint8 COVARIANCE_TYPE_UNKNOWN=0\nuint8 COVARIANCE_TYPE_APPROXIMATED=1\n"
        "uint8 COVARIANCE_TYPE_DIAGONAL_KNOWN=2\nuint8 COVARIANCE_TYPE_KNOWN=3\n"
        "std_msgs/Header header\nsensor_msgs/NavSatStatus status\nfloat64 latitude\nfloat64 longitude\n"
        "float64 altitude\nfloat64[9] position_covariance\nuint8 position_covariance_type"
    ),
    "sensor_msgs/Range": (
        "uint8 ULTRASOUND=0\nuint8 INFRARED=1\nstd_msgs/Header header\nuint8 radiation_type\n"
        "float32 field_of_view\nfloat32 min_range\nfloat32 max_range\nfloat32 range"
    ),
    "sensor_msgs/Image": (
        "std_msgs/Header header\nuint32 height\nuint32 width\nstring encoding\nuint8 is_bigendian\n"
        "uint32 step\nuint8[] data"
    ),
    "sensor_msgs/RegionOfInterest": (
        "uint32 x_offset\nuint32 y_offset\nuint32 height\nuint32 width\nbool do_rectify"
    ),
    "sensor_msgs/CameraInfo": (
        "std_msgs/Header header\nuint32 height\nuint32 width\nstring distortion_model\nfloat64[] d\n"
        "float64[9] k\nfloat64[9] r\nfloat64[12] p\nuint32 binning_x\nuint32 binning_y\n"
        "sensor_msgs/RegionOfInterest roi"
    ),
    "sensor_msgs/LaserScan": (
        "std_msgs/Header header\nfloat32 angle_min\nfloat32 angle_max\nfloat32 angle_increment\n"
        "float32 time_increment\nfloat32 scan_time\nfloat32 range_min\nfloat32 range_max\n"
        "float32[] ranges\nfloat32[] intensities"
    ),
    "sensor_msgs/PointField": (
        "uint8 INT8=1\nuint8 UINT8=2\nuint8 INT16=3\nuint8 UINT16=4\nuint8 INT32=5\nuint8 UINT32=6\n"
        "uint8 FLOAT32=7\nuint8 FLOAT64=8\nstring name\nuint32 offset\nuint8 datatype\nuint32 count"
    ),
    "sensor_msgs/PointCloud2": (
        "std_msgs/Header header\nuint32 height\nuint32 width\nsensor_msgs/PointField[] fields\n"
        "bool is_bigendian\nuint32 point_step\nuint32 row_step\nuint8[] data\nbool is_dense"
    ),
}
"""Definition by ``package/Type``."""

_FIELD = re.compile(r"([\w/]+)(\[(\d*)\])? (\w+)( \S+)?")


def fields_of(name: str) -> Iterator[tuple[str, int | None, str]]:
    """Type, number and name of each field; the number is 1 without brackets and None in empty ones."""
    for line in DEFINITIONS[name].splitlines():
        if "=" in line:
            continue
        match = _FIELD.fullmatch(line)
        assert match is not None, line
        kind, brackets, count, field, _ = match.groups()
        yield kind, 1 if brackets is None else (int(count) if count else None), field


def schema_text(name: str) -> str:
    """A definition with those of all types in it, as the encoding ``ros2msg`` of MCAP has them."""
    needed, todo = [name], [name]
    while todo:
        for kind, _, _ in fields_of(todo.pop(0)):
            if kind in DEFINITIONS and kind not in needed:
                needed.append(kind)
                todo.append(kind)
    parts = [DEFINITIONS[name], *(f"MSG: {kind}\n{DEFINITIONS[kind]}" for kind in needed[1:])]
    return f"\n{'=' * 80}\n".join(parts) + "\n"


def schema_name(name: str) -> str:
    """``package/msg/Type`` of ``package/Type``."""
    package, kind = name.split("/")
    return f"{package}/msg/{kind}"
