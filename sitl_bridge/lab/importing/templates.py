"""Reads model files: SDF and URDF, and the templates xacro and jinja."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from sitl_bridge.base.errors import ConfigurationError, shorten
from sitl_bridge.base.extras import missing_package
from sitl_bridge.base.input_file import exists
from sitl_bridge.base.xml_file import MAX_BYTES, XmlNode, parse_xml, read_xml
from sitl_bridge.core.world.sdf_world import search_path
from sitl_bridge.lab.importing import expansion_process
from sitl_bridge.lab.importing.model_tree import sdf_of

MARKERS = ("package.xml", "model.config")
"""Files that the top of a package or model has."""
WAIT = 60.0
"""s; the process stops itself after SECONDS of processor time."""


def tree_of(file: Path) -> Path:
    """The directory whose files a model may use: its repository, or that which holds its package or model."""
    parents = list(file.resolve().parents)
    repository = next((place for place in parents if exists(place / ".git")), None)
    package = (place.parent for place in parents if any(exists(place / marker) for marker in MARKERS))
    return repository or next(package, parents[0])


def read_model_file(file: Path, arguments: Mapping[str, str]) -> XmlNode:
    """The root of a model's file as SDF.

    Raises:
        ConfigurationError: for a file that cannot be read, and with the fault of a template.
        UserError: if the package that expands the template is not installed.
    """
    name = file.name.lower()
    kind = "xacro" if ".xacro" in name else "jinja" if name.endswith((".jinja", ".j2")) else None
    root = read_xml(file) if kind is None else parse_xml(_expand(file, kind, arguments), file)
    return sdf_of(root) if root.tag == "robot" else root


def _expand(file: Path, kind: str, arguments: Mapping[str, str]) -> str:
    roots = [tree_of(file), *(place for place in search_path(file)[4:] if place.is_dir())]
    request = {
        "kind": kind, "file": str(file.resolve()), "roots": [str(r.resolve()) for r in roots],
        "arguments": dict(arguments),
    }  # fmt: skip
    command = [sys.executable, "-I", expansion_process.__file__]
    try:
        done = subprocess.run(
            command, input=json.dumps(request).encode(), capture_output=True, timeout=WAIT, check=False
        )
        answer = json.loads(done.stdout[: 2 * MAX_BYTES])
    except (subprocess.TimeoutExpired, ValueError):
        answer = {"error": f"does not end within {expansion_process.SECONDS} s of processor time"}
    if "missing" in answer:
        raise missing_package(answer["missing"], f"{kind} templates", "import")
    if "error" in answer:
        remedy = "; --arg NAME=VALUE gives it" if "undefined" in answer["error"].lower() else ""
        raise ConfigurationError(str(file), [f"the {kind} template: {shorten(answer['error'], 300)}{remedy}"])
    return str(answer["text"])
