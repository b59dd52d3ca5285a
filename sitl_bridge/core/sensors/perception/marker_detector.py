"""Marker detector: the direction to a landing marker, as a downward camera's program gives it."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from pydantic import Field, field_validator

from sitl_bridge.base.quantities import NonNegative, Positive, Vector
from sitl_bridge.core.sensors.perception.view import Arrays, PerceptionSpecification, Rate, View

DOWN = (0.0, -90.0, 0.0)
"""deg, the rotation that makes the sensor's x axis the body's z axis."""
SURFACE = 0.05
"""m, by which the marker may lie within what it lies on."""


class MarkerDetectorSpecification(PerceptionSpecification):
    """A downward camera that looks for one square marker, which lies level and faces up.

    The marker is seen while its centre and its corners are in the field of view and nothing stands between.
    """

    kind: Literal["marker_detector"]
    rate: Rate = Field(20.0, description="Hz")
    rotation: Vector = Field(DOWN, description="deg; PX4 takes one that looks down")
    marker: Vector = Field(description="m NED, of the marker's centre")
    size: Positive = Field(0.5, description="m, of the marker's edges, which lie north and east")
    field_of_view: float = Field(60.0, gt=1.0, lt=179.0, description="deg, in both directions")
    maximum: Positive = Field(15.0, description="m, at which the marker is recognised")
    noise: NonNegative = Field(0.2, description="deg, standard deviation of each angle")

    @field_validator("rotation")
    @classmethod
    def _looks_down(cls, rotation: Vector) -> Vector:
        if rotation != DOWN:
            raise ValueError("a marker detector looks down: leave rotation out")
        return rotation

    def measure(self, view: View) -> Arrays:
        """``angles`` (2,) in rad to the marker, forwards and to the right of the sensor's axis, and its
        ``distance`` in m; nan while it is not seen."""
        place, turn = self.pose(view)
        half = 0.5 * self.size
        corners = [(0, 0), (half, half), (half, -half), (-half, -half), (-half, half)]
        points = np.array(self.marker) + [(north, east, 0.0) for north, east in corners]
        offsets = points - place
        distances = np.linalg.norm(offsets, axis=1)
        noise = math.radians(self.noise) * view.random.standard_normal(2)
        ahead, right, back = (offsets @ turn).T
        limit = math.tan(math.radians(0.5 * self.field_of_view)) * ahead
        seen = (ahead > 0.0) & (np.abs(right) <= limit) & (np.abs(back) <= limit)
        in_view = seen.all() and distances[0] <= self.maximum and place[2] < self.marker[2]
        # Cast in every sample: what there is to compile is compiled before the flight, not at first sight.
        directions = offsets / distances[:, None]
        clear = view.caster.cast(place[None], directions, float(distances.max())).distance
        if not in_view or np.any(clear < distances - SURFACE):
            return {"angles": np.full(2, np.nan), "distance": np.array(np.nan)}
        angles = np.array([math.atan2(-back[0], ahead[0]), math.atan2(right[0], ahead[0])])
        return {"angles": angles + noise, "distance": np.array(distances[0])}
