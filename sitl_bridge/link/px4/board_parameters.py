"""Parameters of an airframe for a board in hardware-in-the-loop, as a file for QGroundControl.

Those of airframe_parameters.py that belong to the vehicle, not to the simulator link: geometry, thrust curve,
gains, limits, and the estimator's delays and noise.  Outputs are HIL_ACT_FUNCn there (PX4
src/modules/simulation/pwm_out_sim/module_hil.yaml), and SYS_HITL starts the simulated sensors (ROMFS rcS).
"""

from __future__ import annotations

from pathlib import Path

from sitl_bridge.base.output_file import write_whole
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.vehicle.control_effectiveness import Parameters
from sitl_bridge.link.mavlink import common as mavlink
from sitl_bridge.link.px4.airframe_parameters import parameters_for

OF_VEHICLE = ("CA_", "EKF2_", "MAV_TYPE", "MC_", "MPC_", "NAV_", "SYS_HAS_", "THR_")
"""Beginnings of the names that a board gets."""
OF_LINK = {"EKF2_MULTI_IMU"}
"""Parameters for the sensors of the simulator link: a board has one simulated inertial unit."""
OUTPUT, BOARD_OUTPUT = "PWM_MAIN_FUNC", "HIL_ACT_FUNC"


def board_parameters(airframe: Airframe) -> Parameters:
    """Parameters with which a board flies an airframe in hardware-in-the-loop.

    Raises:
        UserError: for an airframe that cannot hover.
    """
    found: Parameters = {"SYS_HITL": 1}
    for name, value in parameters_for(airframe).items():
        if name.startswith(OUTPUT):
            found[name.replace(OUTPUT, BOARD_OUTPUT)] = value
        elif name.startswith(OF_VEHICLE) and name not in OF_LINK:
            found[name] = value
    return found


def write_board_file(directory: Path, airframe: Airframe) -> Path:
    """Write the parameters as QGroundControl saves them; returns the file, which is named after the airframe.

    Raises:
        UserError: for an airframe that cannot hover, and a file that cannot be written.
    """
    lines = [
        f"# Parameters of {airframe.name} for a board in hardware-in-the-loop.",
        "# Afterwards set SYS_HITL to 0 and load the airframe of the real vehicle again.",
        "# Vehicle-Id Component-Id Name Value Type",
    ]
    for name, value in board_parameters(airframe).items():
        whole = isinstance(value, int)
        kind = mavlink.MAV_PARAM_TYPE_INT32 if whole else mavlink.MAV_PARAM_TYPE_REAL32
        lines.append(f"1\t1\t{name}\t{value if whole else f'{value:.18f}'}\t{kind}")
    file = directory / f"{airframe.name}.params"
    directory.mkdir(parents=True, exist_ok=True)
    write_whole(file, "\n".join(lines) + "\n")
    return file
