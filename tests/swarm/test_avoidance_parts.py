from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.commands import run_command
from support.swarm_scenarios import load_avoidance

from sitl_bridge.base.constants import STANDARD_GRAVITY
from sitl_bridge.base.errors import ConfigurationError, UserError
from sitl_bridge.base.rotations import quaternion_from_euler
from sitl_bridge.core.vehicle.airframe_file import find_airframe
from sitl_bridge.lab.identification.attitude import (
    fit_axis,
    fit_drag,
    identify,
    read_flight,
    simulate_response,
)
from sitl_bridge.record.ulog_writer import UlogWriter
from sitl_bridge.session.identified_models import IdentifiedFile, identified_model, load, save
from sitl_bridge.swarm.avoidance.agent import Agent, OwnState
from sitl_bridge.swarm.avoidance.controller_settings import ControllerSettings, ControlLimits
from sitl_bridge.swarm.avoidance.disturbance_observer import Observer
from sitl_bridge.swarm.avoidance.neighbours import (
    Broadcast,
    Neighbourhood,
    Obstacle,
    priority_graph,
)
from sitl_bridge.swarm.avoidance.records import BOX, SPHERE
from sitl_bridge.swarm.avoidance.references import Route
from sitl_bridge.swarm.avoidance.solver import PlanStatus
from sitl_bridge.swarm.avoidance.specification import AvoidanceSpecification, check_scenario

FLOWN_TOPICS = [
    "vehicle_attitude",
    "vehicle_attitude_setpoint",
    "vehicle_local_position",
    "vehicle_land_detected",
]


# --- neighbours
def test_priority_makes_each_avoid_those_above_it_only() -> None:
    names = ("a", "b", "c", "d")
    assert priority_graph(names, ())["b"] == ("a", "c", "d")
    graph = priority_graph(names, ("c", "a"))
    assert graph == {"c": (), "a": ("c",), "b": ("a", "c", "d"), "d": ("a", "b", "c")}


def word(name: str, time: int, north: float, speed: float) -> Broadcast:
    return Broadcast(name, time, (north, 0.0, 0.0), (speed, 0.0, 0.0), (0.1, 0.1, 0.2), (0.0, 0.0, 0.3))


def test_the_newest_word_of_those_to_avoid_counts() -> None:
    known = Neighbourhood(("b", "c"), (), ControllerSettings())
    known.receive(
        [word("b", 2_000_000, 5.0, 1.0), word("b", 1_000_000, 4.0, 1.0), word("x", 2_000_000, 1.0, 0.0)]
    )
    known.receive([word("c", 1_500_000, 7.0, 0.04)])
    b, c = known.entities(2_050_000)
    assert b["position"][0] == 5.0
    assert b["age"] == pytest.approx(0.05)
    np.testing.assert_allclose(b["position_variance"], (0.01, 0.01, 0.04))
    assert c["velocity"][0] == 0.0  # below the speed threshold: taken as standing still
    assert len(known.entities(4_100_000)) == 0
    assert known.silent == ("b", "c")


def test_a_vehicle_is_expected_to_stay_silent_for_as_long_as_it_was_on_average() -> None:
    settings = ControllerSettings()
    known = Neighbourhood(("b",), (), settings)
    known.receive([word("b", 1_000_000, 5.0, 1.0)])
    assert known.entities(1_300_000)[0]["silence"] == pytest.approx(0.3)  # heard once: as long again
    known.receive([word("b", 1_200_000, 5.0, 1.0), word("b", 1_900_000, 5.0, 1.0)])
    (b,) = known.entities(2_000_000)
    assert b["silence"] == pytest.approx((1.9 - 1.0) / 2)
    assert b["age"] == pytest.approx(0.1)
    # 3 sigma are level flight at the largest attitude: g tan(0.78 x 25 deg) for the firefly.
    assert settings.distances.spread * b["acceleration"] == pytest.approx(
        STANDARD_GRAVITY * math.tan(0.78 * 0.43633), rel=1e-4
    )


