"""Independent random streams: one for each sensor of each vehicle, derived from the run's one seed.

A stream is four 64-bit words of xoshiro256++ (Blackman and Vigna, "Scrambled linear pseudorandom number
generators", ACM TOMS 47(4), 2021), seeded by numpy's SeedSequence, so that it can live in a compiled
kernel's own state.  Adding a sensor or a vehicle changes no other stream.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable

import numpy as np

from sitl_bridge.base.arrays import Floats, Words
from sitl_bridge.base.kernels.compiled import compiled

_UNIT = 1.0 / 9007199254740992.0
_LAYERS = 256
TAIL = 3.6541528853610088
"""End of the lowest of 256 layers of equal area under exp(-x^2/2), where the tail begins."""


def _layers() -> Floats:
    """(_LAYERS + 1,) edges of the layers from the lowest, which has the tail, to 0 at the top."""
    density = math.exp(-0.5 * TAIL * TAIL)
    area = TAIL * density + math.sqrt(0.5 * math.pi) * math.erfc(TAIL / math.sqrt(2.0))
    edges = [area / density, TAIL]
    while len(edges) < _LAYERS:
        edges.append(math.sqrt(-2.0 * math.log(area / edges[-1] + math.exp(-0.5 * edges[-1] ** 2))))
    return np.array([*edges, 0.0])


EDGES = _layers()
_INNER = EDGES[1:] / EDGES[:-1]
_DENSITIES = np.exp(-0.5 * EDGES**2)


def stream(seed: int, *path: int | str) -> Words:
    """State of the stream that ``path`` names under ``seed``.

    Args:
        seed: the run's seed, any non-negative integer.
        path: what the stream is for, e.g. ``stream(seed, vehicle, "imu", 0)``.

    Returns:
        (4,) uint64, to be stored in and advanced by the consumer.

    Raises:
        ValueError: when the seed is negative.
    """
    if seed < 0:
        raise ValueError(f"a seed is a non-negative integer, not {seed}")
    name = "/".join(str(part) for part in path).encode()
    key = np.frombuffer(hashlib.sha256(name).digest()[:16], dtype=np.uint32)
    sequence = np.random.SeedSequence(seed, spawn_key=tuple(int(word) for word in key))
    return sequence.generate_state(4, np.uint64).astype(np.uint64)


def distinct_names(names: Iterable[str]) -> tuple[str, ...]:
    """The names of what has streams of its own; one without a name is called by its number.

    Raises:
        ValueError: for a name that two have: they would draw the same numbers.
    """
    found = tuple(name or str(i) for i, name in enumerate(names))
    seen = set[str]()
    for name in found:
        if name in seen:
            raise ValueError(f"two vehicles are called {name!r}; their random streams would be the same")
        seen.add(name)
    return found


@compiled
def _rotate_left(word: np.uint64, count: int) -> np.uint64:
    return (word << np.uint64(count)) | (word >> np.uint64(64 - count))


@compiled
def _next_word(a: np.uint64, b: np.uint64, c: np.uint64, d: np.uint64) -> tuple[np.uint64, ...]:
    """64 random bits from four words, and the words after them."""
    result = _rotate_left(a + d, 23) + a
    shifted = b << np.uint64(17)
    c ^= a
    d ^= b
    b ^= c
    a ^= d
    c ^= shifted
    d = _rotate_left(d, 45)
    return result, a, b, c, d


@compiled
def _word(state: Words) -> np.uint64:
    """64 random bits; advances ``state``."""
    word, state[0], state[1], state[2], state[3] = _next_word(state[0], state[1], state[2], state[3])
    return word


@compiled
def uniform(state: Words) -> float:
    """One number of the open-ended interval [0, 1), 53 bits; advances ``state`` ((4,) uint64)."""
    return float((_word(state) >> np.uint64(11)) * _UNIT)


@compiled
def _in_layer(word: np.uint64) -> tuple[np.uint64, float]:
    """Layer, and place in it from -1 to 1, from separate bits of a word (Doornik, 2005)."""
    return word & np.uint64(_LAYERS - 1), float(word >> np.uint64(11)) * (2.0 * _UNIT) - 1.0


@compiled
def _rare_normal(state: Words, layer: np.uint64, share: float) -> float:
    """``normal`` from a place that is not within the layer above: the layer's rim, or the tail."""
    while True:
        number = share * EDGES[layer]
        if abs(share) < _INNER[layer]:
            return float(number)
        if layer == np.uint64(0):
            while True:  # Marsaglia, 1964
                beyond = -math.log(1.0 - uniform(state)) / TAIL
                if -2.0 * math.log(1.0 - uniform(state)) > beyond * beyond:
                    return math.copysign(TAIL + beyond, share)
        low, high = _DENSITIES[layer], _DENSITIES[layer + np.uint64(1)]
        if low + uniform(state) * (high - low) < math.exp(-0.5 * number * number):
            return float(number)
        layer, share = _in_layer(_word(state))


@compiled
def normal(state: Words) -> float:
    """One standard normal number; advances ``state`` ((4,) uint64).

    The ziggurat method (Marsaglia and Tsang, J. Stat. Softw. 5(8), 2000): 99 of 100 numbers take one word of
    the stream, a comparison and a multiplication.
    """
    layer, share = _in_layer(_word(state))
    if abs(share) < _INNER[layer]:
        return float(share * EDGES[layer])
    return _rare_normal(state, layer, share)


@compiled
def normal_pair(state: Words) -> tuple[float, float]:
    """Two independent standard normal numbers; advances ``state``."""
    first = normal(state)
    return first, normal(state)
