"""Vehicles of a session that stands ready, commanded over their links while its time passes on demand."""

from __future__ import annotations

from sitl_bridge.session.linked import LinkedVehicles
from sitl_bridge.session.ready_session import ReadySession


class ReadyVehicles(LinkedVehicles):
    """The vehicles of a session that is ready.

    Args:
        session: started and settled.
    """

    def __init__(self, session: ReadySession) -> None:
        vehicles = session.settings.vehicles
        super().__init__(
            [vehicle.name for vehicle in vehicles],
            [vehicle.airframe.name for vehicle in vehicles],
            [vehicle.position for vehicle in vehicles],
        )
        self.use_links([vehicle.monitor for vehicle in session.vehicles])
        self._session = session
        assert session.ready_at is not None
        self.ready_at = session.ready_at

    @property
    def now(self) -> int:
        """us of simulated time."""
        return self._session.now

    def pass_time(self, steps: int) -> None:
        """Let time pass step by step."""
        self._session.advance(steps)

    def take_control(self) -> None:
        """Let time that passed by itself stand still."""
        self._session.take_control()

    @property
    def place(self) -> tuple[float, float]:
        """Deg latitude and longitude of the world's origin."""
        origin = self._session.simulation.world.specification.origin
        return origin.latitude, origin.longitude

    def is_armed(self, vehicle: int) -> bool:
        """Whether a vehicle's motors may turn."""
        return self._session.server.status().links[vehicle].armed

    def on_ground(self, vehicle: int) -> bool:
        """Whether a vehicle stands on something."""
        return bool(self._session.simulation.states[vehicle]["in_contact"])
