"""The workflows and pipelines are valid YAML of the right form, and name files that exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "docs" / "examples" / "flight-tests"
WORKFLOWS = [*ROOT.glob(".github/workflows/*.yml"), *EXAMPLE.glob(".github/workflows/*.yml")]


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=[path.stem for path in WORKFLOWS])
def test_a_workflow_has_jobs_of_steps(path: Path) -> None:
    workflow = read(path)
    assert workflow[True], "on:"  # YAML 1.1 reads the word as true
    for name, job in workflow["jobs"].items():
        assert job["runs-on"], name
        for step in job["steps"]:
            assert len({"uses", "run"} & step.keys()) == 1, (name, step)
            assert step.keys() <= {"uses", "run", "with", "if", "name", "env"}, (name, step)
            if "uses" in step:
                assert re.fullmatch(r"[\w-]+/[\w-]+@v\d+", step["uses"])
            else:
                assert isinstance(step["run"], str)


def test_the_workflow_names_tests_that_exist() -> None:
    text = (ROOT / ".github" / "workflows" / "checks.yml").read_text(encoding="utf-8")
    named = re.findall(r"(?:tests|docker|scripts)/[\w./-]+", text)
    assert named
    for name in named:
        assert (ROOT / name).exists(), name


def test_the_gitlab_pipeline_has_a_script() -> None:
    (job,) = read(EXAMPLE / ".gitlab-ci.yml").values()
    assert all(isinstance(line, str) for line in job["script"])
    assert job["artifacts"]["paths"] == ["runs/"]
