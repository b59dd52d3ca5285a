"""The sensors of a Gazebo model: IMU, barometer, magnetometer, GPS, cameras, scanners, lidars, range finders.

What a model says of a sensor replaces the figures of the default suite; its other figures stay.
"""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.json_data import JsonObject
from sitl_bridge.base.shipped_files import find_shipped
from sitl_bridge.base.xml_file import XmlNode
from sitl_bridge.base.yaml_file import read
from sitl_bridge.core.sensors.records import MAX_SENSORS
from sitl_bridge.core.world.sdf_geometry import euler_degrees
from sitl_bridge.lab.importing.figures import Figures
from sitl_bridge.lab.importing.gazebo_vehicle import FRD, motor_plugin, number
from sitl_bridge.lab.importing.model_tree import ModelTree, Placed, elements

SUITE = "pixhawk_6x"
"""Sensors of a vehicle whose sources have none."""
GAUSS = 1.0e-4
"""T."""
GRADES: dict[str, tuple[str, str, dict[str, tuple[str, float]]]] = {
    # plug-in: kind and its error, by tag the field and its unit
    "imu_plugin": ("imu", "accelerometer", {
        "accelerometerNoiseDensity": ("noise_density", 1.0), "accelerometerRandomWalk": ("random_walk", 1.0),
        "accelerometerBiasCorrelationTime": ("bias_correlation_time", 1.0),
        "accelerometerTurnOnBiasSigma": ("turn_on_deviation", 1.0),
    }),
    "imu_plugin ": ("imu", "gyroscope", {
        "gyroscopeNoiseDensity": ("noise_density", 1.0), "gyroscopeRandomWalk": ("random_walk", 1.0),
        "gyroscopeBiasCorrelationTime": ("bias_correlation_time", 1.0),
        "gyroscopeTurnOnBiasSigma": ("turn_on_deviation", 1.0),
    }),
    "magnetometer_plugin": ("magnetometer", "error", {
        "noiseDensity": ("noise_density", GAUSS), "randomWalk": ("random_walk", GAUSS),
        "biasCorrelationTime": ("bias_correlation_time", 1.0),
    }),
}  # fmt: skip
"""Plug-ins of RotorS and PX4's Gazebo classic with noise as densities."""
NOISY = {
    # type of a gz sensor: kind, and by the element with the noise the error and the unit
    "imu": ("imu", {"angular_velocity": ("gyroscope", 1.0), "linear_acceleration": ("accelerometer", 1.0)}),
    "air_pressure": ("barometer", {"pressure": ("error", 1.0)}),
    "magnetometer": ("magnetometer", {"magnetometer": ("error", GAUSS)}),
}
"""gz's noises are deviations of a sample; the magnetometer's is in gauss, as PX4 takes its field."""
CAMERAS = {
    "camera": "camera", "wideanglecamera": "camera", "depth": "depth_camera", "depth_camera": "depth_camera",
    "rgbd_camera": "depth_camera",
}  # fmt: skip
RAYS = ("ray", "gpu_ray", "lidar", "gpu_lidar")
INSIDE = (
    "imu",
    "air_pressure",
    "altimeter",
    "magnetometer",
    "navsat",
    "gps",
    "contact",
    "force_torque",
    "battery",
)


def read_sensors(tree: ModelTree, centre: Floats, figures: Figures) -> None:
    """Give the sensors of a model; those of the default suite where it has none."""
    suite = read(find_shipped(SUITE, "sensor suite", "airframes/sensors")).data
    sensors: list[JsonObject] = [dict(sensor) for sensor in suite["sensors"]]
    sources: dict[str, str] = {}
    for plugin in tree.plugins:
        _read_plugin(plugin.node, sensors, sources, tree.source)
    for link, sensor in elements(tree, "sensor"):
        for plugin_node in sensor.node.all("plugin"):
            _read_plugin(plugin_node, sensors, sources, tree.source)
        _read_sensor(link, sensor, centre, sensors, sources, figures, tree.source)
    if sources:
        figures.give("sensors", sensors, f"the suite {SUITE}, where the model says nothing")
        figures.sources |= sources


def _read_plugin(node: XmlNode, sensors: list[JsonObject], sources: dict[str, str], where: str) -> None:
    if motor_plugin(node):
        return
    file = node.attributes.get("filename", "")
    for mark, (kind, error, fields) in GRADES.items():
        found = {
            field: number(node, tag, 0.0) * unit for tag, (field, unit) in fields.items() if node.value(tag)
        }
        if mark.strip() not in file or not {"noise_density", "random_walk"} & set(found):
            continue
        sensor = next(sensor for sensor in sensors if sensor["kind"] == kind)
        if "random_walk" not in found:
            found = {"noise_density": found["noise_density"]}
        sensor[error] = {name: float(f"{x:.6g}") for name, x in found.items() if x > 0.0}
        _sourced(sources, f"sensors.{kind}.{error}", f"{where}: {Path(file).stem.removeprefix('lib')}")


