"""The simulation alone from Python, for a flight stack that is started elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sitl_bridge.api.airframe_choice import AirframeChoice, airframe_of
from sitl_bridge.api.world_choice import WorldChoice, world_of
from sitl_bridge.base.user_file import require_not_loading
from sitl_bridge.link.hil.link_state import OnStall
from sitl_bridge.live.outlets import BusSettings
from sitl_bridge.session.served import ServedSimulation
from sitl_bridge.session.settings import ExternalStacks, FlightOptions, FlightSettings


def serve(
    airframe: AirframeChoice = "iris",
    *,
    world: WorldChoice = None,
    seed: int = 0,
    speed: float = 1.0,
    host: str = "127.0.0.1",
    instance: int = 0,
    on_stall: OnStall = "continue",
    battery: bool = False,
    bus: str | None = None,
    runs: str | Path = "runs",
    vehicles: int = 1,
    notify: Callable[[str], None] = print,
) -> ServedSimulation:
    """Serve the simulator link within a ``with`` block, as ``sitl-bridge serve`` does.

    ``with sb.serve("iris") as session: session.wait()`` serves until the program is interrupted;
    ``session.status`` is the state of the link.

    Args:
        airframe: by name, file or as an object.
        world: the world it flies in; None for calm air.
        seed: of all random numbers.
        speed: simulated over real time; ``math.inf`` for as fast as it goes.
        host: address to listen on; other hosts reach ``0.0.0.0``.
        instance: of the flight stack; listens on port 4560 + instance.
        on_stall: when the flight stack stops answering: ``continue``, ``wait`` or ``abort``.
        battery: whether a PX4 on this host gets the simulated battery.
        bus: MQTT broker to publish on, as ``--bus``.
        runs: where the run directory is made.
        vehicles: number of vehicles; vehicle i listens on port 4560 + instance + i.
        notify: takes lines for the user.

    Raises:
        UserError: for every error before it serves.
    """
    require_not_loading("a server")
    options = FlightOptions(
        airframe=airframe_of(airframe),
        world=world_of(world).specification,
        seed=seed,
        speed=speed,
        instance=instance,
        outlets=() if bus is None else (BusSettings.parse(bus),),
        runs=Path(runs),
    )
    external = ExternalStacks(host, battery)
    return ServedSimulation(FlightSettings.for_external(external, options, vehicles, on_stall), notify)
