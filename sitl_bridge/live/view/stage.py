"""The 3-D part of a page: vehicles, tracks, wind, plan, formation slots and the objects of the world.

The page's axes are east, north, up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.spatial.transform import Rotation

from sitl_bridge.analysis.export.plans import SLOT_SIZE
from sitl_bridge.analysis.export.ros_topics import to_enu, to_enu_flu
from sitl_bridge.base.arrays import AnyArray, Bytes, Floats, Ints, Records, Singles
from sitl_bridge.base.rotations import heading, wrap_angle
from sitl_bridge.core.world.ray_casting import cast_rays
from sitl_bridge.core.world.records import START
from sitl_bridge.core.world.scene import place_moving_shapes
from sitl_bridge.live.view.scene_shapes import DrawnObject, draw_objects
from sitl_bridge.live.view.vehicle_shapes import VehicleShape, blades, vehicle_shape
from sitl_bridge.live.view.viewed_run import ViewedRun

if TYPE_CHECKING:
    from viser import ArrowsHandle, ClientHandle, FrameHandle, ViserServer


PALETTE = np.array(
    [
        [213, 94, 0], [86, 180, 233], [0, 158, 115], [204, 121, 167],
        [230, 159, 0], [0, 114, 178], [240, 228, 66],
    ],
    np.uint8,
)  # fmt: skip
"""Colours that the colour-blind tell apart (Okabe and Ito)."""
BLADE, FRONT_BLADE, NOSE, WIND = (60, 60, 60), (210, 30, 30), (250, 250, 250), (120, 60, 200)
SHADOW, FLAT = (16, 20, 14), 0.01
"""A vehicle's shadow on the ground straight below it: colour; height over the vehicle's."""
THRUST, ESTIMATE = (0, 114, 178), (250, 250, 250)
HORIZON, ZENITH = (222, 231, 238), (126, 172, 222)
"""Colours of the sky, low and high."""
GROUND, CELLS, SECTIONS = (126, 138, 112), (138, 150, 124), (98, 110, 88)
CHASE, ABOVE, FREE = "Chase", "From above", "Free"
CAMERAS = (CHASE, ABOVE, FREE)
"""Ways in which the camera follows a vehicle."""
TURN_TIME = 0.6
"""s of wall time in which the chasing camera turns after the vehicle."""
SLOWER = 0.04
"""Drawn over true speed of a rotor: at 25 pictures a second its true speed cannot be seen."""
TRACK_POINTS, TRACK_POINTS_EACH = 20_000, 600
"""Largest number of points of all tracks, and of each."""
LABELLED = 20
"""Largest number of vehicles whose names are shown."""
NUMBERED = 100
"""Largest number of places of a plan that are numbered."""
MANY = 10
"""Number of vehicles from which they are drawn LARGER, because the camera is far away."""
LARGER = 3.0
WIND_LENGTH, WIND_HEIGHT, STRONG_WIND = 3.0, 2.0, 15.0
"""Over a drawn vehicle's reach: length of the arrow in a strong wind (m/s), and its height above."""
THRUST_LENGTH, THRUST_WIDTH = 1.5, 0.05
"""Over a drawn vehicle's reach: length of the arrow of a rotor with its share of the weight; width."""
LEAST_THRUST = 0.05
"""Over a rotor's share of the weight: of the least thrust that is drawn."""
GROUND_CELL, GROUND_SECTION = 1.0, 10.0


