from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.optimize
from numpy.typing import NDArray

from sitl_bridge.base.constants import STANDARD_GRAVITY
from sitl_bridge.base.kernels.record import Packed
from sitl_bridge.swarm.avoidance.controller_settings import (
    ControllerSettings,
    Weights,
    hover_model,
    terminal_hessian,
)
from sitl_bridge.swarm.avoidance.optimal_control_problem import collision
from sitl_bridge.swarm.avoidance.prediction_model import predict
from sitl_bridge.swarm.avoidance.records import BOX, CYLINDER, ENTITY, INPUTS, SPHERE, STATES, VEHICLE
from sitl_bridge.swarm.avoidance.separation import expected_motion, largest_eigenvalue, separation
from sitl_bridge.swarm.avoidance.solver import SLACK_CURVATURE, PlanStatus, Solver

Floats = NDArray[np.float64]
X = np.array([1.0, -2.0, 3.0, 1.5, -0.7, 0.4, 0.15, -0.2])
U = np.array([-0.1, 0.25, 11.0])
DISTURBANCE = np.array([0.3, -0.2, 0.1, 0.02, -0.01])
YAW = 0.7
N = 20


@pytest.fixture(scope="module")
def record() -> Any:
    return ControllerSettings().record()


def advance(record: Any, x: Floats, u: Floats, seconds: float, steps: int) -> tuple[Floats, Floats, Floats]:
    after, a, b = np.zeros(STATES), np.zeros((STATES, STATES)), np.zeros((STATES, INPUTS))
    work = np.zeros((6, STATES, STATES + 1))
    predict(record[0], x, u, YAW, DISTURBANCE, seconds, steps, after, a, b, work)
    return after, a, b


def neighbours(*rows: tuple[tuple[float, float, float], tuple[float, float, float]]) -> NDArray[np.void]:
    entities = np.zeros(len(rows), ENTITY)
    for entity, (position, velocity) in zip(entities, rows, strict=True):
        entity["position"], entity["velocity"] = position, velocity
    entities["minimum"], entities["threshold"] = 0.9, 1.2
    return entities


@dataclass
class Problem:
    """A state, a reference and neighbours, to be solved for."""

    solver: Solver
    state: Floats
    reference: Floats
    entities: NDArray[np.void]
    yaw: Floats

    def step(self, share: float = 0.0) -> PlanStatus:
        return self.solver.step(self.state, *self.rest(), share)

    def rest(self) -> tuple[Floats, Floats, Floats, Floats, NDArray[np.void]]:
        return np.zeros((STATES, STATES)), self.yaw, DISTURBANCE, self.reference, self.entities


def problem(
    record: Any, entities: NDArray[np.void], goal: float = 1.0, iterations: int = 400, yaw: float = YAW
) -> Problem:
    state = np.array([0.0, 0.0, 0.0, 1.0, 0.1, 0.0, 0.02, -0.03])
    reference = np.zeros((N + 1, 11))
    reference[:, 0] = goal
    solver = Solver(record, N, max(len(entities), 1), iterations)
    solver.restart(state)
    return Problem(solver, state, reference, entities, np.full(N + 1, yaw))


def test_a_steps_derivatives_are_those_of_finite_differences(record: Any) -> None:
    _, a, b = advance(record, X, U, 0.1, 1)
    h = 1e-6
    for given, exact in ((X, a), (U, b)):
        for j in range(len(given)):
            bump = np.zeros(len(given))
            bump[j] = h
            ends = [
                advance(record, X + s * bump, U, 0.1, 1)[0]
                if given is X
                else advance(record, X, U + s * bump, 0.1, 1)[0]
                for s in (1.0, -1.0)
            ]
            np.testing.assert_allclose(exact[:, j], (ends[0] - ends[1]) / (2 * h), atol=2e-8)


def test_the_integrator_is_of_fourth_order(record: Any) -> None:
    exact = advance(record, X, U, 0.4, 64)[0]
    errors = [np.abs(advance(record, X, U, 0.4, n)[0] - exact).max() for n in (4, 8, 16)]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(4.0, abs=0.3)
    assert np.log2(errors[1] / errors[2]) == pytest.approx(4.0, abs=0.3)


