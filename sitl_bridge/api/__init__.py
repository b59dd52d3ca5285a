"""What a user types in Python: fleets and physics in one process, flights and servers of the command line.

The public names are in ``sitl_bridge/__init__.py``, which imports them from here when they are first used.
Nothing here is known to the rest of the package but ``cli/``.
"""
