"""A user's own rotor law: compiled, called by the step, seen by all that follows from an airframe."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.airframe_texts import write_based
from support.paths import AIRFRAMES

import sitl_bridge as sb
from sitl_bridge.base.errors import ConfigurationError, UserError
from sitl_bridge.cli.facts import derive_facts
from sitl_bridge.core.dynamics.custom_rotor import CustomRotor, RotorLaw
from sitl_bridge.core.dynamics.performance import performance
from sitl_bridge.core.dynamics.records import CUSTOM_LAW, INDUCED_LAW, POLYNOMIAL_LAW
from sitl_bridge.core.dynamics.rotor import CoefficientRotor
from sitl_bridge.core.dynamics.rotor_laws import rotor_loads
from sitl_bridge.core.simulation.simulation import Simulation, VehicleSetup
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.world import World
from sitl_bridge.link.px4.airframe_parameters import parameters_for

DENSITY = 1.225

LAW = '''
from sitl_bridge.core.dynamics.custom_rotor import RotorLaw

class Mine(RotorLaw):
    """The iris's polynomial."""

    factor: float = 5.84e-6
    steps: int = 2
    table: tuple[float, ...] = (0.0, 1.0)

    def loads(self, speed, climb, in_plane, density):
        thrust = self.factor * speed * speed * density / 1.225 * self.table[self.steps - 1]
        return thrust, 0.06 * thrust, 0.0, 0.0
