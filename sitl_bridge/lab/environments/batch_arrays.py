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
    """The memory of n vehicles in b blocks."""

    batch: Annotated[Records, BATCH]  # (1,) BATCH
    reset: Annotated[Records, RESET]  # (1,) RESET
    vehicles: Annotated[Records, VEHICLE]  # (b,) VEHICLE to work on
    states: Annotated[Records, STATE]  # (b,) STATE to work on
    state_words: Annotated[Ints, 2]  # the same memory as (b, words) int64
    controllers: Annotated[Records, CONTROLLER]  # (b,) CONTROLLER to work on
    controller_words: Annotated[Ints, 2]  # the same memory
    allocations: Annotated[Records, ALLOCATION]  # (b,) ALLOCATION to work on
    setpoints: Annotated[Records, SETPOINT]  # (b,) SETPOINT to work on
    estimates: Annotated[Records, ESTIMATE]  # (b,) ESTIMATE to work on
    winds: Annotated[Records, WIND]  # (b,) WIND to work on
    sensors: Annotated[Records, SENSOR, 2]  # (b, s) SENSOR to work on
    fresh_vehicle: Annotated[Records, VEHICLE]  # (1,) VEHICLE as the airframe has it
    fresh_state: Annotated[Ints, 2]  # (1, words) STATE at the start
    fresh_controller: Annotated[Ints, 2]  # (1, words) CONTROLLER at the start
    fresh_sensors: Annotated[Records, SENSOR]  # (s,) SENSOR
    environment: Annotated[Records, ENVIRONMENT]  # (1,) ENVIRONMENT
    turbulence: Annotated[Records, TURBULENCE]  # (1,) TURBULENCE
    series: Annotated[Floats, 2]  # (k, 4) recorded wind
    places: Annotated[Floats, 2]  # (n, 3) m NED of each vehicle's start
    randoms: Annotated[Words, 2]  # (n, 4) random stream of each vehicle
    episodes: Annotated[Records, EPISODE]  # (n,) EPISODE
    clocks: Ints  # (n,) us since the start of the episode
    events: Bytes  # (n,) uint8, of the last action
    # (n, a + 1) words of a STATE that last, and whether the ground's words last as well
    motions: Annotated[Ints, 2]
    grounds: Annotated[Ints, 2]  # (n, g) words of a STATE that last on the ground alone
    memories: Annotated[Ints, 2]  # (n, words) what lasts of a CONTROLLER
    wrenches: Annotated[Records, WRENCH]  # (n,) WRENCH
    wind_states: Annotated[Records, WIND_STATE]  # (n,) WIND_STATE
    sensor_states: Annotated[Records, SENSOR_STATE, 2]  # (n, s) SENSOR_STATE
    actions: Annotated[Floats, 2]  # (n, k) within their limits
    limits: Annotated[Floats, 2]  # (2, k) least and greatest action
    # (n, rotors) motor commands of the last step; the actions where these are motor commands
    controls: Annotated[Floats, 2]
    truth: Annotated[Floats, 2]  # (n, 13)
    seen: Annotated[Floats, 2]  # (n, k) figures of sensors
    slots: Annotated[Records, SLOT]  # (k,) SLOT
    draws: Annotated[Floats, 2]  # (n, k) uniform random numbers of the present episode
    neighbours: ProximityArrays  # how vehicles act on one another, in a fleet
