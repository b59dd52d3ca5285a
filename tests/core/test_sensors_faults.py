"""Sensors that fail, are jammed or spoofed, or are asked for what they cannot do."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError
from support.peer import Peer
from support.sensor_bench import DELIVERED, SAMPLED, STEP, Bench

from sitl_bridge.base.errors import UserError
from sitl_bridge.core.sensors.registry import SensorUnion
from sitl_bridge.core.simulation.events import GpsJamming, GpsSpoofing, SensorFault, find_sensor
from sitl_bridge.core.simulation.simulation import Simulation, VehicleSetup
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.world import World
from sitl_bridge.link.hil.server import LockstepServer

Make = Callable[..., Simulation]
NOISE = {"noise_deviation": 0.01}
FIELDS: dict[str, dict[str, Any]] = {
    "imu": {"accelerometer": NOISE, "gyroscope": NOISE},
    "magnetometer": {"error": NOISE},
    "barometer": {"error": NOISE},
    "gps": {"velocity": NOISE},
    "airspeed": {"error": NOISE},
    "range_finder": {"error": NOISE},
    "optical_flow": {"flow": NOISE, "gyroscope": NOISE},
    "battery": {"voltage": NOISE, "current": NOISE},
}
FIRST_FIGURE = {"gps": 3}
ADAPTER: TypeAdapter[Any] = TypeAdapter(SensorUnion)


def bench(kind: str, **more: Any) -> Bench:
    made = Bench(ADAPTER.validate_python({"kind": kind, "rate": 50.0} | FIELDS[kind] | more))
    made.state["position"] = (0.0, 0.0, -1.5)
    made.state["battery_voltage"], made.state["battery_current"] = 12.0, 10.0
    return made


def simulation_of(made: Bench) -> Any:
    """As much of a simulation of one vehicle as a fault changes."""
    return SimpleNamespace(sensors=[made.sensors], sensor_states=[made.memories])


@pytest.mark.parametrize("latency", [0.0, 0.01, 0.07])
@pytest.mark.parametrize("kind", FIELDS)
def test_every_sensor_falls_silent_freezes_and_comes_back(kind: str, latency: float) -> None:
    made = bench(kind, latency=latency)
    figure = FIRST_FIGURE.get(kind, 0)
    healthy = made.run(500)
    assert len(set(healthy[:, figure])) == len(healthy)
    SensorFault(sensor=kind, fault="stuck").begin(simulation_of(made), 0)
    frozen = made.run(500)
    # What was under way when it froze still arrives; from then on the newest sample, at the usual rate.
    under_way = math.ceil(latency / 0.02)
    assert len(frozen) >= 99
    assert len(set(frozen[under_way:, figure])) == 1
    assert frozen[-1, figure] in (*healthy[:, figure], *frozen[:under_way, figure])
    assert np.all(np.diff(frozen[:, SAMPLED]) > 0.0)
    off = SensorFault(sensor=kind)
    off.begin(simulation_of(made), 0)
    assert len(made.run(500)) == 0
    off.end(simulation_of(made), 0)
    back = made.run(500)
    assert len(back) >= 95
    assert len(set(back[:, figure])) == len(back)
    assert np.all(back[:, DELIVERED] - back[:, SAMPLED] < latency * 1e6 + STEP)


def test_a_flow_camera_does_not_integrate_while_it_is_off() -> None:
    made = bench("optical_flow", flow={}, gyroscope={})
    made.state["velocity"] = (1.5, 0.0, 0.0)
    made.run(100)
    off = SensorFault(sensor="optical_flow")
    off.begin(simulation_of(made), 0)
    made.run(2500)
    off.end(simulation_of(made), 0)
    first = made.run(10)[0]
    assert first[5] <= 0.02 + 1e-9
    assert first[1] == pytest.approx(first[5] * 1.5 / 1.5)


def test_a_fault_of_one_sensor_changes_no_other(make_simulation: Make) -> None:
    def others(fault: bool) -> Any:
        simulation = make_simulation("x500_full")
        if fault:
            SensorFault(sensor="gps", instance=1).begin(simulation, 0)
        simulation.advance(250)
        row = find_sensor(simulation.sensors[0], "gps", 1)
        return np.delete(simulation.sensor_states[0]["values"], row, axis=0)

    np.testing.assert_array_equal(others(False), others(True))


def test_px4_s_clock_goes_on_when_the_primary_inertial_sensor_is_silent(
    make_simulation: Make, free_port: Callable[[], int], wait_for: Callable[..., None]
) -> None:
    simulation = make_simulation("iris")
    server = LockstepServer(simulation, ports=[free_port()], speed=math.inf)
    with server, Peer(server.ports[0]) as peer:
        wait_for(lambda: len(peer.times) > 100, "the first steps")
        server.call(lambda: SensorFault(sensor="imu").begin(simulation, 0))

        def silent() -> list[Any]:
            heard = [m for m in list(peer.messages) if m.get_type() == "HIL_SENSOR"]
            return [m for m in heard if not m.fields_updated & 0x3F]

        wait_for(lambda: len(silent()) > 100, "steps without inertial samples")
    assert np.all(np.diff(peer.times) == STEP)


def north(simulation: Simulation, row: int) -> float:
    """m north of the origin that a receiver of the first vehicle reports."""
    latitude, longitude, height = simulation.sensor_states[0, row]["values"][:3]
    return float(simulation.world.ned(math.degrees(latitude), math.degrees(longitude), height)[0])


def test_jamming_and_spoofing_reach_every_receiver_and_end(make_simulation: Make) -> None:
    simulation = make_simulation("iris_full")
    sensors, memories = simulation.sensors[0], simulation.sensor_states[0]
    rows = [find_sensor(sensors, "gps", instance) for instance in (0, 1)]
    jamming, spoofing = GpsJamming(level=0.7), GpsSpoofing(velocity=(50.0, 0.0, 0.0))
    jamming.begin(simulation, 0)
    simulation.advance(250)
    assert [memories[row]["values"][8] for row in rows] == [2.0, 2.0]
    jamming.end(simulation, 0)
    spoofing.begin(simulation, 0)
    simulation.advance(500)
    found = [north(simulation, row) for row in rows]
    # Ten samples at 5 Hz, of which the last is still under way for its 0.12 s; and the receiver's own error.
    np.testing.assert_allclose(found, 100.0, atol=11.0)
    assert all(memories[row]["values"][3] > 48.0 for row in rows)
    spoofing.end(simulation, 0)
    simulation.advance(250)
    found = [north(simulation, row) for row in rows]
    np.testing.assert_allclose(found, 0.0, atol=2.0)


def test_what_cannot_be_done_is_told(make_simulation: Make) -> None:
    simulation = make_simulation("iris")
    with pytest.raises(UserError, match=r"no sensor 'gps' 1; it has imu 0, .*gps 0"):
        SensorFault(sensor="gps", instance=1).begin(simulation, 0)
    with pytest.raises(ValidationError, match="'off' or 'stuck'"):
        SensorFault(sensor="gps", fault="broken")
    for level in (-0.1, 1.1, math.nan):
        with pytest.raises(ValidationError, match="level"):
            GpsJamming(level=level)
    with pytest.raises(ValidationError, match="finite number"):
        GpsSpoofing(velocity=(math.nan, 0.0, 0.0))
    deaf: Any = SimpleNamespace(sensors=simulation.sensors[:, :1], sensor_states=simulation.sensor_states)
    with pytest.raises(UserError, match="no satellite receiver"):
        GpsJamming(level=0.5).begin(deaf, 0)


def test_a_rate_beyond_the_step_s_is_refused_by_name() -> None:
    airframe = load_airframe("iris")
    fast = ADAPTER.validate_python({"kind": "magnetometer", "rate": 500.0} | FIELDS["magnetometer"]).pack()
    setup = VehicleSetup(airframe.vehicle(), np.append(airframe.sensor_records()[:1], fast))
    with pytest.raises(UserError, match=r"4000 us: magnetometer 0 at 500 Hz; give a rate of 250 Hz"):
        Simulation(World(), [setup])
    Simulation(World(), [setup], step=2000)


@pytest.mark.parametrize("rate", [200.0, 130.0, 30.0])
def test_no_sample_is_lost_at_the_longest_latency_a_rate_allows(rate: float) -> None:
    period = round(1e6 / rate)
    made = bench("magnetometer", rate=rate, latency=15 * period * 1e-6)
    samples = made.run(25_000)
    due = period * np.arange(1, len(samples) + 1)
    np.testing.assert_array_equal(samples[:, SAMPLED], np.ceil(due / STEP) * STEP)


def test_samples_are_late_by_their_phase() -> None:
    at = bench("barometer", phase=0.008).run(100)[:, SAMPLED]
    np.testing.assert_array_equal(at, 28_000 + 20_000 * np.arange(len(at)))
    with pytest.raises(ValidationError, match="phase"):
        bench("barometer", phase=0.02)


def test_a_reading_comes_in_steps_of_its_resolution_and_ends_at_its_range() -> None:
    # MS5611 data sheet: 0.012 mbar of resolution at an oversampling of 4096.
    values = bench("barometer", error={"noise_deviation": 3.0, "resolution": 1.2}).run(50_000)[:, 0]
    np.testing.assert_allclose(values / 1.2, np.rint(values / 1.2), atol=1e-6)
    # Rounding adds the variance of a uniform error, q^2/12 (Widrow).
    variance = 9.0 + 1.2**2 / 12.0
    assert np.var(values) == pytest.approx(variance, rel=5.0 * math.sqrt(2.0 / len(values)))
    made = bench("magnetometer", error={"scale_error": (0.5, 0.0, -0.5)}, field_range=4e-5)
    field = made.world.environment[0]["magnetic_field"]
    made.run(10)
    expected = np.clip(field * (1.5, 1.0, 0.5), -4e-5, 4e-5)
    # The field changes with height.
    np.testing.assert_allclose(made.memories[0]["values"][:3], expected, rtol=1e-5)
    made = bench("airspeed", error={}, pressure_range=100.0)
    made.state["velocity"] = (-40.0, 0.0, 0.0)
    assert made.run(10)[-1, 0] == -100.0


def test_a_receiver_s_position_noise_is_no_reading_with_a_scale() -> None:
    with pytest.raises(ValidationError, match="position_noise takes no"):
        bench("gps", position_noise={"scale_error": 0.1})


def stale_count(values: Any) -> int:
    """PX4's count of equal values at its highest (DataValidator.cpp): all axes count, any change resets."""
    highest = count = 0
    for last, now in itertools.pairwise(values):
        for axis in range(3):
            count = count + 1 if abs(last[axis] - now[axis]) < 1e-6 else 0
            highest = max(highest, count)
    return highest


