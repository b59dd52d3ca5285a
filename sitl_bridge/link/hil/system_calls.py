"""The C library's socket and clock functions, for calls from compiled code (Linux).

Arguments are plain integers and ``array.ctypes``.  Called from loop.py and from the built-in flight stack's
lockstep_client.py.
"""

from __future__ import annotations

import numpy as np
from numba import types

recv = types.ExternalFunction("recv", types.intp(types.intc, types.voidptr, types.uintp, types.intc))
send = types.ExternalFunction("send", types.intp(types.intc, types.voidptr, types.uintp, types.intc))
# The last argument, a signal mask, is always NULL; an integer, because numba has no null pointer literal.
ppoll = types.ExternalFunction("ppoll", types.intc(types.voidptr, types.uintp, types.voidptr, types.uintp))
clock_gettime = types.ExternalFunction("clock_gettime", types.intc(types.intc, types.voidptr))
nanosleep = types.ExternalFunction("nanosleep", types.intc(types.voidptr, types.voidptr))

MSG_DONTWAIT = 0x40
MSG_NOSIGNAL = 0x4000
POLLIN = 0x1
POLLOUT = 0x4
CLOCK_MONOTONIC = 1

POLL = np.dtype([("fd", "i4"), ("events", "i2"), ("revents", "i2")])
"""struct pollfd"""
