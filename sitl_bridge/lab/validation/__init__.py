"""How well simulators predict real flights."""
