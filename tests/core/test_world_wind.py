"""Wind: MIL-F-8785C's figures, the spectra of the turbulence, gusts, series, and what users write."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy
from numpy.typing import NDArray

from sitl_bridge.base.errors import UserError
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.base.kernels.random_streams import stream
from sitl_bridge.core.dynamics.performance import performance
from sitl_bridge.core.simulation.simulation import Simulation
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.air import air_velocity
from sitl_bridge.core.world.records import WIND_STATE
from sitl_bridge.core.world.turbulence import dryden_scales, turbulence_field
from sitl_bridge.core.world.wind import (
    Gust,
    LogProfile,
    SteadyWind,
    WindSeries,
    WindSpecification,
    carry_turbulence,
    parse_wind,
)
from sitl_bridge.core.world.world import World, WorldSpecification

FEET = 0.3048


@compiled
def _blow(
    wind: Any, field: Any, memories: Any, series: Any, places: Any, start: int, step: int, out: Any
) -> None:
    memory = memories[0]
    for k in range(out.shape[0]):
        x, y, z = places[k]
        n, e, d = air_velocity(wind[0], field[0], memory, series, start + k * step, x, y, z, 0.0)
        out[k, 0], out[k, 1], out[k, 2] = n, e, d
        carry_turbulence(wind[0], memory, series, start + k * step, step * 1e-6)


def blow(
    specification: WindSpecification,
    *,
    height: float = 20.0,
    count: int = 1,
    step: int = 4000,
    velocity: tuple[float, float, float] = (0.0, 0.0, 0.0),
    place: tuple[float, float] = (0.0, 0.0),
    start: int = 0,
    seed: int = 0,
) -> NDArray[np.float64]:
    """(count, 3) wind NED where a vehicle is that keeps its height and velocity."""
    seconds = np.arange(count)[:, None] * step * 1e-6
    places = np.array([*place, -height]) + seconds * np.array(velocity)
    field = turbulence_field(stream(seed, "turbulence"))
    out = np.zeros((count, 3))
    _blow(
        specification.pack(0),
        field,
        np.zeros(1, WIND_STATE),
        specification.load_series(),
        places,
        start,
        step,
        out,
    )
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


def test_the_turbulence_has_the_intensity_and_the_spectrum_of_the_standard() -> None:
    """MIL-F-8785C's H_u and H_v,w in Hz, over a flight of 12 km in each of twenty winds."""
    height, speed, count, step, runs = 20.0, 15.0, 16_384, 50_000, 20
    gusty = WindSpecification(turbulence=10.0)
    length_u, length_w, sigma_u, sigma_w = dryden_scales(height, 10.0)
    series = np.array(
        [
            blow(gusty, height=height, count=count, step=step, velocity=(speed - 1.0, 0.0, 0.0), seed=seed)
            for seed in range(runs)
        ]
    )
    # The field itself moves north at 1 m/s, so that the air passes at 2 m/s less.
    passing = speed - 2.0
    for axis, sigma, length in ((0, sigma_u, length_u), (1, sigma_u, length_u), (2, sigma_w, length_w)):
        assert np.mean(series[:, :, axis] ** 2) == pytest.approx(sigma**2, rel=0.1)
        frequency, density = scipy.signal.welch(series[:, :, axis], fs=1e6 / step, nperseg=2048)
        a = 2.0 * math.pi * frequency * length / passing
        if axis == 0:
            expected = 4.0 * sigma**2 * length / passing / (1.0 + a**2)
        else:
            expected = 2.0 * sigma**2 * length / passing * (1.0 + 3.0 * a**2) / (1.0 + a**2) ** 2
        band = (frequency > 0.03) & (frequency < 3.0)
        ratio = np.mean(density, axis=0)[band] / expected[band]
        edges = np.searchsorted(frequency[band], np.geomspace(0.03, 3.0, 5)[1:-1])
        for part in np.split(ratio, edges):
            assert float(np.mean(part)) == pytest.approx(1.0, abs=0.2)


def test_neighbours_in_turbulence_differ_as_the_correlation_over_their_distance_lets_them() -> None:
    """sigma^2 2 (1 - f) with f = exp(-r/L) along and (1 - r/2L) exp(-r/L) across; 0.24 m/s at 1 m."""
    gusty = WindSpecification(turbulence=15.0)
    length, length_w, sigma, sigma_w = dryden_scales(49.2, 15.0)
    assert length == pytest.approx(200.0, abs=1.0)
    for apart in (1.0, 5.0, 20.0):
        squares = np.zeros(3)
        for seed in range(10):
            here = blow(gusty, height=49.2, count=2000, step=1_000_000, seed=seed)
            there = blow(gusty, height=49.2, count=2000, step=1_000_000, seed=seed, place=(apart, 0.0))
            squares += np.mean((here - there) ** 2, axis=0) / 10
        decay = math.exp(-apart / length)
        along = 2.0 * sigma**2 * (1.0 - decay)
        across = 2.0 * sigma**2 * (1.0 - (1.0 - apart / (2.0 * length)) * decay)
        sinking = 2.0 * sigma_w**2 * (1.0 - (1.0 - apart / (2.0 * length_w)) * math.exp(-apart / length_w))
        assert squares == pytest.approx([along, across, sinking], rel=0.2)
    assert sigma * math.sqrt(2.0 * (1.0 - math.exp(-1.0 / length))) == pytest.approx(0.24, abs=0.01)


