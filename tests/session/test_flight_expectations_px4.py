"""PX4's own SITL expectations of a multirotor, flown by every build: px4_expectations.py has the cases.

What PX4's tests compare with Gazebo's ground truth is compared with the simulation's here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.paths import MISSIONS, ROOT
from support.px4_expectations import CASES
from support.px4_flights import fly, settings

from sitl_bridge.analysis.evaluation.summary import Outcome
from sitl_bridge.link.px4.find import find_px4
from sitl_bridge.link.px4.versions import release
from sitl_bridge.record.truth_log import read_truth
from sitl_bridge.session.session import Session

pytestmark = pytest.mark.px4

SCRIPT = ROOT / "tests" / "support" / "px4_expectations.py"
HEXAROTOR = [case for case in CASES if "motor" in case or case.endswith("_on_failure")]
QUADROTOR = [case for case in CASES if case not in HEXAROTOR]
BY_HAND = 2.0
"""Times real time where sticks are sent at 20 Hz of the vehicle's clock and missed after 0.5 s of it."""


def flown(case: str, runs: Path, airframe: str, *options: str) -> tuple[Outcome, NDArray[np.void], str]:
    """How a case ended, the true motion, and what the console showed."""
    changes: dict[str, Any] = {"speed": BY_HAND} if case.startswith("manual") else {}
    with Session(settings(SCRIPT, runs, airframe, arguments=(case, *options), **changes)) as session:
        session.fly()
    outcome = session.outcome_of(session.vehicles[0])
    table = read_truth(session.directory.truth)
    told = outcome.reason or "succeeded"
    print(f"{find_px4().version} {airframe} {case}: {told}, {from_home(table):.2f} m from home")
    return outcome, table, (session.directory.path / "console.log").read_text(encoding="utf-8")


def from_home(table: NDArray[np.void]) -> float:
    """m in truth between where it stood and where it ended."""
    north, east = table["position_north"], table["position_east"]
    return float(np.hypot(north[-1] - north[0], east[-1] - east[0]))


def misses_a_stopped_motor() -> bool:
    """Whether a motor that is injected as off is not detected as failed, as from v1.17 on.

    Before, such a motor stops because its telemetry ends, which is detected.  From v1.17 on it stops and
    reports the 1 A that PX4's simulator module makes up for a motor at rest, which fits its thrust setpoint
    of none (FailureInjector.cpp).  In v1.17 a motor has failed once its telemetry ends too, as that of a dead
    speed controller does.  In v1.18 that is not detected either, because nothing calls manipulateEscStatus of
    the FailureInjector since its check moved to escCheck.cpp.
    """
    return version() >= (1, 17)


def version() -> tuple[int, int]:
    """Major and minor number of the version that flies."""
    return release(find_px4().version) or (99, 0)


def own_tolerances() -> tuple[str, ...]:
    """What PX4 v1.14 expects of offboard flights, and how far below its height it may end a climb."""
    if version() >= (1, 15):
        return ()
    return ("--radius", "0.1", "--limit", "120", "--take-off-tolerance", "1")


@pytest.mark.parametrize("case", QUADROTOR)
def test_a_quadrotor_does_what_px4_expects(case: str, tmp_path: Path) -> None:
    outcome, table, _ = flown(case, tmp_path, "iris", *own_tolerances())
    if case == "takeoff_and_hold" and version() < (1, 15) and not outcome.succeeded:
        # A case of v1.16.  v1.14 ends a climb up to 0.8 m low, and moves decimetres as it begins to hold.
        assert "height changed by" in outcome.reason
        return
    assert outcome.succeeded, outcome.reason
    if case in ("offboard_takeoff_and_land", "offboard_position"):
        assert from_home(table) < (1.0 if version() < (1, 16) else 2.0)
    if case.startswith("manual"):
        assert from_home(table) > 5.0


@pytest.mark.parametrize("case", HEXAROTOR)
def test_a_hexarotor_does_what_px4_expects_when_motors_fail(case: str, tmp_path: Path) -> None:
    must_be_detected = case.endswith("_on_failure")
    if must_be_detected and version() >= (1, 18):
        pytest.skip("this PX4 detects no injected failure of a motor: FailureInjector changes no telemetry")
    options = ("--dead-telemetry",) if must_be_detected and misses_a_stopped_motor() else ()
    airframe = "typhoon_h480"
    if case == "two_motors" and version() >= (1, 17):
        # Not detected, both stay in the allocation and the vehicle spins.  To keep to its legs it needs the
        # torque of Gazebo's rotors, five times the physical one, for which the case was written.
        airframe += "_gazebo"
    outcome, table, console = flown(case, tmp_path, airframe, *own_tolerances(), *options)
    if case == "terminate_on_failure" and not outcome.succeeded:
        # PX4 has terminated, but its simulator module sends nothing more once control allocation has ended
        # (PWMSim.cpp, updateOutputs): whether its last frame stops the motors is a race within PX4, and a
        # simulator goes on with that frame.
        assert "Flight termination active" in console
        assert table["answered"][-1] == 0
        return
    assert outcome.succeeded, outcome.reason
    if case in ("one_motor", "each_motor_and_back", "return_on_failure"):
        assert from_home(table) < 5.0
    if case == "one_motor":
        landing = table[(table["armed"] == 1) & (table["position_down"] < -3.0)][-250:]
        assert np.all(landing["control_0"] <= 0.0)
        assert np.mean([landing[f"control_{k}"] for k in range(1, 6)]) > 0.1


@pytest.mark.parametrize("airframe", ["firefly", "ar100_x6"])
def test_a_hexarotor_with_light_rotors_keeps_its_height_while_motors_fail_and_return(
    airframe: str, tmp_path: Path
) -> None:
    outcome, _, _ = flown("each_motor_and_back", tmp_path, airframe, *own_tolerances())
    assert outcome.succeeded, outcome.reason


def test_a_stopped_motor_whose_current_is_made_up_is_not_detected(tmp_path: Path) -> None:
    if not misses_a_stopped_motor():
        pytest.skip("this PX4 injects a motor as off by ending its telemetry, which it detects")
    outcome, table, _ = flown("return_on_failure", tmp_path, "typhoon_h480")
    assert "for it to disarm; mode HOLD" in outcome.reason
    assert table["control_0"][-1] <= 0.0, "the motor was stopped"


@pytest.mark.parametrize("seed", range(10))
def test_it_holds_its_point_a_minute_within_a_quarter_metre(seed: int, tmp_path: Path) -> None:
    """By PX4's estimate, of the point it holds; how far that is from where the hold began is printed."""
    arguments = ("--seconds", "60", "--height", "10")
    outcome, record, _ = fly(MISSIONS / "hover.py", tmp_path, seed=seed, arguments=arguments)
    assert outcome.succeeded, outcome.reason
    held = record.deviations["hold"]
    print(f"{find_px4().version} seed {seed}: RMS {held.rms:.3f} m, at most {held.max:.3f} m")
    assert held.seconds > 50.0
    assert held.max < 0.25
