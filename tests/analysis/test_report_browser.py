"""The report in a real headless Chromium: no error, no request, and what it shows and does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.browser import open_browser
from support.run_directories import make_run

from sitl_bridge.analysis.evaluation.run_record import read_run
from sitl_bridge.analysis.report.report_page import write_report
from sitl_bridge.analysis.report.reported_run import report

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with open_browser() as found:
        yield found


@pytest.fixture(params=["light", "dark"])
def opened(browser: Any, request: pytest.FixtureRequest) -> Iterator[tuple[Any, list[str]]]:
    """A page that writes down errors and requests."""
    page = browser.new_page(viewport={"width": 1300, "height": 900}, color_scheme=request.param)
    faults: list[str] = []
    page.on("console", lambda message: faults.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("request", lambda one: None if one.url.startswith(("file:", "data:")) else faults.append(one.url))
    yield page, faults
    page.close()


def show(page: Any, runs: list[Path], file: Path) -> None:
    write_report(report([read_run(run) for run in runs]), file)
    page.goto(file.as_uri())
    wait_for_curves(page)


def wait_for_curves(page: Any) -> None:
    """Curves are drawn once they are near the window."""
    page.locator(".plot").first.scroll_into_view_if_needed()
    page.wait_for_selector(".uplot canvas")


def colours(page: Any, selector: str) -> int:
    """Number of different colours in a canvas."""
    script = """(c) => {
        const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data, s = new Set();
        for (let i = 0; i < d.length; i += 4) s.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]);
        return s.size; }"""
    return int(page.eval_on_selector(selector, script))


def test_a_report_opens_without_error_and_its_parts_work_together(
    opened: tuple[Any, list[str]], tmp_path: Path
) -> None:
    page, faults = opened
    show(page, [make_run(tmp_path / "run")], tmp_path / "report.html")
    assert "Passed" in page.inner_text(".verdict .mark")
    assert page.inner_text("h1") == "there & <b>back</b>.py"
    assert page.locator(".view canvas").count() == 2
    for number in (0, 1):
        assert colours(page, f":nth-match(.view canvas, {number + 1})") > 20
    titles = page.locator(".plot h3").all_inner_texts()
    assert "Height above the origin (m)" in titles
    assert "injected" in page.inner_text("#events")
    # Zooming one curve zooms all of them.
    page.locator(".plot[data-key=height] .u-over").scroll_into_view_if_needed()
    box = page.locator(".plot[data-key=height] .u-over").bounding_box()
    page.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 50, steps=4)
    page.mouse.up()
    ranges = page.evaluate("zoomedRanges()")
    assert len(ranges) >= 2
    assert max(abs(r[0] - ranges[0][0]) + abs(r[1] - ranges[0][1]) for r in ranges) < 1e-6
    assert 5.0 < ranges[0][1] - ranges[0][0] < 15.0
    # The cursor in a curve moves the markers of the map.
    before = page.eval_on_selector(":nth-match(.view canvas, 1)", "(c) => c.toDataURL()")
    page.mouse.move(box["x"] + 0.4 * box["width"], box["y"] + 60)
    after = page.eval_on_selector(":nth-match(.view canvas, 1)", "(c) => c.toDataURL()")
    assert before != after
    assert faults == []


def test_the_view_in_space_is_turned_by_dragging(opened: tuple[Any, list[str]], tmp_path: Path) -> None:
    page, faults = opened
    show(page, [make_run(tmp_path / "run")], tmp_path / "report.html")
    space = ":nth-match(.view canvas, 2)"
    page.locator(space).scroll_into_view_if_needed()
    box = page.locator(space).bounding_box()
    before = page.eval_on_selector(space, "(c) => c.toDataURL()")
    page.mouse.move(box["x"] + 200, box["y"] + 200)
    page.mouse.down()
    page.mouse.move(box["x"] + 300, box["y"] + 240, steps=3)
    page.mouse.up()
    assert page.eval_on_selector(space, "(c) => c.toDataURL()") != before
    assert faults == []


def test_fleets_and_several_runs_open_without_error(opened: tuple[Any, list[str]], tmp_path: Path) -> None:
    page, faults = opened
    runs = [make_run(tmp_path / "fleet", vehicles=3), make_run(tmp_path / "killed", summary=False)]
    show(page, runs, tmp_path / "report.html")
    marks = page.locator(".verdict .mark").all_inner_texts()
    assert ["Passed" in marks[0], "Incomplete" in marks[1]] == [True, True]
    options = page.locator(".bar option").all_inner_texts()
    assert options[0] == "Runs side by side"
    for number in range(len(options)):
        page.select_option(".bar select", str(number))
        wait_for_curves(page)
    assert faults == []
