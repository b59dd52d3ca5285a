"""Plans of QGroundControl."""
