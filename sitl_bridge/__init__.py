"""sitl-bridge: a physics-and-sensor server that real PX4 firmware flies against, in lockstep."""

__version__: str


def __getattr__(name: str) -> str:
    """The version, looked up only when it is asked for: that takes longer than loading the package."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version

    return version("sitl-bridge")