def test_hover_stays_and_a_tilt_accelerates_as_newton_has_it(record: Any) -> None:
    x, u = np.zeros(STATES), np.array([0.0, 0.0, STANDARD_GRAVITY])
    after, a, b = np.zeros(STATES), np.zeros((STATES, STATES)), np.zeros((STATES, INPUTS))
    predict(record[0], x, u, 0.0, np.zeros(5), 0.1, 1, after, a, b, np.zeros((6, STATES, STATES + 1)))
    np.testing.assert_allclose(after, 0.0, atol=1e-12)
    # FRD: nose up, thrust leans back; right side down, thrust leans right.
    assert a[3, 7] < 0.0 < a[4, 6]
    # The first-order response after 0.1 s with the firefly's 0.257 s and gain 0.75.
    assert b[6, 0] == pytest.approx(0.75 * (1.0 - np.exp(-0.1 / 0.257)), rel=1e-3)


def test_the_collision_cost_is_the_logistic_function_with_its_gradient(record: Any) -> None:
    s = record[0]
    n = np.array([0.6, -0.8, 0.0])

    def half_cost(distance: float) -> tuple[float, Floats, Floats]:
        gradient, hessian = np.zeros(3), np.zeros((3, 3))
        return collision(s, 1.2, distance, n, gradient, hessian), gradient, hessian

    weight, kappa = float(s["collision_weight"]), float(s["smoothness"])
    assert 2.0 * half_cost(1.2)[0] == pytest.approx(weight / 2.0)
    assert 2.0 * half_cost(1.5)[0] == pytest.approx(weight / (1.0 + np.exp(kappa * 0.3)))
    h = 1e-6
    _, gradient, hessian = half_cost(1.3)
    slope = (half_cost(1.3 + h)[0] - half_cost(1.3 - h)[0]) / (2 * h)
    np.testing.assert_allclose(gradient, slope * n, rtol=1e-6)
    # Gauss-Newton: the square of the derivative of the residual sqrt(cost).
    root = [np.sqrt(2.0 * half_cost(1.3 + s * h)[0]) for s in (1.0, -1.0)]
    np.testing.assert_allclose(hessian, ((root[0] - root[1]) / (2 * h)) ** 2 * np.outer(n, n), rtol=1e-5)


@pytest.mark.parametrize(
    ("kind", "size", "point", "distance"),
    [
        (VEHICLE, (0.0, 0.0, 0.0), (3.0, 4.0, 0.0), 5.0),
        (SPHERE, (2.0, 0.0, 0.0), (3.0, 4.0, 0.0), 3.0),
        (SPHERE, (2.0, 0.0, 0.0), (0.0, 0.5, 0.0), -1.5),
        (CYLINDER, (1.0, 2.0, 0.0), (3.0, 4.0, 1.0), 4.0),
        (CYLINDER, (1.0, 2.0, 0.0), (0.3, 0.4, -5.0), 3.0),
        (CYLINDER, (1.0, 2.0, 0.0), (2.4, 3.2, 6.0), 5.0),
        (CYLINDER, (1.0, 2.0, 0.0), (0.6, 0.0, 0.1), -0.4),
        (CYLINDER, (1.0, 2.0, 0.0), (0.1, 0.1, 1.9), -0.1),
        (BOX, (1.0, 2.0, 3.0), (4.0, 6.0, 1.0), 5.0),
        (BOX, (1.0, 2.0, 3.0), (0.2, -2.5, 1.0), 0.5),
        (BOX, (1.0, 2.0, 3.0), (0.8, 0.3, 0.1), -0.2),
    ],
)
def test_distances_and_their_gradients(
    kind: int, size: tuple[float, float, float], point: tuple[float, float, float], distance: float
) -> None:
    entity = np.zeros(1, ENTITY)[0]
    entity["kind"], entity["size"] = kind, size
    normal, spare, middle, p = np.zeros(3), np.zeros(3), np.zeros(3), np.array(point)
    assert separation(entity, middle, p, normal) == pytest.approx(distance)
    h = 1e-6
    slopes = [
        (separation(entity, middle, p + h * e, spare) - separation(entity, middle, p - h * e, spare))
        / (2 * h)
        for e in np.eye(3)
    ]
    np.testing.assert_allclose(normal, slopes, atol=1e-5)


def expected(entity: Packed, ahead: float) -> list[float]:
    """Position and velocity of an entity."""
    place, course = np.zeros(3), np.zeros(3)
    expected_motion(entity, ahead, place, course)
    return [*place.tolist(), *course.tolist()]


