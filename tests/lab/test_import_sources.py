"""Vehicles from templates, URDF, PX4's parameters and thrust tables, together and alone; hostile files."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest
from support.commands import run_command
from support.gazebo_models import CLASSIC, PLACES, TURNS, motors, write_sdf

from sitl_bridge.base.errors import UserError
from sitl_bridge.core.dynamics.motor import FirstOrderMotor
from sitl_bridge.core.dynamics.rotor import CoefficientRotor
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.lab.importing import expansion_process, templates
from sitl_bridge.lab.importing.estimates import Given
from sitl_bridge.lab.importing.importer import Choices, import_vehicle

ALONE = Choices(px4=Path("/nowhere"))
GEOMETRY = "\n".join(
    f"CA_ROTOR{k}_PX {x}\nCA_ROTOR{k}_PY {y}\nCA_ROTOR{k}_KM {m}"
    for k, (x, y, m) in enumerate(((1, 1, 0.05), (-1, -1, 0.05), (1, -1, -0.05), (-1, 1, -0.05)))
)
PARAMETERS = (
    f"CA_ROTOR_COUNT 4\n{GEOMETRY}\nMPC_THR_HOVER 0.35\nTHR_MDL_FAC 0.3\nMC_ROLLRATE_P 0.12\nBAT1_N_CELLS 6\n"
    "CAL_ACC0_ID 7\nRC1_MIN 1000\n"
)
ROTOR = """<link name="r{k}"><inertial><mass value="0.01"/>
<inertia ixx="1e-6" iyy="2e-5" izz="2e-5"/></inertial>
<collision><geometry><cylinder radius="${{radius}}" length="0.01"/></geometry></collision></link>
<joint name="j{k}" type="continuous"><origin xyz="{x} {y} 0.05"/>
<parent link="base"/><child link="r{k}"/></joint>
<gazebo><plugin name="m{k}" filename="librotors_gazebo_motor_model.so"><linkName>r{k}</linkName>
<turningDirection>{turn}</turningDirection><motorNumber>{k}</motorNumber><maxRotVelocity>800</maxRotVelocity>
<motorConstant>8e-06</motorConstant></plugin></gazebo>"""
BASE = """<link name="base"><inertial><mass value="1.4"/>
<inertia ixx="0.015" iyy="0.02" izz="0.03"/></inertial>
<collision><geometry><box size="0.2 0.2 0.1"/></geometry></collision></link>"""


RADIUS = '<xacro:property name="radius" value="0.12"/>'


def robot(extra: str = "") -> str:
    rotors = "".join(
        ROTOR.format(k=k, x=x, y=y, turn=turn)
        for k, ((x, y), turn) in enumerate(zip(PLACES, TURNS, strict=True))
    )
    head = '<robot name="q" xmlns:xacro="http://www.ros.org/wiki/xacro">'
    return f"{head}{RADIUS}{extra}{BASE}{rotors}</robot>"


def written(directory: Path, name: str, text: str) -> Path:
    path = directory / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_xacro_and_its_urdf_are_the_same_vehicle(tmp_path: Path) -> None:
    pytest.importorskip("xacro")
    plain = robot().replace("${radius}", "0.12").replace(RADIUS, "")
    files = (written(tmp_path, "q.xacro", robot()), written(tmp_path, "q.urdf", plain))
    first, second = (
        load_airframe(import_vehicle([file], tmp_path / f"{i}.yaml", None, ALONE).path)
        for i, file in enumerate(files)
    )
    assert first.mass == second.mass == pytest.approx(1.44)
    assert first.rotors == second.rotors
    assert first.rotors[0].position[:2] == (0.2, 0.15)
    assert first.rotor_model.radius == 0.12


@pytest.mark.parametrize(
    "attack",
    [
        "open('/etc/passwd')",
        "open('ROOT/spoil', 'w')",
        "os.open('ROOT/spoil', os.O_CREAT | os.O_WRONLY)",
        "os.listdir('/etc')",
        "os.remove('ROOT/q.xacro')",
        "os.system('touch ROOT/spoil')",
        "subprocess.run(['touch', 'ROOT/spoil'])",
        "socket.create_connection(('127.0.0.1', 9))",
        "ctypes.CDLL(None)",
        "os.fork()",
    ],
)
def test_the_process_of_templates_reads_its_tree_and_does_nothing_else(tmp_path: Path, attack: str) -> None:
    file = written(tmp_path, "q.xacro", "within")
    code = (
        "import ctypes, os, runpy, socket, subprocess\n"
        f"runpy.run_path({expansion_process.__file__!r})['confine']([{str(tmp_path)!r}])\n"
        f"assert open({str(file)!r}).read() == 'within'\n"
        f"try: {attack.replace('ROOT', str(tmp_path))}\n"
        "except PermissionError: print('refused')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "refused\n", done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["q.xacro"]


def test_a_template_without_end_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jinja2")
    monkeypatch.setattr(templates, "WAIT", 3.0)
    loop = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    file = written(tmp_path, "q.sdf.jinja", loop)
    with pytest.raises(UserError, match="does not end"):
        import_vehicle([file], tmp_path / "q.yaml", None, ALONE)


@pytest.mark.parametrize(
    "text",
    ['<xacro:include filename="/etc/passwd"/>', '<xacro:macro name="m"><xacro:m/></xacro:macro><xacro:m/>'],
    ids=["include", "recursion"],
)
def test_a_xacro_that_includes_strangers_or_itself_is_refused(tmp_path: Path, text: str) -> None:
    pytest.importorskip("xacro")
    file = written(tmp_path, "q.xacro", robot(text))
    with pytest.raises(UserError, match="xacro template"):
        import_vehicle([file], tmp_path / "q.yaml", None, ALONE)


def test_a_xacros_own_defaults_hold_and_arguments_win(tmp_path: Path) -> None:
    """Those without a value are the vehicle's name, and false as a condition."""
    pytest.importorskip("xacro")
    arguments = '<xacro:arg name="radius" default="0.12"/><xacro:if value="$(arg pub_tf)"><link/></xacro:if>'
    text = robot(arguments).replace(RADIUS, "").replace("${radius}", "$(arg radius)")
    file = written(tmp_path, "q.xacro", text)
    radii = [
        load_airframe(import_vehicle([file], tmp_path / "q.yaml", None, choices).path).rotor_model.radius
        for choices in (ALONE, Choices(ALONE.px4, arguments={"radius": "0.1"}))
    ]
    assert radii == [0.12, 0.1]


