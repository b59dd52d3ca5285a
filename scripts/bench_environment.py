"""Measures vector environments beside those of crazyflow: what ``scripts/bench environment`` prints.

crazyflow (JAX) runs in an interpreter of its own, which ``CRAZYFLOW_PYTHON`` names; it is no dependency.
Both are measured in turns in the same run, and the best of each is reported.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import sitl_bridge as sb
from sitl_bridge import learning

SIZES = (1, 100, 1000, 10000)
CRAZYFLOW = """
import json, sys, time
import jax, numpy as np
from crazyflow.envs.reach_pos_env import ReachPosEnv
from crazyflow.sim import Sim

n, seconds = int(sys.argv[1]), float(sys.argv[2])
command = np.zeros((n, 1, 4), np.float32)
command[..., 3] = 0.3

def simulated(integrator):
    simulation = Sim(n_worlds=n, n_drones=1, integrator=integrator)

    def step():
        simulation.attitude_control(command)
        simulation.step(1)
        return simulation.data.states.pos

    return step

def stepped(dynamics, steps):
    environment = ReachPosEnv(num_envs=n, dynamics=dynamics, freq=500 // steps)
    assert environment.n_substeps == steps
    environment.reset(seed=1)
    return lambda: environment.step(command[:, 0])[0]["pos"]

def rate(step, steps=1):
    for _ in range(5):
        jax.block_until_ready(step())
    count, begun, spent = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - begun < seconds:
        for _ in range(10):
            found = step()
        jax.block_until_ready(found)
        count += 10
    taken = n * count * steps
    return taken / (time.perf_counter() - begun), taken / (time.process_time() - spent)

print(json.dumps({
    "environment, fitted response, a step an action": rate(stepped("so_rpy", 1)),
    "environment, fitted response, 5 steps an action": rate(stepped("so_rpy", 5), 5),
    "environment, rotors, a step an action": rate(stepped("first_principles", 1)),
    "environment, rotors, 5 steps an action": rate(stepped("first_principles", 5), 5),
    "simulation, rotors, Euler": rate(simulated("euler")),
    "simulation, rotors, Runge-Kutta": rate(simulated("rk4")),
}))
"""
"""``so_rpy``, the environment's default, is a response fitted to commands, without rotors and controller."""


def rate(env: learning.VectorEnvironment, seconds: float) -> tuple[float, float]:
    """Vehicle steps of integration in a second of wall time and of processor time."""
    about_hover = [0.66] * 4 if env.level.name == "motors" else [0.45, 0.0, 0.0, 0.0]
    hover = np.tile(np.float32(about_hover), (env.num_envs, 1))
    env.reset(seed=1)
    for _ in range(5):
        env.step(hover)
    count, begun, spent = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - begun < seconds:
        for _ in range(10):
            env.step(hover)
        count += 10
    steps = env.num_envs * env.batch.steps * count
    return steps / (time.perf_counter() - begun), steps / (time.process_time() - spent)


def plain_airframe() -> sb.Airframe:
    """The iris with about what crazyflow models: no induced flow, an ideal battery, no current limits."""
    rotors, battery = {"inflow": "none"}, {"capacity": None}
    return sb.Airframe.load("iris").changed(rotor_model=rotors, battery=battery, esc={"current_limit": None})


def crazyflow(python: str, n: int, seconds: float) -> dict[str, tuple[float, float]]:
    """``rate`` of crazyflow's environments and simulations."""
    with tempfile.TemporaryDirectory() as directory:  # MuJoCo writes its log where it runs
        run = subprocess.run(
            [python, "-c", CRAZYFLOW, str(n), str(seconds)],
            capture_output=True,
            text=True,
            check=True,
            cwd=directory,
        )
    rates = json.loads(run.stdout.splitlines()[-1])
    return {f"{n}: crazyflow's {kind}": tuple(value) for kind, value in rates.items()}


def environments(
    rounds: int, seconds: float, say: Callable[[str], None], sizes: Sequence[int] = SIZES
) -> dict[str, tuple[float, float]]:
    """Steps a second by number of vehicles: of ours with 1 and 5 steps an action, and of crazyflow's.

    With Runge-Kutta, ours take five evaluations of the motion a step (four and the results).
    """
    python = os.environ.get("CRAZYFLOW_PYTHON")
    if python is None:
        say("crazyflow is not measured: CRAZYFLOW_PYTHON names no interpreter that has it")
    found: dict[str, tuple[float, float]] = {}
    plain = plain_airframe()
    for n in sizes:
        kinds: dict[str, dict[str, Any]] = {
            f"{n}: attitude, a step an action": {"actions": "attitude", "period": 0.004},
            f"{n}: attitude, 5 steps an action": {"actions": "attitude", "period": 0.02},
            f"{n}: motors, a step an action": {"actions": "motors", "period": 0.004},
            f"{n}: motors, 5 steps an action": {"actions": "motors", "period": 0.02},
        }
        kinds |= {f"{name}, plain": {"airframe": plain, **choice} for name, choice in kinds.items()}
        kinds |= {f"{name}, Euler": {"integrator": "euler", **choice} for name, choice in kinds.items()}
        ours = {
            name: learning.VectorEnvironment(n, task=learning.ReachWaypoint(), **c)
            for name, c in kinds.items()
        }
        for _ in range(rounds):
            rates = {name: rate(env, seconds) for name, env in ours.items()}
            if python is not None:
                rates |= crazyflow(python, n, seconds)
            for name, value in rates.items():
                best = found.get(name, (0.0, 0.0))
                found[name] = max(best[0], value[0]), max(best[1], value[1])
        for name in [name for name in found if name.startswith(f"{n}:")]:
            wall, processor = found[name]
            say(f"{name:50} {wall:12,.0f} steps/s, {processor:12,.0f} a second of processor time")
    return found
