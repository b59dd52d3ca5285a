"""Choice of the flight stack: real PX4 if it is found, else the built-in stack, or as requested."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from sitl_bridge.base.errors import UserError
from sitl_bridge.core.vehicle.vehicle_specification import Choice
from sitl_bridge.link.px4.find import Px4Build, find_px4
from sitl_bridge.link.px4.versions import warning

BUILTIN = "the built-in flight stack"


@dataclass(frozen=True)
class AutopilotChoice:
    """The flight stack of a vehicle, and the reason for the choice.

    Attributes:
        px4: the PX4 build; None for the built-in stack.
        reason: of the choice, for the user.
    """

    px4: Px4Build | None
    reason: str

    @property
    def name(self) -> str:
        """The flight stack, as named in messages."""
        return BUILTIN if self.px4 is None else "PX4"

    @property
    def description(self) -> str:
        """The flight stack with its version, or with the reason for the choice."""
        if self.px4 is None:
            return f"flight stack: {BUILTIN}, not PX4: {self.reason}"
        return f"flight stack: PX4 {self.px4.version} from {self.px4.root}"

    @property
    def warning(self) -> str:
        """Warning about this version of PX4; empty for versions that have been flown."""
        return "" if self.px4 is None else warning(self.px4.version)


def choose_autopilot(choice: Choice = "auto", px4: Path | None = None) -> AutopilotChoice:
    """Choose the flight stack.

    Args:
        choice: ``auto`` uses PX4 if it is found; if a directory was given, PX4 must be there.
        px4: directory of PX4 that the user gave.

    Raises:
        UserError: if PX4 is requested and not found, or if both stacks are requested.
    """
    if choice == "builtin":
        if px4 is not None:
            raise UserError("--px4 and --autopilot builtin contradict each other; leave one of them out")
        return AutopilotChoice(None, "requested with --autopilot builtin")
    named = px4 is not None or bool(os.environ.get("PX4_DIR"))
    try:
        return AutopilotChoice(find_px4(px4), "found")
    except UserError as error:
        if choice == "px4" or named:
            raise
        return AutopilotChoice(None, str(error))
