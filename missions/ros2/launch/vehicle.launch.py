"""A vehicle with its ROS 2 graph and services: ``ros2 launch sitl_bridge_nodes vehicle.launch.py``.

All ends with the simulation.  To fly: ``ros2 service call /vehicle_0/take_off std_srvs/srv/Trigger``.
"""

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, ExecuteProcess, SetEnvironmentVariable, Shutdown
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node


def generate_launch_description():
    """The simulation and a node with its services."""
    run = ["sitl-bridge", "start", "--ros2", "--headless"]
    for name in ("airframe", "speed", "autopilot"):
        run += [f"--{name}", LaunchConfiguration(name)]
    return LaunchDescription(
        [
            DeclareLaunchArgument("airframe", default_value="iris"),
            DeclareLaunchArgument("speed", default_value="1"),
            DeclareLaunchArgument("autopilot", default_value="auto", description="px4, builtin or auto"),
            SetEnvironmentVariable("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST"),
            # it writes a report at its end
            ExecuteProcess(cmd=run, output="screen", on_exit=Shutdown(), sigterm_timeout="60"),
            Node(package="sitl_bridge_nodes", executable="services.py", parameters=[{"use_sim_time": True}]),
        ]
    )