# --- references
def test_a_route_is_driven_at_its_speed_and_acceleration() -> None:
    route = Route([(0.0, 0.0, -5.0), (8.0, 0.0, -5.0)], speed=2.0, acceleration=1.0, depart=1.0)
    assert route.duration == pytest.approx(1.0 + 8.0 / 2.0 + 2.0 / 1.0)
    t = np.linspace(-1.0, 9.0, 2001)
    rows = route.sample(t)
    np.testing.assert_allclose(rows[:, 0], np.cumsum(rows[:, 3]) * 0.005, atol=0.01)
    assert rows[:, 3].max() == pytest.approx(2.0)
    assert np.abs(rows[:, 6]).max() == pytest.approx(1.0)
    assert tuple(rows[-1, :3]) == (8.0, 0.0, -5.0)
    np.testing.assert_allclose(np.gradient(rows[:, 0], t)[250:-250], rows[250:-250, 3], atol=0.01)


def test_a_short_leg_never_reaches_its_speed() -> None:
    rows = Route([(0.0, 0.0, 0.0), (0.0, 1.0, 0.0)], speed=5.0, acceleration=1.0).sample(
        np.linspace(0, 2, 401)
    )
    assert rows[:, 4].max() == pytest.approx(1.0, abs=0.01)
    assert rows[-1, 1] == pytest.approx(1.0)


# --- observer
def test_the_observer_finds_a_steady_force_and_a_crooked_rest() -> None:
    record = ControllerSettings().record()
    observer = Observer(record)
    gain, tau = record[0]["gain"], record[0]["time_constant"]
    force, rest = np.array([0.8, -0.5, 0.3]), np.array([0.03, -0.02])
    x, dt = np.zeros(8), 0.01
    random = np.random.default_rng(2)
    for k in range(1500):
        u = np.array([0.1 * math.sin(0.02 * k), 0.1 * math.cos(0.03 * k), STANDARD_GRAVITY])
        noise = np.concatenate([0.02 * random.standard_normal(6), 0.005 * random.standard_normal(2)])
        observer.update(x + noise, np.square([0.02] * 6 + [0.005] * 2), u, 0.0, dt)
        z = np.array([np.sin(x[7]) * np.cos(x[6]), -np.sin(x[6]), np.cos(x[7]) * np.cos(x[6])])
        drag = 0.01 * STANDARD_GRAVITY * (x[3:6] - z * (z @ x[3:6]))
        acceleration = np.array([0.0, 0.0, STANDARD_GRAVITY]) - STANDARD_GRAVITY * z - drag + force
        x[:3] += dt * x[3:6] + 0.5 * dt**2 * acceleration
        x[3:6] += dt * acceleration
        x[6:] += (1.0 - np.exp(-dt / tau)) * (gain * u[:2] + rest - x[6:])
    np.testing.assert_allclose(observer.disturbance[:3], force, atol=0.15)
    np.testing.assert_allclose(observer.disturbance[3:], rest, atol=0.01)
    assert np.linalg.eigvalsh(observer.covariance)[0] > 0.0


# --- agent
def test_an_agent_alone_flies_to_its_reference_and_turns() -> None:
    agent = Agent("a", Route([(0.0, 0.0, -5.0)], yaw=0.5))
    command = agent.tick(1_000_000, OwnState((-1.0, 0.0, -5.0), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)), ())
    assert command.pitch < -0.05  # nose down: northwards
    assert command.yaw == 0.5
    assert command.yaw_rate == pytest.approx(1.8 * 0.5)
    assert agent.solver.plan_x[1, 0] > -1.0
    assert agent.broadcast().time == 1_000_000
    with pytest.raises(ValueError, match="before its first tick"):
        Agent("b", Route([(0.0, 0.0, -5.0)])).broadcast()


