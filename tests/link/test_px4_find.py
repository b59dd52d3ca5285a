"""PX4 is found where it is said to be, and a message says what to do where it is not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from support.made_up_px4 import make_build

from sitl_bridge.base.errors import UserError
from sitl_bridge.cli import doctor
from sitl_bridge.link.px4.find import find_px4


@pytest.fixture(autouse=True)
def nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PX4_DIR", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def test_source_tree_build_directory_prefix_and_executable_all_name_the_build(tmp_path: Path) -> None:
    root = make_build(tmp_path / "PX4" / "build" / "px4_sitl_default")
    for given in (tmp_path / "PX4", root, root / "bin" / "px4"):
        build = find_px4(given)
        assert build.executable == root / "bin" / "px4"
        assert build.etc == root / "etc"


def test_explicit_directory_wins_over_environment_and_that_over_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_home = make_build(tmp_path / "home" / "PX4-Autopilot" / "build" / "px4_sitl_default")
    named = make_build(tmp_path / "named")
    explicit = make_build(tmp_path / "explicit")
    assert find_px4().root == at_home
    monkeypatch.setenv("PX4_DIR", str(named))
    assert find_px4().root == named
    assert find_px4(explicit).root == explicit


def test_build_without_lockstep_is_passed_over(tmp_path: Path) -> None:
    make_build(tmp_path / "build" / "px4_sitl_nolockstep")
    with pytest.raises(UserError, match=r"contains no bin/px4"):
        find_px4(tmp_path)
    other = make_build(tmp_path / "build" / "px4_sitl_test")
    assert find_px4(tmp_path).root == other
    usual = make_build(tmp_path / "build" / "px4_sitl_default")
    assert find_px4(tmp_path).root == usual


def test_everything_that_was_tried_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        find_px4()
    assert str(tmp_path / "home" / "PX4-Autopilot") in str(caught.value)
    assert "--px4" in str(caught.value)
    assert "make px4_sitl" in str(caught.value)


def test_source_tree_without_a_build_says_what_to_type(tmp_path: Path) -> None:
    (tmp_path / "ROMFS" / "px4fmu_common").mkdir(parents=True)
    with pytest.raises(UserError, match=f"make -C {tmp_path} px4_sitl"):
        find_px4(tmp_path)


def test_executable_without_permission_is_told(tmp_path: Path) -> None:
    root = make_build(tmp_path)
    (root / "bin" / "px4").chmod(0o644)
    with pytest.raises(UserError, match=r"chmod \+x"):
        find_px4(root)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads ELF headers")
def test_executable_of_another_machine_is_told(tmp_path: Path) -> None:
    header = bytearray(Path(sys.executable).resolve().read_bytes()[:64])
    same = make_build(tmp_path / "same", bytes(header))
    assert find_px4(same).root == same
    header[18] ^= 0xFF
    with pytest.raises(UserError, match="another kind of machine"):
        find_px4(make_build(tmp_path / "other", bytes(header)))


def test_incomplete_build_is_told(tmp_path: Path) -> None:
    root = make_build(tmp_path)
    (root / "etc" / "init.d-posix" / "rcS").unlink()
    with pytest.raises(UserError, match="is incomplete"):
        find_px4(root)


@pytest.mark.parametrize("left_out", ["simulator_mavlink", "pwm_out_sim"])
def test_build_without_the_modules_of_simulation_is_refused_by_name(
    left_out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_build(tmp_path)
    (root / "bin" / f"px4-{left_out}").unlink()
    with pytest.raises(UserError, match=f"was built without {left_out}, .* CONFIG_COMMON_SIMULATION=y"):
        find_px4(root)
    monkeypatch.setenv("PX4_DIR", str(root))
    finding = doctor.check_px4()
    assert finding.grade == "missing"
    assert f"was built without {left_out}" in finding.text


def test_version_comes_from_the_build_header(tmp_path: Path) -> None:
    root = make_build(tmp_path)
    header = root / "src" / "lib" / "version" / "build_git_version.h"
    header.parent.mkdir(parents=True)
    header.write_text(
        '#define PX4_GIT_VERSION_STR "5b6e44161209f322c33f1546cae113583f8c03ce"\n'
        '#define PX4_GIT_TAG_STR "v1.16.0-alpha1"\n'
    )
    assert find_px4(root).version == "v1.16.0-alpha1"


def test_version_of_an_installed_px4_comes_from_its_executable(tmp_path: Path) -> None:
    make_build(tmp_path / "a", b"\0something v1.0\0v1.17.0-beta1\0more\0")
    assert find_px4(tmp_path / "a").version == "v1.17.0-beta1"
    make_build(tmp_path / "b", b"\0no tag in here\0")
    assert find_px4(tmp_path / "b").version == "unknown"
    make_build(tmp_path / "c", b"")
    assert find_px4(tmp_path / "c").version == "unknown"


def test_the_layout_of_the_debian_package_is_found_with_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = make_build(tmp_path / "opt" / "px4", b"#!/bin/sh\n\0v1.16.0\0")
    on_path = tmp_path / "usr" / "bin"
    on_path.mkdir(parents=True)
    (on_path / "px4").symlink_to(package / "bin" / "px4")
    monkeypatch.setenv("PATH", str(on_path))
    monkeypatch.setattr("sitl_bridge.link.px4.find.PACKAGE", tmp_path / "none")
    assert find_px4().root == package  # by the link on PATH
    monkeypatch.setattr("sitl_bridge.link.px4.find.PACKAGE", package)
    monkeypatch.delenv("PATH")
    found = find_px4()
    assert (found.root, found.version) == (package, "v1.16.0")
    finding = doctor.check_px4()
    assert (finding.grade, finding.text) == ("ok", f"v1.16.0 in {package}")
