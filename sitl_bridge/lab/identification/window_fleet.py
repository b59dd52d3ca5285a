"""Simulates a flight's windows with a fleet: one vehicle as it is, and one for each change of a quantity.

The differences between the vehicles' motions are the sensitivities of the compiled step.  All vehicles get
the same motor commands; their rotors' speeds go on from window to window.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sitl_bridge.api.logs import ABOVE_GROUND, STEP
from sitl_bridge.api.models import Airframe, ImuSpecification
from sitl_bridge.base.arrays import Floats, Records
from sitl_bridge.base.errors import UserError
from sitl_bridge.core.dynamics.records import MOTOR_FIRST_ORDER
from sitl_bridge.core.simulation.simulation import Simulation, VehicleSetup
from sitl_bridge.core.world.world import Origin, World, WorldSpecification
from sitl_bridge.lab.identification.flight_windows import FlightWindows

DRIVEN_RANGE = 1e5
"""rad/s of a motor that follows measured speeds, at command 1."""


@dataclass(frozen=True)
class Member:
    """A vehicle of the fleet: its airframe and what is added to the flight's common quantities."""

    airframe: Airframe  # of the vehicle
    moment: Floats  # N m body
    wind: Floats  # m/s north, east
    velocity: Floats  # m/s NED, at the beginning of every window
    turn: Floats  # rad body, likewise
    rates: Floats  # rad/s body, likewise
    force: Floats  # N NED
    delay: float  # s of the motor commands

    @classmethod
    def of(cls, airframe: Airframe, **changes: Floats | float) -> Member:
        """A member that differs in ``changes`` alone."""
        none: Any = {name: np.zeros(3) for name in ("moment", "velocity", "turn", "rates", "force")}
        return cls(airframe, **{**none, "wind": np.zeros(2), "delay": 0.0, **changes})


@dataclass(frozen=True)
class CommonMotion:
    """Motion that all vehicles of the fleet have in common."""

    moment: Floats  # (w, 3) N m body, constant in each flight
    wind: Floats  # (w, 2) m/s north, east in each window
    # (w, 15) of each window alone: corrections of its beginning (velocity, turn, rates), and what acts during
    # it (moment in N m body, force in N NED)
    start: Floats
    delay: float  # s after which motor commands act


