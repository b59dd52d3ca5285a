"""Independent random streams: one for each sensor of each vehicle, derived from the run's one seed.

A stream is four 64-bit words of xoshiro256++ (Blackman and Vigna, "Scrambled linear pseudorandom number
generators", ACM TOMS 47(4), 2021), seeded by numpy's SeedSequence, so that it can live in a compiled
kernel's own state.  Adding a sensor or a vehicle changes no other stream.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.kernels.compiled import compiled


def stream(seed: int, *path: int | str) -> NDArray[np.uint64]:
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
    twice = next((name for i, name in enumerate(found) if name in found[:i]), None)
    if twice is not None:
        raise ValueError(f"two vehicles are called {twice!r}; their random streams would be the same")
    return found


@compiled
def _rotate_left(word: Any, count: Any) -> Any:
    return (word << np.uint64(count)) | (word >> np.uint64(64 - count))


@compiled
def _next_uniform(a: Any, b: Any, c: Any, d: Any) -> Any:
    """``uniform`` on four words, and the words after it: in registers, loops run faster."""
    result = _rotate_left(a + d, 23) + a
    shifted = b << np.uint64(17)
    c ^= a
    d ^= b
    b ^= c
    a ^= d
    c ^= shifted
    d = _rotate_left(d, 45)
    return float((result >> np.uint64(11)) * (1.0 / 9007199254740992.0)), a, b, c, d


@compiled
def uniform(state: Any) -> float:
    """One number of the open-ended interval [0, 1), 53 bits; advances ``state`` ((4,) uint64)."""
    number, state[0], state[1], state[2], state[3] = _next_uniform(state[0], state[1], state[2], state[3])
    return float(number)


@compiled
def normal_pair(state: Any) -> tuple[float, float]:
    """Two independent standard normal numbers (Marsaglia's polar method); advances ``state``."""
    a, b, c, d = state[0], state[1], state[2], state[3]
    while True:
        first, a, b, c, d = _next_uniform(a, b, c, d)
        second, a, b, c, d = _next_uniform(a, b, c, d)
        u, v = 2.0 * first - 1.0, 2.0 * second - 1.0
        q = u * u + v * v
        if 0.0 < q < 1.0:
            state[0], state[1], state[2], state[3] = a, b, c, d
            factor = math.sqrt(-2.0 * math.log(q) / q)
            return u * factor, v * factor
