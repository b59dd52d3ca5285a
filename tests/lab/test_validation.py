"""Records of real flights, and errors of predictions, on flights of the simulator written as tables."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from support.commands import run_command
from support.crazyflie_tables import HEADER, fly_crazyflie, write_crazyflie

import sitl_bridge as sb
from sitl_bridge.analysis.replay.vehicle_log import VehicleLog
from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.rotations import matrix_from_quaternion
from sitl_bridge.lab.flights.data_sets import read_table
from sitl_bridge.lab.validation import disturbances, read_flights
from sitl_bridge.lab.validation.benchmark import BEGIN, END, compare, update_page
from sitl_bridge.lab.validation.flight_facts import facts_of_flight
from sitl_bridge.lab.validation.simulators import constant, sitl_bridge, textbook
from sitl_bridge.lab.validation.windows import HORIZONS, Windows, errors, flight_errors

NANOBENCH = os.environ.get("SITL_BRIDGE_NANOBENCH", "")
"""Directory of NanoBench's tables, which are not part of this project."""


@cache
def rows(seed: int = 0) -> Floats:
    return fly_crazyflie(sb.Airframe.load("crazyflie_published"), 14.0, seed)


def windows(folder: Path, seed: int = 0) -> Windows:
    return Windows.of({f"{seed}": read_table(write_crazyflie(folder / f"{seed}.csv", rows(seed)))})


def test_a_table_becomes_the_record_of_a_flight_in_body_axes_frd_and_motors_in_px4s_order(
    tmp_path: Path,
) -> None:
    flown = rows()
    log = read_table(write_crazyflie(tmp_path / "flight.csv", flown))
    (begin, end), later = log.airborne[0], flown[:, 0] + 1.0
    assert begin == pytest.approx(1.0, abs=0.02)
    assert end == pytest.approx(15.0, abs=0.03)
    place = flown[:, HEADER.index("px")]
    np.testing.assert_allclose(log.position.at(later)[:, 0], place, atol=1e-6)
    np.testing.assert_allclose(log.position.at(later)[:, 2], -flown[:, HEADER.index("pz")], atol=1e-6)
    motors = flown[:, HEADER.index("motor_motor_m1") :][:, [0, 2, 3, 1]] / 65535.0
    np.testing.assert_allclose(log.commands.at(later), motors, atol=1e-6)
    # A roll to the right has a positive rate; the rate is the derivative of the angle.
    slope = np.gradient(2.0 * log.attitude.at(later)[:, 1], later)
    middle = slice(50, -50)
    assert np.corrcoef(slope[middle], log.rates.at(later)[middle, 0])[0, 1] > 0.95


def test_a_flight_before_fans_is_seen_from_the_air_that_they_move(tmp_path: Path) -> None:
    """Nose down by 0.2 rad, gaining 1 m/s^2 in a wind of 8.5 m/s from ahead; its front motors turn slower."""
    header = "t,p,v,q,R,T_sp,hover_throttle,pwm"
    lines = [f",{header}"]
    for k in range(100):
        t, turn = 0.02 * k, [0.0, math.sin(0.1), 0.0, math.cos(0.1)]
        place, speed = [0.5 * t * t, 0.1, 1.5], [t, 0.0, 0.0]
        cells = [place, speed, turn, [[1, 0], [0, 1]], [0.5], [0.4], [900.0, 1100.0, 900.0, 1100.0]]
        lines.append(",".join([str(k), str(t), *(f'"{cell}"' for cell in cells)]))
    table = tmp_path / "custom_figure8_baseline_70wind.csv"
    table.write_text("\n".join(lines))
    log = read_table(table)
    np.testing.assert_allclose(log.velocity.at(np.array([1.0])), [[9.5, 0.0, 0.0]], atol=1e-3)
    np.testing.assert_allclose(log.position.at(np.array([1.0])), [[9.0, -0.1, -1.5]], atol=1e-3)
    # The axes are those of the thrust, which leans forward by 2.45 deg and to the right by 1.04 deg.
    tilt = matrix_from_quaternion(log.attitude.values[0]) @ (0.0, 0.0, -1.0)
    np.testing.assert_allclose(
        tilt[:2], [np.sin(0.2 + math.radians(2.45)), math.sin(math.radians(1.04))], atol=2e-3
    )
    felt = [np.cos(0.2) - 9.80665 * np.sin(0.2), 0.0, -np.sin(0.2) - 9.80665 * np.cos(0.2)]
    leaning = log.acceleration.at(np.array([1.0]))[0]
    np.testing.assert_allclose(np.linalg.norm(leaning), np.linalg.norm(felt), atol=0.02)
    np.testing.assert_allclose(leaning[0] - felt[0], -felt[2] * -math.radians(2.45), atol=0.02)
    lift = (2.0 * log.commands.values[50]) ** 2
    thrust = 0.355 * 1.25**2 + 0.645 * 1.25
    np.testing.assert_allclose(lift, thrust * np.array([0.9, 1.1, 0.9, 1.1]))
    gusty = table.with_name("custom_figure8_baseline_70p20sint.csv")
    gusty.write_text(table.read_text())
    with pytest.raises(UserError, match="its wind is none of nowind, 10wind"):
        read_table(gusty)


