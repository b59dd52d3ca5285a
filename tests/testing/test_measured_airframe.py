"""The worked example of an airframe from measurements: its figures follow from its data, and it flies."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.docs_pages import write_files
from support.paths import DOCS

from sitl_bridge.cli.facts import derive_facts
from sitl_bridge.core.dynamics.rotor import CoefficientRotor
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.lab.importing.estimates import Given
from sitl_bridge.lab.importing.importer import Choices, import_vehicle

PAGE = DOCS / "how-to" / "measured-airframe.md"


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The airframe that the page's command makes of the page's files."""
    write_files(PAGE, tmp_path)
    monkeypatch.chdir(tmp_path)
    given = Given(None, 1.284, None, "10x4.7", 4, 3.3)
    files = [tmp_path / "frame.params", tmp_path / "thrust_stand.csv"]
    return import_vehicle(files, tmp_path / "mine.yaml", given, Choices(None, False, {})).path


def test_the_file_has_the_figures_that_follow_from_the_measurements(example: Path) -> None:
    rows = np.genfromtxt("thrust_stand.csv", delimiter=",", names=True)
    thrust = rows["thrust_g"] * 9.80665e-3  # N
    speed = rows["rpm"] * np.pi / 30.0
    c2 = float((thrust * speed**2).sum() / (speed**4).sum())
    ratio = float((rows["torque_mNm"] * 1e-3 * thrust).sum() / (thrust**2).sum())
    rotor = load_airframe(example).rotor_model
    assert isinstance(rotor, CoefficientRotor)
    assert rotor.thrust_c2 == pytest.approx(c2, rel=0.02)
    assert rotor.torque_thrust_ratio == pytest.approx(ratio, rel=0.02)
    # The pendulum of the page: m g D^2 T^2 / (16 pi^2 L).
    page = PAGE.read_text("utf-8")
    for seconds, inertia in ((21.34, "0.0121"), (21.94, "0.0128"), (28.70, "0.0219")):
        found = 1.284 * 9.80665 * 0.40**2 * (seconds / 20.0) ** 2 / (16.0 * np.pi**2 * 1.20)
        assert found == pytest.approx(float(inertia), rel=5e-3)
        assert inertia in page


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_example_hovers_at_half_throttle_and_flies_a_leg(
    example: Path, pytester: pytest.Pytester
) -> None:
    file = example
    assert 0.4 < derive_facts(str(file))["hover_throttle"] < 0.6
    pytester.makepyfile(
        f"""
        import pytest

        @pytest.mark.airframe({str(file)!r})
        def test_leg(sitl):
            sitl.arm()
            sitl.take_off(4)
            sitl.go_to((8, 0, -5))
            assert sitl.reached((8, 0, -5), within=1.5)
            sitl.land()
        """
    )
    pytester.runpytest_inprocess(
        "-p", "sitl_bridge.testing.pytest_plugin", "-p", "no:cacheprovider"
    ).assert_outcomes(passed=1)
