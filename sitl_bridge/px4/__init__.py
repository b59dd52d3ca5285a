"""PX4: finding it, starting it, the parameters that follow from an airframe."""
