"""A user's own sensor: one file, one line in an airframe; RotorS's wind sensor as the example."""

from __future__ import annotations

import math
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from pymavlink.dialects.v20 import common as mavlink
from support.airframe_texts import spell_out
from support.paths import AIRFRAMES
from support.peer import Peer

from sitl_bridge.autopilot.stack import StackVehicle
from sitl_bridge.autopilot.stack_fleet import StackFleet
from sitl_bridge.base.errors import ConfigurationError, UserError
from sitl_bridge.cli.facts import derive_facts
from sitl_bridge.core.dynamics.records import STATE
from sitl_bridge.core.sensors.custom import CustomSensor, CustomSensorHost, CustomSpecification, Sample, Truth
from sitl_bridge.core.simulation.simulation import Simulation, VehicleSetup
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.wind import SteadyWind, WindSpecification
from sitl_bridge.core.world.world import World, WorldSpecification
from sitl_bridge.link.hil.server import LockstepServer

LINE = (
    "  - {kind: custom, file: sensors/wind_sensor.py, class: WindSensor, rate: 20,"
    " options: {deviation: 0.1}}\n"
)
SPEAKER = """
from pymavlink.dialects.v20 import common as mavlink
from sitl_bridge.core.sensors.custom import CustomSensor
class Speaker(CustomSensor):
    def sample(self, truth, random):
        return {"height": float(-truth.position[2])}
    def messages(self, sample, time):
        return [mavlink.MAVLink_raw_rpm_message(1, 1000.0 + sample["height"])]
class Mute(Speaker):
    def messages(self, sample, time):
        return [sample]
class Lone(Speaker):
    def messages(self, sample, time):
        return mavlink.MAVLink_raw_rpm_message(1, 1000.0)
class Beyond(Speaker):
    def messages(self, sample, time):
        return [mavlink.MAVLink_raw_rpm_message(1000, "fast")]
class Empty(CustomSensor):
    def sample(self, truth, random):
        return None
class Wordy(CustomSensor):
    def sample(self, truth, random):
        return {"height": "high"}
class Fickle(CustomSensor):
    def sample(self, truth, random):
        return {str(truth.time): 1.0}
"""


@pytest.fixture
def equipped(tmp_path: Path) -> Callable[[str], Path]:
    """The iris with a line more among its sensors."""

    def make(line: str) -> Path:
        (tmp_path / "sensors").mkdir()
        shutil.copy(AIRFRAMES / "sensors" / "wind_sensor.py", tmp_path / "sensors")
        (tmp_path / "sensors" / "speaker.py").write_text(SPEAKER)
        text = spell_out("iris")
        path = tmp_path / "equipped.yaml"
        path.write_text(text.replace("sensors:\n  - kind: imu", f"sensors:\n{line}  - kind: imu"))
        return path

    return make


def simulate(airframe: Airframe, seed: int = 1) -> Simulation:
    world = World(WorldSpecification(wind=WindSpecification(steady=SteadyWind(speed=5.0, direction=270.0))))
    return Simulation(world, [VehicleSetup(airframe.vehicle(), airframe.sensor_records())], seed=seed)


def test_the_wind_sensor_measures_the_air_in_body_axes(equipped: Callable[[str], Path]) -> None:
    airframe = load_airframe(equipped(LINE))
    assert len(airframe.sensor_records()) == len(load_airframe("iris").sensor_records())
    host = CustomSensorHost(airframe.custom_sensors()[0].model_copy(update={"options": {}}))
    states = np.zeros(1, STATE)
    states[0]["attitude"] = (math.sqrt(0.5), 0.0, 0.0, math.sqrt(0.5))  # heading east
    states[0]["wind"], states[0]["velocity"] = (0.0, 5.0, 0.0), (0.0, 2.0, 1.0)
    host.run(states[0], 1_000_050_000)
    sample = host.sensor.sample(
        type("T", (), {n: states[0][n] for n in ("attitude", "wind", "velocity")})(),
        np.random.default_rng(0),
    )
    np.testing.assert_allclose(list(sample.values()), [3.0, 0.0, -1.0], atol=1e-12)


def test_it_samples_at_its_own_rate_into_a_table_and_reproducibly(
    equipped: Callable[[str], Path],
    tmp_path: Path,
    free_port: Callable[[], int],
    wait_for: Callable[..., None],
) -> None:
    airframe = load_airframe(equipped(LINE))
    tables = []
    for k in range(2):
        table = tmp_path / f"wind{k}.csv"
        host = CustomSensorHost(airframe.custom_sensors()[0], seed=3, table=table)
        server = LockstepServer(simulate(airframe), ports=[free_port()], speed=math.inf, hosts=[host])
        # Unarmed: the step in which arming takes effect depends on how soon the peer answers.
        with server, Peer(server.ports[0], armed=False) as peer:
            wait_for(lambda peer=peer: len(peer.times) > 2600, "10 s")
            assert np.all(np.diff(peer.times) == 4000)
        tables.append(np.genfromtxt(table, delimiter=",", names=True)[:200])
    first, second = tables
    assert first.dtype.names == ("time", "forward", "right", "down")
    assert np.mean(np.diff(first["time"])) == pytest.approx(50_000, rel=1e-3)
    assert np.mean(first["right"]) == pytest.approx(5.0, abs=0.05)
    assert np.std(first["right"]) == pytest.approx(0.1, rel=0.3)
    np.testing.assert_array_equal(first, second)


