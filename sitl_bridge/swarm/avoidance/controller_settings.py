"""Settings of users: the attitude model, weights and limits of the controller, and distances.

Figures of the paper and its companion code are the defaults; those of our own choice say so.
"""

from __future__ import annotations

import math
from typing import Annotated, Self

import numpy as np
import scipy
from pydantic import BaseModel, ConfigDict, Field, model_validator

from sitl_bridge.base.arrays import Floats, Records
from sitl_bridge.base.constants import STANDARD_GRAVITY
from sitl_bridge.swarm.avoidance.prediction_model import predict
from sitl_bridge.swarm.avoidance.records import DISTURBANCES, INPUTS, LONGEST_HORIZON, SETTINGS, STATES


def hover_model(settings: Records) -> tuple[Floats, Floats]:
    """A (8, 8) and B (8, 3) of one grid step about hover at yaw 0.

    Args:
        settings: (1,) SETTINGS.
    """
    a, b, after = np.zeros((STATES, STATES)), np.zeros((STATES, INPUTS)), np.zeros(STATES)
    s = settings[0]
    inputs = np.array([0.0, 0.0, STANDARD_GRAVITY])
    predict(
        s, np.zeros(STATES), inputs, 0.0, np.zeros(DISTURBANCES), s["step"], s["substeps"],
        after, a, b, np.zeros((6, STATES, STATES + 1)),
    )  # fmt: skip
    return a, b


def terminal_hessian(settings: Records) -> Floats:
    """(8, 8) solution of the discrete algebraic Riccati equation about hover at yaw 0.

    Certain from the text: a terminal cost function is there; from the brief of its companion code: the
    Riccati equation, there the continuous one of position and velocity alone.  The discrete equation of
    the whole state and this grid is the exact cost to go of the linear problem beyond the horizon.

    Args:
        settings: (1,) SETTINGS with model and weights.

    Raises:
        numpy.linalg.LinAlgError: where weights leave no stabilising solution.
    """
    a, b = hover_model(settings)
    s = settings[0]
    solution = scipy.linalg.solve_discrete_are(a, b, np.diag(s["state_weight"]), np.diag(s["input_weight"]))
    return np.asarray(0.5 * (solution + solution.T), dtype=np.float64)


Positive = Annotated[float, Field(ge=1e-3, le=1e6)]
"""Lengths, speeds, times and weights that flights of vehicles have."""
NotNegative = Annotated[float, Field(ge=0.0, le=1e6)]


class Section(BaseModel):
    """A section of an avoidance scenario."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class AttitudeModel(Section):
    """First-order response of roll and pitch to their commands (eq. 4), and the rotors' drag (eq. 2).

    The defaults are the firefly's: nonlinear_mpc_firefly.yaml of ethz-asl/mav_control_rw.
    """

    roll_gain: Positive = Field(0.75, description="roll angle reached per angle commanded")
    roll_time_constant: Positive = Field(0.257, description="s")
    pitch_gain: Positive = Field(0.78, description="pitch angle reached per angle commanded")
    pitch_time_constant: Positive = Field(0.259, description="s")
    drag: NotNegative = Field(
        0.01, description="s/m: acceleration in the rotor plane per specific thrust and speed"
    )


class Weights(Section):
    """Weights of eqs 8 to 10; north and east weigh alike.

    Tracking and input weights are the companion code's (nonlinear_mpc_firefly.yaml).  The paper gives no
    figures for the collision cost; ours are the weakest and steepest of those tried (1000 to 5000, 4 to
    8 1/m) with which the potential alone keeps a crossing pair apart: wider ones hold six vehicles off from
    a middle that all must cross.
    """

    horizontal_position: Positive = Field(80.0, description="1/m^2")
    vertical_position: Positive = Field(120.0, description="1/m^2")
    horizontal_velocity: NotNegative = Field(80.0, description="s^2/m^2")
    vertical_velocity: NotNegative = Field(100.0, description="s^2/m^2")
    attitude: NotNegative = Field(10.0, description="1/rad^2")
    tilt_command: Positive = Field(50.0, description="1/rad^2")
    thrust_command: Positive = Field(1.0, description="s^4/m^2")
    collision: NotNegative = Field(2000.0, description="Q_c of eq. 10")
    smoothness: Positive = Field(8.0, description="1/m, kappa of eq. 10")


class ControlLimits(Section):
    """Input limits of eq. 11; the defaults are those of nonlinear_mpc_firefly.yaml.

    The speed is ours, half as fast again as the paper's references.
    """

    tilt: Annotated[float, Field(ge=0.1, lt=80.0)] = Field(
        25.0, description="deg, of commanded roll and pitch each"
    )
    thrust_min: NotNegative = Field(5.0, description="m/s^2")
    thrust_max: Positive = Field(20.0, description="m/s^2")
    yaw_rate: Positive = Field(math.degrees(1.0), description="deg/s")
    speed: Positive = Field(3.0, description="m/s that a plan keeps below as far as distances allow")

    @model_validator(mode="after")
    def _hover_within(self) -> Self:
        if not self.thrust_min < STANDARD_GRAVITY < self.thrust_max:
            raise ValueError(
                f"hover takes {STANDARD_GRAVITY} m/s^2, which must lie between thrust_min and thrust_max"
            )
        return self


class Distances(Section):
    """Distances to keep; r_th and r_min as in the paper's experiments."""

    threshold: Positive = Field(1.2, description="m between vehicles, r_th of eq. 10")
    minimum: Positive = Field(0.9, description="m between vehicles, r_min of eq. 12")
    obstacle_threshold: Positive = Field(0.8, description="m from an obstacle")
    obstacle_minimum: Positive = Field(0.5, description="m from a vehicle's centre to an obstacle's surface")
    spread: NotNegative = Field(
        3.0, description="standard deviations by which uncertainty widens distances, eq. 15"
    )

    @model_validator(mode="after")
    def _minimum_below_threshold(self) -> Self:
        for low, high in (
            ("minimum", "threshold"),
            ("obstacle_minimum", "obstacle_threshold"),
        ):
            if getattr(self, low) >= getattr(self, high):
                raise ValueError(f"{low} must be less than {high}, or the potential could never do its work")
        return self


