"""Collision avoidance by decentralised nonlinear model predictive control.

After Kamel, Alonso-Mora, Siegwart and Nieto, "Nonlinear Model Predictive Control for Multi-Micro Aerial
Vehicle Robust Collision Avoidance" (2017).  No sockets and no flight stacks:
session/avoidance_flight.py
flies it over MAVSDK.
"""