def test_a_slow_answer_does_not_make_its_sample_late(
    equipped: Callable[[str], Path],
    tmp_path: Path,
    free_port: Callable[[], int],
    wait_for: Callable[..., None],
) -> None:
    table = tmp_path / "wind.csv"
    airframe = load_airframe(equipped(LINE))
    host = CustomSensorHost(airframe.custom_sensors()[0], table=table)
    simulation = simulate(airframe)
    server = LockstepServer(simulation, ports=[free_port()], speed=math.inf, hosts=[host])

    def think(peer: Peer) -> bytes:
        if peer.times[-1] - simulation.start in (400_000, 800_000):
            time.sleep(0.08)  # longer than the loop stays in compiled code
        return b""

    with server, Peer(server.ports[0], armed=False) as peer:
        peer.before_answer = think
        wait_for(lambda: len(peer.times) > 300, "1.2 s")
    sampled = np.genfromtxt(table, delimiter=",", names=True)["time"][:20]
    due = np.arange(1, 21) * 50_000
    np.testing.assert_array_equal(sampled - simulation.start, np.ceil(due / 4000) * 4000)


def test_its_messages_reach_the_flight_stack(
    equipped: Callable[[str], Path], free_port: Callable[[], int], wait_for: Callable[..., None]
) -> None:
    line = "  - {kind: custom, file: sensors/speaker.py, class: Speaker, rate: 10}\n"
    airframe = load_airframe(equipped(line))
    host = CustomSensorHost(airframe.custom_sensors()[0])
    server = LockstepServer(simulate(airframe), ports=[free_port()], speed=math.inf, hosts=[host])

    def heard(peer: Peer) -> list[mavlink.MAVLink_message]:
        return [m for m in peer.messages if m.get_type() == "RAW_RPM"]

    with server, Peer(server.ports[0]) as peer:
        wait_for(lambda: len(heard(peer)) > 20, "20 messages")
        assert heard(peer)[0].frequency == pytest.approx(1000.05, abs=0.01)
        assert not [m for m in peer.messages if m.get_type() == "BAD_DATA"]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("  - {kind: custom, file: sensors/none.py, class: WindSensor, rate: 20}\n", "no such Python file"),
        (
            "  - {kind: custom, file: sensors/wind_sensor.py, class: Nothing, rate: 20}\n",
            "has no class Nothing",
        ),
        (LINE.replace("deviation: 0.1", "deviation: -1"), "does not take its options"),
        (LINE.replace("deviation: 0.1", "diviation: 1"), "does not take its options"),
    ],
)
def test_what_cannot_be_loaded_is_told_before_anything_starts(
    equipped: Callable[[str], Path], line: str, told: str
) -> None:
    airframe = load_airframe(equipped(line))
    with pytest.raises(UserError, match=told):
        CustomSensorHost(airframe.custom_sensors()[0])


def test_a_line_with_faults_is_refused_with_its_place(equipped: Callable[[str], Path]) -> None:
    with pytest.raises(ConfigurationError, match=r"line \d+: sensors\[0\]\.rate"):
        load_airframe(equipped(LINE.replace("rate: 20", "rate: -1")))


def test_a_sensor_that_changes_its_figures_is_stopped_by_name(
    equipped: Callable[[str], Path],
) -> None:
    line = "  - {kind: custom, file: sensors/speaker.py, class: Fickle, rate: 10}\n"
    host = CustomSensorHost(load_airframe(equipped(line)).custom_sensors()[0])
    states = np.zeros(1, STATE)
    host.run(states[0], 1_000_100_000)
    with pytest.raises(UserError, match="Fickle_0 changed"):
        host.run(states[0], 1_000_200_000)


DATACLASS = """
from __future__ import annotations
from dataclasses import dataclass
from sitl_bridge.core.sensors.custom import CustomSensor
@dataclass
class Offset(CustomSensor):
    offset: float = 0.0
    def sample(self, truth, random):
        return {"height": float(-truth.position[2]) + self.offset}
"""


def test_a_sensor_may_be_a_dataclass(equipped: Callable[[str], Path]) -> None:
    line = "  - {kind: custom, file: sensors/offset.py, class: Offset, rate: 10, options: {offset: 2.5}}\n"
    path = equipped(line)
    (path.parent / "sensors" / "offset.py").write_text(DATACLASS)
    sensor = load_airframe(path).custom_sensors()[0].load()
    state = type("T", (), {"position": np.array([0.0, 0.0, -3.0])})()
    assert sensor.sample(state, np.random.default_rng(0)) == {"height": 5.5}


