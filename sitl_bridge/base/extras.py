"""The message for an optional package that is not installed."""

from __future__ import annotations

from sitl_bridge.base.errors import UserError


def missing_package(package: str, purpose: str, extra: str = "perception") -> UserError:
    """The error for an optional package that is not installed.

    Args:
        package: its name for pip.
        purpose: what it reads, in the plural: "meshes".
        extra: of this package, which installs it.
    """
    return UserError(
        f"{purpose} need the package {package}, which is not installed: pip install {package}, or"
        f" pip install 'sitl-bridge[{extra}]'"
    )
