"""MAVLink outside the simulator link: the generated dialect and the decoder of datagrams.

The simulator link has a codec of its own, ``hil/frames.py``, because it works in every step.
"""
