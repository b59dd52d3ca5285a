"""Parameter files of ground stations are read whole, and what they cannot mean is said with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from sitl_bridge.base.errors import ConfigurationError
from sitl_bridge.link.px4.parameter_file import is_of_board, read_parameter_file

QGROUNDCONTROL = (
    "# Onboard parameters for Vehicle 1\n#\n# Stack: PX4 Pro\n# Vehicle: Quadrotor\n# Version: 1.16.1 \n"
    "# Git Revision: 94cb201279000000\n#\n# Vehicle-Id Component-Id Name Value Type\n"
    "1\t1\tMC_ROLLRATE_P\t0.163152977824211121\t9\n1\t1\tNAV_RCL_ACT\t3\t6\n"
    "1\t1\tMPC_XY_VEL_ALL\t-10.000000000000000000\t9\n1\t1\tRC_MAP_AUX1\t0\t6\n1\t154\tMNT_RANGE_YAW\t360\t9\n"
)


def read(tmp_path: Path, text: str) -> dict[str, int | float]:
    file = tmp_path / "vehicle.params"
    file.write_text(text, encoding="utf-8")
    return read_parameter_file(file)


def test_qgroundcontrols_file_gives_the_autopilots_parameters_with_their_types(tmp_path: Path) -> None:
    found = read(tmp_path, QGROUNDCONTROL)
    assert found == {
        "MC_ROLLRATE_P": 0.163152977824211121,
        "NAV_RCL_ACT": 3,
        "MPC_XY_VEL_ALL": -10.0,
        "RC_MAP_AUX1": 0,
    }
    assert [type(value) for value in found.values()] == [float, int, float, int]


def test_a_comment_in_another_encoding_is_passed_over(tmp_path: Path) -> None:
    """QGroundControl translates the vehicle's kind and writes it in the computer's encoding."""
    file = tmp_path / "vehicle.params"
    file.write_bytes(QGROUNDCONTROL.replace("Quadrotor", "多旋翼").encode("gb18030"))
    assert len(read_parameter_file(file)) == 4


@pytest.mark.parametrize(
    "text",
    [
        "MPC_XY_P         0.95\nNAV_RCL_ACT      2\n",  # MAVProxy
        "#NOTE: 02.10.2023 21:36:27\nMPC_XY_P,0.95\nNAV_RCL_ACT,2\n",  # Mission Planner
        "MPC_XY_P=0.95 # slower\nNAV_RCL_ACT=2 @READONLY\n",
        "param set-default MPC_XY_P 0.95\nparam set NAV_RCL_ACT 2\n",  # PX4's shell
        "Symbols: x = used, + = saved, * = unsaved\nx   MPC_XY_P [485,768] : 0.9500\n"
        "x + NAV_RCL_ACT [547,860] : 2\n\n 2/1290 parameters used.\n",  # param show
        "MPC_XY_P 7\nMPC_XY_P 0.95\nNAV_RCL_ACT 2\n",  # the last line counts
    ],
)
def test_other_writers_of_parameters_are_read(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text) == {"MPC_XY_P": 0.95, "NAV_RCL_ACT": 2}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no parameters"),
        ("# nothing\n", "holds no parameters"),
        ("MPC_XY_P 0.95\nMPC_Z_P fast\n", "line 2: 'MPC_Z_P fast' is no parameter: write NAME VALUE"),
        ("a word or two\n" * 9, "and 4 more lines"),
        ("# Stack: ArduPilot\n1\t1\tATC_RAT_RLL_P\t0.1\t9\n", "line 1: parameters of ArduPilot, not of PX4"),
        ("\0\1BSON", "is PX4's binary file; save the parameters as text"),
    ],
)
def test_what_is_no_list_of_parameters_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        read(tmp_path, text)
    assert message in str(error.value)


def test_the_boards_parameters_are_told_from_the_flights() -> None:
    board = (
        "CAL_ACC0_ID CAL_MAG0_ROT TC_A0_X0_0 SENS_BOARD_ROT SER_TEL1_BAUD PWM_MAIN_MIN1 RC1_TRIM RC_MAP_ROLL "
    )
    board += (
        "BAT1_V_DIV BAT1_A_PER_V SYS_AUTOSTART SYS_HITL LND_FLIGHT_T_LO MAV_0_CONFIG MAV_SYS_ID UAVCAN_ENABLE"
    )
    flight = "MC_ROLLRATE_P MPC_XY_P NAV_RCL_ACT RTL_RETURN_ALT COM_RCL_EXCEPT BAT1_CAPACITY BAT1_N_CELLS "
    flight += "BAT_LOW_THR CA_ROTOR0_PX THR_MDL_FAC IMU_GYRO_CUTOFF EKF2_HGT_REF MAN_ARM_GESTURE GF_ACTION"
    assert [name for name in board.split() if not is_of_board(name)] == []
    assert [name for name in flight.split() if is_of_board(name)] == []