def test_a_neighbour_without_a_plan_is_expected_where_its_velocity_and_the_delay_bring_it() -> None:
    entity = neighbours(((1.0, 0.0, 0.0), (2.0, -1.0, 0.0)))[0]
    entity["age"] = 0.05
    assert expected(entity, 0.5) == pytest.approx([1.0 + 2.0 * 0.55, -0.55, 0.0, 2.0, -1.0, 0.0])


def test_a_neighbour_is_expected_on_its_plan_and_beyond_its_end_at_the_last_velocity() -> None:
    entity = neighbours(((0.0, 0.0, 0.0), (9.0, 9.0, 9.0)))[0]
    entity["points"], entity["step"], entity["age"] = 3, 0.1, 0.05
    entity["plan"][:3] = (0.0, 0.0, -5.0), (0.2, 0.0, -5.0), (0.2, 0.1, -5.0)
    assert expected(entity, 0.0) == pytest.approx([0.1, 0.0, -5.0, 2.0, 0.0, 0.0])
    assert expected(entity, 0.1) == pytest.approx([0.2, 0.05, -5.0, 0.0, 1.0, 0.0])
    assert expected(entity, 1.0) == pytest.approx([0.2, 0.95, -5.0, 0.0, 1.0, 0.0])


def test_the_largest_eigenvalue_is_numpys() -> None:
    random = np.random.default_rng(1)
    for _ in range(50):
        root = random.standard_normal((3, 3))
        m = np.ascontiguousarray(root @ root.T)
        assert largest_eigenvalue(m) == pytest.approx(np.linalg.eigvalsh(m)[-1], rel=1e-9)
    assert largest_eigenvalue(2.0 * np.eye(3)) == 2.0


def test_the_terminal_cost_solves_the_riccati_equation(record: Any) -> None:
    a, b = hover_model(record)
    q, r = np.diag(record[0]["state_weight"]), np.diag(record[0]["input_weight"])
    p = terminal_hessian(record)
    gain = np.linalg.solve(r + b.T @ p @ b, b.T @ p @ a)
    np.testing.assert_allclose(q + a.T @ p @ (a - b @ gain), p, rtol=1e-7, atol=1e-5)


@pytest.mark.parametrize("yaw", [0.0, 1.1])
def test_near_its_reference_the_controller_is_the_linear_quadratic_regulator(record: Any, yaw: float) -> None:
    a, b = hover_model(record)
    p = terminal_hessian(record)
    gain = np.linalg.solve(np.diag(record[0]["input_weight"]) + b.T @ p @ b, b.T @ p @ a)
    turn = np.eye(STATES)
    c, s = np.cos(yaw), np.sin(yaw)
    for first in (0, 3):
        turn[first : first + 2, first : first + 2] = [[c, s], [-s, c]]
    x = 1e-4 * np.array([1.0, -2.0, 0.5, 0.3, 0.2, -0.1, 0.4, 0.6])
    solver = Solver(record, N, 1)
    solver.restart(np.zeros(STATES))
    rest = (np.zeros((STATES, STATES)), np.full(N + 1, yaw), np.zeros(5), np.zeros((N + 1, 11)))
    for _ in range(300):  # damped steps
        solver.step(x, *rest, np.zeros(0, ENTITY), 0.0)
    expected = np.array([0.0, 0.0, STANDARD_GRAVITY]) - gain @ (turn @ x)
    np.testing.assert_allclose(solver.plan_u[0], expected, atol=1e-8)


def test_the_condensed_program_is_the_sparse_one(record: Any) -> None:
    case = problem(record, neighbours(((2.0, 0.5, 0.0), (-0.5, 0.0, 0.0))))
    for _ in range(3):
        case.step(0.3)
    solver = case.solver
    solver.linearise(case.state, *case.rest(), 0.0)
    a, b, d = solver.by_state, solver.by_input, solver.deviation
    size = INPUTS * N
    hessian = scipy.linalg.block_diag(
        *solver.state_hessian[1:], np.kron(np.eye(N), np.diag(record[0]["input_weight"]))
    )
    linear = np.concatenate([solver.state_gradient[1:].ravel(), solver.input_gradient.ravel()])
    equality, offset = np.zeros((STATES * N, len(linear))), np.zeros(STATES * N)
    for k in range(N):
        rows = slice(STATES * k, STATES * (k + 1))
        equality[rows, STATES * k : STATES * (k + 1)] = np.eye(STATES)
        if k > 0:
            equality[rows, STATES * (k - 1) : STATES * k] = -a[k]
        start = STATES * N + INPUTS * k
        equality[rows, start : start + INPUTS] = -b[k]
        offset[rows] = d[k + 1] - a[k] @ d[k] if k > 0 else d[1]
    system = np.block([[hessian, equality.T], [equality, np.zeros((STATES * N, STATES * N))]])
    sparse = np.linalg.solve(system, np.concatenate([-linear, offset]))
    dense = np.linalg.solve(solver.hessian, -solver.gradient)
    np.testing.assert_allclose(dense, sparse[STATES * N : STATES * N + size], rtol=1e-6, atol=1e-8)


