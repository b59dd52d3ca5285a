"""The ``controller`` section of an airframe file: the control law of the built-in flight stack.

Gains of built-in laws are computed from the airframe (autopilot/control/gains.py); only published gains are
given in files.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, Field, field_validator, model_validator

from sitl_bridge.base.quantities import STRICT, Positive
from sitl_bridge.base.user_file import Options, class_at

PositiveVector = tuple[Positive, Positive, Positive]

BUILT_IN = ("hector_pid", "lee", "rotors")
"""Laws by name; ``rotors`` is Lee's with the gains that RotorS publishes for a vehicle."""


def beside(kind: str, directory: Path) -> str:
    """A kind of controller; the file of a custom one is relative to a directory."""
    own = class_at(kind)
    return kind if own is None else f"{directory / own[0]}:{own[1]}"


class RotorsGains(BaseModel):
    """A lee_controller_*.yaml of RotorS, with the mass and gravity that its controller uses."""

    model_config = STRICT

    position_gain: PositiveVector = Field(description="N/m, k_x")
    velocity_gain: PositiveVector = Field(description="N s/m, k_v")
    attitude_gain: PositiveVector = Field(description="N m, k_R")
    angular_rate_gain: PositiveVector = Field(description="N m s, k_Omega")
    mass: Positive = Field(description="kg")
    gravity: Positive = Field(description="m/s^2")


class ControllerSection(BaseModel):
    """The controller of the built-in flight stack.  In a file, a bare name means its ``kind``."""

    model_config = STRICT

    kind: str = Field("hector_pid", description="hector_pid, lee, rotors, or FILE.py:CLASS")
    rotors: RotorsGains | None = None
    options: Options = Field(
        default_factory=dict, description="arguments of the class of a custom controller"
    )

    @field_validator("kind")
    @classmethod
    def _check_kind(cls, kind: str) -> str:
        if kind not in BUILT_IN and class_at(kind) is None:
            raise ValueError(f"no controller is called {kind!r}; give {', '.join(BUILT_IN)} or FILE.py:CLASS")
        return kind

    @model_validator(mode="after")
    def _check_whole(self) -> ControllerSection:
        if self.kind == "rotors" and self.rotors is None:
            raise ValueError("kind rotors needs the published gains under rotors")
        if self.options and class_at(self.kind) is None:
            raise ValueError("only a custom controller, FILE.py:CLASS, takes options")
        return self
