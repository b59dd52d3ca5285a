"""Steppable environments: the checkers of Gymnasium and PettingZoo, seeds, resets, tasks, randomisation."""

from __future__ import annotations

import copy
import math
import warnings
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode
from pettingzoo.test import parallel_api_test, parallel_seed_test

import sitl_bridge as sb
from sitl_bridge import learning
from sitl_bridge.base.kernels.thread_blocks import cut, run_blocks, thread_count
from sitl_bridge.lab.environments.tasks import VehicleMotion

LEVELS = ("motors", "rates", "attitude", "velocity")
RANDOM = learning.Randomisation(
    mass=(0.9, 1.2),
    inertia=(0.8, 1.2),
    rotor=(0.95, 1.05),
    motor=(0.8, 1.3),
    drag=(0.5, 1.5),
    noise=(0.5, 2.0),
    wind=(0.0, 5.0),
    turbulence=(0.0, 5.0),
    position=((-1.0, -1.0, -1.0), (1.0, 1.0, 1.0)),
    yaw=(-math.pi, math.pi),
    speed=0.5,
    tilt=0.3,
    rate=0.3,
)


def fly(
    env: learning.VectorEnvironment, steps: int, seed: int | list[int] = 3, number: int = 0
) -> list[np.ndarray[Any, Any]]:
    """Observations and rewards of random actions that depend on the vehicle's number alone."""
    n = env.num_envs
    first, _ = env.reset(seed=seed)
    found = [first]
    sources = [np.random.default_rng(number + i) for i in range(n)]
    low, high = env.single_action_space.low, env.single_action_space.high  # type: ignore[attr-defined]
    for _ in range(steps):
        actions = np.array([low + (high - low) * source.random(len(low)) for source in sources])
        observation, reward, terminated, truncated, _ = env.step(actions)
        found.append(
            np.concatenate([observation, reward[:, None], terminated[:, None], truncated[:, None]], 1)
        )
    return found


@pytest.mark.parametrize("level", LEVELS)
def test_a_single_environment_passes_gymnasiums_checker(level: str) -> None:
    with warnings.catch_warnings():
        # Actions are in physical units, which Gymnasium would rather have between -1 and 1.
        warnings.filterwarnings("ignore", message=".*symmetric and normalized space.*")
        check_env(learning.Environment(actions=level), skip_render_check=True)


def test_a_fleet_passes_pettingzoos_tests() -> None:
    env = learning.FleetEnvironment(3, task=learning.ReachWaypoint(duration=1.0))
    parallel_api_test(env, num_cycles=200)
    parallel_seed_test(
        lambda: learning.FleetEnvironment(3, task=learning.ReachWaypoint(duration=1.0)), num_cycles=20
    )


def test_vehicles_of_a_fleet_collide() -> None:
    """Two vehicles fly against one another; both episodes end with a collision, not far from the middle."""
    env = learning.FleetEnvironment(
        2, spacing=2.0, task=learning.HoldPosition(duration=8.0), actions="velocity"
    )
    env.reset(seed=1)
    infos: dict[str, dict[str, Any]] = {}
    ends: dict[str, bool] = {}
    while env.agents:
        _, _, ends, _, infos = env.step({"vehicle_0": [0, 1, 0, 0], "vehicle_1": [0, -1, 0, 0]})
    assert all(ends.values())
    assert all(info["collided"] for info in infos.values())
    assert 0.5 < env.motion.time[0] < 4.0


@pytest.mark.parametrize("observations", ["truth", "sensors"])
def test_bytes_depend_neither_on_the_number_of_vehicles_nor_on_threads(observations: str) -> None:
    def bytes_of(n: int, threads: int, seed: int | list[int] = 3) -> np.ndarray[Any, Any]:
        env = learning.VectorEnvironment(
            n,
            actions="rates",
            observations=observations,
            randomisation=RANDOM,
            threads=threads,
            task=learning.ReachWaypoint(duration=0.3),
        )
        rows = fly(env, 40, seed)
        return np.concatenate([row[:3].ravel() for row in rows])

    alone = bytes_of(3, 1)
    assert np.array_equal(alone, bytes_of(3, 1))
    assert np.array_equal(alone, bytes_of(300, 1))
    assert np.array_equal(alone, bytes_of(300, 3))
    assert not np.array_equal(alone, bytes_of(3, 1, 4))
    last = [7, 8, 3]
    assert np.array_equal(alone.reshape(-1)[:3], bytes_of(3, 1, [3, 4, 5])[:3])
    assert not np.array_equal(alone, bytes_of(3, 1, last))


