"""Reads the command line, runs what it asks for, and prints the outcome."""
