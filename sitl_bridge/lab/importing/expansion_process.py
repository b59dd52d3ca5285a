"""Expands one template, xacro or jinja, in a process of its own that may read only the template's files.

Expressions of xacro are Python, those of jinja nearly.  After the imports an audit hook refuses every event
that reads outside the given directories, writes, starts a process or opens a connection; processor time and
memory are limited.  The request is JSON on the standard input, the answer on the standard output.
"""

from __future__ import annotations

import json
import math
import os
import resource
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

SECONDS, MEMORY = 10, 1 << 30
HARMLESS = {
    "compile", "exec", "import", "object.__getattr__", "sys._getframe", "code.__new__", "marshal.loads",
    "marshal.dumps", "builtins.id",
}  # fmt: skip
READ_ONLY = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY | os.O_DIRECTORY
READING = {"open", "os.listdir", "os.scandir", "glob.glob", "pathlib.Path.glob"}


def confine(roots: Iterable[str]) -> None:
    """Let this process read below these directories and Python's own, and do nothing else from now on."""
    allowed = [os.path.realpath(place) for place in (*roots, *sys.path, sys.base_prefix) if place]

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in HARMLESS:
            return
        if event in READING and arguments and isinstance(arguments[0], str | bytes | os.PathLike):
            place = os.path.realpath(os.fsdecode(arguments[0]))
            writes = event == "open" and bool(arguments[2] & ~READ_ONLY)
            inside = any(place == root or place.startswith(root + os.sep) for root in allowed)
            if inside and not writes:
                return
            raise PermissionError(f"{place} lies outside the template's directories")
        raise PermissionError(f"a template may not do this: {event}")

    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    sys.addaudithook(hook)


class Arguments(dict[str, str]):
    """Arguments of a xacro file; one without a value is the vehicle's name, and false as a condition."""

    def __init__(self, given: dict[str, str], name: str) -> None:
        super().__init__(given)
        self.name = name

    def __missing__(self, key: str) -> str:
        return self.name


def package(name: str, roots: Iterable[str]) -> str:
    """Directory of a ROS package below the roots: that of its name, or whose package.xml names it."""
    for root in roots:
        for place in (Path(root), *sorted(Path(root).glob("*")), *sorted(Path(root).glob("*/*"))):
            if place.name == name and place.is_dir():
                return str(place)
            manifest = place / "package.xml"
            if manifest.is_file() and f"<name>{name}</name>" in manifest.read_text(encoding="utf-8"):
                return str(place)
    raise ValueError(f"the package {name} is not below {', '.join(roots)}")


def expand_xacro(file: str, roots: list[str], given: dict[str, str]) -> str:
    """Expand a xacro file."""
    import xacro
    from xacro import substitution_args

    substitution_args._eval_find = lambda name: package(name, roots)
    document = xacro.parse(None, file)
    confine(roots)
    arguments = Arguments(given, Path(file).stem.partition(".")[0].removesuffix("_base"))
    boolean = xacro.get_boolean_value

    def holds(value: object, condition: str | None) -> bool:
        return (condition is None or value != arguments.name) and bool(boolean(value, condition))

    xacro.get_boolean_value = holds
    xacro.init_stacks(file)
    xacro.process_doc(document, mappings=arguments)
    return str(document.toprettyxml(indent=" "))


def expand_jinja(file: str, roots: list[str], given: dict[str, str]) -> str:
    """Expand a jinja file; values are YAML, and names that are not given are empty."""
    import jinja2
    import numpy as np
    import yaml
    from jinja2.sandbox import SandboxedEnvironment

    above = [place for place in Path(file).parents if any(place.is_relative_to(root) for root in roots)]
    loader = jinja2.FileSystemLoader([*above, *roots])

    class Empty(jinja2.ChainableUndefined):
        def __call__(self, *_: object, **__: object) -> Empty:  # type: ignore[override]
            return self

    environment = SandboxedEnvironment(loader=loader, undefined=Empty)
    environment.from_string("{% for a in b %}{{ a }}{% endfor %}").render()
    values = {name: yaml.safe_load(text) for name, text in given.items()}
    confine(roots)
    # PX4's Gazebo classic expands its models with numpy at hand (scripts/jinja_gen.py), MRS with math, in
    # imported files, too; aerostack2 names its vehicle by `namespace`, which is jinja's without a value.
    environment.globals |= {"np": np, "math": math, "namespace": Path(file).name.partition(".")[0]}
    return environment.get_template(Path(file).name).render(values)


def main() -> None:
    """Expand the requested file."""
    request = json.load(sys.stdin)
    expand = expand_xacro if request["kind"] == "xacro" else expand_jinja
    try:
        answer = {"text": expand(request["file"], request["roots"], request["arguments"])}
    except ImportError as error:
        answer = {"missing": str(error.name)}
    except BaseException as error:  # noqa: BLE001 - whatever a template raises is its fault
        answer = {"error": f"{type(error).__name__}: {error}"}
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main()