def test_a_broadcast_holds_the_plan_that_a_receiver_expects() -> None:
    still = (0.0, 0.0, 0.0)
    sender = Agent("b", Route([(0.0, 0.0, -5.0), (6.0, 0.0, -5.0)]))
    receiver = Agent("a", Route([(0.0, 9.0, -5.0)]), avoids=["b"])
    for k in range(50):
        sender.tick(10_000 * k, OwnState((0.0, 0.0, -5.0), still, still), ())
    sent = sender.broadcast()
    np.testing.assert_array_equal(sent.plan, sender.solver.plan_x[:, :3])
    assert sent.plan[-1, 0] > 1.0, "it stands still, and plans to go"
    receiver.tick(500_000, OwnState((0.0, 9.0, -5.0), still, still), [sent])
    entity = receiver.neighbourhood.entities(500_000)[0]
    np.testing.assert_array_equal(entity["plan"][: entity["points"]], sent.plan)
    assert entity["step"] == sender.settings.step
    paper = Agent("b", Route([(0.0, 0.0, -5.0)]), ControllerSettings(share_plans=False))
    paper.tick(0, OwnState((0.0, 0.0, -5.0), still, still), ())
    assert len(paper.broadcast().plan) == 0


def test_the_papers_algorithm_alone_is_one_switch_and_what_is_given_beside_it_counts() -> None:
    paper, own = ControllerSettings(paper=True), ControllerSettings(paper=True, side=0.2)
    assert (paper.share_plans, paper.side, paper.lead) == (False, 0.0, 1000.0)
    assert (own.share_plans, own.side) == (False, 0.2)
    assert ControllerSettings(paper=False) == ControllerSettings()


def test_what_is_no_number_is_not_taken_in() -> None:
    still = (0.0, 0.0, 0.0)
    agent = Agent("a", Route([(0.0, 0.0, -5.0)]), avoids=["b"])
    agent.tick(1_000_000, OwnState((0.0, 0.0, -5.0), still, still), ())
    broken = Broadcast("b", 1_000_000, (math.nan, 0.0, 0.0), still)
    endless = Broadcast("b", 1_000_000, still, still, plan=np.zeros((1000, 3)))
    unplanned = Broadcast("b", 1_000_000, still, still, plan=np.full((2, 3), math.nan))
    lost = OwnState((math.nan, 0.0, -5.0), still, still)
    command = agent.tick(1_010_000, lost, [broken, endless, unplanned])
    assert command.status is PlanStatus.SHIFTED
    assert all(math.isfinite(value) for value in (command.roll, command.pitch, command.thrust))
    assert agent.neighbourhood.garbled == 3
    statuses = [agent.tick(1_010_000 + 50_000 * k, lost, ()).status for k in range(1, 42)]
    assert statuses[-1] is PlanStatus.EXHAUSTED
    command = agent.tick(3_070_000, OwnState((0.0, 0.0, -5.0), still, still), ())
    assert command.status is PlanStatus.SOLVED


# --- identification
def doublets(time: Any) -> Any:
    return np.radians(8.0) * np.sign(np.sin(2.0 * math.pi * time / 2.5)) * (time > 0.5)


def test_gain_and_time_constant_are_found_in_a_noisy_response() -> None:
    time = np.arange(0.0, 20.0, 0.01)
    command = doublets(time)
    clean = simulate_response(time, command, 0.78, 0.259, 0.05)
    exact = fit_axis(time, command, clean)
    assert exact.gain == pytest.approx(0.78)
    assert exact.time_constant == pytest.approx(0.259)
    noise = np.radians(0.5) * np.random.default_rng(3).standard_normal(len(time))
    fitted = fit_axis(time, command, clean + noise + 0.01)
    assert fitted.gain == pytest.approx(0.78, rel=0.02)
    assert fitted.time_constant == pytest.approx(0.259, rel=0.03)
    assert fitted.offset == pytest.approx(0.01, abs=0.002)
    assert 0.85 < fitted.fit < 0.97