def test_the_solved_program_is_scipys() -> None:
    blind = ControllerSettings(weights=Weights(collision=0.0)).record()  # only the constraints keep off
    case = problem(blind, neighbours(((1.4, 0.1, 0.0), (0.0, 0.0, 0.0))))
    solver = case.solver
    solver.linearise(case.state, *case.rest(), 0.0)
    found = solver.solve()
    assert isinstance(found, np.ndarray)
    assert solver.active > 0
    assert solver.slack < 1e-6
    size = INPUTS * N
    rows, need = solver.rows[: solver.row_count], solver.lower[size : size + solver.row_count]

    def cost(u: Floats) -> float:
        return float(0.5 * u @ solver.hessian @ u + solver.gradient @ u)

    reference = scipy.optimize.minimize(  # type: ignore[call-overload]
        cost,
        np.zeros(size),
        jac=lambda u: solver.hessian @ u + solver.gradient,
        bounds=scipy.optimize.Bounds(solver.lower[:size], solver.upper[:size]),
        constraints=scipy.optimize.LinearConstraint(rows, need, np.inf),
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-12},
    )
    assert reference.success
    assert cost(found) == pytest.approx(float(reference.fun), rel=1e-6)
    assert (rows @ found - need).min() > -1e-5


def test_repeated_steps_end_in_a_solution_of_the_nonlinear_problem(record: Any) -> None:
    case = problem(record, neighbours(((2.0, 0.3, 0.0), (-0.5, 0.0, 0.0))), goal=3.0)
    case.solver.damping[:] = 0.0  # which delays, but moves no solution
    changes = []
    for _ in range(60):
        assert case.step() is PlanStatus.SOLVED
        changes.append(case.solver.change)
    assert changes[-1] < 1e-6 < changes[0]
    solver = case.solver
    # Multiple shooting: at the solution the plan's states are those its inputs lead to.
    x, after = case.state.copy(), np.zeros(STATES)
    a, b, work = np.zeros((STATES, STATES)), np.zeros((STATES, INPUTS)), np.zeros((6, STATES, STATES + 1))
    for k in range(N):
        predict(record[0], x, solver.plan_u[k], YAW, DISTURBANCE, 0.1, 1, after, a, b, work)
        x = after.copy()
        np.testing.assert_allclose(solver.plan_x[k + 1], x, atol=1e-6)


def test_slack_is_told_where_the_distance_cannot_be_kept(record: Any) -> None:
    case = problem(record, neighbours(((0.5, 0.0, 0.0), (0.0, 0.0, 0.0))))
    assert case.step() is PlanStatus.SLACK
    # 0.5 m apart and going nearer at 1 m/s, 0.4 m are missing and more will be before it has stopped.
    assert 0.4 < case.solver.slack < 0.9
    assert case.solver.counts[PlanStatus.SLACK] == 1


def test_a_program_out_of_iterations_leaves_the_shifted_plan_until_it_is_used_up(record: Any) -> None:
    case = problem(record, neighbours(((1.4, 0.1, 0.0), (0.0, 0.0, 0.0))))
    assert case.step() is PlanStatus.SOLVED
    plan = case.solver.plan_u.copy()
    case.solver.iteration_limit = 1
    assert case.step(0.5) is PlanStatus.TIMED_OUT
    np.testing.assert_allclose(case.solver.plan_u[:-1], 0.5 * (plan[:-1] + plan[1:]))
    statuses = [case.step(1.0) for _ in range(N)]
    assert statuses[:-1] == [PlanStatus.TIMED_OUT] * (N - 1)
    assert statuses[-1] is PlanStatus.EXHAUSTED
    assert tuple(case.solver.plan_u[0]) == (0.0, 0.0, STANDARD_GRAVITY)
    assert case.solver.counts[PlanStatus.TIMED_OUT] == N
    assert case.solver.failures[-4] == N + 1
    case.solver.iteration_limit = 400
    assert case.step() in (PlanStatus.SOLVED, PlanStatus.SLACK)


