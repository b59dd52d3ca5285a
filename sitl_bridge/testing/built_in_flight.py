"""Flights of tests with the built-in stack within this process: hundreds of times faster than real time."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.analysis.evaluation.run_record import SUMMARY, RunRecord, read_run
from sitl_bridge.analysis.evaluation.summary import Outcome, summarise, whole_summary, write_json
from sitl_bridge.analysis.evaluation.verdict import conclude
from sitl_bridge.api.fleet import Fleet
from sitl_bridge.api.truth_table import Recording, TruthTable
from sitl_bridge.api.world_choice import World
from sitl_bridge.base.error_log import ErrorLog, print_error
from sitl_bridge.base.errors import UserError
from sitl_bridge.core.dynamics.proximity import Proximity
from sitl_bridge.core.simulation.events import Timeline, actions
from sitl_bridge.record.run_description import describe_simulation
from sitl_bridge.record.run_directory import RunDirectory
from sitl_bridge.session.missions.log_stamp import stamp_since
from sitl_bridge.session.settings import BUILTIN
from sitl_bridge.testing.flight_assertions import Array
from sitl_bridge.testing.flight_choice import FlightChoice
from sitl_bridge.testing.sitl_flight import SitlFlight, report_page

READY_AT = 5.0
"""s of simulated time at which a test takes over; the estimator has settled by then."""
KEPT = 4
"""Fleets kept to be reset for the next test that flies the same vehicles in the same world."""


class BuiltInFlights:
    """Makes flights, and resets the fleets of those that are over instead of building new ones."""

    def __init__(self) -> None:
        self._idle: dict[str, Fleet] = {}

    def take(self, choice: FlightChoice, logs: Path) -> Fleet:
        """A fleet at the start of its flight, which logs into a directory."""
        fleet = self._idle.pop(_key(choice), None)
        if fleet is not None:
            fleet.reset(choice.seed, logs=logs)
            return fleet
        return Fleet(
            choice.airframes,
            names=choice.names,
            positions=choice.positions,
            world=World.of(choice.world),
            parameters=choice.parameters,
            seed=choice.seed,
            proximity=_proximity(choice),
            logs=logs,
        )

    def give_back(self, choice: FlightChoice, fleet: Fleet) -> None:
        """Keep a fleet for the next test."""
        self._idle[_key(choice)] = fleet
        while len(self._idle) > KEPT:
            self._idle.pop(next(iter(self._idle)))


def _proximity(choice: FlightChoice) -> Proximity | None:
    return Proximity() if len(choice.airframes) > 1 else None


def _key(choice: FlightChoice) -> str:
    return repr((choice.airframes, choice.world, choice.spacing, sorted(choice.parameters.items())))


class BuiltInFlight(SitlFlight):
    """A flight of the built-in stack in this process.

    Args:
        choice: what is flown.
        runs: where the run directory is made.
        name: of the run.
        flights: makes the fleet.
    """

    def __init__(self, choice: FlightChoice, runs: Path, name: str, flights: BuiltInFlights) -> None:
        self.choice, self.names = choice, choice.names
        self._flights = flights
        self._place = RunDirectory(runs, name)
        self.directory = self._place.path
        self.fleet = flights.take(choice, self.directory / "autopilot")
        simulation, proximity = self.fleet.core.simulation, _proximity(choice)
        self._place.describe(**describe_simulation("fly", simulation, choice.airframes, proximity))
        self._recording: Recording = self.fleet.record(self._place.truth)
        self._files: list[tuple[str, Path]] | None = None
        self._closed = False
        self.fleet.run(READY_AT)
        self.fleet.run_until(lambda fleet: not any(fleet.arming_problems), limit=60.0)
        self._taken_over = self.fleet.time
        core = self.fleet.core
        due = actions(choice.events, core.simulation, self._place.say, names=self.names)
        core.timeline = Timeline(core.time, due)

    @property
    def flown_by(self) -> str:
        """The flight stack, in words."""
        return f"{BUILTIN}, not PX4"

    @property
    def time(self) -> float:
        """s of simulated time since the test took the flight over."""
        return self.fleet.time - self._taken_over

    @property
    def track(self) -> TruthTable:
        """The true motion since the test took over the flight."""
        start = self.fleet.core.simulation.start + round(1e6 * self._taken_over)
        rows = self._recording.rows
        return TruthTable(rows[rows["time"][:, 0] > start].reshape(-1), self.names, start)

    def _state(self, name: str) -> Any:
        return getattr(self.fleet, name)

    @property
    def _armed(self) -> NDArray[np.bool_]:
        return self.fleet.armed

    @property
    def _modes(self) -> tuple[str, ...]:
        return self.fleet.modes

    @property
    def urls(self) -> tuple[str, ...]:
        """None: there is no MAVLink within this process.

        Raises:
            UserError: always.
        """
        raise UserError(
            "url: this flight of the built-in stack has begun within the test's process, where there is no"
            " MAVLink; take the url before the first command"
        )

    def run(self, seconds: float) -> None:
        """Let simulated time pass."""
        self.fleet.run(seconds)

    def arm(self) -> None:
        """Arm all vehicles."""
        self.fleet.arm()

    def disarm(self, *, force: bool = False) -> None:
        """Stop the motors."""
        self.fleet.disarm(force=force)

    def takeoff(self, height: float, *, limit: float = 60.0) -> None:
        """Climb by ``height`` m, and wait until the vehicles hold there."""
        self.fleet.takeoff(height, limit=limit)

    def _lead(self, positions: Array | None, velocities: Array | None, yaw: float) -> None:
        heading = None if np.isnan(yaw) else yaw
        self.fleet.follow(positions, velocities, yaw=heading, what="goto")

    @property
    def _distance_left(self) -> Array:
        return self.fleet.distance_left

    def hold(self) -> None:
        """Stop and hold."""
        self.fleet.hold()

    def land(self, *, limit: float = 120.0) -> None:
        """Land here, and wait until the vehicles have disarmed."""
        self.fleet.land(limit=limit)

    def return_home(self, *, limit: float = 300.0) -> None:
        """Fly to the place of take-off, land there, and wait until the vehicles have disarmed."""
        self.fleet.return_home(limit=limit)

    def messages(self) -> list[str]:
        """Texts of the flight stacks with their times, oldest first."""
        alone = len(self.names) == 1
        return [
            f"{stamp_since(self._taken_over, m.time)} {'' if alone else f'{m.vehicle}: '}{m.text}"
            for m in self.fleet.messages
        ]

    def finish(self, reason: str) -> list[tuple[str, Path]]:
        """End the flight and write its summary; safe to call twice."""
        if self._files is None:
            for line in self.messages():
                self._place.say(line)
            self._files = [("run directory", self.directory)]
            errors = ErrorLog(print_error)
            self._recording.close()
            simulated = self.fleet.time
            impact = self.fleet.core.simulation.states["impact_speed"].copy()
            self.close()
            run = RunRecord(self.directory, self.directory.name)
            with errors.guard("reading of the recording"):
                run = read_run(self.directory)
            records = {vehicle.name: vehicle.record for vehicle in run.vehicles}
            summaries = {}
            for i, (name, airframe) in enumerate(zip(self.names, self.choice.airframes, strict=True)):
                ulog = self.directory / "autopilot" / f"{name}.ulg"
                outcome = Outcome(
                    self.directory.name,
                    airframe.name,
                    not reason,
                    reason,
                    flight_stack=BUILTIN,
                    seed=self.choice.seed,
                    simulated_seconds=simulated,
                    impact_speed=float(impact[i]),
                    logs={"flight log": ulog, "ground truth": self._place.truth},
                )
                summaries[name] = summarise(outcome, records.get(name), [])
            summary = whole_summary(self.directory.name, summaries, reason=reason, errors=errors.lines)
            self.verdict, _ = conclude(run, summary)
            write_json(summary, self.directory / SUMMARY)
            self._files.append(("summary", self.directory / SUMMARY))
            self._files += report_page(self.directory)
        return self._files

    def close(self) -> None:
        """End the flight without a summary; safe to call twice."""
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(UserError):
            self._recording.close()
        self.fleet.close()
        self._place.close()
        self._flights.give_back(self.choice, self.fleet)
