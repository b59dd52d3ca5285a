"""The command ``sitl-bridge``, and ``python -m sitl_bridge``."""

from sitl_bridge.base.system import signals

signals.exit_on_signals()  # before anything else is imported

from sitl_bridge.cli.main import main  # noqa: E402

if __name__ == "__main__":
    main()
