"""Fleet commands such as arm, take off and land; a refusal names the vehicle and the reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sitl_bridge.api.vehicle_arrays import VehicleArrays
from sitl_bridge.autopilot.commander import Commander
from sitl_bridge.autopilot.commander_data import (
    ACCEPTED,
    DENIED,
    FAILED,
    TEMPORARILY_REJECTED,
    UNSUPPORTED,
    WARNING,
)
from sitl_bridge.autopilot.modes.flight_modes import AUTO_TAKEOFF, FLAG_CUSTOM, OFFBOARD
from sitl_bridge.autopilot.stack_fleet import StackFleet as Core
from sitl_bridge.base.errors import UserError
from sitl_bridge.swarm.in_process import BuiltInFleet
from sitl_bridge.swarm.interface import Setpoints

Array: TypeAlias = NDArray[np.float64]
Vehicles: TypeAlias = int | str | Sequence[int | str] | NDArray[Any] | None
"""Which vehicles: a number, a name, several of them, or (n,) True and False; None for all."""

ARM_DISARM, SET_MODE, TAKE_OFF, LAND, RETURN, HOLD = 400, 176, 22, 21, 20, 17
"""MAV_CMD."""
FORCE = 21196.0
"""Second parameter of ARM_DISARM that skips the checks."""
RESULTS = {
    TEMPORARILY_REJECTED: "temporarily rejected",
    DENIED: "denied",
    UNSUPPORTED: "unsupported",
    FAILED: "failed",
}
SETTLED = 0.2
"""m/s of climb below which a take-off counts as finished, once the flight stack holds the height."""


@dataclass(frozen=True)
class Message:
    """A status text of a vehicle's flight stack.

    Attributes:
        time: s of simulated time.
        vehicle: its name.
        level: MAV_SEVERITY: 0 emergency, 2 critical, 4 warning, 6 information.
        text: as PX4 words it.
    """

    time: float
    vehicle: str
    level: int
    text: str


class FleetCommands(VehicleArrays):
    """Commands to the vehicles of a fleet."""

    messages: list[Message]
    _fleet: Core
    _interface: BuiltInFleet
    _targets: Setpoints
    _led: NDArray[np.bool_]

    def _advance(self, most: int) -> int:
        """Advance to the next update of the commanders, or by ``most`` steps; returns how many."""
        raise NotImplementedError

    def _collect(self) -> None:
        """Take over the vehicles' status texts."""
        raise NotImplementedError

    # ------------------------------------------------------------------ commands

    def arm(self, vehicles: Vehicles = None, *, limit: float = 60.0) -> None:
        """Wait until the vehicles can arm, and arm them.

        Args:
            vehicles: which; None for all.
            limit: s of simulated time to become ready in.

        Raises:
            UserError: with the vehicles that do not become ready, and the reasons.
        """
        chosen = self._chosen(vehicles)
        self._wait(
            chosen,
            lambda i: not self._commander(i).arming_problems,
            limit,
            "ready to arm",
            lambda i: ", ".join(self._commander(i).arming_problems),
        )
        for i in chosen:
            self._command(i, "arm", ARM_DISARM, 1.0)

    def disarm(self, vehicles: Vehicles = None, *, force: bool = False) -> None:
        """Stop the motors; ``force`` does so in the air, too.

        Raises:
            UserError: for a vehicle that is not on the ground.
        """
        for i in self._chosen(vehicles):
            self._command(i, "disarm", ARM_DISARM, 0.0, FORCE if force else 0.0)
            self._led[i] = False

    def takeoff(
        self, height: float, vehicles: Vehicles = None, *, wait: bool = True, limit: float = 60.0
    ) -> None:
        """Climb, and hold there.

        Args:
            height: m above where each vehicle is now.
            vehicles: which; None for all.
            wait: whether to return only when they are there.
            limit: s of simulated time for that.

        Raises:
            UserError: for a vehicle that is not armed, refuses, or does not get there in time.
        """
        chosen = self._chosen(vehicles)
        if not 0.0 < height < 10_000.0:
            raise UserError(f"takeoff: {height!r} m is not a height to climb to; give a positive number")
        for i in chosen:
            self._require_armed(i, "take off")
            state = self._commander(i).state
            if state.projection is None:
                raise UserError(f"{self._name(i)} cannot take off: it has no position estimate")
            altitude = state.projection.altitude(state.z - height)
            self._led[i] = False
            self._command(i, "take off", TAKE_OFF, 0.0, 0.0, 0.0, np.nan, np.nan, np.nan, altitude)
        if wait:
            self._wait(chosen, self._is_up, limit, f"at a height of {height:g} m", self._condition_of)

    def _is_up(self, i: int) -> bool:
        commander = self._commander(i)
        if not commander.armed:
            raise UserError(f"{self._name(i)} disarmed during its take-off{self._last_words(i)}")
        begun = commander.intended is not AUTO_TAKEOFF and not commander.land.landed
        return begun and abs(commander.state.vz) < SETTLED

    def goto(self, positions: ArrayLike, yaw: ArrayLike | None = None, vehicles: Vehicles = None) -> None:
        """Fly to places and stay there; returns at once, ``run`` lets time pass.

        Args:
            positions: (n, 3) m NED from the world's origin, or (3,) for one vehicle.
            yaw: rad from north, clockwise, one or (n,); None keeps the heading.
            vehicles: which; None for all.

        Raises:
            UserError: for positions of another shape, and for a vehicle that is not armed or refuses.
        """
        self.follow(positions, yaw=yaw, vehicles=vehicles, what="goto")

    def set_velocity(
        self, velocities: ArrayLike, yaw: ArrayLike | None = None, vehicles: Vehicles = None
    ) -> None:
        """Fly with velocities; returns at once.

        Args:
            velocities: (n, 3) m/s NED, or (3,) for one vehicle.
            yaw: as for ``goto``.
            vehicles: which; None for all.

        Raises:
            UserError: as ``goto``.
        """
        self.follow(velocity=velocities, yaw=yaw, vehicles=vehicles, what="set_velocity")

    def follow(
        self,
        position: ArrayLike | None = None,
        velocity: ArrayLike | None = None,
        acceleration: ArrayLike | None = None,
        yaw: ArrayLike | None = None,
        vehicles: Vehicles = None,
        *,
        what: str = "follow",
    ) -> None:
        """Follow a point of a trajectory; returns at once.  Give the next point from ``each`` of ``run``.

        Args:
            position: (n, 3) m NED from the world's origin; None is not controlled.
            velocity: (n, 3) m/s NED; beside a position it is fed forward.
            acceleration: (n, 3) m/s^2 NED, fed forward.
            yaw: rad from north, clockwise, one or (n,); None keeps the heading.
            vehicles: which; None for all.
            what: names the command in messages.

        Raises:
            UserError: for arrays of another shape, and for a vehicle that is not armed or refuses.
        """
        chosen = self._chosen(vehicles)
        if position is None and velocity is None and acceleration is None:
            raise UserError(f"{what}: give a position, a velocity or an acceleration")
        rows = Setpoints.none(len(chosen))
        for field, given in (("position", position), ("velocity", velocity), ("acceleration", acceleration)):
            if given is not None:
                setattr(rows, field, self._rows(given, chosen, 3, f"{what}: {field}"))
        if yaw is not None:
            rows.yaw = self._rows(np.reshape(yaw, (-1, 1)), chosen, 1, f"{what}: yaw")[:, 0]
        for i in chosen:
            self._require_armed(i, what)
        at = np.array(chosen, np.int64)
        self._targets.put(at, rows)
        self._led[at] = True
        self._interface.command(self._targets, self._led)
        for i in chosen:
            if self._commander(i).intended is not OFFBOARD:
                self._command(i, what, SET_MODE, float(FLAG_CUSTOM), float(OFFBOARD.main))

    def hold(self, vehicles: Vehicles = None) -> None:
        """Stop and hold; returns at once.

        Raises:
            UserError: for a vehicle that refuses.
        """
        for i in self._chosen(vehicles):
            self._leave_target(i, "hold", HOLD)

    def land(self, vehicles: Vehicles = None, *, wait: bool = True, limit: float = 120.0) -> None:
        """Land where the vehicles are; they disarm by themselves.

        Args:
            vehicles: which; None for all.
            wait: whether to return only when they have disarmed.
            limit: s of simulated time for that.

        Raises:
            UserError: for a vehicle that refuses or is not down in time.
        """
        self._go_down("land", LAND, vehicles, wait, limit)

    def return_home(self, vehicles: Vehicles = None, *, wait: bool = True, limit: float = 300.0) -> None:
        """Fly back to where the vehicles took off, and land; as ``land``."""
        self._go_down("return home", RETURN, vehicles, wait, limit)

    def _go_down(self, what: str, command: int, vehicles: Vehicles, wait: bool, limit: float) -> None:
        chosen = [i for i in self._chosen(vehicles) if self._commander(i).armed]
        for i in chosen:
            self._leave_target(i, what, command)
        if wait:
            self._wait(
                chosen, lambda i: not self._commander(i).armed, limit, "on the ground", self._condition_of
            )

    def _leave_target(self, i: int, what: str, command: int) -> None:
        self._command(i, what, command)
        self._led[i] = False

    # ------------------------------------------------------------------ helpers

    def _commander(self, i: int) -> Commander:
        return self._fleet.pilots[i].commander

    def _name(self, i: int) -> str:
        return f"vehicle {self.names[i]} ({self.airframes[i].name})"

    def _chosen(self, vehicles: Vehicles) -> list[int]:
        """Numbers of vehicles.

        Raises:
            UserError: for an unknown vehicle.
        """
        if vehicles is None:
            return list(range(len(self)))
        listed = [vehicles] if isinstance(vehicles, int | str) else list(vehicles)
        if listed and all(isinstance(entry, bool | np.bool_) for entry in listed):
            if len(listed) != len(self):
                raise UserError(f"vehicles: a mask has {len(self)} entries, not {len(listed)}")
            return [i for i, taken in enumerate(listed) if taken]
        found = []
        for entry in listed:
            if isinstance(entry, str) and entry in self.names:
                found.append(self.names.index(entry))
            elif isinstance(entry, int | np.integer) and 0 <= entry < len(self):
                found.append(int(entry))
            else:
                raise UserError(f"vehicles: there is no vehicle {entry!r}; there are {', '.join(self.names)}")
        return found

    def _rows(self, given: ArrayLike, chosen: list[int], width: int, what: str) -> Array:
        """(k, width) finite figures, one row a chosen vehicle; a single row is for all of them.

        Raises:
            UserError: for anything else.
        """
        rows = np.atleast_2d(np.asarray(given, dtype=np.float64))
        if rows.shape not in ((len(chosen), width), (1, width)) or (
            width == 3 and rows.shape[0] == 1 and len(chosen) > 1
        ):
            raise UserError(f"{what}: {len(chosen)} rows of {width} are needed, not the shape {rows.shape}")
        rows = np.broadcast_to(rows, (len(chosen), width)).copy()
        for i, row in zip(chosen, rows, strict=True):
            if not np.isfinite(row).all():
                raise UserError(f"{what}: the figures for {self._name(i)} are not finite: {row.tolist()}")
        return rows

    def _require_armed(self, i: int, what: str) -> None:
        if not self._commander(i).armed:
            raise UserError(f"{self._name(i)} refuses to {what}: it is not armed; call arm() first")

    def _command(self, i: int, what: str, command: int, *params: float) -> None:
        """Give a vehicle a MAV_CMD.

        Raises:
            UserError: when it refuses, with its reasons.
        """
        self._collect()
        before = len(self.messages)
        filled = [*params, *[0.0] * (7 - len(params))]
        result = self._commander(i).command(command, filled, self._core.time)
        self._collect()
        if result == ACCEPTED:
            return
        reasons = [message.text for message in self.messages[before:] if message.level <= WARNING]
        why = "; ".join(reasons) or RESULTS.get(result, f"result {result}")
        raise UserError(f"{self._name(i)} refuses to {what}: {why}")

    def _wait(
        self,
        chosen: list[int],
        done: Callable[[int], bool],
        limit: float,
        what: str,
        why: Callable[[int], str],
    ) -> None:
        """Let time pass until all chosen vehicles are done.

        Raises:
            UserError: with those that are not done within ``limit`` s, and the reasons.
        """
        end = self.time + limit
        while waiting := [i for i in chosen if not done(i)]:
            if self.time >= end:
                told = "; ".join(f"{self._name(i)}: {why(i)}" for i in waiting)
                raise UserError(f"not {what} within {limit:g} s of simulated time: {told}")
            self._advance(self._fleet.steps_to_update)

    def _condition_of(self, i: int) -> str:
        commander = self._commander(i)
        failsafe = f", failsafe: {commander.failsafe}" if commander.failsafe else ""
        armed = "armed" if commander.armed else "disarmed"
        return f"{armed}, in {commander.mode.name}{failsafe}{self._last_words(i)}"

    def _last_words(self, i: int) -> str:
        words = [m.text for m in self.messages if m.vehicle == self.names[i] and m.level <= WARNING]
        return f" ({words[-1]})" if words else ""
