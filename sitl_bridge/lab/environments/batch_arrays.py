"""The memory of a batch of vehicles, as the compiled step takes it."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.autopilot.control.records import CONTROLLER
from sitl_bridge.autopilot.records import ALLOCATION, ESTIMATE, SETPOINT, WRENCH
from sitl_bridge.core.dynamics.proximity import ProximityArrays
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
        grounds: (n, g) words of a STATE that last on the ground alone.
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

    batch: Annotated[NDArray[np.void], BATCH]
    reset: Annotated[NDArray[np.void], RESET]
    vehicles: Annotated[NDArray[np.void], VEHICLE]
    states: Annotated[NDArray[np.void], STATE]
    state_words: Annotated[NDArray[np.int64], 2]
    controllers: Annotated[NDArray[np.void], CONTROLLER]
    controller_words: Annotated[NDArray[np.int64], 2]
    allocations: Annotated[NDArray[np.void], ALLOCATION]
    setpoints: Annotated[NDArray[np.void], SETPOINT]
    estimates: Annotated[NDArray[np.void], ESTIMATE]
    winds: Annotated[NDArray[np.void], WIND]
    sensors: Annotated[NDArray[np.void], SENSOR, 2]
    fresh_vehicle: Annotated[NDArray[np.void], VEHICLE]
    fresh_state: Annotated[NDArray[np.int64], 2]
    fresh_controller: Annotated[NDArray[np.int64], 2]
    fresh_sensors: Annotated[NDArray[np.void], SENSOR]
    environment: Annotated[NDArray[np.void], ENVIRONMENT]
    turbulence: Annotated[NDArray[np.void], TURBULENCE]
    series: Annotated[NDArray[np.float64], 2]
    places: Annotated[NDArray[np.float64], 2]
    randoms: Annotated[NDArray[np.uint64], 2]
    episodes: Annotated[NDArray[np.void], EPISODE]
    clocks: NDArray[np.int64]
    events: NDArray[np.uint8]
    motions: Annotated[NDArray[np.int64], 2]
    grounds: Annotated[NDArray[np.int64], 2]
    memories: Annotated[NDArray[np.int64], 2]
    wrenches: Annotated[NDArray[np.void], WRENCH]
    wind_states: Annotated[NDArray[np.void], WIND_STATE]
    sensor_states: Annotated[NDArray[np.void], SENSOR_STATE, 2]
    actions: Annotated[NDArray[np.float64], 2]
    limits: Annotated[NDArray[np.float64], 2]
    controls: Annotated[NDArray[np.float64], 2]
    truth: Annotated[NDArray[np.float64], 2]
    seen: Annotated[NDArray[np.float64], 2]
    slots: Annotated[NDArray[np.void], SLOT]
    draws: Annotated[NDArray[np.float64], 2]
    neighbours: ProximityArrays
