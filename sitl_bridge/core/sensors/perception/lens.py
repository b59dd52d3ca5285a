"""Lenses: where a camera's pixels look, and where it shows a point.

Camera axes are those of a sensor: x along the optical axis, y right, z down.  Pixel centres are at whole
numbers, the first at (0, 0), so intrinsics and coefficients mean what they mean in OpenCV.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, Field

from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.quantities import STRICT

Coefficient = Annotated[float, Field(ge=-100.0, le=100.0)]
ITERATIONS = 50
SOLVED = 1e-12
"""Residual, in focal lengths, at which an inverse counts as found."""


class BrownConrady(BaseModel):
    """Radial and tangential distortion (Brown 1966, Conrady 1919), as ``cv2.projectPoints`` has it.

    With x, y in focal lengths and r^2 = x^2 + y^2: x' = x (1 + k1 r^2 + k2 r^4 + k3 r^6) + 2 p1 x y +
    p2 (r^2 + 2 x^2), y' = y (1 + k1 r^2 + k2 r^4 + k3 r^6) + p1 (r^2 + 2 y^2) + 2 p2 x y.
    """

    model_config = STRICT

    model: Literal["brown_conrady"]
    k1: Coefficient = 0.0
    k2: Coefficient = 0.0
    p1: Coefficient = 0.0
    p2: Coefficient = 0.0
    k3: Coefficient = 0.0

    def _radial(self, square: Floats) -> Floats:
        return 1.0 + square * (self.k1 + square * (self.k2 + square * self.k3))

    def distort(self, x: Floats, y: Floats) -> tuple[Floats, Floats]:
        """Image coordinates, in focal lengths, of points at x, y on the plane one focal length ahead."""
        square = x * x + y * y
        radial = self._radial(square)
        return (
            x * radial + 2.0 * self.p1 * x * y + self.p2 * (square + 2.0 * x * x),
            y * radial + self.p1 * (square + 2.0 * y * y) + 2.0 * self.p2 * x * y,
        )

    def rays(self, u: Floats, v: Floats) -> Floats:
        """Unit vectors (n, 3) that are shown at u, v (n,), in focal lengths, by Newton's method.

        nan where there is none.
        """
        x, y = u.copy(), v.copy()
        determinant = np.ones_like(x)
        a, b = self.distort(x, y)
        for _ in range(ITERATIONS):
            square = x * x + y * y
            radial = self._radial(square)
            slope = 2.0 * self.k1 + square * (4.0 * self.k2 + 6.0 * self.k3 * square)
            a_x = radial + x * x * slope + 2.0 * self.p1 * y + 6.0 * self.p2 * x
            a_y = x * y * slope + 2.0 * self.p1 * x + 2.0 * self.p2 * y
            b_y = radial + y * y * slope + 6.0 * self.p1 * y + 2.0 * self.p2 * x
            determinant = a_x * b_y - a_y * a_y
            if max(np.abs(a - u).max(initial=0.0), np.abs(b - v).max(initial=0.0)) < SOLVED:
                break
            safe = np.where(determinant > 1e-3, determinant, 1.0)
            x = x - ((a - u) * b_y - (b - v) * a_y) / safe
            y = y - ((b - v) * a_x - (a - u) * a_y) / safe
            np.clip(x, -100.0, 100.0, out=x)
            np.clip(y, -100.0, 100.0, out=y)
            a, b = self.distort(x, y)
        found = (np.hypot(a - u, b - v) < 1e-9) & (determinant > 1e-3)
        rays = np.stack([np.ones_like(x), x, y], axis=1)
        rays /= np.linalg.norm(rays, axis=1)[:, None]
        rays[~found] = np.nan
        return rays


class Fisheye(BaseModel):
    """Equidistant projection with a polynomial (Kannala and Brandt 2006), as ``cv2.fisheye`` has it.

    With theta the angle off the optical axis: radius = theta (1 + k1 theta^2 + k2 theta^4 + k3 theta^6 +
    k4 theta^8), in focal lengths.
    """

    model_config = STRICT

    model: Literal["fisheye"]
    k1: Coefficient = 0.0
    k2: Coefficient = 0.0
    k3: Coefficient = 0.0
    k4: Coefficient = 0.0

    def _radius(self, theta: Floats) -> tuple[Floats, Floats]:
        """Radius in focal lengths, and its derivative."""
        s = theta * theta
        radius = theta * (1.0 + s * (self.k1 + s * (self.k2 + s * (self.k3 + s * self.k4))))
        slope = 1.0 + s * (3.0 * self.k1 + s * (5.0 * self.k2 + s * (7.0 * self.k3 + s * 9.0 * self.k4)))
        return radius, slope

    def rays(self, u: Floats, v: Floats) -> Floats:
        """Unit vectors (n, 3) that are shown at u, v (n,), in focal lengths, by Newton's method.

        nan where there is none.
        """
        radius = np.hypot(u, v)
        theta = np.minimum(radius, math.pi)
        for _ in range(ITERATIONS):
            reached, slope = self._radius(theta)
            if np.abs(reached - radius).max(initial=0.0) < SOLVED:
                break
            theta = np.clip(theta - (reached - radius) / np.where(slope > 1e-3, slope, 1.0), 0.0, math.pi)
        reached, slope = self._radius(theta)
        found = (np.abs(reached - radius) < 1e-9) & (slope > 1e-3)
        along = np.divide(np.sin(theta), radius, out=np.ones_like(radius), where=radius > 0.0)
        rays = np.stack([np.cos(theta), along * u, along * v], axis=1)
        rays[~found] = np.nan
        return rays


PINHOLE = BrownConrady(model="brown_conrady")
"""No distortion."""
Distortion = Annotated[BrownConrady | Fisheye, Field(discriminator="model")]
