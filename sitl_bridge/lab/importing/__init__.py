"""Makes airframe files of vehicles as others describe them: Gazebo, ROS, PX4, thrust stands, flight logs."""
