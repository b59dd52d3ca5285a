"""Take-off sequence: motors spin up, the thrust ramps up, then the flight tasks take control.

PX4's states (mc_pos_control/Takeoff): disarmed, spool-up, ready for take-off, ramp-up, flight.
"""

from __future__ import annotations

from sitl_bridge.autopilot.modes.land_detector import GRAVITY
from sitl_bridge.autopilot.records import IDLE
from sitl_bridge.autopilot.setpoint_output import Output

DISARMED, SPOOL_UP, READY, RAMP_UP, FLIGHT = 1, 2, 3, 4, 5

HOVER_SHARE = 0.5
"""Share of MPC_TKO_RAMP_T at which PX4's ramp exceeds hover thrust; it rises linearly to the take-off
climb."""


class Takeoff:
    """Take-off state of one vehicle.

    Args:
        values: parameter values.

    Attributes:
        state: one of the above.
    """

    __slots__ = ("_progress", "_time", "_values", "state")

    def __init__(self, values: dict[str, float]) -> None:
        self._values = values
        self._time = 0.0
        self._progress = 0.0
        self.state = DISARMED

    def update(self, armed: bool, landed: bool, wanted: bool, dt: float) -> None:
        """Update the state; ``wanted`` is whether the setpoint requests a take-off."""
        self._time = self._time + dt if armed else 0.0
        if not armed:
            self.state = DISARMED
        elif self.state == DISARMED:
            self.state = SPOOL_UP if landed else FLIGHT
        elif self.state == SPOOL_UP:
            if self._time >= self._values["COM_SPOOLUP_TIME"]:
                self.state = READY
        elif self.state == READY:
            if not landed:
                self.state = FLIGHT
            elif wanted:
                self.state = RAMP_UP
                self._progress = 0.0
        elif self.state == RAMP_UP:
            ramp = HOVER_SHARE * self._values["MPC_TKO_RAMP_T"]
            self._progress += dt / ramp if ramp > 0.0 else 1.0
            if self._progress >= 1.0:
                self.state = FLIGHT
        elif landed:
            self.state = READY

    @property
    def on_ground(self) -> bool:
        """Whether the motors may only idle."""
        return self.state < RAMP_UP

    def shape(self, output: Output) -> None:
        """Keep a climb-controlled setpoint on the ground until the sequence allows flight."""
        if self.on_ground:
            output.clear(IDLE)
        elif self.state == RAMP_UP:
            output.vx = output.vy = output.vz = 0.0
            output.ax = output.ay = 0.0
            output.az = GRAVITY * (1.0 - self._progress)
