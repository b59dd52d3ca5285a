"""The last samples of vehicles' sensors as named arrays."""

from __future__ import annotations

import numpy as np

from sitl_bridge.base.arrays import AnyArray, Floats
from sitl_bridge.base.errors import UserError, did_you_mean
from sitl_bridge.base.json_data import JsonObject
from sitl_bridge.core.sensors.custom import CustomSensorHost
from sitl_bridge.core.sensors.registry import KINDS
from sitl_bridge.core.sensors.sensor_host import SensorHost
from sitl_bridge.core.simulation.simulation import Simulation
from sitl_bridge.perception.sensor_runner import SensorRunner


def built_in_samples(simulation: Simulation, kind: str, instance: int) -> dict[str, Floats]:
    """Last samples of a kind of sensor, (n,) or (n, k) a figure; nan for vehicles that do not carry it.

    Raises:
        UserError: if no vehicle carries that kind.
    """
    fitted = (simulation.sensors["kind"] == KINDS[kind].code) & (simulation.sensors["instance"] == instance)
    values = np.full((len(simulation), simulation.sensor_states["values"].shape[2]), np.nan)
    carriers = fitted.any(axis=1)
    if not carriers.any():
        raise UserError(f"no vehicle carries {kind} {instance}")
    values[carriers] = simulation.sensor_states["values"][carriers, fitted[carriers].argmax(axis=1)]
    return {name: values[:, place] for name, place in KINDS[kind].values.items()}


def custom_samples(hosts: tuple[SensorHost, ...], name: str, count: int) -> JsonObject:
    """Last samples of a custom sensor, (n,) a figure; nan before the first and for vehicles without it."""
    found: dict[str, Floats] = {}
    for host in hosts:
        if host.name != name or not isinstance(host, CustomSensorHost) or host.latest is None:
            continue
        for figure, value in host.latest.items():
            found.setdefault(figure, np.full(count, np.nan))[host.vehicle] = value
    return found


def seen_samples(hosts: tuple[SensorHost, ...], name: str, count: int, zero: int) -> JsonObject:
    """Last samples of a perception sensor: (n, ...) an array, and ``time`` (n,) in s since ``zero`` in us.

    Vehicles without it, and all before the first sample, have nan, or 0 in arrays of integers.
    """
    found: dict[str, AnyArray] = {}
    for host in hosts:
        if host.name != name or not isinstance(host, SensorRunner) or host.latest is None:
            continue
        time = (host.latest.time - zero) * 1e-6
        found.setdefault("time", np.full(count, np.nan))[host.vehicle] = time
        for title, array in host.latest.arrays.items():
            empty = np.nan if array.dtype.kind == "f" else 0
            rows = found.setdefault(title, np.full((count, *array.shape), empty, array.dtype))
            rows[host.vehicle] = array
    return found


def samples(
    simulation: Simulation, hosts: tuple[SensorHost, ...], sensor: str, instance: int, zero: int
) -> dict[str, Floats]:
    """Last samples of a sensor by its kind (``"imu"``) or, if it is custom, by its class's name.

    Times count from ``zero``, us of simulated time.

    Raises:
        UserError: if no vehicle carries the sensor.
    """
    if sensor in KINDS:
        return built_in_samples(simulation, sensor, instance)
    name = f"{sensor}_{instance}"
    known = {host.name for host in hosts}
    if name not in known:
        near = did_you_mean(sensor, [*KINDS, *(entry.rpartition("_")[0] for entry in known)])
        raise UserError(f"no vehicle carries a sensor {sensor!r} {instance}{near}")
    if any(isinstance(host, SensorRunner) for host in hosts if host.name == name):
        return seen_samples(hosts, name, len(simulation), zero)
    return custom_samples(hosts, name, len(simulation))
