"""Paths by the sampling planners of OMPL, the Open Motion Planning Library; an extra."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sitl_bridge.base.errors import UserError
from sitl_bridge.perception.mapping.path_planner import PathPlanner, figures

SECONDS = 5.0
"""Time that a planner is given; it uses all of it to shorten the path."""
PLANNERS = {"rrt_star": "RRTstar", "bit_star": "BITstar"}
"""Karaman and Frazzoli, IJRR 30(7), 2011; Gammell and others, IJRR 39(5), 2020."""


def plan_by_ompl(
    planner: PathPlanner, start: ArrayLike, goal: ArrayLike, method: str, seed: int
) -> NDArray[np.float64]:
    """Return the (k, 3) waypoints of a path from start to goal.

    How far the path is shortened depends on the machine's speed.

    Args:
        planner: obstacles, bounds and clearance.
        start: (3,) m NED.
        goal: (3,) m NED.
        method: one of PLANNERS.
        seed: above 0, of the random numbers; OMPL takes one only before its first plan in a process.

    Raises:
        UserError: as ``PathPlanner.plan``, and where OMPL is missing.
    """
    try:
        from ompl import base, geometric, util
    except ImportError as error:
        raise UserError(
            f"planning by {method} needs the package ompl, which is not installed: pip install ompl, or"
            " pip install 'sitl-bridge[planning]'; or plan by 'a_star'"
        ) from error
    begin, end, (low, high) = planner.checked(start, goal)
    if planner.is_clear(begin, end):
        return np.stack([begin, end])
    util.setLogLevel(util.LOG_NONE)
    if seed > 0:
        util.RNG.setSeed(seed)
    space = base.RealVectorStateSpace(3)
    bounds = base.RealVectorBounds(3)
    for i in range(3):
        bounds.setLow(i, float(low[i]))
        bounds.setHigh(i, float(high[i]))
    space.setBounds(bounds)
    setup = geometric.SimpleSetup(space)
    information = setup.getSpaceInformation()
    limit = 2.0 * planner.needed

    def is_valid(state: Any) -> bool:
        place = np.array([[state[0], state[1], state[2]]])
        return bool(planner.obstacles.clearance(place, limit)[0] >= planner.needed - 1e-9)

    setup.setStateValidityChecker(is_valid)
    step = planner.needed / 8.0 / float(np.linalg.norm(high - low))
    information.setStateValidityCheckingResolution(step)
    setup.setStartAndGoalStates(_state(space, begin), _state(space, end))
    setup.setPlanner(getattr(geometric, PLANNERS[method])(information))
    setup.solve(SECONDS)
    if not setup.haveExactSolutionPath():
        raise UserError(
            f"{method} has found no path from {figures(begin)} to {figures(end)} m NED within {SECONDS:g} s;"
            " plan by 'a_star', or use a smaller margin or smaller bounds"
        )
    path = setup.getSolutionPath()
    return np.array([[state[i] for i in range(3)] for state in path.getStates()])


def _state(space: Any, place: NDArray[np.float64]) -> Any:
    """Return a place as a state of OMPL."""
    state = space.allocState()
    for i in range(3):
        state[i] = float(place[i])
    return state
