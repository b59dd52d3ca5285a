"""From where a vehicle is and where it shall be to the force and the moment that its rotors are to give.

Nothing here knows rotors (allocation.py does) or decides where to fly (the commander does).
"""
