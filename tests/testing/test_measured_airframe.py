"""The worked example of an airframe from measurements: its figures follow from its data, and it flies."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from support.docs_pages import write_files
from support.paths import DOCS

from sitl_bridge.cli.facts import facts_of
from sitl_bridge.core.vehicle.airframe_file import load_airframe

PAGE = DOCS / "how-to" / "measured-airframe.md"


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_files(PAGE, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_file_has_the_figures_that_follow_from_the_measurements(
    example: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = runpy.run_path(str(example / "fit.py"))
    written = load_airframe(example / "mine.yaml")
    rotor = written.rotor_model.model_dump()
    assert rotor["thrust_c2"] == pytest.approx(found["c2"], rel=5e-3)
    assert rotor["torque_thrust_ratio"] == pytest.approx(found["ratio"], rel=5e-3)
    for axis in ("xx", "yy", "zz"):
        assert getattr(written.inertia, axis) == pytest.approx(found[axis], rel=5e-3)
    page = PAGE.read_text("utf-8")
    first, second = capsys.readouterr().out.splitlines()
    assert f"`{first}`" in page
    assert second.endswith("1.0%")
    assert "at most 1.0 %" in page


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_example_hovers_at_half_throttle_and_flies_a_leg(
    example: Path, pytester: pytest.Pytester
) -> None:
    assert 0.45 < facts_of(str(example / "mine.yaml"))["hover_throttle"] < 0.55
    pytester.makepyfile(
        f"""
        import pytest

        @pytest.mark.airframe({str(example / "mine.yaml")!r})
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
