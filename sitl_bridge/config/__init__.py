"""Files that describe airframes and worlds."""
