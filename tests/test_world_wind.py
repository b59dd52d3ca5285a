"""Wind: MIL-F-8785C's figures, the spectra of the turbulence, gusts, series, and what users write."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.signal import welch

from sitl_bridge.dynamics.records import STATE
from sitl_bridge.errors import UserError
from sitl_bridge.kernels.compiled import compiled
from sitl_bridge.kernels.random_streams import stream
from sitl_bridge.simulation import Simulation
from sitl_bridge.world.records import WIND_STATE
from sitl_bridge.world.wind import (
    Gust,
    LogProfile,
    SteadyWind,
    WindSeries,
    WindSpecification,
    dryden_scales,
    parse_wind,
    wind_velocity,
)
from sitl_bridge.world.world import World, WorldSpecification

FEET = 0.3048


@compiled
def _blow(wind: Any, states: Any, series: Any, vehicles: Any, start: int, step: int, out: Any) -> None:
    for k in range(out.shape[0]):
        n, e, d = wind_velocity(wind[0], states[0], series, vehicles[0], start + k * step, step * 1e-6)
        out[k, 0] = n
        out[k, 1] = e
        out[k, 2] = d


def blow(
    specification: WindSpecification,
    *,
    height: float = 20.0,
    count: int = 1,
    step: int = 4000,
    velocity: tuple[float, float, float] = (0.0, 0.0, 0.0),
    start: int = 0,
    seed: int = 0,
) -> NDArray[np.float64]:
    """(count, 3) wind NED at a vehicle that keeps its height and velocity."""
    states = np.zeros(1, WIND_STATE)
    states["random"] = stream(seed, "wind")
    vehicles = np.zeros(1, STATE)
    vehicles["position"] = (0.0, 0.0, -height)
    vehicles["velocity"] = velocity
    out = np.zeros((count, 3))
    _blow(specification.pack(0), states, specification.load_series(), vehicles, start, step, out)
    return out


def test_a_wind_blows_from_where_it_is_said_to_come() -> None:
    west = WindSpecification(steady=SteadyWind(speed=8.0, direction=270.0))
    np.testing.assert_allclose(blow(west)[0], [0.0, 8.0, 0.0], atol=1e-12)


@pytest.mark.parametrize("feet", [20.0, 100.0, 999.0])
def test_the_mean_wind_grows_with_height_as_the_logarithmic_profile(feet: float) -> None:
    profile = WindSpecification(log_profile=LogProfile(speed=5.0, direction=180.0, roughness=0.15 * FEET))
    expected = 5.0 * math.log(feet / 0.15) / math.log(20.0 / 0.15)
    assert blow(profile, height=feet * FEET)[0, 0] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("height", "length_u", "length_w", "ratio"),
    [
        (6.096, 43.77, 6.10, 1.9291),
        (20.0, 116.06, 20.0, 1.7970),
        (50.0, 202.29, 50.0, 1.5934),
        (100.0, 262.79, 100.0, 1.3800),
    ],
)
def test_scales_and_intensities_of_the_turbulence(
    height: float, length_u: float, length_w: float, ratio: float
) -> None:
    found = dryden_scales(height, 10.0)
    assert found[0] == pytest.approx(length_u, abs=0.006)
    assert found[1] == pytest.approx(length_w, abs=0.006)
    assert found[2] / found[3] == pytest.approx(ratio, abs=6e-5)
    assert found[3] == pytest.approx(1.0)


def test_above_2000_feet_the_turbulence_is_isotropic() -> None:
    length_u, length_w, _, _ = dryden_scales(2500 * FEET, 10.0)
    assert length_u == pytest.approx(1750 * FEET)
    assert length_w == pytest.approx(1750 * FEET)


@pytest.mark.parametrize("step", [4000, 50_000])
def test_the_turbulence_has_the_intensity_and_the_spectrum_of_the_standard(step: int) -> None:
    height, speed, count = 20.0, 15.0, 400_000
    gusty = WindSpecification(turbulence=10.0)
    series = blow(gusty, height=height, count=count, step=step, velocity=(speed, 0.0, 0.0), seed=3)
    length_u, length_w, sigma_u, sigma_w = dryden_scales(height, 10.0)
    rate = 1e6 / step
    for axis, sigma, length in ((0, sigma_u, length_u), (1, sigma_u, length_u), (2, sigma_w, length_w)):
        # The variance of a mean over n = T V / (2 L) independent pieces scatters by sqrt(2/n).
        pieces = count * step * 1e-6 * speed / (2.0 * length)
        assert np.var(series[:, axis]) == pytest.approx(sigma**2, rel=5.0 * math.sqrt(2.0 / pieces))
        frequency, density = welch(series[:, axis], fs=rate, nperseg=8192)
        # One-sided spectra in Hz of MIL-F-8785C's H_u and H_v,w.
        a = 2.0 * math.pi * frequency * length / speed
        if axis == 0:
            expected = 4.0 * sigma**2 * length / speed / (1.0 + a**2)
        else:
            expected = 2.0 * sigma**2 * length / speed * (1.0 + 3.0 * a**2) / (1.0 + a**2) ** 2
        band = (frequency > 4 * rate / 8192) & (frequency < rate / 20.0)
        ratio = density[band] / expected[band]
        assert np.mean(ratio) == pytest.approx(1.0, abs=0.08)
        edges = np.array_split(ratio, 4)
        assert all(abs(float(np.mean(part)) - 1.0) < 0.15 for part in edges)


def test_turbulence_does_not_vanish_at_a_hover_in_calm_air() -> None:
    calm = blow(WindSpecification(turbulence="light"), count=20_000, seed=1)
    assert np.std(np.diff(calm[::250, 2])) > 0.05


def test_turbulence_is_laid_along_the_mean_wind() -> None:
    wind = WindSpecification(steady=SteadyWind(speed=10.0, direction=270.0), turbulence=5.0)
    series = blow(wind, count=100_000, step=20_000, seed=2)
    assert np.mean(series[:, 1]) == pytest.approx(10.0, abs=0.5)
    assert np.std(series[:, 2]) < np.std(series[:, 1])


def test_a_gust_rises_as_one_minus_cosine_holds_and_fades() -> None:
    gust = WindSpecification(
        gusts=(Gust(start=1.0, speed=6.0, direction=180.0, length=40.0, passing_speed=20.0, hold=3.0),)
    )

    def at(seconds: float) -> float:
        return float(blow(gust, start=round(seconds * 1e6))[0, 0])

    assert at(0.9) == 0.0
    assert at(2.0) == pytest.approx(3.0)
    assert at(1.5) == pytest.approx(6.0 / 2.0 * (1.0 - math.cos(math.pi * 10.0 / 40.0)))
    assert at(4.0) == pytest.approx(6.0)
    assert at(7.0) == pytest.approx(3.0)
    assert at(9.0) == 0.0


def test_a_recorded_wind_is_followed_and_winds_add_up(tmp_path: Path) -> None:
    file = tmp_path / "wind.csv"
    file.write_text("t,north,east,down\n0,0,0,0\n2,4,-2,1\n")
    wind = WindSpecification(
        steady=SteadyWind(speed=1.0, direction=180.0), series=WindSeries(file=file, repeat=False)
    )
    np.testing.assert_allclose(blow(wind, start=1_000_000)[0], [3.0, -1.0, 0.5], atol=1e-12)
    np.testing.assert_allclose(blow(wind, start=9_000_000)[0], [5.0, -2.0, 1.0], atol=1e-12)


@pytest.mark.parametrize("first", [0.0, 10.0, 1.7e9])
def test_a_repeating_wind_goes_through_its_table_again_wherever_its_times_begin(
    tmp_path: Path, first: float
) -> None:
    file = tmp_path / "wind.csv"
    file.write_text(f"t,north,east,down\n{first},0,0,0\n{first + 2.0},4,0,0\n{first + 4.0},0,0,0\n")
    world = World(
        WorldSpecification(wind=WindSpecification(series=WindSeries(file=file, repeat=True))), start=0
    )
    out = np.zeros((1, 3))
    states, vehicles = np.zeros(1, WIND_STATE), np.zeros(1, STATE)
    for seconds in (0.5, 3.0, 10.5, 12.0, 14.5, 31.0):
        _blow(world.wind, states, world.wind_series, vehicles, round(seconds * 1e6), 4000, out)
        # A triangle of 4 m/s and 4 s; ``first`` is where it stands at the time 0.
        phase = (seconds - first) % 4.0
        assert out[0, 0] == pytest.approx(2.0 * min(phase, 4.0 - phase), abs=1e-6)


@pytest.mark.parametrize(
    "names", ["t,east,north,down", "time,north,east,down", "t,north,east,up", "t,speed,direction,down"]
)
def test_columns_in_another_order_or_of_other_names_are_refused(tmp_path: Path, names: str) -> None:
    file = tmp_path / "wind.csv"
    file.write_text(f"# recorded on a mast\n{names}\n0,1,2,3\n1,1,2,3\n")
    with pytest.raises(UserError, match=rf"wind\.csv: .*t,north,east,down in this order.*not {names}"):
        WindSpecification(series=WindSeries(file=file)).load_series()


def test_column_names_may_be_quoted_or_left_out(tmp_path: Path) -> None:
    file = tmp_path / "wind.csv"
    series = WindSpecification(series=WindSeries(file=file))
    for header in ('"T", "North", "East", "Down"\n', "\ufefft,north,east,down\n", ""):
        file.write_text(f"{header}0,1,2,3\n1,4,5,6\n", encoding="utf-8")
        np.testing.assert_array_equal(series.load_series(), [[0, 1, 2, 3], [1, 4, 5, 6]])


def test_another_wind_set_in_flight_blows_from_the_next_step_on(
    make_simulation: Callable[..., Simulation], tmp_path: Path
) -> None:
    file = tmp_path / "wind.csv"
    file.write_text("t,north,east,down\n0,0,0,0\n1,0,0,2\n")
    simulation = make_simulation()
    simulation.advance(10)
    np.testing.assert_array_equal(simulation.states["wind"], [[0.0, 0.0, 0.0]])
    gust = Gust(start=0.5, speed=6.0, direction=180.0, length=2.0, passing_speed=20.0)
    simulation.world.set_wind(
        WindSpecification(steady=SteadyWind(speed=8.0, direction=270.0), gusts=(gust,)), simulation.time
    )
    simulation.advance(1)
    np.testing.assert_allclose(simulation.states["wind"], [[0.0, 8.0, 0.0]], atol=1e-12)
    simulation.advance(250)
    np.testing.assert_allclose(simulation.states["wind"], [[6.0, 8.0, 0.0]], atol=1e-12)
    simulation.world.set_wind(WindSpecification(series=WindSeries(file=file)), simulation.time)
    simulation.advance(126)  # the last of these steps begins half a second after the change
    np.testing.assert_allclose(simulation.states["wind"], [[0.0, 0.0, 1.0]], atol=1e-9)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("t,north,east,down\n0,1,2\n1,2,3\n", "columns"),
        ("0,0,0,0\n0,1,1,1\n", "rise"),
        ("0,0,0,0\n1,nan,1,1\n", "columns"),
        ("nonsense\n", "table|columns"),
    ],
)
def test_a_faulty_recorded_wind_is_refused_with_its_reason(tmp_path: Path, content: str, told: str) -> None:
    file = tmp_path / "wind.csv"
    file.write_text(content)
    with pytest.raises(UserError, match=told):
        WindSpecification(series=WindSeries(file=file)).load_series()


def test_a_missing_recorded_wind_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nowhere\.csv"):
        WindSpecification(series=WindSeries(file=tmp_path / "nowhere.csv")).load_series()


def test_the_same_seed_gives_the_same_wind_and_another_seed_another() -> None:
    gusty = WindSpecification(turbulence="moderate")
    np.testing.assert_array_equal(blow(gusty, count=100, seed=1), blow(gusty, count=100, seed=1))
    assert not np.array_equal(blow(gusty, count=100, seed=1), blow(gusty, count=100, seed=2))


def test_winds_are_read_from_the_command_line() -> None:
    wind = parse_wind("8@270,turbulence=light")
    assert wind.steady == SteadyWind(speed=8.0, direction=270.0)
    assert wind.turbulence == "light"
    assert parse_wind("6@90,profile=log").log_profile is not None
    assert parse_wind("turbulence=12.5").turbulence == 12.5


@pytest.mark.parametrize(
    "text",
    [
        "", "x", "8@", "8@y", "-3@0", "8@270,gale", "8,profile=jet", "nan@0", "turbulence=no",
        "turbulence=-3", "turbulence=0", "turbulence=nan", "turbulence=inf", "turbulence=", "8@270@3",
        "8@270,5@90", "turbulence=light,turbulence=severe", "8,profile=log,profile=steady", "profile=log",
        "turbulence=light,profile=log",
    ],
)  # fmt: skip
def test_what_is_no_wind_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UserError, match="8@270"):
        parse_wind(text)
