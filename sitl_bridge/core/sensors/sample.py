"""When each sensor samples and when its samples arrive; what they measure is in the sensors' own modules.

A sensor samples in the first step that ends at or after its due time, and its due times are exact
multiples of its period (a whole number of microseconds), so a rate that does not divide the step's is right
on average and never drifts.  A sample arrives in the first step that ends at or after its latency.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np

from sitl_bridge.base.arrays import Records, Words
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.kernels.compiled import compiled, on_demand
from sitl_bridge.base.kernels.record import Packed
from sitl_bridge.core.dynamics.records import State, Vehicle
from sitl_bridge.core.sensors.error_model import draw_errors, start_errors
from sitl_bridge.core.sensors.gps import GPS, start_gps
from sitl_bridge.core.sensors.imu import IMU, start_imu
from sitl_bridge.core.sensors.ranging import (
    OPTICAL_FLOW,
    forget_flow,
    integrate_flow,
)
from sitl_bridge.core.sensors.records import (
    DELAY_SLOTS,
    FAULT_NONE,
    FAULT_OFF,
    MAX_VALUES,
    NONE,
    SENSOR,
    SENSOR_STATE,
    Sensor,
    SensorState,
)
from sitl_bridge.core.sensors.registry import KIND_NAMES, measure
from sitl_bridge.core.world.records import Environment


@compiled
def begin_sensor(sensor: Sensor, memory: SensorState, start: int) -> None:
    """Put a sensor's state, whose random stream is set, to that before the first sample.

    Args:
        memory: SENSOR_STATE record, changed in place.
        start: us of simulated time; the first sample is due one period later.
    """
    memory.next_sample = start + sensor.phase + sensor.period
    memory.fault = memory.delay_head = memory.delay_count = memory.drawn = memory.fresh = memory.time = 0
    for k in range(MAX_VALUES):
        memory.values[k] = 0.0
    for k in range(memory.memory.shape[0]):
        memory.memory[k] = 0.0
    start_errors(sensor, memory)
    if sensor.kind == IMU:
        start_imu(sensor, memory)
    if sensor.kind == GPS:
        start_gps(sensor, memory)


def start_sensor(sensor: Packed, random: Words, start: int) -> Packed:
    """State of a sensor before its first sample.

    Args:
        sensor: () SENSOR.
        random: (4,) state of its own random stream.
        start: us of simulated time; the first sample is due one period later.

    Returns:
        () SENSOR_STATE.
    """
    state: Packed = np.zeros(1, SENSOR_STATE)[0]
    state["random"] = random
    begin_sensor(sensor, state, start)
    return state


def validate_rates(sensors: Records, step: int) -> None:
    """Refuse sensors that would have to sample more than once a step; their noise is sized for their rate.

    Args:
        sensors: (s,) SENSOR.
        step: us.

    Raises:
        UserError: naming the sensors, their rates and the highest one that fits.
    """
    fast = [sensor for sensor in sensors if sensor["kind"] != NONE and sensor["period"] < step]
    if fast:
        names = ", ".join(
            f"{KIND_NAMES[int(s['kind'])]} {int(s['instance'])} at {1e6 / s['period']:g} Hz" for s in fast
        )
        raise UserError(
            f"sensors sample at most once in a step of {step} us: {names}; give a rate of"
            f" {1e6 / step:g} Hz at most"
        )


@compiled
def draw_ahead(sensors: Records, memories: Records) -> None:
    """Draw the errors of every sensor's next sample, when there is time to; changes no sample.

    Args:
        sensors: (MAX_SENSORS,) SENSOR, those of kind NONE last.
        memories: (MAX_SENSORS,) SENSOR_STATE.
    """
    for s in range(sensors.shape[0]):
        if sensors[s].kind == NONE:
            break
        draw_errors(sensors[s], memories[s])


@on_demand
def sample_sensors(
    vehicle: Vehicle,
    state: State,
    environment: Environment,
    sensors: Annotated[Records, SENSOR],
    memories: Annotated[Records, SENSOR_STATE],
    time: int,
    step: int,
) -> None:
    """Sample what is due at ``time`` and deliver what has arrived by then.

    Every loop that samples calls the same machine code, which is compiled once.

    Args:
        state: STATE record at ``time``.
        sensors: (MAX_SENSORS,) SENSOR, those of kind NONE last.
        memories: (MAX_SENSORS,) SENSOR_STATE; ``fresh``, ``time`` and ``values`` are the output.
        time: us.
        step: us since the last call.
    """
    for s in range(sensors.shape[0]):
        sensor = sensors[s]
        if sensor.kind == NONE:
            break
        memory = memories[s]
        memory.fresh = 0
        if sensor.kind == OPTICAL_FLOW:
            if memory.fault == FAULT_NONE:
                integrate_flow(environment, state, sensor, memory, step * 1e-6)
            else:
                forget_flow(memory)
        if memory.fault == FAULT_OFF:
            memory.delay_count = 0
        if time >= memory.next_sample:
            memory.next_sample += sensor.period
            if sensor.latency == 0:
                _sample_now(vehicle, state, environment, sensor, memory, time)
            else:
                _sample_late(vehicle, state, environment, sensor, memory, time)
        if memory.delay_count > 0:
            _deliver(memory, time)


@compiled
def _sample_now(
    vehicle: Vehicle, state: State, environment: Environment, sensor: Sensor, memory: SensorState, time: int
) -> None:
    """Sample straight into the output; a stuck sensor repeats its last values."""
    if memory.fault == FAULT_NONE or memory.time == 0:
        good = measure(vehicle, state, environment, sensor, memory, memory.sample)
        if good and memory.fault != FAULT_OFF:
            for i in range(MAX_VALUES):
                memory.values[i] = memory.sample[i]
            memory.fresh = 1
            memory.time = time
    elif memory.fault != FAULT_OFF:
        memory.fresh = 1
        memory.time = time


@compiled
def _sample_late(
    vehicle: Vehicle, state: State, environment: Environment, sensor: Sensor, memory: SensorState, time: int
) -> None:
    """Sample into the queue of samples under way."""
    slot = (memory.delay_head + memory.delay_count) % DELAY_SLOTS
    if memory.fault == FAULT_OFF or memory.delay_count == DELAY_SLOTS:
        return
    if memory.fault == FAULT_NONE or (memory.time == 0 and memory.delay_count == 0):
        if not measure(vehicle, state, environment, sensor, memory, memory.sample):
            return
        for i in range(MAX_VALUES):
            memory.delay_values[slot, i] = memory.sample[i]
    elif memory.delay_count > 0:
        # The last sample is still under way, not the one that arrived last.
        last = (slot + DELAY_SLOTS - 1) % DELAY_SLOTS
        for i in range(MAX_VALUES):
            memory.delay_values[slot, i] = memory.delay_values[last, i]
    else:
        for i in range(MAX_VALUES):
            memory.delay_values[slot, i] = memory.values[i]
    memory.delay_time[slot] = time
    memory.delay_due[slot] = time + sensor.latency
    memory.delay_count += 1


@compiled
def _deliver(memory: SensorState, time: int) -> None:
    """Put out the oldest sample under way once its latency has passed."""
    slot = memory.delay_head
    if time < memory.delay_due[slot]:
        return
    for i in range(MAX_VALUES):
        memory.values[i] = memory.delay_values[slot, i]
    memory.time = memory.delay_time[slot]
    memory.fresh = 1
    memory.delay_head = (slot + 1) % DELAY_SLOTS
    memory.delay_count -= 1
