"""Plans for a flight stack that already runs, simulated or real, over its MAVLink by UDP."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable

from sitl_bridge.base.errors import UserError
from sitl_bridge.link.mavlink import common as mavlink
from sitl_bridge.plan.plan import Plan
from sitl_bridge.session.linked import LinkedVehicles
from sitl_bridge.session.missions.log_stamp import stamp
from sitl_bridge.session.monitor import Monitor
from sitl_bridge.session.plan_flight import fly_plans
from sitl_bridge.session.stacks import STEP

CONNECT_LIMIT = 30.0
"""s of wall time in which the flight stack must be heard."""
SILENCE_LIMIT = 20.0
"""s of wall time without progress of its clock after which it counts as lost."""
LOOK = 0.005
"""s of wall time between reads of the link."""
GLOBAL_POSITION: int = mavlink.MAVLINK_MSG_ID_GLOBAL_POSITION_INT


class RunningVehicle(LinkedVehicles):
    """One vehicle, whose clock runs by itself.

    Args:
        url: ``udpin://HOST:PORT``, on which it is heard.
        system: its MAVLink system id.

    Raises:
        UserError: for another URL, a port in use, and a flight stack that is not heard.
    """

    def __init__(self, url: str, system: int) -> None:
        parts = re.fullmatch(r"udpin://([^:/]+):(\d+)", url)
        if parts is None:
            raise UserError(f"{url}: plans are flown over udpin://HOST:PORT, such as udpin://0.0.0.0:14540")
        self.monitor = Monitor(system - 1, host=parts[1], port=int(parts[2]))
        self.monitor.open()
        self.monitor.keep(GLOBAL_POSITION)
        super().__init__(["0"], [f"system {system}"], [(0.0, 0.0, 0.0)], [self.monitor])
        end = time.monotonic() + CONNECT_LIMIT
        while not self.monitor.status().time > 0.0:
            if time.monotonic() > end:
                raise UserError(f"found no autopilot with system id {system} on {url}")
            time.sleep(LOOK)
            self.monitor.poll()

    @property
    def now(self) -> int:
        """us of the vehicle's clock."""
        return round(self.monitor.status().time * 1e6)

    def pass_time(self, steps: int) -> None:
        """Wait for the vehicle's clock."""
        self.send_heartbeat()
        last, end = self.now, self.now + steps * STEP
        moved = time.monotonic()
        while self.now < end:
            time.sleep(LOOK)
            self.monitor.poll()
            if self.now != last:
                last, moved = self.now, time.monotonic()
            elif time.monotonic() - moved > SILENCE_LIMIT:
                raise UserError(
                    f"the vehicle has sent no telemetry for {SILENCE_LIMIT:.0f} s: it has stopped, its"
                    " simulation is paused, or the link is interrupted"
                )

    @property
    def place(self) -> tuple[float, float]:
        """Deg latitude and longitude of the vehicle."""
        position = self.monitor.take(GLOBAL_POSITION, forget=False)
        if position is None:
            raise UserError("the vehicle reports no global position")
        return position.lat * 1e-7, position.lon * 1e-7

    def is_armed(self, vehicle: int) -> bool:
        """Whether the motors may turn."""
        del vehicle
        return self.monitor.status().armed

    def on_ground(self, vehicle: int) -> bool:
        """Whether the flight stack reports the ground."""
        del vehicle
        return self.monitor.status().landed == "on ground"


def fly_running(url: str, system: int, plan: Plan, say: Callable[[str], None]) -> None:
    """Fly a plan; a vehicle in the air holds its place when this fails or is interrupted.

    Args:
        url, system: as of ``RunningVehicle``.

    Raises:
        UserError: for a vehicle that is not found, refuses the plan, or does not finish it.
    """
    vehicle = RunningVehicle(url, system)

    def tell(line: str) -> None:
        say(f"{stamp(vehicle.now * 1e-6)} {line}")

    tell(f"connected on {url}")
    try:
        vehicle.wait_until_ready([0])
        fly_plans(vehicle, {0: plan}, say=tell)
    except BaseException:
        with contextlib.suppress(UserError):
            if vehicle.is_armed(0) and not vehicle.on_ground(0):
                tell("commanding the vehicle to hold its position")
                vehicle.set_mode([0], "Hold")
        raise
    finally:
        vehicle.monitor.stop()
