"""Turbulence as a field over space that the mean wind carries along: MIL-F-8785C's spectra, seen by everyone.

The field is a sum of plane waves (R. H. Kraichnan, Phys. Fluids 13, 1970): u(x) = sum of a_m e_m cos(k_m x +
phi_m) with e_m across k_m, so that it is free of divergence.  With isotropic directions and the energy
spectrum E(k) = (8 L/pi) sigma^2 (L k)^4/(1 + (L k)^2)^3 every straight cut has Dryden's spectra, along the
cut sigma^2 (2 L/pi)/(1 + (L k)^2) and across it sigma^2 (L/pi)(1 + 3 (L k)^2)/(1 + (L k)^2)^2, and two places
r apart are correlated by exp(-r/L) along r and (1 - r/(2 L)) exp(-r/L) across it (G. K. Batchelor, The Theory
of Homogeneous Turbulence, 1953, chapter 3).  Lengths and intensities follow the height: the waves stay, their
amplitudes change.

Below 10 ft, where MIL-F-8785C's low-altitude model ends, its lengths and horizontal intensities are held, and
the ground blocks the vertical velocity of waves longer than the height: their amplitude falls by 1 - exp(-k
h) over its value at 10 ft (J. C. R. Hunt and J. M. R. Graham, J. Fluid Mech. 84, 1978: w near a wall that
moves with the mean flow; here with the whole wave number k for its part along the wall).
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from sitl_bridge.base.arrays import Floats, Records, Words
from sitl_bridge.base.kernels.compiled import compiled, on_demand
from sitl_bridge.core.world.records import HEIGHTS, TURBULENCE, WAVES, TurbulenceRecord, WindState

FEET = 0.3048
LOWEST_MODELLED, HIGHEST = 10.0 * FEET, 2000.0 * FEET
"""m, heights between which lengths and intensities change."""
_HEIGHT_STEP = math.log(HIGHEST / LOWEST_MODELLED) / 47.0
_BLOCKED_HEIGHTS = 30
LOWEST = LOWEST_MODELLED * math.exp(-_BLOCKED_HEIGHTS * _HEIGHT_STEP)
"""m, 0.10, below which the turbulence does not change any more."""
CARRIED_AT_LEAST = 1.0
"""m/s.  A frozen field that no wind carries would push a hovering vehicle steadily.  Well below walking wind
(Beaufort 1 begins at 0.3 m/s, 2 at 1.6 m/s)."""
CARRYING_HEIGHT = 20.0 * FEET
"""m, at which the mean wind carries the field: that of W20 (MIL-F-8785C), for all heights, so that shear does
not tear the field apart."""

EPISODES_APART = 1e5
"""m.  Episodes fly in parts of the field up to twice as far apart: hundreds of its longest lengths."""

_LONGEST, _SHORTEST = 2e-4, 20.0
"""rad/m, wave numbers of the waves.  At 2000 ft (L = 533 m) waves below L k = 0.1 have 5e-6 of the energy;
the last have a wavelength of 0.3 m, a rotor's size."""
_PLASTIC = 1.2207440846057596
"""The root of x^4 = x + 1: its inverse powers give the sequence of points that fills a cube most evenly."""


def dryden_scales(height: float, speed_20ft: float) -> tuple[float, float, float, float]:
    """Scale lengths L_u = L_v and L_w in m, intensities sigma_u = sigma_v and sigma_w in m/s.

    MIL-F-8785C, low altitude model (10 to 1000 ft above ground), blended linearly into the medium altitude
    model at 2000 ft (isotropic, L = 1750 ft, at the intensity of 1000 ft).

    Args:
        height: m above ground.
        speed_20ft: m/s, W20.
    """
    feet = min(max(height / FEET, 10.0), 2000.0)
    low = min(feet, 1000.0)
    base = 0.177 + 0.000823 * low
    sigma_w = 0.1 * speed_20ft
    sigma_u = sigma_w / math.pow(base, 0.4)
    length_w = low
    length_u = low / math.pow(base, 1.2)
    if feet > 1000.0:
        share = (feet - 1000.0) / 1000.0
        length_u += share * (1750.0 - length_u)
        length_w += share * (1750.0 - length_w)
    return length_u * FEET, length_w * FEET, sigma_u, sigma_w


def turbulence_field(random: Words) -> Records:
    """(1,) TURBULENCE at the start of a run, drawn from a stream of ``random_streams.stream``.

    Directions and polarisations of the waves fill the sphere evenly, phases are independent.
    """
    draw = np.random.default_rng(random)
    number, amplitude = _numbers_and_amplitudes()
    steps = np.outer(_PLASTIC ** -np.arange(1.0, 4.0), np.arange(WAVES))
    even = (draw.random(3)[:, None] + steps) % 1.0
    cosine, azimuth, turn = 2.0 * even[0] - 1.0, 2.0 * math.pi * even[1], 2.0 * math.pi * even[2]
    sine = np.sqrt(1.0 - cosine**2)
    direction = np.array([sine * np.cos(azimuth), sine * np.sin(azimuth), cosine])
    level = np.array([-np.sin(azimuth), np.cos(azimuth), np.zeros(WAVES)])
    steep = np.array([-cosine * np.cos(azimuth), -cosine * np.sin(azimuth), sine])
    field = np.zeros(1, TURBULENCE)
    record = field[0]
    record["wave"][:3] = direction * number / (2.0 * math.pi)
    record["wave"][3] = draw.random(WAVES)
    record["wave"][7] = number**2
    record["wave"][4:7] = np.cos(turn) * level + np.sin(turn) * steep
    record["amplitude"] = amplitude
    return field