def test_identification_refuses_what_tells_nothing() -> None:
    time = np.arange(0.0, 10.0, 0.01)
    with pytest.raises(UserError, match="doublets"):
        fit_axis(time, 0.0 * time, 0.0 * time)
    noise = np.random.default_rng(4).standard_normal(len(time))
    with pytest.raises(UserError, match="first-order"):
        fit_axis(time, doublets(time), noise)
    with pytest.raises(UserError, match="increasing"):
        fit_axis(time[::-1], doublets(time), noise)
    with pytest.raises(UserError, match="equal length"):
        fit_axis(time, time[:-1], time)


def test_a_flights_model_is_identified_stored_and_read_again(tmp_path: Path) -> None:
    time = np.arange(0.0, 15.0, 0.01)
    truth, commands = np.zeros((len(time), 9)), np.zeros((len(time), 3))
    commands[:, 0], commands[:, 1], commands[:, 2] = doublets(time), doublets(time + 0.6), STANDARD_GRAVITY
    truth[:, 6] = simulate_response(time, commands[:, 0], 0.9, 0.15, 0.0)
    truth[:, 7] = simulate_response(time, commands[:, 1], 1.1, 0.2, 0.0)
    found = identify(time, truth, commands, airframe="iris", stack="test")
    assert found.model.roll_gain == pytest.approx(0.9)
    assert found.model.roll_time_constant == pytest.approx(0.15)
    assert found.model.pitch_gain == pytest.approx(1.1)
    assert found.model.pitch_time_constant == pytest.approx(0.2)
    save(found, tmp_path / "models" / "iris.yaml")
    real = found.model_copy(update={"stack": "PX4 1"})
    save(real, tmp_path / "models" / "iris.yaml")
    assert load(tmp_path / "models" / "iris.yaml") == IdentifiedFile(builtin=found, px4=real)
    (tmp_path / "bad.yaml").write_text("px4: {airframe: x, model: {roll_gain: -1.0}}\n")
    with pytest.raises(ConfigurationError, match="roll_gain"):
        load(tmp_path / "bad.yaml")


FORMATS = {
    "vehicle_attitude": ["uint64_t timestamp", "float[4] q"],
    "vehicle_attitude_setpoint": ["uint64_t timestamp", "float[4] q_d", "float[3] thrust_body"],
    "vehicle_local_position": [
        "uint64_t timestamp",
        *(f"float {n}" for n in ("x", "y", "z", "vx", "vy", "vz")),
    ],
    "vehicle_land_detected": ["uint64_t timestamp", "bool landed"],
}


def write_flight(path: Path, roll: tuple[float, float], setpoint_every: float) -> None:
    """A ULog of 20 s of doublets, flown by a first-order response with a gain and a time constant in roll."""
    formats = {name: list(FORMATS[name]) for name in FLOWN_TOPICS}
    log = UlogWriter(path, 0, formats, FLOWN_TOPICS, {"sys_name": "PX4", "ver_sw": "0123456789abcdef"}, {})
    time = np.arange(0.0, 20.0, 0.004)
    angles = [simulate_response(time, doublets(time + shift), *roll, 0.0) for shift in (0.0, 0.6)]
    next_setpoint = 0.0
    for k, t in enumerate(time):
        now = round(t * 1e6)
        log.write("vehicle_attitude", now, *quaternion_from_euler(angles[0][k], angles[1][k], 0.0))
        log.write("vehicle_local_position", now, *[0.0] * 6)
        if t >= next_setpoint:
            next_setpoint += setpoint_every
            wanted = (float(doublets(t)), float(doublets(t + 0.6)), 0.0)
            log.write("vehicle_attitude_setpoint", now, *quaternion_from_euler(*wanted), 0.0, 0.0, -0.5)
    for now, landed in ((0, False), (round(20e6), True)):
        log.write("vehicle_land_detected", now, landed)
    log.close()


