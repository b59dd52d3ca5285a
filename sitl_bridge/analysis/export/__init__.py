"""Turns recordings into other programs' formats: MCAP with ROS 2's messages, CSV and Parquet."""
