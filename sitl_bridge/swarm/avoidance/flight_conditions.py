"""What flight stacks need to fly an avoidance scenario: clear ground and positions of known accuracy.

Checked before the vehicles start, and again by the program that steers them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from sitl_bridge.base.errors import ConfigurationError
from sitl_bridge.core.sensors.gps import GpsSpecification
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.swarm.avoidance.specification import AvoidanceSpecification
from sitl_bridge.swarm.interface import LANDING_SEPARATION

FRAME_DEVIATION = 0.03
"""m that an estimate is off beside its receiver's error: in motion, and in a frame of rounded messages."""

LEAST_HEIGHT = 1.0
"""m above the ground below which no reference may lead."""


def lasting_deviation(scenario: AvoidanceSpecification, airframe: Airframe) -> float:
    """m, of an axis of the error of a vehicle's place in the common frame that lasts beyond some reports.

    As the scenario says, else what the airframe's receiver errs by and FRAME_DEVIATION together.

    Raises:
        ConfigurationError: for an airframe without receiver.
    """
    if scenario.position_deviation is not None:
        return scenario.position_deviation
    receivers = [sensor for sensor in airframe.sensors if isinstance(sensor, GpsSpecification)]
    if not receivers:
        raise ConfigurationError(
            f"scenario {scenario.name}",
            [f"avoidance: {airframe.name} has no satellite receiver; give position_deviation"],
        )
    drift = receivers[0].position_deviation()
    noise = receivers[0].pack()["noise"][3:6]
    return math.hypot(float(np.hypot(drift, noise).max()), FRAME_DEVIATION)


def check_launch(scenario: AvoidanceSpecification, deviation: float, source: str) -> None:
    """Refuse a scenario that flight stacks cannot begin or end safely.

    Args:
        deviation: of ``lasting_deviation``.
        source: for the message.

    Raises:
        ConfigurationError: with every fault.
    """
    faults = list(_faults(scenario, deviation))
    if faults:
        raise ConfigurationError(source, faults)


def _faults(scenario: AvoidanceSpecification, deviation: float) -> Iterator[str]:
    plans, keep = scenario.plans(), scenario.controller.distances
    needed = keep.minimum + 2.0 * keep.spread * deviation
    why = f"{needed:.2f} m keep {keep.minimum} m where places are known to {deviation:.2f} m"
    for plan in plans:
        reference = plan.reference()
        down = reference.sample(np.arange(0.0, reference.duration + 0.05, 0.05))[:, 2].max()
        if down > -LEAST_HEIGHT:
            yield f"{plan.name}: leads {-down:.1f} m above the ground; {LEAST_HEIGHT} m must be kept"
    for first, second in itertools.combinations(plans, 2):
        beside = math.dist(first.start()[:2], second.start()[:2])
        if beside < LANDING_SEPARATION:
            yield (
                f"{first.name} and {second.name} would stand {beside:.2f} m apart below their first points; "
                f"{LANDING_SEPARATION} m must be kept on the ground"
            )
        for what, apart in (
            ("start", math.dist(first.start(), second.start())),
            ("end", math.dist(first.goal(), second.goal())),
        ):
            if apart < needed:
                yield f"{first.name} and {second.name} {what} {apart:.2f} m apart; {why}"
