"""The real-time iteration: one Gauss-Newton step a tick on a plan that is kept, shifted and never lost.

Quadratic programs go to DAQP (Arnstroem, Bemporad and Axehill 2022, IEEE TAC 67(8)), a dual active-set method
for small dense problems.  On programs recorded here (60 inputs, up to 73 rows, few of them active) it took a
seventh of PIQP's time, a ninth of quadprog's, a twentieth of ProxQP's and less than a hundredth of OSQP's.
Handing it the last tick's active set saved a twentieth of its iterations and no time; within a tick it does.

DAQP's settings weigh slack in rows that it has scaled to a norm of one; only weights given row by row are in
the program's own units.  (With the former, a speed limit weighed as much as a distance, and iterations were
three to four times as many.)
"""

from __future__ import annotations

import enum
import math
from collections import Counter

import daqp
import numpy as np

from sitl_bridge.base.arrays import Floats, Records
from sitl_bridge.base.constants import STANDARD_GRAVITY
from sitl_bridge.swarm.avoidance import optimal_control_problem
from sitl_bridge.swarm.avoidance.records import INPUTS, STATES

ROW_MARGIN = 1.0
"""m beyond the minimum distance within which a constraint is part of the first program.  Others are checked
afterwards and join where they are violated, so the figure decides on speed alone."""
SLACK_WEIGHT = 1e5
"""Cost of a metre of slack at the horizon's end, and n / k of that at grid point k: what is near is certain
and hard to change, what is far can still be mended.  Above the multipliers of programs that can do without,
so that slack is used only where there is no solution (exact penalty): of 286 such programs of sixteen
vehicles in a crowd, all but five had smaller ones even at the horizon's end."""
SLACK_CURVATURE = 1e4
"""Cost of a square metre of slack, twice."""
DAMPING = (1000.0, 1000.0, 100.0)
"""Added to the Hessian for each input of the horizon (Levenberg and Marquardt): a third of what the first
tilts have there, as much as the first thrust.  So a plan moves over a few ticks and does not leap between two
ways round somebody; where it comes to rest is not changed."""
SPEED_SHARE = 0.8
"""Of the speed limit, from which on it is part of the program."""
SPEED_SCALE = 0.3
"""m/s of speed beyond its limit weigh as that many metres of distance.  Keeping apart comes first, but a
limit that weighs little lets vehicles in a crowd rush for gaps, faster than others can foresee."""
SLACK_TOLERANCE = 1e-4
"""m of slack below which constraints count as kept."""
ACTIVE_TOLERANCE = 1e-6
_SOFT = 8
_LIMIT_REACHED = -4
_ROUNDS = 3


class PlanStatus(enum.Enum):
    """How a tick's plan came about."""

    SOLVED = "solved"
    SLACK = "slack"
    """Solved, but some distance cannot be kept within the horizon."""
    SHIFTED = "shifted"
    """The program could not be solved; the last plan goes on."""
    TIMED_OUT = "timed out"
    """The program took too many iterations; the last plan goes on."""
    EXHAUSTED = "exhausted"
    """No program could be solved for a whole horizon; level at hover thrust."""