class ControllerSettings(Section):
    """Everything the controller of one vehicle is set by.

    The paper's: horizon, step and rate; ``speed_threshold`` is v_th of its section 4.4, the figure ours;
    ``yaw_gain`` is the companion code's K_yaw.  Ours: ``side`` decides symmetric encounters; the reference
    slows down from half of ``lead`` on and waits there, so that who gave way need not race after it (1000
    follows the clock, as the paper); plans are shared; an iteration takes 5 us; until ``max_age`` distances
    to a neighbour widen by what it may have done since.  ``paper`` is without the first three.
    """

    model: AttitudeModel = Field(
        AttitudeModel(),
        description="response to attitude commands; the one identified on the airframe without",
    )
    weights: Weights = Field(Weights(), description="of the cost")
    limits: ControlLimits = Field(ControlLimits(), description="of the commands")
    distances: Distances = Field(Distances(), description="to keep")
    horizon: Annotated[int, Field(ge=5, le=LONGEST_HORIZON)] = Field(
        20, description="steps of the prediction"
    )
    step: Annotated[float, Field(ge=0.001, le=0.5)] = Field(0.1, description="s of a step of the prediction")
    rate: Annotated[float, Field(ge=10.0, le=1000.0)] = Field(
        100.0, description="Hz at which the controller runs"
    )
    speed_threshold: NotNegative = Field(
        0.05, description="m/s below which a neighbour without a plan counts as standing still"
    )
    side: NotNegative = Field(0.5, description="m by which encounters lead to the right")
    yaw_gain: NotNegative = Field(1.8, description="1/s, of the yaw loop")
    iterations: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        200, description="of the active-set method in a tick"
    )
    lead: Annotated[float, Field(ge=1e-3)] = Field(
        1.5, description="m by which the reference may run ahead of the vehicle"
    )
    share_plans: bool = Field(
        True, description="broadcast the planned positions; false: others extrapolate the velocity (eq. 13)"
    )
    max_age: Positive = Field(2.0, description="s after which a broadcast is no longer used")
    paper: bool = Field(
        False, description="the paper's algorithm alone: share_plans false, side 0, lead 1000, unless given"
    )

    @model_validator(mode="before")
    @classmethod
    def _require_alone(cls, given: object) -> object:
        if isinstance(given, dict) and given.get("paper") is True:
            return {"share_plans": False, "side": 0.0, "lead": 1000.0, **given}
        return given

    def agility(self) -> float:
        """m/s^2 that a vehicle can accelerate with sideways: level flight at the attitude it can be told.

        g tan(K phi_max), with the gain of eq. 4, the limit of eq. 11 and the larger of the two axes.
        """
        gain = max(self.model.roll_gain, self.model.pitch_gain)
        return STANDARD_GRAVITY * math.tan(min(gain * math.radians(self.limits.tilt), 0.4 * math.pi))

    def record(self) -> Records:
        """(1,) SETTINGS with the terminal cost solved for."""
        out = np.zeros(1, SETTINGS)
        s = out[0]
        w, m = self.weights, self.model
        s["gain"] = m.roll_gain, m.pitch_gain
        s["time_constant"] = m.roll_time_constant, m.pitch_time_constant
        s["drag"] = m.drag
        s["step"] = self.step
        s["substeps"] = math.ceil(self.step / min(m.roll_time_constant, m.pitch_time_constant))
        s["state_weight"] = (
            w.horizontal_position, w.horizontal_position, w.vertical_position,
            w.horizontal_velocity, w.horizontal_velocity, w.vertical_velocity,
            w.attitude, w.attitude,
        )  # fmt: skip
        s["input_weight"] = w.tilt_command, w.tilt_command, w.thrust_command
        tilt = math.radians(self.limits.tilt)
        s["input_min"] = -tilt, -tilt, self.limits.thrust_min
        s["input_max"] = tilt, tilt, self.limits.thrust_max
        s["collision_weight"], s["smoothness"] = w.collision, w.smoothness
        s["side"], s["spread"] = self.side, self.distances.spread
        s["terminal"] = terminal_hessian(out)
        return out
