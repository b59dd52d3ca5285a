"""Flying with MAVSDK: scripts and plans, watching PX4 while it flies, and saying afterwards how it went."""
