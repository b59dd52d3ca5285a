"""Every sensor against its parameters: noise, bias, rate, latency, geometry, faults."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import ValidationError
from support.sensor_bench import STEP, Bench, allan

from sitl_bridge.core.sensors.error_model import ErrorSpecification, SensorSpecification
from sitl_bridge.core.sensors.gps import JAMMING, SPOOF_DRIFT, GpsSpecification
from sitl_bridge.core.sensors.imu import ImuSpecification
from sitl_bridge.core.sensors.magnetometer import MagnetometerSpecification
from sitl_bridge.core.sensors.pressure import AirspeedSpecification, BarometerSpecification
from sitl_bridge.core.sensors.ranging import OpticalFlowSpecification, RangeFinderSpecification
from sitl_bridge.core.sensors.records import FAULT_OFF, FAULT_STUCK
from sitl_bridge.core.sensors.registry import KINDS
from sitl_bridge.core.simulation.simulation import Simulation, VehicleSetup
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.atmosphere import air
from sitl_bridge.core.world.scene_specification import BoxObject, SceneSpecification
from sitl_bridge.core.world.world import World, WorldSpecification

NONE = ErrorSpecification()
Make = Callable[..., Simulation]


def imu(**more: Any) -> ImuSpecification:
    fields: dict[str, Any] = {"kind": "imu", "rate": 250.0, "accelerometer": NONE, "gyroscope": NONE}
    return ImuSpecification.model_validate(fields | more)


def gps(**more: Any) -> GpsSpecification:
    fields: dict[str, Any] = {"kind": "gps", "rate": 5.0, "velocity": NONE}
    return GpsSpecification.model_validate(fields | more)


def test_white_noise_of_a_density_has_its_allan_deviation() -> None:
    density = 0.004
    bench = Bench(imu(accelerometer={"noise_density": density}))
    values = bench.run(400_000)[:, :3]
    for axis in range(3):
        # White noise: sigma_A(tau) = density/sqrt(tau), at every tau.
        for size in (1, 10, 100):
            tau = size * 0.004
            scatter = 5.0 / math.sqrt(2.0 * 400_000 / size)
            assert allan(values[:, axis], size) == pytest.approx(density / math.sqrt(tau), rel=scatter)


def test_noise_axes_are_independent() -> None:
    values = Bench(imu(accelerometer={"noise_deviation": 1.0}, gyroscope={"noise_deviation": 1.0}))
    correlation = np.corrcoef(values.run(50_000)[:, :6].T) - np.eye(6)
    assert np.abs(correlation).max() < 5.0 / math.sqrt(50_000)


def test_a_gauss_markov_bias_has_its_stationary_deviation_and_correlation_time() -> None:
    tau, sigma = 2.0, 0.1
    bench = Bench(imu(gyroscope={"bias_deviation": sigma, "bias_correlation_time": tau}))
    values = bench.run(2_000_000)[:, 3:6]
    pieces = 3 * 2_000_000 * 0.004 / (2.0 * tau)
    assert np.var(values) == pytest.approx(sigma**2, rel=5.0 * math.sqrt(2.0 / pieces))
    lag = 250
    shifted = np.mean(values[:-lag] * values[lag:]) / np.var(values)
    assert shifted == pytest.approx(math.exp(-lag * 0.004 / tau), abs=0.05)


def test_a_gauss_markov_bias_is_stationary_from_the_first_sample_on() -> None:
    specification = imu(gyroscope={"bias_deviation": 0.1, "bias_correlation_time": 1000.0})
    first = np.array([Bench(specification, seed).run(1)[0, 3:6] for seed in range(400)])
    assert np.std(first) == pytest.approx(0.1, rel=5.0 / math.sqrt(2 * 1200))


def test_a_calibrated_bias_starts_at_zero_and_then_drifts() -> None:
    specification = imu(gyroscope={"bias_deviation": 0.1, "bias_correlation_time": 100.0, "calibrated": True})
    runs = np.array([Bench(specification, seed).run(2500)[[0, -1], 3:6] for seed in range(200)])
    assert np.abs(runs[:, 0]).max() < 0.1 * math.sqrt(2 * 0.004 / 100.0) * 6
    expected = 0.1 * math.sqrt(1.0 - math.exp(-2.0 * 10.0 / 100.0))
    assert np.std(runs[:, 1]) == pytest.approx(expected, rel=5.0 / math.sqrt(2 * 600))


def test_rotors_random_walk_figures_become_a_stationary_bias() -> None:
    sensor = imu(gyroscope={"random_walk": 3.8785e-5, "bias_correlation_time": 1000.0}).pack()
    stationary = 3.8785e-5 * math.sqrt(1000.0 / 2.0)
    assert sensor["bias_start"][3] == pytest.approx(stationary)
    # RotorS's IMU plugin: sqrt(s_b^2 tau/2 (1 - exp(-2 dt/tau))) a step.
    step = math.sqrt(3.8785e-5**2 * 1000.0 / 2.0 * (1.0 - math.exp(-2.0 * 0.004 / 1000.0)))
    assert sensor["bias_step"][3] == pytest.approx(step, rel=1e-6)


def test_a_pure_random_walk_grows_with_the_square_root_of_time() -> None:
    specification = imu(accelerometer={"random_walk": 0.01})
    ends = np.array([Bench(specification, seed).run(2500)[-1, :2] for seed in range(300)])
    assert np.std(ends) == pytest.approx(0.01 * math.sqrt(10.0), rel=5.0 / math.sqrt(2 * 600))


def test_accelerometer_and_gyroscope_drift_with_their_own_correlation_times() -> None:
    sensor = imu(
        accelerometer={"bias_deviation": 0.1, "bias_correlation_time": 300.0},
        gyroscope={"bias_deviation": 0.1, "bias_correlation_time": 1000.0},
    ).pack()
    assert -0.004 / math.log(sensor["bias_decay"][0]) == pytest.approx(300.0, rel=1e-6)
    assert -0.004 / math.log(sensor["bias_decay"][3]) == pytest.approx(1000.0, rel=1e-6)


def test_a_turn_on_bias_is_constant_in_a_run_and_differs_between_runs() -> None:
    specification = imu(gyroscope={"turn_on_deviation": 0.0087})
    runs = [Bench(specification, seed).run(100)[:, 3:6] for seed in range(300)]
    assert all(np.ptp(run, axis=0).max() == 0.0 for run in runs)
    assert np.std([run[0] for run in runs]) == pytest.approx(0.0087, rel=5.0 / math.sqrt(2 * 900))


def test_an_accelerometer_off_the_centre_feels_rotation() -> None:
    bench = Bench(imu(position=(0.1, 0.2, -0.05)))
    w, dw = np.array([1.0, -2.0, 3.0]), np.array([4.0, 5.0, -6.0])
    bench.state["angular_velocity"], bench.state["angular_acceleration"] = w, dw
    lever = np.array([0.1, 0.2, -0.05])
    expected = np.array([0.0, 0.0, -9.80665]) + np.cross(dw, lever) + np.cross(w, np.cross(w, lever))
    sample = bench.run(1)[0]
    np.testing.assert_allclose(sample[:3], expected, atol=1e-12)
    np.testing.assert_allclose(sample[3:6], w)


def test_a_rotated_sensor_reads_in_its_own_axes() -> None:
    bench = Bench(imu(rotation=(0.0, 0.0, 90.0)))
    bench.state["angular_velocity"] = (1.0, 2.0, 3.0)
    np.testing.assert_allclose(bench.run(1)[0, 3:6], [2.0, -1.0, 3.0], atol=1e-12)


def test_an_inertial_sensor_clips_at_its_range() -> None:
    bench = Bench(imu())
    bench.state["specific_force"] = (1e4, 0.0, -1e4)
    np.testing.assert_allclose(bench.run(1)[0, :3], [156.9064, 0.0, -156.9064])


def test_the_temperature_of_an_inertial_sensor_is_that_of_the_air() -> None:
    assert Bench(imu()).run(1)[0, 6] == pytest.approx(288.15 - 0.0065 * 487.9625 - 273.15, abs=1e-4)


@pytest.mark.parametrize("rate", [250.0, 100.0, 50.0, 30.0, 7.0])
def test_rates_hold_over_a_long_time_also_where_they_do_not_divide_the_step(rate: float) -> None:
    specification = MagnetometerSpecification(kind="magnetometer", rate=rate, error=NONE)
    samples = Bench(specification).run(250 * 100)
    assert len(samples) == pytest.approx(rate * 100.0, abs=1.01)
    assert np.diff(samples[:, 16]).max() <= 1e6 / rate + STEP


def test_a_sample_arrives_exactly_its_latency_after_it_was_taken() -> None:
    samples = Bench(gps(latency=0.12)).run(2500)
    assert set(samples[:, 17] - samples[:, 16]) == {120_000.0}
    assert len(samples) == 49 or len(samples) == 50


def test_a_latency_that_would_pile_up_too_many_samples_is_refused() -> None:
    with pytest.raises(ValidationError, match="needs a queue of more than 15 samples"):
        imu(latency=0.1)


def test_the_magnetometer_reads_the_world_s_field_in_body_axes() -> None:
    bench = Bench(MagnetometerSpecification(kind="magnetometer", rate=100.0, error=NONE))
    field = bench.world.environment[0]["magnetic_field"]
    np.testing.assert_allclose(bench.run(10)[-1, :3], field)
    half = math.sqrt(0.5)
    bench.state["attitude"] = (half, 0.0, 0.0, half)  # heading east
    np.testing.assert_allclose(bench.run(10)[-1, :3], [field[1], -field[0], field[2]], atol=1e-18)


def test_the_barometer_reads_the_atmosphere_and_the_error_of_the_airflow() -> None:
    specification = BarometerSpecification(kind="barometer", rate=50.0, error=NONE, airflow=(-0.2, 0.0, 0.0))
    bench = Bench(specification)
    # At 488 m the geopotential height is 487.963 m.
    assert bench.run(10)[-1, 0] == pytest.approx(95598.71, abs=0.01)
    assert bench.run(10)[-1, 2] == pytest.approx(487.963, abs=1e-3)
    bench.state["velocity"] = (10.0, 0.0, 0.0)
    assert bench.run(10)[-1, 0] == pytest.approx(95598.71 - 0.2 * 0.5 * 1.16863 * 100.0, abs=0.02)


def test_the_barometer_in_rotor_wash_reads_a_share_of_the_disc_loading() -> None:
    """1.55 kg on four discs of 0.128 m: 73.8 Pa.  At z = R of one disc of their area, 1/15 of it."""
    readings = {}
    for share, cushion, height in ((0.0, 0.0, 30.0), (-0.1, 0.0, 30.0), (0.0, 2.0, 0.256), (0.0, 2.0, 30.0)):
        specification = BarometerSpecification(
            kind="barometer", rate=50.0, error=NONE, rotor_wash=share, ground_cushion=cushion
        )
        bench = Bench(specification)
        bench.state["rotor_thrust"][:4] = 1.55 * 9.81 / 4
        bench.state["position"] = (0.0, 0.0, -height)
        still = air(bench.world.environment[0], -height)[1]
        readings[share, cushion, height] = bench.run(5)[0, 0] - still
    loading = 1.55 * 9.81 / (4 * math.pi * 0.128**2)
    assert readings[0.0, 0.0, 30.0] == 0.0
    assert readings[-0.1, 0.0, 30.0] == pytest.approx(-0.1 * loading)
    assert readings[0.0, 2.0, 0.256] == pytest.approx(2.0 * loading / 15.0, rel=1e-6)
    assert readings[0.0, 2.0, 30.0] == pytest.approx(0.0, abs=0.01)


def test_vehicles_without_a_name_have_random_streams_of_their_own() -> None:
    airframe = load_airframe("iris")
    setup = VehicleSetup(airframe.vehicle(), airframe.sensor_records())
    simulation = Simulation(World(), [setup, setup])
    simulation.advance(1)
    values = simulation.sensor_states["values"][:, 0]
    assert simulation.names == ("0", "1")
    assert not np.array_equal(values[0], values[1])
    with pytest.raises(ValueError, match="two vehicles are called 'a'"):
        Simulation(World(), [replace(setup, name="a"), replace(setup, name="a")])


def test_barometer_noise_does_not_depend_on_the_sampling_of_its_drift() -> None:
    error = ErrorSpecification(noise_deviation=3.0, bias_deviation=50.0, bias_correlation_time=3600.0)
    values = Bench(BarometerSpecification(kind="barometer", rate=50.0, error=error)).run(100_000)[:, 0]
    assert np.std(np.diff(values)) / math.sqrt(2.0) == pytest.approx(3.0, rel=0.03)


def test_the_pitot_tube_measures_the_dynamic_pressure_ahead() -> None:
    bench = Bench(AirspeedSpecification(kind="airspeed", rate=50.0, error=NONE))
    bench.state["velocity"] = (10.0, 5.0, 0.0)
    bench.state["wind"] = (-5.0, 0.0, 0.0)
    assert bench.run(10)[-1, 0] == pytest.approx(0.5 * 1.16863 * 15.0**2, rel=1e-5)


def test_a_perfect_receiver_tells_the_truth() -> None:
    bench = Bench(gps())
    bench.state["position"], bench.state["velocity"] = (100.0, -50.0, -20.0), (1.0, 2.0, 3.0)
    fix = bench.run(100)[-1]
    latitude, longitude, height = bench.world.geodetic(np.array([100.0, -50.0, -20.0]))
    assert math.degrees(fix[0]) == pytest.approx(latitude, abs=1e-10)
    assert math.degrees(fix[1]) == pytest.approx(longitude, abs=1e-10)
    assert fix[2] == pytest.approx(height, abs=1e-6)
    np.testing.assert_allclose(fix[3:6], [1.0, 2.0, 3.0])
    assert tuple(fix[8:10]) == (3.0, 10.0)


def test_what_a_receiver_reports_of_itself_moves_about_its_figures() -> None:
    accuracy = {"bias_deviation": 0.03, "bias_correlation_time": 3.0}
    visibility = {"bias_deviation": 0.6, "bias_correlation_time": 5.0}
    fixes = Bench(gps(accuracy=accuracy, visibility=visibility, satellites=15)).run(250 * 2000)
    np.testing.assert_allclose(fixes[:, 7] / fixes[:, 6], 2.0)
    pieces = 2000.0 / (2.0 * np.array([3.0, 5.0]))
    assert np.std(fixes[:, 6] / 0.9) == pytest.approx(0.03, rel=4.0 / math.sqrt(pieces[0]))
    assert np.mean(fixes[:, 9]) == pytest.approx(15.0, abs=4.0 * 0.6 / math.sqrt(pieces[1]))
    # Rounding to whole satellites adds 1/12 to the variance.
    assert np.std(fixes[:, 9]) == pytest.approx(math.sqrt(0.36 + 1.0 / 12.0), rel=4.0 / math.sqrt(pieces[1]))


@pytest.mark.parametrize("jamming", [0.0, 0.4])
def test_the_errors_of_a_receiver_grow_with_the_accuracy_it_reports(jamming: float) -> None:
    accuracy = {"bias_deviation": 0.25, "bias_correlation_time": 30.0}
    noise = {"noise_deviation": 0.1}
    bench = Bench(gps(velocity=noise, position_noise=noise, accuracy=accuracy, position_correlation_time=1.0))
    bench.memories[0]["memory"][JAMMING] = jamming
    fixes = bench.run(250 * 2000)
    worse = fixes[:, 6] / 0.9
    assert np.ptp(worse) > worse.mean()
    # The error over the reported one has the figures' deviation, whatever the report.
    for share in (worse < np.median(worse), worse >= np.median(worse)):
        assert np.std(fixes[share, 3:6] / worse[share, None]) == pytest.approx(0.1, rel=0.03)
    points = np.array([bench.world.ned(math.degrees(f[0]), math.degrees(f[1]), f[2]) for f in fixes[::7]])
    wanted = math.sqrt(
        0.1**2 + gps(velocity=noise, position_correlation_time=1.0).position_deviation()[0] ** 2
    )
    assert np.std(points / worse[::7, None]) == pytest.approx(wanted, rel=0.03)


def beside_a_wall(distance: float, height: float, **more: Any) -> Bench:
    """A receiver on the ground, south of a wall of 4 km along east."""
    objects = [
        BoxObject(kind="box", size=(1.0, 4000.0, height), position=(distance + 0.5, 0.0, -height / 2.0))
    ]
    world = World(WorldSpecification(earth_rotation=False, scene=SceneSpecification(objects=objects)))
    fields: dict[str, Any] = {"velocity": {"noise_deviation": 0.1}, "satellites": 15, "multipath": 3.6}
    return Bench(gps(**(fields | more)), world=world)


def hidden_by_a_wall(distance: float, height: float) -> float:
    """Share of the solid angle above 10 deg of elevation that it hides: sin(elevation) over the turns."""
    toward, lowest = np.cos(np.linspace(-math.pi / 2.0, math.pi / 2.0, 10_001)), math.sin(math.radians(10.0))
    top = height / distance * toward
    covered = np.clip(top / np.sqrt(1.0 + top**2) - lowest, 0.0, None) / (1.0 - lowest)
    return float(covered.mean()) / 2.0


@pytest.mark.parametrize(("distance", "height"), [(10.0, 10.0), (5.0, 20.0), (20.0, 8.0), (1.0, 900.0)])
def test_a_wall_hides_satellites_and_makes_a_receiver_report_larger_errors(
    distance: float, height: float
) -> None:
    bench = beside_a_wall(distance, height)
    fix = bench.run(100)[-1]
    clear = (gps(velocity={"noise_deviation": 0.1}).position_deviation()[:2] ** 2).sum()
    # Of 64 rays, one or two at the wall's edge may fall on the other side.
    hidden = hidden_by_a_wall(distance, height) + np.array([-1.5, 1.5]) / 64.0
    most, least = 15.0 * (1.0 - hidden)
    assert math.floor(least) <= fix[9] <= most
    low, high = np.sqrt((1.0 + (3.6 * hidden / 0.5) ** 2 / clear) / (1.0 - hidden))
    assert low < fix[6] / 0.9 < high
    np.testing.assert_allclose(fix[7] / fix[6], 2.0)


def test_a_receiver_beside_a_wall_errs_by_as_much_more_as_it_reports() -> None:
    noise = {"velocity": {"noise_deviation": 0.1}, "position_correlation_time": 1.0}
    bench = beside_a_wall(5.0, 20.0, **noise)
    fixes = bench.run(250 * 2000)
    points = np.array([bench.world.ned(math.degrees(f[0]), math.degrees(f[1]), f[2]) for f in fixes[::7]])
    deviation = gps(**noise).position_deviation()[0]
    assert np.std(points) == pytest.approx(deviation * fixes[0, 6] / 0.9, rel=0.03)


def test_a_receiver_sees_through_obstacles_unless_told_otherwise_and_nothing_far_from_them() -> None:
    noise = {"velocity": {"noise_deviation": 0.1}}
    alone = Bench(gps(**noise, satellites=15)).run(2000)
    np.testing.assert_array_equal(beside_a_wall(5.0, 20.0, multipath=0.0).run(2000), alone)
    np.testing.assert_array_equal(beside_a_wall(500.0, 20.0).run(2000), alone)


def test_under_a_roof_a_receiver_has_no_fix() -> None:
    roof = BoxObject(kind="box", size=(4000.0, 4000.0, 1.0), position=(0.0, 0.0, -5.5))
    world = World(WorldSpecification(earth_rotation=False, scene=SceneSpecification(objects=[roof])))
    fix = Bench(gps(velocity={"noise_deviation": 0.1}, multipath=3.6), world=world).run(100)[-1]
    assert tuple(fix[8:10]) == (1.0, 0.0)
    assert np.isfinite(fix).all()


def test_reflections_need_an_error_that_they_can_make_larger() -> None:
    with pytest.raises(ValidationError, match="give velocity noise or a bias"):
        gps(multipath=3.6)


def test_the_position_error_of_a_receiver_integrates_its_velocity_error() -> None:
    bench = Bench(gps(velocity={"noise_deviation": 0.1}, position_correlation_time=60.0))
    fixes = bench.run(250 * 2000)
    errors = np.array([bench.world.ned(math.degrees(f[0]), math.degrees(f[1]), f[2]) for f in fixes[::5]])
    every = np.array([bench.world.ned(math.degrees(f[0]), math.degrees(f[1]), f[2]) for f in fixes[:500]])
    decay = math.exp(-0.2 / 60.0)
    np.testing.assert_allclose(every[1:], decay * every[:-1] + 0.2 * fixes[1:500, 3:6], atol=1e-6)
    specification = gps(velocity={"noise_deviation": 0.1}, position_correlation_time=60.0)
    expected = specification.position_deviation()
    pieces = 3 * 2000.0 / 120.0
    assert np.std(errors) == pytest.approx(expected[0], rel=5.0 / math.sqrt(2.0 * pieces))


def test_the_position_error_is_stationary_from_the_first_fix_on_also_with_a_drifting_velocity_error() -> None:
    specification = gps(
        velocity={"noise_deviation": 0.05, "bias_deviation": 0.05, "bias_correlation_time": 20.0},
        position_correlation_time=60.0,
    )
    world = World()
    first = []
    for seed in range(400):
        fix = Bench(specification, seed).run(50)[0]
        first.append(world.ned(math.degrees(fix[0]), math.degrees(fix[1]), fix[2]))
    expected = specification.position_deviation()[0]
    assert np.std(first) == pytest.approx(expected, rel=5.0 / math.sqrt(2 * 1200))


def test_jamming_takes_accuracy_then_satellites_then_the_fix_then_the_signal() -> None:
    bench = Bench(gps())
    seen = []
    for level in (0.0, 0.5, 0.65, 0.75):
        bench.memories[0]["memory"][JAMMING] = level
        fix = bench.run(50)[-1]
        seen.append((fix[6], fix[9], fix[8]))
    accuracy, satellites, kind = zip(*seen, strict=True)
    assert list(accuracy) == sorted(accuracy)
    assert accuracy[1] > 3.0, "beyond PX4's gate"
    assert satellites == (10.0, 5.0, 3.0, 2.0)
    assert kind == (3.0, 3.0, 2.0, 1.0)
    bench.memories[0]["memory"][JAMMING] = 1.0
    assert len(bench.run(250)) == 0


def test_spoofing_walks_position_and_velocity_away_together() -> None:
    bench = Bench(gps())
    bench.memories[0]["memory"][SPOOF_DRIFT] = 2.0
    fixes = bench.run(2500)
    positions = [bench.world.ned(math.degrees(f[0]), math.degrees(f[1]), f[2])[0] for f in fixes]
    np.testing.assert_allclose(np.diff(positions), 0.4, atol=1e-6)
    np.testing.assert_allclose(fixes[:, 3], 2.0)


def tilted(angle: float) -> tuple[float, float, float, float]:
    return math.cos(angle / 2), math.sin(angle / 2), 0.0, 0.0


def test_the_range_finder_measures_along_its_tilted_axis_within_its_range() -> None:
    bench = Bench(
        RangeFinderSpecification(kind="range_finder", rate=20.0, error=NONE, minimum=0.2, maximum=10.0)
    )
    bench.state["position"] = (0.0, 0.0, -4.0)
    assert bench.run(50)[-1, 0] == pytest.approx(4.0)
    bench.state["attitude"] = tilted(math.radians(30.0))
    assert bench.run(50)[-1, 0] == pytest.approx(4.0 / math.cos(math.radians(30.0)))
    bench.state["position"] = (0.0, 0.0, -40.0)
    assert math.isnan(bench.run(50)[-1, 0])


def test_a_cone_of_rays_reports_the_nearest() -> None:
    specification = RangeFinderSpecification(
        kind="range_finder", rate=20.0, error=NONE, maximum=10.0, cone=40.0
    )
    bench = Bench(specification)
    bench.state["position"] = (0.0, 0.0, -2.0)
    bench.state["attitude"] = tilted(math.radians(20.0))
    # One rim ray points straight down.
    assert bench.run(50)[-1, 0] == pytest.approx(2.0)


def test_optical_flow_has_mavlink_s_signs_and_integrates_between_samples() -> None:
    bench = Bench(OpticalFlowSpecification(kind="optical_flow", rate=50.0, flow=NONE, gyroscope=NONE))
    bench.state["position"] = (0.0, 0.0, -2.0)
    bench.state["velocity"] = (1.0, 0.0, 0.0)
    sample = bench.run(50)[-1]
    assert sample[5] == pytest.approx(0.02)
    np.testing.assert_allclose(sample[:2], [0.0, 0.02 * 1.0 / 2.0], atol=1e-12)
    bench.state["velocity"] = (0.0, 1.0, 0.0)
    np.testing.assert_allclose(bench.run(50)[-1, :2], [-0.02 / 2.0, 0.0], atol=1e-12)
    bench.state["velocity"], bench.state["angular_velocity"] = (0.0, 0.0, 0.0), (0.5, 0.0, 0.1)
    sample = bench.run(50)[-1]
    np.testing.assert_allclose(sample[:5], [0.01, 0.0, 0.01, 0.0, 0.002], atol=1e-12)


@pytest.mark.parametrize("latency", [0.0, 0.12])
def test_a_sensor_that_is_off_is_silent_and_one_that_is_stuck_repeats_itself(latency: float) -> None:
    bench = Bench(gps(latency=latency, velocity={"noise_deviation": 0.1}))
    last = bench.run(500)[-1]
    bench.memories[0]["fault"] = FAULT_STUCK
    stuck = bench.run(500)[2:]
    assert len(stuck) > 5
    assert all(np.array_equal(row[:6], stuck[0][:6]) for row in stuck)
    assert np.abs(stuck[0][:2] - last[:2]).max() < 1e-6
    bench.memories[0]["fault"] = FAULT_OFF
    bench.run(50)
    assert len(bench.run(500)) == 0
    bench.memories[0]["fault"] = 0
    assert len(bench.run(500)) > 5


def test_no_two_samples_are_ever_equal(make_simulation: Make) -> None:
    simulation = make_simulation("iris")
    kinds = {KINDS["imu"].code: 6, KINDS["magnetometer"].code: 3, KINDS["barometer"].code: 1}
    seen: dict[int, list[NDArray[np.float64]]] = {kind: [] for kind in kinds}
    for _ in range(1000):
        simulation.advance()
        for k in range(5):
            kind = int(simulation.sensors[0, k]["kind"])
            if kind in kinds and simulation.sensor_states[0, k]["fresh"]:
                seen[kind].append(simulation.sensor_states[0, k]["values"][: kinds[kind]].copy())
    for samples in seen.values():
        assert np.abs(np.diff(np.array(samples), axis=0)).min() > 0.0


def test_adding_a_sensor_or_a_vehicle_changes_no_other_stream() -> None:
    airframe = load_airframe("iris")
    records = airframe.sensor_records()
    extra = imu(instance=1, accelerometer={"noise_deviation": 1.0}).pack()
    more = np.concatenate([records[:2], extra.reshape(1), records[2:]])

    def positions(*sensor_sets: NDArray[np.void]) -> NDArray[np.float64]:
        setups = [VehicleSetup(airframe.vehicle(), s, name=str(i)) for i, s in enumerate(sensor_sets)]
        simulation = Simulation(World(), setups, seed=4)
        simulation.advance(100)
        row = simulation.sensors[0]
        picked = [int(np.flatnonzero((row["kind"] == k) & (row["instance"] == 0))[0]) for k in (1, 2, 3, 4)]
        values: NDArray[np.float64] = simulation.sensor_states[0]["values"][picked]
        return values

    np.testing.assert_array_equal(positions(records), positions(more))
    np.testing.assert_array_equal(positions(records), positions(records, more))


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"noise_density": 1.0, "noise_deviation": 1.0}, "not both"),
        ({"bias_deviation": 1.0}, "bias_correlation_time"),
        ({"random_walk": 1.0, "bias_deviation": 1.0, "bias_correlation_time": 1.0}, "not both"),
        ({"noise_density": -1.0}, "greater than or equal to 0"),
        ({"noise_density": math.nan}, "finite|greater"),
        ({"nois_density": 1.0}, "Extra inputs"),
    ],
)
def test_contradictory_error_figures_are_refused(fields: dict[str, float], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        ErrorSpecification.model_validate(fields)


def test_every_specification_says_what_each_field_is() -> None:
    for specification in SensorSpecification.__subclasses__():
        for name, field in specification.model_fields.items():
            if name not in ("kind", "instance", "position_noise"):
                assert field.description, f"{specification.__name__}.{name}"


def test_a_turn_on_bias_of_the_velocity_stays_out_of_the_position() -> None:
    specification = GpsSpecification(
        kind="gps",
        rate=5,
        velocity={"turn_on_deviation": 1.0},
        position_noise={"noise_deviation": 0.0},
        position_correlation_time=60.0,
        eph=1.0,
        epv=1.0,
        satellites=10,
    )
    samples = Bench(specification, seed=3).run(60 * 250)
    assert np.abs(samples[:, 3:6]).max() > 0.3
    assert np.ptp(samples[:, 2]) < 1e-6
    assert np.ptp(samples[:, 0]) < 1e-12


def test_a_gyroscope_at_rest_shows_the_earths_rotation() -> None:
    """PX4's estimator takes it off again (calcEarthRateNED): at 47.4 deg north 4.94e-5 and -5.37e-5 rad/s."""
    airframe = load_airframe("iris")
    sensors = np.array([imu().pack()])
    for yaw, expected in ((0.0, (4.936e-5, 0.0)), (0.5 * math.pi, (0.0, -4.936e-5))):
        setup = VehicleSetup(airframe.vehicle(), sensors, yaw=yaw)
        simulation = Simulation(World(), [setup])
        simulation.advance(10)
        rates = simulation.sensor_states[0, 0]["values"][3:6]
        assert rates == pytest.approx([*expected, -5.367e-5], abs=2e-8)
