"""Motors in the airframe file."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from sitl_bridge.base.quantities import STRICT, NonNegative, Number, Positive
from sitl_bridge.core.dynamics.records import MOTOR_DC, MOTOR_FIRST_ORDER


class FirstOrderMotor(BaseModel):
    """A speed-controlled motor: w = idle_speed + speed_range * command, first-order lag up and down."""

    model_config = STRICT

    kind: Literal["first_order"]
    time_constant_up: Positive = Field(description="s")
    time_constant_down: Positive = Field(description="s")
    idle_speed: NonNegative = Field(0.0, description="rad/s at command 0 while armed")
    speed_range: Positive = Field(description="rad/s between command 0 and 1 at the nominal voltage")
    reversible: bool = Field(
        False, description="takes commands from -1 to 1, and turns backwards below 0; 0 stops it"
    )
    efficiency: Positive = Field(
        description="shaft power (torque times speed) over electrical power; above 1 only for models with"
        " documented exaggerated torque"
    )

    def pack(self, vehicle: NDArray[np.void]) -> None:
        """Write the motors of a () VEHICLE record."""
        vehicle["motor_kind"] = MOTOR_FIRST_ORDER
        vehicle["motor_tau_up"], vehicle["motor_tau_down"] = self.time_constant_up, self.time_constant_down
        vehicle["motor_speed_idle"], vehicle["motor_speed_range"] = self.idle_speed, self.speed_range
        vehicle["motor_reversible"] = int(self.reversible)
        vehicle["motor_efficiency"] = self.efficiency


class DcMotor(BaseModel):
    """hector_quadrotor's brushless motor, voltage = command * battery voltage (hector eqs 4-6)."""

    model_config = STRICT

    kind: Literal["dc"]
    flux: Positive = Field(description="V s, Psi")
    resistance: Positive = Field(description="ohm, R_A")
    inertia: Positive = Field(description="kg m^2, J_M")
    alpha: Number = Field(description="A, alpha_m of the released code")
    beta: Positive = Field(description="1, beta_m of the released code")

    def pack(self, vehicle: NDArray[np.void]) -> None:
        """Write the motors of a () VEHICLE record, and the inertia they accelerate."""
        vehicle["motor_kind"] = MOTOR_DC
        vehicle["dc_flux"], vehicle["dc_resistance"] = self.flux, self.resistance
        vehicle["dc_inertia"] = self.inertia
        vehicle["dc_alpha"], vehicle["dc_beta"] = self.alpha, self.beta
        vehicle["rotor_inertia"][: vehicle["rotor_count"]] = self.inertia
        # Unused by DC motors, but divisors of the first-order law.
        vehicle["motor_tau_up"] = vehicle["motor_tau_down"] = vehicle["motor_efficiency"] = 1.0


Motor = Annotated[FirstOrderMotor | DcMotor, Field(discriminator="kind")]
