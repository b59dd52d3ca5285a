"""Figure 5: planar SLAM by the UTM-30LX in an office: camera image with laser and map, and the final map."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from comparison import Row, new_figure, save
from numpy.typing import NDArray

import sitl_bridge as sb
from sitl_bridge.api.models import CameraSpecification, ScannerSpecification
from sitl_bridge.base.rotations import heading, matrix_from_euler

from .scan_matching import ScanMatcher

Array = NDArray[np.float64]

WORLD = Path(__file__).resolve().parents[2] / "worlds" / "office.yaml"
HEIGHT = 1.2
"""m."""
START, GOAL = np.array([0.0, -10.0]), np.array([0.0, 10.0])
"""m north and east, of the corridor's ends."""
SPEED, SWAY, SWAY_RATE = 0.8, 0.6, 0.5
"""m/s along it, and rad and rad/s to both sides of east: the pilot sees where the vehicle is."""
BAND = 1.0
"""m above and below the scanner within which a return counts (hector_mapping's laser_z limits)."""
PERIOD = 0.045
"""s between the scans that are matched: every second one."""
PICTURE_AT = 13.0
"""s at which the camera's image is shown."""


@dataclass(frozen=True)
class Flown:
    """Estimated and true poses (k, 3), m north and east and rad, and what figure 5 shows.

    ``view`` holds the image, the scan's and the map's points in it, (n, 2) pixels.
    """

    estimate: Array
    true: Array
    matcher: ScanMatcher
    view: tuple[NDArray[np.uint8], Array, Array]


def vehicle() -> tuple[sb.Airframe, ScannerSpecification, CameraSpecification]:
    """``hector_indoor``, whose scans and images arrive at once."""
    base = sb.Airframe.load("hector_indoor")
    scanner = next(s for s in base.sensors if isinstance(s, ScannerSpecification))
    camera = next(s for s in base.sensors if isinstance(s, CameraSpecification))
    others = [s for s in base.sensors if s not in (scanner, camera)]
    scanner, camera = (s.model_copy(update={"latency": 0.0}) for s in (scanner, camera))
    return base.model_copy(update={"sensors": (*others, scanner, camera)}), scanner, camera


def projected(
    points: Array, level: Array, matcher: ScanMatcher, mount: Array, camera: CameraSpecification
) -> tuple[Array, Array]:
    """Pixels (k, 2) of a scan (n, 3) m, in level axes from the scanner, and of the map, on the floor.

    Args:
        level: (3, 3) of the body's axes to level ones.
        mount: (3,) m of the scanner from the camera, body.
    """
    focal, centre = camera.intrinsics[:2], camera.intrinsics[2:]
    grid = matcher.maps[-1]
    cells = (np.argwhere(grid.odds > 0.0) + 0.5 - grid.middle) * grid.cell - matcher.pose[:2]
    c, s = math.cos(matcher.pose[2]), math.sin(matcher.pose[2])
    floor = np.column_stack([cells @ np.array([[c, -s], [s, c]]), np.full(len(cells), HEIGHT)])
    found = []
    for seen in (points, floor):
        body = seen @ level + mount
        ahead = body[body[:, 0] > 0.1]
        pixels = ahead[:, 1:] / ahead[:, :1] * focal + centre
        inside = ((pixels >= 0.0) & (pixels < (camera.width, camera.height))).all(axis=1)
        found.append(pixels[inside])
    return found[0], found[1]


