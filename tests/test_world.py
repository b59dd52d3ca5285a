"""Earth, atmosphere and magnetic field against published figures."""

from __future__ import annotations

import math

import numpy as np
import pymap3d
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sitl_bridge.world.atmosphere import air_at_height, pressure_altitude
from sitl_bridge.world.earth import geodetic, gravity
from sitl_bridge.world.magnetic import magnetic_field
from sitl_bridge.world.world import Origin, World, WorldSpecification


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
    found = air_at_height(float(height), 288.15, 101325.0)
    assert found[0] == pytest.approx(temperature, abs=1e-3)
    assert found[1] == pytest.approx(pressure, rel=3e-6)
    assert found[2] == pytest.approx(density, rel=3e-6)


@given(st.floats(-500.0, 10000.0))
def test_pressure_altitude_inverts_the_atmosphere(height: float) -> None:
    _, pressure, _ = air_at_height(height, 288.15, 101325.0)
    assert pressure_altitude(pressure) == pytest.approx(height, abs=1e-6)


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


def test_a_year_outside_the_magnetic_model_is_refused() -> None:
    with pytest.raises(ValueError, match="2025 to 2030"):
        magnetic_field(0.0, 0.0, 0.0, 2031.0)


def test_gravity_is_the_ellipsoid_s() -> None:
    # NIMA TR8350.2: 9.7803253359 at the equator, 9.8321849378 at the poles.
    assert gravity(0.0, 0.0) == pytest.approx(9.7803253359, abs=1e-9)
    assert gravity(math.pi / 2, 0.0) == pytest.approx(9.8321849378, abs=1e-9)
    assert gravity(0.0, 1000.0) - gravity(0.0, 0.0) == pytest.approx(-3.086e-3, rel=3e-3)


@settings(deadline=None)
@given(
    st.floats(-89.9, 89.9),
    st.floats(-180.0, 180.0),
    st.floats(-400.0, 5000.0),
    st.tuples(st.floats(-20e3, 20e3), st.floats(-20e3, 20e3), st.floats(-5e3, 1e3)),
)
def test_local_points_become_geodetic_ones_as_in_pymap3d(
    latitude: float, longitude: float, altitude: float, ned: tuple[float, float, float]
) -> None:
    world = World(
        WorldSpecification(origin=Origin(latitude=latitude, longitude=longitude, altitude=altitude))
    )
    lat, lon, height = geodetic(world.environment[0], *ned)
    expected = pymap3d.ned2geodetic(*ned, latitude, longitude, altitude)
    assert math.degrees(lat) == pytest.approx(expected[0], abs=2e-9)
    turn = (math.degrees(lon) - expected[1] + 180.0) % 360.0 - 180.0
    assert turn * math.cos(lat) == pytest.approx(0.0, abs=2e-9)
    assert height == pytest.approx(expected[2], abs=1e-3)


def test_points_go_to_the_globe_and_back() -> None:
    world = World()
    point = np.array([123.0, -45.0, -67.0])
    np.testing.assert_allclose(world.ned(*world.geodetic(point)), point, atol=1e-6)
