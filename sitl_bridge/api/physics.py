"""Physics and sensors alone: motor commands in, true states and samples out.  No flight stack."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sitl_bridge.api.airframe_choice import AirframeChoice
from sitl_bridge.api.compiling import compilation_shown
from sitl_bridge.api.truth_table import Recording
from sitl_bridge.api.vehicle_arrays import VehicleArrays, checked_seed, placed
from sitl_bridge.api.world_choice import WorldChoice, world_of
from sitl_bridge.base.errors import UserError
from sitl_bridge.core.dynamics.performance import hover
from sitl_bridge.core.dynamics.proximity import Proximity
from sitl_bridge.core.sensors.custom import CustomSensorHost
from sitl_bridge.core.sensors.sensor_host import SensorHost
from sitl_bridge.core.simulation.simulation import CONTROLS, VehicleSetup
from sitl_bridge.core.simulation.simulation import Simulation as Core
from sitl_bridge.core.world.atmosphere import air
from sitl_bridge.perception.mapping.map_building import seeing_runners
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
    ) -> None:
        found, called, places, headings = placed(airframes, names, positions, spacing, yaw)
        self.airframes, self.names = tuple(found), tuple(called)
        self._numbers = list(range(len(found)))
        setups = [
            VehicleSetup.from_airframe(a, (p[0], p[1], p[2]), float(h), name)
            for a, p, h, name in zip(found, places, headings, called, strict=True)
        ]
        period = round(step * 1e6)
        if period < 1:
            raise UserError(f"step: {step:g} s is not above 0")
        with compilation_shown():
            self._physics = Core(
                world_of(world).build(), setups, seed=checked_seed(seed), step=period, proximity=proximity
            )
        self._stepped = False
        self._episodes = np.zeros(len(found), np.int64)
        self._custom = self._custom_hosts()
        self._row = np.zeros(len(found), ROW)
        self._recording: Recording | None = None

    def _custom_hosts(self) -> list[list[SensorHost]]:
        return [self._hosts_of(i) for i in range(len(self))]

    def _hosts_of(self, i: int) -> list[SensorHost]:
        episode = int(self._episodes[i])
        name = self.names[i] if episode == 0 else f"{self.names[i]}/episode/{episode}"
        own = [
            CustomSensorHost(sensor, vehicle=i, name=name, seed=self._core.seed, start=self._core.time)
            for sensor in self.airframes[i].custom_sensors()
        ]
        seeing = seeing_runners(
            self.airframes[i].seeing_sensors(), self._core, vehicle=i, stream=name, start=self._core.time
        )
        return [*own, *seeing]

    @property
    def _core(self) -> Core:
        return self._physics

    @property
    def _hosts(self) -> tuple[SensorHost, ...]:
        return tuple(host for hosts in self._custom for host in hosts)

    @property
    def hover_controls(self) -> NDArray[np.float64]:
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

    @property
    def rotor_count(self) -> int:
        """m, the most rotors of a vehicle."""
        return max(len(airframe.rotors) for airframe in self.airframes)

    def step(self, controls: ArrayLike, count: int = 1) -> None:
        """Take steps with these motor commands, 0..1, motors in the order of the airframe's rotors.

        Args:
            controls: (n, m), or (m,) for all vehicles alike; a vehicle with fewer rotors ignores the rest.
            count: of steps.

        Raises:
            UserError: for commands that do not fit, a vehicle whose motion diverges, a custom sensor that
                fails.
        """
        core = self._core
        try:
            given = np.broadcast_to(np.asarray(controls, dtype=np.float64), (len(self), self.rotor_count))
        except ValueError as error:
            raise UserError(
                f"step: controls have the shape {np.shape(controls)}, not ({len(self)}, {self.rotor_count})"
            ) from error
        if not np.isfinite(given).all():
            bad = self.names[int(np.flatnonzero(~np.isfinite(given).all(axis=1))[0])]
            raise UserError(f"step: the controls of vehicle {bad} are not finite")
        core.controls[:] = 0.0
        core.controls[:, : min(self.rotor_count, CONTROLS)] = given
        core.armed[:] = 1
        if self._stepped:
            self._advance(count)
            return
        with compilation_shown():
            self._advance(count)
        self._stepped = True

    def _advance(self, count: int) -> None:
        core = self._core
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
        recording = Recording(self.names, self._core.start, every, path, end)
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
        chosen = np.ones(len(self), np.bool_) if mask is None else np.asarray(mask)
        if chosen.shape != (len(self),) or chosen.dtype != np.bool_:
            raise UserError(f"reset: the mask is {len(self)} times True or False, not {chosen!r}")
        self._episodes[chosen] += 1
        if seed is not None:
            seed = checked_seed(seed)
            self._episodes[:] = 0
        if mask is None:
            self._core.reset(seed, self._episodes.tolist())
        for i in np.flatnonzero(chosen).tolist():
            if mask is not None:
                self._core.restart_vehicle(i, int(self._episodes[i]))
            for host in self._custom[i]:
                host.close()
            self._custom[i] = self._hosts_of(i)
