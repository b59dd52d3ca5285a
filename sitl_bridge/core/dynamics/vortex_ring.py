"""The flow that a vortex ring adds to that of momentum theory in a descent: less thrust, and buffeting.

Johnson (Model for Vortex Ring State Influence on Rotorcraft Flight Dynamics, NASA/TP-2005-213477) reviews the
measurements and gives the total flow V_z + v through a disc, in units of the hover's v_h at the same thrust,
where the heave damping of flight tests vanishes: 0.85 at V_z = -0.45 (N) and 1.25 at -1.5 (X).  In between
the flow grows with the descent, so that thrust falls and damping is negative.  What that is beyond the
baseline of ``momentum_flux`` comes in cubics from -0.2 (D) and goes until -2 (E).  Across the axis N and X
approach one another and meet at V_x = 0.95, where it has gone by (1 - (V_x/0.95)^6)^(1/2).

The rings are shed every 20 to 50 turns, with as much as 95 % of the thrust from peak to peak (Stack,
Caradonna and Savas, J. American Helicopter Society 50, 2005).  Rotors of 4 to 6 inches lose and shake most at
descents of 1.2 to 1.3 times the hover's induced velocity (Veismann and others, Flow 3, 2023).  Of some twenty
of them the mean thrust and its standard deviation are drawn between 60 and 120 % and between 0 and 20 %
(Veismann, Yos and Gharib, Physics of Fluids 34, 2022, figures S1 and S2).  With ``SHEDDING`` the deviation of
an ``x500`` is 10 % where it is largest, the middle: the figures' values were not at hand.
"""

from __future__ import annotations

import math

from sitl_bridge.base.kernels.compiled import compiled

_BEGIN, _ONSET, _PEAK, _END = -0.2, -0.45, -1.5, -2.0
"""V_z/v_h of D, N, X and E."""
_WIDEST = 0.95
"""V_x/v_h."""
_ONSET_FLOW, _PEAK_FLOW = 0.85, 1.25
"""(V_z + v)/v_h of N and X."""
SHEDDING = 0.2
"""Amplitude of the fluctuation over the ring's flow."""
TURNS = 35.0
"""Of a rotor from ring to ring."""
APART = 2.4
"""rad, the golden angle, by which neighbouring rotors' rings are apart."""

# The baseline v/v_h at N, by momentum theory, and at X, by Johnson's fit; and their slopes over V_z/v_h.
_ONSET_BASE = -0.5 * _ONSET + math.sqrt(0.25 * _ONSET * _ONSET + 1.0)
_ONSET_SLOPE = -0.5 + 0.25 * _ONSET / math.sqrt(0.25 * _ONSET * _ONSET + 1.0)
_PEAK_BASE = 0.373 * _PEAK**3 - 1.991 * _PEAK
_PEAK_SLOPE = 3.0 * 0.373 * _PEAK**2 - 1.991
# What the ring adds at N and X; its slopes make those of the sum vanish.
_ONSET_RISE, _PEAK_RISE = _ONSET_FLOW - _ONSET - _ONSET_BASE, _PEAK_FLOW - _PEAK - _PEAK_BASE
_ONSET_STEEP, _PEAK_STEEP = -1.0 - _ONSET_SLOPE, -1.0 - _PEAK_SLOPE


@compiled
def _cubic(t: float, width: float, first: float, slope: float, last: float, last_slope: float) -> float:
    """Return Hermite's cubic between values and slopes at the ends of an interval, at the share t of it."""
    left = 1.0 - t
    bend = first * (1.0 + 2.0 * t) + width * slope * t
    return left * left * bend + t * t * (last * (1.0 + 2.0 * left) - width * last_slope * left)


@compiled
def ring_flow(along: float, across: float) -> float:
    """Return what a vortex ring adds to the induced velocity, on average.

    Args:
        along: velocity through the air along the thrust, negative in a descent; all over v_h.
        across: velocity across it, >= 0.
    """
    if along >= _BEGIN or across >= _WIDEST:
        return 0.0
    square = (across / _WIDEST) ** 2
    middle, half = 0.5 * (_ONSET + _PEAK), 0.5 * (_ONSET - _PEAK)
    onset = middle + half * (1.0 - square) ** 0.2
    peak = middle - half * (1.0 - square) ** 1.5
    end = peak + _END - _PEAK
    if along <= end:
        return 0.0
    share = math.sqrt(1.0 - square**3)
    if along > onset:
        t = (along - onset) / (_BEGIN - onset)
        return share * _cubic(t, _BEGIN - _ONSET, _ONSET_RISE, _ONSET_STEEP, 0.0, 0.0)
    if along > peak:
        t = (along - peak) / (onset - peak)
        return share * _cubic(t, _ONSET - _PEAK, _PEAK_RISE, _PEAK_STEEP, _ONSET_RISE, _ONSET_STEEP)
    # A parabola: Johnson leaves the slope at E open.
    t = (along - peak) / (end - peak)
    return share * (1.0 - t) * (_PEAK_RISE + t * (_PEAK_RISE + (_END - _PEAK) * _PEAK_STEEP))
