"""The start-up file sets what it is given, in any POSIX shell, and nothing else."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from sitl_bridge.analysis.evaluation.flight_record import TOPICS
from sitl_bridge.base.errors import UserError
from sitl_bridge.link.hil.ports import offboard_port
from sitl_bridge.link.px4.startup import (
    LEANER,
    SHARED_PORT,
    unchanged_defaults,
    write_links_file,
    write_log_topics,
    write_startup_files,
)


def sourced(directory: Path, known: str = "", then: str = "") -> list[str]:
    """What PX4's shell would run: ``param`` replaced by a function that echoes its arguments.

    Args:
        directory: with the file.
        known: the only parameter that the stand-in has.
        then: commands after the file.
    """
    own = directory / "root" / "etc" / "init.d-posix" / "px4-rc.simulator"
    own.parent.mkdir(parents=True)
    own.write_text("echo the link starts\n")
    show = f'[ "$3" = "{known}" ]'
    script = f"""R={directory}/root/
        alias battery_simulator='echo battery'
        param() {{ if [ "$1" = show ]; then {show}; else echo "$@"; fi; }}
        . px4-rc.simulator
        {then}
    """
    environment = {"PATH": f"{directory}:{os.environ['PATH']}"}
    result = subprocess.run(["sh", "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert result.stderr == ""
    return result.stdout.splitlines()


def test_shell_finds_the_file_on_path_and_sets_each_parameter_in_order(tmp_path: Path) -> None:
    write_startup_files(tmp_path / "startup", {"CA_ROTOR_COUNT": 6, "CA_ROTOR0_KM": -0.0164444, "A1": 1e-5})
    assert sourced(tmp_path / "startup") == [
        "set-default CA_ROTOR_COUNT 6",
        "set-default CA_ROTOR0_KM -0.0164444",
        "set-default A1 1e-05",
        "the link starts",
    ]


def test_what_px4_gives_another_default_later_is_set_outright(tmp_path: Path) -> None:
    write_startup_files(tmp_path, {"EKF2_MULTI_IMU": 2, "IMU_INTEG_RATE": 400})
    assert sourced(tmp_path)[:2] == ["set EKF2_MULTI_IMU 2", "set IMU_INTEG_RATE 400"]


def test_renamed_parameter_is_set_only_where_px4_has_it(tmp_path: Path) -> None:
    write_startup_files(tmp_path, {"EKF2_GPS_DELAY": 120.0, "A1": 1})
    lines = (tmp_path / "px4-rc.simulator").read_text().splitlines()
    assert "param show -q EKF2_GPS_DELAY >/dev/null && param set EKF2_GPS_DELAY 120" in lines
    assert sourced(tmp_path) == ["set-default A1 1", "the link starts"], "the stand-in has no such parameter"


@pytest.mark.parametrize(
    ("parameters", "known", "started"),
    [
        ({"A1": 1}, "", []),  # PX4 v1.14
        ({"A1": 1}, "SIM_BAT_ENABLE", ["battery start"]),  # its script starts it if that is 1
        ({"SIM_BAT_DRAIN": 600.0}, "", ["battery start"]),  # PX4 is to simulate the battery
    ],
)
def test_px4_without_a_switch_for_it_starts_no_battery_beside_the_simulated_one(
    tmp_path: Path, parameters: dict[str, float], known: str, started: list[str]
) -> None:
    write_startup_files(tmp_path, parameters)
    lines = sourced(tmp_path, known, "battery_simulator start")
    assert lines[lines.index("the link starts") + 1 :] == started


def test_single_precision_survives_the_text(tmp_path: Path) -> None:
    import numpy as np

    value = float(np.float32(0.1) / np.float32(3.0))
    write_startup_files(tmp_path, {"X1": value})
    assert np.float32(float(sourced(tmp_path)[0].split()[-1])) == np.float32(value)


@pytest.mark.parametrize("name", ["lower", "A B", "A;reboot", "$(A)", "", "A" * 17, "1A", "A\nB"])
def test_name_that_no_parameter_has_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not a PX4 parameter name"):
        write_startup_files(tmp_path, {name: 1})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), True, "1; reboot", 2**31, None])
def test_value_that_is_no_number_px4_can_hold_is_refused(value: object, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="AB"):
        write_startup_files(tmp_path, {"AB": value})  # type: ignore[dict-item]


def test_any_user_of_a_container_can_read_it(tmp_path: Path) -> None:
    mask = os.umask(0o077)
    try:
        file = write_startup_files(tmp_path / "startup", {"AB": 1})
    finally:
        os.umask(mask)
    assert file.stat().st_mode & 0o004
    assert file.parent.stat().st_mode & 0o005 == 0o005


def test_directory_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        write_startup_files(tmp_path / "file" / "startup", {"AB": 1})


def test_instances_from_ten_on_get_an_offboard_port_each_and_nothing_else_changes(tmp_path: Path) -> None:
    script = tmp_path / "etc" / "init.d-posix" / "px4-rc.mavlink"
    script.parent.mkdir(parents=True)
    shared = '[ "$px4_instance" -gt 9 ] && udp_offboard_port_remote=14549 # shared'
    script.write_text(f"first=1\n{shared}\nlast=2\n")
    assert write_links_file(tmp_path, tmp_path / "etc") == []
    written = (tmp_path / "px4-rc.mavlink").read_text()
    assert written == script.read_text().replace("=14549", "=$((15540+px4_instance))")
    shell = f"px4_instance=15; . {tmp_path}/px4-rc.mavlink; echo $udp_offboard_port_remote"
    said = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, check=True).stdout
    assert said.strip() == str(offboard_port(15))
    script.write_text("something else\n")
    assert write_links_file(tmp_path, tmp_path / "etc") == [SHARED_PORT]


LINKS = """[ "$px4_instance" -gt 9 ] && udp_offboard_port_remote=14549 # shared
mavlink start -x -u $udp_gcs_port_local -r 4000000 -f
mavlink stream -r 50 -s ATTITUDE -u $udp_gcs_port_local
mavlink start -x -u $udp_offboard_port_local -r 4000000 -f -m onboard -o $udp_offboard_port_remote
mavlink start -x -u $udp_onboard_payload_port_local -r 4000 -f -m onboard -o $udp_onboard_payload_port_remote
mavlink start -x -u $udp_onboard_gimbal_port_local -r 400000 -f -m gimbal -o $udp_onboard_gimbal_port_remote
"""
"""As in PX4's px4-rc.mavlink."""