def turned_right() -> Iterator[tuple[float, Floats, Floats, Floats, Floats]]:
    """1 s at 100 Hz of a flight to the right, forward, left, up: s, place, velocity, attitude and rates."""
    for k in range(100):
        t = 0.01 * k
        roll = 0.1 + 0.2 * t
        place, velocity = np.array([2.0 * t, -0.5 * t * t, 1.0]), np.array([2.0, -t, 0.0])
        attitude = np.array([math.cos(roll / 2.0), math.sin(roll / 2.0), 0.0, 0.0])
        yield t, place, velocity, attitude, np.array([0.2, 0.0, 0.0])


def written(path: Path, header: str, lines: Iterable[Iterable[float | str]]) -> VehicleLog:
    path.write_text("\n".join([header, *(",".join(map(str, line)) for line in lines)]))
    return read_table(path)


def check_turned_right(log: VehicleLog, commands: Sequence[float]) -> None:
    """Axes are forward, right, down and north, east, down; motors in PX4's order."""
    at = np.array([0.5])
    np.testing.assert_allclose(log.position.at(at), [[1.0, 0.125, -1.0]], atol=1e-3)
    np.testing.assert_allclose(log.velocity.at(at), [[2.0, 0.5, 0.0]], atol=1e-2)
    assert 2.0 * np.arcsin(log.attitude.at(at)[0, 1]) == pytest.approx(0.2, abs=1e-3)
    np.testing.assert_allclose(log.rates.at(at), [[0.2, 0.0, 0.0]], atol=1e-3)
    np.testing.assert_allclose(log.commands.at(at), [commands])


def test_nano_drones_with_measured_speeds_are_read(tmp_path: Path) -> None:
    header = "t,x,y,z,qx,qy,qz,qw,vx,vy,vz,wx,wy,wz,m1_rads,m2_rads,m3_rads,m4_rads,ax_body,ay_body,az_body"
    lines = [
        (t, *place, *q[[1, 2, 3, 0]], *v, *w, 300.0, 600.0, 900.0, 1200.0, 0.1, 0.2, 9.8)
        for t, place, v, q, w in turned_right()
    ]
    log = written(tmp_path / "melon.csv", header, lines)
    check_turned_right(log, [0.1, 0.3, 0.4, 0.2])
    np.testing.assert_allclose(log.acceleration.values[0], [0.1, -0.2, -9.8])
    assert log.airborne == ((0.0, 0.99),)


def test_racing_quadrotors_with_measured_speeds_are_read(tmp_path: Path) -> None:
    names = ("ang acc", "ang vel", "quat", "acc", "vel", "pos")
    header = ",".join(
        ["t", *(f"{name} {axis}" for name in names for axis in ("xyzw" if name == "quat" else "xyz"))]
        + [f"{name} {i}" for name in ("mot", "dmot") for i in range(1, 5)]
        + ["vbat"]
    )
    lines = []
    for t, place, v, q, w in turned_right():
        through = Rotation.from_quat(q[[1, 2, 3, 0]]).inv().apply(v)
        felt, speeds = (0.1, 0.2, 9.8), (300.0, 600.0, 900.0, 1200.0)
        lines.append((t, 0, 0, 0, *w, *q[[1, 2, 3, 0]], *felt, *through, *place, *speeds, 0, 0, 0, 0, 15.0))
    log = written(tmp_path / "merged_seg_1.csv", header, lines)
    check_turned_right(log, [0.2, 0.3, 0.4, 0.1])
    assert log.voltage is not None
    assert log.voltage.values[0] == 15.0


