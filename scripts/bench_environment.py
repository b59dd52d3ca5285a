"""Measures vector environments beside those of crazyflow: what ``scripts/bench environment`` prints.

crazyflow (JAX) runs in an interpreter of its own, which ``CRAZYFLOW_PYTHON`` names; it is no dependency.
Both are measured in turns in the same run, and the best of each is reported.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable

import numpy as np

import sitl_bridge as sb

SIZES = (1, 100, 1000, 10000)
CRAZYFLOW = """
import json, sys, time
import jax, numpy as np
from crazyflow.envs.reach_pos_env import ReachPosEnv
from crazyflow.sim import Sim

n, seconds = int(sys.argv[1]), float(sys.argv[2])
command = np.zeros((n, 1, 4), np.float32)
command[..., 3] = 0.3
simulation = Sim(n_worlds=n, n_drones=1)
environment = ReachPosEnv(num_envs=n)
environment.reset(seed=1)

def step_simulation():
    simulation.attitude_control(command)
    simulation.step(1)
    return simulation.data.states.pos

def step_environment():
    return environment.step(command[:, 0])[0]["pos"]

def rate(step):
    for _ in range(5):
        jax.block_until_ready(step())
    count, begun = 0, time.perf_counter()
    while time.perf_counter() - begun < seconds:
        for _ in range(10):
            found = step()
        jax.block_until_ready(found)
        count += 10
    return n * count / (time.perf_counter() - begun)

print(json.dumps([rate(step_simulation), rate(step_environment)]))
"""


def rate(env: sb.VectorEnvironment, seconds: float) -> float:
    """Vehicle steps of integration in a second of wall time."""
    hover = np.tile(np.float32([0.45, 0.0, 0.0, 0.0]), (env.num_envs, 1))
    env.reset(seed=1)
    for _ in range(5):
        env.step(hover)
    count, begun = 0, time.perf_counter()
    while time.perf_counter() - begun < seconds:
        for _ in range(10):
            env.step(hover)
        count += 10
    return env.num_envs * env.batch.steps * count / (time.perf_counter() - begun)


def environments(rounds: int, seconds: float, say: Callable[[str], None]) -> dict[str, float]:
    """Steps a second by number of vehicles: of ours with 1 and 5 steps an action, and of crazyflow's."""
    python = os.environ.get("CRAZYFLOW_PYTHON")
    if python is None:
        say("crazyflow is not measured: CRAZYFLOW_PYTHON names no interpreter that has it")
    found: dict[str, float] = {}
    for n in SIZES:
        kinds = {
            f"{n}: attitude, a step an action": {"actions": "attitude", "period": 0.004},
            f"{n}: attitude, 5 steps an action": {"actions": "attitude", "period": 0.02},
            f"{n}: motors, a step an action": {"actions": "motors", "period": 0.004},
        }
        ours = {name: sb.VectorEnvironment(n, task=sb.ReachWaypoint(), **c) for name, c in kinds.items()}
        for _ in range(rounds):
            rates = {name: rate(env, seconds) for name, env in ours.items()}
            if python is not None:
                run = subprocess.run(
                    [python, "-c", CRAZYFLOW, str(n), str(seconds)],
                    capture_output=True,
                    text=True,
                    check=True,
                )
                simulation, environment = json.loads(run.stdout.splitlines()[-1])
                rates[f"{n}: crazyflow's simulation"] = simulation
                rates[f"{n}: crazyflow's environment"] = environment
            for name, value in rates.items():
                found[name] = max(found.get(name, 0.0), value)
        for name in [name for name in found if name.startswith(f"{n}:")]:
            say(f"{name:45} {found[name]:12,.0f} steps/s")
    return found
