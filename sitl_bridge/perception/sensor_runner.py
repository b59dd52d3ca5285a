"""Runs one perception sensor of one vehicle: beside the lockstep, yet to the same bytes on any machine.

At the sample's time the poses of the vehicles are noted, and a worker begins to cast.  The sample is
delivered at its latency in simulated time; if it is not ready by then, simulated time waits for it.
A sample that nobody takes is not measured, unless it is the latest when that is asked for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import ClassVar

import numpy as np

from sitl_bridge.base.arrays import Records
from sitl_bridge.base.kernels.random_streams import stream
from sitl_bridge.core.dynamics.proximity import spheres_beside
from sitl_bridge.core.sensors.perception.obstacle_map import RangingSpecification, Sight
from sitl_bridge.core.sensors.perception.scene_caster import SceneCaster
from sitl_bridge.core.sensors.perception.view import Arrays, PerceptionSpecification, Poses, Processor, View
from sitl_bridge.core.simulation.simulation import Simulation
from sitl_bridge.link.mavlink.message import MavlinkMessage
from sitl_bridge.perception.flight_stack_messages import companion_messages, is_reported, link_messages
from sitl_bridge.perception.mapping.map_building import MapBuilder
from sitl_bridge.perception.mavlink_component import ComponentLink
from sitl_bridge.perception.recording import SampleRecording


@dataclass(frozen=True)
class SeenSample:
    """Sample that a sensor delivered."""

    time: int  # us of simulated time at which the exposure ended
    arrays: Arrays  # by name


class SensorRunner:
    """Runs a perception sensor.

    Args:
        simulation: the vehicles and their world.
        vehicle: index of the vehicle.
        name: of its random stream; None for the vehicle's.
        recording: takes every sample that is delivered; closed with the runner.
        mapper: takes the rays of every sample of a sensor that measures distances; closed with the runner.

    Attributes:
        listeners: called with every sample that is delivered, between two steps.
        companion: sends messages over a MAVLink link that is not the simulator's, between two steps; None
            where there is none.
    """

    has_components: ClassVar[bool] = False
    """Whether it speaks MAVLink as components of its own, over a link that ``connect`` gives."""

    def __init__(
        self,
        specification: PerceptionSpecification,
        simulation: Simulation,
        *,
        vehicle: int = 0,
        name: str | None = None,
        recording: SampleRecording | None = None,
        mapper: MapBuilder | None = None,
    ) -> None:
        self.mapper = mapper
        self.specification = specification
        self.vehicle = vehicle
        self._latest: SeenSample | None = None
        self._unmeasured: View | None = None
        """Of the last sample delivered, where nobody has taken that yet."""
        self._asked = False
        """Whether ``latest`` was asked for since the last sample was delivered."""
        self._reading = Lock()
        self.companion: Callable[[Sequence[MavlinkMessage]], None] | None = None
        self.listeners: list[Callable[[SeenSample], None]] = []
        self._process = specification.processor()
        self._simulation = simulation
        self._executor = ThreadPoolExecutor(1, thread_name_prefix=specification.name)
        self._period = round(1e6 / specification.rate)
        self._latency = round(specification.latency * 1e6)
        self._start = simulation.time
        self._next = self._start + self._period
        self._under_way: deque[tuple[int, View, Future[tuple[Arrays, Sight | None]] | None]] = deque()
        self._recording = recording
        self._recorded = -1
        """us of the last pose that was recorded."""
        self._seed = stream(
            simulation.seed, name or simulation.names[vehicle], "seeing", specification.name
        ).tolist()
        self._count = 0
        kept = specification.exposure if recording is None else 1.0 / specification.rate
        simulation.remember_poses(vehicle, max(kept, specification.exposure))
        self._try_out()

    def _try_out(self) -> None:
        """Take a sample that counts for nothing: what has to be compiled is, before simulated time runs."""
        view = self._view(self._simulation.time)
        self._count = 0
        process = self.specification.processor()
        self._sample(view, process)

    def connect(self, link: ComponentLink) -> None:
        """Speak MAVLink over a link from now on; for those that have components."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """Name of the sensor."""
        return self.specification.name

    @property
    def label(self) -> str:
        """The sensor in messages."""
        return f"{self._simulation.names[self.vehicle]}: {self.name}"

    @property
    def latest(self) -> SeenSample | None:
        """The last sample delivered; None before the first."""
        with self._reading:
            self._asked = True
            if self._unmeasured is not None:
                view, self._unmeasured = self._unmeasured, None
                self._latest = SeenSample(view.time, self._measure(view)[0])
            return self._latest

    @property
    def _is_followed(self) -> bool:
        """Whether the next sample will be taken: by who takes each, or by who asked for the last one."""
        return bool(
            self._asked
            or self.listeners
            or self.mapper is not None
            or self._recording is not None
            or self._process is not None
            or is_reported(self.specification)
        )

    @property
    def due(self) -> int:
        """Us at which ``run`` is to be called next."""
        return min(self._next, self._under_way[0][0] if self._under_way else self._next)

    def run(self, state: Records, time: int) -> Sequence[MavlinkMessage]:
        """Begin the sample that is due at ``time`` (us), and deliver what has become due.

        Returns:
            Messages for the flight stack.
        """
        del state
        if self._next <= time:
            while self._next <= time:
                self._next += self._period
            view = self._view(time)
            future = self._executor.submit(self._measure, view) if self._is_followed else None
            self._under_way.append((time + self._latency, view, future))
        messages: list[MavlinkMessage] = []
        while self._under_way and self._under_way[0][0] <= time:
            _, view, future = self._under_way.popleft()
            if future is None and not self._is_followed:
                with self._reading:
                    self._unmeasured = view
                continue
            arrays, sight = self._measure(view) if future is None else future.result()
            sample = self._deliver(SeenSample(view.time, arrays))
            if self.mapper is not None and sight is not None:
                self.mapper.add(view.time, sight)
            self._record(view.poses, sample)
            for listener in self.listeners:
                listener(sample)
            messages += link_messages(self.specification, view.time, arrays)
            if self.companion is not None:
                self.companion(companion_messages(self.specification, view.time, arrays))
        return messages

    def _deliver(self, sample: SeenSample) -> SeenSample:
        """Make a sample the latest."""
        with self._reading:
            self._latest, self._unmeasured, self._asked = sample, None, False
        return sample

    def _record(self, poses: Poses, sample: SeenSample) -> None:
        if self._recording is not None:
            new = poses.time > self._recorded
            self._recorded = sample.time
            since = Poses(poses.time[new], poses.position[new], poses.attitude[new])
            self._recording.put(sample.time, sample.arrays, since)

    def _measure(self, view: View) -> tuple[Arrays, Sight | None]:
        """A sample, and its rays where a map is built; on the worker's thread."""
        return self._sample(view, self._process)

    def _sample(self, view: View, process: Processor | None) -> tuple[Arrays, Sight | None]:
        arrays = self.specification.measure(view)
        if process is not None:
            arrays = process(view, arrays)
        sight = None
        if self.mapper is not None and isinstance(self.specification, RangingSpecification):
            sight = self.specification.sight_for_map(view, arrays)
        return arrays, sight

    def _view(self, time: int) -> View:
        simulation, spheres = self._simulation, np.zeros((0, 4))
        if self.specification.sees_vehicles:
            spheres = spheres_beside(simulation.hulls, simulation.states, self.vehicle)
        caster = SceneCaster(simulation.world.scene, time, spheres)
        random = np.random.Generator(np.random.PCG64(np.random.SeedSequence([*self._seed, self._count])))
        self._count += 1
        return View(caster, self._poses(), time, random, self._start)

    def _poses(self) -> Poses:
        """Return the poses of the vehicle that the sensor is mounted on."""
        return Poses(*self._simulation.poses_of(self.vehicle))

    def close(self) -> None:
        """Drop what is under way, end the worker and finish the recording."""
        self._under_way.clear()
        self._executor.shutdown(wait=True, cancel_futures=True)
        if self._recording is not None:
            self._recording.close()
        if self.mapper is not None:
            self.mapper.close()