@pytest.mark.parametrize("further", ["", " $mavlink_network_interface_arg"])  # v1.17, v1.18
def test_one_of_several_vehicles_sends_less_on_the_same_links(further: str, tmp_path: Path) -> None:
    script = tmp_path / "etc" / "init.d-posix" / "px4-rc.mavlink"
    script.parent.mkdir(parents=True)
    script.write_text(LINKS.replace("_port_remote\n", f"_port_remote{further}\n"))
    assert write_links_file(tmp_path, tmp_path / "etc", lean=True) == []
    shell = (
        "px4_instance=15; udp_gcs_port_local=gcs; udp_offboard_port_local=api; "
        "udp_onboard_payload_port_local=load; udp_onboard_payload_port_remote=14045; "
        f'mavlink() {{ echo "$@"; }}; . {tmp_path}/px4-rc.mavlink'
    )
    said = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, check=True).stdout.splitlines()
    assert said[:3] == [
        "start -x -u gcs -r 4000000 -f",
        "start -x -u api -r 4000000 -f -m onboard -o 15555",
        "start -x -u load -r 3000 -m custom -o 14045",
    ]
    assert "stream -r 1 -s ODOMETRY -u api" in said
    assert "stream -r 5 -s LOCAL_POSITION_NED -u load" in said
    assert all(line.startswith("stream") for line in said[3:])


