"""Writes published figures beside those of this version into docs/validation-figures.md.

Run it through scripts/validation; it needs no flight stack.  A test holds the page to
the figures, within one unit of the last digit.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sitl_bridge.core.dynamics.forces import ground_effect_factor
from sitl_bridge.core.dynamics.performance import performance
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.atmosphere import EARTH_RADIUS, air_at_height
from sitl_bridge.core.world.earth import gravity, magnetic_field
from sitl_bridge.core.world.turbulence import dryden_scales
from sitl_bridge.lab.validation.benchmark import update_page

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from core.test_induced_flow import (  # noqa: E402  (of the tests, not a package)
    DIAMETER,
    STATIC,
    TUNNEL_6020,
    TUNNEL_6512,
    coefficients,
    propeller,
)
from support.sensor_bench import STEP, Bench, allan  # noqa: E402

PAGE = ROOT / "docs" / "validation-figures.md"
SEA_LEVEL = 1.225
"""kg/m^3"""


@dataclass(frozen=True)
class Figure:
    """A published figure, with its digits, beside the simulated one."""

    quantity: str  # with its unit
    case: str  # where, or of what
    published: str
    value: float

    @property
    def decimals(self) -> int:
        """Digits behind the point of the published figure."""
        return len(self.published.partition(".")[2])

    @property
    def shown(self) -> str:
        """The simulated value with the digits of the published one."""
        text = f"{self.value:.{self.decimals}f}"
        return text.removeprefix("-") if float(text) == 0.0 else text

    @property
    def cell(self) -> str:
        """Published and simulated, or one for both."""
        return self.published if self.shown == self.published else f"{self.published}, {self.shown}"

    @property
    def difference(self) -> float:
        """Simulated less published."""
        return self.value - float(self.published)


def atmosphere() -> Iterator[Figure]:
    """The standard atmosphere."""
    for height, *published in (
        (0, "288.150", "101325.00", "1.225000"),
        (1000, "281.650", "89874.56", "1.111643"),
        (5000, "255.650", "54019.89", "0.736116"),
        (15000, "216.650", "12044.57", "0.193673"),
    ):
        # The standard's heights are geopotential ones.
        found = air_at_height(height * EARTH_RADIUS / (EARTH_RADIUS - height), 288.15, 101325.0)
        for name, unit, text, value in zip(
            ("temperature", "pressure", "density"), ("K", "Pa", "kg/m³"), published, found, strict=True
        ):
            yield Figure(f"{name}, {unit}", f"{height} m", text, float(value))


def earth() -> Iterator[Figure]:
    """Gravity on the ellipsoid, and the magnetic field."""
    yield Figure("gravity, m/s²", "the equator", "9.7803253", gravity(0.0, 0.0))
    yield Figure("gravity, m/s²", "the poles", "9.8321849", gravity(math.pi / 2, 0.0))
    for year, height, latitude, longitude, *published in (
        (2025.0, 0.0, 80.0, 0.0, "6521.6", "145.9", "54791.5"),
        (2025.0, 0.0, 0.0, 120.0, "39677.8", "-109.6", "-10580.2"),
        (2027.5, 100.0, -80.0, 240.0, "5983.98", "14760.14", "-49317.67"),
    ):
        place = f"{latitude:g}°, {longitude:g}°, {height:g} km, {year:g}"
        field = magnetic_field(math.radians(latitude), math.radians(longitude), 1e3 * height, year) * 1e9
        for axis, text, value in zip("XYZ", published, field, strict=True):
            yield Figure(f"magnetic field {axis}, nT", place, text, float(value))


def turbulence() -> Iterator[Figure]:
    """Scales and intensities of the Dryden turbulence at low altitude."""
    for height, *published in (
        (6.096, "43.77", "6.10", "1.9291"),
        (20.0, "116.06", "20.00", "1.7970"),
        (100.0, "262.79", "100.00", "1.3800"),
    ):
        along, vertical, sigma, sigma_w = dryden_scales(height, 10.0)
        values = (along, vertical, sigma / sigma_w)
        for name, text, value in zip(("L_u, m", "L_w, m", "σ_u/σ_w"), published, values, strict=True):
            yield Figure(name, f"{height:g} m", text, float(value))


def hovers() -> Iterator[Figure]:
    """Rotor speed at hover in the standard atmosphere at sea level."""
    for name, published in (
        ("firefly", "541.0"), ("hummingbird", "453.2"), ("pelican", "505.4"), ("hector", "485.3"),
    ):  # fmt: skip
        trim = performance(load_airframe(name).record, SEA_LEVEL, 9.81).hover
        assert trim is not None
        yield Figure("rotor speed at hover, rad/s", f"`{name}`", published, float(np.mean(trim.rotor_speed)))


def wind_tunnel() -> Iterator[Figure]:
    """A propeller in axial flow, from its static figures alone."""
    for rpm, rows in ((6512, TUNNEL_6512), (6020, TUNNEL_6020)):
        vehicle = propeller(*STATIC[rpm], DIAMETER)
        for advance, *published in rows.tolist():
            found = coefficients(vehicle, rpm, advance, DIAMETER)
            for name, measured, value in zip(("C_T", "C_P"), published, found, strict=True):
                yield Figure(name, f"{rpm} rpm, advance ratio {advance:.3f}", f"{measured:.4f}", value)


def ground_effect() -> Iterator[Figure]:
    """Thrust near the ground over thrust far from it."""
    for radii in (2.0, 1.0, 0.75):
        published = f"{1.0 / (1.0 - (0.25 / radii) ** 2):.4f}"
        value = ground_effect_factor(0.13, radii * 0.13, 1.0, 0.0, 5.0)
        yield Figure("thrust over that far away", f"{radii:g} radii above the ground", published, value)


def inertial_sensor() -> Iterator[Figure]:
    """Noise densities of the ADIS16448 on the `firefly`, from the Allan deviation over 0.1 s."""
    (sensor,) = (s for s in load_airframe("firefly").sensors if s.kind == "imu")
    samples = Bench(sensor).run(400_000)
    for quantity, axes, published, scale in (
        ("gyroscope, mrad/s/√Hz", (3, 4, 5), "0.339", 1e3),
        ("accelerometer, mm/s²/√Hz", (0, 1, 2), "4.00", 1e3),
    ):
        deviation = math.hypot(*(allan(samples[:, axis], 100_000 // STEP) for axis in axes)) / math.sqrt(3.0)
        yield Figure(quantity, "noise density", published, scale * deviation * math.sqrt(0.1))


SECTIONS: tuple[tuple[str, str, Callable[[], Iterator[Figure]]], ...] = (
    ("Atmosphere", "ISO 2533 (1976 US Standard Atmosphere below 20 km)", atmosphere),
    ("Gravity and magnetic field", "NIMA TR8350.2; test values of WMM2025", earth),
    ("Turbulence", "MIL-F-8785C, low altitude", turbulence),
    ("Hover", "worked out from RotorS's and hector_quadrotor's figures", hovers),
    (
        "A propeller in axial flow",
        "UIUC propeller data base, APC Slow Flyer 10x4.7 (rd0841, rd0840); simulated from its static figures",
        wind_tunnel,
    ),
    (
        "Ground effect",
        "Cheeseman and Bennett, ARC R&M 3021; bounded at 4/3 below half a radius",
        ground_effect,
    ),
    ("Inertial sensor", "RotorS, ADIS16448 (component_snippets.xacro)", inertial_sensor),
)
"""Title, source and figures of each section."""


def collect() -> dict[tuple[str, str], list[Figure]]:
    """The figures of every section, by its title and source."""
    return {(title, source): list(figures()) for title, source, figures in SECTIONS}


def tables(found: dict[tuple[str, str], list[Figure]]) -> Iterator[str]:
    """Lines of the page between its markers."""
    for (title, source), figures in found.items():
        yield f"## {title}\n"
        yield f"Source: {source}.\n"
        quantities = list(dict.fromkeys(figure.quantity for figure in figures))
        yield f"| | {' | '.join(quantities)} |"
        yield "|---" * (1 + len(quantities)) + "|"
        for case in dict.fromkeys(figure.case for figure in figures):
            of_case = {f.quantity: f.cell for f in figures if f.case == case}
            yield f"| {case} | {' | '.join(of_case.get(quantity, '') for quantity in quantities)} |"
        yield ""


def main() -> None:
    """Write the page."""
    argparse.ArgumentParser(prog="scripts/validation", description=__doc__).parse_args()
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(update_page(page, list(tables(collect()))), encoding="utf-8")


if __name__ == "__main__":
    main()
