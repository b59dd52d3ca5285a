"""Options of a flight apart from its mission: the same for a plan, a script and a scenario file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sitl_bridge.core.vehicle.vehicle_specification import Choice
from sitl_bridge.core.world.world import WorldSpecification
from sitl_bridge.live.bus.address import BusAddress
from sitl_bridge.session.outlet_choices import OutletChoices


@dataclass(frozen=True, kw_only=True)
class Choices:
    """Options of a flight; None means the value of the scenario file, or the default.

    Attributes:
        seed: of all random streams; 0 by default.
        world: of all vehicles; calm air by default.
        time_limit: s of simulated time after which the flight fails; none by default.
        autopilot: of all vehicles; ``auto`` means that of the scenario file, else PX4 if it is found.
        instance: of the first vehicle's flight stack; sets all ports.  The other vehicles' instances follow.
        speed: simulated over wall time; inf for as fast as possible.
        px4: PX4 to fly with; None searches for it.
        runs: parent of the run directories.
        arguments: of the script, after those in the scenario file.
        bus: broker to publish the flight on; None for none.
        outlets: pages and streams that show the flight.
        expose: whether other machines may reach the MAVLink ports of PX4, and through them its files.
        python: interpreter of all scripts.
        limits: of measures of the flight, by name, on top of those in a scenario's file; None removes one.
    """

    seed: int | None = None
    world: WorldSpecification | None = None
    time_limit: float | None = None
    autopilot: Choice = "auto"
    instance: int = 0
    speed: float = 1.0
    px4: Path | None = None
    runs: Path = Path("runs")
    arguments: tuple[str, ...] = ()
    bus: BusAddress | None = None
    outlets: OutletChoices = field(default_factory=OutletChoices)
    expose: bool = False
    python: Path | None = None
    limits: Mapping[str, float | None] = field(default_factory=dict)