@pytest.mark.parametrize("source", ["quad/quad.sdf.jinja", "quad", "outer"])
def test_jinja_models_are_expanded(tmp_path: Path, source: str) -> None:
    """As a file, as a directory that has only the template, and as an included model."""
    pytest.importorskip("jinja2")
    model = write_sdf(tmp_path, motors(CLASSIC))
    text = model.read_text(encoding="utf-8")
    model.unlink()
    # numpy is at hand as in PX4's templates, math as in MRS's; arguments are YAML, those not given empty.
    expression = "{{ parts.root(1.96)|float * spawner.share * np.ones(1)[0] }}{{ nothing.of.it(3) }}"
    file = written(model.parent, "quad.sdf.jinja", "{% import 'parts.jinja' as parts %}" + text)
    file.write_text(file.read_text(encoding="utf-8").replace("1.4<", f"{expression}<"), encoding="utf-8")
    written(model.parent, "parts.jinja", "{% macro root(x) %}{{ math.sqrt(x) }}{% endmacro %}")
    write_sdf(tmp_path, "", "<include merge='true'><uri>model://quad</uri></include>", "outer")
    choices = Choices(ALONE.px4, arguments={"spawner": "{name: uav1, share: 1}"})
    made = import_vehicle([tmp_path / source], tmp_path / "q.yaml", None, choices)
    assert load_airframe(made.path).mass == pytest.approx(1.44)


