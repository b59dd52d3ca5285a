"""Finds simulators by the names that ``validate --simulator`` takes."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from sitl_bridge.base.errors import UserError
from sitl_bridge.base.user_file import load_class
from sitl_bridge.lab.validation.disturbances import Observed
from sitl_bridge.lab.validation.simulators import sitl_bridge
from sitl_bridge.lab.validation.windows import Predictor

SHIPPED = ("constant", "textbook", "rotorpy", "crazyflow")
CRAZYFLIES = ("crazyflie_published", "crazyflie_identified")
"""Shipped airframes of the vehicle that most data sets fly."""
PEERS = ("rotorpy", "crazyflow")
"""Packages that are no dependencies."""


def default_predictors() -> list[str]:
    """Name all shipped ones of a Crazyflie that are installed, without and with observed disturbances."""
    names = ["constant", "textbook", *CRAZYFLIES, *(peer for peer in PEERS if find_spec(peer))]
    return [name + more for name in names for more in ("", ":observed")]


def find_predictor(text: str) -> Predictor:
    """Find a simulator by its name or file, with ``:observed`` after it for observed disturbances.

    Raises:
        UserError: for one that is not there.
    """
    name, _, observed = text.partition(":")
    if observed not in ("", "observed"):
        raise UserError(f"--simulator {text}: after its name, only :observed may stand")
    return Observed(_simulator(name)) if observed else _simulator(name)


def _simulator(name: str) -> Predictor:
    if name in PEERS and find_spec(name) is None:
        raise UserError(f"--simulator {name}: is not installed; pip install {name}")
    if name in SHIPPED:
        made: Predictor = import_module(f"sitl_bridge.lab.validation.simulators.{name}").Simulator()
        return made
    if not name.endswith(".py"):
        return sitl_bridge.Simulator(name)
    return load_class(Path(name), "Simulator", Predictor, "simulator")()