@pytest.mark.parametrize("airframe", ["iris", "firefly", "hector"])
def test_vehicles_that_share_a_block_fly_as_with_a_block_of_their_own(airframe: str) -> None:
    """What is copied between the actions is all that a vehicle remembers, near the ground, too."""

    def made(count: int) -> learning.VectorEnvironment:
        task = learning.HoldPosition(height=1.0)
        return learning.VectorEnvironment(
            count, airframe=airframe, task=task, actions="motors", randomisation=RANDOM
        )

    together = np.array(fly(made(6), 50, 20)[1:])
    for i in range(6):
        assert np.array_equal(together[:, i], np.array(fly(made(1), 50, 20 + i, i)[1:])[:, 0])


def test_threads_share_all_blocks_and_keep_their_order() -> None:
    assert cut(10, 1, 1) == [(0, 10)]
    blocks = cut(1000, 3, 64)
    assert blocks[0][0] == 0
    assert blocks[-1][1] == 1000
    assert all(before[1] == after[0] for before, after in pairwise(blocks))
    assert run_blocks(lambda k, first, last: (k, first, last), blocks, 3) == [
        (k, *block) for k, block in enumerate(blocks)
    ]


def test_a_fault_in_a_thread_reaches_the_caller() -> None:
    def fail(k: int, first: int, last: int) -> None:
        raise ValueError(f"block {k} from {first} to {last}")

    with pytest.raises(ValueError, match="block"):
        run_blocks(fail, cut(1000, 2, 64), 2)


def test_the_number_of_threads_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SITL_BRIDGE_THREADS", "3")
    assert thread_count() == 3
    assert thread_count(2) == 2
    monkeypatch.setenv("SITL_BRIDGE_THREADS", "many")
    with pytest.raises(sb.UserError, match="SITL_BRIDGE_THREADS: 'many'"):
        thread_count()
    with pytest.raises(sb.UserError, match="threads: 0"):
        thread_count(0)


def test_motor_commands_move_a_vehicle_as_in_the_simulation() -> None:
    """The environment's compiled step is that of the core: the same motion, bit for bit."""
    simulation = sb.Simulation("iris", positions=[[0, 0, -5]])
    command = np.array([0.7, 0.71, 0.69, 0.7])
    env = learning.VectorEnvironment(1, actions="motors")
    env.reset(seed=1)
    core: Any = simulation._core
    core.states[0]["rotor_speed"][:4] = env.batch._arrays.fresh_state.view(core.states.dtype)[0, 0][
        "rotor_speed"
    ][:4]
    for _ in range(20):
        env.step(command[None])
        simulation.step(command, 5)
    truth = np.concatenate([simulation.position, simulation.velocity, simulation.attitude], axis=1)
    assert np.array_equal(truth, env.motion.truth[:, :10])


def _manoeuvre(step: float, integrator: str) -> np.ndarray[Any, Any]:
    """Place after 1 s of uneven thrust from a hover at 50 m, without induced flow."""
    task = learning.HoldPosition(height=50.0, reach=100.0)
    plain = sb.Airframe.load("iris").changed(rotor_model={"inflow": "none"}, battery={"capacity": None})
    env = learning.VectorEnvironment(
        1, airframe=plain, task=task, actions="motors", step=step, integrator=integrator
    )
    env.reset(seed=1)
    for k in range(50):
        side = 0.02 * math.sin(0.3 * k)
        env.step([[0.62 + side, 0.6 - side, 0.6 + side, 0.6]])
    place: np.ndarray[Any, Any] = env.motion.position[0].copy()
    return place


def test_eulers_error_falls_in_proportion_to_the_step() -> None:
    """A method of first order, held to Runge-Kutta's with a short step, whose error is of fourth order."""
    exact = _manoeuvre(0.0005, "runge_kutta")
    errors = [float(np.linalg.norm(_manoeuvre(h, "euler") - exact)) for h in (0.004, 0.002, 0.001)]
    assert all(1.7 < coarse / fine < 2.3 for coarse, fine in pairwise(errors)), errors
    assert float(np.linalg.norm(_manoeuvre(0.004, "runge_kutta") - exact)) < 0.01 * errors[0]


def test_near_the_ground_euler_gives_way_to_runge_kutta() -> None:
    found = []
    for integrator in ("runge_kutta", "euler"):
        env = learning.VectorEnvironment(
            2, task=learning.HoldPosition(height=0.0), actions="motors", integrator=integrator
        )
        env.reset(seed=1)
        for _ in range(20):
            env.step([[0.2] * 4] * 2)
        found.append(env.batch.truth.tobytes())
    assert found[0] == found[1]


