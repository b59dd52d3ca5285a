"""Figures that others published, out of the evaluation: RotorS's hovering error, hector's spectra."""

from __future__ import annotations

import io
import math

import numpy as np
import pytest
import scipy
from support.autopilot_bench import DT, Bench, Floats, ideally_fed

from sitl_bridge.analysis.evaluation.rotors_evaluation import (
    ConstantSetpoint,
    constant_setpoints,
    disturbance_results,
    hovering,
    settling_time,
    waypoint_results,
)
from sitl_bridge.analysis.evaluation.signal_analysis import resample_evenly, spectrum, step_responses
from sitl_bridge.analysis.report.time_lines import spectrum_plot
from sitl_bridge.autopilot.control.gains import controller_record
from sitl_bridge.core.vehicle.airframe_file import load_airframe


def test_the_evaluation_of_the_hovering_example_of_rotors_prints_its_0_040_m() -> None:
    """RotorS, section 3.6: hovering at (0, 0, 1), evaluated from 10 to 20 s: position RMS error 0.040 m.

    The static offset along z of a controller without an integral part, with the wrong mass.
    """
    airframe = load_airframe("firefly")
    firefly = ideally_fed(airframe, mass=1.5 + 6 * 0.005 + 0.015, ground_effect=False)
    bench = Bench([firefly], "rotors")
    bench.world.environment["gravity"] = 9.8
    bench.controllers[0] = controller_record(firefly, bench.world, "rotors")
    bench.take_off(height=1.0, seconds=9.5)
    log = bench.run(10.0)
    time = np.asarray(10.0 + DT * np.arange(1, len(log) + 1), np.float64)
    found = hovering(
        time, log["position"][:, 0], log["angular_velocity"][:, 0], bench.setpoints["position"][0], 10.0, 20.0
    )
    assert found is not None
    assert f"{found.position:.3f}" == "0.040"
    assert f"{found.rates:.3f}" == "0.000"
    assert found.mean[2] == pytest.approx(-(1.56779 * 9.81 - 1.545 * 9.8) / 6.0, abs=3e-4)


def flight_of_velocity_steps() -> tuple[Floats, Floats, Floats, Floats]:
    """Hector's test trajectory, transitions between velocities: time, rates, velocity, setpoint."""
    bench = Bench(["hector"], "hector_pid")
    bench.take_off(seconds=4.0)
    bench.setpoints["position"] = math.nan
    rates, velocity, wanted = [], [], []
    for north in (0.0, 2.0, -1.0, 1.0):
        bench.setpoints["velocity"] = (north, 0.0, 0.0)
        log = bench.run(5.0)
        rates.append(log["angular_velocity"][:, 0])
        velocity.append(log["velocity"][:, 0])
        wanted.append(np.full((len(log), 3), (north, 0.0, 0.0)))
    joined = np.asarray(np.concatenate(velocity), np.float64)
    flown = np.asarray(np.concatenate(rates), np.float64)
    time = np.asarray(DT * np.arange(len(joined)), np.float64)
    return time, flown, joined, np.asarray(np.concatenate(wanted), np.float64)


def test_hectors_figure_of_spectra_and_velocities_is_drawn() -> None:
    from sitl_bridge.analysis.report.paper_figures import plot_figure  # loads slowly

    time, rates, velocity, wanted = flight_of_velocity_steps()
    found = spectrum(time, rates)
    assert found is not None
    # Only about the pitch axis is there a manoeuvre.
    power = np.asarray(np.trapezoid(found.density, found.frequency, axis=0))
    assert power[1] > 100.0 * max(power[0], power[2])
    assert power[1] == pytest.approx(np.var(rates[:, 1]), rel=0.5)
    assert 0.2 < found.peak() < 5.0
    figure = plot_figure(spectrum_plot(found))
    (axes,) = figure.axes
    assert [line.get_label() for line in axes.lines] == ["roll rate", "pitch rate", "yaw rate"]
    assert axes.get_ylabel() == "(rad/s)\N{SUPERSCRIPT TWO}/Hz"
    picture = io.BytesIO()
    figure.savefig(picture, format="svg")
    assert b"Power spectral density" in picture.getvalue()
    steps = step_responses(time, velocity, time, wanted)
    assert [round(step.size, 6) for step in steps] == [2.0, -3.0, 2.0]
    assert all(step.axis == 0 and 0.2 < step.rise < 3.0 and step.overshoot < 40.0 for step in steps)


def test_welchs_density_has_the_power_of_white_noise_and_of_a_tone() -> None:
    rng = np.random.default_rng(1)
    time = np.arange(0.0, 200.0, 0.01)
    noise = 0.3 * rng.standard_normal((len(time), 1))
    white = spectrum(time, noise)
    assert white is not None
    assert np.median(white.density) == pytest.approx(2.0 * 0.3**2 * 0.01, rel=0.05)
    tone = spectrum(time, np.sin(2.0 * np.pi * 7.0 * time)[:, None])
    assert tone is not None
    assert tone.peak() == pytest.approx(7.0, abs=0.01)
    assert np.trapezoid(tone.density[:, 0], tone.frequency) == pytest.approx(0.5, rel=0.01)


