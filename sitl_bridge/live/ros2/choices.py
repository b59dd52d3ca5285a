"""Choices of a user of the ROS 2 graph: names of topics and frames, rates, and the motion in /tf."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, Field, StringConstraints

from sitl_bridge.base.quantities import STRICT, Positive

TOPICS_OF_RUN = ("clock", "tf", "tf_static", "markers", "answers", "set_wind", "simulation")
"""First parts of topics that belong to no vehicle."""
Topic = Annotated[str, StringConstraints(pattern=r"^/([A-Za-z]\w*(/[A-Za-z]\w*)*/?)?$")]
"""A topic, or its beginning up to a slash."""
FrameName = Annotated[str, StringConstraints(pattern=r"^[\w/]*$")]
Names = TypeVar("Names", bound=Mapping[str, str | None])


def _distinct(names: Names) -> Names:
    for begin, name in names.items():
        if name is not None and begin.endswith("/") != (name.endswith("/") or not name):
            raise ValueError(f"{begin} and {name} must both end with a slash, or neither")
    kept = [name for name in names.values() if name]
    if len(set(kept)) < len(kept):
        raise ValueError("two names become the same one")
    return names


class RosChoices(BaseModel):
    """Of names and their beginnings, which end with a slash, the longest one that fits is replaced."""

    model_config = STRICT

    topics: Annotated[dict[Topic, Topic | None], AfterValidator(_distinct)] = Field(
        {}, description="new names by the topic, such as /vehicle_0/: /uav/; null leaves it out"
    )
    frames: Annotated[dict[FrameName, FrameName], AfterValidator(_distinct)] = Field(
        {}, description='new names by the frame, such as vehicle_0/: "" or map: world'
    )
    rates: dict[str, Positive] = Field(
        {}, description="Hz of simulated time at most, by the end of the topic, such as imu or camera_0/cam0"
    )
    tf: Literal["truth", "estimate", "none"] = Field(
        "truth",
        description="motion in /tf: truth from map to base_link, the flight stack's estimate from odom to"
        " base_link, or none",
    )

    def rate(self, topic: str) -> float | None:
        """Greatest rate of a topic in Hz; None for its own."""
        return next((rate for end, rate in self.rates.items() if topic.endswith(f"/{end}")), None)