def test_vehicles_of_one_simulation_fly_in_the_same_turbulence(
    make_simulation: Callable[..., Simulation],
) -> None:
    windy = WorldSpecification(wind=parse_wind("8@270,turbulence=light"))
    simulation = make_simulation("iris", "iris", world=windy)
    simulation.states["position"] = [(0.0, 0.0, -50.0), (1.0, 0.0, -50.0)]
    simulation.advance(1)
    winds = simulation.states["wind"]
    assert np.linalg.norm(winds[0] - winds[1]) < 0.6
    assert np.linalg.norm(winds[0] - [0.0, 8.0, 0.0]) > 0.2


def test_the_wind_carries_the_turbulence_from_place_to_place() -> None:
    wind = parse_wind("10@270,turbulence=moderate")
    here = blow(wind, height=30.0, count=100, step=100_000, seed=4)
    downwind = blow(wind, height=30.0, count=100, step=100_000, seed=4, place=(0.0, 20.0))
    np.testing.assert_allclose(downwind[20:], here[:-20], atol=1e-6)


def test_turbulence_is_continuous_over_height() -> None:
    gusty = WindSpecification(turbulence="light")
    climb = blow(gusty, height=30.0, count=30_000, step=10_000, velocity=(0.0, 0.0, -2.3), seed=5)
    assert np.abs(np.diff(climb, axis=0)).max() < 0.25


def test_turbulence_does_not_vanish_at_a_hover_in_calm_air() -> None:
    calm = blow(WindSpecification(turbulence="light"), count=2_000, step=40_000, seed=1)
    assert np.std(np.diff(calm[::25, 2])) > 0.05


def test_an_episode_has_air_of_its_own_and_vehicles_share_it(
    make_simulation: Callable[..., Simulation],
) -> None:
    windy = WorldSpecification(wind=parse_wind("8@270,turbulence=light"))
    simulation = make_simulation("iris", "iris", world=windy)
    winds = []
    for episodes in ((0, 0), (1, 1), (2, 2)):
        simulation.reset(episodes=episodes)
        simulation.states["position"] = [(0.0, 0.0, -50.0), (1.0, 0.0, -50.0)]
        simulation.advance(1)
        winds.append(simulation.states["wind"].copy())
        assert np.linalg.norm(winds[-1][0] - winds[-1][1]) < 0.6
    assert not np.allclose(winds[0], winds[1])
    assert not np.allclose(winds[1], winds[2])


def test_a_gust_arrives_at_places_in_the_order_in_which_the_wind_carries_it() -> None:
    gust = Gust(start=10.0, speed=6.0, direction=180.0, length=5.0, passing_speed=5.0)
    cross = WindSpecification(steady=SteadyWind(speed=5.0, direction=270.0), gusts=(gust,))
    calm = WindSpecification(gusts=(gust,))

    def arrival(wind: WindSpecification, north: float, east: float) -> float:
        blown = blow(wind, count=6000, step=10_000, place=(north, east))[:, 0]
        return float(np.argmax(blown > 1e-9)) * 0.01

    for east, seconds in ((-25.0, 5.0), (0.0, 10.0), (25.0, 15.0), (50.0, 20.0)):
        assert arrival(cross, 3.0, east) == pytest.approx(seconds, abs=0.03)
    assert arrival(calm, 25.0, 7.0) == pytest.approx(15.0, abs=0.03)


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
    field, place = turbulence_field(stream(0, "turbulence")), np.zeros((1, 3))
    for seconds in (0.5, 3.0, 10.5, 12.0, 14.5, 31.0):
        _blow(
            world.wind,
            field,
            np.zeros(1, WIND_STATE),
            world.wind_series,
            place,
            round(seconds * 1e6),
            4000,
            out,
        )
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
        ("t,north,east,down\n0,1,2\n1,2,3\n", "row 1 .* not four"),
        ("0,0,0,0\n0,1,1,1\n", "rise"),
        ("0,0,0,0\n1,nan,1,1\n", "row 2 .* is '1,nan,1,1', not four finite numbers"),
        ("# gusts\n0,0,0,0\n1,,1,1\n", "row 2 .* is '1,,1,1', not four"),
        ("0,0,0,0\n1,0,151,0\n", "row 2 .*, '1,0,151,0', is above 150 m/s"),
        ("nonsense\n", "columns"),
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


