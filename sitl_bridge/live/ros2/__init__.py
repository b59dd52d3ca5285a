"""A run as a ROS 2 graph, over DDS without ROS: types, participant, the topics of a run, commands."""