def test_races_are_read_beside_the_names_of_their_pictures(tmp_path: Path) -> None:
    rotation = [f"drone_rot[{i}]" for i in range(9)]
    header = ",".join(
        ["elapsed_time", "img_filename", *(f"thrust[{i}]" for i in range(4)), "vbat"]
        + [f"drone_{axis}" for axis in "xyz"]
        + rotation
    )
    lines: list[tuple[float | str, ...]] = []
    for t, place, _, q, _ in turned_right():
        matrix = Rotation.from_quat(q[[1, 2, 3, 0]]).as_matrix()
        lines.append((t, f"{t:.2f}.jpg", 0.1, 0.2, 0.3, 0.4, 23.0, *place, *matrix.T.ravel()))
    log = written(tmp_path / "flight-01a.csv", header, lines)
    check_turned_right(log, [0.2, 0.3, 0.4, 0.1])
    felt = [0.0, math.cos(0.2) - 9.80665 * math.sin(0.2), -9.80665 * math.cos(0.2) - math.sin(0.2)]
    np.testing.assert_allclose(log.acceleration.at(np.array([0.5])), [felt], atol=0.02)


def write_blackbird(folder: Path, flown: Floats, order: Sequence[int]) -> Path:
    """A flight of NanoBench as rosbags become tables: a cell for each line of a message that has a colon.

    Poses have 100 Hz, NED and forward, right, down; speeds 50 Hz, a motor's 20,000 RPM at full duty.
    """
    column = {name: flown[:, i] for i, name in enumerate(HEADER)}
    speeds = np.stack([column[f"motor_motor_m{i + 1}"] for i in order], axis=1) * 20_000.0 / 65535.0
    heads = ["rosbagTimestamp,header,seq,stamp,secs,nsecs,frame_id"]
    state = [f"{heads[0]},pose,position,x,y,z,orientation,x,y,z,w"]
    rpm = [f"{heads[0]},sample_stamp" + ",-,secs,nsecs" * 4 + ",rpm"]
    for k, t in enumerate(column["t"]):
        seconds = f"{int(t) + 1_525_000_000},{round(t % 1.0 * 1e9)}"
        start = f"{k},,{k},,{seconds}"
        p, q = ([column[f"{what}{axis}"][k] for axis in axes] for what, axes in (("p", "xyz"), ("q", "xyzw")))
        state.append(f"{start},mocap_NED,,,{p[0]},{-p[1]},{-p[2]},,{q[0]},{-q[1]},{-q[2]},{q[3]}")
        if k % 2 == 0:
            cells = ", ".join(f"{speed:.3f}" for speed in speeds[k])
            rpm.append(f'{start},body,,{",".join([seconds] * 4)},"[{cells}]"')
    folder.mkdir(parents=True)
    (folder / "blackbird_slash_state.csv").write_text("\n".join(state))
    (folder / "blackbird_slash_rotor_rpm.csv").write_text("\n".join(rpm))
    return folder / "blackbird_slash_rotor_rpm.csv"


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (2, 0, 3, 1)])
def test_blackbird_is_read_and_shows_by_itself_which_motor_is_where(
    tmp_path: Path, order: Sequence[int]
) -> None:
    flown = rows()
    log = read_table(write_blackbird(tmp_path / "star" / "csv", flown, order))
    nano = read_table(write_crazyflie(tmp_path / "flight.csv", flown))
    late = nano.position.time[len(nano.position.time) - 100 - len(flown)]  # the other begins on the ground
    at = np.arange(1.0, flown[-1, 0] - 1.0, 0.02)
    for name, error in (("position", 1e-6), ("velocity", 0.1), ("attitude", 1e-3), ("rates", 0.05)):
        one, other = getattr(log, name).at(at), getattr(nano, name).at(at + late)
        assert np.abs(one - other).max() < error, name
    signals = log.commands.at(at) * 3000.0 / (20_000.0 * math.pi / 30.0)
    np.testing.assert_allclose(signals, nano.commands.at(at + late), atol=0.02)


def test_flights_of_blackbird_are_found_in_its_tree_and_compared(tmp_path: Path) -> None:
    for name, seed in (("fit", 1), ("test", 2)):
        write_blackbird(tmp_path / name / "mouse" / "yawForward" / "csv", rows(seed), (0, 1, 2, 3))
        (tmp_path / name / "mouse" / "yawForward" / "groundTruthPoses.csv").write_text("0,0,0,0,1,0,0,0")
    arguments = ["validate", str(tmp_path / "test"), "--fit", str(tmp_path / "fit")]
    result = run_command(*arguments, "--simulator", "constant")
    assert result.exit_code == 0, result.output
    assert "1 flight" in result.output


def test_a_flight_of_blackbird_without_its_poses_or_turns_is_refused(tmp_path: Path) -> None:
    speeds = write_blackbird(tmp_path / "csv", rows(), (0, 1, 2, 3))
    state = speeds.with_name("blackbird_slash_state.csv")
    text = state.read_text().splitlines()
    level = [",".join([*line.split(",")[:-4], "0", "0", "0", "1"]) for line in text[1:]]
    state.write_text("\n".join([text[0], *level]))
    with pytest.raises(UserError, match="turns too little to show which rotor is where"):
        read_table(speeds)
    state.unlink()
    with pytest.raises(UserError, match=r"blackbird_slash_state\.csv: cannot be read"):
        read_table(speeds)


