"""A picture of an airframe as SVG: rotors, centre of gravity, feet, sensors, from above and from the side."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.output_file import write_whole
from sitl_bridge.core.sensors.custom import CustomSpecification
from sitl_bridge.core.sensors.error_model import body_to_sensor
from sitl_bridge.core.vehicle.airframe import Airframe

PIXELS = 620
"""Width and height of each view."""
CCW, CW, SENSOR, FOOT, AXES = "#0072b2", "#d55e00", "#009e73", "#555555", ("#d62728", "#2ca02c", "#1f77b4")
"""Blue turns counter-clockwise seen from above, orange clockwise; axes are x, y, z."""
LINE = 14
"""Pixels of a line of text: labels nearer than that are one."""
Place = Callable[[Floats], tuple[float, float]]


def draw_airframe(airframe: Airframe, path: Path) -> Path:
    """Write the picture of an airframe.

    Raises:
        UserError: if it cannot be written.
    """
    hubs = np.array([rotor.position for rotor in airframe.rotors])
    radii = np.array([rotor.combine_with(airframe.rotor_model).radius for rotor in airframe.rotors])
    feet = np.array(airframe.contact.points)
    reach = 1.15 * float(max(np.abs(hubs).max() + radii.max(), np.abs(feet).max()))
    scale = 0.5 * PIXELS / reach
    views: tuple[tuple[str, Place], ...] = (
        ("from above, front up", lambda p: (PIXELS * 0.5 + scale * p[1], PIXELS * 0.5 - scale * p[0])),
        ("from the left, front left", lambda p: (PIXELS * 0.5 - scale * p[0], PIXELS * 0.5 + scale * p[2])),
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * PIXELS} {PIXELS + 70}"'
        ' font-family="sans-serif" font-size="13"><rect width="100%" height="100%" fill="white"/>',
        _text(
            10,
            20,
            f"{airframe.name}: {airframe.mass:g} kg; blue turns counter-clockwise, orange clockwise;"
            " axes x red, y green, z blue; dots are feet and tips",
        ),
    ]
    for i, (title, place) in enumerate(views):
        parts.append(f'<g transform="translate({i * PIXELS},40)">')
        parts.append(_text(10, 12, title))
        parts += _view(airframe, radii, scale, reach, place, above=i == 0)
        parts.append("</g>")
    bar = 10.0 ** math.floor(math.log10(reach))
    parts.append(_line((10, PIXELS + 55), (10 + scale * bar, PIXELS + 55), "black", 2))
    parts.append(_text(14 + scale * bar, PIXELS + 60, f"{bar:g} m"))
    return write_whole(path, "\n".join([*parts, "</svg>\n"]))


def _view(
    airframe: Airframe, radii: Floats, scale: float, reach: float, place: Place, *, above: bool
) -> Iterator[str]:
    centre = np.zeros(3)
    labels: dict[tuple[int, int], list[tuple[str, str]]] = {}  # (text, colour) by place, in lines of text

    def label(x: float, y: float, text: str, colour: str) -> None:
        labels.setdefault((round(x / LINE) * LINE, round(y / LINE) * LINE), []).append((text, colour))

    for foot in airframe.contact.points:
        x, y = place(np.array(foot))
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{FOOT}"/>'
    for k, (rotor, radius) in enumerate(zip(airframe.rotors, radii, strict=True), 1):
        hub, axis = np.array(rotor.position), np.array(rotor.axis) / np.linalg.norm(rotor.axis)
        colour = CCW if rotor.direction == "ccw" else CW
        x, y = place(hub)
        yield _line(place(centre), (x, y), "#cccccc", 4)
        if above:
            disc = f'r="{scale * radius:.1f}" fill="none" stroke="{colour}"'
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" {disc}/>'
            yield _turn_arrow(x, y, 0.8 * scale * radius, colour, clockwise=rotor.direction == "cw")
        else:
            tip = place(hub + 0.25 * reach * axis)
            across = np.array([radius, 0.0, 0.0])
            yield _line(place(hub - across), place(hub + across), colour, 3)
            yield _line((x, y), tip, colour, 2) + f'<circle cx="{tip[0]:.1f}" cy="{tip[1]:.1f}" r="4"/>'
        label(x + 5, y - 5, f"{k} {rotor.direction}", colour)
    for sensor in airframe.sensors:
        if isinstance(sensor, CustomSpecification):
            continue
        spot, turned = np.array(sensor.position), body_to_sensor(sensor.rotation).T
        for axis, colour in zip(turned.T, AXES, strict=True):
            yield _line(place(spot), place(spot + 0.08 * reach * axis), colour, 1.5)
        view = getattr(sensor, "field_of_view", None)
        if view is not None and view < 180.0:
            for side in (-0.5, 0.5):
                angle = math.radians(side * view)
                ray = turned @ np.array([math.cos(angle), math.sin(angle), 0.0])
                yield _line(place(spot), place(spot + 0.5 * reach * ray), SENSOR, 1, "4 3")
        if spot.any() or any(sensor.rotation):
            label(*place(spot - np.array([0.0, 0.0, 0.02 * reach])), sensor.kind, SENSOR)
    for (x, y), texts in labels.items():
        yield _text(x, y, ", ".join(text for text, _ in texts), texts[0][1])
    x, y = place(centre)
    yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="7" fill="none" stroke="black"/>'
    yield _line((x - 10, y), (x + 10, y), "black", 1) + _line((x, y - 10), (x, y + 10), "black", 1)


def _turn_arrow(x: float, y: float, radius: float, colour: str, *, clockwise: bool) -> str:
    """An arc about a hub with a head that points the way the rotor turns; the picture's y axis is down."""
    sign = 1.0 if clockwise else -1.0
    start, end = (math.radians(-90.0 - sign * 60.0), math.radians(-90.0 + sign * 60.0))
    a, b = ((x + radius * math.cos(t), y + radius * math.sin(t)) for t in (start, end))
    sweep = 1 if clockwise else 0
    arc = f'<path d="M{a[0]:.1f} {a[1]:.1f}A{radius:.1f} {radius:.1f} 0 0 {sweep} {b[0]:.1f} {b[1]:.1f}"'
    heads = []
    for off in (2.6, -2.6):
        along = end + sign * (math.pi / 2.0) + off
        heads.append(_line(b, (b[0] + 9 * math.cos(along), b[1] + 9 * math.sin(along)), colour, 2))
    return f'{arc} fill="none" stroke="{colour}" stroke-width="2"/>' + "".join(heads)


def _line(a: tuple[float, float], b: tuple[float, float], colour: str, width: float, dash: str = "") -> str:
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<line x1="{a[0]:.1f}" y1="{a[1]:.1f}" x2="{b[0]:.1f}" y2="{b[1]:.1f}" stroke="{colour}"'
        f' stroke-width="{width:g}"{dashes}/>'
    )


def _text(x: float, y: float, text: str, colour: str = "black") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}">{html.escape(text)}</text>'
