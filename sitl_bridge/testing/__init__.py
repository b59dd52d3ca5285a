"""Flies vehicles within tests: what the fixtures of pytest_plugin.py hand out, without pytest itself."""
