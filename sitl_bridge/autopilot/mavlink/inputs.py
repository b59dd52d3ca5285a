"""Decodes setpoints, sticks and battery messages of peers for the commander.

Frames and masks have PX4's meaning (mavlink_receiver.cpp).  A malformed message is rejected with a status
text, at most every two seconds, because setpoints arrive many times a second.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from sitl_bridge.autopilot import records
from sitl_bridge.autopilot.commander import Commander
from sitl_bridge.autopilot.commander_data import NAN3, OffboardTarget
from sitl_bridge.base.kernels.record import Packed
from sitl_bridge.core.world.geography import Projection
from sitl_bridge.link.mavlink import common as mavlink
from sitl_bridge.link.mavlink.decoder import AUTOPILOT
from sitl_bridge.link.mavlink.message import MavlinkMessage

IGNORE_YAW, IGNORE_YAW_RATE, FORCE = 1024, 2048, 512
IGNORE_PLACE = 7
"""POSITION_TARGET_TYPEMASK."""

IGNORE_ROLL_RATE, IGNORE_PITCH_RATE, IGNORE_YAW_RATE_BODY = 1, 2, 4
IGNORE_THROTTLE, IGNORE_ATTITUDE = 64, 128
"""ATTITUDE_TARGET_TYPEMASK."""

TEXT_INTERVAL = 2_000_000
"""Minimum interval between texts about malformed setpoints, us of simulated time."""

MAX_ALTITUDE = 1e5
"""Largest altitude of a valid target, m."""

NO_CELL = 0xFFFF
"""Voltage of a cell that a battery does not have (BATTERY_STATUS)."""

Vector = tuple[float, float, float]


class Inputs:
    """Input of the commander from all links of a vehicle.

    Args:
        estimate: () ESTIMATE, for the origin of the local frame.
    """

    def __init__(self, commander: Commander, estimate: Packed, system_id: int) -> None:
        self._commander = commander
        self._estimate = estimate
        self._system_id = system_id
        self._complained = -TEXT_INTERVAL
        self.handlers: dict[str, Callable[[MavlinkMessage, int], None]] = {
            "SET_POSITION_TARGET_LOCAL_NED": self._on_local_target,
            "SET_POSITION_TARGET_GLOBAL_INT": self._on_global_target,
            "SET_ATTITUDE_TARGET": self._on_attitude_target,
            "MANUAL_CONTROL": self._on_manual_control,
            "BATTERY_STATUS": self._on_battery,
            "HEARTBEAT": self._on_heartbeat,
            "FOLLOW_TARGET": self._on_follow_target,
        }

    def _is_for_us(self, message: MavlinkMessage) -> bool:
        return message.target_system in (0, self._system_id) and message.target_component in (0, AUTOPILOT)

    def _reject(self, text: str, now: int) -> None:
        if now - self._complained >= TEXT_INTERVAL:
            self._complained = now
            self._commander.send_text(mavlink.MAV_SEVERITY_CRITICAL, text)

    # ------------------------------------------------------------------ offboard

    def _on_local_target(self, message: MavlinkMessage, now: int) -> None:
        if not self._is_for_us(message):
            return
        frame = message.coordinate_frame
        body = frame == mavlink.MAV_FRAME_BODY_NED
        if not body and frame != mavlink.MAV_FRAME_LOCAL_NED:
            self._reject(f"SET_POSITION_TARGET_LOCAL_NED: frame {frame} is not supported", now)
            return
        position = NAN3 if body else _select_unmasked((message.x, message.y, message.z), message.type_mask, 0)
        self._take_target(message, position, now, body=body)

    def _on_global_target(self, message: MavlinkMessage, now: int) -> None:
        if not self._is_for_us(message):
            return
        position: Vector = NAN3
        if not message.type_mask & IGNORE_PLACE:
            local = self._local(message, now)
            if local is None:
                return
            position = local
        self._take_target(message, position, now, body=False)

    def _local(self, message: MavlinkMessage, now: int) -> Vector | None:
        """Return the local position of a global target; None without an origin or with a wrong frame."""
        frame, height = message.coordinate_frame, message.alt
        home = self._commander.home
        if not int(self._estimate["valid"]) & records.GLOBAL:
            return None
        if frame in (mavlink.MAV_FRAME_GLOBAL_RELATIVE_ALT, mavlink.MAV_FRAME_GLOBAL_RELATIVE_ALT_INT):
            if home is None:
                return None
            height += home[2]
        elif frame not in (mavlink.MAV_FRAME_GLOBAL, mavlink.MAV_FRAME_GLOBAL_INT):
            self._reject(f"SET_POSITION_TARGET_GLOBAL_INT: frame {frame} is not supported", now)
            return None
        latitude, longitude, altitude = self._estimate["origin"].tolist()
        projection = Projection.from_radians(latitude, longitude, altitude)
        return projection.position((message.lat_int / 1e7, message.lon_int / 1e7, height))

    def _take_target(self, message: MavlinkMessage, position: Vector, now: int, *, body: bool) -> None:
        mask = message.type_mask
        velocity = _select_unmasked((message.vx, message.vy, message.vz), mask, 3)
        acceleration = _select_unmasked((message.afx, message.afy, message.afz), mask, 6)
        if mask & FORCE and not _is_nan(acceleration):
            self._reject(f"{message.get_type()}: force is not supported", now)
            return
        if _is_nan(position) and _is_nan(velocity) and _is_nan(acceleration):
            self._reject(f"{message.get_type()}: no position, velocity or acceleration given", now)
            return
        if any(math.isinf(value) for value in (*position, *velocity, *acceleration)):
            self._reject(f"{message.get_type()}: infinite values", now)
            return
        self._commander.offboard(
            OffboardTarget(
                position=position,
                velocity=velocity,
                acceleration=acceleration,
                yaw=math.nan if mask & IGNORE_YAW else message.yaw,
                yaw_rate=math.nan if mask & IGNORE_YAW_RATE else message.yaw_rate,
                body_frame=body,
            ),
            now,
        )

    def _on_attitude_target(self, message: MavlinkMessage, now: int) -> None:
        if not self._is_for_us(message):
            return
        mask = message.type_mask
        rates = (message.body_roll_rate, message.body_pitch_rate, message.body_yaw_rate)
        has_attitude = not mask & IGNORE_ATTITUDE
        has_rates = not mask & (IGNORE_ROLL_RATE | IGNORE_PITCH_RATE)
        if not has_attitude and not has_rates:
            return
        norm = math.sqrt(sum(value * value for value in message.q))
        if has_attitude and not 0.5 < norm < 2.0:
            self._reject("SET_ATTITUDE_TARGET: invalid quaternion", now)
            return
        if not all(math.isfinite(value) for value in (*rates, message.thrust)):
            self._reject("SET_ATTITUDE_TARGET: values that are not finite", now)
            return
        w, x, y, z = message.q
        yaw_rate = math.nan if mask & IGNORE_YAW_RATE_BODY else rates[2]
        self._commander.offboard(
            OffboardTarget(
                attitude=(w / norm, x / norm, y / norm, z / norm) if has_attitude else None,
                angular_velocity=(rates[0], rates[1], yaw_rate) if has_rates else None,
                yaw_rate=yaw_rate,
                thrust=0.0 if mask & IGNORE_THROTTLE else min(max(message.thrust, 0.0), 1.0),
            ),
            now,
        )

    def _on_follow_target(self, message: MavlinkMessage, now: int) -> None:
        position = (message.lat / 1e7, message.lon / 1e7, message.alt)
        if abs(position[0]) <= 90.0 and abs(position[1]) <= 180.0 and abs(position[2]) <= MAX_ALTITUDE:
            x, y, z = message.vel
            self._commander.follow.report(position, (x, y, z), now)

    # ------------------------------------------------------------------ sticks

    def _on_manual_control(self, message: MavlinkMessage, now: int) -> None:
        if message.target not in (0, self._system_id):
            return
        x, y, r = (v / 1e3 if abs(v) <= 1000 else 0.0 for v in (message.x, message.y, message.r))
        z = message.z / 1e3 if 0 <= message.z <= 1000 else 0.5
        self._commander.manual_control(x, y, z, r, now)

    # ------------------------------------------------------------------ others

    def _on_battery(self, message: MavlinkMessage, now: int) -> None:
        if message.get_srcSystem() != self._system_id:
            return
        cells = [cell for cell in message.voltages if cell != NO_CELL]
        self._commander.battery(
            sum(cells) * 1e-3 if cells else math.nan,
            message.current_battery * 1e-2 if message.current_battery >= 0 else math.nan,
            message.battery_remaining * 1e-2 if message.battery_remaining >= 0 else math.nan,
            now,
        )

    def _on_heartbeat(self, message: MavlinkMessage, now: int) -> None:
        if message.type == mavlink.MAV_TYPE_GCS:
            self._commander.ground_station_seen(now)


def _select_unmasked(values: Vector, mask: int, first: int) -> Vector:
    """Return the values whose bits, from ``first`` on, are not set in a mask; nan for the others."""
    x, y, z = (math.nan if mask & 1 << (first + k) else value for k, value in enumerate(values))
    return x, y, z


def _is_nan(vector: Vector) -> bool:
    return all(math.isnan(value) for value in vector)
