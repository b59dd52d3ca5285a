"""Outlets: a user's own one, and the options of all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.docs_pages import write_files
from support.paths import DOCS

from sitl_bridge.base.error_log import ErrorLog
from sitl_bridge.base.errors import UserError
from sitl_bridge.core.simulation.simulation import Simulation
from sitl_bridge.link.hil.server import LockstepServer
from sitl_bridge.live.outlets import CustomOutlet, CustomSettings, parse_outlets
from sitl_bridge.live.run.outlet import RunContext


def test_an_outlet_of_the_users_own_takes_the_state_until_the_run_ends(
    make_simulation: Callable[..., Simulation],
    free_port: Callable[[], int],
    wait_for: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_files(DOCS / "how-to" / "outlet.md", tmp_path)
    monkeypatch.chdir(tmp_path)
    (settings,) = parse_outlets({"outlet": "altitudes.py:Altitudes"})
    assert isinstance(settings, CustomSettings)
    shown: list[float] = []
    show = settings.outlet.show

    def shows(snapshot: Any) -> None:
        show(snapshot)
        shown.append(snapshot.time)

    settings.outlet.__dict__["show"] = shows
    settings.outlet.__dict__["rate"] = 200.0
    with LockstepServer(make_simulation("iris"), ports=[free_port()]) as server:
        height = -float(server.simulation.states["position"][0, 2])
        outlet = settings.make(RunContext(server, tmp_path))
        outlet.start()
        wait_for(lambda: len(shown) > 1, "two snapshots")
        outlet.close()
        outlet.close()
    head, *rows = (tmp_path / "altitudes.csv").read_text().splitlines()
    assert head == "time,0"
    assert len(rows) == len(shown)
    assert float(rows[0].split(",")[1]) == pytest.approx(height)


def test_an_error_of_an_outlet_ends_it_alone(
    make_simulation: Callable[..., Simulation],
    free_port: Callable[[], int],
    wait_for: Callable[..., None],
    tmp_path: Path,
) -> None:
    (tmp_path / "own.py").write_text(
        "import sitl_bridge as sb\n"
        "class Own(sb.CustomOutlet):\n"
        "    def show(self, snapshot):\n"
        "        raise ValueError('no such device')\n"
    )
    errors = ErrorLog()
    with LockstepServer(make_simulation("iris"), ports=[free_port()]) as server:
        outlet = CustomSettings.parse(f"{tmp_path / 'own.py'}:Own").make(
            RunContext(server, tmp_path, errors=errors)
        )
        outlet.start()
        wait_for(lambda: errors.lines, "its error")
        outlet.close()
    assert errors.lines == ["the outlet Own failed: ValueError('no such device') (own.py, line 4)"]


def test_an_outlet_that_does_not_end_is_left_behind(
    make_simulation: Callable[..., Simulation],
    free_port: Callable[[], int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Waiting(CustomOutlet):
        def open(self, names: Sequence[str]) -> None:
            del names
            released.wait()

    released = threading.Event()
    monkeypatch.setattr("sitl_bridge.live.outlets.CLOSE_LIMIT", 0.1)
    errors = ErrorLog()
    with LockstepServer(make_simulation("iris"), ports=[free_port()]) as server:
        outlet = CustomSettings(Waiting()).make(RunContext(server, tmp_path, errors=errors))
        outlet.start()
        outlet.close()
        released.set()
    assert errors.lines == ["the outlet Waiting failed: it has not ended 0.1 s after the flight"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("rate = 0", "defines no show"),
        ("rate = 0\n    def show(self, snapshot): pass", "rate of 0 Hz is not above"),
    ],
)
def test_an_outlet_without_show_or_rate_is_refused(body: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text(f"import sitl_bridge as sb\nclass Own(sb.CustomOutlet):\n    {body}\n")
    with pytest.raises(UserError, match=message):
        CustomSettings.parse(f"{file}:Own")


@pytest.mark.parametrize(
    ("option", "text", "message"),
    [
        ("outlet", "none.py:Own", "no such Python file for an? outlet"),
        ("view", "x", "--view 'x': write a PORT"),
        ("view", "80", "--view 80: give a port from 1024 to 65535"),
        ("ros2", "233", "a domain of ROS 2 is 0 to 232"),
    ],
)
def test_a_value_that_is_none_is_refused(option: str, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse_outlets({option: text})
