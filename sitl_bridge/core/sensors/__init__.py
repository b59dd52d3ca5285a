"""The sensors and the error model they share."""