@cache
def _numbers_and_amplitudes() -> tuple[Floats, Floats]:
    """(WAVES,) wave numbers in rad/m and (HEIGHTS, 2, WAVES) amplitudes, which no random number changes."""
    edges = np.geomspace(_LONGEST, _SHORTEST, WAVES + 1)
    number = np.sqrt(edges[1:] * edges[:-1])
    amplitude = np.zeros((HEIGHTS, 2, WAVES))
    for k in range(HEIGHTS):
        height = LOWEST * math.exp(k * _HEIGHT_STEP)
        length_u, length_w, sigma_u, sigma_w = dryden_scales(height, 1.0)
        for row, length, sigma in ((0, length_u, sigma_u), (1, length_w, sigma_w)):
            x = length * number
            energy = 8.0 * length / math.pi * x**4 / (1.0 + x * x) ** 3
            amplitude[k, row] = sigma * np.sqrt(4.0 * energy * np.diff(edges))
        if k < _BLOCKED_HEIGHTS:
            amplitude[k, 1] *= np.expm1(-number * height) / np.expm1(-number * LOWEST_MODELLED)
    return number, amplitude


def episode_shift(episode: int, random: Words) -> Floats:
    """(2,) m north and east from a place to its place in the field in an episode; number 0 is not moved."""
    if episode == 0:
        return np.zeros(2)
    return np.random.default_rng(random).uniform(-EPISODES_APART, EPISODES_APART, 2)


@compiled
def carry(memory: WindState, north: float, east: float, seconds: float) -> None:
    """Carry the field on for one vehicle over a step with a mean wind in m/s; to the north in calm."""
    speed = math.sqrt(north * north + east * east)
    if speed < CARRIED_AT_LEAST:
        if speed > 0.0:
            north *= CARRIED_AT_LEAST / speed
            east *= CARRIED_AT_LEAST / speed
        else:
            north = CARRIED_AT_LEAST
    memory.carried[0] += north * seconds
    memory.carried[1] += east * seconds


@compiled
def _cosine(turns: float) -> float:
    """Cosine of an angle in turns, -1/2 to 1/2, to 3e-12: Taylor's series to a^14.

    cos(2 a) = 2 cos(a)^2 - 1 halves the angle first.
    """
    z = turns * turns * 9.869604401089358
    tail = 2.48015872894767294e-5 + z * (
        -2.75573143513906633e-7 + z * (2.08757232129817483e-9 - 1.13596475577881948e-11 * z)
    )
    half = 1.0 + z * (-0.5 + z * (4.16666666666666019e-2 + z * (-1.38888888888741096e-3 + z * tail)))
    return 2.0 * half * half - 1.0


@compiled
def _sum(values: Floats) -> float:
    """Sum of WAVES values in a fixed order that suits processors; they are overwritten."""
    half = WAVES // 2
    while half > 0:
        for m in range(half):
            values[m] += values[m + half]
        half //= 2
    return float(values[0])


@on_demand
def turbulence(
    field: TurbulenceRecord,
    memory: WindState,
    speed_20ft: float,
    north: float,
    east: float,
    down: float,
    reach: float,
) -> tuple[float, float, float]:
    """Turbulent velocity NED in m/s at a place (m NED) of the world, and its gradient into ``memory``.

    Horizontal parts have L_u and sigma_u, the vertical one L_w and sigma_w.  The gradient is the derivative
    of every wave, less those that a vehicle is too large to follow, by 1/(1 + (k reach)^2).  The loops keep
    to what processors do for several waves at once: no calls, sums in a fixed order.

    Args:
        memory: WIND_STATE record of who is there; its scratch and ``gradient`` are written.
        speed_20ft: m/s, W20.
        north, east, down: m.
        reach: m, of the gradient; 0 for none.
    """
    height = min(max(-down, LOWEST), HIGHEST)
    level = math.log(height / LOWEST) / _HEIGHT_STEP
    below = min(int(level), HEIGHTS - 2)
    share = level - below
    x = north + memory.shift[0] - memory.carried[0]
    y = east + memory.shift[1] - memory.carried[1]
    wave, work = field.wave, memory.work
    lower = field.amplitude[below]
    upper = field.amplitude[below + 1]
    for m in range(WAVES):
        turns = wave[0, m] * x + wave[1, m] * y + wave[2, m] * down + wave[3, m]
        cosine = _cosine(turns - np.rint(turns))
        level_part = (lower[0, m] + share * (upper[0, m] - lower[0, m])) * cosine
        work[0, m] = wave[4, m] * level_part
        work[1, m] = wave[5, m] * level_part
        work[2, m] = wave[6, m] * (lower[1, m] + share * (upper[1, m] - lower[1, m])) * cosine
    un, ue, ud = _sum(work[0]), _sum(work[1]), _sum(work[2])
    if reach > 0.0:
        for m in range(WAVES):
            # The derivative of the cosine is a cosine a quarter turn on.
            turns = wave[0, m] * x + wave[1, m] * y + wave[2, m] * down + (wave[3, m] + 0.25)
            followed = _cosine(turns - np.rint(turns)) / (1.0 + wave[7, m] * reach * reach)
            work[1, m] = (lower[0, m] + share * (upper[0, m] - lower[0, m])) * followed
            work[2, m] = (lower[1, m] + share * (upper[1, m] - lower[1, m])) * followed
        for i in range(3):
            source = 2 if i == 2 else 1
            for j in range(3):
                for m in range(WAVES):
                    work[0, m] = wave[4 + i, m] * wave[j, m] * work[source, m]
                memory.gradient[i, j] = 2.0 * math.pi * speed_20ft * _sum(work[0])
    return speed_20ft * un, speed_20ft * ue, speed_20ft * ud
