"""Scenario files and the sessions that fly them.

For research programs and for ``lab``: these names change only with a line in the changelog.
"""

from sitl_bridge.plan.plan import Plan
from sitl_bridge.session.instances import claim_instance
from sitl_bridge.session.plan_flight import fly_plans
from sitl_bridge.session.scenario import (
    LoadedScenario,
    ProximitySpecification,
    assemble,
    load_scenario,
    scenario_world,
)
from sitl_bridge.session.scenario_settings import limits_of, settings_of
from sitl_bridge.session.session import Session
from sitl_bridge.session.settings import FlightOptions, FlightSettings

__all__ = [
    "FlightOptions",
    "FlightSettings",
    "LoadedScenario",
    "Plan",
    "ProximitySpecification",
    "Session",
    "assemble",
    "claim_instance",
    "fly_plans",
    "limits_of",
    "load_scenario",
    "scenario_world",
    "settings_of",
]
