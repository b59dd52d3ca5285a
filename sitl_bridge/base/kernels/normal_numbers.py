"""Many normal numbers at once, in single precision: the noise of an image or of a lidar's turn.

Philox4x32-10 (Salmon and others, "Parallel random numbers: as easy as 1, 2, 3", SC 2011) makes four words of
a counter and a key; two of them make two normal numbers by Box and Muller's transform.  Each number depends
on its counter alone, so the loops compile to vector instructions: some six times as fast as numpy's
generators.  Logarithm, sine and cosine are polynomials, exact to 1e-6, which give the same bits on every
machine.  Streams that are drawn from one by one are in random_streams.py.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.base.arrays import Singles
from sitl_bridge.base.kernels.compiled import compiled

CHUNK = 512
"""Counters that are worked on at a time: their words stay in the first-level cache."""
ROUNDS = 10
_MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_LN2 = np.float32(0.69314718)
_UNIT = np.float32(2.0**-31)
_MANTISSA = np.float32(2.0**-23)
_LN = (
    np.float32(3.38696534e-08),
    np.float32(0.999994272),
    np.float32(-0.499838562),
    np.float32(0.331548617),
    np.float32(-0.239826161),
    np.float32(0.165822753),
    np.float32(-0.093252039),
    np.float32(0.0348497125),
    np.float32(-0.00615147096),
)
"""ln(1 + m) for 0 <= m <= 1, in powers of m."""
_COS = (
    np.float32(0.999999989),
    np.float32(-4.93480112),
    np.float32(4.05869484),
    np.float32(-1.33515843),
    np.float32(0.235029808),
    np.float32(-0.0253589836),
    np.float32(0.00159391068),
)
"""cos(pi t) for -1 <= t <= 1, in powers of t^2."""
_SIN = (
    np.float32(3.14159265),
    np.float32(-5.16771255),
    np.float32(2.55016036),
    np.float32(-0.599242307),
    np.float32(0.0820818886),
    np.float32(-0.00727531576),
    np.float32(0.000395280458),
)
"""sin(pi t)/t for -1 <= t <= 1, in powers of t^2."""


@compiled
def philox(key: NDArray[np.uint32], first: int, words: NDArray[np.uint32]) -> None:
    """Words of the counters from ``first`` on.

    Args:
        key: (2,) uint32.
        first: counter, below 2^32 with all that follow.
        words: (4, n) uint32, written.
    """
    w0, w1, w2, w3 = words[0], words[1], words[2], words[3]
    k0, k1 = key[0], key[1]
    for i in range(w0.shape[0]):
        a, b, c, d = np.uint64(first + i) & _LOW, np.uint64(0), np.uint64(0), np.uint64(0)
        x, y = np.uint64(k0), np.uint64(k1)
        for _ in range(ROUNDS):
            p, q = a * _MULTIPLIERS[0], c * _MULTIPLIERS[1]
            a, c = (q >> _HALF) ^ b ^ x, (p >> _HALF) ^ d ^ y
            b, d = q & _LOW, p & _LOW
            x, y = (x + _WEYL[0]) & _LOW, (y + _WEYL[1]) & _LOW
        w0[i], w1[i], w2[i], w3[i] = np.uint32(a), np.uint32(b), np.uint32(c), np.uint32(d)


@compiled
def _radii(word: NDArray[np.uint32], uniform: Singles, bits: NDArray[np.int32], out: Singles) -> None:
    """sqrt(-2 ln u) for uniform numbers u of (0, 1).

    Args:
        word: (n,) uint32.
        uniform: (n,) float32, scratch.
        bits: the same memory as int32.
        out: (n,) float32, written.
    """
    for i in range(word.shape[0]):
        uniform[i] = (np.float32(np.int32(word[i] >> np.uint32(1))) + np.float32(0.5)) * _UNIT
    for i in range(word.shape[0]):
        exponent = np.float32((bits[i] >> np.int32(23)) - np.int32(127))
        m = np.float32(bits[i] & np.int32(0x7FFFFF)) * _MANTISSA
        value = _LN[8]
        for k in range(7, -1, -1):
            value = value * m + _LN[k]
        logarithm = exponent * _LN2 + value
        out[i] = np.sqrt(max(np.float32(-2.0) * logarithm, np.float32(0.0)))


@compiled
def _pairs(radius: Singles, word: NDArray[np.uint32], cosine: Singles, sine: Singles) -> None:
    """Normal numbers ``radius`` times cosine and sine of the angles that ``word`` (n,) uint32 stands for."""
    for i in range(word.shape[0]):
        t = np.float32(np.int32(word[i])) * _UNIT
        square = t * t
        c, s = _COS[6], _SIN[6]
        for k in range(5, -1, -1):
            c = c * square + _COS[k]
            s = s * square + _SIN[k]
        cosine[i] = radius[i] * c
        sine[i] = radius[i] * (s * t)


@compiled
def fill_normal(key: NDArray[np.uint32], out: Singles) -> None:
    """Independent standard normal numbers.

    Args:
        key: (2,) uint32; equal keys give equal numbers.
        out: (n,) float32, written; n below 2^33.
    """
    words = np.empty((4, CHUNK), np.uint32)
    uniform, radius = np.empty(CHUNK, np.float32), np.empty(CHUNK, np.float32)
    made = np.empty((4, CHUNK), np.float32)
    bits = uniform.view(np.int32)
    n = out.shape[0]
    for first in range(0, n, 4 * CHUNK):
        philox(key, first // 4, words)
        for pair in range(2):
            _radii(words[2 * pair], uniform, bits, radius)
            _pairs(radius, words[2 * pair + 1], made[2 * pair], made[2 * pair + 1])
        flat = made.reshape(4 * CHUNK)
        for i in range(min(n - first, 4 * CHUNK)):
            out[first + i] = flat[i]


def normal_numbers(random: np.random.Generator, *shape: int) -> Singles:
    """Independent standard normal numbers of a shape; takes two words of ``random`` as their key."""
    key = random.integers(0, 1 << 32, 2, np.uint32)
    out = np.empty(shape, np.float32)
    fill_normal(key, out.reshape(-1))
    return out
