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
from sitl_bridge.base.errors import ConfigurationError, shorten
from sitl_bridge.base.input_file import read_rows
from sitl_bridge.lab.importing.estimates import EFFICIENCY, IDLE
from sitl_bridge.lab.importing.figures import Figures

RPM = 2.0 * math.pi / 60.0
GRAM = STANDARD_GRAVITY / 1000.0
COLUMNS: dict[str, tuple[str, dict[str, float]]] = {
    # quantity: its words, and by unit the factor to SI (throttle: to 0..1); the first unit is the default
    "throttle": ("throttle|command", {"": 0.0, "%": 0.01, "percent": 0.01}),
    "speed": ("rpm|speed|rotation", {"rpm": RPM, "1/min": RPM, "rad/s": 1.0}),
    "thrust": ("thrust|lift|pull", {"g": GRAM, "gf": GRAM, "kg": 1e3 * GRAM, "kgf": 1e3 * GRAM, "n": 1.0}),
    "torque": ("torque", {"nm": 1.0, "mnm": 1e-3, "ncm": 1e-2}),
    "power": ("power", {"w": 1.0}),
    "voltage": ("voltage|volt", {"v": 1.0}),
    "current": ("current|amp", {"a": 1.0, "ma": 1e-3}),
}
LEAST_ROWS = 3


def read_table(path: Path) -> dict[str, Floats]:
    """Columns (n,) of a table in SI units by quantity, rows without thrust left out; throttle from 0 to 1.

    Raises:
        ConfigurationError: for a file without thrust, with text in place of numbers, or with too few rows.
    """

    def fault(text: str) -> ConfigurationError:
        return ConfigurationError(str(path), [text])

    rows = read_rows(path)
    if not rows:
        raise fault("is empty")
    found: dict[str, tuple[int, float]] = {}
    for i, heading in enumerate(rows[0][0]):
        words = re.sub(r"[·*-]", "", heading.strip().lower())
        unit = "rpm" if words.startswith("rpm") else re.sub(r"^[a-z]+|[\s_()\[\]]", "", words)
        for quantity, (names, units) in COLUMNS.items():
            if re.match(names, words) and quantity not in found:
                found[quantity] = i, units.get(unit, next(iter(units.values())))
    if "thrust" not in found:
        headings = ", ".join(shorten(word.strip(), 20) for word in rows[0][0][:8])
        raise fault(f"has no column of the thrust among {headings}: name it thrust_g, thrust_N or thrust_kgf")
    numbers = []
    for cells, line in rows[1:]:
        try:
            values = [float(cells[i].strip().rstrip("%")) * (factor or 1.0) for i, factor in found.values()]
        except (ValueError, IndexError) as error:
            raise fault(f"line {line}: a number is missing or is none") from error
        if not all(math.isfinite(value) for value in values):
            raise fault(f"line {line}: a number is not finite")
        numbers.append(values)
    table = dict(zip(found, np.array(numbers).reshape(-1, len(found)).T, strict=True))
    table = {quantity: column[table["thrust"] > 0.0] for quantity, column in table.items()}
    if len(table["thrust"]) < LEAST_ROWS:
        raise fault(f"has fewer than {LEAST_ROWS} rows with a thrust")
    if "throttle" in table and table["throttle"].max() > 1.5 and found["throttle"][1] == 0.0:
        table["throttle"] = table["throttle"] / 100.0
    return table


def slope(y: Floats, x: Floats) -> float:
    """The k of y = k x by least squares."""
    return float(y @ x / (x @ x))


def read_thrust(path: Path, figures: Figures) -> None:
    """Give propeller and motor figures of a thrust table.

    Without speeds in the table, those that an earlier source's thrust_c2 gives for the thrusts are taken.

    Raises:
        ConfigurationError: for a table that cannot be read, or has no speeds and none follow.
    """
    table, where = read_table(path), path.name
    thrust, speed, torque, power = (table.get(name) for name in ("thrust", "speed", "torque", "power"))
    assert thrust is not None  # read_table refuses a table without
    known = figures.get("rotor_model.torque_thrust_ratio")

    def give(field: str, value: float, how: str, worst: Floats | None = None) -> None:
        off = "" if worst is None else f", at most {float(np.abs(worst).max()):.1%} off"
        derived = "derived: " * how.startswith("derived: ")
        figures.give(field, value, f"{derived}{where}: {how.removeprefix('derived: ')}{off}", 4)

    if speed is None:
        c2 = figures.get("rotor_model.thrust_c2")
        if c2 is None:
            fault = "has no column of the speed (rpm): give --propeller 10x4.5, whose thrust gives the speeds"
            raise ConfigurationError(str(path), [fault])
        speed = np.sqrt(thrust / c2)
        where += ", speeds from the propeller's thrust"
    else:
        c2 = slope(thrust, speed**2)
        how = f"T = c w^2 by least squares over {len(thrust)} rows"
        give("rotor_model.thrust_c2", c2, how, c2 * speed**2 / thrust - 1.0)
    if power is None and {"voltage", "current"} <= set(table):
        power = table["voltage"] * table["current"]
    if torque is not None:
        ratio = slope(torque, thrust)
        how = "Q = k T by least squares, of the greatest torque"
        give("rotor_model.torque_thrust_ratio", ratio, how, (ratio * thrust - torque) / np.abs(torque).max())
        if power is not None:
            give("motor.efficiency", slope(torque * speed, power), "shaft power over electrical power")
    elif power is not None and known is not None:
        share = known * slope(thrust * speed, power)
        give("motor.efficiency", share, "power of the known torque over electrical power")
    elif power is not None:
        how = f"derived: electrical power times {EFFICIENCY}, an ordinary efficiency, over T w"
        give("rotor_model.torque_thrust_ratio", EFFICIENCY * slope(power, thrust * speed), how)
    if "voltage" in table:
        nominal = figures.get("battery.nominal_voltage") or round(float(table["voltage"].mean()), 2)
        give("battery.nominal_voltage", nominal, "mean voltage of the stand")
        speed = speed * nominal / table["voltage"]
    if "throttle" in table:
        rise, start = (float(x) for x in np.polyfit(table["throttle"], speed, 1))
        how, off = "w = w_0 + r c by least squares", start + rise * table["throttle"] - speed
        idle = max(start, 0.0)
        give("motor.idle_speed", idle, how, off / speed.max())
        give("motor.speed_range", start + rise - idle, how, off / speed.max())
    else:
        top = float(speed.max())
        give("motor.idle_speed", IDLE * top, "derived: a tenth of the top speed")
        give("motor.speed_range", (1.0 - IDLE) * top, "its highest speed at full command")
