"""Controllers: from estimate and setpoint to the total thrust and moment.

Mixing to motor commands is in allocation.py; the setpoint comes from modes/.
"""