def test_the_airframe_that_flew_predicts_its_flight_and_constant_rates_do_not(tmp_path: Path) -> None:
    flown = windows(tmp_path)
    made = sitl_bridge.Simulator("crazyflie_published").predict(flown, np.ones((len(flown), 4)))
    own = flight_errors(errors(made, flown), flown)[0]
    other = flight_errors(
        errors(constant.Simulator().predict(flown, np.ones((len(flown), 4))), flown), flown
    )[0]
    # What remains comes from rates that are derivatives over +-70 ms.
    assert (own[-1] < 0.35 * other[-1]).all(), (own, other)
    assert own[0, 1] < 0.02
    force, moment = np.sqrt(np.mean(disturbances.missing_acceleration(made, flown) ** 2, axis=0)).reshape(
        2, 3
    )
    assert force.max() < 0.1
    assert moment.max() < 4.0


def test_a_fitted_textbook_body_predicts_another_flight_better_than_constant_rates(tmp_path: Path) -> None:
    fitting, testing = windows(tmp_path, 1), windows(tmp_path, 2)
    scores = compare([constant.Simulator(), textbook.Simulator()], fitting, testing, print)
    still, fitted = scores[0], scores[2]
    assert (still.own_trim, fitted.own_trim, fitted.flights) == (False, False, 1)
    assert (fitted.mean[-1] < 0.7 * still.mean[-1]).all(), (fitted.mean, still.mean)
    assert (fitted.interval[0] <= fitted.mean).all()
    assert scores[1].windows < scores[0].windows
    # Constant velocity lacks all of the acceleration, a fitted body less of it in each axis.
    gained = (testing.truth.velocity - testing.start.velocity)[:, 0] / 0.1
    axes = Rotation.from_quat(testing.start.attitude[:, 0][:, [1, 2, 3, 0]])
    felt = np.sqrt((axes.inv().apply(gained) ** 2).mean(axis=0))
    np.testing.assert_allclose(still.lacking[0], felt, rtol=1e-6)
    assert (fitted.lacking < still.lacking).all(), (fitted.lacking, still.lacking)


@pytest.mark.slow
def test_what_a_flight_lacked_is_foreseen_alike_whatever_is_scored(tmp_path: Path) -> None:
    """The airframe's centre of gravity is 0.5 mm beside that of the vehicle that flew."""
    wrong = sb.Airframe.load("crazyflie_published").changed(
        rotors=[
            rotor.model_copy(update={"position": (rotor.position[0] + 5e-4, *rotor.position[1:])})
            for rotor in sb.Airframe.load("crazyflie_published").rotors
        ]
    )
    plain = sitl_bridge.Simulator(wrong)
    observed = disturbances.Observed(sitl_bridge.Simulator(wrong))
    fitting = windows(tmp_path, 1)
    found = []
    for every in (0.1, 0.5):
        flown = Windows.of({"2": read_table(write_crazyflie(tmp_path / "2.csv", rows(2)))}, every)
        for simulator in (plain, observed):
            simulator.fit(fitting)
            found.append(errors(simulator.predict(flown, np.ones((len(flown), 4))), flown))
    without, dense, _, scored = found
    assert (np.sqrt((dense**2).mean(axis=0)) < 0.7 * np.sqrt((without**2).mean(axis=0)))[-1].all()
    np.testing.assert_allclose(scored, dense[::5], rtol=1e-6, atol=1e-9)


def test_a_measured_start_is_trusted_as_a_steady_kalman_filter_would(tmp_path: Path) -> None:
    """A random walk of variance 1 behind white noise of variance 2 has the gain 1/2: P^2 = P + 2, P = 2."""
    random, count = np.random.default_rng(0), 20_000
    begins = HORIZONS[0] * np.arange(count, dtype=np.float64)
    flown = replace(windows(tmp_path), flight=np.zeros(count, np.int64), begins=begins)
    noise = np.sqrt(2.0) * random.normal(size=(count + 1, 6))
    lacking = random.normal(size=(count, 6)) + noise[1:] - noise[:-1]
    assert disturbances.gains_of_starts(lacking, flown) == pytest.approx(0.5, abs=0.05)


