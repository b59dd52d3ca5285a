"""Kernels that Python runs, for its debugger, do what the compiled ones do: no bit differs.

Of vibration (`x500`) the last digits do: numba multiplies powers and complex numbers out in another order.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SIMULATION = """
import sitl_bridge as sb
simulation = sb.Simulation({airframe!r}, seed=5)
for k in range(5):
    simulation.step(simulation.hover_controls * (1.05 + 0.01 * k), 4)
core = simulation._core
print(core.states.tobytes().hex(), core.sensor_states["values"].tobytes().hex())
"""
FLIGHT = """
import sitl_bridge as sb
with sb.Sitl("iris", seed=1, record=False) as sitl:
    sitl.run(0.2)
    print([*map(float.hex, sitl.vehicle.position), *map(float.hex, sitl.vehicle.estimated_position)])
"""


def _run(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program]
    return subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, check=False, timeout=240
    )


def _as_python(program: str) -> str:
    ran = _run(program, NUMBA_DISABLE_JIT="1")
    assert ran.returncode == 0, ran.stderr
    assert "compil" not in ran.stderr
    return ran.stdout


@pytest.mark.parametrize(
    "airframe", ["iris_full", "hector_indoor", "iris_blade_element", "crazyflie_identified"]
)
def test_vehicles_move_and_sensors_measure_to_the_bit_as_compiled(airframe: str) -> None:
    program = SIMULATION.format(airframe=airframe)
    assert _as_python(program) == _run(program).stdout != ""


def test_the_built_in_stack_estimates_to_the_bit_as_compiled() -> None:
    assert _as_python(FLIGHT) == _run(FLIGHT).stdout != ""


def test_a_link_says_that_it_needs_compiled_kernels() -> None:
    command = "from sitl_bridge.cli.main import main; import sys; sys.argv[1:] = ['warm']; main()"
    ran = _run(command, NUMBA_DISABLE_JIT="1")
    assert ran.returncode == 2
    assert "unset it" in ran.stderr
