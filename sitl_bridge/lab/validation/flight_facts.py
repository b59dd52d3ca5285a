"""Compares an airframe with the log of a real flight."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sitl_bridge.api.airframe_choice import Airframe as ApiAirframe
from sitl_bridge.api.models import Airframe
from sitl_bridge.base.json_data import JsonObject
from sitl_bridge.lab.flights.flight_source import read_identification_flight
from sitl_bridge.lab.validation.simulators.sitl_bridge import Simulator
from sitl_bridge.lab.validation.windows import Windows


def facts_of_flight(airframe: Airframe, flight: Path) -> JsonObject:
    """Facts of a log beside the airframe: commands, and the rotors' speeds that carry the weight.

    Raises:
        UserError: if the log cannot be read, or never flies.
    """
    log = read_identification_flight(flight, len(airframe.rotors))
    windows = Windows.of({flight.stem: log})
    factors = Simulator(ApiAirframe.of(airframe)).trim(windows)
    return {
        "beside": flight.name,
        "commands_in_the_air": windows.commands.mean(axis=(0, 1)).tolist(),
        "voltage_in_the_air_v": None if log.voltage is None else float(windows.voltage.mean()),
        "factors_of_rotor_speed_that_carry_the_weight": factors.tolist(),
        "factor_of_thrust": float(np.mean(factors**2)),
    }
