"""The public Python API: fleets and physics in one process, flights and servers of the command line.

The public names are in ``sitl_bridge/__init__.py``, which imports them from here when they are first used.
Only ``cli/`` imports from here.
"""
