"""What a vehicle is and how it moves: rotors, motors, battery, air, ground, rigid body."""