'''


class Iris(RotorLaw):
    """The iris's polynomial law in its own words."""

    thrust: float
    loss: float = 25.0

    def loads(
        self, speed: float, climb: float, in_plane: float, density: float
    ) -> tuple[float, float, float, float]:
        """As rotor.py's."""
        ratio = density / 1.225
        thrust = self.thrust * speed * speed * ratio * max(0.0, 1.0 - abs(climb) / self.loss)
        return thrust, 0.06 * thrust, 1.75e-4 * speed * ratio * in_plane, 1.0e-6 * speed * ratio * in_plane


def bare_iris() -> Airframe:
    """The iris whose thrust falls to nothing at 25 m/s of inflow, as Gazebo's."""
    iris = load_airframe("iris_gazebo")
    # Without blades that drag while the rotors stand.
    fields = iris.rotor_model.model_dump() | {"inflow": "none", "inflow_loss_speed": 25.0, "chord": 1e-12}
    fields["rolling_moment_released"] = False
    return iris.model_copy(update={"rotor_model": CoefficientRotor(**fields)})


def with_law(law: type[RotorLaw], **options: Any) -> Airframe:
    """The iris with a rotor law of a class."""
    iris = load_airframe("iris_gazebo")
    model = CustomRotor.of(law, iris.rotor_model.radius, iris.rotor_model.inertia, **options)
    return iris.model_copy(update={"rotor_model": model})


def file_with_law(path: Path, law: str = LAW, extra: str = "") -> Path:
    """An airframe file on the iris with a law beside it."""
    (path / "mine.py").write_text(law, encoding="utf-8")
    rotors = f"kind: custom, file: mine.py, class: Mine, radius: 0.128, inertia: 2.73e-5{extra}"
    return write_based(path, f"rotor_model: {{{rotors}}}\n", "iris_gazebo")


def flown(airframe: Airframe, steps: int = 250) -> Any:
    """States over a second of an unsteady flight."""
    setup = VehicleSetup(airframe.vehicle(), airframe.sensor_records(), position=(0.0, 0.0, -0.5))
    simulation = Simulation(World(), [setup])
    simulation.armed[:] = 1
    seen = []
    for i in range(steps):
        simulation.controls[:] = 0.6 + 0.05 * np.sin(0.05 * i + np.arange(16))
        simulation.advance()
        seen.append(
            [
                *simulation.states["position"][0],
                *simulation.states["velocity"][0],
                *simulation.states["attitude"][0],
            ]
        )
    return np.array(seen)


def test_the_polynomials_own_formula_flies_the_polynomials_trajectory() -> None:
    own, built_in = flown(with_law(Iris, thrust=5.84e-6)), flown(bare_iris())
    assert np.abs(built_in[-1, 3:6]).max() > 0.3
    assert own == pytest.approx(built_in, rel=1e-9, abs=1e-9)


def test_a_rotor_that_turns_backwards_is_the_mirror_image() -> None:
    record = with_law(Iris, thrust=5.84e-6).vehicle()[()]
    forward = rotor_loads(record, 0, 450.0, 1.5, 2.0, 1.1)
    assert rotor_loads(record, 0, -450.0, -1.5, 2.0, 1.1) == pytest.approx(
        (-forward[0], -forward[1], forward[2], forward[3])
    )
    assert rotor_loads(record, 0, 0.0, 1.0, 1.0, 1.1) == (0.0, 0.0, 0.0, 0.0)


def test_every_law_has_its_number() -> None:
    airframes = load_airframe("hector"), load_airframe("x500"), with_law(Iris, thrust=5.84e-6)
    numbers = [int(airframe.record["rotor_law"]) for airframe in airframes]
    assert numbers == [POLYNOMIAL_LAW, INDUCED_LAW, CUSTOM_LAW]


def test_what_follows_from_an_airframe_sees_the_law(tmp_path: Path) -> None:
    weak = load_airframe(file_with_law(tmp_path, extra=", options: {factor: 4.0e-6}"))
    iris = load_airframe("iris_gazebo")
    thrusts = [performance(a.record, DENSITY, 9.81).full_thrust for a in (weak, iris)]
    assert thrusts[0] / thrusts[1] == pytest.approx(4.0 / 5.84, rel=0.05)
    own = iris.model_copy(update={"px4": iris.px4.model_copy(update={"airframe": None})})
    hovers = [float(parameters_for(a)["MPC_THR_HOVER"]) for a in (weak, own)]
    assert hovers[0] > 1.2 * hovers[1]
    facts = derive_facts(str(tmp_path / "mine.yaml"))
    assert facts["python_files"] == [str(tmp_path / "mine.py")]


def test_an_edited_law_is_compiled_anew(tmp_path: Path) -> None:
    file = file_with_law(tmp_path)
    before = rotor_loads(load_airframe(file).record, 0, 500.0, 0.0, 0.0, DENSITY)[0]
    file_with_law(tmp_path, LAW.replace("self.table[self.steps - 1]", "self.table[self.steps - 1] * 0.5"))
    after = rotor_loads(load_airframe(file).record, 0, 500.0, 0.0, 0.0, DENSITY)[0]
    assert after == pytest.approx(0.5 * before)


def test_laws_of_one_class_with_other_figures_share_their_code() -> None:
    strong, weak = (with_law(Iris, thrust=c).vehicle() for c in (6e-6, 3e-6))
    assert strong["rotor_law_address"] == weak["rotor_law_address"]
    loads = [rotor_loads(record[()], 0, 500.0, 0.0, 0.0, DENSITY)[0] for record in (strong, weak)]
    assert loads[0] == pytest.approx(2.0 * loads[1])


@pytest.mark.parametrize(
    ("law", "extra", "told"),
    [
        (LAW, ", options: {no_such: 1}", "does not take its options"),
        (LAW.replace("Mine", "Other"), "", "has no class Mine"),
        (LAW.replace("thrust, 0.06 * thrust, 0.0, 0.0", "thrust, 0.0, 0.0"), "", "must return thrust"),
        (LAW.replace("thrust, 0.06 * thrust, 0.0, 0.0", "thrust"), "", "must return thrust"),
        (LAW.replace("factor: float = ", "factor = "), "", "factor has no type; write `factor: float`"),
        (LAW.replace("return thrust", "return float('nan') * thrust"), "", "must return thrust"),
        (
            LAW.replace("return thrust", "__import__('os'); return thrust"),
            "",
            "cannot be compiled",
        ),
        (LAW.replace("return thrust", "return 1 / 0 + thrust"), "", "ZeroDivisionError"),
        (LAW.replace("(0.0, 1.0)", "(0.0, 1.0) * 200"), "", "more than 256"),
        (LAW.replace("steps: int = 2", "steps: str = 'x'"), "", "must be float, int, bool or tuple"),
    ],
)
def test_a_faulty_law_is_one_message_with_its_file(tmp_path: Path, law: str, extra: str, told: str) -> None:
    with pytest.raises(UserError, match=told) as caught:
        load_airframe(file_with_law(tmp_path, law, extra)).vehicle()
    assert "mine.py" in str(caught.value)


def test_a_base_whose_law_names_no_file_is_one_message(tmp_path: Path) -> None:
    file = file_with_law(tmp_path)
    file.write_text(file.read_text().replace("file: mine.py, ", ""))
    (tmp_path / "own.yaml").write_text(f"base: {file.stem}\nname: own\nmass: 1.4\n")
    with pytest.raises(ConfigurationError, match=r"rotor_model\.file: missing"):
        load_airframe(tmp_path / "own.yaml")


@pytest.mark.usefixtures("compiled_in_silence")
def test_a_law_that_raises_an_error_in_flight_ends_the_run(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Numba printed each of 100,000 errors, and the flight went on with loads of chance."""
    raises = "if climb > 3.0:\n            raise ValueError('beyond the table')\n        return"
    law = LAW.replace("return", raises)
    failing = load_airframe(file_with_law(tmp_path, law, ", options: {factor: 9.0e-6}"))
    assert math.isinf(performance(failing.record, DENSITY, 9.81).top_speed)
    with pytest.raises(UserError, match=r"diverged at .* check its rotor law for an error"):
        flown(failing, 1000)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("law", "told"),
    [
        (LAW.replace("0.06 * thrust", "-0.06 * thrust"), "rotor 1 would be driven by the air"),
        *(
            (
                LAW.replace("return thrust", f"thrust *= {factor}; return thrust"),
                "slower than at the lowest command",
            )
            for factor in ("1e2", "1e30")
        ),
        (
            LAW.replace("return thrust", "return thrust + 0.0 / max(abs(speed - 450) - 9, 0)"),
            "not a number",
        ),
    ],
)
def test_a_law_from_which_no_hover_follows_is_one_message(tmp_path: Path, law: str, told: str) -> None:
    with pytest.raises(UserError, match=told):
        parameters_for(load_airframe(file_with_law(tmp_path, law)))


def test_check_tells_a_faulty_law_with_its_line(tmp_path: Path) -> None:
    file = file_with_law(tmp_path, LAW.replace("return thrust", "return None"))
    with pytest.raises(ConfigurationError, match=r"mine.yaml: line 4: rotor_model: .*mine.py"):
        derive_facts(str(file))


def test_a_rotor_cannot_differ_from_the_law_of_all(tmp_path: Path) -> None:
    rotors = "".join(
        f"  - {{position: [{x}, {y}, 0], direction: {d}, model: {{thrust_c2: 1.0e-6}}}}\n"
        for x, y, d in ((0.1, 0.1, "ccw"), (-0.1, -0.1, "ccw"), (0.1, -0.1, "cw"), (-0.1, 0.1, "cw"))
    )
    file = file_with_law(tmp_path)
    file.write_text(file.read_text() + f"rotors:\n{rotors}")
    with pytest.raises(ConfigurationError, match="has the same figures for all rotors"):
        load_airframe(file)


def test_a_record_of_another_process_is_refused() -> None:
    airframe = with_law(Iris, thrust=5.84e-6)
    vehicle = airframe.vehicle()
    vehicle["rotor_law_address"] += 8
    with pytest.raises(ValueError, match="pack it again"):
        Simulation(World(), [VehicleSetup(vehicle, airframe.sensor_records())])


@pytest.fixture
def world() -> sb.World:
    return sb.World.load(AIRFRAMES.parent / "missions" / "worlds" / "thermal.yaml")


@pytest.mark.airframe("iris_blade_element")
def test_the_blade_element_iris_flies_in_the_thermal_on_the_built_in_stack(sitl: sb.Sitl) -> None:
    sitl.arm()
    sitl.take_off(10.0)
    sitl.run(20.0)
    assert sitl.within(1.0, of=(0, 0, -10))
    wind = sitl.truth.wind[-1]
    assert wind[0] == 2.0
    assert wind[2] > 0.05  # it has drifted past: the air sinks behind it


def test_a_class_is_taken_from_python_and_kept_in_changed_copies() -> None:
    airframe = sb.Airframe.load("iris").with_rotor_law(Iris, thrust=5.0e-6).changed(mass=1.4)
    assert airframe.mass == 1.4
    assert rotor_loads(airframe.record, 0, 500.0, 0.0, 0.0, DENSITY)[0] == pytest.approx(1.25)
    with pytest.raises(UserError, match="does not take its options"):
        sb.Airframe.load("iris").with_rotor_law(Iris)


def test_the_blade_element_example_holds_momentum_theory_and_an_iriss_hover() -> None:
    airframe = load_airframe("iris_blade_element")
    result = performance(airframe.record, DENSITY, 9.80665)
    # The manual's 20 min; the published hover of such propellers is near 6300 rpm.
    assert result.endurance / 60.0 == pytest.approx(20.0, abs=2.0)
    speed, thrust = float(result.hover.rotor_speed[0]), float(result.hover.rotor_thrust[0])
    assert speed * 60.0 / (2.0 * math.pi) == pytest.approx(6300.0, rel=0.05)
    # Without profile drag the shaft's power is that of momentum theory, T sqrt(T/(2 rho A)).
    smooth = airframe.model_copy(
        update={
            "rotor_model": airframe.rotor_model.model_copy(
                update={"options": {"chord": 0.022, "pitch": 0.1143, "drag": 0.0}}
            )
        }
    )
    loads = rotor_loads(smooth.vehicle()[()], 0, speed, 0.0, 0.0, DENSITY)
    ideal = loads[0] * math.sqrt(loads[0] / (2.0 * DENSITY * math.pi * 0.12065**2))
    assert loads[0] == pytest.approx(thrust, rel=1e-6)
    assert loads[1] * speed == pytest.approx(ideal, rel=1e-6)
    climb, forward = (
        rotor_loads(airframe.record, 0, speed, *flow, DENSITY) for flow in ((3.0, 0.0), (0.0, 5.0))
    )
    assert climb[0] < thrust < forward[0]
    assert forward[2] > 0.0
