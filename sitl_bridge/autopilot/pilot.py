"""One vehicle's flight stack around the compiled step: its commander, injected failures, its log.

The same object steers a vehicle of a fleet in this process and one at the far end of the simulator link.
"""

from __future__ import annotations

import numpy as np

from sitl_bridge.autopilot.commander import Commander
from sitl_bridge.autopilot.commander_data import VehicleFacts
from sitl_bridge.autopilot.control.allocation import allocate, density_at
from sitl_bridge.autopilot.control.user_controller import user_controller
from sitl_bridge.autopilot.estimation.measurement import FAILING
from sitl_bridge.autopilot.flight_log import StackLog
from sitl_bridge.autopilot.mavlink.parameter_protocol import vehicle_type
from sitl_bridge.autopilot.parameters import Parameters
from sitl_bridge.autopilot.stack import StackArrays, StackVehicle
from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.kernels.record import Packed
from sitl_bridge.core.dynamics.performance import performance
from sitl_bridge.core.sensors.records import FAULT_NONE, FAULT_OFF, FAULT_STUCK
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.vehicle.perception_settings import odometry
from sitl_bridge.core.world.world import World

_FAULTS = {"off": FAULT_OFF, "stuck": FAULT_STUCK}


def commander_facts(airframe: Airframe, world: World) -> VehicleFacts:
    """Facts of an airframe for the commander."""
    gravity = float(world.environment[0]["gravity"])
    found = performance(airframe.record, density_at(world), gravity, endurance=False)
    kinds = frozenset(sensor.kind for sensor in airframe.sensors)
    return VehicleFacts(1.0 / found.thrust_to_weight, len(airframe.rotors), kinds)


class Pilot:
    """The part of one vehicle's built-in flight stack that runs in Python: commander, log, own controller.

    It steers vehicle ``index`` of the compiled stacks; a ``vehicle.VehicleSpecification`` says which vehicles
    there are.

    Args:
        stacks: the compiled stacks' memory.
        index: of the vehicle in it.
        controls: (16,) its motor commands, written where the controller is the user's own.
        start: us.

    Attributes:
        own_controller: the user's, to be run by :meth:`run_own_controller` after every step; or None.

    Raises:
        UserError: for a parameter or a controller that does not exist.
    """

    def __init__(
        self,
        member: StackVehicle,
        stacks: StackArrays,
        index: int,
        controls: Floats,
        world: World,
        start: int,
    ) -> None:
        airframe = member.airframe
        self.parameters = Parameters((vehicle_type(len(airframe.rotors)),))
        external = odometry(airframe)
        if external is not None:
            self.parameters.set("EKF2_EV_CTRL", external[1])
        for name, value in member.parameters.items():
            self.parameters.set(name, value)
        self.commander = Commander(commander_facts(airframe, world), self.parameters)
        self.estimate: Packed = stacks.estimates[index]
        self.setpoint: Packed = stacks.setpoints[index]
        self._output: Packed = stacks.setpoints[index, ...]  # the same memory, written as a whole
        self.reader: Packed = stacks.readers[index]
        self.allocation: Packed = stacks.allocations[index]
        self.controller: Packed = stacks.controllers[index]
        self.wrench: Packed = stacks.wrenches[index]
        self._thrust: Floats = stacks.wrenches["thrust"][index, ...]
        self.controls = controls
        self.own_controller = user_controller(airframe, world, member.controller)
        self._estimator: Packed = stacks.estimators[index]
        self._version = -1
        """Of the parameters that the estimator has."""
        self._stepped = 0
        rotors = int(self.allocation["rotor_count"])
        effect, most = self.allocation["effectiveness"][:, :rotors], self.allocation["thrust_max"][:rotors]
        self.full_thrust = float(effect[0] @ most)
        self.full_moment: list[float] = (0.5 * np.abs(effect[1:] * most).sum(axis=1)).tolist()
        self._applied: dict[str, dict[int, str]] = {}
        self.log: StackLog | None = None
        if member.log is not None:
            self.log = StackLog(member.log, start, airframe.name, self)
            self.commander.log_text = self.log.say

    def update(self, now: int) -> None:
        """Let the commander decide, apply the injected failures, log."""
        if self._version != self.parameters.version:
            self._version = self.parameters.version
            self._estimator["odometry_control"] = self.parameters.values["EKF2_EV_CTRL"]
        thrust = float(self._thrust) / self.full_thrust
        self.commander.update(now, self.estimate, self._output, thrust)
        if self.commander.failures != self._applied:
            self._apply_failures()
        if self.log is not None:
            self.log.write(now)

    def run_own_controller(self) -> None:
        """Let the user's controller ask for what the rotors are to do after a step.

        Raises:
            UserError: when it fails.
        """
        now = int(self.estimate["time"])
        if self.own_controller is None or now == self._stepped:
            return
        seconds = (now - self._stepped) * 1e-6 if self._stepped else 0.0
        self._stepped = now
        self.own_controller.run(self.estimate, self.setpoint, seconds, self.wrench)
        allocate(self.allocation, self.wrench, int(self.setpoint["level"]), self.controls)
        self.controls[:] = self.controls.astype(np.float32)  # as on the wire

    def _apply_failures(self) -> None:
        """Of sensors the first instance counts, as the stack reads no other; instance 0 means all."""
        failures = self.commander.failures
        self._applied = {kind: dict(instances) for kind, instances in failures.items()}
        for row, kind in enumerate(FAILING):
            faults = failures.get(kind, {})
            fault = faults.get(0) or faults.get(1)
            self.reader["failure"][row] = _FAULTS[fault] if fault else FAULT_NONE
        motors = failures.get("motor", {})
        for rotor in range(int(self.allocation["rotor_count"])):
            self.allocation["failed"][rotor] = int(0 in motors or rotor + 1 in motors)

    def close(self) -> None:
        """Finish the log."""
        if self.log is not None:
            self.log.close()
            self.log = self.commander.log_text = None  # the parts of a commander hold each other
