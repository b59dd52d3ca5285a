"""Parameters have the names of the PX4 that flies, and a version nobody has flown is said to be one."""

from __future__ import annotations

import pytest

from sitl_bridge.link.px4.versions import (
    FLOWN,
    NEW,
    RENAMED,
    REPLACED,
    describe_untested,
    hint,
    not_everywhere,
    release,
    rename_for,
)


def test_renamed_parameter_gets_the_name_that_the_build_has() -> None:
    old = {"EKF2_GPS_DELAY": 120.0, "MPC_XY_P": 0.9}
    new = {"SENS_GPS0_DELAY": 120.0, "SENS_GPS1_DELAY": 120.0, "MPC_XY_P": 0.9}
    assert rename_for(old, ["EKF2_GPS_DELAY", "MPC_XY_P"]) == old
    assert rename_for(old, [*new]) == new
    assert rename_for({"SENS_GPS0_OFFX": 0.1}, ["EKF2_GPS_POS_X"]) == {"EKF2_GPS_POS_X": 0.1}


def test_build_without_a_list_gets_both_names() -> None:
    assert rename_for({"EKF2_GPS_POS_Z": -0.1}, None) == {
        "EKF2_GPS_POS_Z": -0.1,
        "SENS_GPS0_OFFZ": -0.1,
        "SENS_GPS1_OFFZ": -0.1,
    }


def test_name_that_no_version_has_stays_for_the_check_that_refuses_it() -> None:
    assert rename_for({"MPC_XY_PP": 1.0}, ["MPC_XY_P"]) == {"MPC_XY_PP": 1.0}


def test_each_name_stands_for_one_thing() -> None:
    new = [name for names in RENAMED.values() for name in names]
    assert len(new) == len(set(new))
    assert not_everywhere() == {*RENAMED, *new, *REPLACED, *NEW}
    assert len(not_everywhere()) == len(RENAMED) + len(new) + len(REPLACED) + len(NEW)


def test_removed_parameter_is_known_as_one_with_what_there_is_instead() -> None:
    assert hint("SIM_BAT_ENABLE") == "; it was removed: PX4 simulates a battery if SIM_BAT_DRAIN is above 0"
    assert hint("COM_FLT_PROFILE") == "; it was removed"
    assert hint("MPC_XY_PP") == ""


@pytest.mark.parametrize(
    "version", ["v1.14.0", "v1.15.4", "v1.16.0-rc3-12-g0123456", "v1.17.0-rc2", "v1.18.0-alpha1-579-g6db0a77"]
)
def test_version_that_has_been_flown_gives_no_warning(version: str) -> None:
    assert describe_untested(version) == ""


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("v1.13.3", "older than"),
        ("v1.19.0", "newer than"),
        ("v2.0.0-beta1", "newer than"),
        ("unknown", "does not report its version"),
        ("v0.0.0-1-g02e73e3", "without git tags"),
    ],
)
def test_version_nobody_has_flown_is_named_with_those_that_were(version: str, words: str) -> None:
    text = describe_untested(version)
    assert words in text
    assert FLOWN[0] in text
    assert FLOWN[-1] in text


def test_tag_with_and_without_a_suffix() -> None:
    assert release("v1.16.0") == release("v1.16.2-beta1-4-gabcdef0") == (1, 16)
    assert release("gabcdef") is None
