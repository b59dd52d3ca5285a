"""The command `identify`: its table, its file and its messages; and a flight of the built-in stack."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.commands import run_command
from support.paths import MISSIONS
from support.px4_flights import fly
from support.vehicle_logs import write_flight

from sitl_bridge.cli.identify import DEFAULT
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.wind import SteadyWind, WindSpecification
from sitl_bridge.core.world.world import WorldSpecification
from sitl_bridge.lab.flights.flight_source import read_identification_flight
from sitl_bridge.lab.identification.airframe_identification import identify_airframe


def run(*arguments: str) -> tuple[int, str]:
    result = run_command("identify", *arguments)
    return (
        result.exit_code,
        result.output if result.exception is None else f"{result.output}{result.exception}",
    )


def test_a_log_is_identified_and_the_airframe_is_written(tmp_path: Path) -> None:
    log = write_flight(tmp_path / "flight.ulg")
    file = tmp_path / "mine.yaml"
    code, output = run(
        str(log),
        "--airframe",
        "iris",
        "--fit",
        "thrust,wind",
        "--fix",
        "mass=1.705",
        "--window",
        "0.5",
        "-o",
        str(file),
    )
    assert code == 0, output
    assert "rotor_model.thrust_c2" in output
    assert "wind" in output
    assert "held-out" in output
    frame = load_airframe(file)
    assert frame.mass == pytest.approx(1.705)
    # A mass 10 % above the one that flew needs a thrust 10 % above.  The log has no voltage: that of the full
    # battery, 12.45 V in place of the nominal 11.4 V, goes into the thrust, too.
    assert "the log has no battery voltage" in output
    thrust = 1.1 * 5.84e-6 * (12.45 / 11.4) ** 2
    assert frame.vehicle()["thrust_c2"][0] == pytest.approx(thrust, rel=0.03)
    assert "known value" in frame.source("mass")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--fit", "everything"], "--fit everything: no such group"),
        (["--fix", "mass"], "write FIELD=VALUE"),
        (["--fix", "mass=heavy"], "write FIELD=VALUE"),
        (["--fix", "rotors=4"], "no such parameter"),
        (["--keep"], "give --model attitude"),
        (["--model", "attitude", "--fix", "mass=1"], "are for --model airframe"),
        (["--window", "0.2", "-o", "mine.txt", "--fit", "thrust"], "ends in .yaml"),
        (["--airframe", "firefly"], "no motor commands of 6 motors"),
    ],
)
def test_a_wrong_option_gives_one_message(tmp_path: Path, arguments: list[str], message: str) -> None:
    log = write_flight(tmp_path / "flight.ulg")
    chosen = [] if "--airframe" in arguments else ["--airframe", "iris"]
    code, output = run(str(log), *chosen, *arguments)
    assert code != 0
    assert message in output


def test_files_that_are_no_flight_give_one_message(tmp_path: Path) -> None:
    file = tmp_path / "no.ulg"
    file.write_bytes(b"nothing")
    assert "cannot be read as a ULog" in run(str(file), "--airframe", "iris")[1]
    assert "no such run directory or ULog" in run(str(tmp_path / "none.ulg"))[1]
    assert "contains no ULog" in run(str(tmp_path), "--airframe", "iris")[1]
    whole = write_flight(tmp_path / "flight.ulg").read_bytes()
    file.write_bytes(whole[: len(whole) // 3])
    assert "the log has no flight of" in run(str(file), "--airframe", "iris")[1]


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_run_of_the_built_in_stack_is_identified_from_the_recorder(tmp_path: Path) -> None:
    world = WorldSpecification(wind=WindSpecification(steady=SteadyWind(speed=6.0, direction=240.0)))
    outcome, _, session = fly(
        MISSIONS / "identification.py", tmp_path, world=world, seed=5, autopilot="builtin", time_limit=400.0
    )
    assert outcome.succeeded, outcome.reason
    log = read_identification_flight(session.directory.path, 4)
    assert log.commands.rate == pytest.approx(250.0, rel=0.01)
    prior = load_airframe("iris")
    changed = prior.model_copy(update={"inertia": prior.inertia.model_copy(update={"xx": 0.036})})
    found = identify_airframe([log], changed, fit=DEFAULT.split(","))
    assert found.settled, "its estimates move no more"
    for estimate in found.estimates:
        assert estimate.value == pytest.approx(estimate.parameter.value(prior), rel=0.05), estimate
    assert found.wind[0].mean == pytest.approx((3.0, 5.196), abs=0.3)
