"""Researches flights: campaigns, identification, validation, environments."""
