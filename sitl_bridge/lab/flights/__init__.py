"""Reads real and recorded flights for identification and validation: logs, data sets' tables, runs."""
