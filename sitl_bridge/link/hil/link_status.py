"""Status of a run's clock and of its links."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sitl_bridge.base.arrays import Floats
from sitl_bridge.core.simulation.simulation import Simulation
from sitl_bridge.link.hil.link_state import LOCKSTEP_STATES, LinkState


@dataclass(frozen=True)
class LinkStatus:
    """One vehicle's link."""

    port: int
    state: LinkState
    answers: int
    """Received on this connection."""
    armed: bool
    faults: Mapping[str, int] = field(default_factory=dict)
    """Wrong input from the flight stack so far, by the kinds of ``link_errors.FAULTS``."""

    @property
    def connected(self) -> bool:
        """Whether a flight stack is connected."""
        return self.state is not LinkState.DISCONNECTED

    @property
    def lockstep(self) -> bool:
        """Whether every frame is answered before the next goes out."""
        return self.state in LOCKSTEP_STATES

    @property
    def stalled(self) -> bool:
        """Whether its answers stopped and frames go on without them."""
        return self.state in (LinkState.SILENT, LinkState.LEFT_BEHIND) or (
            self.state is LinkState.FROZEN and self.answers > 0
        )

    @property
    def held(self) -> bool:
        """Whether simulated time waits for it although its answer is overdue."""
        return self.state in (LinkState.OVERDUE, LinkState.FROZEN)

    @property
    def bad_frames(self) -> int:
        """Frames with a wrong checksum, of other messages or of MAVLink 1."""
        return sum(self.faults.get(kind, 0) for kind in ("bad_checksums", "unknown", "mavlink1"))


@dataclass(frozen=True)
class ServerStatus:
    """A snapshot of a run's clock: time, pace and links."""

    elapsed: int
    """us of simulated time since the start."""
    steps: int
    real_time_factor: float
    """Over about the last second of wall time."""
    paused: bool
    links: tuple[LinkStatus, ...]
    position: Floats
    """(n, 3) m NED."""
    velocity: Floats
    """(n, 3) m/s NED."""
    battery: Floats
    """(n, 3) voltage V, current A, share of charge left."""

    @property
    def seconds(self) -> float:
        """s of simulated time since the start."""
        return self.elapsed * 1e-6

    @classmethod
    def of(cls, simulation: Simulation, **facts: Any) -> ServerStatus:
        """A snapshot with the motion and the batteries of a simulation as they are now."""
        states, capacity = simulation.states, simulation.vehicles["battery_capacity"]
        left = np.ones(len(states))
        np.divide(np.maximum(states["battery_charge"], 0.0), capacity, out=left, where=np.isfinite(capacity))
        return cls(
            position=states["position"].copy(),
            velocity=states["velocity"].copy(),
            battery=np.stack([states["battery_voltage"], states["battery_current"], left], axis=1),
            **facts,
        )
