"""The sensors of a Gazebo model: those of the autopilot, cameras, gimbals, scanners, lidars, range finders.

What a model says of a sensor replaces the figures of the default suite; its other figures stay.
"""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from sitl_bridge.base.json_data import JsonObject, round_values
from sitl_bridge.base.shipped_files import find_shipped
from sitl_bridge.base.xml_file import XmlNode
from sitl_bridge.base.yaml_file import read
from sitl_bridge.core.sensors.records import MAX_SENSORS
from sitl_bridge.core.world.sdf_geometry import euler_degrees, numbers
from sitl_bridge.lab.importing.figures import Figures
from sitl_bridge.lab.importing.gazebo_vehicle import FIXED, FRD, body, frd, moves
from sitl_bridge.lab.importing.model_tree import ModelTree, Placed, number

SUITE = "pixhawk_6x"
"""Sensors of a vehicle whose sources have none."""
GAUSS = 1.0e-4
"""T."""
CLASSIC_STEP = math.sqrt(0.004)
"""s^0.5; Gazebo classic's GPS plug-in multiplies densities by the root of the step, 4 ms in PX4's worlds."""
DENSITIES = {
    "noisedensity": "noise_density", "randomwalk": "random_walk", "turnonbiassigma": "turn_on_deviation",
    "biascorrelationtime": "bias_correlation_time",
}  # fmt: skip
GRADES = (
    # part of a plug-in's file, beginning of its tags: kind, error, unit
    ("imu_plugin", "accelerometer", "imu", "accelerometer", 1.0),
    ("imu_plugin", "gyroscope", "imu", "gyroscope", 1.0),
    ("magnetometer_plugin", "", "magnetometer", "error", GAUSS),
)
"""Plug-ins of RotorS and PX4's Gazebo classic with noise as densities, whose names follow the beginning."""
AXES, HORIZONTAL = ("x", "y", "z"), ("horizontal", "horizontal", "vertical")
NOISES = (
    # type of a sensor, its noisy element and the axes in it: kind, error, unit
    ("imu", "angular_velocity", AXES, "imu", "gyroscope", 1.0),
    ("imu", "linear_acceleration", AXES, "imu", "accelerometer", 1.0),
    ("air_pressure", "pressure", (), "barometer", "error", 1.0),
    ("magnetometer", "", AXES, "magnetometer", "error", GAUSS),
    ("navsat", "velocity_sensing", HORIZONTAL, "gps", "velocity", 1.0),
    ("navsat", "position_sensing", HORIZONTAL, "gps", "position_noise", 1.0),
)
"""gz's noises are deviations of a sample; the magnetometer's is in gauss, as PX4 takes its field."""
CAMERAS = {
    "camera": "camera", "wideanglecamera": "camera", "depth": "depth_camera", "depth_camera": "depth_camera",
    "rgbd_camera": "depth_camera",
}  # fmt: skip
RAYS = ("ray", "gpu_ray", "lidar", "gpu_lidar")
MOST_ARMS = 10
"""Links between a camera and the body."""
INSIDE = {
    "imu", "air_pressure", "altimeter", "magnetometer", "navsat", "gps", "contact", "force_torque", "battery",
}  # fmt: skip
"""Of the suite, or of no use to a flight."""
DOWN_TO_X = np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]])
"""A range finder looks along its z axis here, along its x axis in Gazebo."""


class _Suite:
    """The sensors so far, and where they come from."""

    def __init__(self, where: str) -> None:
        self.sensors: list[JsonObject] = [
            dict(sensor)
            for sensor in read(find_shipped(SUITE, "sensor suite", "airframes/sensors")).data["sensors"]
        ]
        self.where, self.sources = where, dict[str, str]()

    def set_error(self, kind: str, error: str, value: JsonObject, source: str) -> None:
        """Replace an error of the suite; the first of a kind wins, as a camera may have an IMU, too."""
        if f"sensors.{kind}.{error}" in self.sources:
            return
        next(sensor for sensor in self.sensors if sensor["kind"] == kind)[error] = round_values(value)
        self.add_source(f"sensors.{kind}.{error}", source)

    def add_source(self, key: str, source: str) -> None:
        """Add a source of a kind of sensor."""
        before, text = self.sources.get(key), f"{self.where}: {source}"
        self.sources[key] = text if before is None or text in before else f"{before}; {text}"


