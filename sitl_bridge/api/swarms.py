"""Formations and collision avoidance without a session: patterns, roles, controllers, quick simulations.

For research programs and for ``lab``: these names change only with a line in the changelog.
"""

from sitl_bridge.session.identified_models import Identified
from sitl_bridge.swarm.avoidance.agent import Agent, OwnState
from sitl_bridge.swarm.avoidance.closed_loop import Flight, fly, row
from sitl_bridge.swarm.avoidance.controller_settings import AttitudeModel, ControllerSettings, Weights
from sitl_bridge.swarm.avoidance.full_dynamics import DynamicsPlant
from sitl_bridge.swarm.avoidance.neighbours import Broadcast, to_vector
from sitl_bridge.swarm.avoidance.optimal_control_problem import collision
from sitl_bridge.swarm.avoidance.references import Route
from sitl_bridge.swarm.formation.patterns import pattern
from sitl_bridge.swarm.formation.roles import VelocityFollower
from sitl_bridge.swarm.quick_simulation import fly_quick

__all__ = [
    "Agent",
    "AttitudeModel",
    "Broadcast",
    "ControllerSettings",
    "DynamicsPlant",
    "Flight",
    "Identified",
    "OwnState",
    "Route",
    "VelocityFollower",
    "Weights",
    "collision",
    "fly",
    "fly_quick",
    "pattern",
    "row",
    "to_vector",
]