def test_velocity_actions_are_flown() -> None:
    env = learning.VectorEnvironment(1, actions="velocity", task=learning.HoldPosition(reach=100.0))
    env.reset(seed=1)
    for _ in range(250):
        env.step([[2.0, -1.0, -0.5, 0.5]])
    assert env.motion.velocity[0] == pytest.approx([2.0, -1.0, -0.5], abs=0.1)
    w, _, _, z = env.motion.attitude[0]
    assert 2.0 * math.atan2(z, w) == pytest.approx(0.5, abs=0.05)


def test_attitude_actions_are_flown() -> None:
    env = learning.VectorEnvironment(1, actions="attitude", task=learning.HoldPosition(reach=100.0))
    env.reset(seed=1)
    for _ in range(25):
        env.step([[0.5, 0.1, -0.2, 0.0]])
    w, x, y, z = env.motion.attitude[0]
    assert math.atan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y)) == pytest.approx(0.1, abs=0.03)
    assert math.asin(2 * (w * y - z * x)) == pytest.approx(-0.2, abs=0.03)


def test_rate_actions_are_flown() -> None:
    env = learning.VectorEnvironment(1, actions="rates", task=learning.HoldPosition(reach=100.0))
    env.reset(seed=1)
    for _ in range(15):
        env.step([[0.5, 1.0, -0.5, 0.3]])
    assert env.motion.angular_velocity[0] == pytest.approx([1.0, -0.5, 0.3], abs=0.15)


def test_sensors_see_what_is_true_but_for_their_errors() -> None:
    env = learning.VectorEnvironment(
        20, actions="velocity", observations="sensors", task=learning.HoldPosition(reach=100.0)
    )
    env.reset(seed=1)
    observation: Any = None
    for _ in range(100):
        observation, *_ = env.step(np.tile([1.0, 0.0, 0.0, 0.0], (20, 1)))
    seen = dict(zip(env.figures, observation.T, strict=True))
    assert seen["specific force along body z, m/s^2"] == pytest.approx(-9.8, abs=1.5)
    assert seen["GPS position north, m"].mean() == pytest.approx(env.motion.position[:, 0].mean(), abs=1.0)
    assert seen["GPS position down, m"].mean() == pytest.approx(env.motion.position[:, 2].mean(), abs=1.5)
    assert seen["GPS velocity north, m/s"].mean() == pytest.approx(1.0, abs=0.2)
    field = np.array([seen[f"magnetic field along body {axis}, uT"] for axis in "xyz"])
    assert np.linalg.norm(field, axis=0) == pytest.approx(48.0, abs=5.0)


def test_a_reset_draws_within_its_ranges_and_each_vehicle_anew() -> None:
    env = learning.VectorEnvironment(200, randomisation=RANDOM)
    env.reset(seed=1)
    drawn = env.batch.episodes
    mass = sb.Airframe.load("iris").vehicle()["mass"]
    factors = drawn["mass"] / mass
    assert 0.9 <= factors.min() < 0.92
    assert 1.18 < factors.max() <= 1.2
    assert len(np.unique(factors)) == 200
    speed = np.hypot(drawn["wind"][:, 0], drawn["wind"][:, 1])
    assert speed.max() <= 5.0
    assert drawn["rotor_health"][:, :4].min() >= 0.95
    products = np.einsum("nij,njk->nik", drawn["inertia"], drawn["inertia_inverse"])
    assert np.allclose(products, np.eye(3))
    before = factors.copy()
    env.reset()
    assert not np.isclose(before, drawn["mass"] / mass).any()


def test_a_mask_resets_only_what_it_chooses() -> None:
    env = learning.VectorEnvironment(3, actions="velocity")
    env.reset(seed=1)
    for _ in range(50):
        env.step(np.tile([1.0, 0.0, 0.0, 0.0], (3, 1)))
    before = env.motion.truth.copy()
    observation, _ = env.reset(options={"reset_mask": np.array([False, True, False])})
    assert np.array_equal(env.motion.truth[[0, 2]], before[[0, 2]])
    assert env.motion.time == pytest.approx([1.0, 0.0, 1.0])
    assert observation[1, 0] == 0.0
    with pytest.raises(sb.UserError, match="reset_mask is 3 times True or False"):
        env.reset(options={"reset_mask": np.array([True])})


def ended(mode: AutoresetMode) -> tuple[learning.VectorEnvironment, Any]:
    """An environment one of whose episodes ends in the last of these steps."""
    env = learning.VectorEnvironment(
        2, actions="motors", autoreset_mode=mode, task=learning.HoldPosition(duration=60.0)
    )
    env.reset(seed=1)
    step: Any = None
    for _ in range(200):
        step = env.step([[0.0] * 4, [0.75] * 4])
        if step[2].any():
            break
    assert step[2].tolist() == [True, False]
    return env, step