def read_sensors(tree: ModelTree, figures: Figures) -> None:
    """Give the sensors of a model; those of the default suite where it has none.

    Raises:
        UserError: for numbers that are wrong.
    """
    suite, centre = _Suite(tree.source), body(tree)[1]
    for node in (plugin.node for plugin in tree.plugins):
        _read_plugin(node, suite)
    for link, sensor in tree.elements("sensor"):
        for node in sensor.node.all("plugin"):
            _read_plugin(node, suite)
        _read_noise(sensor.node, suite)
        _read_sensor(tree, link, sensor, centre, suite, figures)
    if suite.sources:
        figures.give("sensors", suite.sensors, f"the suite {SUITE}, where the model says nothing")
        figures.sources |= suite.sources


def _read_plugin(node: XmlNode, suite: _Suite) -> None:
    file = node.attributes.get("filename", "")
    name = Path(file).stem.removeprefix("lib")
    for mark, beginning, kind, error, unit in GRADES:
        found = {}
        for child in node.children if mark in file else ():
            field = DENSITIES.get(child.tag.lower().removeprefix(beginning))
            if (
                field is not None
                and child.tag.startswith(beginning)
                and (value := numbers(child, 1)[0]) > 0.0
            ):
                found[field] = value * (1.0 if field == "bias_correlation_time" else unit)
        if "random_walk" not in found:
            found = {key: value for key, value in found.items() if key == "noise_density"}
        if found:
            suite.set_error(kind, error, found, name)
    if "gps_plugin" in file and node.value("gpsNoise") in ("true", "1"):
        for error, tags in (("velocity", ("VXY", "VXY", "VZ")), ("position_noise", ("XY", "XY", "Z"))):
            axes = [number(node, f"gps{tag}NoiseDensity", 0.0) * CLASSIC_STEP for tag in tags]
            if any(axes):
                suite.set_error("gps", error, {"noise_deviation": axes}, name)


def _read_noise(node: XmlNode, suite: _Suite) -> None:
    for kind, tag, axes, named, error, unit in NOISES:
        if node.attributes.get("type") != kind:
            continue
        place = node.find(kind, tag) if tag else node.find(kind)
        noises = [place and place.find(axis, "noise") for axis in axes] or [place and place.find("noise")]
        if not any(noises):
            continue
        made: JsonObject = {"noise_deviation": _axes(noises, "stddev", unit)}
        time = number(noises[0], "dynamic_bias_correlation_time", 0.0)
        if time > 0.0 and any(number(noise, "dynamic_bias_stddev", 0.0) for noise in noises):
            made |= {
                "bias_deviation": _axes(noises, "dynamic_bias_stddev", unit),
                "bias_correlation_time": time,
            }
        suite.set_error(named, error, made, node.name or kind)


def _axes(noises: list[XmlNode | None], tag: str, unit: float) -> float | list[float]:
    values = [number(noise, tag, 0.0) * unit for noise in noises]
    return values[0] if len(set(values)) == 1 else values


def _read_sensor(
    tree: ModelTree,
    link: Placed,
    sensor: Placed,
    centre: np.ndarray[Any, Any],
    suite: _Suite,
    figures: Figures,
) -> None:
    """Add a sensor that the suite does not have: a camera, a scanner, a lidar or a range finder."""
    kind, name = sensor.node.attributes.get("type", ""), sensor.name or "without a name"
    made = _camera(sensor.node, CAMERAS[kind]) if kind in CAMERAS else None
    made = _ranging_sensor(sensor.node) if kind in RAYS else made
    if made is None:
        if kind not in INSIDE:
            figures.leave_out(f"the sensor {name} of type {kind} on {link.name}")
        return
    pivot, gimbal = _gimbal(tree, link, figures) if made["kind"] == "camera" else (None, {})
    rotation, place = FRD @ sensor.pose[:3, :3] @ FRD, frd(sensor.place, centre)
    if (
        pivot is not None
    ):  # the lens' place in the camera's axes; photos on command, a picture a second besides
        arm = [round(float(x), 4) + 0.0 for x in FRD @ (sensor.place - pivot) @ rotation]
        made = {"kind": "payload_camera", "gimbal": gimbal | {"arm": arm}} | {
            key: made[key] for key in ("field_of_view", "width", "height", "color") if key in made
        }
        rotation, place = np.eye(3), frd(pivot, centre)
    head: JsonObject = {"kind": made.pop("kind")}
    count = Counter(one["kind"] for one in suite.sensors)[head["kind"]]
    most = {"range_finder": 1}.get(head["kind"], 4)
    if len(suite.sensors) >= MAX_SENSORS or count >= most:
        figures.leave_out(f"the sensor {name} of type {kind}: one more {head['kind']} than there can be")
        return
    rate = number(sensor.node, "update_rate", 0.0) or (10.0 if head["kind"] == "range_finder" else 0.0)
    angles = euler_degrees(rotation @ DOWN_TO_X if head["kind"] == "range_finder" else rotation)
    head |= {"instance": count} if count else {}
    head |= {"rate": min(rate, 100.0)} if rate > 0.0 else {}
    head["position"] = place
    head |= {"rotation": [round(a, 3) + 0.0 for a in angles]} if any(round(a, 3) for a in angles) else {}
    suite.sensors.append(head | round_values(made))
    suite.add_source(f"sensors.{head['kind']}", sensor.name or kind)