def test_a_template_s_missing_argument_is_named_with_the_option_that_gives_it(tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    file = written(tmp_path, "q.sdf.jinja", "<sdf>{{ 2 * weight }}</sdf>")
    with pytest.raises(UserError, match="'weight' is undefined; --arg NAME=VALUE gives it"):
        import_vehicle([file], tmp_path / "q.yaml", None, ALONE)


def test_parameters_with_a_mass_and_a_propeller_make_a_vehicle_that_hovers_as_they_say(
    tmp_path: Path,
) -> None:
    file = written(tmp_path, "real.params", PARAMETERS)
    made = import_vehicle([file], tmp_path / "q.yaml", Given(mass=2.0, arm=0.25, propeller="10x4.5"), ALONE)
    airframe = load_airframe(made.path)
    assert [rotor.direction for rotor in airframe.rotors] == ["ccw", "ccw", "cw", "cw"]
    assert airframe.rotors[0].position[:2] == pytest.approx((0.1768, 0.1768), abs=1e-4)
    assert airframe.px4.parameters["MC_ROLLRATE_P"] == 0.12
    assert airframe.battery.cells == 6
    assert not {"CAL_ACC0_ID", "RC1_MIN"} & set(airframe.px4.parameters)
    assert any("CAL_*" in what for what in made.left_out)
    assert "inertia" in made.estimated


def test_parameters_that_no_flight_over_the_link_can_have_are_left_out_by_name(tmp_path: Path) -> None:
    names = ("RTL_TIME_MARGIN", "COM_FLTT_LOW_ACT", "LNDMC_Z_VEL_MAX", "MPC_POS_MODE", "NAV_DLL_ACT")
    file = written(tmp_path, "real.params", PARAMETERS + "".join(f"{name} 3\n" for name in names))
    made = import_vehicle([file], tmp_path / "q.yaml", Given(mass=2.0, arm=0.25, propeller="10x4.5"), ALONE)
    assert not set(names) & set(load_airframe(made.path).px4.parameters)
    assert all(any(what.startswith(name) for what in made.left_out) for name in names)


def test_parameters_after_a_script_keep_their_own_rotors_and_a_body_that_can_be(tmp_path: Path) -> None:
    """A script of the frame for PX4's parameters of before 1.13; its own title is not the vehicle's."""
    script = written(tmp_path, "4001_quad_x", "param set-default CA_ROTOR_COUNT 4\n" + "".join(
        f"param set-default CA_ROTOR{k}_P{axis} {value}\n"
        for k in range(4) for axis, value in (("X", 9.0), ("Y", 9.0))
    ))  # fmt: skip
    file = written(
        tmp_path, "real.params", PARAMETERS.replace("_PX 1", "_PX 0.23575").replace("_PY 1", "_PY 0.23575")
    )
    made = import_vehicle([script, file], tmp_path / "q.yaml", Given(mass=2.0, propeller="10x4.5"), ALONE)
    airframe = load_airframe(made.path)
    assert airframe.rotors[0].position[:2] == (0.23575, 0.23575)
    assert airframe.inertia.of_a_body()


@pytest.mark.parametrize("factor", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("thrust", [0.12, 0.35, 0.7])
def test_parameters_make_a_vehicle_that_hovers_at_their_thrust_and_can_descend(
    tmp_path: Path, thrust: float, factor: float
) -> None:
    """PX4 gives the command c for the thrust f c^2 + (1 - f) c, whatever the real curve of the motors is."""
    text = PARAMETERS.replace("THR_MDL_FAC 0.3", f"THR_MDL_FAC {factor}")
    file = written(tmp_path, "real.params", text.replace("MPC_THR_HOVER 0.35", f"MPC_THR_HOVER {thrust}"))
    given = Given(mass=2.0, arm=0.25, propeller="10x4.5", capacity=5.0)
    airframe = load_airframe(import_vehicle([file], tmp_path / "q.yaml", given, ALONE).path)
    motor, rotor = airframe.motor, airframe.rotor_model
    assert isinstance(motor, FirstOrderMotor)
    assert isinstance(rotor, CoefficientRotor)
    weight = 2.0 * 9.80665
    # At the nominal voltage; a full pack turns the motors a tenth faster.
    command = (math.sqrt(weight / 4.0 / rotor.thrust_c2) - motor.idle_speed) / motor.speed_range
    assert factor * command**2 + (1.0 - factor) * command == pytest.approx(thrust, rel=1e-3)
    assert 4.0 * rotor.thrust_c2 * motor.idle_speed**2 < 0.3 * weight


def test_parameters_after_a_model_are_px4s_allocation_and_gains(tmp_path: Path) -> None:
    model, file = write_sdf(tmp_path, motors(CLASSIC)), written(tmp_path, "real.params", PARAMETERS)
    airframe = load_airframe(import_vehicle([model, file], tmp_path / "q.yaml", None, ALONE).path)
    assert airframe.rotors[0].position[:2] == (0.2, 0.15)
    assert airframe.px4.allocation is not None
    assert airframe.px4.allocation.positions[0] == (1.0, 1.0)
    assert "MPC_THR_HOVER" not in airframe.px4.parameters


def test_hectors_rotors_and_motors_are_in_its_parameters(tmp_path: Path) -> None:
    body = written(tmp_path, "q.urdf", f'<robot name="q">{BASE}</robot>')
    propulsion = (
        "CT0s: 1.5e-5\n  CT1s: -2.5e-4\n  CT2s: -1.3e-5\n  k_t: 0.015\n  k_m: -0.00007\n  J_M: 2.6e-5"
    )
    propulsion += "\n  R_A: 0.2\n  Psi: 0.007\n  alpha_m: 0.1\n  beta_m: 0.01\n  l_m: 0.275"
    drag = "quadrotor_aerodynamics:\n  C_wxy: 0.12\n  C_wz: 0.1"
    file = written(tmp_path, "epp1045.yaml", f"quadrotor_propulsion:\n  {propulsion}\n{drag}\n")
    airframe = load_airframe(import_vehicle([body, file], tmp_path / "h.yaml", None, ALONE).path)
    assert [rotor.position[:2] for rotor in airframe.rotors] == [
        (0, 0.275),
        (0, -0.275),
        (0.275, 0),
        (-0.275, 0),
    ]
    assert [rotor.direction for rotor in airframe.rotors] == ["ccw", "ccw", "cw", "cw"]
    assert airframe.rotor_model.radius == pytest.approx(5 * 0.0254)
    assert airframe.drag.force == (0.12, 0.12, 0.1)
    assert airframe.source("drag.force") == "epp1045.yaml: C_wxy, C_wz"


def test_a_thrust_table_gives_back_the_motor_that_made_it(tmp_path: Path) -> None:
    rows = ["Throttle (%),Speed [rpm],Thrust (N),Torque [mNm],Voltage,Current (A)"]
    for percent in (10, 30, 50, 70, 90, 100):
        speed = 100.0 + 8.0 * percent  # rad/s
        thrust = 1e-5 * speed**2
        rows.append(
            f"{percent},{speed * 9.549297},{thrust},{15.0 * thrust},15,{0.015 * thrust * speed / 0.8 / 15}"
        )
    files = [written(tmp_path, "real.params", PARAMETERS), written(tmp_path, "stand.csv", "\n".join(rows))]
    made = import_vehicle(files, tmp_path / "q.yaml", Given(mass=2.0, arm=0.25, propeller="10x4.5"), ALONE)
    airframe = load_airframe(made.path)
    motor, rotor = airframe.motor, airframe.rotor_model
    assert isinstance(motor, FirstOrderMotor)
    assert isinstance(rotor, CoefficientRotor)
    assert (motor.idle_speed, motor.speed_range) == pytest.approx((100.0, 800.0), rel=1e-3)
    assert (rotor.thrust_c2, rotor.torque_thrust_ratio) == pytest.approx((1e-5, 0.015), rel=1e-3)
    assert motor.efficiency == pytest.approx(0.8, rel=1e-2)
    assert airframe.source("rotor_model.thrust_c2").startswith("stand.csv")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("stand.csv", "rpm,watts\n1,2\n", "has no column of the thrust among rpm, watts"),
        ("stand.csv", "rpm,thrust_g\n1000,10\n2000,many\n", "line 3: a number is missing or is none"),
        ("stand.csv", "rpm,thrust_g\n1000,10\n", "fewer than 3 rows"),
        ("stand.csv", "rpm,thrust_g\n1000,10\n2000,inf\n3000,90\n", "line 3: a number is not finite"),
        ("real.params", "CA_ROTOR_COUNT 2\n", "at least 3"),
        ("real.params", "CA_ROTOR_COUNT 1e30\n", "at most 12"),
        ("real.params", "CA_ROTOR_COUNT nan\n", "CA_ROTOR_COUNT is nan"),
        ("real.params", PARAMETERS.replace("ROTOR0_PX 1", "ROTOR0_PX 1e30"), "is not a figure of a vehicle"),
        ("real.params", PARAMETERS.replace("ROTOR0_PX 1", "ROTOR0_PX nan"), "CA_ROTOR0_PX is nan"),
        ("notes.docx", "x", "is of no kind that is read"),
        ("model.sdf", "<sdf><model name='m'/></sdf>", "has 0 rotors"),
    ],
)
def test_files_at_fault_are_refused_with_one_message(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    file = written(tmp_path, name, text)
    with pytest.raises(UserError, match=message):
        import_vehicle([file], tmp_path / "q.yaml", Given(mass=1.0), ALONE)


def test_the_command_writes_a_file_that_check_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "real.params", PARAMETERS)
    words = ["import", "real.params", "-o", "q.yaml", "--mass", "2", "--arm", "0.25", "--battery", "6S 5.0"]
    done = run_command(*words)
    assert done.exit_code == 0, done.output
    words = ["check", "q.yaml", "--picture", "q.svg"]
    assert run_command(*words).exit_code == 0
    picture = (tmp_path / "q.svg").read_text(encoding="utf-8")
    assert picture.count(" ccw") == 4  # two rotors, in two views