def test_a_copy_of_a_flight_is_not_scored_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_crazyflie(tmp_path / "a.csv", rows(1))
    (tmp_path / "b.csv").write_bytes((tmp_path / "a.csv").read_bytes())
    assert list(read_flights(tmp_path, print, print)) == ["a"]
    said = capsys.readouterr().out
    assert "b is left out: it is a copy of a" in said
    assert hashlib.sha256((tmp_path / "a.csv").read_bytes()).hexdigest() in said


def test_the_command_writes_the_tables_between_the_marks_of_a_page(tmp_path: Path) -> None:
    for name, seed in (("fit", 1), ("test", 2)):
        (tmp_path / name).mkdir()
        write_crazyflie(tmp_path / name / "flight.csv", rows(seed))
    page = tmp_path / "docs" / "page.md"
    page.parent.mkdir()
    page.write_text(f"# Realism\n\n{BEGIN}\nold\n{END}\n\nAfter.\n")
    own = tmp_path / "mine.py"
    own.write_text("from sitl_bridge.lab.validation.simulators.constant import Simulator as Constant\n\n\n"
                   "class Simulator(Constant):\n    name = 'mine'\n")  # fmt: skip
    arguments = ["validate", str(tmp_path / "test"), "--fit", str(tmp_path / "fit"), "-o", str(page)]
    chosen = ["--simulator", "constant", "--simulator", str(own)]
    result = run_command(*arguments, *chosen)
    assert result.exit_code == 0, result.output
    text = page.read_text()
    assert text.startswith("# Realism\n")
    assert text.endswith("After.\n")
    assert "old" not in text
    new = tmp_path / "no_such_yet" / "page.md"
    result = run_command(*arguments[:-1], str(new), *chosen)
    assert result.exit_code == 0, result.output
    assert "| mine |" in new.read_text()
    lines = [line for line in text.splitlines() if line.startswith("| mine |")]
    assert [line.replace("mine", "constant velocity and rates") in text for line in lines] == [True] * 2


def test_check_sets_the_commands_of_a_flight_beside_an_airframe(tmp_path: Path) -> None:
    """The flown vehicle carries its weight at the speeds of its file, one with half the thrust does not."""
    flight = write_crazyflie(tmp_path / "flight.csv", rows())
    weak = sb.Airframe.load("crazyflie_published").changed(mass=0.0135)
    found = []
    for airframe in ("crazyflie_published", weak):
        if not isinstance(airframe, str):
            facts = facts_of_flight(airframe, flight)
        else:
            result = run_command("check", airframe, "--flight", str(flight), "--json")
            assert result.exit_code == 0, result.output
            facts = json.loads(result.output)
        found.append(facts["factor_of_thrust"])
        assert np.mean(facts["commands_in_the_air"]) == pytest.approx(
            rows()[:, 14:18].mean() / 65535, rel=0.01
        )
    c2, c1, thrusts = 2.2417e-8, 5.1396e-6, 0.027 * 9.81 / 4.0 * np.array([1.0, 0.5])
    squares = (c1 + np.sqrt(c1**2 + 4.0 * c2 * thrusts)) ** 2  # of the speeds that give them
    weaker = squares[1] / squares[0]
    assert found == [pytest.approx(1.0, rel=0.05), pytest.approx(weaker * found[0], rel=0.01)]
    refused = run_command("check", "square.plan", "--flight", str(flight))
    assert "stands beside an airframe" in str(refused.exception)


def test_what_is_no_flight_is_refused_with_the_reason(tmp_path: Path) -> None:
    flown = rows().copy()
    flown[700, HEADER.index("motor_motor_m2")] = 3_695_576.0
    with pytest.raises(UserError, match=r"a PWM of 3695576 .* corrupt"):
        read_table(write_crazyflie(tmp_path / "corrupt.csv", flown))
    other = tmp_path / "other.csv"
    other.write_text("a,b\n1,2\n")
    with pytest.raises(UserError, match="columns of no known data set"):
        read_table(other)
    with pytest.raises(UserError, match="one of the marks"):
        update_page(f"{BEGIN}\n", [])


@pytest.mark.skipif(not NANOBENCH, reason="SITL_BRIDGE_NANOBENCH names no directory of NanoBench's tables")
def test_published_figures_predict_real_crazyflies_better_than_a_body_without_moments_of_velocity() -> None:
    """RotorPy's released Crazyflie errs by 37 deg after 0.25 s, with each flight's own trim."""
    read = {file.stem: read_table(file) for file in sorted(Path(NANOBENCH).glob("B[237]*.csv"))}
    flown = Windows.of(read, every=0.5)
    scores = compare([sitl_bridge.Simulator("crazyflie_published")], flown, flown, print)
    own = scores[1]
    assert own.own_trim
    assert own.mean[HORIZONS.index(0.25), 2] < 20.0
