"""Input of a sensor that sees for one sample: where it was, what stands around it, random numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from sitl_bridge.base.arrays import Floats, Ints, interpolate
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.base.kernels.rotations import product
from sitl_bridge.base.quantities import STRICT, Mounting, Vector
from sitl_bridge.base.rotations import matrix_from_quaternion
from sitl_bridge.core.sensors.error_model import SLOWEST, body_to_sensor
from sitl_bridge.core.world.records import START

if TYPE_CHECKING:
    from sitl_bridge.core.sensors.perception.scene_caster import SceneCaster

Arrays = dict[str, NDArray[np.generic]]
"""A sample: named arrays, the same names and dtypes every time."""
Rate = Annotated[float, Field(ge=SLOWEST, le=100.0)]


class Poses(NamedTuple):
    """The way of a body over a while."""

    time: Ints  # (k,) us, rising
    position: Floats  # (k, 3) m NED
    attitude: Floats  # (k, 4) quaternion w, x, y, z, body to NED
    # (k, 9) specific force at the position in m/s^2, angular velocity in rad/s and angular acceleration in
    # rad/s^2, in the body's axes; None where they were not kept
    inertial: Floats | None = None

    def at(self, time: Floats) -> tuple[Floats, Floats]:
        """Position (n, 3) and rotation body to NED (n, 3, 3) at times (n,) in us.

        Between poses, positions go straight, and attitudes by normalised linear interpolation: over a step of
        4 ms at 20 rad/s it departs from a constant turn by less than 3e-6 rad.  Before the first and after
        the last pose, that pose holds.
        """
        position = interpolate(time, self.time, self.position)
        return position, matrix_from_quaternion(attitudes_between(self.time, self.attitude, time))

    def inertial_at(self, time: Floats) -> Floats:
        """Inertial quantities (n, 9) at times (n,) in us, linear between poses.

        Raises:
            ValueError: where they were not kept.
        """
        if self.inertial is None:
            raise ValueError("the vehicle's inertial quantities were not kept with its poses")
        return interpolate(time, self.time, self.inertial)


def attitudes_between(known: Ints, attitudes: Floats, time: Floats) -> Floats:
    """Quaternions (n, 4) at times (n,) between attitudes (k, 4) at known times (k,); see ``Poses.at``."""
    signs = np.sign(np.sum(attitudes[1:] * attitudes[:-1], axis=1))
    aligned = attitudes.copy()
    aligned[1:] *= np.cumprod(np.where(signs == 0.0, 1.0, signs))[:, None]
    q = interpolate(time, known, aligned)
    return np.asarray(q / np.linalg.norm(q, axis=1)[:, None])


@dataclass(frozen=True)
class View:
    """Input of a sensor for one sample."""

    caster: SceneCaster  # the scene at the sample's time
    poses: Poses  # of the vehicle, up to the sample's time, over at least the sensor's ``exposure``
    time: int  # us, of the sample: the end of its exposure
    random: np.random.Generator  # the sample's own random numbers
    start: int = START  # us at which simulated time began


Processor = Callable[[View, Arrays], Arrays]
"""Makes more of the samples of one sensor of one vehicle, in order; returns the sample to deliver."""


@compiled
def place_rays(
    position: Floats,
    rotation: Floats,
    offset: Floats,
    mounting: Floats,
    directions: Floats,
) -> tuple[Floats, Floats]:
    """Rays of a sensor on a vehicle that moves from one group of rays to the next.

    Args:
        position: (g, 3) m NED, of the vehicle.
        rotation: (g, 3, 3) body to NED.
        offset: (3,) m, of the sensor in the body.
        mounting: (3, 3) sensor axes to body.
        directions: (g * k, 3) unit vectors in the sensor's axes, group by group.

    Returns:
        origins in m NED, (1, 3) for g = 1, else (g * k, 3), and unit vectors NED (g * k, 3).
    """
    groups, n = position.shape[0], directions.shape[0]
    each = n // groups
    origins, turned = np.empty((1 if groups == 1 else n, 3)), np.empty((n, 3))
    for g in range(groups):
        r = rotation[g] @ mounting
        x = position[g, 0] + rotation[g, 0, 0] * offset[0] + rotation[g, 0, 1] * offset[1]
        y = position[g, 1] + rotation[g, 1, 0] * offset[0] + rotation[g, 1, 1] * offset[1]
        z = position[g, 2] + rotation[g, 2, 0] * offset[0] + rotation[g, 2, 1] * offset[1]
        x += rotation[g, 0, 2] * offset[2]
        y += rotation[g, 1, 2] * offset[2]
        z += rotation[g, 2, 2] * offset[2]
        if groups == 1:
            origins[0, 0], origins[0, 1], origins[0, 2] = x, y, z
        for i in range(g * each, (g + 1) * each):
            u, v, w = directions[i, 0], directions[i, 1], directions[i, 2]
            turned[i, 0], turned[i, 1], turned[i, 2] = product(r, u, v, w)
            if groups > 1:
                origins[i, 0], origins[i, 1], origins[i, 2] = x, y, z
    return origins, turned


class PerceptionSpecification(BaseModel):
    """Base of every sensor that sees the scene; ``measure`` is its own."""

    model_config = STRICT

    sees_vehicles: ClassVar[bool] = True
    """Whether ``measure`` asks where the other vehicles are; else its ``View`` is without them."""
    instance: int = Field(0, ge=0, le=7, description="tells several of one kind apart")
    rate: Rate = Field(description="Hz")
    latency: float = Field(0.05, ge=0.0, le=2.0, description="s from the end of exposure to delivery")
    position: Mounting = Field((0.0, 0.0, 0.0), description="m, body FRD, from the centre of gravity")
    rotation: Vector = Field((0.0, 0.0, 0.0), description="deg, roll, pitch, yaw of the sensor in the body")
    record: bool = Field(False, description="write the samples into the run directory, sensors/NAME")

    @property
    def name(self) -> str:
        """Name of the sensor and of what it records."""
        return f"{getattr(self, 'kind')}_{self.instance}"  # noqa: B009

    @property
    def exposure(self) -> float:
        """s over which one sample is taken; 0 takes all of it at once."""
        return 0.0

    def mounting(self) -> Floats:
        """(3, 3) sensor axes to body."""
        return np.ascontiguousarray(body_to_sensor(self.rotation).T)

    def rays(
        self,
        view: View,
        directions: Floats,
        age: Floats | None = None,
        shift: tuple[float, float, float] = (0.0, 0.0, 0.0),
    ) -> tuple[Floats, Floats]:
        """Rays of the sensor in NED: origins (n, 3) or (1, 3), directions (n, 3).

        Args:
            directions: (n, 3) unit vectors in the sensor's axes.
            age: (g,) s before the end of exposure at which each of g groups of rays is cast, n / g rays a
                group; None: all at the end.
            shift: m in the sensor's axes, from the sensor to where the rays begin.
        """
        times = np.array([float(view.time)]) if age is None else view.time - age * 1e6
        position, rotation = view.poses.at(times)
        mounting = self.mounting()
        offset = np.array(self.position, float) + mounting @ np.array(shift)
        return place_rays(position, rotation, offset, mounting, directions)

    def pose(self, view: View) -> tuple[Floats, Floats]:
        """Place (3,) in m NED and rotation (3, 3) to NED of the sensor's axes at the end of exposure."""
        position, rotation = view.poses.at(np.array([float(view.time)]))
        return position[0] + rotation[0] @ np.array(self.position), rotation[0] @ self.mounting()

    def measure(self, view: View) -> Arrays:
        """One sample."""
        raise NotImplementedError

    def processor(self) -> Processor | None:
        """Make the processor of the samples of one vehicle's sensor; it may remember earlier ones."""
        return None