def test_a_list_of_topics_to_log_stands_among_links_to_the_builds_own_files(tmp_path: Path) -> None:
    etc = tmp_path / "build" / "etc"
    (etc / "init.d-posix").mkdir(parents=True)
    (etc / "init.d-posix" / "rcS").write_text("start")
    (etc / "init.d").mkdir()
    (etc / "init.d" / "rc.sensors").write_text("sensors")
    (etc / "init.d" / "rc.logging").write_text("logger start -t ${LOGGER_ARGS}\n")
    (tmp_path / "run").mkdir()
    write_log_topics(tmp_path / "run", etc)
    assert (tmp_path / "run" / "etc" / "init.d-posix" / "rcS").read_text() == "start"
    assert (tmp_path / "run" / "etc" / "init.d" / "rc.sensors").read_text() == "sensors"
    started = (tmp_path / "run" / "etc" / "init.d" / "rc.logging").read_text()
    assert started == 'set LOGGER_ARGS "-r 25"\nlogger start -t ${LOGGER_ARGS}\n'
    lines = (tmp_path / "run" / "etc" / "logging" / "logger_topics.txt").read_text().splitlines()
    assert {"vehicle_local_position 100 0", "vehicle_status 0 0", "estimator_status 200"} <= set(lines)
    # PX4 reads lines of up to 79 characters.
    assert max(map(len, lines)) < 80
    # Whatever the report of a flight reads is there, or it would be silent about it.
    assert set(TOPICS) <= {line.split()[0] for line in lines}


def test_change_that_a_newer_script_has_no_place_for_is_returned(tmp_path: Path) -> None:
    script = tmp_path / "etc" / "init.d-posix" / "px4-rc.mavlink"
    script.parent.mkdir(parents=True)
    script.write_text(LINKS.replace("gimbal", "gripper"))
    assert write_links_file(tmp_path, tmp_path / "etc", lean=True) == [LEANER[1]]
    assert write_links_file(tmp_path, tmp_path / "none", lean=True) == []


def test_a_px4_that_is_started_by_hand_has_an_offboard_port_of_its_own_too(tmp_path: Path) -> None:
    """PX4's shell finds px4-rc.mavlink on PATH; R is the directory of its etc."""
    script = tmp_path / "root" / "etc" / "init.d-posix" / "px4-rc.mavlink"
    script.parent.mkdir(parents=True)
    script.write_text(f"#!/bin/sh\nudp_offboard_port_remote=$((14540+px4_instance))\n{LINKS}")
    write_startup_files(tmp_path / "startup", {})
    shell = (
        f'R={tmp_path}/root/; set -e; mavlink() {{ echo "$@"; }}; udp_offboard_port_local=api; '
        ". px4-rc.mavlink; echo $udp_offboard_port_remote"
    )
    for instance in (3, 40):
        environment = {"PATH": f"{tmp_path}/startup:{os.environ['PATH']}", "px4_instance": str(instance)}
        done = subprocess.run(
            ["sh", "-c", shell], env=environment, capture_output=True, text=True, check=True
        )
        said = done.stdout.splitlines()
        assert said[-1] == str(offboard_port(instance))
        assert f"start -x -u api -r 4000000 -f -m onboard -o {offboard_port(instance)}" in said
        assert done.stderr == ""


def test_a_default_that_no_script_of_px4_changes_is_not_set(tmp_path: Path) -> None:
    scripts = tmp_path / "init.d-posix"
    (scripts / "airframes").mkdir(parents=True)
    (tmp_path / "init.d").mkdir()
    (scripts / "rcS").write_text("param set-default COM_LOW_BAT_ACT 3\nparam set-default -s MC_AT_EN 1\n")
    (scripts / "airframes" / "10016_none_iris").write_text("\tparam set-default MPC_Z_P 2\n")
    (tmp_path / "init.d" / "rc.mc_defaults").write_text("param set MPC_XY_P 1\n")
    defaults = {"COM_LOW_BAT_ACT": 0, "MC_AT_EN": 0, "MPC_Z_P": 1.0, "MPC_XY_P": 0.95, "MPC_XY_CRUISE": 5.0}
    known = {name: {"type": "Float", "default": value} for name, value in defaults.items()}
    given = defaults | {"NEWER": 1, "LTEST_MODE": 1}
    needless = unchanged_defaults(given, known | {"LTEST_MODE": {"type": "Int32", "default": 1}}, tmp_path)
    assert needless == {"MPC_XY_CRUISE", "LTEST_MODE"}
    assert unchanged_defaults(given, None, tmp_path) == set()
    text = write_startup_files(tmp_path / "startup", given, ["NEWER"], needless).read_text()
    assert "MPC_XY_CRUISE" not in text
    assert "param show -q NEWER >/dev/null && param set-default NEWER 1" in text
    assert "landing_target_estimator start" in text, "a default is still the airframe's"