class Solver:
    """The plan of one vehicle and the memory its steps are computed in.

    Args:
        settings: (1,) SETTINGS.
        horizon: grid points after the present.
        entities: most things kept away from at a time.
        iterations: of the active-set method in a tick, after which it counts as timed out.
        speed: m/s at most, as far as distances allow.

    Attributes:
        plan_x, plan_u: (n + 1, 8), (n, 3).
        distances: (m, n + 1, 5) of the last call: distance, normal, minimum distance, along the plan before.
        slack: m, the largest of the last call.
        active: distance constraints that the last plan rests on.
        counts: of each status so far.
        failures: of DAQP by its exit flag.
        iterations: of the active-set method in the last call.
        iteration_limit: of a tick.
        by_state, by_input, deviation: the dynamics along the plan, of the last call.
        state_hessian, state_gradient, input_gradient: the cost along the plan, of the last call.
        damping: (3 n,) of the inputs' changes.
        slack_weights: of the rows.
        cost: of the plan before the last step.
        change: rad or m/s^2, the largest change of an input by the last step.
    """

    def __init__(
        self,
        settings: Records,
        horizon: int,
        entities: int,
        iterations: int = 400,
        speed: float = math.inf,
    ) -> None:
        self.settings = settings
        n, size = horizon, INPUTS * horizon
        self.horizon, self._size = n, size
        self.plan_x, self.plan_u = np.zeros((n + 1, STATES)), np.zeros((n, INPUTS))
        self.counts: Counter[PlanStatus] = Counter()
        self.failures: Counter[int] = Counter()
        self.slack = self.cost = self.change = 0.0
        self.active = self.iterations = 0
        self.iteration_limit, self._speed = iterations, speed
        self._unsolved = n + 1.0  # grid steps since the plan was made by a solution
        capacity = entities * n + n
        self.by_state, self.by_input = np.zeros((n, STATES, STATES)), np.zeros((n, STATES, INPUTS))
        self.deviation, self._spread = np.zeros((n + 1, STATES)), np.zeros(n + 1)
        self.state_hessian = np.zeros((n + 1, STATES, STATES))
        self.state_gradient, self.input_gradient = np.zeros((n + 1, STATES)), np.zeros((n, INPUTS))
        self._condensed, self._work = np.zeros((n + 1, STATES, size)), np.zeros((2, STATES, size))
        self.hessian, self.gradient = np.zeros((size, size)), np.zeros(size)
        self._distances = np.zeros((entities, n + 1, 5))
        self._row_of = np.full((entities, n + 1), -1, np.int64)
        self.rows = np.zeros((capacity, size))
        self.lower, self.upper = np.zeros(size + capacity), np.zeros(size + capacity)
        self._diagonal = np.diag_indices(size)
        self.damping = np.tile(DAMPING, n)
        self._sense = np.zeros(size + capacity, np.int32)
        self._sense[size:] = _SOFT
        self.slack_weights = np.full(size + capacity, SLACK_WEIGHT)
        self._slack_softness = np.full(size + capacity, 1.0 / SLACK_CURVATURE)
        self._urgency = SLACK_WEIGHT * n / np.maximum(np.arange(n + 1.0), 1.0)
        self._model = daqp.Model()
        self._multipliers = np.zeros(size)
        self.distances = self._distances[:0]
        self.row_count = 0

    def restart(self, state: Floats) -> None:
        """Plan to stay where ``state`` (8,) is."""
        self.plan_x[:] = state
        self.plan_x[1:, 3:] = 0.0
        self.plan_u[:] = (0.0, 0.0, STANDARD_GRAVITY)
        self._unsolved = 0.0

    def linearise(
        self,
        state: Floats,
        covariance: Floats,
        yaw: Floats,
        disturbance: Floats,
        reference: Floats,
        entities: Records,
        share: float,
    ) -> None:
        """Shift the plan and make the quadratic program about it.

        Args:
            state: (8,) present state.
            covariance: (8, 8) of it.
            yaw: (n + 1,) rad along the horizon.
            disturbance: (5,).
            reference: (n + 1, 11) position, velocity, acceleration NED, yaw, yaw rate.
            entities: (m,) ENTITY.
            share: of a grid step since the last call.
        """
        s = self.settings
        self.distances = self._distances[: len(entities)]
        optimal_control_problem.shift(s, self.plan_x, self.plan_u, yaw, disturbance, share)
        optimal_control_problem.linearise(
            s, self.plan_x, self.plan_u, yaw, disturbance, state, covariance,
            self.by_state, self.by_input, self.deviation, self._spread,
        )  # fmt: skip
        self.cost = optimal_control_problem.weigh(
            s, self.plan_x, self.plan_u, yaw, disturbance, reference, entities, self._spread,
            self.state_hessian, self.state_gradient, self.input_gradient, self.distances,
        )  # fmt: skip
        optimal_control_problem.condense(
            s, self.by_state, self.by_input, self.deviation,
            self.state_hessian, self.state_gradient, self.input_gradient,
            self._condensed, self._work, self.hessian, self.gradient,
        )  # fmt: skip

    def step(
        self,
        state: Floats,
        covariance: Floats,
        yaw: Floats,
        disturbance: Floats,
        reference: Floats,
        entities: Records,
        share: float,
    ) -> PlanStatus:
        """One real-time iteration; arguments as ``linearise``.

        Where the program cannot be solved the shifted plan stays as it is.
        """
        self.linearise(state, covariance, yaw, disturbance, reference, entities, share)
        self.hessian[self._diagonal] += self.damping
        solution = self.solve()
        if isinstance(solution, PlanStatus):
            status = self._go_on(solution, share)
        else:
            self._unsolved = 0.0
            optimal_control_problem.move(
                self.by_state, self.by_input, self.deviation, solution, self.plan_x, self.plan_u, 1.0
            )
            self.change = float(np.abs(solution).max())
            status = PlanStatus.SLACK if self.slack > SLACK_TOLERANCE else PlanStatus.SOLVED
        self.counts[status] += 1
        return status

    def coast(self, yaw: Floats, disturbance: Floats, share: float) -> PlanStatus:
        """Go on with the last plan where there is no state to plan from; arguments as ``linearise``."""
        optimal_control_problem.shift(self.settings, self.plan_x, self.plan_u, yaw, disturbance, share)
        status = self._go_on(PlanStatus.SHIFTED, share)
        self.counts[status] += 1
        return status

    def _go_on(self, reason: PlanStatus, share: float) -> PlanStatus:
        """Keep the shifted plan for as long as its horizon reaches, then level out where it ended."""
        self._unsolved += share
        if self._unsolved <= self.horizon:
            return reason
        unsolved = self._unsolved
        self.restart(self.plan_x[0].copy())
        self._unsolved = unsolved
        return PlanStatus.EXHAUSTED

    def solve(self) -> Floats | PlanStatus:
        """Solve with the rows in reach, then with those that the solution violates."""
        solution = np.zeros(self._size)
        self.row_count = self.active = self.iterations = 0
        self.slack = 0.0
        for attempt in range(_ROUNDS):
            count = optimal_control_problem.constrain(
                self.settings, self.plan_u, self.deviation, self._condensed, self.distances,
                solution, ROW_MARGIN if attempt == 0 else 0.0, self.row_count,
                self._row_of[: len(self.distances)], self.rows, self.lower, self.upper,
            )  # fmt: skip
            if attempt > 0 and count == self.row_count:
                break
            before, self.row_count = self.row_count, count
            solved = self._quadratic_program(before if attempt > 0 else None)
            if isinstance(solved, PlanStatus):
                return solved
            solution = solved
        return solution

    def _limit_speed(self) -> int:
        """Soft rows behind the others that hold the plan's speed below the limit where it comes near it.

        Linear in the direction that the plan goes in.  Without them a plan may find its way past somebody by
        being there first, ever faster.
        """
        velocity = self.plan_x[1:, 3:6] + self.deviation[1:, 3:6]
        speed = np.sqrt(np.einsum("ki,ki->k", velocity, velocity))
        fast = np.flatnonzero(speed > SPEED_SHARE * self._speed)
        if len(fast) == 0:
            return 0
        towards = velocity[fast] / speed[fast, None]
        first = self.row_count
        last = first + len(fast)
        change = np.einsum("ki,kij->kj", towards, self._condensed[fast + 1, 3:6])
        self.rows[first:last] = -SPEED_SCALE * change
        self.lower[self._size + first : self._size + last] = SPEED_SCALE * (speed[fast] - self._speed)
        self.upper[self._size + first : self._size + last] = 1e30
        return len(fast)

    def _quadratic_program(self, before: int | None) -> Floats | PlanStatus:
        """Solve with the rows there are; ``before``: so many were there when this tick's last was solved.

        Rows that join come between those and the rows of speed, so that its multipliers are moved apart for
        the next to begin with.
        """
        count = self.row_count + self._limit_speed()
        total = self._size + count
        known = None
        if before is not None:
            known = np.zeros(total)
            known[: self._size + before] = self._multipliers[: self._size + before]
            known[self._size + self.row_count :] = self._multipliers[self._size + before :]
        row_of = self._row_of[: len(self.distances)]
        entity, point = np.nonzero(row_of >= 0)
        self.slack_weights[self._size + row_of[entity, point]] = self._urgency[point]
        self.slack_weights[self._size + self.row_count : total] = SLACK_WEIGHT
        self._model.settings = {"eps_prox": 0.0, "iter_limit": max(self.iteration_limit - self.iterations, 1)}
        self._model.setup(
            self.hessian, self.gradient, self.rows[:count],
            self.upper[:total], self.lower[:total], self._sense[:total], dual_start=known,
        )  # fmt: skip
        self._model.soft_weights(rho_l=self._slack_softness[:total], w_l=self.slack_weights[:total])
        solution, _, flag, info = self._model.solve()
        self.iterations += int(info["iterations"])
        if flag < 1 or not np.isfinite(solution).all():
            self.failures[int(flag)] += 1
            return PlanStatus.TIMED_OUT if flag == _LIMIT_REACHED else PlanStatus.SHIFTED
        self._multipliers = info["lam"]
        if self.row_count:
            rows = self.rows[: self.row_count]
            missing = self.lower[self._size : self._size + self.row_count] - rows @ solution
            self.slack = max(0.0, float(missing.max()))
            self.active = int((missing > -ACTIVE_TOLERANCE).sum())
        return np.ascontiguousarray(solution)