def test_the_next_step_resets_what_has_ended() -> None:
    env, last = ended(AutoresetMode.NEXT_STEP)
    assert last[1][0] < -5.0
    observation, reward, terminated, truncated, _ = env.step([[0.7] * 4] * 2)
    assert reward[0] == 0.0
    assert not terminated[0]
    assert not truncated[0]
    assert observation[0, :3] == pytest.approx(env.task.homes[0])
    assert env.motion.time[0] == 0.0
    assert env.motion.time[1] > 0.0


def test_the_same_step_resets_what_has_ended_and_hands_out_its_last_observation() -> None:
    env, last = ended(AutoresetMode.SAME_STEP)
    assert last[0][0, :3] == pytest.approx(env.task.homes[0])
    info = last[4]
    assert info["_final_obs"].tolist() == [True, False]
    assert info["final_obs"][0][2] > -1.0
    assert info["final_obs"][1] is None


def test_without_autoreset_a_step_after_the_end_is_refused() -> None:
    env, _ = ended(AutoresetMode.DISABLED)
    with pytest.raises(sb.UserError, match="episodes have ended"):
        env.step([[0.7] * 4] * 2)


def test_an_episode_is_truncated_at_its_duration() -> None:
    env = learning.Environment(actions="velocity", task=learning.HoldPosition(duration=0.1))
    env.reset(seed=1)
    ends = [env.step([0.0, 0.0, 0.0, 0.0])[2:4] for _ in range(5)]
    assert ends == [(False, False)] * 4 + [(False, True)]


def test_reaching_a_waypoint_ends_an_episode_with_a_reward() -> None:
    env = learning.Environment(actions="velocity", task=learning.ReachWaypoint(box=((2, 0, 0), (2, 0, 0))))
    observation, _ = env.reset(seed=1)
    total, ends = 0.0, False
    assert observation[-3:] == pytest.approx([2.0, 0.0, 0.0])
    assert env.figures[-3:] == ("goal north, m", "goal east, m", "goal down, m")
    while not ends:
        observation, reward, ends, _, _ = env.step([1.0, 0.0, 0.0, 0.0])
        total += reward
    assert total == pytest.approx(11.7, abs=0.1)


def test_a_figure_is_tracked_by_its_own_velocity() -> None:
    env = learning.Environment(actions="velocity", task=learning.TrackFigure())
    observation, _ = env.reset(seed=1)
    rewards = []
    for _ in range(400):
        away, velocity = observation[-6:-3], observation[-3:]
        observation, reward, ends, _, _ = env.step([*(velocity + 1.5 * away), 0.0])
        assert not ends
        rewards.append(reward)
    assert np.mean(rewards[100:]) > 0.55


def test_an_own_task_is_a_small_class() -> None:
    class Climb(learning.Task):
        def reward(self, motion: VehicleMotion) -> np.ndarray[Any, Any]:
            return -motion.velocity[:, 2]

    env = learning.Environment(actions="velocity", task=Climb())
    env.reset(seed=1)
    assert sum(env.step([0.0, 0.0, -1.0, 0.0])[1] for _ in range(100)) > 50.0


class _Given(learning.Task):
    """Gives what it is told to."""

    def __init__(self, reward: Any, ends: Any, seen: Any) -> None:
        super().__init__(duration=0.04)
        self.given = reward, ends, seen

    def reward(self, motion: VehicleMotion) -> Any:
        return self.given[0](motion)

    def terminated(self, motion: VehicleMotion) -> Any:
        return self.given[1](motion)

    def observe(self, motion: VehicleMotion) -> Any:
        return self.given[2](motion)


def _speed(motion: VehicleMotion) -> Any:
    return motion.velocity[:, 0]


