"""Answers and behaviour of PX4 v1.16.0, as a table that the built-in stack and real PX4 are driven through.

Every row is a few MAVLink messages from a ground station and what comes of them: the result of the command,
the mode in force and whether the vehicle is armed.  ``docs/built-in-stack.md`` shows those that differ.
"""

from __future__ import annotations

import math
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from sitl_bridge.link.mavlink import common as mavlink
from sitl_bridge.link.px4.vehicle_status import BatterySample, battery_message, mode_name

STEP = 0.05
"""s of simulated time."""

NO_ANSWER = -1
RESULTS = {
    NO_ANSWER: "no answer",
    mavlink.MAV_RESULT_ACCEPTED: "accepted",
    mavlink.MAV_RESULT_TEMPORARILY_REJECTED: "temporarily rejected",
    mavlink.MAV_RESULT_DENIED: "denied",
    mavlink.MAV_RESULT_UNSUPPORTED: "unsupported",
    mavlink.MAV_RESULT_FAILED: "failed",
}


class Driver(ABC):
    """A ground station that steps a vehicle's time and sends what the pilot and the simulator send.

    Attributes:
        station: send a heartbeat twice a second.
        sticks: send centred sticks.
        offboard: send offboard setpoints (velocity zero).
        battery: share of charge in BATTERY_STATUS.
    """

    def __init__(self, system: int) -> None:
        self.system = system
        self.station = True
        self.sticks = self.offboard = False
        self.battery = 0.9
        self.mode = ""
        self.armed = self.in_air = self.can_arm = False
        self.heard: list[Any] = []
        self._steps = 0

    @abstractmethod
    def send(self, message: Any, system: int = 255, component: int = 190) -> None:
        """Send a message as a ground station, or with other ids."""

    @abstractmethod
    def advance(self) -> Iterable[Any]:
        """Let 50 ms pass; the vehicle's messages."""

    def step(self) -> None:
        self._steps += 1
        if self.station and self._steps % 10 == 0:
            self.send(mavlink.MAVLink_heartbeat_message(6, 8, 0, 0, 4, 3))
        if self.sticks:
            self.send(mavlink.MAVLink_manual_control_message(self.system, 0, 0, 500, 0, 0))
        if self.offboard:
            self.send(
                mavlink.MAVLink_set_position_target_local_ned_message(
                    0, self.system, 1, 1, 0b0000_1111_1100_0111, *(0.0,) * 11
                )
            )
        if self._steps % 4 == 0:
            sample = BatterySample(0, 15.6, 5.0, self.battery, 0.0, 4)
            self.send(battery_message(sample), self.system, mavlink.MAV_COMP_ID_BATTERY)
        for message in self.advance():
            self._take(message)

    def _take(self, message: Any) -> None:
        self.heard.append(message)
        kind = message.get_type()
        if kind == "HEARTBEAT":
            self.mode = mode_name(message.custom_mode)
            self.armed = bool(message.base_mode & mavlink.MAV_MODE_FLAG_SAFETY_ARMED)
        elif kind == "EXTENDED_SYS_STATE":
            self.in_air = message.landed_state == mavlink.MAV_LANDED_STATE_IN_AIR
        elif kind == "SYS_STATUS":
            self.can_arm = bool(message.onboard_control_sensors_health & mavlink.MAV_SYS_STATUS_PREARM_CHECK)

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds / STEP)):
            self.step()

    def until(self, what: str, condition: Callable[[], bool], limit: float = 90.0) -> None:
        for _ in range(round(limit / STEP)):
            if condition():
                return
            self.step()
        texts = [m.text for m in self.heard if m.get_type() == "STATUSTEXT"][-8:]
        raise AssertionError(f"not {what} within {limit} s: mode {self.mode}, armed {self.armed}, {texts}")

    def answer(self, kind: str, fits: Callable[[Any], bool], *messages: Any) -> Any:
        """Send messages until an answer comes; None if none comes to the third time."""
        for _ in range(3):
            self.heard.clear()
            for message in messages:
                self.send(message)
            for _ in range(30):
                self.step()
                found = [m for m in self.heard if m.get_type() == kind and fits(m)]
                if found:
                    return found[-1]
        return None

    def command(self, number: int, *params: float) -> int:
        """Send a COMMAND_LONG, with nan for the other parameters, and return its result."""
        values = (*params, *(math.nan,) * (7 - len(params)))
        message = mavlink.MAVLink_command_long_message(self.system, 1, number, 0, *values)
        answer = self.answer("COMMAND_ACK", lambda m: m.command == number, message)
        return NO_ANSWER if answer is None else int(answer.result)

    def set_mode(self, main: int, sub: int = 0) -> int:
        return self.command(mavlink.MAV_CMD_DO_SET_MODE, 1.0, float(main), float(sub))

    def set_parameter(self, name: str, value: float) -> None:
        identity = name.encode()
        read = mavlink.MAVLink_param_request_read_message(self.system, 1, identity, -1)
        present = self.answer("PARAM_VALUE", lambda m: m.param_id == name, read)
        assert present is not None, f"{name} does not exist"
        kind = present.param_type
        if kind == mavlink.MAV_PARAM_TYPE_INT32:
            value = struct.unpack("<f", struct.pack("<i", int(value)))[0]
        message = mavlink.MAVLink_param_set_message(self.system, 1, identity, value, kind)
        assert self.answer("PARAM_VALUE", lambda m: m.param_id == name, message) is not None

    def ready(self) -> None:
        self.until("ready to arm", lambda: self.can_arm)
        self.run(2.0)

    def airborne(self) -> None:
        """Take off to Hold at 10 m."""
        self.set_parameter("MIS_TAKEOFF_ALT", 10.0)
        assert self.command(mavlink.MAV_CMD_NAV_TAKEOFF) == mavlink.MAV_RESULT_ACCEPTED
        assert self.command(mavlink.MAV_CMD_COMPONENT_ARM_DISARM, 1.0) == mavlink.MAV_RESULT_ACCEPTED
        self.until("in Hold after the take-off", lambda: self.mode == "Hold" and self.in_air)
        self.run(2.0)


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        name: what happens.
        act: makes it happen; returns a MAV_RESULT, or None where no command is sent.
        result: expected MAV_RESULT.
        mode: expected mode afterwards, by PX4's name.
        armed: whether the vehicle is armed afterwards.
        in_air: whether it begins in Hold at 10 m, else disarmed on the ground.
        parameters: set before.
        wait: s until mode and arming are looked at.
        differs: outcome of real PX4 where the built-in stack's is another, with the reason.
    """

    name: str
    act: Callable[[Driver], int | None]
    mode: str
    result: int | None = None
    armed: bool = False
    in_air: bool = False
    parameters: dict[str, float] = field(default_factory=dict)
    wait: float = 2.5
    before: Callable[[Driver], None] = lambda _driver: None
    px4: tuple[int | None, str, bool] | None = None
    reason: str = ""

    @property
    def outcome(self) -> tuple[int | None, str, bool]:
        return self.result, self.mode, self.armed

    def line(self) -> str:
        """Its line of the table in docs/built-in-stack.md."""
        settings = ", ".join(f"{name} {value:g}" for name, value in self.parameters.items())
        real = f"{words(self.px4)}: {self.reason}" if self.px4 else ""
        return f"| {self.name} | {settings} | {words(self.outcome)} | {real} |"


def words(outcome: tuple[int | None, str, bool]) -> str:
    result, mode, armed = outcome
    parts = [RESULTS[result]] if result is not None else []
    return ", ".join([*parts, mode, "armed" if armed else "disarmed"])


def outcome_of(row: Row, driver: Driver) -> tuple[int | None, str, bool]:
    """Drive a vehicle through a row; a row in the air begins with the take-off."""
    for name, value in row.parameters.items():
        driver.set_parameter(name, value)
    row.before(driver)
    driver.run(0.5)
    if row.in_air:
        driver.airborne()
    result = row.act(driver)
    driver.run(row.wait)
    return result, driver.mode, driver.armed


ACCEPTED, REJECTED = mavlink.MAV_RESULT_ACCEPTED, mavlink.MAV_RESULT_TEMPORARILY_REJECTED
DENIED, UNSUPPORTED = mavlink.MAV_RESULT_DENIED, mavlink.MAV_RESULT_UNSUPPORTED

MODES = {
    "Manual": (1, 0),
    "Altitude": (2, 0),
    "Position": (3, 0),
    "Acro": (5, 0),
    "Stabilized": (7, 0),
    "Offboard": (6, 0),
    "Takeoff": (4, 2),
    "Hold": (4, 3),
    "Mission": (4, 4),
    "Return": (4, 5),
    "Land": (4, 6),
    "Follow": (4, 8),
}


def select(mode: str) -> Callable[[Driver], int]:
    return lambda driver: driver.set_mode(*MODES[mode])


def send_command(number: int, *params: float) -> Callable[[Driver], int]:
    return lambda driver: driver.command(number, *params)


def arm_in(mode: str) -> Callable[[Driver], int]:
    def act(driver: Driver) -> int:
        driver.set_mode(*MODES[mode])
        driver.run(1.5)
        return driver.command(400, 1.0)

    return act


def switch(name: str, value: bool) -> Callable[[Driver], None]:
    """Turn a stream of the driver on or off."""

    def act(driver: Driver) -> None:
        setattr(driver, name, value)

    return act


def battery(share: float) -> Callable[[Driver], None]:
    def act(driver: Driver) -> None:
        driver.battery = share

    return act


def change(name: str, value: float) -> Callable[[Driver], None]:
    return lambda driver: driver.set_parameter(name, value)


def offboard(driver: Driver) -> int:
    driver.offboard = True
    driver.run(1.0)
    return driver.set_mode(*MODES["Offboard"])


def offboard_lost(driver: Driver) -> None:
    assert offboard(driver) == ACCEPTED
    driver.run(2.0)
    driver.offboard = False


def sticks_lost(driver: Driver) -> None:
    driver.run(2.0)
    driver.sticks = False


GROUND = (
    *(Row(f"select {mode}", select(mode), mode, ACCEPTED) for mode in MODES),
    Row("select main mode 77", lambda d: d.set_mode(77), "Hold", REJECTED, px4=(ACCEPTED, "Hold", False),
        reason="it accepts a main mode that does not exist, and ignores it"),
    Row("select sub-mode 77 of Auto", lambda d: d.set_mode(4, 77), "Hold", REJECTED),
    *(
        Row(f"arm in {mode}", arm_in(mode), mode, REJECTED)
        for mode in ("Position", "Altitude", "Stabilized", "Offboard", "Mission", "Return", "Land")
    ),
    Row("arm in Hold", arm_in("Hold"), "Hold", ACCEPTED, armed=True),
    Row("arm, then disarm", lambda d: d.command(400, 1.0) or d.command(400, 0.0), "Hold", ACCEPTED),
    Row("COMPONENT_ARM_DISARM with 0.5", send_command(400, 0.5), "Hold", ACCEPTED, armed=True),
    Row("COMPONENT_ARM_DISARM with 2", send_command(400, 2.0), "Hold", UNSUPPORTED,
        px4=(NO_ANSWER, "Hold", False), reason="its commander does not answer what it does not support"),
    Row("take-off", send_command(22), "Takeoff", ACCEPTED),
    Row("land", send_command(21), "Land", ACCEPTED),
    Row("return", send_command(20), "Return", ACCEPTED),
    Row("start a mission without one", send_command(300, 0.0), "Hold", DENIED),
    Row("orbit", send_command(34, 5.0, 1.0), "Orbit", ACCEPTED),
    Row("reposition without the flag to change the mode", send_command(192, -1.0, 0.0), "Hold", UNSUPPORTED),
    Row("terminate", send_command(185, 1.0), "Hold", DENIED),
    Row("set home to a latitude of 91 deg", send_command(179, 0.0, 0.0, 0.0, 0.0, 91.0, 8.0, 500.0), "Hold",
        DENIED, px4=(ACCEPTED, "Hold", False), reason="it accepts any finite place"),
    Row("inject a failure", send_command(420, 0.0, 1.0, 0.0), "Hold", DENIED,
        parameters={"SYS_FAILURE_EN": 0}),
    Row("a command that does not exist", send_command(31999), "Hold", UNSUPPORTED),
    Row("arm with a critical battery", arm_in("Hold"), "Hold", REJECTED, before=battery(0.06)),
)  # fmt: skip
"""Rows that begin disarmed in Hold."""

AIR = (
    *(
        Row(f"select {mode} without sticks", select(mode), "Hold", REJECTED, armed=True, in_air=True)
        for mode in ("Altitude", "Position", "Stabilized", "Acro", "Manual")
    ),
    Row("select Mission without one", select("Mission"), "Hold", REJECTED, armed=True, in_air=True),
    Row("select Offboard without setpoints", select("Offboard"), "Hold", REJECTED, armed=True, in_air=True),
    Row("select Offboard with setpoints", offboard, "Offboard", ACCEPTED, armed=True, in_air=True),
    Row("select Position with sticks", select("Position"), "Position", ACCEPTED, armed=True, in_air=True,
        before=switch("sticks", True)),
    *(
        Row(f"select {mode}", select(mode), mode, ACCEPTED, armed=True, in_air=True)
        for mode in ("Return", "Land", "Follow")
    ),
    Row("orbit of 5 m", send_command(34, 5.0, 1.0), "Orbit", ACCEPTED, armed=True, in_air=True),
    Row("disarm", send_command(400, 0.0), "Hold", REJECTED, armed=True, in_air=True),
    Row("disarm by force", send_command(400, 0.0, 21196.0), "Hold", ACCEPTED, in_air=True),
    *(
        Row("the ground station is lost", switch("station", False), mode, armed=True, in_air=True, wait=20.0,
            parameters={"NAV_DLL_ACT": action, "COM_DL_LOSS_T": 10.0})
        for action, mode in ((0, "Hold"), (1, "Hold"), (2, "Return"), (3, "Land"))
    ),
    *(
        Row("sticks are lost", sticks_lost, mode, armed=True, in_air=True, wait=8.0,
            parameters={"NAV_RCL_ACT": action, "COM_RCL_EXCEPT": 0}, before=switch("sticks", True))
        for action, mode in ((1, "Hold"), (2, "Return"), (3, "Land"))
    ),
    *(
        Row("offboard setpoints are lost", offboard_lost, mode, armed=True, in_air=True, wait=8.5,
            parameters={"COM_OBL_RC_ACT": action})
        for action, mode in ((3, "Return"), (4, "Land"), (5, "Hold"))
    ),
    Row("offboard setpoints are lost, until it has landed", offboard_lost, "Offboard", in_air=True, wait=30.0,
        parameters={"COM_OBL_RC_ACT": 0}),
    *(
        Row(f"battery falls to {share:.0%}", battery(share), mode, armed=True, in_air=True, wait=8.0,
            parameters={"COM_LOW_BAT_ACT": action})
        for share, action, mode in (
            (0.14, 3, "Hold"), (0.06, 0, "Hold"), (0.06, 2, "Land"), (0.06, 3, "Return"), (0.04, 3, "Land"),
        )
    ),
    Row("armed with 6 % of charge, and nothing else", lambda _d: None, "Hold", armed=True, in_air=True,
        wait=8.0, parameters={"COM_LOW_BAT_ACT": 3, "COM_ARM_BAT_MIN": 0.01}, before=battery(0.06)),
    Row("armed with 6 % of charge, battery falls to 4 %", battery(0.04), "Land", armed=True, in_air=True,
        wait=8.0, parameters={"COM_LOW_BAT_ACT": 3, "COM_ARM_BAT_MIN": 0.01}, before=battery(0.06)),
    *(
        Row("above GF_MAX_VER_DIST of 5 m", change("GF_MAX_VER_DIST", 5.0), mode, armed=True, in_air=True,
            wait=8.0, parameters={"GF_ACTION": action})
        for action, mode in ((1, "Hold"), (2, "Hold"), (3, "Return"), (5, "Land"))
    ),
    Row("longer in the air than COM_FLT_TIME_MAX", change("COM_FLT_TIME_MAX", 5), "Return", armed=True,
        in_air=True, wait=8.0),
)  # fmt: skip
"""Rows that begin in Hold at 10 m."""
