"""``python -m sitl_bridge``: the same as the command ``sitl-bridge``."""

from sitl_bridge.cli.main import main

if __name__ == "__main__":
    main()
