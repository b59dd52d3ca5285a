"""A parameter that a user gives has an effect, or is named with the reason and what to use instead."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sitl_bridge as sb
from sitl_bridge.base.errors import UserError
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.wind import parse_wind
from sitl_bridge.core.world.world import World
from sitl_bridge.link.px4.airframe_parameters import parameters_for, scaled_time_outs
from sitl_bridge.link.px4.find import Px4Build
from sitl_bridge.link.px4.given_parameters import (
    ParameterFile,
    build_parameters,
    given_faults,
    parse_parameters,
    without_effect,
)
from sitl_bridge.session.settings import (
    AutopilotChoice,
    FlightOptions,
    FlightSettings,
    VehicleSettings,
    ignored_variables,
)

METADATA = {
    "MC_ROLLRATE_P": ("Float", 0.15, 0.01, 0.5), "MPC_THR_HOVER": ("Float", 0.5, 0.1, 0.8),
    "THR_MDL_FAC": ("Float", 0.0, 0.0, 1.0), "CA_ROTOR0_PX": ("Float", 0.0, -100, 100),
    "EKF2_HGT_REF": ("Int32", 1, 0, 3), "EKF2_RNG_FOG": ("Float", 3.0, 0.0, 20.0),
    "COM_OF_LOSS_T": ("Float", 1.0, 0.0, 60.0), "MPC_LAND_RADIUS": ("Float", 1000.0, 0.0, 1e4),
    "NAV_RCL_ACT": ("Int32", 2, 1, 6), "SIM_BAT_DRAIN": ("Float", 60.0, 0.0, 1e5),
    "SIM_GPS_USED": ("Int32", 10, 0, 50), "SIH_MASS": ("Float", 1.0, 0.0, 20.0),
    "CAL_ACC0_ID": ("Int32", 0, 0, 1e9), "MPC_Z_VEL_MAX_DN": ("Float", 1.5, 0.5, 4.0),
    "RTL_RETURN_ALT": ("Float", 60.0, 0.0, 1e4),
}  # fmt: skip


@pytest.fixture
def build(tmp_path: Path) -> Px4Build:
    """A build with few parameters, and PX4's scripts of this link and of SIH as far as they start modules."""
    etc = tmp_path / "build" / "etc"
    (etc / "init.d-posix").mkdir(parents=True)
    rows = [
        {"name": name, "type": kind, "default": default, "min": low, "max": high}
        for name, (kind, default, low, high) in METADATA.items()
    ]
    (tmp_path / "build" / "parameters.json").write_text(json.dumps({"parameters": rows}))
    scripts = etc / "init.d-posix"
    (scripts / "rcS").write_text("if param compare SIM_BAT_ENABLE 1\nthen\n\tbattery_simulator start\nfi\n")
    (scripts / "px4-rc.mavlinksim").write_text("\tsimulator_mavlink start -c 4560\n")
    (scripts / "px4-rc.sihsim").write_text("if simulator_sih start; then\n\tsensor_gps_sim start\nfi\n")
    return Px4Build(tmp_path, tmp_path / "px4", etc, "v1.16.0")


def test_what_this_link_does_not_start_is_refused_by_name(build: Px4Build) -> None:
    given = {"SIM_BAT_DRAIN": 20.0, "SIM_GPS_USED": 0, "SIH_MASS": 2.0, "NAV_RCL_ACT": 3}
    faults = given_faults(given, build_parameters(build.etc), build.etc)
    assert [fault.split()[0] for fault in faults] == ["SIM_BAT_DRAIN", "SIM_GPS_USED", "SIH_MASS"]
    assert "use the battery of the airframe" in faults[0]
    assert "gps_jamming" in faults[1]
    assert "--home and --wind" in faults[2]


def test_what_it_starts_is_taken(build: Px4Build) -> None:
    assert without_effect(["SIM_BAT_DRAIN"], build.etc, own_battery=True) == {}  # `serve` without --battery
    script = build.etc / "init.d-posix" / "px4-rc.mavlinksim"
    script.write_text(script.read_text() + "\tsensor_gps_sim start\n\tsensor_airspeed_sim start\n")
    names = ["SIM_GPS_USED", "SENS_EN_GPSSIM", "SIM_ARSPD_FAIL", "SIH_MASS", "SENS_EN_THERMAL"]
    assert list(without_effect(names, build.etc, own_battery=False)) == ["SIH_MASS"]


