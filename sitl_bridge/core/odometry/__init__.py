"""Estimators of a sensor's motion from what it measures: clouds of a lidar, pairs of images.

An estimator gets arrays and returns poses.  It knows no simulation, no vehicle and no file.
"""
