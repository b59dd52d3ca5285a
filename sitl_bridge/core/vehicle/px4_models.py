"""Names of PX4's own simulated models: which airframe stands for each here, and which are not simulated."""

from __future__ import annotations

import re

ITS_OWN = re.compile(r"^(\d+_)?(gz|gazebo-classic|gazebo|none|jmavsim|sihsim|jsbsim|xplane|flightgear)_")
"""Autostart number and simulator before a model's name."""
NUMBERS = {
    "1010": "iris_opt_flow", "1012": "iris_rplidar", "1013": "iris_vision", "1015": "iris_depth_camera",
    "1030": "plane", "1040": "standard_vtol", "1041": "tailsitter", "1042": "tiltrotor",
    "1045": "quadtailsitter", "4001": "x500", "4002": "x500_depth", "4003": "rc_cessna",
    "4004": "standard_vtol", "4005": "x500_vision", "4006": "px4vision", "4008": "advanced_plane",
    "4009": "r1_rover", "4010": "x500_mono_cam", "4012": "rover_ackermann", "4013": "x500_lidar_2d",
    "4014": "x500_mono_cam_down", "4016": "x500_lidar_down", "4017": "x500_lidar_front",
    "4018": "quadtailsitter", "4019": "x500_gimbal", "4020": "tiltrotor", "4021": "x500_flow",
    "6011": "typhoon_h480", "8001": "octo_x", "8011": "omnicopter", "10015": "iris", "10016": "iris",
    "10017": "iris", "10040": "quadx", "10041": "airplane", "10042": "xvert", "10043": "standard_vtol",
    "10044": "hex", "12001": "octo_cox",
}  # fmt: skip
"""Models by SYS_AUTOSTART (ROMFS/px4fmu_common/init.d-posix/airframes, v1.16.0 and main of July 2026)."""
MEANT = {
    "quadx": "iris", "quadrotor_x": "iris", "iris_opt_flow": "iris", "iris_rplidar": "iris_lidar",
    "iris_vision": "iris_vio", "iris_depth_camera": "iris_depth", "x500_depth": "iris_depth",
    "x500_vision": "iris_vio", "x500_lidar_2d": "iris_lidar", "x500_gimbal": "iris_gimbal",
    "x500_mono_cam": "iris_camera", "hex": "firefly", "hexarotor_x": "firefly",
}  # fmt: skip
"""Airframes here that have what a model has, where their names differ."""
OTHERS = re.compile(
    r"plane|cessna|vtol|tailsitter|tiltrotor|xvert|glider|techpod|believer|rascal|malolo|rover|boat|uuv"
    r"|ackermann|mecanum|differential|lawnmower|cloudship|spacecraft|atmos|catapult"
)
"""Models that are no multirotors."""


def px4_model_in_words(name: str, known: set[str]) -> str:
    """Explain a name of PX4's, for a message; empty for other names.

    Args:
        name: of a model, with or without its simulator, or an autostart number.
        known: names of the airframes here.
    """
    model = NUMBERS.get(name) or ITS_OWN.sub("", name.lower())
    if OTHERS.search(model):
        return f"PX4's {model} is no multirotor; fixed wings, VTOLs and rovers are not simulated"
    stem = model.partition("_")[0]
    meant = next((one for one in (MEANT.get(model), model, stem) if one in known), None)
    ours = model in MEANT or name in NUMBERS or model != name.lower() or stem in ("x500", "iris", "typhoon")
    if meant is None:
        return f"PX4's {model} has no airframe here" if name in NUMBERS else ""
    return f"{meant!r} stands for PX4's {model} here" if ours else ""