def fly(seed: int, seconds: float) -> Flown:
    """Fly along the corridor, and match the scans."""
    airframe, scanner, camera = vehicle()
    mount = matrix_from_euler(*np.radians(scanner.rotation))
    beams, offset = scanner.directions @ mount.T, np.subtract(scanner.position, camera.position)
    matcher = ScanMatcher(24.0)
    rows: list[tuple[Array, Array]] = []
    view = None
    with sb.Sitl(airframe, world=WORLD, positions=[START], yaw=0.5 * np.pi, seed=seed) as sitl:
        drone = sitl.vehicle
        drone.arm()
        drone.take_off(HEIGHT)
        begun, newest = drone.time, -PERIOD
        start = np.array([*drone.position[:2], heading(*drone.attitude)])
        while drone.time < begun + seconds:
            place = drone.position
            way = GOAL - place[:2]
            ahead = way * SPEED / max(float(np.linalg.norm(way)), SPEED)
            yaw = 0.5 * np.pi + SWAY * math.sin(SWAY_RATE * (drone.time - begun))
            drone.set_velocity((*ahead, float(np.clip(-HEIGHT - place[2], -0.5, 0.5))), yaw=yaw)
            drone.step(5)
            scan = drone.sensor("scanner")
            if "time" not in scan or float(scan["time"]) < newest + PERIOD:
                continue
            newest = float(scan["time"])
            ranges = np.asarray(scan["ranges"], float)
            level = matrix_from_euler(*sitl.stacks.attitudes[0][:2], 0.0)
            points = (beams * np.where(np.isfinite(ranges), ranges, np.nan)[:, None]) @ level.T
            points = points[np.abs(points[:, 2]) < BAND]
            estimate = matcher.update(points[:, :2])
            rows.append((estimate, np.array([*drone.position[:2], heading(*drone.attitude)])))
            if view is None and drone.time > begun + PICTURE_AT:
                view = drone.sensor("camera")["image"], *projected(points, level, matcher, offset, camera)
    assert view is not None
    estimate, true = (np.array(column) for column in zip(*rows, strict=True))
    c, s = math.cos(start[2]), math.sin(start[2])
    estimate[:, :2] = estimate[:, :2] @ np.array([[c, s], [-s, c]]) + start[:2]
    estimate[:, 2] += start[2]
    return Flown(estimate, true, matcher, view)


def errors(flown: Flown) -> tuple[float, float, float]:
    """RMS and largest error of the place, m, and largest error of the heading, deg."""
    off = np.linalg.norm(flown.estimate[:, :2] - flown.true[:, :2], axis=1)
    turn = np.abs(np.angle(np.exp(1j * (flown.estimate[:, 2] - flown.true[:, 2]))))
    return float(np.sqrt(np.mean(off**2))), float(off.max()), float(np.degrees(turn.max()))


def reproduce(picture: Path, quick: bool) -> list[Row]:
    """Fly, draw the first flight, evaluate all."""
    flights = [fly(seed, 15.0 if quick else 30.0) for seed in ((1,) if quick else range(1, 6))]
    flown = flights[0]
    figure = new_figure(7.2, 2.8)
    left, right = figure.subplots(1, 2, width_ratios=(1.0, 1.5))
    image, scan, floor = flown.view
    left.imshow(image)
    left.plot(*floor.T, ".", color="tab:green", ms=1.0)
    left.plot(*scan.T, ".", color="tab:red", ms=1.0)
    left.set_axis_off()
    left.set_title("camera; laser red, map green", fontsize=9)
    grid = flown.matcher.maps[-1]
    shown = 1.0 / (1.0 + np.exp(np.clip(grid.odds, -5.0, 5.0)))
    edge = grid.middle * grid.cell
    # The map's axes at the start: ahead is east, right is south.
    right.imshow(shown.T, cmap="gray", vmin=0.0, vmax=1.0, extent=(-edge - 10.0, edge - 10.0, -edge, edge))
    right.plot(flown.estimate[:, 1], flown.estimate[:, 0], color="tab:blue", lw=1.0, label="estimate")
    right.plot(flown.true[:, 1], flown.true[:, 0], "--", color="tab:orange", lw=1.0, label="true")
    right.set(xlim=(-13.0, 13.0), ylim=(-8.0, 8.0), xlabel="east [m]", ylabel="north [m]", aspect="equal")
    right.legend(fontsize="small", loc="upper right")
    save(figure, picture)
    rms, most, turn = (max(values) for values in zip(*map(errors, flights), strict=True))
    return [
        Row("error of the place, RMS, worst flight", "m", "", rms, digits=3),
        Row("... largest", "m", "", most, digits=3),
        Row("error of the heading, largest", "°", "", turn, digits=2),
    ]
