"""Orders to a formation in flight, checked against the limits of the show before execution.

session/live_orders.py brings them from page and bus.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sitl_bridge.base.arrays import Floats, Mask
from sitl_bridge.base.errors import UserError
from sitl_bridge.swarm.formation import patterns
from sitl_bridge.swarm.formation.choreography import Choreography, Move
from sitl_bridge.swarm.formation.formation import Formation
from sitl_bridge.swarm.formation.leave_and_rejoin import Action
from sitl_bridge.swarm.formation.specification import FormationPlan
from sitl_bridge.swarm.formation.trajectory import ROW_PERIOD, UnsafeShowError, single_violations
from sitl_bridge.swarm.interface import States
from sitl_bridge.swarm.quick_simulation import SETTLING_TIME

DESCENT_RADIUS = 1.5
"""Radius in m around a vehicle's descent (and climb, if it returns) that must be free of other vehicles: two
ordinary receivers have a relative error of up to two metres."""


def redirect(
    plan: FormationPlan,
    formation: Formation,
    *,
    pattern: str | None = None,
    spacing: float = 4.0,
    scale: float | None = None,
    offsets: Sequence[Sequence[float]] | None = None,
) -> Move:
    """Change a formation to a pattern, to its present slots scaled, or to other slots.

    Args:
        pattern: its name.
        spacing: m, of that pattern.
        scale: of the present slots.
        offsets: m forward, right, down of the centre, the leader's first.

    Raises:
        UserError: for slots that are unsuitable, too close, or not safely reachable.
        UnsafeShowError: if the rest of the show would violate its limits.
    """

    def slots(so_far: Choreography, members: Mask, leader: int) -> Floats:
        count = int(members.sum())
        if pattern is not None:
            return patterns.pattern(pattern, count, spacing)
        if offsets is not None:
            return np.array(offsets, dtype=np.float64).reshape(-1, 3)
        assert scale is not None
        now = so_far.moves[-1].end
        others = members.copy()
        others[leader] = False
        scaled: Floats = np.concatenate([now[[leader]], now[others]]) * scale
        return scaled

    begun = formation.elapsed

    def check(trial: Choreography) -> None:
        _check_rest(trial, plan, begun, formation.members)

    name = pattern or (f"scale {scale:g}" if offsets is None else "offsets")
    return formation.redirect(name, slots, check)


def _check_rest(trial: Choreography, plan: FormationPlan, begun: float, members: Mask) -> None:
    """Reject a plan that violates the show's limits after ``begun`` s; ``add`` has checked the separation.

    After the last move only the centre moves and is checked at a lower rate, because vehicles wait for their
    setpoints.
    """
    settled = max(begun, trial.moves[-1].over * 1e-6 + SETTLING_TIME)
    times = np.concatenate(
        [np.arange(begun, settled, ROW_PERIOD), np.arange(settled, plan.duration, 10.0 * ROW_PERIOD)]
    )
    moment = trial.plan_motion(plan.path, plan.heading, times)
    found = single_violations(
        times,
        moment.position[:, members],
        moment.velocity[:, members],
        moment.acceleration[:, members],
        plan.limits,
    )
    if found:
        numbers = np.flatnonzero(members).tolist()
        raise UnsafeShowError([replace(v, vehicle=numbers[v.vehicle]) for v in found])


def require_free_descent(vehicle: int, action: Action, states: States) -> None:
    """Reject an action whose descent or climb would hit another vehicle.

    Raises:
        UserError: with the vehicle in the way.
    """
    if action == "hold" or not 0 <= vehicle < len(states.alive):
        return
    away = states.position - states.position[vehicle]
    beside = np.hypot(away[:, 0], away[:, 1])
    near = states.alive & (beside < DESCENT_RADIUS)
    near[vehicle] = False
    if action == "land":
        near &= away[:, 2] > 0.0
    if near.any():
        other = int(np.argmin(np.where(near, np.abs(away[:, 2]), np.inf)))
        below = float(away[other, 2])
        raise UserError(
            f"vehicle {vehicle} cannot {action}: vehicle {other} flies {abs(below):.1f} m "
            f"{'below' if below > 0.0 else 'above'} it; let it hold, or change the pattern first"
        )