@pytest.mark.parametrize(("setpoint_every", "off"), [(0.004, 0.01), (0.048, 0.025)])
def test_a_log_gives_the_model_that_flew_also_where_it_keeps_few_setpoints(
    tmp_path: Path, setpoint_every: float, off: float
) -> None:
    write_flight(tmp_path / "flight.ulg", (0.9, 0.2), setpoint_every)
    flight = read_flight(tmp_path / "flight.ulg")
    assert flight.stack == "PX4 0123456789"
    assert flight.time[0] >= 3.0
    found = identify(flight.time, flight.truth, flight.commands, airframe="iris", stack=flight.stack)
    # A time constant may be off by what a setpoint's time is uncertain by: half of 48 ms, or a step of 10 ms.
    assert found.model.roll_gain == pytest.approx(0.9, abs=off)
    assert found.model.roll_time_constant == pytest.approx(0.2, abs=off)
    assert found.model.pitch_time_constant == pytest.approx(0.2, abs=off)


def test_what_is_no_flight_of_commanded_attitudes_is_refused(tmp_path: Path) -> None:
    (tmp_path / "no.ulg").write_bytes(b"not a log at all")
    with pytest.raises(UserError, match="cannot be read as a ULog"):
        read_flight(tmp_path / "no.ulg")
    names = FLOWN_TOPICS[:1]
    log = UlogWriter(tmp_path / "few.ulg", 0, {names[0]: FORMATS[names[0]]}, names, {}, {})
    for now in (0, 1000):
        log.write(names[0], now, 1.0, 0.0, 0.0, 0.0)
    log.close()
    with pytest.raises(UserError, match="topic vehicle_attitude_setpoint missing"):
        read_flight(tmp_path / "few.ulg")


def test_one_command_identifies_a_run_and_keeps_the_model_beside_the_airframe(tmp_path: Path) -> None:
    run, mine = tmp_path / "run", tmp_path / "mine.yaml"
    (run / "autopilot" / "log").mkdir(parents=True)
    write_flight(run / "autopilot" / "log" / "flight.ulg", (0.95, 0.15), 0.02)
    (run / "run.json").write_text('{"vehicles": [{"mission": "tilt.py", "airframe": {"name": "iris"}}]}')
    shutil.copy(find_airframe("iris"), mine)

    def identify_run(*arguments: str) -> str:
        result = run_command("identify", "--model", "attitude", *arguments)
        if isinstance(result.exception, UserError):
            raise result.exception
        assert result.exit_code == 0, result.output
        return result.output

    assert "iris under PX4 0123456789, tilt.py" in identify_run(str(run))
    assert not (tmp_path / "identified").exists()
    identify_run(str(run), "--airframe", str(mine), "--keep")
    kept = identified_model(str(mine), "px4")
    assert kept is not None
    assert kept.airframe == "mine"
    assert kept.model.roll_gain == pytest.approx(0.95, abs=0.01)
    log = next(run.rglob("*.ulg"))
    with pytest.raises(UserError, match="give it with --airframe"):
        identify_run(str(log))
    shutil.copy(log, log.with_name("other.ulg"))
    with pytest.raises(UserError, match="contains 2 ULogs"):
        identify_run(str(run))


def test_models_of_both_stacks_are_kept_beside_the_airframe() -> None:
    for stack in ("px4", "builtin"):
        known = identified_model("iris", stack)
        assert known is not None
        assert known.model.roll_gain == pytest.approx(1.0, abs=0.02)  # both reach what they are told
        assert 0.1 < known.model.roll_time_constant < 0.2
        # Four rotors of drag 1.75e-4 that turn at sqrt(m g / 4 / 5.84e-6), over m g.
        speed = math.sqrt(1.55 * STANDARD_GRAVITY / 4 / 5.84e-6)
        assert known.model.drag == pytest.approx(4 * 1.75e-4 * speed / (1.55 * STANDARD_GRAVITY), rel=0.05)
    assert identified_model("hector", "px4") is None
    assert identified_model("iris_rtk", "builtin") == known  # the iris but for a sensor
    plain = scenario()
    assert known is not None
    assert plain.with_model(known.model).controller.model == known.model
    own = scenario(controller={"model": {"roll_gain": 0.5}})
    assert own.with_model(known.model) == own


