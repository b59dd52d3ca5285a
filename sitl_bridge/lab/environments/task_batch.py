"""What the environments of many vehicles have in common: their batch at the start of a task, and its seed."""

from __future__ import annotations

import numpy as np

from sitl_bridge.api.world_choice import WorldChoice, world_of
from sitl_bridge.base.arrays import Floats
from sitl_bridge.core.dynamics.proximity import Proximity
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.lab.environments.action_levels import ActionLevel
from sitl_bridge.lab.environments.batch import VehicleBatch
from sitl_bridge.lab.environments.randomisation import Randomisation
from sitl_bridge.lab.environments.tasks import Task, VehicleMotion


def task_batch(
    airframe: Airframe,
    level: ActionLevel,
    task: Task,
    places: Floats,
    *,
    world: WorldChoice,
    randomisation: Randomisation | None,
    period: float,
    step: float,
    with_sensors: bool = False,
    threads: int | None = 1,
    proximity: Proximity | None = None,
    integrator: str = "runge_kutta",
) -> VehicleBatch:
    """The vehicles of a task, which is prepared for their starts.

    Args:
        airframe: of all.
        level: of the actions.
        task: decides the height of the starts.
        places: (n, 3) m NED of the starts, beside the height.
        world: None for calm air over level ground.
        randomisation: None for none.
        period, step, with_sensors, threads, proximity, integrator: of ``VehicleBatch``.

    Raises:
        UserError: for what does not fit together.
    """
    batch = VehicleBatch(
        airframe,
        len(places),
        level,
        world=world_of(world).build(),
        randomisation=randomisation or Randomisation(),
        period=period,
        step=step,
        height=task.height,
        places=places,
        draws=task.draws,
        with_sensors=with_sensors,
        threads=threads,
        proximity=proximity,
        integrator=integrator,
    )
    task.prepare(places + batch.home)
    return batch


def motion_of(batch: VehicleBatch) -> VehicleMotion:
    """The true state of all vehicles; its arrays change with the next step."""
    return VehicleMotion(batch.truth, batch.time, batch.actions, batch.on_ground, batch.collided)


def seed_of_system() -> int:
    """A seed for an environment that is given none."""
    return int(np.random.SeedSequence().generate_state(1)[0])
