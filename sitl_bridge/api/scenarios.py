"""Scenario files and the sessions that fly them.

For research programs and for ``lab``: these names change only with a line in the changelog.
"""

from sitl_bridge.plan.plan import Plan as Plan
from sitl_bridge.session.instances import claim_instance as claim_instance
from sitl_bridge.session.plan_flight import fly_plans as fly_plans
from sitl_bridge.session.scenario import LoadedScenario as LoadedScenario
from sitl_bridge.session.scenario import assemble as assemble
from sitl_bridge.session.scenario import load_scenario as load_scenario
from sitl_bridge.session.scenario import scenario_world as scenario_world
from sitl_bridge.session.scenario_settings import limits_of as limits_of
from sitl_bridge.session.scenario_settings import settings_of as settings_of
from sitl_bridge.session.session import Session as Session
from sitl_bridge.session.settings import FlightOptions as FlightOptions
from sitl_bridge.session.settings import FlightSettings as FlightSettings
