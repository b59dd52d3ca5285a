"""Formations and collision avoidance without a session: patterns, roles, controllers, quick simulations.

For research programs and for ``lab``: these names change only with a line in the changelog.
"""

from sitl_bridge.session.identified_models import Identified as Identified
from sitl_bridge.swarm.avoidance.agent import Agent as Agent
from sitl_bridge.swarm.avoidance.agent import OwnState as OwnState
from sitl_bridge.swarm.avoidance.closed_loop import Flight as Flight
from sitl_bridge.swarm.avoidance.closed_loop import fly as fly
from sitl_bridge.swarm.avoidance.closed_loop import row as row
from sitl_bridge.swarm.avoidance.controller_settings import AttitudeModel as AttitudeModel
from sitl_bridge.swarm.avoidance.controller_settings import ControllerSettings as ControllerSettings
from sitl_bridge.swarm.avoidance.controller_settings import Weights as Weights
from sitl_bridge.swarm.avoidance.full_dynamics import DynamicsPlant as DynamicsPlant
from sitl_bridge.swarm.avoidance.neighbours import Broadcast as Broadcast
from sitl_bridge.swarm.avoidance.neighbours import to_vector as to_vector
from sitl_bridge.swarm.avoidance.optimal_control_problem import collision as collision
from sitl_bridge.swarm.avoidance.references import Route as Route
from sitl_bridge.swarm.formation.patterns import pattern as pattern
from sitl_bridge.swarm.formation.roles import VelocityFollower as VelocityFollower
from sitl_bridge.swarm.quick_simulation import fly_quick as fly_quick
