"""Physics and sensors alone: motor commands in, true states and samples out.  No flight stack."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from sitl_bridge.api.airframe_choice import AirframeChoice
from sitl_bridge.api.compiling import compilation_shown
from sitl_bridge.api.truth_table import Recording
from sitl_bridge.api.vehicle_arrays import VehicleArrays, place_vehicles, validate_seed
from sitl_bridge.api.world_choice import WorldChoice, world_of
from sitl_bridge.base.arrays import Floats, Mask
from sitl_bridge.base.errors import UserError
from sitl_bridge.core.dynamics.performance import hover
from sitl_bridge.core.dynamics.proximity import Proximity
from sitl_bridge.core.sensors.sensor_host import SensorHost
from sitl_bridge.core.simulation.simulation import CONTROLS, VehicleSetup
from sitl_bridge.core.simulation.simulation import Simulation as Core
from sitl_bridge.core.world.atmosphere import air
from sitl_bridge.perception.sensor_hosts import sensor_hosts
from sitl_bridge.record.records import ROW
from sitl_bridge.record.truth_row import write_rows


class Simulation(VehicleArrays):
    """n vehicles that follow motor commands.

    The same seed and the same calls give the same bytes.

    Args:
        airframes: one or several, by name, file or as objects.
        positions: (n, 2) m north and east of the world's origin, or (n, 3) with down, of the points on the
            ground where the vehicles stand; None places them in a row towards the east.
        spacing: m between neighbours in that row.
        yaw: rad from north, clockwise; one for all or (n,).
        world: the world they fly in.
        seed: of all random numbers.
        step: s of simulated time in one step.
        names: of the vehicles, different ones; they name the random streams.  None numbers them.
        proximity: contact and downwash between vehicles; None for neither.
        sensors: whether the vehicles' sensors are simulated.

    Raises:
        UserError: for arguments that contradict one another.
    """

    def __init__(
        self,
        airframes: AirframeChoice | Sequence[AirframeChoice],
        *,
        positions: ArrayLike | None = None,
        spacing: float = 5.0,
        yaw: ArrayLike = 0.0,
        world: WorldChoice = None,
        seed: int = 0,
        step: float = 0.004,
        names: Sequence[str] | None = None,
        proximity: Proximity | None = None,
        sensors: bool = True,
    ) -> None:
        found, called, places, headings = place_vehicles(airframes, names, positions, spacing, yaw)
        self.airframes, self.names = tuple(found), tuple(called)
        self._numbers = list(range(len(found)))
        setups = VehicleSetup.of_fleet(found, places, headings, called)
        if not sensors:
            setups = [replace(setup, sensors=setup.sensors[:0]) for setup in setups]
        period = round(step * 1e6)
        if period < 1:
            raise UserError(f"step: {step:g} s is not above 0")
        with compilation_shown():
            self._physics = Core(
                world_of(world).build(), setups, seed=validate_seed(seed), step=period, proximity=proximity
            )
        self._stepped = False
        self._episodes = np.zeros(len(found), np.int64)
        self._sensing = sensors
        self._custom = [self._hosts_of(i) for i in range(len(self))]
        self._row = np.zeros(len(found), ROW)
        self._recording: Recording | None = None

    def _hosts_of(self, i: int) -> list[SensorHost]:
        if not self._sensing:
            return []
        episode = int(self._episodes[i])
        name = self.names[i] if episode == 0 else f"{self.names[i]}/episode/{episode}"
        return sensor_hosts(self.airframes[i], self._core, vehicle=i, stream=name)

    @property
    def _core(self) -> Core:
        return self._physics

    @property
    def _hosts(self) -> tuple[SensorHost, ...]:
        return tuple(host for hosts in self._custom for host in hosts)

    @property
    def hover_controls(self) -> Floats:
        """(n, m) commands with which the vehicles hover in still air at the ground with a full battery.

        Raises:
            UserError: for a vehicle that cannot hover.
        """
        environment = self._core.world.environment[0]
        _, _, density = air(environment, 0.0)
        rows = np.zeros((len(self), self.rotor_count))
        for i, airframe in enumerate(self.airframes):
            trim = hover(airframe.record, density, float(environment["gravity"]))
            if trim is None:
                raise UserError(f"vehicle {self.names[i]} ({airframe.name}) cannot hover")
            rows[i, : len(trim.command)] = trim.command
        return rows

    def set_state(
        self,
        mask: ArrayLike | None = None,
        *,
        position: ArrayLike | None = None,
        velocity: ArrayLike | None = None,
        attitude: ArrayLike | None = None,
        angular_velocity: ArrayLike | None = None,
        rotor_speed: ArrayLike | None = None,
    ) -> None:
        """Put vehicles into a state, in the air too, with the flow that their rotors induce settled.

        Each value has a row for each vehicle, or is one for all; what is not given stays.  Rotor speeds that
        are not known follow from the commands before: ``step(controls, hold=True)``.

        Args:
            mask: (n,) True for the vehicles to set; None for all.
            position: (n, 3) m NED from the world's origin, of the centres of gravity.
            velocity: (n, 3) m/s NED.
            attitude: (n, 4) quaternion w, x, y, z, body FRD to NED.
            angular_velocity: (n, 3) rad/s, body FRD.
            rotor_speed: (n, m) rad/s.

        Raises:
            UserError: for a value that does not fit.
        """
        chosen = self._parse_mask(mask, "set_state")
        given = {
            "position": (position, 3),
            "velocity": (velocity, 3),
            "attitude": (attitude, 4),
            "angular_velocity": (angular_velocity, 3),
            "rotor_speed": (rotor_speed, self.rotor_count),
        }
        values = {
            name: self._rows(f"set_state: {name}", value, columns)[chosen]
            for name, (value, columns) in given.items()
            if value is not None
        }
        if "attitude" in values:
            length = np.linalg.norm(values["attitude"], axis=1, keepdims=True)
            if (np.abs(length - 1.0) > 0.01).any():
                raise UserError(
                    "set_state: attitude: a quaternion's length is not 1; its order is w, x, y, z"
                )
            values["attitude"] = values["attitude"] / length
        with compilation_shown():
            self._core.put_in_flight(np.flatnonzero(chosen), **values)

    def supply(self, voltage: ArrayLike, current: ArrayLike | None = None) -> None:
        """Let the motors run at these voltages, in place of the packs', until the next call or reset.

        Args:
            voltage: (n,) V at the packs' terminals, or one for all.
            current: (n,) A at which it was measured; the voltage then follows the simulated current by the
                pack's resistance.  None: it stays.

        Raises:
            UserError: for a value that does not fit.
        """
        volts = self._rows("supply: voltage", np.reshape(voltage, (-1, 1)), 1)[:, 0]
        if not (volts > 0.0).all():
            raise UserError("supply: voltage: needs values above 0 V")
        amperes = (
            np.full(len(self), np.nan)
            if current is None
            else self._rows("supply: current", np.reshape(current, (-1, 1)), 1)[:, 0]
        )
        self._core.supply(volts, amperes)

    def push(self, force: ArrayLike = 0.0, moment: ArrayLike = 0.0) -> None:
        """Let a force and a moment act on the vehicles until the next call or reset, beside the air's.

        Args:
            force: (n, 3) N NED at the centre of gravity, or one for all.
            moment: (n, 3) N m body FRD, or one for all.

        Raises:
            UserError: for a value that does not fit.
        """
        self._core.states["external_force"] = self._rows("push: force", force, 3)
        self._core.states["external_moment"] = self._rows("push: moment", moment, 3)

    def _parse_mask(self, mask: ArrayLike | None, what: str) -> Mask:
        chosen = np.ones(len(self), np.bool_) if mask is None else np.asarray(mask)
        if chosen.shape != (len(self),) or chosen.dtype != np.bool_:
            raise UserError(f"{what}: the mask is {len(self)} times True or False, not {chosen!r}")
        return chosen

    def step(
        self, controls: ArrayLike, count: int = 1, *, armed: ArrayLike = True, hold: bool = False
    ) -> None:
        """Take steps with these motor commands, 0..1, motors in the order of the airframe's rotors.

        A command is a speed controller's throttle, or a brushed motor's duty cycle (PWM over its full scale).

        Args:
            controls: (n, m), or (m,) for all vehicles alike; a vehicle with fewer rotors ignores the rest.
                The 16 columns of a recorded ``control`` fit, too.
            count: of steps.
            armed: (n,) or one for all; motors that are not armed stand still.
            hold: the bodies keep their motion; rotors, induced flow and battery alone go on.

        Raises:
            UserError: for commands that do not fit, a vehicle whose motion diverges, a custom sensor that
                fails.
        """
        core = self._core
        given = np.asarray(controls, np.float64)
        wide = given.ndim and given.shape[-1] == CONTROLS
        core.controls[:] = 0.0
        core.controls[:, : self.rotor_count] = self._rows(
            "step: controls", given[..., : self.rotor_count] if wide else given, self.rotor_count
        )
        core.armed[:] = 1 if armed is True else self._rows("step: armed", np.reshape(armed, (-1, 1)), 1)[:, 0]
        if self._stepped:
            self._advance(count, hold=hold)
            return
        with compilation_shown():
            self._advance(count, hold=hold)
        self._stepped = True

    def _advance(self, count: int, *, hold: bool) -> None:
        core = self._core
        if hold:
            for _ in range(count):
                core.advance_held()
            return
        if self._recording is None and not self._hosts:
            core.advance(count)
            return
        for _ in range(count):
            core.advance()
            for host in self._hosts:
                if host.due <= core.time:
                    host.run(core.states[host.vehicle], core.time)
            if self._recording is not None:
                write_rows(self._row, core.time, core.armed, core.states, core.controls)
                self._recording.write(self._row)

    def record(self, file: str | Path | None = None, *, interval: float = 0.0) -> Recording:
        """Record the truth of every step from now on, until the ``with`` block ends.

        Args:
            file: new ``.npy`` file, which is whole after every write; None keeps the table in memory.
            interval: s between the steps that are kept, a multiple of the step; 0 keeps every step.

        Raises:
            UserError: while another recording is under way, and for a file that is there already.
        """
        if self._recording is not None:
            raise UserError("a recording is under way; end its `with` block first")
        every = round(interval * 1e6)
        if interval < 0.0 or every % self._core.step:
            raise UserError(
                f"record: interval {interval:g} s is no multiple of the step, {self.step_size:g} s"
            )

        def end() -> None:
            if self._recording is recording:
                self._recording = None

        path = None if file is None else Path(file)
        recording = Recording(self.names, self._core.start, self.rotor_count, every, path, end)
        self._recording = recording
        return recording

    def reset(self, mask: ArrayLike | None = None, *, seed: int | None = None) -> None:
        """Put vehicles back on the ground where they stood, with new random numbers.

        Without a mask all vehicles are reset and time begins at 0 again; with one, time goes on.  A vehicle
        draws other random numbers after every reset.  With a seed, all is as in a new simulation of that
        seed.

        Args:
            mask: (n,) True for the vehicles to reset; None for all.
            seed: of all random numbers from now on; only without a mask.

        Raises:
            UserError: for a mask that does not fit, and a seed beside a mask.
        """
        if mask is not None and seed is not None:
            raise UserError("reset: a new seed is for all vehicles; leave out the mask")
        chosen = self._parse_mask(mask, "reset")
        self._episodes[chosen] += 1
        if seed is not None:
            seed = validate_seed(seed)
            self._episodes[:] = 0
        if mask is None:
            self._core.reset(seed, self._episodes.tolist())
        for i in np.flatnonzero(chosen).tolist():
            if mask is not None:
                self._core.restart_vehicle(i, int(self._episodes[i]))
            for host in self._custom[i]:
                host.close()
            self._custom[i] = self._hosts_of(i)
