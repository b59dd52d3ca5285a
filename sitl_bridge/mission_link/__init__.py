"""The protocol between the bridge's process and a mission's: time gate, pause flag and live orders."""
