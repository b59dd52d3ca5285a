"""What runs in the bridge's process: a session, its processes, the monitor and scheduled events."""
