"""The optimal control problem of section 4 as one quadratic program: linearised, condensed, constrained.

Kernels of one Gauss-Newton step about a plan, in the order they are called: shift, linearise, weigh,
condense, constrain, and once somebody has solved the program, move.  The plan is states x_0..x_n and inputs
u_0..u_n-1 on a grid; input i acts from t_i to t_i+1.
"""

from __future__ import annotations

import math

import numpy as np

from sitl_bridge.base.arrays import Floats, Ints, Records
from sitl_bridge.base.constants import STANDARD_GRAVITY
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.swarm.avoidance.prediction_model import predict
from sitl_bridge.swarm.avoidance.records import VEHICLE, Settings
from sitl_bridge.swarm.avoidance.separation import aside, expected_motion, largest_eigenvalue, separation


@compiled
def level_inputs(
    settings: Settings,
    acceleration: Floats,
    velocity: Floats,
    yaw: float,
    disturbance: Floats,
    state: Floats,
    u: Floats,
) -> None:
    """Attitude and inputs that give an acceleration: the feed-forward of eqs 8 and 9.

    The thrust vector is what gravity, drag and disturbance leave of the acceleration; drag is taken at the
    attitude found without it.  Rebuilt from section 4.2 and the companion code, which linearises about
    hover; here the inversion is exact but for that one step, and the gains of eq. 4 are divided out, so
    that the state it leads to is an equilibrium of the model (offset-free tracking needs that).

    Args:
        settings: () SETTINGS.
        acceleration, velocity: (3,) NED, m/s^2 and m/s.
        yaw: rad.
        disturbance: (5,).
        state: (8,) whose roll and pitch are filled.
        u: (3,) filled, within the input limits.
    """
    cos_yaw, sin_yaw = math.cos(yaw), math.sin(yaw)
    fx = disturbance[0] - acceleration[0]
    fy = disturbance[1] - acceleration[1]
    fz = disturbance[2] - acceleration[2] + STANDARD_GRAVITY
    dx = dy = dz = 0.0
    roll = pitch = thrust = 0.0
    for _ in range(2):
        tx, ty, tz = fx - dx, fy - dy, max(fz - dz, 0.1 * STANDARD_GRAVITY)
        thrust = math.sqrt(tx * tx + ty * ty + tz * tz)
        forward = cos_yaw * tx + sin_yaw * ty
        right = -sin_yaw * tx + cos_yaw * ty
        roll = -math.asin(right / thrust)
        pitch = math.atan2(forward, tz)
        axial = (tx * velocity[0] + ty * velocity[1] + tz * velocity[2]) / (thrust * thrust)
        dx = thrust * settings.drag * (velocity[0] - tx * axial)
        dy = thrust * settings.drag * (velocity[1] - ty * axial)
        dz = thrust * settings.drag * (velocity[2] - tz * axial)
    state[6], state[7] = roll, pitch
    u[0] = (roll - disturbance[3]) / settings.gain[0]
    u[1] = (pitch - disturbance[4]) / settings.gain[1]
    u[2] = thrust
    for i in range(3):
        u[i] = min(max(u[i], settings.input_min[i]), settings.input_max[i])


@compiled
def follow_yaw(reference: Floats, gain: float, limit: float, step: float, course: Floats) -> float:
    """Yaw along the horizon under the proportional loop of the companion code, and its first rate.

    Args:
        reference: (n + 1, 11) with yaw and yaw rate in the last columns.
        gain: 1/s.
        limit: rad/s.
        step: s.
        course: (n + 1,) rad; the first is given, the others are filled.

    Returns:
        rad/s to command now.
    """
    first = 0.0
    for k in range(course.shape[0]):
        error = reference[k, 9] - course[k]
        error -= math.tau * round(error / math.tau)
        rate = min(max(gain * error + reference[k, 10], -limit), limit)
        if k == 0:
            first = rate
        if k + 1 < course.shape[0]:
            course[k + 1] = course[k] + rate * step
    return first


