"""Shows a run while it goes on and takes commands for it: message bus, live page, ROS 2."""