def test_the_logarithmic_wind_falls_to_calm_at_the_ground() -> None:
    profile = WindSpecification(log_profile=LogProfile(speed=5.0, direction=180.0, roughness=0.15 * FEET))
    expected = 5.0 * math.log(0.1 / (0.15 * FEET)) / math.log(20.0 / 0.15)
    assert blow(profile, height=0.1)[0, 0] == pytest.approx(expected)
    assert blow(profile, height=0.0)[0, 0] == 0.0


def test_the_ground_blocks_the_vertical_turbulence() -> None:
    """Hunt and Graham's w near a wall: from its full intensity at 10 ft to a third of it at 0.2 m."""
    gusty = WindSpecification(turbulence=10.0)
    deviations = []
    for height in (0.2, 3.1):
        runs = [blow(gusty, height=height, count=800, step=500_000, seed=seed)[:, 2] for seed in range(8)]
        deviations.append(float(np.sqrt(np.mean(np.square(runs)))))
    assert deviations[1] == pytest.approx(1.0, abs=0.15)
    assert deviations[0] == pytest.approx(0.32, abs=0.05)


def rolling_air(simulation: Simulation, steps: int) -> NDArray[np.float64]:
    """(steps,) gradient of the vertical wind over the span of an x500 at hover, 1/s, from its rotors' air."""
    y = simulation.vehicles[0]["rotor_position"][:4, 1]
    out = []
    for _ in range(steps):
        simulation.states["position"], simulation.states["velocity"] = (0.0, 0.0, -20.0), 0.0
        simulation.states["attitude"] = (1.0, 0.0, 0.0, 0.0)
        simulation.advance(1)
        out.append(simulation.states[0]["rotor_air"][:4, 2] @ y / (y @ y))
    return np.array(out)


def test_turbulence_turns_a_vehicle_as_the_standard_has_it(
    make_simulation: Callable[..., Simulation],
) -> None:
    """sigma_p = 1.9 sigma_w/sqrt(L_w b): within a factor of two, for rotors average less than a wing."""
    wind = WorldSpecification(wind=parse_wind("8@270,turbulence=10"))
    rates = np.concatenate(
        [rolling_air(make_simulation("x500_gazebo", seed=seed, world=wind), 4000)[::20] for seed in range(6)]
    )
    expected = 1.9 / math.sqrt(20.0 * 2.0 * (0.174 + 0.1396))
    assert 0.5 * expected < np.sqrt(np.mean(rates**2)) < expected


def sinking_in_the_east(_: float, place: tuple[float, float, float]) -> tuple[float, float, float]:
    return 0.0, 0.0, 2.0 * place[1]


def test_a_gust_that_differs_over_the_span_rolls_a_vehicle(
    make_simulation: Callable[..., Simulation],
) -> None:
    """w = 2 east at a hover: 4 rotors' thrust over inflow, times y^2, times the gradient: 0.08 N m."""
    simulation = make_simulation("x500_gazebo", world=WorldSpecification(wind=sinking_in_the_east))
    speed = performance(load_airframe("x500_gazebo").record, 1.168, 9.81).hover.rotor_speed
    simulation.states["position"], simulation.armed[0] = (0.0, 0.0, -50.0), 1
    simulation.controls[0, :4] = 0.66
    for _ in range(50):
        simulation.states["position"], simulation.states["velocity"] = (0.0, 0.0, -50.0), 0.0
        simulation.states["attitude"], simulation.states["angular_velocity"] = (1.0, 0.0, 0.0, 0.0), 0.0
        simulation.states["rotor_speed"][0, :4] = speed
        simulation.advance(1)
    moment = simulation.vehicles[0]["inertia"] @ simulation.states[0]["angular_acceleration"]
    assert moment[0] == pytest.approx(0.081, rel=0.15)


def test_a_straight_gust_front_pitches_a_vehicle(make_simulation: Callable[..., Simulation]) -> None:
    """The rotors that the updraught reaches first lift more: at the front an x500's air differs by hub."""
    gust = Gust(start=0.0, speed=1e-6, upward=5.0, length=1.0, passing_speed=5.0, direction=180.0)
    simulation = make_simulation(
        "x500_gazebo", world=WorldSpecification(wind=WindSpecification(gusts=(gust,)))
    )
    simulation.states["position"] = (0.0, 0.0, -50.0)
    simulation.advance(25)
    air = simulation.states[0]["rotor_air"][:4, 2]
    front = simulation.vehicles[0]["rotor_position"][:4, 0] > 0.0
    # V_m/2 pi/d_m sin(pi x/d_m) per m, 0.48 m behind the front.
    slope = 0.5 * 5.0 * math.pi * math.sin(math.pi * 0.48)
    assert air[front] == pytest.approx(0.174 * slope, rel=0.05)
    assert air[~front] == pytest.approx(-0.174 * slope, rel=0.05)
