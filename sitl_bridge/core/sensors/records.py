"""Records of a vehicle's sensors: settings, state and output samples.

Arrays (n, MAX_SENSORS) of these records are passed to the compiled step.  A slot of kind ``NONE`` is empty.
"""

from __future__ import annotations

from typing import Annotated

from sitl_bridge.base.arrays import Floats, Ints, Words
from sitl_bridge.base.kernels.record import Record

MAX_SENSORS = 16
MAX_AXES = 8
MAX_VALUES = 16
DELAY_SLOTS = 16

NONE = 0
"""Code of an empty slot."""

FAULT_NONE = 0
FAULT_OFF = 1  # no samples
FAULT_STUCK = 2  # repeats the last sample


class Sensor(Record):
    """Settings of a sensor."""

    kind: int  # code of its specification
    instance: int  # sensor id on the simulator link
    period: int  # us between samples
    phase: int  # us from the start to the first sample
    latency: int  # us from sample to delivery
    position: Annotated[Floats, 3]  # m, body, from the centre of gravity
    rotation: Annotated[Floats, 3, 3]  # body to sensor axes, row-wise
    axis_count: int  # error axes in use
    noise: Annotated[Floats, MAX_AXES]  # standard deviation of one sample's white noise, unit of the axis
    bias_start: Annotated[Floats, MAX_AXES]  # standard deviation of the initial bias; 0 for a random walk
    bias_decay: Annotated[Floats, MAX_AXES]  # remaining share of the bias after one period, exp(-period/tau)
    bias_step: Annotated[Floats, MAX_AXES]  # standard deviation of the bias change per period
    turn_on_sigma: Annotated[Floats, MAX_AXES]  # standard deviation of the constant turn-on bias
    scale: Annotated[Floats, MAX_AXES]  # scale factor error, 0 = none
    resolution: Annotated[Floats, MAX_AXES]  # quantisation step of the reading, unit of the axis, 0 = none
    limit: Annotated[Floats, MAX_AXES]  # largest magnitude of the reading, inf = none
    parameter: Annotated[Floats, 16]  # specific to the kind, see its module


SENSOR = Sensor.dtype


class SensorState(Record):
    """State and output of a sensor."""

    # Fields used in every step are kept together.
    next_sample: int  # us
    fault: int  # one of FAULT_*, set between steps
    delay_head: int
    delay_count: int
    drawn: int  # 1: ``error`` has been drawn for the next sample
    # --- output
    fresh: int  # 1 in the step in which a sample is delivered
    time: int  # us, time of the delivered sample
    values: Annotated[Floats, MAX_VALUES]
    # ---
    sample: Annotated[Floats, MAX_VALUES]  # scratch
    error: Annotated[Floats, MAX_AXES]  # error of one sample: turn-on bias, drifting bias and white noise
    turn_on: Annotated[Floats, MAX_AXES]
    memory: Annotated[Floats, 22]  # specific to the kind
    bias: Annotated[Floats, MAX_AXES]
    random: Annotated[Words, 4]  # state of the sensor's random stream
    delay_due: Annotated[Ints, DELAY_SLOTS]
    delay_time: Annotated[Ints, DELAY_SLOTS]
    delay_values: Annotated[Floats, DELAY_SLOTS, MAX_VALUES]


SENSOR_STATE = SensorState.dtype
