"""Published models against the shipped airframes of the same vehicles and the plug-ins' own equations.

The models are read from checkouts, which are not part of this project: directories PX4-gazebo-models,
PX4-SITL_gazebo-classic (PX4), rotors_simulator (ethz-asl), hector_quadrotor and hector_models
(tu-darmstadt-ros-pkg) in VEHICLE_MODELS.  Without them these tests are skipped.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.gazebo_motion import Plugin, assert_moves_as_gazebo

from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.lab.importing.importer import Choices, import_vehicle

CHECKOUTS = os.environ.get("VEHICLE_MODELS", "")
ROTORS, HECTOR = "rotors_simulator/rotors_description/urdf", "hector_quadrotor"
FILES = {
    "x500_gazebo": ("PX4-gazebo-models/models/x500",),
    "iris_gazebo": ("PX4-SITL_gazebo-classic/models/iris",),
    "typhoon_h480_gazebo": ("PX4-SITL_gazebo-classic/models/typhoon_h480",),
    "firefly": (f"{ROTORS}/firefly_base.xacro",),
    "hummingbird": (f"{ROTORS}/hummingbird_base.xacro",),
    "hector": (
        f"{HECTOR}/hector_quadrotor_description/urdf/quadrotor.urdf.xacro",
        f"{HECTOR}/hector_quadrotor_model/param/robbe_2827-34_epp1045.yaml",
        f"{HECTOR}/hector_quadrotor_model/param/quadrotor_aerodynamics.yaml",
    ),
}
OTHERWISE = {
    "drag.force": "the shipped body has drag, Gazebo's has none",
    "rotor_model.inflow": "shipped rotors are blades in moving air (docs/rotors.md)",
    "rotor_model.chord": "likewise",
    "rotor_model.inflow_loss_speed": "likewise, in place of this loss",
    "rotor_model.reference_density": "Gazebo's air has no density",
    "rotor_model.inertia": "Gazebo's rotors turn slowed down",
    "motor.efficiency": "Gazebo has no battery",
}
OWN = {
    "iris_gazebo": {
        "inertia": "the shipped one is of base and rotors alone, without the links of GPS and IMU",
    },
    "typhoon_h480_gazebo": {
        "inertia": "the shipped one is about another height: legs and gimbal hang lower here",
        "motor.speed_range": "cut at maxRotVelocity 1500",
    },
    "firefly": {"rotor_model.rolling_moment_released": "the shipped one has the paper's sign"},
    "hummingbird": {
        "mass": "the paper's 0.716 kg; the model has 0.68, four rotors of 9 g and 15 g of IMU",
        "inertia": "likewise",
        "rotor_model.rolling_moment_released": "the shipped one has the paper's sign",
    },
    "hector": {},
}
PLUGINS = {
    # As in the model's file: motorConstant, momentConstant, rotorDragCoefficient, times, izz of a rotor / 10
    "x500_gazebo": Plugin(8.54858e-6, 0.016, 8.06428e-5, 0.0125, 0.025, 2.649858e-6),
    "iris_gazebo": Plugin(5.84e-6, 0.06, 1.75e-4, 0.0125, 0.025, 2.74004e-5, classic=True),
    "typhoon_h480_gazebo": Plugin(8.54858e-6, 0.06, 8.06428e-4, 0.0125, 0.025, 2.74004e-5, classic=True),
    "firefly": Plugin(8.54858e-6, 0.016, 8.06428e-5, 0.0125, 0.025, 4.26041e-6),
    "hummingbird": Plugin(8.54858e-6, 0.016, 8.06428e-5, 0.0125, 0.025, 7.66875e-6),
}


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Airframe]]:
    if not CHECKOUTS:
        pytest.skip("VEHICLE_MODELS names no checkouts of published models")
    pytest.importorskip("xacro")
    pytest.importorskip("jinja2")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROS_PACKAGE_PATH", f"{CHECKOUTS}/hector_models")
        choices = Choices(px4=Path(os.environ.get("PX4_DIR", "/nowhere")), as_gazebo=True)
        made = {}
        for name, files in FILES.items():
            output = tmp_path_factory.mktemp(name) / "made.yaml"
            import_vehicle([Path(CHECKOUTS) / file for file in files], output, None, choices)
            made[name] = load_airframe(output)
        yield made


def figures(data: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Numbers and words of an airframe by path, rotors without their order."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield from figures(value, f"{path}.{key}" if path else key)
    elif isinstance(data, list):
        for i, value in enumerate(data):
            yield from figures(value, f"{path}[{i}]")
    else:
        yield path, data


@pytest.mark.parametrize("name", FILES)
def test_an_import_has_the_figures_of_the_shipped_airframe(imported: dict[str, Airframe], name: str) -> None:
    shipped, made = (
        dict(
            figures(
                {
                    section: value
                    for section, value in airframe.model_dump(mode="json", by_alias=True).items()
                    if section in ("mass", "inertia", "rotor_model", "motor", "drag")
                }
            )
        )
        for airframe in (load_airframe(name), imported[name])
    )
    excused = OTHERWISE | OWN.get(name, {})
    if name == "hector":
        excused = {"rotor_model.reference_density": excused["rotor_model.reference_density"]}
    if name == "x500_gazebo" and not os.environ.get("PX4_DIR"):
        excused |= {"motor.idle_speed": "in PX4's airframe script", "motor.speed_range": "likewise"}
    scale = max(abs(shipped["inertia.xx"]), abs(made["inertia.xx"]))
    for path in shipped.keys() | made.keys():
        before, now = shipped.get(path), made.get(path)
        if any(path.startswith(key) for key in excused) or before == now:
            continue
        assert isinstance(before, float), (path, before, now)
        assert now == pytest.approx(before, rel=0.01, abs=0.003 * scale if "inertia" in path else 0.0), path


@pytest.mark.parametrize("name", FILES)
def test_an_import_has_the_rotors_of_the_shipped_airframe(imported: dict[str, Airframe], name: str) -> None:
    """RotorS numbers its motors otherwise than PX4, so the nearest ones are compared."""
    rotors = {tuple(rotor.position): rotor.direction for rotor in imported[name].rotors}
    assert len(rotors) == len(load_airframe(name).rotors)
    for rotor in load_airframe(name).rotors:
        nearest = min(rotors, key=lambda place: float(np.linalg.norm(np.subtract(place, rotor.position))))
        # Shipped heights are from the base's frame; the centre of gravity is up to 3 mm off it.
        assert nearest == pytest.approx(rotor.position, abs=0.0035)
        assert nearest[:2] == pytest.approx(rotor.position[:2], abs=0.001)
        assert rotors.pop(nearest) == rotor.direction


@pytest.mark.parametrize("axis", ["up", "roll", "pitch", "yaw"])
@pytest.mark.parametrize("name", PLUGINS)
def test_an_import_moves_as_its_plug_in(imported: dict[str, Airframe], name: str, axis: str) -> None:
    assert_moves_as_gazebo(imported[name], PLUGINS[name], axis)
