"""What vector environments leave out of a step changes no byte of what a vehicle does or is seen to do."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import sitl_bridge as sb
from sitl_bridge.lab.environments.spaces import write_figures, write_ways
from sitl_bridge.lab.environments.tasks import VehicleMotion


def flown(env: sb.learning.VectorEnvironment, steps: int = 40, seed: int = 3) -> bytes:
    """Everything that random actions lead to."""
    source = np.random.default_rng(7)
    low, high = env.single_action_space.low, env.single_action_space.high  # type: ignore[attr-defined]
    first, _ = env.reset(seed=seed)
    found = [first.tobytes()]
    for _ in range(steps):
        actions = low + (high - low) * source.random((env.num_envs, len(low)))
        observation, reward, terminated, truncated, _ = env.step(actions)
        found += [part.tobytes() for part in (observation, reward, terminated, truncated, env.motion.truth)]
    return b"".join(found)


@pytest.mark.parametrize("airframe", ["iris", "hector"])
@pytest.mark.parametrize("actions", ["motors", "velocity"])
@pytest.mark.parametrize("observations", ["truth", "sensors"])
def test_what_no_randomisation_varies_is_as_if_drawn_with_a_factor_of_one(
    airframe: str, actions: str, observations: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if airframe == "hector" and observations == "sensors":
        pytest.skip("the iris has the sensors of an observation")

    def bytes_of() -> bytes:
        env = sb.learning.VectorEnvironment(
            5,
            airframe=airframe,
            actions=actions,
            observations=observations,
            task=sb.learning.HoldPosition(height=0.5, duration=0.6),
            randomisation=sb.learning.Randomisation(position=((-1.0, -1.0, 0.0), (1.0, 1.0, 0.0)), tilt=0.2),
        )
        return flown(env)

    left_out = bytes_of()
    for name in ("moves_air", "varies", "varies_rotors"):
        monkeypatch.setattr(sb.learning.Randomisation, name, property(lambda _: True))
    assert bytes_of() == left_out


@pytest.mark.parametrize(
    ("choices", "varies", "air"),
    [
        ({}, False, False),
        ({"position": ((-1, -1, -1), (1, 1, 1)), "yaw": (-1, 1), "tilt": 0.3, "speed": 1.0}, False, False),
        ({"mass": (0.9, 1.1)}, True, False),
        ({"rotor": (1.0, 1.1)}, True, False),
        ({"noise": (2.0, 2.0)}, True, False),
        ({"wind": (0.0, 1.0)}, True, True),
        ({"turbulence": np.array([1.0, 1.0])}, True, True),
    ],
)
def test_a_randomisation_tells_what_it_varies(choices: dict[str, Any], varies: bool, air: bool) -> None:
    randomisation = sb.learning.Randomisation(**choices)
    assert (randomisation.varies, randomisation.moves_air) == (varies, air)


def test_the_air_of_a_world_is_still_without_any_wind() -> None:
    assert sb.World().build().still
    for wind in ("1@90", "2@90,profile=log", "0@0,turbulence=light"):
        assert not sb.World(wind=wind).build().still


def test_a_vehicle_at_rest_keeps_its_own_results_beside_one_that_flies() -> None:
    """Both share the records that are worked on; the one that stands feels its weight, not the other's
    thrust."""

    class Endless(sb.learning.HoldPosition):
        def terminated(self, motion: VehicleMotion) -> np.ndarray[Any, Any]:
            return np.zeros(len(motion.truth), np.bool_)

    idle = sb.Airframe.load("iris").changed(
        motor={"idle_speed": 0.0}
    )  # a motor that turns would not let it rest
    task = Endless(height=0.0)
    env = sb.learning.VectorEnvironment(2, airframe=idle, actions="motors", observations="sensors", task=task)
    env.reset(seed=1)
    seen: Any = None
    for _ in range(60):
        seen, *_ = env.step([[1.0] * 4, [0.0] * 4])
    force = seen[:, env.figures.index("specific force along body z, m/s^2")]
    assert force[0] < -11.0
    assert force[1] == pytest.approx(-9.8, abs=0.4)


def test_actions_in_single_precision_and_beyond_their_limits_count_as_the_same_numbers() -> None:
    source = np.random.default_rng(2)
    given = (2.0 * source.random((3, 4)) - 0.5).astype(np.float32)
    found = []
    for actions in (given, given.astype(np.float64), np.asfortranarray(given), given[::-1].tolist()[::-1]):
        env = sb.learning.VectorEnvironment(3, actions="motors")
        env.reset(seed=1)
        env.step(actions)
        assert np.array_equal(env.motion.actions, np.clip(given.astype(np.float64), 0.0, 1.0))
        found.append(env.motion.truth.tobytes())
    assert len(set(found)) == 1
    assert np.array_equal(env.batch._arrays.controls, env.motion.actions)


def test_observations_are_arrays_of_their_own() -> None:
    env = sb.learning.VectorEnvironment(2, actions="motors")
    first, _ = env.reset(seed=1)
    kept = first.copy()
    second, *_ = env.step([[0.9] * 4] * 2)
    assert np.array_equal(first, kept)
    assert not np.array_equal(first, second)
    expected = np.concatenate([env.motion.truth, env.task.goals - env.motion.position], axis=1)
    assert np.array_equal(second, expected.astype(np.float32))


def test_figures_are_written_within_their_limit() -> None:
    seen = np.zeros((1, 5), np.float32)
    write_figures(np.array([[2e4, -1e300, math.nan, 0.1]]), 1, seen)
    assert seen[0, [0, 1, 2, 4]].tolist() == [0.0, 1e4, -1e4, float(np.float32(0.1))]
    assert math.isnan(seen[0, 3])
    write_ways(np.array([[1.0, 2.0, 3e5]]), np.full((1, 13), 0.5), 2, seen)
    assert seen[0, 2:].tolist() == [0.5, 1.5, 1e4]


def test_a_task_that_observes_other_figures_than_it_names_is_refused() -> None:
    class Wide(sb.learning.HoldPosition):
        def observe(self, motion: VehicleMotion) -> np.ndarray[Any, Any]:
            return motion.truth

    env = sb.learning.VectorEnvironment(2, task=Wide())
    told = r"Wide: observe gives an array \(2, 13\), its figures need \(2, 3\)"
    with pytest.raises(sb.UserError, match=told):
        env.reset(seed=1)
