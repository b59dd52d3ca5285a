"""A thrust table of a maker or a stand: propeller and motor by one least-squares fit.

Columns are known by their headings, units in them: ``rpm``, ``thrust_g``, ``Torque (N·m)``, ``current [A]``.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np

from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.constants import STANDARD_GRAVITY
from sitl_bridge.base.errors import ConfigurationError, shortened
from sitl_bridge.base.input_file import read_rows
from sitl_bridge.lab.importing.estimates import EFFICIENCY
from sitl_bridge.lab.importing.figures import Figures

RPM = 2.0 * math.pi / 60.0
COLUMNS: dict[str, tuple[str, dict[str, float]]] = {
    # quantity: its words, and by unit the factor to SI (throttle: to 0..1); the first unit is the default
    "throttle": ("throttle|command", {"%": 0.01, "percent": 0.01, "": 0.0}),
    "speed": ("rpm|speed|rotation", {"rpm": RPM, "1/min": RPM, "rad/s": 1.0, "": RPM}),
    "thrust": ("thrust|lift|pull", {"g": STANDARD_GRAVITY / 1000.0, "gf": STANDARD_GRAVITY / 1000.0,
                                    "kg": STANDARD_GRAVITY, "kgf": STANDARD_GRAVITY, "n": 1.0}),
    "torque": ("torque", {"nm": 1.0, "mnm": 1e-3, "ncm": 1e-2}),
    "power": ("power", {"w": 1.0}),
    "voltage": ("voltage|volt", {"v": 1.0}),
    "current": ("current|amp", {"a": 1.0, "ma": 1e-3}),
}  # fmt: skip
LEAST_ROWS = 3


def read_table(path: Path) -> dict[str, Floats]:
    """Columns (n,) of a table in SI units by quantity, rows without thrust left out; throttle from 0 to 1.

    Raises:
        ConfigurationError: for a file without thrust, with text in place of numbers, or with too few rows.
    """
    rows = read_rows(path)
    if not rows:
        raise ConfigurationError(str(path), ["is empty"])
    found: dict[str, tuple[int, float]] = {}
    for i, heading in enumerate(rows[0][0]):
        quantity, factor = _column(heading)
        if quantity and quantity not in found:
            found[quantity] = i, factor
    if "thrust" not in found:
        headings = ", ".join(shortened(word.strip(), 20) for word in rows[0][0][:8])
        fault = f"has no column of the thrust among {headings}: name it thrust_g, thrust_N or thrust_kgf"
        raise ConfigurationError(str(path), [fault])
    made: dict[str, list[float]] = {quantity: [] for quantity in found}
    for cells, line in rows[1:]:
        try:
            values = {q: float(cells[i].strip().rstrip("%")) * (f or 1.0) for q, (i, f) in found.items()}
        except (ValueError, IndexError) as error:
            raise ConfigurationError(str(path), [f"line {line}: a number is missing or is none"]) from error
        if not all(math.isfinite(value) for value in values.values()):
            raise ConfigurationError(str(path), [f"line {line}: a number is not finite"])
        if values["thrust"] > 0.0:
            for quantity, value in values.items():
                made[quantity].append(value)
    table = {quantity: np.array(values) for quantity, values in made.items()}
    if len(table["thrust"]) < LEAST_ROWS:
        raise ConfigurationError(str(path), [f"has fewer than {LEAST_ROWS} rows with a thrust"])
    if "throttle" in table and table["throttle"].max() > 1.5 and found["throttle"][1] == 0.0:
        table["throttle"] = table["throttle"] / 100.0
    return table


def _column(heading: str) -> tuple[str | None, float]:
    """The quantity of a heading and the factor of its unit; 0 for a throttle without a unit."""
    words = heading.strip().lower().replace("·", "").replace("*", "").replace("-", "")
    unit = re.sub(r"[\s_()\[\]]", "", re.sub(r"^[a-z]+", "", words)) if not words.startswith("rpm") else "rpm"
    for quantity, (names, units) in COLUMNS.items():
        if re.match(names, words):
            return quantity, units.get(unit, next(iter(units.values())))
    return None, 1.0


def read_thrust(path: Path, figures: Figures) -> None:
    """Give propeller and motor figures of a thrust table.

    Without speeds in the table, those that an earlier source's thrust_c2 gives for the thrusts are taken.

    Raises:
        ConfigurationError: for a table that cannot be read, or has no speeds and none follow.
    """
    table, where = read_table(path), path.name
    thrust = table["thrust"]
    speed = table.get("speed")
    if speed is None:
        c2 = figures.get("rotor_model.thrust_c2")
        if c2 is None:
            fault = "has no column of the speed (rpm): give --propeller 10x4.5, whose thrust gives the speeds"
            raise ConfigurationError(str(path), [fault])
        speed = np.sqrt(thrust / float(c2))
        where += ", speeds from the propeller's thrust"
    else:
        c2 = float(thrust @ speed**2 / (speed**2 @ speed**2))
        worst = float(np.abs(c2 * speed**2 / thrust - 1.0).max())
        how = f"{where}: T = c w^2 by least squares over {len(thrust)} rows, at most {worst:.1%} off"
        figures.give("rotor_model.thrust_c2", float(f"{c2:.4g}"), how)
    power = table.get("power")
    if power is None and {"voltage", "current"} <= set(table):
        power = table["voltage"] * table["current"]
    _give_torque(table, speed, power, where, figures)
    _give_motor(table, speed, where, figures)


def _give_torque(
    table: dict[str, Floats], speed: Floats, power: Floats | None, where: str, figures: Figures
) -> None:
    thrust, torque = table["thrust"], table.get("torque")
    if torque is not None:
        ratio = float(torque @ thrust / (thrust @ thrust))
        worst = float(np.abs(ratio * thrust / torque - 1.0).max())
        how = f"{where}: Q = k T by least squares, at most {worst:.1%} off"
        figures.give("rotor_model.torque_thrust_ratio", float(f"{ratio:.4g}"), how)
        if power is not None:
            share = float((torque * speed) @ power / (power @ power))
            how = f"{where}: shaft power over electrical power"
            figures.give("motor.efficiency", float(f"{share:.3g}"), how)
    elif power is not None:
        moved = thrust * speed
        known = figures.get("rotor_model.torque_thrust_ratio")
        if known is not None:
            share = float(known) * float(moved @ power / (power @ power))
            how = f"{where}: power of the known torque over electrical power"
            figures.give("motor.efficiency", float(f"{share:.3g}"), how)
            return
        ratio = EFFICIENCY * float(power @ moved / (moved @ moved))
        how = f"derived: {where}: electrical power times {EFFICIENCY}, an ordinary efficiency, over T w"
        figures.give("rotor_model.torque_thrust_ratio", float(f"{ratio:.4g}"), how)


def _give_motor(table: dict[str, Floats], speed: Floats, where: str, figures: Figures) -> None:
    nominal = figures.get("battery.nominal_voltage")
    if "voltage" in table:
        nominal = nominal or round(float(table["voltage"].mean()), 2)
        figures.give("battery.nominal_voltage", nominal, f"{where}: mean voltage of the stand")
        speed = speed * float(nominal) / table["voltage"]
    if "throttle" in table:
        slope, start = np.polyfit(table["throttle"], speed, 1)
        off = float(np.abs(start + slope * table["throttle"] - speed).max() / speed.max())
        how = f"{where}: w = w_0 + r c by least squares, at most {off:.1%} of the top speed off"
        idle = max(float(start), 0.0)
        figures.give("motor.idle_speed", float(f"{idle:.4g}"), how)
        figures.give("motor.speed_range", float(f"{float(start + slope) - idle:.4g}"), how)
    else:
        top = float(speed.max())
        figures.give("motor.idle_speed", float(f"{0.1 * top:.4g}"), "derived: a tenth of the top speed")
        figures.give(
            "motor.speed_range", float(f"{0.9 * top:.4g}"), f"{where}: its highest speed at full command"
        )