@compiled
def shift(
    settings_array: Records, plan_x: Floats, plan_u: Floats, yaw: Floats, disturbance: Floats, share: float
) -> None:
    """Move a plan forward by ``share`` (0..1) of a grid step; its end is continued with the last input.

    Args:
        settings_array: (1,) SETTINGS.
        plan_x: (n + 1, 8), changed.
        plan_u: (n, 3), changed.
        yaw: (n + 1,) rad.
        disturbance: (5,).
        share: of a grid step.
    """
    settings = settings_array[0]
    n: int = plan_u.shape[0]
    end, by_state, by_input, work = np.empty(8), np.empty((8, 8)), np.empty((8, 3)), np.empty((6, 8, 9))
    predict(
        settings, plan_x[n], plan_u[n - 1], yaw[n], disturbance, settings.step, settings.substeps,
        end, by_state, by_input, work,
    )  # fmt: skip
    for k in range(n):
        for i in range(8):
            plan_x[k, i] += share * (plan_x[k + 1, i] - plan_x[k, i])
        if k < n - 1:
            for i in range(3):
                plan_u[k, i] += share * (plan_u[k + 1, i] - plan_u[k, i])
    for i in range(8):
        plan_x[n, i] += share * (end[i] - plan_x[n, i])


@compiled
def linearise(
    settings_array: Records,
    plan_x: Floats,
    plan_u: Floats,
    yaw: Floats,
    disturbance: Floats,
    x0: Floats,
    covariance: Floats,
    by_state: Floats,
    by_input: Floats,
    deviation: Floats,
    spread: Floats,
) -> None:
    """Derivatives along the plan, deviation from it for unchanged inputs, and growth of the uncertainty.

    The covariance follows eq. 14, the prediction of an extended Kalman filter: dS/dt = F S + S F^T, here
    exactly over each interval, S_k+1 = A S_k A^T.  Rebuilt in its formula; certain from the text: the
    filter's prediction, the linearised model, the boundary condition S(0) = S_0, and that the square root
    of the largest eigenvalue of the position's part counts.

    Args:
        settings_array: (1,) SETTINGS.
        plan_x, plan_u: (n + 1, 8), (n, 3).
        yaw: (n + 1,) rad.
        disturbance: (5,), held along the horizon.
        x0: (8,) present state.
        covariance: (8, 8) of the present state.
        by_state, by_input: (n, 8, 8), (n, 8, 3) filled.
        deviation: (n + 1, 8) filled: linear prediction for unchanged inputs less the plan; its steps hold the
            defects of the multiple shooting.
        spread: (n + 1,) filled, m.
    """
    settings = settings_array[0]
    n = plan_u.shape[0]
    end, work = np.empty(8), np.empty((6, 8, 9))
    s, s_next, row = covariance.copy(), np.empty((8, 8)), np.empty(8)
    spread[0] = math.sqrt(max(largest_eigenvalue(s), 0.0))
    for i in range(8):
        deviation[0, i] = x0[i] - plan_x[0, i]
    for k in range(n):
        a = by_state[k]
        predict(
            settings, plan_x[k], plan_u[k], yaw[k], disturbance, settings.step, settings.substeps,
            end, a, by_input[k], work,
        )  # fmt: skip
        for i in range(8):
            value = end[i] - plan_x[k + 1, i]
            for j in range(8):
                value += a[i, j] * deviation[k, j]
            deviation[k + 1, i] = value
        _congruence(a, s, s_next, row)
        s, s_next = s_next, s
        spread[k + 1] = math.sqrt(max(largest_eigenvalue(s), 0.0))


@compiled
def _congruence(a: Floats, s: Floats, out: Floats, row: Floats) -> None:
    """out = A S A^T for (8, 8) matrices; row is (8,) scratch."""
    for i in range(8):
        row[:] = 0.0
        for j in range(8):
            if a[i, j] != 0.0:
                for c in range(8):
                    row[c] += a[i, j] * s[j, c]
        for c in range(8):
            value = 0.0
            for j in range(8):
                value += row[j] * a[c, j]
            out[i, c] = value