def test_parameters_of_other_kinds_of_vehicles_have_no_effect(build: Px4Build) -> None:
    of_others = [
        "FW_AIRSPD_MAX",
        "RWTO_TKOFF",
        "LNDFW_VEL_XY_MAX",
        "VT_TYPE",
        "RO_MAX_THR_SPEED",
        "UUV_ROLL_P",
    ]
    names = [*of_others, "MPC_XY_CRUISE", "ROTARY", "FWD_X"]
    apps = build.etc / "init.d" / "rc.mc_apps"
    apps.parent.mkdir()
    apps.write_text("mc_att_control start\nland_detector start multicopter\n")
    found = without_effect(names, build.etc, own_battery=False)
    assert list(found) == of_others
    assert "for a multirotor" in found["VT_TYPE"]
    apps.write_text(apps.read_text() + "fw_att_control start\n")
    assert "FW_AIRSPD_MAX" not in without_effect(names, build.etc, own_battery=False)


@pytest.mark.parametrize("kind", ["px4", "builtin", "external"])
def test_every_way_in_says_so_before_anything_starts(build: Px4Build, kind: str) -> None:
    settings = VehicleSettings(load_airframe("iris"), parameters={"SIM_GPS_USED": 0})
    choice = AutopilotChoice(kind, build if kind == "px4" else None)  # type: ignore[arg-type]
    (fault,) = settings.parameter_faults(choice)
    assert "SIM_GPS_USED" in fault
    assert "sensor_fault" in fault


def test_parameters_of_a_real_vehicles_other_px4_are_left_out_with_a_note(build: Px4Build) -> None:
    """Its file is of the version that it flies; a name in a file of one's own that PX4 lacks is a fault."""
    airframe, choice = load_airframe("iris"), AutopilotChoice("px4", build)
    own = airframe.px4.model_copy(update={"parameters": {"COM_OBS_AVOID": 1}, "airframe": "4001_mine"})
    real = VehicleSettings(airframe.model_copy(update={"px4": own}))
    assert real.parameter_faults(choice) == []
    assert any(
        "left out, not parameters of PX4: COM_OBS_AVOID" in n for n in real.parameter_notes(choice, World())
    )
    written = own.model_copy(update={"airframe": None})
    (fault,) = VehicleSettings(airframe.model_copy(update={"px4": written})).parameter_faults(choice)
    assert "COM_OBS_AVOID is not a parameter" in fault


def test_so_does_a_program() -> None:
    with pytest.raises(UserError, match=r"SIM_BAT_DRAIN: PX4 starts .* use the battery of the airframe"):
        sb.Sitl("iris", parameters={"SIM_BAT_DRAIN": 20})


FILE = {
    "MC_ROLLRATE_P": 0.2, "MPC_THR_HOVER": 0.275, "THR_MDL_FAC": 0.7, "CA_ROTOR0_PX": 0.17, "EKF2_HGT_REF": 3,
    "EKF2_RNG_FOG": 3.0, "COM_OF_LOSS_T": 3.0, "MPC_LAND_RADIUS": -1.0, "NAV_RCL_ACT": 2.5, "SIM_GPS_USED": 4,
    "CAL_ACC0_ID": 77, "TRJ_ANCHOR_X": 1.0, "RTL_RETURN_ALT": 25.0,
}  # fmt: skip


def test_of_a_vehicles_file_the_flights_parameters_are_flown(build: Px4Build) -> None:
    own = parameters_for(load_airframe("x500"))
    chosen = ParameterFile("real.params", FILE).choose(own, build_parameters(build.etc), build.etc)
    tuned = {"MC_ROLLRATE_P": 0.2, "COM_OF_LOSS_T": 3.0, "MPC_LAND_RADIUS": -1.0, "RTL_RETURN_ALT": 25.0}
    assert chosen.flown == tuned
    assert chosen.board == ("CAL_ACC0_ID",)
    assert chosen.idle == ("SIM_GPS_USED",)
    assert chosen.unknown == ("TRJ_ANCHOR_X",)
    assert chosen.refused == ("NAV_RCL_ACT 2.5",)
    assert chosen.contradicting == (
        f"MPC_THR_HOVER 0.275, airframe {own['MPC_THR_HOVER']:g}",
        f"THR_MDL_FAC 0.7, airframe {own.get('THR_MDL_FAC', 0.0):g}",
        f"CA_ROTOR0_PX 0.17, airframe {own['CA_ROTOR0_PX']:g}",
        "EKF2_HGT_REF 3, airframe 1",
    )
    assert chosen.unusual == ("MPC_LAND_RADIUS -1 (0 to 10000)",)
    notes = chosen.notes("PX4")
    assert notes[0] == "real.params: 4 of its 13 parameters are flown"
    assert len(notes) == 7  # all in one report


def test_the_file_wins_where_the_user_says_so(build: Px4Build) -> None:
    own = parameters_for(load_airframe("x500"))
    chosen = ParameterFile("real.params", FILE, wins=True).choose(own, build_parameters(build.etc), build.etc)
    assert chosen.flown["CA_ROTOR0_PX"] == 0.17
    assert chosen.flown["EKF2_HGT_REF"] == 3
    assert len(chosen.contradicting) == 4
    assert "CAL_ACC0_ID" not in chosen.flown


