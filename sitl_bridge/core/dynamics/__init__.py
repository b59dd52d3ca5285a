"""Vehicle dynamics: rotors, motors, battery, aerodynamics, ground contact, rigid body."""
