"""The command line of programs that fly several vehicles over one MAVSDK: URLs, system ids and positions."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from sitl_bridge.link.hil.ports import offboard_port
from sitl_bridge.swarm.interface import LANDING_SEPARATION

Place = tuple[float, float, float]
"""deg latitude, deg longitude, m AMSL."""


def instance_url(instance: int) -> str:
    """Connection URL of a simulated instance."""
    return f"udpin://127.0.0.1:{offboard_port(instance)}"


def swarm_command_line(description: str, file: str) -> argparse.ArgumentParser:
    """Parser with the common options; see :func:`parse`.

    Args:
        description: of the program.
        file: help text of FILE.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("file", type=Path, metavar="FILE", help=file)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--url", action="append", help="connection URL of a vehicle; once for each, in order")
    where.add_argument(
        "--instances",
        type=_range,
        metavar="A..B",
        help="instances of simulated flight stacks on this machine",
    )
    parser.add_argument(
        "--system", action="append", type=int, metavar="ID", help="MAVLink system id; once for each --url"
    )
    parser.add_argument(
        "--origin", type=_place, metavar="LAT,LON,ALT", help="the plan's origin, deg and m above sea level"
    )
    parser.add_argument(
        "--surveyed", action="store_true", help="the vehicles stand exactly at their planned positions"
    )
    parser.add_argument("--output", type=Path, metavar="DIR", help="write result and picture below DIR")
    return parser


def parse(parser: argparse.ArgumentParser, arguments: list[str] | None) -> argparse.Namespace:
    """Options with the ``url`` and, if known, the ``system`` of each vehicle; exits if they are wrong."""
    options = parser.parse_args(arguments)
    if options.instances is not None:
        options.url = [instance_url(i) for i in options.instances]
        options.system = options.system or [i + 1 for i in options.instances]
    if options.system is not None and len(options.system) != len(options.url):
        parser.error(
            f"give --system {len(options.url)} times, once for each vehicle, not {len(options.system)} times"
        )
    return options


def clear_to_land(position: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> bool:
    """Whether the horizontal distances between all vehicles are at least LANDING_SEPARATION."""
    distance = np.linalg.norm(position[:, None, :2] - position[None, :, :2], axis=2)
    np.fill_diagonal(distance, np.inf)
    return bool(distance.min() >= LANDING_SEPARATION)


def _range(text: str) -> list[int]:
    first, dots, last = text.partition("..")
    try:
        numbers = list(range(int(first), int(last if dots else first) + 1))
    except ValueError:
        numbers = []
    if not numbers or numbers[0] < 0 or numbers[-1] > 254:
        raise argparse.ArgumentTypeError(f"{text!r} is not a range of instances such as 0..8")
    return numbers


def _place(text: str) -> Place:
    try:
        latitude, longitude, altitude = (float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not LAT,LON,ALT") from None
    return latitude, longitude, altitude