@pytest.mark.parametrize(
    ("part", "given", "message"),
    [
        (
            0,
            lambda _: 1.0,
            r"_Given: reward gives an array \(\) of float64; it needs \(2,\), a number for each",
        ),
        (0, lambda m: m.velocity[:, :1], r"reward gives an array \(2, 1\) of float64"),
        (0, lambda m: m.velocity[:, 0] / 0.0, "reward gives .* for vehicle 0, 0.020 s into its episode"),
        (
            1,
            lambda _: np.array([0, 1]),
            r"terminated gives an array \(2,\) of int64; it needs .* True or False",
        ),
        (2, lambda m: np.full((2, 3), m.time[0] or np.nan), "observe gives .*nan.* for vehicle 0, 0.000 s"),
        (2, lambda _: np.zeros((2, 2)), r"observe gives an array \(2, 2\), its figures need \(2, 3\)"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
def test_what_a_task_gives_in_another_form_is_refused(part: int, given: Any, message: str) -> None:
    sound: list[Any] = [_speed, lambda m: m.time > 9.0, lambda _: np.zeros((2, 3))]
    sound[part] = given
    for env in (
        learning.VectorEnvironment(2, task=_Given(*sound), actions="velocity"),
        learning.FleetEnvironment(2, task=_Given(*sound)),
    ):
        with pytest.raises(sb.UserError, match=message):
            _begun(env)


def _begun(env: Any) -> None:
    """Take a first step."""
    env.reset(seed=1)
    action = np.zeros((2, 4), np.float32)
    env.step(action if hasattr(env, "num_envs") else dict.fromkeys(env.agents, action[0]))


def test_a_reward_that_is_a_part_of_the_motion_stays_what_it_was() -> None:
    task = _Given(_speed, lambda m: m.time > 9.0, lambda _: np.zeros((2, 3)))
    env = learning.VectorEnvironment(2, task=task, actions="velocity", autoreset_mode=AutoresetMode.SAME_STEP)
    env.reset(seed=1)
    rewards = [env.step([[5.0, 0.0, 0.0, 0.0]] * 2)[1] for _ in range(4)]
    np.testing.assert_array_equal(rewards[:2], rewards[2:])  # the second step of an episode resets
    assert rewards[1][0] > rewards[0][0] > 0.0


def test_a_point_on_the_figure_that_is_too_far_costs_once_and_ends_the_episode() -> None:
    env = learning.Environment(task=learning.TrackFigure(reach=0.5), actions="velocity")
    env.reset(seed=1)
    rewards, ends = [], False
    while not ends:
        _, reward, ends, *_ = env.step([0.0, 0.0, 0.0, 0.0])
        rewards.append(reward)
    assert rewards[-1] < -5.0 < min(rewards[:-1])


def test_a_task_belongs_to_one_environment_and_vehicles_are_not_copied() -> None:
    task = learning.ReachWaypoint()
    first = learning.VectorEnvironment(2, task=task)
    second = learning.VectorEnvironment(3, task=task)
    second.reset(seed=1)
    with pytest.raises(sb.UserError, match="ReachWaypoint: another environment has taken this task since"):
        first.reset(seed=1)
    for held in (second, sb.Simulation(["iris"])):
        with pytest.raises(sb.UserError, match="cannot be copied or pickled"):
            copy.deepcopy(held)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"num_envs": 0}, "num_envs: 0 is below 1"),
        ({"actions": "thrusts"}, "there is no level 'thrusts'"),
        ({"observations": "smell"}, "observations: 'smell' is not one of truth, sensors"),
        ({"task": learning.ReachWaypoint}, "is no object of a task; give ReachWaypoint"),
        ({"autoreset_mode": "SameStep"}, "autoreset_mode: 'SameStep' is not one of"),
        ({"integrator": "leapfrog"}, "integrator: 'leapfrog' is not one of runge_kutta, euler"),
        ({"period": 0.005}, "period: 0.005 s is no multiple of the step"),
        ({"world": sb.World(wind=lambda _t, _place: (1.0, 0.0, 0.0))}, "takes no wind of your own"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_name(choices: dict[str, Any], message: str) -> None:
    with pytest.raises(sb.UserError, match=message):
        learning.VectorEnvironment(**choices)


@pytest.mark.parametrize(
    "faulty",
    [{"mass": (1.2, 0.9)}, {"mass": (0.0, 1.0)}, {"wind": (-1.0, 1.0)}, {"tilt": 4.0}, {"speed": math.nan}],
)
def test_a_faulty_randomisation_is_refused_with_its_field(faulty: dict[str, Any]) -> None:
    with pytest.raises(sb.UserError, match=f"randomisation: {next(iter(faulty))}"):
        learning.Randomisation(**faulty)


def test_actions_that_do_not_fit_are_refused() -> None:
    env = learning.VectorEnvironment(2)
    env.reset(seed=1)
    with pytest.raises(sb.UserError, match="options: mask: there is reset_mask alone"):
        env.reset(options={"mask": np.array([True, False])})
    for faulty in ([[0.5, 0, 0, 0]], [[0.5, 0, 0, math.nan]] * 2):
        with pytest.raises(sb.UserError, match=r"\(2, 4\) finite numbers"):
            env.step(faulty)
