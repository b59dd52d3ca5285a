"""Flights of tests with flight stacks in processes of their own: PX4, or the built-in one for MAVSDK."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.api.truth_table import TruthTable
from sitl_bridge.base.errors import UserError
from sitl_bridge.core.dynamics.proximity import Proximity
from sitl_bridge.link.mavlink import common as mavlink
from sitl_bridge.link.px4.versions import PARAMETER_INTERVAL
from sitl_bridge.session.link_commands import CHUNK, LinkCommands
from sitl_bridge.session.missions.log_stamp import stamp_since
from sitl_bridge.session.ready_session import ReadySession
from sitl_bridge.session.settings import FlightSettings, VehicleSettings
from sitl_bridge.testing.flight_assertions import Array
from sitl_bridge.testing.flight_choice import FlightChoice
from sitl_bridge.testing.sitl_flight import SitlFlight, report_page

FORCE = 21196.0
"""Second parameter of ARM_DISARM that skips the checks."""
SETTLED = 0.2
"""m/s of climb below which a take-off counts as finished."""


def session_settings(choice: FlightChoice, runs: Path, name: str, instances: list[int]) -> FlightSettings:
    """Settings of a session that flies a choice on these instances, one a vehicle."""
    vehicles = tuple(
        VehicleSettings(
            airframe,
            name=called,
            position=position,
            instance=instance,
            autopilot="builtin" if choice.px4 is None else "px4",
            parameters=choice.parameters,
        )
        for airframe, called, position, instance in zip(
            choice.airframes, choice.names, choice.positions, instances, strict=True
        )
    )
    return FlightSettings(
        vehicles,
        name,
        world=choice.world,
        seed=choice.seed,
        speed=choice.speed,
        px4=choice.px4,
        runs=runs,
        on_stall="wait",
        proximity=Proximity() if len(vehicles) > 1 else None,
    )


class LinkedFlight(SitlFlight):
    """A flight of a session that is ready.

    Args:
        choice: what is flown.
        session: started and settled.
    """

    def __init__(self, choice: FlightChoice, session: ReadySession) -> None:
        self.choice, self.names = choice, choice.names
        self.session = session
        self.directory = session.directory.path
        self._commands = LinkCommands(session)
        assert session.ready_at is not None
        self._taken_over = session.ready_at
        self._files: list[tuple[str, Path]] | None = None
        self._free = False
        session.schedule(choice.events)

    @property
    def flown_by(self) -> str:
        """The flight stack, in words."""
        flown_by = self.session.vehicles[0].autopilot
        if flown_by.px4 is None:
            return f"{flown_by.name}, not PX4"
        return f"PX4 {flown_by.px4.version} of {flown_by.px4.root}"

    @property
    def time(self) -> float:
        """s of simulated time since the test took the flight over."""
        return (self.session.now - self._taken_over) * 1e-6

    @property
    def track(self) -> TruthTable:
        """The true motion since the test took over the flight."""
        if self._files is None:
            self.session.refresh_log()
        rows = TruthTable.load(self.session.directory.truth, self.names).rows
        return TruthTable(
            rows[rows["time"][:, 0] > self._taken_over].reshape(-1), self.names, self._taken_over
        )

    def _state(self, name: str) -> Any:
        return self.session.simulation.states[name].copy()

    @property
    def _armed(self) -> NDArray[np.bool_]:
        return np.array([link.armed for link in self.session.server.status().links])

    @property
    def _modes(self) -> tuple[str, ...]:
        return tuple(aircraft.monitor.status().mode for aircraft in self.session.vehicles)

    @property
    def urls(self) -> tuple[str, ...]:
        """Where MAVSDK reaches each vehicle; from the first use on, simulated time passes by itself."""
        self._free = True
        self.session.run_freely()
        return tuple(vehicle.url for vehicle in self.session.settings.vehicles)

    # ------------------------------------------------------------------ time and commands

    def _take_time(self) -> None:
        """Let time stand still again after it passed by itself."""
        if self._free:
            self._free = False
            self.session.hold()

    def run(self, seconds: float) -> None:
        """Let simulated time pass."""
        self._take_time()
        self._commands.advance(round(seconds * 1e6 / self.session.simulation.step))

    def _each(self, what: str, number: int, *params: float) -> None:
        self._take_time()
        for i in range(len(self.names)):
            self._commands.command(i, what, number, *params)

    def arm(self) -> None:
        """Arm all vehicles."""
        self._each("arm", mavlink.MAV_CMD_COMPONENT_ARM_DISARM, 1.0, *[0.0] * 6)
        self._commands.wait(lambda: bool(self._armed.all()), 5.0, "armed", lambda: self.state_in_words)

    def disarm(self, *, force: bool = False) -> None:
        """Stop the motors."""
        self._each("disarm", mavlink.MAV_CMD_COMPONENT_ARM_DISARM, 0.0, FORCE if force else 0.0, *[0.0] * 5)
        self._release()

    def takeoff(self, height: float, *, limit: float = 60.0) -> None:
        """Climb by ``height`` m, and wait until the vehicles hold there."""
        self._take_time()
        if not self._armed.all():
            raise UserError(f"refuses to take off: not armed ({self.state_in_words}); call arm() first")
        ground = self._state("position")[:, 2]
        for i in range(len(self.names)):
            self._commands.set_parameter(i, "MIS_TAKEOFF_ALT", height)
        self.run(PARAMETER_INTERVAL)
        self._each("take off", mavlink.MAV_CMD_NAV_TAKEOFF)

        def is_up() -> bool:
            climbed = ground - self._state("position")[:, 2]
            slow = np.abs(self._state("velocity")[:, 2]) < SETTLED
            return all(mode == "Hold" for mode in self._modes) and bool(
                (slow & (climbed > 0.7 * height)).all()
            )

        self._commands.wait(is_up, limit, f"at a height of {height:g} m", lambda: self.state_in_words)

    def _lead(self, positions: Array | None, velocities: Array | None, yaw: float) -> None:
        self._take_time()
        for i, start in enumerate(self.choice.positions):
            position = None if positions is None else (positions[i] - start).tolist()
            velocity = None if velocities is None else velocities[i].tolist()
            self._commands.target(i, position, velocity, yaw)

    @property
    def _distance_left(self) -> Array:
        left = []
        for i, aircraft in enumerate(self.session.vehicles):
            here = np.array(aircraft.monitor.status().position)
            left.append(float(np.linalg.norm(here - self._commands.target_of(i))))
        return np.array(left)

    def _release(self) -> None:
        for i in range(len(self.names)):
            self._commands.release(i)

    def hold(self) -> None:
        """Stop and hold."""
        self._each("hold", mavlink.MAV_CMD_DO_SET_MODE, 1.0, 4.0, 3.0, *[0.0] * 4)
        self._release()

    def land(self, *, limit: float = 120.0) -> None:
        """Land here, and wait until the vehicles have disarmed."""
        self._go_down("land", mavlink.MAV_CMD_NAV_LAND, limit)

    def return_home(self, *, limit: float = 300.0) -> None:
        """Fly to the place of take-off, land there, and wait until the vehicles have disarmed."""
        self._go_down("return home", mavlink.MAV_CMD_NAV_RETURN_TO_LAUNCH, limit)

    def _go_down(self, what: str, number: int, limit: float) -> None:
        self._each(what, number, *[0.0] * 3, *[math.nan] * 4)
        self._release()
        self._commands.wait(
            lambda: not self._armed.any(), limit, "on the ground", lambda: self.state_in_words
        )
        self._commands.advance(CHUNK)

    # ------------------------------------------------------------------ end

    def messages(self) -> list[str]:
        """Texts of the flight stacks with their times, oldest first."""
        alone = len(self.names) == 1
        start = self._taken_over * 1e-6
        return [
            f"{stamp_since(start, m.time)} {'' if alone else f'{aircraft.settings.name}: '}{m.text}"
            for aircraft in self.session.vehicles
            for m in aircraft.messages
        ]

    def finish(self, reason: str) -> list[tuple[str, Path]]:
        """End the flight and write its summary; safe to call twice."""
        if self._files is None:
            outcome = self.session.end(reason)
            self.verdict = outcome.verdict
            self._files = [("run directory", self.directory)]
            self._files += [
                (name, outcome.logs[name]) for name in ("summary", "picture") if name in outcome.logs
            ]
            self._files += report_page(self.directory)
        return self._files

    def close(self) -> None:
        """End the flight without a summary; safe to call twice."""
        self.session.stop()
