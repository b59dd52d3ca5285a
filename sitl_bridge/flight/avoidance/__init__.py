"""Collision avoidance by decentralised nonlinear model predictive control.

After Kamel, Alonso-Mora, Siegwart and Nieto, "Nonlinear Model Predictive Control for Multi-Micro Aerial
Vehicle Robust Collision Avoidance" (2017).  Pure code but for fly.py, the only one to know sockets and flight
stacks.
"""