def test_time_outs_of_a_file_are_scaled_as_px4s_defaults_are() -> None:
    assert scaled_time_outs({"COM_OF_LOSS_T": 3.0, "MPC_XY_P": 1.0}, 10.0) == {
        "COM_OF_LOSS_T": 30.0,
        "MPC_XY_P": 1.0,
    }


def test_names_override_the_file_of_which_the_built_in_stack_takes_what_it_has(tmp_path: Path) -> None:
    file = tmp_path / "real.params"
    values = (
        "RTL_RETURN_ALT 25",
        "MPC_XY_CRUISE 3",
        "MC_ROLLRATE_P 0.2",
        "MPC_TILTMAX_AIR 999",
        "CAL_ACC0_ID 3",
    )
    file.write_text("\n".join(values))
    with pytest.warns(RuntimeWarning, match=r"real\.params: ") as told:
        sitl = sb.Sitl("iris", params=file, parameters={"MPC_XY_CRUISE": 4})
    with sitl:
        assert sitl.vehicle.parameter("RTL_RETURN_ALT") == 25.0
        assert sitl.vehicle.parameter("MPC_XY_CRUISE") == 4.0
    said = "\n".join(str(one.message) for one in told)
    assert "not parameters of the built-in flight stack: MC_ROLLRATE_P" in said
    assert "not taken by the built-in flight stack: MPC_TILTMAX_AIR 999 (20 to" in said


@pytest.mark.parametrize("text", ["MPC_XY_P", "MPC_XY_P=", "=3", "MPC_XY_P=fast", "MPC_XY_P=nan", ""])
def test_a_parameter_option_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="write NAME=VALUE"):
        parse_parameters([text])


def test_parameter_options_keep_whole_numbers_whole() -> None:
    found = parse_parameters(["NAV_RCL_ACT=3", "MPC_XY_P = 0.9", "MPC_XY_VEL_ALL=-10"])
    assert found == {"NAV_RCL_ACT": 3, "MPC_XY_P": 0.9, "MPC_XY_VEL_ALL": -10}
    assert isinstance(found["NAV_RCL_ACT"], int)


def test_a_vehicles_choice_is_made_for_the_speed_of_its_run(build: Px4Build) -> None:
    vehicle = VehicleSettings(load_airframe("iris"), parameter_file=ParameterFile("real.params", FILE))
    chosen = vehicle.choose_parameters(AutopilotChoice("px4", build), World(), 10.0)
    assert chosen is not None
    assert chosen.flown["COM_OF_LOSS_T"] == 30.0


def test_variables_of_the_environment_are_named_with_the_option_that_replaces_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert ignored_variables({"PATH": "/bin", "PX4_DIR": "/px4", "PX4_UXRCE_DDS_NS": "one"}) == []
    monkeypatch.setenv("PX4_HOME_LAT", "-30.4")
    monkeypatch.setenv("PX4_PARAM_MIS_TAKEOFF_ALT", "7")
    with pytest.warns(
        RuntimeWarning, match=r"PX4_HOME_LAT \(--home\), PX4_PARAM_MIS_TAKEOFF_ALT \(--param\)"
    ):
        sb.Sitl("iris").close()


@pytest.mark.parametrize(
    ("named", "in_file", "noted"),
    [
        ({}, 0.5, True),
        ({"MPC_Z_VEL_MAX_DN": 0.53}, 1.5, True),
        ({"MPC_Z_VEL_MAX_DN": 1.0}, 0.5, False),
        ({}, 0.54, False),
    ],
)
def test_a_sink_rate_that_keeps_px4_on_the_ground_is_named(
    build: Px4Build, named: dict[str, float], in_file: float, noted: bool
) -> None:
    file = ParameterFile("real.params", {"MPC_Z_VEL_MAX_DN": in_file})
    vehicle = VehicleSettings(load_airframe("iris"), parameters=named, parameter_file=file)
    notes = {
        kind: vehicle.parameter_notes(AutopilotChoice(kind, build), World()) for kind in ("px4", "builtin")
    }
    assert any("does not leave the ground" in note for note in notes["px4"]) is noted
    assert not any("does not leave the ground" in note for note in notes["builtin"])


@pytest.mark.parametrize(
    ("airframe", "wind", "expected"),
    [
        ("crazyflie_identified", "8@270", True),
        ("crazyflie_identified", "5@270", False),
        ("iris", "8@270", False),
    ],
)
def test_a_wind_that_blows_the_vehicle_away_is_said_beforehand(
    airframe: str, wind: str, expected: bool
) -> None:
    options = FlightOptions(airframe=load_airframe(airframe), wind=parse_wind(wind))
    notes = FlightSettings.without_mission(options).notes()
    assert any("hold its place in" in note for note in notes) is expected
