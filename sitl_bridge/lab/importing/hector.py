"""Propulsion and drag of hector_quadrotor: its plug-in's parameters (YAML), in place of rotor links.

Meyer et al., Comprehensive Simulation of Quadrotor UAVs Using ROS and Gazebo (SIMPAR 2012), eqs 3 to 10.
"""

from __future__ import annotations

import re
from pathlib import Path

from sitl_bridge.api.models import INCH
from sitl_bridge.base.errors import ConfigurationError
from sitl_bridge.base.yaml_file import read
from sitl_bridge.lab.importing.figures import Figures

PARTS = ("quadrotor_propulsion", "quadrotor_aerodynamics")
FIELDS = {
    "CT0s": ("rotor_model.thrust_c2",), "CT1s": ("rotor_model.thrust_b1",),
    "CT2s": ("rotor_model.thrust_b2",),
    "k_t": ("rotor_model.torque_thrust_ratio",), "k_m": ("rotor_model.torque_g1",),
    "J_M": ("motor.inertia", "rotor_model.inertia"), "R_A": ("motor.resistance",), "Psi": ("motor.flux",),
    "alpha_m": ("motor.alpha",), "beta_m": ("motor.beta",),
}  # fmt: skip
DRAG = {"drag.force": ("C_wxy", "C_wxy", "C_wz"), "drag.moment": ("C_mxy", "C_mxy", "C_mz")}
PLUS = (((0, 1), "ccw"), ((0, -1), "ccw"), ((1, 0), "cw"), ((-1, 0), "cw"))
"""Places in arms, FRD, and directions of the rotors in the order of PX4's quadrotor +."""
SUPPLY = 14.8
"""V, of the plug-in without a battery."""


def read_hector(path: Path, figures: Figures) -> None:
    """Give what a file of hector_quadrotor_model/param says.

    Raises:
        ConfigurationError: for a file that is none of these, or with text in place of numbers.
    """
    data = read(path).data
    parts = [data.get(key) for key in PARTS] if isinstance(data, dict) else []
    given = {key: value for part in parts if isinstance(part, dict) for key, value in part.items()}
    faults = [f"{key} is not a number" for key, value in given.items() if not isinstance(value, int | float)]
    if faults or not given:
        raise ConfigurationError(str(path), faults or [f"has neither {' nor '.join(PARTS)}"])
    for key, value in given.items():
        for field in FIELDS.get(key, ()) if value else ():
            figures.give(field, value, f"{path.name}: {key}", 16)
    for field, keys in DRAG.items():
        if set(keys) <= given.keys():
            how = f"{path.name}: {', '.join(dict.fromkeys(keys))}"
            figures.give(field, [given[key] for key in keys], how, 16)
    if "l_m" in given:
        rotors = [
            {"position": [given["l_m"] * x, given["l_m"] * y, 0.0], "direction": d} for (x, y), d in PLUS
        ]
        figures.give("rotors", rotors, f"{path.name}: l_m; a plus, in the order of PX4's quadrotor +")
        figures.give("motor.kind", "dc", path.name)
        figures.give("battery.nominal_voltage", SUPPLY, "hector_quadrotor: its supply without a battery")
        size = re.search(r"(\d\d)(\d\d)$", path.stem)
        if size is not None:
            how = f"derived: {path.name}: a propeller of {size[1]} inches by its name"
            figures.give("rotor_model.radius", 0.5 * INCH * int(size[1]), how)
