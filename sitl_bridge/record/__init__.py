"""Writes the run directory and its logs while a vehicle flies, and reads them back."""
