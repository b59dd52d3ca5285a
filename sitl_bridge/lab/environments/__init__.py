"""Steppable environments: an action in, an observation and a reward out, for Gymnasium and PettingZoo.

``batch.py`` and ``batch_step.py`` fly n vehicles that share nothing; ``tasks.py`` makes rewards of their
motion.  The environments around them: ``vector.py`` and ``single.py`` for Gymnasium, ``fleet.py``
for PettingZoo, ``stack.py`` with PX4 in the loop.
"""
