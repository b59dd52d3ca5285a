"""Compiled code: the decorator, the cache of machine code and random streams."""