class Stage:
    """Draws a run on a page.

    Attributes:
        scale: size of the drawn vehicles over their true size.
        estimates: tracks by the flight stacks' estimates: us (k,) and m NED (k, 3) of a vehicle each.
    """

    def __init__(self, server: ViserServer, run: ViewedRun) -> None:
        self._server, self._run = server, run
        n = len(run.names)
        self.scale = LARGER if n >= MANY else 1.0
        self._colours = PALETTE[np.arange(n) % len(PALETTE)]
        kinds: dict[str, list[int]] = {}
        for i, airframe in enumerate(run.airframes):
            kinds.setdefault(airframe.model_dump_json(), []).append(i)
        self._kinds = [
            (np.array(members), vehicle_shape(run.airframes[members[0]])) for members in kinds.values()
        ]
        weights = [airframe.mass * run.gravity / len(airframe.rotors) for airframe in run.airframes]
        self._shares = np.array(weights)  # (n,) N of each vehicle's weight that a rotor carries
        self.thrust = False
        self._thrusts: dict[int, ArrowsHandle] = {}
        self._thrusts_drawn = (False, self.scale)
        self.estimates: list[tuple[Ints, Floats]] = []
        self.estimated = False
        self._angles = np.zeros((n, max(len(shape.hubs) for _, shape in self._kinds)))
        self._time: int | None = None
        self._moving: list[tuple[int, FrameHandle]] = []
        self._shown_slots = -1
        self._heading = 0.0
        with server.atomic():
            self._draw_ground()
            self._draw_objects()
            self._draw_plans()
            self._bodies = [self._add_vehicles(k) for k in range(len(self._kinds))]
            self._labels = [
                server.scene.add_label(f"/vehicles/names/{i}", name) for i, name in enumerate(run.names)
            ]
            for label in self._labels:
                label.visible = 1 < n <= LABELLED
        start = run.at_start()
        self._starts = start["position"].astype(np.float64)
        self.place(start)

    # ------------------------------------------------------------------ what does not move

    def _draw_ground(self) -> None:
        self._server.scene.set_up_direction("+z")
        share = np.linspace(0.0, 1.0, 128)[:, None, None] ** 0.7
        sky = (1.0 - share) * np.array(ZENITH) + share * np.array(HORIZON)
        self._server.scene.set_background_image(np.broadcast_to(sky, (128, 4, 3)).astype(np.uint8), "png")
        if self._run.scene.specification.ground:
            self._server.scene.add_grid(
                "/ground",
                infinite_grid=True,
                cell_size=GROUND_CELL,
                section_size=GROUND_SECTION,
                fade_distance=200.0,
                cell_color=CELLS,
                section_color=SECTIONS,
                section_thickness=1.5,
                plane_color=GROUND,
                plane_opacity=1.0,
                position=(0.0, 0.0, -0.01),
            )

    def _draw_objects(self) -> None:
        shapes = self._run.scene.shapes
        for drawn in draw_objects(self._run.scene):
            shape = shapes[drawn.index]
            place = to_enu(shape["position"][None])[0]
            frame = self._server.scene.add_frame(
                f"/objects/{drawn.index}", show_axes=False, position=tuple(place)
            )
            self._draw_parts(drawn, shape["rotation"])
            if drawn.moving:
                self._moving.append((drawn.index, frame))

    def _draw_parts(self, drawn: DrawnObject, rotation: Floats) -> None:
        for k, (part, colour) in enumerate(drawn.parts):
            self._server.scene.add_mesh_simple(
                f"/objects/{drawn.index}/{k}",
                vertices=to_enu(part.vertices @ rotation.T).astype(np.float32),
                faces=part.faces,
                color=tuple(round(255 * c) for c in colour),
                flat_shading=True,
                side="double",
                cast_shadow=False,
                receive_shadow=False,
            )

    def _draw_plans(self) -> None:
        lines, self._slots = self._run.planned_lines()
        for k, line in enumerate(lines):
            points = to_enu(line.points)
            if len(points) > 1:
                colour = tuple(round(255 * c) for c in line.color[:3])
                segments = np.stack([points[:-1], points[1:]], axis=1)
                self._draw_lines(f"/plans/{line.name}/{k}", segments, colour, 1.5)
            if line.numbered and len(points) <= NUMBERED:
                for number, point in enumerate(points, 1):
                    name = f"/plans/{line.name}/{k}/{number}"
                    self._server.scene.add_label(name, str(number), position=tuple(point))

    # ------------------------------------------------------------------ vehicles

    def _add_vehicles(self, kind: int) -> tuple[Any, Any, Any, Any]:
        """Bodies, noses, rotors and shadows of the vehicles of one airframe."""
        members, shape = self._kinds[kind]
        turning = blades()
        scene, n, rotors = self._server.scene, len(members), len(members) * len(shape.hubs)
        ahead = shape.hubs[:, 0] > 0.3 * float(shape.hubs[:, 0].max())
        blades_ = np.tile(np.where(ahead[:, None], FRONT_BLADE, BLADE), (n, 1))

        def add(name: str, part: Any, count: int, colour: Any) -> Any:
            return scene.add_batched_meshes_simple(
                f"/vehicles/{kind}/{name}",
                vertices=part.vertices.astype(np.float32),
                faces=part.faces,
                batched_wxyzs=np.tile([1.0, 0.0, 0.0, 0.0], (count, 1)),
                batched_positions=np.zeros((count, 3)),
                batched_scales=np.ones((count, 3)),
                batched_colors=colour,
                lod="off",
                flat_shading=True,
                side="double",
                cast_shadow=False,
                receive_shadow=False,
            )

        return (
            add("bodies", shape.body, n, self._colours[members]),
            add("noses", shape.nose, n, NOSE),
            add("rotors", turning, rotors, np.array(blades_, np.uint8)),
            add("shadows", shape.body, n, SHADOW),
        )

    def place(self, rows: Records) -> None:
        """Show the vehicles where they are in one step: (n,) ROW."""
        time = int(rows["time"][0])
        self._turn_rotors(rows, time)
        places = to_enu(np.asarray(rows["position"], np.float64))
        known = np.isfinite(places).all(axis=1) & np.isfinite(rows["attitude"]).all(axis=1)
        places[~known] = 0.0
        turns = to_enu_flu(np.asarray(rows["attitude"], np.float64))
        turns[~known] = (0.0, 0.0, 0.0, 1.0)
        if self._thrusts_drawn != (self.thrust, self.scale):
            self._thrusts_drawn = (self.thrust, self.scale)
            self._thrusts.clear()
            self._server.scene.remove_by_name("/thrust")
        with self._server.atomic():
            for (members, shape), handles in zip(self._kinds, self._bodies, strict=True):
                attitudes = Rotation.from_quat(turns[members])
                self._place_kind(members, shape, handles, places[members], attitudes)
                if self.thrust:
                    self._draw_thrust(
                        members, shape, places[members], attitudes, rows["rotor_thrust"][members]
                    )
            if len(self._labels) <= LABELLED:
                for label, place in zip(self._labels, places, strict=True):
                    label.position = (*place[:2], place[2] + 0.25 * self.scale)
            self._move_objects(time)
            self._show_slots(time)

    def _place_kind(
        self, members: Ints, shape: VehicleShape, handles: Any, places: Floats, turns: Rotation
    ) -> None:
        bodies, noses, rotors, shadows = handles
        n, r = len(members), len(shape.hubs)
        wxyz = turns.as_quat()[:, [3, 0, 1, 2]]
        for handle in (bodies, noses):
            handle.batched_positions, handle.batched_wxyzs = _single(places), _single(wxyz)
            handle.batched_scales = _single(np.full((n, 3), self.scale))
        shadows.visible = self._run.scene.specification.ground
        shadows.batched_positions = _single(places * (1.0, 1.0, 0.0))
        shadows.batched_scales = _single(np.full((n, 3), self.scale) * (1.0, 1.0, FLAT))
        ahead = turns.apply([1.0, 0.0, 0.0])
        level = Rotation.from_euler("z", np.arctan2(ahead[:, 1], ahead[:, 0])[:, None])
        shadows.batched_wxyzs = _single(level.as_quat()[:, [3, 0, 1, 2]])
        each = turns[np.repeat(np.arange(n), r)]
        hubs = np.tile(shape.hubs, (n, 1)) * self.scale
        spins = Rotation.from_rotvec(self._angles[members, :r].reshape(-1, 1) * (0.0, 0.0, 1.0))
        spun = each * Rotation.from_quat(np.tile(shape.turns, (n, 1))) * spins
        rotors.batched_positions = _single(np.repeat(places, r, axis=0) + each.apply(hubs))
        rotors.batched_wxyzs = _single(spun.as_quat()[:, [3, 0, 1, 2]])
        rotors.batched_scales = _single(np.tile(np.tile(shape.radii, n)[:, None] * self.scale, (1, 3)))

    def _draw_thrust(
        self, members: Ints, shape: VehicleShape, places: Floats, turns: Rotation, thrust: Singles
    ) -> None:
        """Arrows along the rotors' axes for thrusts (n, 12) N."""
        n, r = len(members), len(shape.hubs)
        each = turns[np.repeat(np.arange(n), r)]
        begin = np.repeat(places, r, axis=0) + each.apply(np.tile(shape.hubs, (n, 1)) * self.scale)
        along = (each * Rotation.from_quat(np.tile(shape.turns, (n, 1)))).apply([0.0, 0.0, 1.0])
        share = np.nan_to_num(thrust[:, :r].astype(np.float64)) / self._shares[members, None]
        length = THRUST_LENGTH * shape.reach * self.scale * share.reshape(-1, 1)
        pulls = share.reshape(-1) > LEAST_THRUST
        points = _single(np.stack([begin, begin + length * along], axis=1)[pulls])
        kind = int(members[0])
        if kind in self._thrusts:
            self._thrusts[kind].visible = bool(pulls.any())
        if not pulls.any():
            return
        if kind in self._thrusts:
            self._thrusts[kind].points = points
            return
        width = THRUST_WIDTH * shape.reach * self.scale
        self._thrusts[kind] = self._server.scene.add_arrows(
            f"/thrust/{kind}",
            points=points,
            colors=THRUST,
            shaft_radius=width,
            head_radius=2.0 * width,
            head_length=4.0 * width,
        )

    def _turn_rotors(self, rows: Records, time: int) -> None:
        since = 0.0 if self._time is None else (time - self._time) * 1e-6
        self._time = time
        for members, shape in self._kinds:
            r = len(shape.hubs)
            speed = np.nan_to_num(rows["rotor_speed"][members, :r])
            turned = SLOWER * since * speed * shape.directions
            self._angles[members, :r] = (self._angles[members, :r] + turned) % (2.0 * np.pi)

    def _move_objects(self, time: int) -> None:
        if not self._moving:
            return
        scene = self._run.scene
        place_moving_shapes(scene.record[0], (time - START) * 1e-6)
        for index, frame in self._moving:
            frame.position = tuple(to_enu(scene.shapes[index]["position"][None])[0])

    def _show_slots(self, time: int) -> None:
        """The slots of a recorded formation where they were planned last."""
        shown = int(np.searchsorted([at for at, _ in self._slots], time, "right")) - 1
        if shown == self._shown_slots:
            return
        self._shown_slots = shown
        if shown < 0:
            self._server.scene.remove_by_name("/slots")
            return
        self._server.scene.add_point_cloud(
            "/slots",
            points=to_enu(self._slots[shown][1]).astype(np.float32),
            colors=(230, 159, 0),
            point_size=SLOT_SIZE,
            point_shape="circle",
        )

    # ------------------------------------------------------------------ tracks and wind

    def draw_tracks(self, rows: Records) -> None:
        """Show the way of each vehicle: (k n,) ROW of whole steps so far."""
        n = len(self._run.names)
        steps = len(rows) // n
        most = min(TRACK_POINTS_EACH, TRACK_POINTS // n)
        picked = np.unique(np.linspace(0, max(steps - 1, 0), min(steps, most)).astype(np.int64))
        if len(picked) < 2:
            self._server.scene.remove_by_name("/tracks")
            return
        table = rows.reshape(-1, n)["position"][picked]
        points = to_enu(np.asarray(table, np.float64).reshape(-1, 3)).reshape(len(picked), n, 3)
        first, last, vehicle = straight_pieces(points)
        segments = np.stack([points[first, vehicle], points[last, vehicle]], axis=1)
        whole = np.isfinite(segments).all(axis=(1, 2))
        colours = np.repeat(self._colours[vehicle[whole], None], 2, axis=1)
        self._draw_lines("/tracks", segments[whole], colours, 3.0)
        self._draw_estimates(int(rows["time"][-1]), most)

    def add_estimates(self, latest: Sequence[tuple[float, float, float, float]]) -> None:
        """Lengthen the tracks by estimates: s, and m NED from where the vehicle started; nan is left out."""
        for i, (time, *place) in enumerate(latest):
            if i == len(self.estimates):
                self.estimates.append((np.zeros(0, np.int64), np.zeros((0, 3))))
            times, places = self.estimates[i]
            if time * 1e6 > (times[-1] if len(times) else 0):
                moved = place + self._starts[i]
                self.estimates[i] = (np.append(times, round(time * 1e6)), np.vstack([places, moved]))

    def _draw_estimates(self, time: int, most: int) -> None:
        """Show the flight stacks' estimates up to a time in us, at most so many points each."""
        found = []
        for times, places in self.estimates if self.estimated else ():
            last = int(np.searchsorted(times, time, "right"))
            if last > 1:
                picked = np.unique(np.linspace(0, last - 1, min(last, most)).astype(np.int64))
                points = to_enu(places[picked])
                first, end, _ = straight_pieces(points[:, None])
                found.append(np.stack([points[first], points[end]], axis=1))
        if found:
            self._draw_lines("/estimates", np.concatenate(found), ESTIMATE, 1.5)
        else:
            self._server.scene.remove_by_name("/estimates")

    def _draw_lines(
        self, name: str, segments: Floats, colours: Bytes | Sequence[int], thickness: float
    ) -> None:
        """Lines (k, 2, 3) m ENU of a thickness in pixels."""
        self._server.scene.add_line_segments(
            name,
            points=_single(segments),
            colors=colours,
            thickness=thickness,
            thickness_units="screen",
        )

    def draw_wind(self, rows: Records) -> float:
        """Show the mean wind at the vehicles as an arrow above them; returns its speed in m/s."""
        wind = to_enu(np.nan_to_num(rows["wind"].astype(np.float64))).mean(axis=0)
        speed = float(np.linalg.norm(wind))
        if speed < MIN_WIND:
            self._server.scene.remove_by_name("/wind")
            return speed
        places = to_enu(np.nan_to_num(rows["position"]))
        middle = places.mean(axis=0)
        reach = self._reach()
        middle[2] = places[:, 2].max() + WIND_HEIGHT * reach
        half = 0.5 * WIND_LENGTH * reach * min(0.3 + speed / STRONG_WIND, 1.3) * wind / speed
        size = 0.12 * reach
        self._server.scene.add_arrows(
            "/wind",
            points=_single(np.array([[middle - half, middle + half]])),
            colors=WIND,
            shaft_radius=0.3 * size,
            head_radius=size,
            head_length=2.5 * size,
        )
        return speed

    # ------------------------------------------------------------------ camera

    def _reach(self) -> float:
        """Reach of the largest vehicle as it is drawn, m."""
        return max(float(shape.reach) for _, shape in self._kinds) * self.scale

    def follow(
        self, row: np.void, how: str, distance: float, clients: Sequence[ClientHandle], seconds: float
    ) -> None:
        """Let the cameras follow a vehicle.

        Args:
            row: ROW of the vehicle.
            how: of ``CAMERAS``.
            distance: of the camera, over the vehicle's drawn reach.
            seconds: of wall time since the last call.
        """
        place = to_enu(np.asarray(row["position"], np.float64)[None])[0]
        if how == FREE or not np.isfinite(place).all():
            return
        yaw = heading(*(float(q) for q in row["attitude"]))
        if math.isfinite(yaw):
            behind = wrap_angle(yaw - self._heading)
            self._heading += behind * (1.0 - math.exp(-seconds / TURN_TIME))
        far, north, east = distance * self._reach(), math.cos(self._heading), math.sin(self._heading)
        eye = place + far * (np.array([-east, -north, 0.45]) if how == CHASE else np.array([0.0, -1e-3, 1.6]))
        eye[2] = max(eye[2], 0.1 * far)
        if how == CHASE and len(self._run.scene.shapes):
            eye = self._before_walls(place, eye)
        for client in clients:
            with client.atomic():
                client.camera.up_direction = (0.0, 0.0, 1.0) if how == CHASE else (0.0, 1.0, 0.0)
                client.camera.position, client.camera.look_at = tuple(eye), tuple(place)

    def _before_walls(self, place: Floats, eye: Floats) -> Floats:
        """The eye, moved towards a place so that nothing stands between them, m ENU."""
        way, far = eye - place, float(np.linalg.norm(eye - place))
        clear, normal, shape = np.empty(1), np.empty((1, 3)), np.empty(1, np.int64)
        ray = to_enu(place[None]), to_enu(way[None] / far)
        cast_rays(self._run.scene.record[0], *ray, far, clear, normal, shape)
        before: Floats = place + min(1.0, max(CLEAR * clear[0], NEAREST * self._reach()) / far) * way
        return before

    def enlarge(self, rows: Records) -> None:
        """Enlarge the vehicles so far that they are seen in a picture of all their places."""
        places = np.nan_to_num(rows["position"])
        spread = float(np.linalg.norm(places.max(axis=0) - places.min(axis=0)))
        reach = max(float(shape.reach) for _, shape in self._kinds)
        self.scale = round(2.0 * min(max(spread / (VISIBLE * reach), 1.0), LARGEST)) / 2.0

    def look_at(self, rows: Records, clients: Sequence[ClientHandle] | None = None) -> None:
        """Point the cameras at the vehicles; without clients, those of pages that are opened later."""
        places = to_enu(np.nan_to_num(rows["position"]))
        middle = 0.5 * (places.min(axis=0) + places.max(axis=0))
        reach = self._reach()
        far = 0.8 * float(np.linalg.norm(places.max(axis=0) - places.min(axis=0))) + 4.0 * reach
        eye = middle + far * np.array([-0.55, -0.75, 0.45])
        for camera in (
            [self._server.initial_camera] if clients is None else [client.camera for client in clients]
        ):
            camera.position, camera.look_at = tuple(eye), tuple(middle)


def straight_pieces(points: Floats) -> tuple[Ints, Ints, Ints]:
    """Straight pieces that stand for tracks: (k, n, 3) m.

    Halves of a track that lie along the line through their ends become one, again and again.

    Returns:
        First and last point (m,) of each piece, and its track.
    """
    known = points[np.isfinite(points).all(axis=2)]
    spread = float(np.linalg.norm(np.ptp(known, axis=0))) if len(known) else 0.0
    off = max(OFF_TRACK * spread, LEAST_OFF)
    count = 1 << (len(points) - 2).bit_length()
    padded = np.concatenate([points, np.repeat(points[-1:], count + 1 - len(points), axis=0)])
    straight, size = np.ones((count, points.shape[1]), bool), 1
    found = []
    while len(straight) > 1:
        begin, way = padded[: -1 : 2 * size, None], np.diff(padded[:: 2 * size], axis=0)[:, None]
        between = padded[:-1].reshape(-1, 2 * size, *points.shape[1:]) - begin
        along = (between * way).sum(axis=3) / np.maximum((way**2).sum(axis=3), 1e-12)
        across = between - np.clip(along, 0.0, 1.0)[..., None] * way
        whole = straight[::2] & straight[1::2] & ((across**2).sum(axis=3) <= off**2).all(axis=1)
        piece, track = np.nonzero(straight & ~np.repeat(whole, 2, axis=0))
        found.append((piece * size, (piece + 1) * size, track))
        straight, size = whole, 2 * size
    piece, track = np.nonzero(straight)
    found.append((piece * size, (piece + 1) * size, track))
    first, last, track = (np.concatenate(part) for part in zip(*found, strict=True))
    last = np.minimum(last, len(points) - 1)
    return first[first < last], last[first < last], track[first < last]


OFF_TRACK, LEAST_OFF = 5e-4, 0.01
"""Deviation of a drawn track: over the spread of all, and m; smaller ones cannot be seen."""
CLEAR, NEAREST = 0.9, 1.5
"""Share of the way to a wall at which the following camera stays; its least distance, over a drawn reach."""
VISIBLE, LARGEST = 8.0, 10.0
"""Spread of the places over a vehicle's reach at which it is plainly seen; largest enlargement."""
MIN_WIND = 0.05
"""m/s below which no arrow is drawn."""


def _single(values: AnyArray) -> Singles:
    return np.ascontiguousarray(values, np.float32)