class WindowFleet:
    """A fleet over a flight's windows.

    Args:
        members: of the fleet.
    """

    def __init__(self, windows: FlightWindows, members: Sequence[Member]) -> None:
        self.windows = windows
        self.members = members
        records = [_record(member.airframe, driven=windows.speeds is not None) for member in members]
        none = members[0].airframe.sensor_records()[:0]
        height = float(windows.height.mean()) if len(windows) else 0.0
        depth = max(height - ABOVE_GROUND, -500.0)
        self._shift = windows.height - depth
        world = World(WorldSpecification(origin=Origin(altitude=depth)))
        setups = [VehicleSetup(record, none, name=f"{i}") for i, record in enumerate(records)]
        self._simulation = Simulation(world, setups, step=STEP)
        self._arm = _imu_position(members[0].airframe)

    def motions(self, common: CommonMotion) -> Iterator[tuple[int, dict[str, Floats]]]:
        """Simulated quantities at the ends of each window's steps, (s, n, 3) each, by their names."""
        windows, simulation = self.windows, self._simulation
        states: Records = simulation.states
        simulation.armed[:] = 1
        shape = (windows.steps, len(self.members), 3)
        made = {name: np.zeros(shape) for name in ("rates", "acceleration", "velocity")}
        turn, force, velocity = (states[name] for name in ("angular_velocity", "specific_force", "velocity"))
        offset = bool(self._arm.any())
        for w in range(len(windows)):
            if windows.speeds is None:
                every = np.ones(len(self.members))
                simulation.supply(every * windows.voltage[w], every * windows.current[w])
            self._place(w, common)
            late = {d: windows.signals(w, common.delay + d) for d in {m.delay for m in self.members}}
            signals = np.stack([late[member.delay] for member in self.members], axis=1)  # (2 s, n, m)
            if windows.speeds is None and not windows.joined[w]:
                for k in range(windows.steps):  # the rotors get to their speeds, the body is held
                    self._command(signals[k])
                    simulation.advance_held()
            for k in range(windows.steps):
                if windows.speeds is None:
                    self._command(signals[windows.steps + k])
                else:
                    self._turn_rotors(windows.speeds[w, k], windows.speeds[w, k + 1])
                self._advance(w)
                made["rates"][k], made["acceleration"][k], made["velocity"][k] = turn, force, velocity
                if offset:
                    made["acceleration"][k] += self._lever(states)
                if not windows.turning:
                    states["attitude"] = windows.attitude[w, k + 1]
                    states["angular_velocity"] = windows.rates[w, k + 1]
            yield w, made

    def _advance(self, w: int) -> None:
        try:
            self._simulation.advance()
        except UserError as error:
            time = self.windows.begins[w]
            raise UserError(f"the simulation diverges at {time:.1f} s of the log: {error}") from error

    def _command(self, signals: Floats) -> None:
        self._simulation.controls[:, : signals.shape[-1]] = signals

    def _turn_rotors(self, before: Floats, after: Floats) -> None:
        """Let the rotors turn from one measured speed to the next within a step, as ``driven`` ones do."""
        self._simulation.states["rotor_speed"][:, : len(before)] = before
        target = before + (after - before) / -math.expm1(-1.0)
        self._command(target / DRIVEN_RANGE)

    def _place(self, w: int, common: CommonMotion) -> None:
        """Begin a window with the measured motion."""
        windows, states = self.windows, self._simulation.states
        start = common.start[w]
        states["position"] = windows.position[w] - (0.0, 0.0, self._shift[w])
        for i, member in enumerate(self.members):
            states[i]["velocity"] = windows.velocity[w] + start[:3] + member.velocity
            states[i]["attitude"] = _turn(windows.attitude[w, 0], start[3:6] + member.turn)
            states[i]["angular_velocity"] = windows.rates[w, 0] + start[6:9] + member.rates
            states[i]["external_moment"] = common.moment[w] + start[9:12] + member.moment
            states[i]["external_force"] = start[12:] + member.force
            # The air that moves with a neighbour's wake is the part of the wind that each vehicle has alone.
            states[i]["neighbour_air"][:2] = common.wind[w] + member.wind

    def _lever(self, states: Records) -> Floats:
        """(n, 3) m/s^2 that an accelerometer away from the centre of gravity measures beyond it."""
        rates = states["angular_velocity"]
        turning = np.cross(states["angular_acceleration"], self._arm)
        return np.asarray(turning + np.cross(rates, np.cross(rates, self._arm)))


def _record(airframe: Airframe, *, driven: bool) -> Records:
    """VEHICLE record.

    Motors that are ``driven`` follow measured speeds: first order with a time constant of one step, without a
    limit of the current, at the nominal voltage.
    """
    record = airframe.vehicle()
    if driven:
        record["motor_kind"] = MOTOR_FIRST_ORDER
        record["motor_tau_up"] = record["motor_tau_down"] = STEP * 1e-6
        record["motor_speed_idle"], record["motor_speed_range"] = 0.0, DRIVEN_RANGE
        record["motor_speed_offset"], record["battery_capacity"] = 0.0, math.inf
        record["esc_current_limit"] = 0.0
    return record


def _imu_position(airframe: Airframe) -> Floats:
    """m body of the inertial sensor, from the centre of gravity with the payload."""
    found = [
        s.position
        for s in airframe.include_payload().sensors
        if isinstance(s, ImuSpecification) and s.instance == 0
    ]
    return np.array(found[0] if found else (0.0, 0.0, 0.0))


def _turn(attitude: Floats, turn: Floats) -> Floats:
    """A quaternion after a small rotation about body axes."""
    w, x, y, z = attitude
    a, b, c = 0.5 * turn
    made = np.array(
        [
            w - x * a - y * b - z * c,
            x + w * a + y * c - z * b,
            y + w * b + z * a - x * c,
            z + w * c + x * b - y * a,
        ]
    )
    return np.asarray(made / np.linalg.norm(made))