def _read_sensor(
    link: Placed, sensor: Placed, centre: Floats, sensors: list[JsonObject], sources: dict[str, str],
    figures: Figures, where: str,
) -> None:  # fmt: skip
    kind = sensor.node.attributes.get("type", "")
    rate = number(sensor.node, "update_rate", 0.0)
    made: JsonObject | None = None
    if kind in NOISY:
        _read_noise(sensor.node, kind, sensors, sources, where)
    elif kind in CAMERAS:
        made = _camera(sensor.node, CAMERAS[kind])
    elif kind in RAYS:
        made = _ranging(sensor.node)
    if made is None:
        if kind not in INSIDE:
            figures.leave_out(f"the sensor {sensor.name or 'without a name'} of type {kind} on {link.name}")
        return
    counts = Counter(one["kind"] for one in sensors)
    if len(sensors) >= MAX_SENSORS or (made["kind"] == "range_finder" and counts["range_finder"]):
        figures.leave_out(
            f"the sensor {sensor.name} of type {kind}: one more {made['kind']} than there can be"
        )
        return
    rotation = FRD @ sensor.pose[:3, :3] @ FRD
    if made["kind"] == "range_finder":  # along the z axis here, the x axis there
        rotation = rotation @ np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]])
    angles = [round(angle, 3) + 0.0 for angle in euler_degrees(rotation)]
    place = [round(float(x), 4) + 0.0 for x in FRD @ (sensor.place - centre)]
    head: dict[str, Any] = {"kind": made.pop("kind")}
    if counts[head["kind"]]:
        head["instance"] = counts[head["kind"]]
    if rate > 0.0:
        head["rate"] = min(rate, 100.0)
    elif head["kind"] == "range_finder":
        head["rate"] = 10.0
    head |= {"position": place} | ({"rotation": angles} if any(angles) else {})
    sensors.append(head | made)
    _sourced(sources, f"sensors.{head['kind']}", f"{where}: {sensor.name or kind}")


def _sourced(sources: dict[str, str], key: str, text: str) -> None:
    before = sources.get(key)
    sources[key] = text if before is None or text in before else f"{before}; {text}"


def _read_noise(
    node: XmlNode, kind: str, sensors: list[JsonObject], sources: dict[str, str], where: str
) -> None:
    named, errors = NOISY[kind]
    sensor = next(one for one in sensors if one["kind"] == named)
    for tag, (error, unit) in errors.items():
        place = node.find(*((kind, tag) if tag != kind else (kind,)))
        noises = [] if place is None else [place.find("noise"), *(place.find(a, "noise") for a in "xyz")]
        given = [noise for noise in noises if noise is not None]
        if not given:
            continue
        deviations = [number(noise, "stddev", 0.0) * unit for noise in given]
        made: JsonObject = {"noise_deviation": _same(deviations)}
        biases = [number(noise, "dynamic_bias_stddev", 0.0) * unit for noise in given]
        time = number(given[0], "dynamic_bias_correlation_time", 0.0)
        if any(biases) and time > 0.0:
            made |= {"bias_deviation": _same(biases), "bias_correlation_time": time}
        sensor[error] = made
        _sourced(sources, f"sensors.{named}.{error}", f"{where}: {node.name or kind}")


def _same(values: list[float]) -> float | list[float]:
    rounded = [float(f"{x:.6g}") for x in values]
    return rounded[0] if len(set(rounded)) == 1 or len(rounded) != 3 else rounded


def _camera(node: XmlNode, kind: str) -> JsonObject | None:
    camera = node.find("camera")
    if camera is None:
        return None
    view = math.degrees(number(camera, "horizontal_fov", 1.047))
    made: JsonObject = {"kind": kind, "field_of_view": round(min(max(view, 2.0), 175.0), 3)}
    image, clip = camera.find("image"), camera.find("clip")
    if image is not None:
        for side in ("width", "height"):
            made[side] = int(min(max(number(image, side, 320.0), 2.0), 4096.0))
        if kind == "camera":
            made["color"] = "L" not in (image.value("format") or "R8G8B8")
    if clip is not None:
        made["maximum"] = min(number(clip, "far", 100.0), 1000.0)
        if kind == "depth_camera":
            made["minimum"] = min(number(clip, "near", 0.1), 0.5 * made["maximum"])
    return made


def _ranging(node: XmlNode) -> JsonObject | None:
    """A scanner, lidar or range finder, by its samples across and up."""
    ray = node.find("ray") or node.find("lidar")
    if ray is None:
        return None
    across, up, reach = ray.find("scan", "horizontal"), ray.find("scan", "vertical"), ray.find("range")
    columns, rings = (1 if part is None else int(number(part, "samples", 1.0)) for part in (across, up))
    low, high = (
        math.degrees(0.0 if across is None else number(across, f"{end}_angle", 0.0)) for end in ("min", "max")
    )
    made: JsonObject = {}
    if reach is not None:
        made = {
            "minimum": max(number(reach, "min", 0.1), 0.001),
            "maximum": min(number(reach, "max", 10.0), 1000.0),
        }
    noise = ray.find("noise")
    deviation = 0.0 if noise is None else number(noise, "stddev", 0.0)
    if (columns <= 1 and rings <= 1) or (high - low < 30.0 and rings < 8):
        cone = {"cone": round(high - low, 3)} if columns > 1 and high > low else {}
        return {"kind": "range_finder", "error": {"noise_deviation": deviation}} | made | cone
    if rings > 1 and up is not None:
        whole = columns * 360.0 / max(high - low, 1.0)
        ends = {n: round(math.degrees(number(up, f"{n}_angle", 0.0)), 3) for n in ("min", "max")}
        made |= {"rings": min(rings, 256), "columns": int(min(max(whole, 4.0), 16384.0)), "noise": deviation}
        return {"kind": "lidar", "lowest": ends["min"], "highest": ends["max"]} | made
    step = (high - low) / max(columns - 1, 1)
    if not 0.0 < step <= 90.0:
        raise UserError(
            f"{node.source}: line {node.line}: the scan has no angle between its {columns} samples"
        )
    return {"kind": "scanner", "field_of_view": round(min(high - low, 360.0), 4), "step": round(step, 5),
            "noise": deviation} | made  # fmt: skip