def test_drag_is_found_from_accelerations() -> None:
    random = np.random.default_rng(5)
    truth = np.zeros((200, 9))
    truth[:, 3:6] = 3.0 * random.standard_normal((200, 3))
    thrust = np.full(200, STANDARD_GRAVITY)
    z = np.array([0.0, 0.0, 1.0])
    v = truth[:, 3:6]
    acceleration = -0.03 * STANDARD_GRAVITY * (v - np.outer(v @ z, z)) + 0.05 * random.standard_normal(
        (200, 3)
    )
    assert fit_drag(truth, acceleration, thrust) == pytest.approx(0.03, abs=0.002)


# --- refusals
def scenario(**changes: Any) -> AvoidanceSpecification:
    data: dict[str, Any] = {
        "name": "s",
        "duration": 10.0,
        "routes": [
            {"name": "a", "points": [(0.0, 0.0, -5.0), (4.0, 0.0, -5.0)]},
            {"name": "b", "points": [(0.0, 3.0, -5.0), (4.0, 3.0, -5.0)]},
        ],
    }
    return AvoidanceSpecification.model_validate(data | changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"priority": ["a", "z"]}, "no vehicle 'z'"),
        ({"routes": []}, "no vehicle"),
        ({"duration": 2.0}, r"takes 3\.3 s of 2.0 s"),
        (
            {"routes": [{"name": "a", "points": [(0, 0, 0)]}, {"name": "b", "points": [(0, 0.5, 0)]}]},
            "0.50 m apart",
        ),
        (
            {"routes": [{"name": "a", "points": [(0, 0, 0)]}, {"name": "a", "points": [(5, 0, 0)]}]},
            "called 'a'",
        ),
        (
            {"routes": [{"name": "a", "points": [(0, 0, 0), (4, 0, 0)], "acceleration": 9.0}]},
            "25.0 deg of tilt",
        ),
        (
            {"routes": [{"name": "a", "points": [(0, 0, 0), (0, 0, -9)], "acceleration": 9.0}]},
            "vertical",
        ),
        ({"routes": [{"name": "a", "points": [(0, 0, 0), (30, 0, 0)], "speed": 4.0}]}, "4.0 m/s; the"),
        ({"obstacles": [Obstacle(SPHERE, (4, 0, -5), (1, 0, 0), "ball")]}, "ends -1.00 m .* of ball"),
        ({"obstacles": [Obstacle(BOX, (0, 0, -4.2), (0.5, 0.5, 0.5))]}, "starts 0.30 m from"),
    ],
)
def test_a_scenario_that_cannot_fly_is_refused_with_the_reason(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        check_scenario(scenario(**changes))


def test_a_sound_scenario_is_accepted() -> None:
    check_scenario(scenario())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("controller: {distances: {minimum: -0.9}}", "controller.distances.minimum"),
        ("controller: {distances: {minimum: 1.5}}", "minimum must be less than threshold"),
        ("noise: {position: -1.0}", "noise.position"),
        ("noise: {attitude: 95.0}", "avoidance.noise.attitude"),
        ("routes: [{name: a, points: []}]", "points"),
        ("priorities: [a]", "did you mean `priority`"),
    ],
)
def test_a_bad_file_is_refused_with_line_and_place(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(f"avoidance:\n  duration: 20.0\n  circle: {{count: 4, radius: 4.0}}\n  {text}\n")
    with pytest.raises(ConfigurationError, match=message):
        load_avoidance(file)


def test_limits_without_hover_are_refused() -> None:
    with pytest.raises(ValueError, match="hover"):
        ControlLimits(thrust_min=10.0)
