"""The memory of a batch of vehicles, as the compiled step takes it."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from sitl_bridge.autopilot.control.records import CONTROLLER
from sitl_bridge.autopilot.records import ALLOCATION, ESTIMATE, SETPOINT, WRENCH
from sitl_bridge.base.arrays import Bytes, Floats, Ints, Records, Words
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

    batch: Annotated[Records, BATCH]
    reset: Annotated[Records, RESET]
    vehicles: Annotated[Records, VEHICLE]
    states: Annotated[Records, STATE]
    state_words: Annotated[Ints, 2]
    controllers: Annotated[Records, CONTROLLER]
    controller_words: Annotated[Ints, 2]
    allocations: Annotated[Records, ALLOCATION]
    setpoints: Annotated[Records, SETPOINT]
    estimates: Annotated[Records, ESTIMATE]
    winds: Annotated[Records, WIND]
    sensors: Annotated[Records, SENSOR, 2]
    fresh_vehicle: Annotated[Records, VEHICLE]
    fresh_state: Annotated[Ints, 2]
    fresh_controller: Annotated[Ints, 2]
    fresh_sensors: Annotated[Records, SENSOR]
    environment: Annotated[Records, ENVIRONMENT]
    turbulence: Annotated[Records, TURBULENCE]
    series: Annotated[Floats, 2]
    places: Annotated[Floats, 2]
    randoms: Annotated[Words, 2]
    episodes: Annotated[Records, EPISODE]
    clocks: Ints
    events: Bytes
    motions: Annotated[Ints, 2]
    grounds: Annotated[Ints, 2]
    memories: Annotated[Ints, 2]
    wrenches: Annotated[Records, WRENCH]
    wind_states: Annotated[Records, WIND_STATE]
    sensor_states: Annotated[Records, SENSOR_STATE, 2]
    actions: Annotated[Floats, 2]
    limits: Annotated[Floats, 2]
    controls: Annotated[Floats, 2]
    truth: Annotated[Floats, 2]
    seen: Annotated[Floats, 2]
    slots: Annotated[Records, SLOT]
    draws: Annotated[Floats, 2]
    neighbours: ProximityArrays