@compiled
def collision(
    settings: Settings,
    threshold: float,
    distance: float,
    direction: Floats,
    gradient: Floats,
    hessian: Floats,
) -> float:
    """Half of eq. 10 for one entity at one grid point; gradient and Gauss-Newton Hessian are added up.

    Certain from the text: a logistic function of the distance, smooth and bounded, with a weight Q_c, a
    smoothness kappa and a threshold r_th.  Rebuilt: Q_c / (1 + exp(kappa (d - r_th))).  The Hessian is that
    of the squared residual sqrt(cost), so never indefinite.

    Args:
        threshold: m, r_th.
        distance: m, negative inside an obstacle.
        direction: (3,) gradient of the distance, or the direction to give way in.
        gradient: (3,) by the position, added to.
        hessian: (3, 3) or larger, added to.

    Returns:
        half the cost.
    """
    exponent = settings.smoothness * (distance - threshold)
    if exponent > 40.0:
        return 0.0
    share = 1.0 / (1.0 + math.exp(exponent))
    cost = settings.collision_weight * share
    slope = -0.5 * settings.smoothness * cost * (1.0 - share)
    curvature = 0.25 * settings.smoothness**2 * cost * (1.0 - share) ** 2
    for i in range(3):
        gradient[i] += slope * direction[i]
        for j in range(3):
            hessian[i, j] += curvature * direction[i] * direction[j]
    return 0.5 * cost


@compiled
def _turn_with_yaw(hessian: Floats, yaw: float) -> None:
    """Turn the north and east of position and velocity in a Hessian (8, 8) by a yaw in rad."""
    cosine, sine = math.cos(yaw), math.sin(yaw)
    for first in (0, 3):  # rows, then columns
        for j in range(8):
            north, east = hessian[first, j], hessian[first + 1, j]
            hessian[first, j] = cosine * north - sine * east
            hessian[first + 1, j] = sine * north + cosine * east
    for first in (0, 3):
        for i in range(8):
            north, east = hessian[i, first], hessian[i, first + 1]
            hessian[i, first] = cosine * north - sine * east
            hessian[i, first + 1] = sine * north + cosine * east


@compiled
def weigh(
    settings_array: Records,
    plan_x: Floats,
    plan_u: Floats,
    yaw: Floats,
    disturbance: Floats,
    reference: Floats,
    entities: Records,
    spread: Floats,
    hessian: Floats,
    gradient: Floats,
    input_gradient: Floats,
    distances: Floats,
) -> float:
    """Cost of a plan, eqs 8 to 10 and terminal, with gradients and Gauss-Newton Hessians; and distances.

    Everything is half of the paper's sum, so that Q_x and R_u themselves are the Hessians.  Distances are
    widened by eq. 15: r + spread (sigma + sigma_j), rebuilt as to the sum, with sigma_j growing as for a
    neighbour that keeps its velocity, whether it broadcasts a plan or not.  This project adds what the
    neighbour may do unheard: an unknown acceleration a moves it by a t^2 / 2 between its time stamp and the
    next broadcast.  The terminal Hessian is turned with the yaw at the horizon's end, which is exact because
    north and east weigh alike.

    Args:
        settings_array: (1,) SETTINGS.
        plan_x, plan_u: (n + 1, 8), (n, 3).
        yaw: (n + 1,) rad.
        disturbance: (5,).
        reference: (n + 1, 11): position, velocity, acceleration NED, yaw, yaw rate.
        entities: (m,) ENTITY.
        spread: (n + 1,) m, own uncertainty.
        hessian, gradient: (n + 1, 8, 8), (n + 1, 8) filled, by the state.
        input_gradient: (n, 3) filled.
        distances: (m, n + 1, 5) filled: distance along a direction, the direction (3), minimum distance.

    Returns:
        cost of the plan.
    """
    settings = settings_array[0]
    n: int = plan_u.shape[0]
    error, x_ref, u_ref = np.empty(8), np.empty(8), np.empty(3)
    normal, direction, place, course = np.empty(3), np.empty(3), np.empty(3), np.empty(3)
    cost = 0.0
    for k in range(n + 1):
        level_inputs(settings, reference[k, 6:9], reference[k, 3:6], yaw[k], disturbance, x_ref, u_ref)
        for i in range(6):
            x_ref[i] = reference[k, i]
        for i in range(8):
            error[i] = plan_x[k, i] - x_ref[i]
            gradient[k, i] = 0.0
            for j in range(8):
                hessian[k, i, j] = settings.terminal[i, j] if k == n else 0.0
            if k < n:
                hessian[k, i, i] = settings.state_weight[i]
        if k == n:
            _turn_with_yaw(hessian[n], yaw[n])
        for i in range(8):
            for j in range(8):
                gradient[k, i] += hessian[k, i, j] * error[j]
            cost += 0.5 * error[i] * gradient[k, i]
        if k < n:
            for i in range(3):
                input_gradient[k, i] = settings.input_weight[i] * (plan_u[k, i] - u_ref[i])
                cost += 0.5 * input_gradient[k, i] * (plan_u[k, i] - u_ref[i])
        for j in range(entities.shape[0]):
            entity = entities[j]
            ahead = k * settings.step
            expected_motion(entity, ahead, place, course)
            distance = separation(entity, place, plan_x[k, :3], normal)
            widening = 0.0
            for i in range(3):
                variance = entity.position_variance[i]
                if entity.kind == VEHICLE:
                    variance += (entity.age + ahead) ** 2 * entity.velocity_variance[i]
                widening = max(widening, variance)
            unheard = entity.age + min(ahead, entity.silence)
            widening += (0.5 * entity.acceleration * unheard * unheard) ** 2
            widening = settings.spread * (math.sqrt(widening) + spread[k])
            minimum = entity.minimum + widening
            velocity = plan_x[k, 3:6]
            distances[j, k, 0] = aside(
                entity, course, velocity, distance, normal, minimum, 0.0, distances[j, k, 1:4]
            )
            distances[j, k, 4] = minimum
            if k > 0:
                aside(entity, course, velocity, distance, normal, minimum, settings.side, direction)
                cost += collision(
                    settings, entity.threshold + widening, distance, direction, gradient[k], hessian[k]
                )
    return cost


