"""Arming checks, failsafes, geofence, feasibility of missions and injected failures of the built-in stack."""
