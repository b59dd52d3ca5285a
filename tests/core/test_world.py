"""Earth, atmosphere and magnetic field against published figures."""

from __future__ import annotations

import math

import numpy as np
import pymap3d.vincenty
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sitl_bridge.core.world.atmosphere import air, air_at_height, pressure_altitude
from sitl_bridge.core.world.earth import geodetic, gravity, local_gravity, magnetic_field
from sitl_bridge.core.world.world import Origin, UniformField, World, WorldSpecification


@pytest.mark.parametrize(
    ("height", "temperature", "pressure", "density"),
    [
        (0, 288.150, 101325.00, 1.225000),
        (488, 284.978, 95598.28, 1.168630),
        (1000, 281.650, 89874.56, 1.111643),
        (3000, 268.650, 70108.53, 0.909122),
        (5000, 255.650, 54019.89, 0.736116),
        # ISO 2533, the isothermal layer.
        (11000, 216.650, 22632.04, 0.363918),
        (15000, 216.650, 12044.57, 0.193673),
    ],
)
def test_the_atmosphere_is_iso_2533(
    height: float, temperature: float, pressure: float, density: float
) -> None:
    # The standard's heights are geopotential ones.
    found = air_at_height(height * 6356766.0 / (6356766.0 - height), 288.15, 101325.0)
    assert found[0] == pytest.approx(temperature, abs=1e-3)
    assert found[1] == pytest.approx(pressure, rel=3e-6)
    assert found[2] == pytest.approx(density, rel=3e-6)


@given(st.floats(-500.0, 10000.0))
def test_pressure_altitude_inverts_the_atmosphere(height: float) -> None:
    _, pressure, _ = air_at_height(height, 288.15, 101325.0)
    assert pressure_altitude(pressure) == pytest.approx(height * 6356766.0 / (6356766.0 + height), abs=1e-6)


@pytest.mark.parametrize(
    ("year", "height", "latitude", "longitude", "field"),
    [
        (2025.0, 0.0, 80.0, 0.0, (6521.6, 145.9, 54791.5)),
        (2025.0, 0.0, 0.0, 120.0, (39677.8, -109.6, -10580.2)),
        (2027.5, 100e3, -80.0, 240.0, (5983.98, 14760.14, -49317.67)),
    ],
)
def test_the_magnetic_field_is_that_of_wmm2025(
    year: float, height: float, latitude: float, longitude: float, field: tuple[float, float, float]
) -> None:
    found = magnetic_field(math.radians(latitude), math.radians(longitude), height, year) * 1e9
    np.testing.assert_allclose(found, field, atol=0.06)


def test_a_uniform_field_takes_the_place_of_the_model() -> None:
    field = UniformField(declination=90.0, inclination=60.0, strength=50.0)
    record = World(WorldSpecification(magnetic_field=field)).environment[0]
    np.testing.assert_allclose(record["magnetic_field"] * 1e6, (0.0, 25.0, 25.0 * math.sqrt(3.0)), atol=1e-9)
    assert not record["magnetic_slope"].any()
    assert World().environment[0]["magnetic_slope"].any()


def test_a_year_outside_the_magnetic_model_is_refused() -> None:
    with pytest.raises(ValueError, match="2025 to 2030"):
        magnetic_field(0.0, 0.0, 0.0, 2031.0)


def test_gravity_is_the_ellipsoid_s() -> None:
    # NIMA TR8350.2: 9.7803253359 at the equator, 9.8321849378 at the poles.
    assert gravity(0.0, 0.0) == pytest.approx(9.7803253359, abs=1e-9)
    assert gravity(math.pi / 2, 0.0) == pytest.approx(9.8321849378, abs=1e-9)
    assert gravity(0.0, 1000.0) - gravity(0.0, 0.0) == pytest.approx(-3.086e-3, rel=3e-3)


@settings(deadline=None, max_examples=60)
@given(
    st.floats(-80.0, 80.0),
    st.floats(-180.0, 180.0),
    st.floats(-400.0, 5000.0),
    st.floats(0.0, 360.0),
    st.floats(0.0, 20e3),
    st.floats(-5e3, 1e3),
)
def test_local_points_lie_on_the_ellipsoid_as_geodesics_from_the_origin(
    latitude: float, longitude: float, altitude: float, bearing: float, distance: float, down: float
) -> None:
    """Against Vincenty's geodesics (pymap3d), on the ellipsoid below the origin's level."""
    origin = Origin(latitude=latitude, longitude=longitude, altitude=altitude)
    world = World(WorldSpecification(origin=origin))
    angle = math.radians(bearing)
    north, east = distance * math.cos(angle), distance * math.sin(angle)
    lat, lon, height = geodetic(world.environment[0], north, east, down)
    below = distance / (1.0 + altitude / 6.37e6)
    expected = pymap3d.vincenty.vreckon(latitude, longitude, below, bearing)
    assert (math.degrees(lat) - expected[0]) * 111e3 == pytest.approx(0.0, abs=0.2)
    turn = (math.degrees(lon) - expected[1] + 180.0) % 360.0 - 180.0
    assert turn * 111e3 * math.cos(lat) == pytest.approx(0.0, abs=0.2)
    assert height == pytest.approx(altitude - down, abs=1e-9)
    np.testing.assert_allclose(
        world.geodetic(np.array([north, east, down])),
        (math.degrees(lat), math.degrees(lon), height),
        atol=1e-9,
    )


@pytest.mark.parametrize("ned", [(20e3, 0.0, -100.0), (-14e3, 14e3, -100.0), (0.0, 5e3, -20.0)])
def test_altitude_pressure_gravity_and_field_agree_far_from_the_origin(
    ned: tuple[float, float, float],
) -> None:
    """A world with its origin there has the same."""
    world = World()
    latitude, longitude, height = world.geodetic(np.array(ned))
    there = World(WorldSpecification(origin=Origin(latitude=latitude, longitude=longitude, altitude=height)))
    here, origin = world.environment[0], there.environment[0]
    assert height == 488.0 - ned[2]
    assert air(here, ned[2])[1] == pytest.approx(air(origin, 0.0)[1], rel=1e-12)
    assert local_gravity(here, ned[0], ned[2]) == pytest.approx(origin["gravity"], abs=1e-6)
    field = here["magnetic_field"] + here["magnetic_slope"] @ np.array(ned)
    np.testing.assert_allclose(field, origin["magnetic_field"], atol=15e-9)


def test_points_go_to_the_globe_and_back() -> None:
    world = World()
    for point in (np.array([123.0, -45.0, -67.0]), np.array([-14e3, 14e3, -500.0])):
        np.testing.assert_allclose(world.ned(*world.geodetic(point)), point, atol=1e-3)
    np.testing.assert_allclose(world.ned(*world.geodetic(np.zeros(3))), 0.0, atol=1e-8)


@pytest.mark.parametrize(
    ("height", "temperature", "pressure"),
    [(1000.0, 281.651, 8.9876e4), (3000.0, 268.659, 7.0121e4), (5000.0, 255.676, 5.4048e4)],
)
def test_the_atmosphere_takes_heights_as_geometric(
    height: float, temperature: float, pressure: float
) -> None:
    """U.S. Standard Atmosphere 1976, table I, by geometric altitude."""
    found = air_at_height(height, 288.15, 101325.0)
    assert found[0] == pytest.approx(temperature, abs=6e-4)
    assert found[1] == pytest.approx(pressure, rel=1e-5)
