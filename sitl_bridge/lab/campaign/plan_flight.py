"""Flights of plans by the built-in stack within this process: hundreds of times faster than real time."""

from __future__ import annotations

from collections.abc import Sequence

from sitl_bridge.analysis.evaluation.run_record import RunRecord
from sitl_bridge.analysis.evaluation.verdict import Verdict
from sitl_bridge.api.in_process import FleetPool, InProcessStacks
from sitl_bridge.api.vehicles import Vehicles
from sitl_bridge.base.errors import UserError
from sitl_bridge.core.simulation.events import StackEvent
from sitl_bridge.plan.plan import Plan
from sitl_bridge.session.settings import FlightSettings


def flies_here(settings: FlightSettings) -> bool:
    """Whether each vehicle has a plan and no event concerns the process of a flight stack."""
    return (
        settings.mission is None
        and all(
            vehicle.mission is not None and vehicle.mission.suffix == ".plan" for vehicle in settings.vehicles
        )
        and not any(isinstance(event, StackEvent) for event in settings.events)
    )


class PlanFlights:
    """Flies plans; fleets of the same vehicles are reset for the next flight."""

    def __init__(self) -> None:
        self._fleets = FleetPool()

    def fly(
        self, settings: FlightSettings, plans: Sequence[Plan], *, files: bool = True
    ) -> tuple[RunRecord, Verdict]:
        """Fly from the ground to the ground.

        Args:
            settings: of the flight, checked.
            plans: of the vehicles.
            files: whether to write the files of ``sitl-bridge fly``; else the run has what measures need.

        Returns:
            the run as read back, and the verdict.

        Raises:
            UserError: for vehicles that cannot be built, and when a file cannot be written.
        """
        stacks = InProcessStacks(settings, pool=self._fleets, files=files)
        reason = ""
        try:
            stacks.settle()
            left = settings.time_limit - (stacks.now - stacks.simulation.start) * 1e-6
            Vehicles([stacks], range(len(stacks.names)), alone=False).fly_plan(*plans, limit=left)
        except UserError as error:  # a refusal, a motion that diverges, the user's own code that fails
            reason = str(error)
        flown = stacks.finish(reason)
        return flown.run, flown.verdict