@pytest.mark.parametrize(
    ("name", "told"), [("Empty", "instead of a dictionary"), ("Wordy", "is .*, not a number")]
)
def test_a_sensor_that_measures_no_figures_is_stopped_by_name(
    equipped: Callable[[str], Path], name: str, told: str
) -> None:
    line = f"  - {{kind: custom, file: sensors/speaker.py, class: {name}, rate: 10}}\n"
    host = CustomSensorHost(load_airframe(equipped(line)).custom_sensors()[0])
    with pytest.raises(UserError, match=f"{name}_0 failed at .*{told}"):
        host.run(np.zeros(1, STATE)[0], 1_000_100_000)


@pytest.mark.parametrize("name", ["Mute", "Lone", "Beyond"])
def test_a_return_value_that_is_no_message_names_file_and_class(
    equipped: Callable[[str], Path], free_port: Callable[[], int], wait_for: Callable[..., None], name: str
) -> None:
    airframe = load_airframe(
        equipped(f"  - {{kind: custom, file: sensors/speaker.py, class: {name}, rate: 10}}\n")
    )
    told = rf"speaker.py: {name}_0 failed( at 0.100 s)?: "
    with StackFleet(World(), [StackVehicle(airframe)]) as fleet, pytest.raises(UserError, match=told):
        fleet.advance_steps(30)
    host = CustomSensorHost(airframe.custom_sensors()[0])
    server = LockstepServer(simulate(airframe), ports=[free_port()], speed=math.inf, hosts=[host])
    with server, Peer(server.ports[0]) as peer:
        wait_for(lambda: len(peer.times) > 60, "0.2 s")
        assert server.failure is None
    (line,) = server.errors.lines
    assert re.search(told, line)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("  - {kind: custom, file: sensors/none.py, class: WindSensor, rate: 20}\n", "no such Python file"),
        (LINE.replace("deviation: 0.1", "diviation: 1"), "does not take its options"),
        ("  - {kind: imu, rate: 250}\n", "exists already"),
    ],
)
def test_check_tries_the_sensor_and_tells_its_line(
    equipped: Callable[[str], Path], line: str, told: str
) -> None:
    path = equipped(line)
    with pytest.raises(ConfigurationError, match=rf"equipped.yaml: line \d+: sensors\[\d\].*{told}"):
        derive_facts(str(path))


def test_check_lists_the_programs_of_an_airframe(equipped: Callable[[str], Path]) -> None:
    path = equipped(LINE)
    assert derive_facts(str(path))["python_files"] == [str(path.parent / "sensors" / "wind_sensor.py")]
    assert "python_files" not in derive_facts("iris")


class Range(CustomSensor):
    """Defined in the program itself, not named by a file; reports a fixed distance to the flight stack."""

    def __init__(self, distance: float) -> None:
        self.distance = distance

    def sample(self, truth: Truth, random: np.random.Generator) -> Sample:
        del random
        return {"time": truth.time, "distance": self.distance}

    def messages(self, sample: Sample, time: int) -> list[mavlink.MAVLink_message]:
        down = 25  # MAV_SENSOR_ROTATION_PITCH_270
        return [
            mavlink.MAVLink_distance_sensor_message(
                time // 1000, 10, 5000, round(100 * sample["distance"]), 0, 0, down, 0
            )
        ]


def test_a_fleet_samples_custom_sensors_when_they_are_due(
    equipped: Callable[[str], Path], tmp_path: Path
) -> None:
    member = StackVehicle(load_airframe(equipped(LINE)), name="a", tables=tmp_path)
    with StackFleet(World(), [member]) as fleet:
        fleet.advance_steps(250)
    sampled = np.genfromtxt(tmp_path / "a-WindSensor_0.csv", delimiter=",", names=True)["time"]
    np.testing.assert_array_equal(sampled, np.ceil(np.arange(1, 21) * 50_000 / 4000) * 4000)


def test_a_fleet_takes_a_class_as_sensor_and_its_stack_reads_the_messages() -> None:
    iris = load_airframe("iris")
    sensor = CustomSpecification.of(Range, rate=10.0, distance=7.0)
    airframe = iris.model_copy(update={"sensors": (*iris.sensors, sensor)})
    with StackFleet(World(), [StackVehicle(airframe)]) as fleet:
        fleet.advance_steps(27)
        (host,) = fleet.hosts
        assert isinstance(host, CustomSensorHost)
        assert host.latest == pytest.approx({"time": 0.1, "distance": 7.0})
        assert float(fleet.stacks.readers[0]["measurement"]["range"]) == 7.0


def test_a_class_that_is_no_sensor_and_a_rate_that_fits_no_step_are_refused() -> None:
    with pytest.raises(UserError, match="no class derived from CustomSensor"):
        CustomSpecification.of(int, rate=10.0)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="sensor Range: rate: Input should be less than or equal to 250"):
        CustomSpecification.of(Range, rate=1000.0, distance=1.0)