@pytest.mark.parametrize("lag", [0.3, 1.0])
def test_a_first_order_step_response_has_its_textbook_figures(lag: float) -> None:
    time = np.arange(0.0, 20.0, 0.01)
    wanted = np.where(time >= 5.0, 2.0, 0.0)[:, None]
    response = np.where(time[:, None] >= 5.0, 2.0 * (1.0 - np.exp(-(time[:, None] - 5.0) / lag)), 0.0)
    (step,) = step_responses(time, response, time, wanted)
    assert step.rise == pytest.approx(lag * math.log(9.0), abs=0.03)
    assert step.settling == pytest.approx(lag * math.log(20.0), abs=0.03)
    assert step.overshoot == pytest.approx(0.0, abs=0.1)


def test_the_overshoot_of_a_second_order_step_response() -> None:
    damping, frequency = 0.4, 3.0
    time = np.arange(0.0, 15.0, 0.005)
    since, damped = np.maximum(time - 2.0, 0.0), frequency * math.sqrt(1.0 - damping**2)
    decay = np.exp(-damping * frequency * since)
    response = 1.0 - decay * (np.cos(damped * since) + damping * frequency / damped * np.sin(damped * since))
    wanted = np.where(time >= 2.0, 1.0, 0.0)[:, None]
    (step,) = step_responses(time, (response * (time >= 2.0))[:, None], time, wanted)
    assert step.overshoot == pytest.approx(
        100.0 * math.exp(-damping * math.pi / math.sqrt(1 - damping**2)), abs=0.1
    )


def test_settled_is_who_stays_in_the_ball_for_three_seconds() -> None:
    time = np.arange(0.0, 20.0, 0.01)
    distance = np.where((time < 2.0) | ((time > 4.0) & (time < 6.0)), 1.0, 0.05)
    assert settling_time(time, distance) == pytest.approx(6.0, abs=0.011)
    assert settling_time(time, np.full(len(time), 0.2)) is None
    assert settling_time(time[time < 8.0], distance[time < 8.0]) is None


def test_waypoints_and_disturbances_are_evaluated_as_by_rotors() -> None:
    time = np.arange(0.0, 60.0, 0.01)
    position = np.zeros((len(time), 3))
    position[:, 0] = np.where(time < 20.0, 0.0, 3.0 * (1.0 - np.exp(-(time - 20.0) / 0.8)))
    # A gust at 40 s pushes it away by 0.5 m.
    position[:, 1] = np.where(time >= 40.0, 0.5 * np.exp(-(time - 40.0)), 0.0)
    rates = np.full((len(time), 3), 0.1)
    goals = [
        ConstantSetpoint(0.0, 20.0, np.zeros(3)),
        ConstantSetpoint(20.0, 60.0, np.array([3.0, 0.0, 0.0])),
    ]
    first, second = waypoint_results(time, position, rates, goals)
    assert first.settling is None
    assert first.hover is not None
    assert first.hover.begin == pytest.approx(5.0, abs=0.02)
    assert first.hover.position == 0.0
    assert first.hover.rates == pytest.approx(math.sqrt(3.0) * 0.1)
    assert second.settling == pytest.approx(0.8 * math.log(30.0), abs=0.03)
    (gust,) = disturbance_results(time, position, rates, goals, [22.0, 40.0])[-1:]
    assert gust.deviation == pytest.approx(0.5, abs=0.01)
    assert gust.settling == pytest.approx(math.log(5.0), abs=0.03)


def test_constant_setpoints_are_found_between_moves_and_gaps() -> None:
    time = np.arange(0.0, 50.0, 0.2)
    setpoint = np.zeros((len(time), 3))
    setpoint[time >= 10.0, 0] = 2.0
    moving = (time >= 25.0) & (time < 30.0)
    setpoint[moving, 0] = 2.0 + (time[moving] - 25.0)
    setpoint[time >= 30.0, 0] = 7.0
    setpoint[(time >= 39.5) & (time < 40.5)] = np.nan
    found = constant_setpoints(time, setpoint)
    assert [round(w.begin) for w in found] == [0, 10, 30, 41]
    assert [w.position[0] for w in found] == [0.0, 2.0, 7.0, 7.0]


@pytest.mark.parametrize(("count", "step"), [(5000, 0.004), (4001, 0.01), (3333, 0.0077)])
def test_the_spectrum_is_scipy_s(count: int, step: float) -> None:
    time = np.linspace(0.0, step * (count - 1), count)
    values = 3.0 + np.random.default_rng(0).normal(size=(count, 3))
    found = spectrum(time, values)
    assert found is not None
    rate, grid = resample_evenly(time, values)
    frequency, density = scipy.signal.welch(grid, rate, nperseg=round(4.0 * rate), axis=0)
    assert found.frequency == pytest.approx(frequency[1:])
    assert found.density == pytest.approx(density[1:], rel=1e-12)