def test_the_stale_count_sees_equal_values() -> None:
    assert stale_count([(1.0, 2.0, 3.0)] * 40) == 117
    assert stale_count([(1.0, 2.0, 3.0 + k) for k in range(40)]) == 2


@pytest.mark.parametrize("name", ["iris", "x500_full", "hector", "neo11", "ar200"])
def test_px4_never_calls_a_healthy_sensor_stale(name: str, make_simulation: Make) -> None:
    simulation = make_simulation(name)
    # As PX4 sees them: g/2048 and 2000/32768 deg/s (SimulatorMavlink.cpp), gauss, Pa; float32 on the wire.
    accelerometer, gyroscope = 9.80665 / 2048.0, math.radians(2000.0 / 32768.0)
    seen: dict[str, list[Any]] = {key: [] for key in ("accelerometer", "gyroscope", "field", "pressure")}
    rows = {kind: find_sensor(simulation.sensors[0], kind) for kind in ("imu", "magnetometer", "barometer")}
    memories = simulation.sensor_states[0]
    for _ in range(2500):
        simulation.advance()
        if memories[rows["imu"]]["fresh"]:
            values = memories[rows["imu"]]["values"].astype(np.float32)
            seen["accelerometer"].append(np.trunc(values[:3] / accelerometer) * accelerometer)
            seen["gyroscope"].append(np.trunc(values[3:6] / gyroscope) * gyroscope)
        if memories[rows["magnetometer"]]["fresh"]:
            seen["field"].append((memories[rows["magnetometer"]]["values"][:3] * 1e4).astype(np.float32))
        if memories[rows["barometer"]]["fresh"]:
            pressure = np.float32(memories[rows["barometer"]]["values"][0] * 1e-2) * np.float32(100.0)
            seen["pressure"].append((pressure, 0.0, 0.0))
    for what, values in seen.items():
        assert len(values) >= 100
        assert stale_count(values) < 50, f"{what}: half of PX4's threshold of 100"
