"""Steppable environments: an action in, an observation and a reward out, for Gymnasium and PettingZoo.

``batch.py`` and ``batch_step.py`` fly n vehicles that share nothing; ``tasks.py`` makes rewards of their
motion.  The environments around them: ``vector_environment.py`` and ``single_environment.py`` for Gymnasium,
``fleet_environment.py`` for PettingZoo, ``px4_environment.py`` with PX4 in the loop.
"""
