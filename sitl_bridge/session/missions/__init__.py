"""Runs in a mission's own process, over MAVSDK, against simulated or real vehicles."""
