"""The airframe's body in the airframe file: inertia, drag and contact points."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field, model_validator

from sitl_bridge.base.quantities import STRICT, NonNegative, Number, Positive, Vector
from sitl_bridge.core.dynamics.records import MAX_CONTACT_POINTS

NonNegativeVector = tuple[NonNegative, NonNegative, NonNegative]


class Inertia(BaseModel):
    """Inertia tensor about the centre of gravity in body axes, kg m^2."""

    model_config = STRICT

    xx: Positive
    yy: Positive
    zz: Positive
    xy: Number = Field(0.0, description="off-diagonal element of the tensor, -sum(m x y)")
    xz: Number = 0.0
    yz: Number = 0.0
    as_published: bool = Field(
        False, description="the source publishes this tensor, though it is not physical"
    )

    def matrix(self) -> NDArray[np.float64]:
        """(3, 3)."""
        return np.array(
            [[self.xx, self.xy, self.xz], [self.xy, self.yy, self.yz], [self.xz, self.yz, self.zz]]
        )

    @model_validator(mode="after")
    def _physical(self) -> Inertia:
        if np.linalg.eigvalsh(self.matrix())[0] <= 0.0:
            raise ValueError("an inertia tensor must be positive definite")
        if not (self.as_published or self.of_a_body()):
            raise ValueError(
                "one principal moment exceeds the sum of the other two, which is not physical; if the source"
                " publishes this tensor, set `as_published: true`"
            )
        return self

    def of_a_body(self) -> bool:
        """Whether a rigid body can have this tensor: no principal moment exceeds the sum of the other two."""
        principal = np.linalg.eigvalsh(self.matrix())
        return bool(principal[0] + principal[1] >= principal[2] * (1.0 - 1e-9))

    def pack(self, vehicle: NDArray[np.void]) -> None:
        """Write the inertia of a () VEHICLE record."""
        vehicle["inertia"] = self.matrix()
        vehicle["inertia_inverse"] = np.linalg.inv(self.matrix())


def point_mass(mass: float, position: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the inertia (3, 3) in kg m^2 about the origin of a point mass (kg) at a position (3,) in m."""
    squared: NDArray[np.float64] = mass * (position @ position * np.eye(3) - np.outer(position, position))
    return squared


class Drag(BaseModel):
    """Body drag F = -C |v| v and M = -C |w| w (hector eq. 2)."""

    model_config = STRICT

    force: NonNegativeVector = Field((0.0, 0.0, 0.0), description="N s^2/m^2, x, y, z")
    moment: NonNegativeVector = Field((0.0, 0.0, 0.0), description="N m s^2")
    reference_density: Positive = Field(1.225, description="kg/m^3")

    def pack(self, vehicle: NDArray[np.void]) -> None:
        """Write the drag of a () VEHICLE record."""
        vehicle["drag_force"], vehicle["drag_moment"] = self.force, self.moment
        vehicle["drag_density"] = self.reference_density


class Contact(BaseModel):
    """Contact points: one spring and damper each, Coulomb friction."""

    model_config = STRICT

    points: tuple[Vector, ...] = Field(description="m, FRD", min_length=3, max_length=MAX_CONTACT_POINTS)
    stiffness: Positive = Field(description="N/m per point")
    damping: NonNegative = Field(description="N s/m per point")
    friction: NonNegative = Field(description="1")

    def pack(self, vehicle: NDArray[np.void]) -> None:
        """Write the contact points of a () VEHICLE record."""
        points = np.array(self.points)
        vehicle["contact_count"] = len(points)
        vehicle["contact_point"][: len(points)] = points
        vehicle["contact_radius"] = np.linalg.norm(points, axis=1).max()
        vehicle["contact_stiffness"] = self.stiffness
        vehicle["contact_damping"] = self.damping
        vehicle["contact_friction"] = self.friction
