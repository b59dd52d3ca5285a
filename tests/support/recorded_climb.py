"""A recorded run of two vehicles that stand, then climb; one among boxes, with a plan."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from sitl_bridge.analysis.replay.replayed_steps import ReplayArrays
from sitl_bridge.base.error_log import ErrorLog
from sitl_bridge.core.dynamics.proximity import Proximity
from sitl_bridge.core.simulation.simulation import Simulation, VehicleSetup
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.scene_specification import BoxObject, SceneSpecification
from sitl_bridge.core.world.world import World, WorldSpecification
from sitl_bridge.link.hil.frame_writer import write_step
from sitl_bridge.record.records import ROW, STEP
from sitl_bridge.record.run_description import describe_simulation
from sitl_bridge.record.run_directory import RunDirectory
from sitl_bridge.record.run_recorder import RunRecorder
from sitl_bridge.record.truth_row import write_rows
from support.paths import ROOT

STANDING = 100
"""Steps before the climb."""


class Climb:
    """Flies and records, with the frames that the simulation would send."""

    def __init__(self, runs: Path) -> None:
        self._directory = RunDirectory(runs, "exported")
        self.path = self._directory.path
        airframes = [load_airframe("iris"), load_airframe("hector")]
        box = BoxObject(kind="box", name="hut", size=(2.0, 3.0, 4.0), position=(10.0, 20.0, -2.0))
        world = WorldSpecification(scene=SceneSpecification(objects=(box,)))
        setups = [
            VehicleSetup(a.vehicle(), a.sensor_records(), (0.0, 3.0 * i, 0.0), 0.5, f"{i}")
            for i, a in enumerate(airframes)
        ]
        self.simulation = Simulation(World(world), setups, seed=2, proximity=Proximity())
        facts = describe_simulation("serve", self.simulation, airframes, Proximity())
        facts["directory"] = str(ROOT)
        facts["vehicles"][0]["mission"] = "missions/square.plan"
        self._directory.describe(**facts)
        self._arrays = ReplayArrays.of(self.simulation)
        self.recorder = RunRecorder(self.path, ErrorLog(), self.simulation.most_rotors)
        self._count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _value: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.recorder.close()
        self._directory.close()

    def advance(self, count: int) -> None:
        """Fly and record steps."""
        simulation, arrays = self.simulation, self._arrays
        rows, steps = np.zeros(len(simulation), ROW), np.zeros(1, STEP)
        for _ in range(count):
            simulation.controls[:, :4] = 0.0 if self._count < STANDING else 0.75
            simulation.armed[:] = 1
            self._count += 1
            simulation.advance()
            write_rows(rows, simulation.time, simulation.armed, simulation.states, simulation.controls)
            frames = []
            for i in range(len(simulation)):
                size = write_step(
                    arrays.out,
                    arrays.payloads[i],
                    arrays.payload_bytes[i],
                    simulation.states[i],
                    simulation.world.environment[0],
                    simulation.sensors[i],
                    simulation.sensor_states[i],
                    arrays.links[i],
                    arrays.slots[i],
                    simulation.time,
                )
                rows[i]["frame_bytes"] = size
                frames.append(arrays.out[:size].copy())
            steps["time"] = simulation.time
            self.recorder.write(rows, np.concatenate(frames), steps)