def _gimbal(tree: ModelTree, link: Placed, figures: Figures) -> tuple[Any, JsonObject]:
    """Pivot (3,) of the joints that turn a camera's link, and their ranges; None and none if it is fixed."""
    found: dict[str, tuple[Placed, list[float]]] = {}
    for _ in range(MOST_ARMS):
        joint = tree.holding.get(link.name)
        if joint is None:
            break
        axis = joint.node.find("axis", "xyz")
        if moves(joint) and axis is not None:
            turned = FRD @ joint.pose[:3, :3] @ np.array(numbers(axis, 3))
            k = int(np.argmax(np.abs(turned)))
            ends = [
                _turn(joint.node.value("axis", "limit", e), s) for e, s in (("lower", -1.0), ("upper", 1.0))
            ]
            ends = sorted(math.copysign(1.0, turned[k]) * end for end in ends)
            if found.setdefault(("roll", "pitch", "yaw")[k], (joint, ends))[0] is not joint:
                break
        parent = tree.link(joint.node.value("parent"), joint)
        if parent is None:
            break
        link = parent
    if "pitch" not in found or len(found) < 2:
        return None, {}
    for joint, _ in found.values():
        figures.left_out.pop(FIXED.format(joint.name), None)
    ranges = {name: ends for name, (_, ends) in found.items()}
    return list(found.values())[-1][0].place, {"roll": [0.0, 0.0], "yaw": None} | ranges


def _turn(text: str, side: float) -> float:
    """A joint's limit in deg; a whole turn to that side for none, and for one beyond (1e16 in SDF)."""
    try:
        angle = math.degrees(float(text))
    except ValueError:
        angle = math.inf
    return angle if abs(angle) <= 360.0 else 360.0 * side


def _camera(node: XmlNode, kind: str) -> JsonObject | None:
    camera = node.find("camera")
    if camera is None:
        return None
    view = math.degrees(number(camera, "horizontal_fov", 1.047))
    made: JsonObject = {"kind": kind, "field_of_view": min(max(view, 2.0), 175.0)}
    image, clip = camera.find("image"), camera.find("clip")
    if image is not None:
        made |= {side: int(min(max(number(image, side, 320.0), 2.0), 4096.0)) for side in ("width", "height")}
        if kind == "camera":
            made["color"] = "L" not in (image.value("format") or "R8G8B8")
    if clip is not None:
        made["maximum"] = min(number(clip, "far", 100.0), 1000.0)
        if kind == "depth_camera":
            made["minimum"] = min(number(clip, "near", 0.1), 0.5 * made["maximum"])
    return made


def _ranging_sensor(node: XmlNode) -> JsonObject | None:
    """A scanner, lidar or range finder, by its samples across and up."""
    ray = node.find("ray") or node.find("lidar")
    if ray is None:
        return None
    across, up, reach = ray.find("scan", "horizontal"), ray.find("scan", "vertical"), ray.find("range")
    columns, rings = (int(number(part, "samples", 1.0)) for part in (across, up))
    low, high = (math.degrees(number(across, f"{end}_angle", 0.0)) for end in ("min", "max"))
    made: JsonObject = {}
    if reach is not None:
        made["minimum"] = max(number(reach, "min", 0.1), 0.001)
        made["maximum"] = min(number(reach, "max", 10.0), 1000.0)
    noise = number(ray.find("noise"), "stddev", 0.0)
    few = columns * rings < 16 and high - low < 90.0  # hector's sonar has 3 by 3 in 40 deg
    if few or (high - low < 30.0 and rings < 8):
        cone = {"cone": high - low} if columns > 1 and high > low else {}
        return {"kind": "range_finder", "error": {"noise_deviation": noise}} | made | cone
    if rings > 1:
        lowest, highest = (math.degrees(number(up, f"{end}_angle", 0.0)) for end in ("min", "max"))
        whole = int(min(max(columns * 360.0 / max(high - low, 1.0), 4.0), 16384.0))
        size = {"lowest": lowest, "highest": highest, "rings": min(rings, 256), "columns": whole}
        return {"kind": "lidar", "noise": noise} | size | made
    step = (high - low) / max(columns - 1, 1)
    if not 0.0 < step <= 90.0:
        raise node.fault(f"the scan has no angle between its {columns} samples")
    return {"kind": "scanner", "field_of_view": min(high - low, 360.0), "step": step, "noise": noise} | made
