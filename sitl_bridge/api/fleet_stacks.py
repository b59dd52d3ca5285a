"""The built-in stack in this process, commanded without MAVLink."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sitl_bridge.api.fleet_clock import FleetClock
from sitl_bridge.autopilot.commander import Commander
from sitl_bridge.autopilot.commander_data import ACCEPTED, NAN3, WARNING, OffboardTarget
from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.rotations import euler_arrays
from sitl_bridge.link.px4.vehicle_status import RESULTS, mode_name
from sitl_bridge.plan.plan import Plan
from sitl_bridge.plan.plan_upload import fence_items, mission_items, rally_items
from sitl_bridge.session.settings import VehicleSettings
from sitl_bridge.session.stacks import FlightStacks, Message, MissionProgress


class FleetStacks(FlightStacks):
    """The flight stacks of a fleet in this process.

    Args:
        vehicles: of the fleet.
        clock: that lets its time pass.
    """

    def __init__(self, vehicles: Sequence[VehicleSettings], clock: FleetClock) -> None:
        super().__init__(
            [vehicle.name for vehicle in vehicles],
            [vehicle.airframe.name for vehicle in vehicles],
            [vehicle.position for vehicle in vehicles],
        )
        self._clock, self.fleet = clock, clock.fleet
        self.ready_at = clock.now
        self._texts: list[tuple[int, int, int, str]] = []
        """us, number of the vehicle, level and text."""

    @property
    def now(self) -> int:
        """us of simulated time."""
        return self.fleet.time

    @property
    def place(self) -> tuple[float, float]:
        """Deg latitude and longitude of the world's origin."""
        origin = self.fleet.simulation.world.specification.origin
        return origin.latitude, origin.longitude

    def on_ground(self, vehicle: int) -> bool:
        """Whether a vehicle stands on something."""
        return bool(self.fleet.simulation.states[vehicle]["in_contact"])

    @property
    def steps_to_look(self) -> int:
        """Steps to the next update of the commanders."""
        return self.fleet.steps_to_update

    def advance(self, steps: int) -> None:
        """Let time pass, with the targets in force."""
        self.take_control()
        while steps > 0:
            if self.steering is not None:
                self.steering()
            for i in range(len(self.names)):
                self._steer(i)
            count = min(steps, self.fleet.steps_to_update)
            self._clock.advance(count)
            steps -= count
            self._collect()

    def _steer(self, vehicle: int) -> None:
        """Hand the sticks and the target to the flight stack."""
        commander, target, sticks = self._commander(vehicle), self.targets[vehicle], self.sticks[vehicle]
        if sticks is not None:
            commander.manual_control(*sticks, self.now)
        if target is None:
            return
        commander.offboard(
            OffboardTarget(
                NAN3 if target.position is None else self.own_place(vehicle, target.position),
                target.velocity or NAN3,
                target.acceleration or NAN3,
                target.yaw,
                attitude=target.attitude,
                angular_velocity=target.rates,
                thrust=target.thrust,
                body_frame=target.body,
            ),
            self.now,
        )

    def _collect(self) -> None:
        for i, pilot in enumerate(self.fleet.pilots):
            texts = pilot.commander.texts
            while texts:
                self._texts.append((self.now, i, *texts.popleft()))

    # ------------------------------------------------------------------ the flight stacks

    def _commander(self, vehicle: int) -> Commander:
        return self.fleet.pilots[vehicle].commander

    @property
    def messages(self) -> list[Message]:
        """Status texts so far, oldest first."""
        self._collect()
        return [
            Message((at - self.ready_at) * 1e-6, self.names[i], level, text)
            for at, i, level, text in self._texts
        ]

    def is_armed(self, vehicle: int) -> bool:
        """Whether a vehicle's motors may turn."""
        return self._commander(vehicle).armed

    def mode(self, vehicle: int) -> str:
        """Flight mode of a vehicle, by PX4's name."""
        return mode_name(self._commander(vehicle).next_mode.custom_mode)

    @property
    def estimates(self) -> Floats:
        """(n, 3) m NED from the world's origin, by the vehicles' own estimates."""
        found: Floats = self.fleet.stacks.estimates["position"] + self.origins
        return found

    @property
    def velocities(self) -> Floats:
        """(n, 3) m/s NED."""
        found: Floats = self.fleet.stacks.estimates["velocity"].copy()
        return found

    @property
    def attitudes(self) -> Floats:
        """(n, 3) rad roll, pitch, yaw."""
        return euler_arrays(self.fleet.stacks.estimates["attitude"])

    @property
    def batteries(self) -> Floats:
        """(n,) share of the charge."""
        return np.array([pilot.commander.battery_state.remaining for pilot in self.fleet.pilots])

    def problems(self, vehicle: int) -> Sequence[str]:
        """Why a vehicle cannot arm; empty if it can."""
        return self._commander(vehicle).arming_problems

    def command(self, vehicles: Sequence[int], what: str, number: int, params: Sequence[float] = ()) -> None:
        """Give vehicles a MAV_CMD."""
        self.take_control()
        for vehicle in vehicles:
            self._command_one(vehicle, what, number, params)

    def _command_one(self, vehicle: int, what: str, number: int, params: Sequence[float]) -> None:
        self._steer(vehicle)  # before the switch to a mode that follows it
        self._collect()
        before = len(self._texts)
        result = self._commander(vehicle).command(number, [*params, *[0.0] * (7 - len(params))], self.now)
        self._collect()
        if result != ACCEPTED:
            warnings = [text for _, _, level, text in self._texts[before:] if level <= WARNING]
            why = "; ".join(warnings) or RESULTS.get(result, f"result {result}")
            raise UserError(f"{self.title(vehicle)} refuses to {what}: {why}")

    def parameter(self, vehicle: int, name: str) -> float:
        """A parameter."""
        parameters = self.fleet.pilots[vehicle].parameters
        if name not in parameters:
            raise UserError(f"{self.title(vehicle)} has no parameter {name}")
        return float(parameters.get(name))

    def set_parameter(self, vehicles: Sequence[int], name: str, value: float) -> None:
        """Set a parameter of vehicles."""
        for vehicle in vehicles:
            self.fleet.pilots[vehicle].parameters.set(name, value)

    def upload(self, vehicle: int, plan: Plan) -> None:
        """Give a vehicle a plan's fence, rally points and mission, if it has one."""
        commander = self._commander(vehicle)
        for name, give, items in (
            ("geofence", commander.set_fence, fence_items(plan)),
            ("rally points", commander.plans.set_rally, rally_items(plan)),
            *([("mission", commander.set_mission, mission_items(plan))] if plan.items else []),
        ):
            fault = give(items)
            if fault is not None:
                raise UserError(f"{self.title(vehicle)} refuses the plan's {name}: {fault.reason}")

    def mission(self, vehicle: int) -> MissionProgress:
        """How far a vehicle is in its mission."""
        commander = self._commander(vehicle)
        return MissionProgress(commander.flight.current, commander.flight.finished)