def test_a_state_that_is_no_number_leaves_the_shifted_plan(record: Any) -> None:
    case = problem(record, neighbours())
    case.step()
    case.state = np.full(STATES, np.nan)
    assert case.step() is PlanStatus.SHIFTED
    assert np.isfinite(case.solver.plan_u).all()
    assert np.isfinite(case.solver.plan_x).all()


def test_the_speed_limit_holds_where_a_reference_runs_away(record: Any) -> None:
    plans = []
    for speed in (np.inf, 2.0):
        solver = Solver(record, N, 1, speed=speed)
        state = np.zeros(STATES)
        solver.restart(state)
        reference = np.zeros((N + 1, 11))
        reference[:, 0] = 10.0
        rest = (np.zeros((STATES, STATES)), np.zeros(N + 1), np.zeros(5), reference, np.zeros(0, ENTITY))
        for _ in range(50):
            assert solver.step(state, *rest, 0.0) is PlanStatus.SOLVED
        plans.append(np.linalg.norm(solver.plan_x[:, 3:6], axis=1).max())
    assert plans[0] > 3.0
    assert plans[1] == pytest.approx(2.0, abs=0.05)


def test_uncertainty_widens_the_distance_along_the_horizon(record: Any) -> None:
    case = problem(record, neighbours(((5.0, 5.0, 0.0), (0.0, 0.0, 0.0))))
    case.entities["position_variance"] = 0.04
    case.entities["velocity_variance"] = 0.01
    covariance = np.diag([0.01] * 3 + [0.0] * 5)
    _, yaw, disturbance, reference, entities = case.rest()
    case.solver.step(case.state, covariance, yaw, disturbance, reference, entities, 0.0)
    widened = case.solver.distances[0, :, 4]
    # Eq. 15 with 3 sigma each: own 0.1 m; the neighbour's sqrt(0.04 + t^2 0.01) m.
    ahead = 0.1 * np.arange(N + 1)
    np.testing.assert_allclose(widened, 0.9 + 3.0 * (0.1 + np.sqrt(0.04 + 0.01 * ahead**2)), rtol=1e-6)


def test_silence_widens_the_distance_by_what_a_neighbour_may_do_unheard(record: Any) -> None:
    case = problem(record, neighbours(((5.0, 5.0, 0.0), (0.0, 0.0, 0.0))))
    case.entities["age"], case.entities["silence"], case.entities["acceleration"] = 0.3, 0.25, 1.0
    case.step()
    # 3 sigma of half the acceleration times the square of the time between its last and its next word.
    unheard = 0.3 + np.minimum(0.1 * np.arange(N + 1), 0.25)
    np.testing.assert_allclose(case.solver.distances[0, :, 4], 0.9 + 3.0 * 0.5 * unheard**2, rtol=1e-9)


def test_slack_costs_what_it_says_whatever_daqp_scales(record: Any) -> None:
    # Two rows that contradict each other along one direction: the dearer one, sooner, is kept.
    case = problem(record, neighbours(((0.5, 0.0, 0.0), (0.0, 0.0, 0.0))))
    assert case.step() is PlanStatus.SLACK
    solver = case.solver
    size = INPUTS * N
    solution = solver.solve()
    assert isinstance(solution, np.ndarray)
    rows, need = solver.rows[: solver.row_count], solver.lower[size : size + solver.row_count]
    weights = solver.slack_weights[size : size + solver.row_count]

    def cost(u: Floats) -> float:
        missing = np.maximum(need - rows @ u, 0.0)
        slack = float(weights @ missing + 0.5 * SLACK_CURVATURE * missing @ missing)
        return float(0.5 * u @ solver.hessian @ u + solver.gradient @ u) + slack

    # No small step within the limits is cheaper, all of the program weighed in its own units.
    random = np.random.default_rng(6)
    best = cost(solution)
    for _ in range(300):
        step = 1e-3 * random.standard_normal(size) * random.integers(0, 2, size)
        there = np.clip(solution + step, solver.lower[:size], solver.upper[:size])
        assert cost(there) > best - 1e-6 * abs(best)
