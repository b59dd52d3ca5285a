"""MAVLink outside the simulator link: the dialect and the decoder of datagrams.

The simulator link has a codec of its own, ``link/hil/frame_parser.py`` and ``link/hil/frame_writer.py``,
because it
works in every step.
"""
