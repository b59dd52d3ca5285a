"""Who flies: real PX4 where there is one, the built-in flight stack where there is none, or as asked."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from sitl_bridge.errors import UserError
from sitl_bridge.px4.find import Px4Build, find_px4
from sitl_bridge.px4.versions import warning
from sitl_bridge.vehicle.vehicle_specification import Choice

BUILTIN = "the built-in flight stack"


@dataclass(frozen=True)
class AutopilotChoice:
    """Who flies and why.

    Attributes:
        px4: the PX4 build; None for the built-in stack.
        why: in words, for the user.
    """

    px4: Px4Build | None
    why: str

    @property
    def name(self) -> str:
        """Who flies, in a sentence."""
        return BUILTIN if self.px4 is None else "PX4"

    @property
    def description(self) -> str:
        """Who flies, with its version, and why."""
        if self.px4 is None:
            return f"{BUILTIN} flies, not PX4: {self.why}"
        return f"PX4 {self.px4.version} flies, of {self.px4.root}"

    @property
    def warning(self) -> str:
        """What the user should know about this version of PX4; empty for those that have been flown."""
        return "" if self.px4 is None else warning(self.px4.version)


def choose_autopilot(choice: Choice = "auto", px4: Path | None = None) -> AutopilotChoice:
    """Decide who flies.

    Args:
        choice: ``auto`` takes PX4 where it is found, unless a place was named: then it must be there.
        px4: place of PX4 the user named.

    Raises:
        UserError: where PX4 is asked for and not found, or both are asked for.
    """
    if choice == "builtin":
        if px4 is not None:
            raise UserError("--px4 names a PX4, and --autopilot builtin asks for none; leave one of them out")
        return AutopilotChoice(None, "asked for with --autopilot builtin")
    named = px4 is not None or bool(os.environ.get("PX4_DIR"))
    try:
        return AutopilotChoice(find_px4(px4), "found")
    except UserError as error:
        if choice == "px4" or named:
            raise
        return AutopilotChoice(None, str(error))
