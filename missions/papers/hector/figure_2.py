"""Figure 2a: the thrust coefficient over the performance factor, eq. 8."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from comparison import Row, new_figure, save

import sitl_bridge as sb
from sitl_bridge.api.models import thrust_and_torque

HOVER = 485.3
"""rad/s."""
DENSITY = 1.225
"""kg/m^3."""


def thrust(airframe: sb.Airframe, inflow: float) -> float:
    """N of a rotor at the hover's speed with an inflow in m/s, positive in a climb."""
    return float(thrust_and_torque(airframe.record, 0, HOVER, inflow, DENSITY)[0])


def reproduce(picture: Path, _quick: bool) -> list[Row]:
    """Draw C_T(J) of the airframe, and with the quadratic coefficient of the released file's comment."""
    shipped = sb.Airframe.load("hector")
    # thrust_b2 v |v| is "+- C_T2 v^2", positive in a fall, with the opposite sign.
    quadratic = shipped.changed(rotor_model={"thrust_b2": 1.3077e-2})
    figure = new_figure()
    axes = figure.subplots()
    inflows = np.linspace(-5.0, 12.0, 120)
    for name, airframe in (("released: C_T2 = 0", shipped), ("C_T2 = -1.3077e-2", quadratic)):
        coefficients = [thrust(airframe, v) / HOVER**2 for v in inflows]
        axes.plot(inflows / HOVER, np.array(coefficients) * 1e5, label=name)
    axes.set(xlabel="performance factor J = v₁/ω [m]", ylabel="C_T [10⁻⁵ N s²]")
    axes.legend()
    axes.grid(alpha=0.3)
    save(figure, picture)
    return [
        Row("thrust at 485.3 rad/s and 2 m/s of descent", "N", "3.867", thrust(shipped, -2.0), near=1e-3),
        Row("thrust at 485.3 rad/s and 2 m/s of climb", "N", "3.378", thrust(shipped, 2.0), near=1e-3),
        Row(
            "... with the quadratic coefficient, 3 m/s of descent",
            "N",
            "3.872",
            thrust(quadratic, -3.0),
            near=1e-3,
        ),
        Row(
            "... with the quadratic coefficient, 3 m/s of climb",
            "N",
            "3.373",
            thrust(quadratic, 3.0),
            near=1e-3,
        ),
    ]
