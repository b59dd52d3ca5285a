"""State out and commands in while a run goes on: message bus, live page."""
