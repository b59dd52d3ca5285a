"""Collision avoidance by decentralised nonlinear model predictive control.

Pure code after Kamel, Alonso-Mora, Siegwart and Nieto, "Nonlinear Model Predictive Control for Multi-Micro
Aerial Vehicle Robust Collision Avoidance" (2017): neither sockets nor a flight stack are known here.
"""
