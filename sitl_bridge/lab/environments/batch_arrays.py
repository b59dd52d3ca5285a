"""The memory of a batch of vehicles, as the compiled step takes it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.autopilot.control.records import CONTROLLER
from sitl_bridge.autopilot.records import ALLOCATION, ESTIMATE, SETPOINT, WRENCH
from sitl_bridge.base.kernels.array_at import array_1d, array_2d, handles_of
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.core.dynamics.contact_log import CONTACT
from sitl_bridge.core.dynamics.proximity import COLLISION, HULL, PROXIMITY, ProximityArrays
from sitl_bridge.core.dynamics.records import STATE, VEHICLE
from sitl_bridge.core.sensors.records import SENSOR, SENSOR_STATE
from sitl_bridge.core.world.records import ENVIRONMENT, TURBULENCE, WIND, WIND_STATE
from sitl_bridge.lab.environments.records import BATCH, EPISODE, RESET, SLOT


class BatchArrays(NamedTuple):
    """The memory of n vehicles in b blocks.

    Attributes:
        batch: (1,) BATCH.
        reset: (1,) RESET.
        vehicles: (b,) VEHICLE to work on.
        states: (b,) STATE to work on.
        state_words: the same memory as (b, words) int64.
        controllers: (b,) CONTROLLER to work on.
        controller_words: the same memory.
        allocations: (b,) ALLOCATION to work on.
        setpoints: (b,) SETPOINT to work on.
        estimates: (b,) ESTIMATE to work on.
        winds: (b,) WIND to work on.
        sensors: (b, s) SENSOR to work on.
        fresh_vehicle: (1,) VEHICLE as the airframe has it.
        fresh_state: (1, words) STATE at the start.
        fresh_controller: (1, words) CONTROLLER at the start.
        fresh_sensors: (s,) SENSOR.
        environment: (1,) ENVIRONMENT.
        turbulence: (1,) TURBULENCE.
        series: (k, 4) recorded wind.
        places: (n, 3) m NED of each vehicle's start.
        randoms: (n, 4) random stream of each vehicle.
        episodes: (n,) EPISODE.
        clocks: (n,) us since the start of the episode.
        events: (n,) uint8, of the last action.
        motions: (n, a + 1) words of a STATE that last, and whether the ground's words last as well.
        motion_words: (a,) their indices.
        grounds: (n, g) words of a STATE that last on the ground alone.
        ground_words: (g,) their indices.
        memories: (n, words) what lasts of a CONTROLLER.
        wrenches: (n,) WRENCH.
        wind_states: (n,) WIND_STATE.
        sensor_states: (n, s) SENSOR_STATE.
        actions: (n, k) within their limits.
        limits: (2, k) least and greatest action.
        controls: (n, rotors) motor commands of the last step; the actions where these are motor commands.
        truth: (n, 13).
        seen: (n, k) figures of sensors.
        slots: (k,) SLOT.
        draws: (n, k) uniform random numbers of the present episode.
        neighbours: how vehicles act on one another, in a fleet.
    """

    batch: NDArray[np.void]
    reset: NDArray[np.void]
    vehicles: NDArray[np.void]
    states: NDArray[np.void]
    state_words: NDArray[np.int64]
    controllers: NDArray[np.void]
    controller_words: NDArray[np.int64]
    allocations: NDArray[np.void]
    setpoints: NDArray[np.void]
    estimates: NDArray[np.void]
    winds: NDArray[np.void]
    sensors: NDArray[np.void]
    fresh_vehicle: NDArray[np.void]
    fresh_state: NDArray[np.int64]
    fresh_controller: NDArray[np.int64]
    fresh_sensors: NDArray[np.void]
    environment: NDArray[np.void]
    turbulence: NDArray[np.void]
    series: NDArray[np.float64]
    places: NDArray[np.float64]
    randoms: NDArray[np.uint64]
    episodes: NDArray[np.void]
    clocks: NDArray[np.int64]
    events: NDArray[np.uint8]
    motions: NDArray[np.int64]
    motion_words: NDArray[np.uint64]
    grounds: NDArray[np.int64]
    ground_words: NDArray[np.uint64]
    memories: NDArray[np.int64]
    wrenches: NDArray[np.void]
    wind_states: NDArray[np.void]
    sensor_states: NDArray[np.void]
    actions: NDArray[np.float64]
    limits: NDArray[np.float64]
    controls: NDArray[np.float64]
    truth: NDArray[np.float64]
    seen: NDArray[np.float64]
    slots: NDArray[np.void]
    draws: NDArray[np.float64]
    neighbours: ProximityArrays

    def handles(self) -> NDArray[np.int64]:
        """Handles of the arrays, for ``batch_of``."""
        return handles_of((*self[:-1], *self.neighbours))


@compiled
def batch_of(handles: Any) -> Any:
    """The ``BatchArrays`` that the handles stand for."""
    return BatchArrays(
        array_1d(handles, 0, BATCH),
        array_1d(handles, 1, RESET),
        array_1d(handles, 2, VEHICLE),
        array_1d(handles, 3, STATE),
        array_2d(handles, 4, np.int64),
        array_1d(handles, 5, CONTROLLER),
        array_2d(handles, 6, np.int64),
        array_1d(handles, 7, ALLOCATION),
        array_1d(handles, 8, SETPOINT),
        array_1d(handles, 9, ESTIMATE),
        array_1d(handles, 10, WIND),
        array_2d(handles, 11, SENSOR),
        array_1d(handles, 12, VEHICLE),
        array_2d(handles, 13, np.int64),
        array_2d(handles, 14, np.int64),
        array_1d(handles, 15, SENSOR),
        array_1d(handles, 16, ENVIRONMENT),
        array_1d(handles, 17, TURBULENCE),
        array_2d(handles, 18, np.float64),
        array_2d(handles, 19, np.float64),
        array_2d(handles, 20, np.uint64),
        array_1d(handles, 21, EPISODE),
        array_1d(handles, 22, np.int64),
        array_1d(handles, 23, np.uint8),
        array_2d(handles, 24, np.int64),
        array_1d(handles, 25, np.uint64),
        array_2d(handles, 26, np.int64),
        array_1d(handles, 27, np.uint64),
        array_2d(handles, 28, np.int64),
        array_1d(handles, 29, WRENCH),
        array_1d(handles, 30, WIND_STATE),
        array_2d(handles, 31, SENSOR_STATE),
        array_2d(handles, 32, np.float64),
        array_2d(handles, 33, np.float64),
        array_2d(handles, 34, np.float64),
        array_2d(handles, 35, np.float64),
        array_2d(handles, 36, np.float64),
        array_1d(handles, 37, SLOT),
        array_2d(handles, 38, np.float64),
        ProximityArrays(
            array_1d(handles, 39, PROXIMITY),
            array_1d(handles, 40, HULL),
            array_2d(handles, 41, np.uint8),
            array_1d(handles, 42, COLLISION),
            array_1d(handles, 43, CONTACT),
        ),
    )