@compiled
def condense(
    settings_array: Records,
    by_state: Floats,
    by_input: Floats,
    deviation: Floats,
    state_hessian: Floats,
    state_gradient: Floats,
    input_gradient: Floats,
    condensed: Floats,
    work: Floats,
    hessian: Floats,
    gradient: Floats,
) -> None:
    """Eliminate the states: dx_k = deviation_k + C_k du, and the cost as a function of du alone.

    Quadratic in the horizon's length, by backward recursion over W_k = dGradient_k / du (Andersson 2013,
    thesis, KU Leuven, section 5.3).  The sparsity of A is used: position rows hold the identity and the
    attitude is two decoupled lags.

    Args:
        settings_array: (1,) SETTINGS.
        by_state, by_input, deviation: as ``linearise`` leaves them.
        state_hessian, state_gradient, input_gradient: as ``weigh`` leaves them.
        condensed: (n + 1, 8, 3 n) filled: C_k, zero from column 3 k on.
        work: (2, 8, 3 n) scratch.
        hessian: (3 n, 3 n) filled.
        gradient: (3 n,) filled.
    """
    settings = settings_array[0]
    n = by_state.shape[0]
    for k in range(n):
        a, c, c_next = by_state[k], condensed[k], condensed[k + 1]
        width = 3 * k
        for i in range(8):
            for m in range(width):
                c_next[i, m] = a[i, i] * c[i, m]
            for j in range(3, 8 if i < 6 else 3):
                if j != i:
                    for m in range(width):
                        c_next[i, m] += a[i, j] * c[j, m]
            for m in range(3):
                c_next[i, width + m] = by_input[k, i, m]
    adjoint, adjoint_next = np.zeros(8), np.zeros(8)
    w, w_next = work[0], work[1]
    for k in range(n, 0, -1):
        q, width = state_hessian[k], 3 * k
        for i in range(8):
            value = state_gradient[k, i]
            for j in range(8):
                value += q[i, j] * deviation[k, j]
            if k < n:
                for j in range(8):
                    value += by_state[k, j, i] * adjoint_next[j]
            adjoint[i] = value
            for m in range(width):
                w[i, m] = 0.0
            for j in range(8):
                if q[i, j] != 0.0:
                    for m in range(width):
                        w[i, m] += q[i, j] * condensed[k, j, m]
                if k < n and by_state[k, j, i] != 0.0:
                    factor = by_state[k, j, i]
                    for m in range(width):
                        w[i, m] += factor * w_next[j, m]
        for i in range(3):
            row = width - 3 + i
            value = input_gradient[k - 1, i]
            for m in range(width):
                hessian[row, m] = 0.0
            for j in range(8):
                factor = by_input[k - 1, j, i]
                value += factor * adjoint[j]
                for m in range(width):
                    hessian[row, m] += factor * w[j, m]
            gradient[row] = value
            hessian[row, row] += settings.input_weight[i]
        w, w_next = w_next, w
        adjoint, adjoint_next = adjoint_next, adjoint
    for i in range(3 * n):
        for m in range(i):
            hessian[m, i] = hessian[i, m]


