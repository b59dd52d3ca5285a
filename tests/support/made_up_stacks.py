"""Flight stacks of three vehicles that are where they are told to be."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.base.errors import UserError
from sitl_bridge.link.mavlink import common as mavlink
from sitl_bridge.link.mavlink.message import MavlinkMessage
from sitl_bridge.plan.plan import Plan
from sitl_bridge.session.stacks import FlightStacks, Message, MissionProgress

GROUND = [[0.0, 0.0, 0.0], [5.0, 0.0, 0.0], [0.0, 5.0, 0.0]]
MODES = {(6.0, 0.0): "Offboard", (4.0, 3.0): "Hold"}


class MadeUp(FlightStacks):
    """Three vehicles that are where their targets are at once, and come down when they are told to land."""

    def __init__(self) -> None:
        super().__init__(["0", "1", "2"], ["iris"] * 3, GROUND)
        self.time = 0
        self.position = np.array(GROUND)
        self.modes = ["Hold"] * 3
        self.armed = [False] * 3
        self.silent: set[int] = set()
        self.refuses: set[tuple[int, str]] = set()
        self.texts: list[Message] = []
        self.sent: list[tuple[int, list[object]]] = []

    place = (0.0, 0.0)

    @property
    def now(self) -> int:
        return self.time

    def advance(self, steps: int) -> None:
        while steps > 0:
            if self.steering is not None:
                self.steering()
            self.sent.append((self.time, list(self.targets)))
            for i, target in enumerate(self.targets):
                if target is not None and target.position is not None and self.armed[i]:
                    self.position[i] = target.position
                if self.modes[i] == "Land":
                    self.position[i, 2] = 0.0
                    self.armed[i] = False
            count = min(steps, self.chunk)
            self.time += 4000 * count
            steps -= count

    @property
    def messages(self) -> list[Message]:
        return self.texts

    def is_armed(self, vehicle: int) -> bool:
        return self.armed[vehicle]

    def on_ground(self, vehicle: int) -> bool:
        return bool(self.position[vehicle, 2] > -0.1)

    def mode(self, vehicle: int) -> str:
        return self.modes[vehicle]

    def reports(self, vehicle: int) -> bool:
        return vehicle not in self.silent

    @property
    def estimates(self) -> NDArray[np.float64]:
        return self.position.copy()

    @property
    def velocities(self) -> NDArray[np.float64]:
        return np.zeros((3, 3))

    @property
    def attitudes(self) -> NDArray[np.float64]:
        return np.zeros((3, 3))

    @property
    def batteries(self) -> NDArray[np.float64]:
        return np.ones(3)

    def send(self, vehicle: int, message: MavlinkMessage) -> None:
        raise NotImplementedError

    def received(self, vehicle: int, number: int) -> MavlinkMessage | None:
        raise NotImplementedError

    def problems(self, vehicle: int) -> Sequence[str]:
        del vehicle
        return ()

    def mission(self, vehicle: int) -> MissionProgress:
        del vehicle
        return MissionProgress()

    def command(self, vehicles: Sequence[int], what: str, number: int, params: Sequence[float] = ()) -> None:
        for vehicle in vehicles:
            if (vehicle, what) in self.refuses:
                raise UserError(f"{self.title(vehicle)} refuses to {what}: denied")
        self.advance(self.chunk)
        for vehicle in vehicles:
            self._obey(vehicle, number, params)

    def _obey(self, vehicle: int, number: int, params: Sequence[float]) -> None:
        if number == mavlink.MAV_CMD_COMPONENT_ARM_DISARM:
            self.armed[vehicle] = params[0] > 0.0
        elif number == mavlink.MAV_CMD_NAV_LAND:
            self.modes[vehicle] = "Land"
        else:
            self.modes[vehicle] = MODES[params[1], params[2]]

    def parameter(self, vehicle: int, name: str) -> float:
        raise NotImplementedError

    def set_parameter(self, vehicles: Sequence[int], name: str, value: float) -> None:
        raise NotImplementedError

    def upload(self, vehicle: int, plan: Plan) -> None:
        raise NotImplementedError


class Ends(MadeUp):
    """The simulation stops after 40 s, or once the user was told how the flight went."""

    def __init__(self) -> None:
        super().__init__()
        self.last = 40_000_000

    def say(self, line: str) -> None:
        """Take a line for the user."""
        if "least" in line:
            self.last = self.time

    def advance(self, steps: int) -> None:
        super().advance(steps)
        if self.time > self.last:
            raise UserError("the simulation stopped")
