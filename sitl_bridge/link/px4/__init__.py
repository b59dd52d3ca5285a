"""PX4: finding a build, starting it, and the parameters that follow from an airframe."""