@compiled
def constrain(
    settings_array: Records,
    plan_u: Floats,
    deviation: Floats,
    condensed: Floats,
    distances: Floats,
    solution: Floats,
    margin: float,
    count: int,
    row_of: Ints,
    rows: Floats,
    lower: Floats,
    upper: Floats,
) -> int:
    """Input limits (eq. 11), and linear distance constraints (eq. 12) of all that comes within ``margin``.

    Certain from the text: one row a neighbour, non-convex and smooth, with r_min below r_th.  Rebuilt:
    r_min^2 - d^2 <= 0; written as d >= r_min, which is the same set and the tightest linearisation.
    Grid point 0 has no row: no input can help it any more.

    Args:
        settings_array: (1,) SETTINGS.
        plan_u: (n, 3).
        deviation, condensed, distances: as left by the kernels before.
        solution: (3 n,) du for which distances are looked at.
        margin: m by which the minimum distance must be kept for a row to be left out.
        count: rows there already; 0 begins anew.
        row_of: (m, n + 1) row of each entity and grid point, or -1; filled.
        rows: (capacity, 3 n), filled.
        lower, upper: (3 n + capacity,) of inputs, then rows; filled.

    Returns:
        rows now; beyond the capacity rows are counted but not written.
    """
    settings = settings_array[0]
    n = plan_u.shape[0]
    size = 3 * n
    if count == 0:
        row_of[:] = -1
        for k in range(n):
            for i in range(3):
                lower[3 * k + i] = settings.input_min[i] - plan_u[k, i]
                upper[3 * k + i] = settings.input_max[i] - plan_u[k, i]
    for j in range(distances.shape[0]):
        for k in range(1, n + 1):
            if row_of[j, k] >= 0:
                continue
            known = distances[j, k]
            need = known[4] - known[0]
            moved = 0.0
            for i in range(3):
                need -= known[1 + i] * deviation[k, i]
                for m in range(3 * k):
                    moved += known[1 + i] * condensed[k, i, m] * solution[m]
            if moved >= need + margin:
                continue
            if count < rows.shape[0]:
                row_of[j, k] = count
                for m in range(size):
                    rows[count, m] = 0.0
                for i in range(3):
                    for m in range(3 * k):
                        rows[count, m] += known[1 + i] * condensed[k, i, m]
                lower[size + count] = need
                upper[size + count] = 1e30
            count += 1
    return count


@compiled
def move(
    by_state: Floats,
    by_input: Floats,
    deviation: Floats,
    solution: Floats,
    plan_x: Floats,
    plan_u: Floats,
    share: float,
) -> None:
    """Move the plan by ``share`` of the program's solution, states by the linear model.

    Args:
        by_state, by_input, deviation: as ``linearise`` leaves them.
        solution: (3 n,) du.
        plan_x, plan_u: (n + 1, 8), (n, 3), changed.
        share: 1 for the full step.
    """
    n = plan_u.shape[0]
    dx, after = np.zeros(8), np.zeros(8)
    for k in range(n + 1):
        for i in range(8):
            plan_x[k, i] += share * (deviation[k, i] + dx[i])
        if k == n:
            break
        for i in range(8):
            value = 0.0
            for j in range(8):
                value += by_state[k, i, j] * dx[j]
            for j in range(3):
                value += by_input[k, i, j] * solution[3 * k + j]
            after[i] = value
        dx, after = after, dx
        for i in range(3):
            plan_u[k, i] += share * solution[3 * k + i]
