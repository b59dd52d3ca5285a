"""Settings of a session from a scenario file and a command line."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

from sitl_bridge.analysis.evaluation.measures import validate_limits
from sitl_bridge.analysis.export.ros_topics import ros_name
from sitl_bridge.base.errors import ConfigurationError, UserError, faults_of
from sitl_bridge.base.system.interpreter import find_interpreter
from sitl_bridge.core.vehicle.controller import beside
from sitl_bridge.core.vehicle.vehicle_specification import VehicleSpecification
from sitl_bridge.link.px4.given_parameters import ParameterFile, load_parameters
from sitl_bridge.live.outlets import Ros2Settings
from sitl_bridge.live.ros2.choices import TOPICS_OF_RUN, RosChoices
from sitl_bridge.plan.plan import Plan
from sitl_bridge.plan.plan_file import load_fence
from sitl_bridge.session.identified_models import identified_model
from sitl_bridge.session.mission_file import check_mission, mission_of_scenario
from sitl_bridge.session.scenario import LoadedScenario, ScenarioVehicle, load_scenario
from sitl_bridge.session.settings import (
    FlightOptions,
    FlightSettings,
    VehicleSettings,
    choose_autopilot,
    controller_faults,
)
from sitl_bridge.swarm.avoidance.specification import AvoidanceSpecification, check_launch, lasting_deviation


def scenario_settings(file: Path, options: FlightOptions) -> FlightSettings:
    """Read a scenario file and make the settings of its flight.

    Raises:
        ConfigurationError: with every fault of the file and its line, or of the files it names.
    """
    scenario = load_scenario(file, seed=options.seed, change_world=options.change_world)
    return settings_of(scenario, file, options)


def settings_of(scenario: LoadedScenario, file: Path, options: FlightOptions) -> FlightSettings:
    """The settings of a scenario's flight.

    Raises:
        ConfigurationError: with every fault of the file and its line, or of the files it names.
    """
    specification = scenario.specification
    options = replace(options, fence=options.fence or _fence(scenario, file))
    vehicles = _vehicles(scenario, file, options)
    swarm = scenario.formation is not None or scenario.avoidance is not None
    own = not swarm and specification.mission is None  # each vehicle has its own mission
    scripts = [vehicle for vehicle in vehicles if vehicle.python is not None]
    if options.python is not None and (swarm or (own and not scripts)):
        raise ConfigurationError(str(file), ["no script flies its vehicles; leave out --python"])
    if options.arguments and (swarm or own):
        why = "; each vehicle has its own in the file" if own else ""
        raise ConfigurationError(str(file), [f"takes no arguments: {' '.join(options.arguments)}{why}"])
    if scenario.avoidance is not None:
        _check_avoidance(scenario)
    ros2 = ros_choices(scenario)
    chosen = [replace(one, choices=ros2) if isinstance(one, Ros2Settings) else one for one in options.outlets]
    return FlightSettings.from_options(
        replace(options, outlets=tuple(chosen)),
        vehicles,
        scenario.name,
        world=scenario.world,
        seed=scenario.seed,
        mission=None if swarm else _script(scenario, file, options),
        formation=scenario.formation,
        avoidance=_avoidance(scenario, options, vehicles),
        python=None if specification.mission is None else _python(specification.python, file, options),
        time_limit=math.inf if specification.time_limit is None else specification.time_limit,
        on_stall=specification.on_stall,
        proximity=specification.proximity,
        events=scenario.events,
        limits=separation_limit(scenario) | limits_of(scenario),
    )


def _fence(scenario: LoadedScenario, file: Path) -> Plan | None:
    """The geofence of a scenario, a file relative to it."""
    fence = scenario.specification.fence
    try:
        return None if fence is None else load_fence(file.parent / fence)
    except UserError as error:
        lines = [scenario.document.fault(("fence",), fault) for fault in faults_of(error)]
        raise ConfigurationError(str(file), lines) from error


def limits_of(scenario: LoadedScenario) -> dict[str, float | None]:
    """The limits in a scenario's file.

    Raises:
        ConfigurationError: for a name that no measure has, with its line.
    """
    document, limits = scenario.document, scenario.specification.limits
    lines = {name: document.line(("limits", name)) for name in limits}
    return validate_limits(limits, document.source, lines, Path(document.source).parent)


def ros_choices(scenario: LoadedScenario) -> RosChoices:
    """Return a scenario's choices of its ROS 2 graph.

    Raises:
        ConfigurationError: for a topic that begins as none of the run, with its line.
    """
    choices = scenario.specification.ros2
    known = {ros_name(vehicle.name) for vehicle in scenario.vehicles} | {*TOPICS_OF_RUN, ""}
    faults = [
        scenario.document.fault(("ros2", "topics", topic), f"begins with none of {', '.join(sorted(known))}")
        for topic in choices.topics
        if topic.split("/")[1] not in known
    ]
    if faults:
        raise ConfigurationError(scenario.document.source, faults)
    return choices


def separation_limit(scenario: LoadedScenario) -> dict[str, float | None]:
    """The least distance between the vehicles of a formation or of avoidance, as a limit of the truth."""
    if len(scenario.vehicles) < 2:
        return {}
    if scenario.formation is not None:
        return {"separation": scenario.formation.limits.separation}
    if scenario.avoidance is not None:
        return {"separation": scenario.avoidance.controller.distances.minimum}
    return {}


def _check_avoidance(scenario: LoadedScenario) -> None:
    """Refuse an avoidance scenario that cannot begin or end safely, or whose vehicles differ."""
    assert scenario.avoidance is not None
    first = scenario.vehicles[0]
    for other in scenario.vehicles:
        if other.airframe_name != first.airframe_name:
            raise scenario.document.error(
                ("vehicles", other.group, "airframe"),
                f"avoidance plans with one attitude model; give all vehicles {first.airframe_name}",
            )
    deviation = lasting_deviation(scenario.avoidance, first.airframe)
    check_launch(scenario.avoidance, deviation, scenario.document.source)


def _vehicles(scenario: LoadedScenario, file: Path, options: FlightOptions) -> tuple[VehicleSettings, ...]:
    faults: list[str] = []
    for i, group in enumerate(scenario.specification.vehicles):
        if group.mission is None:
            continue
        python, origin = _python_of(group, file, options), scenario.world.origin
        try:
            check_mission(mission_of_scenario(file, group.mission), group.arguments, origin, python)
        except UserError as error:
            faults += [
                scenario.document.fault(("vehicles", i, "mission"), fault) for fault in faults_of(error)
            ]
    for vehicle in {vehicle.group: vehicle for vehicle in scenario.vehicles}.values():
        name = controller_of(vehicle, file)
        for fault in [] if name is None else controller_faults(name, vehicle.airframe):
            faults.append(scenario.document.fault(("vehicles", vehicle.group, "controller"), fault))
    if faults:
        raise ConfigurationError(str(file), faults)
    return tuple(
        _settings(vehicle, options.instance + number, file, options)
        for number, vehicle in enumerate(scenario.vehicles)
    )


def _settings(vehicle: ScenarioVehicle, instance: int, file: Path, options: FlightOptions) -> VehicleSettings:
    group = vehicle.specification
    return VehicleSettings(
        vehicle.airframe,
        name=vehicle.name,
        position=vehicle.position,
        yaw=vehicle.yaw,
        instance=instance,
        autopilot=group.autopilot if options.autopilot == "auto" else options.autopilot,
        controller=controller_of(vehicle, file),
        parameters={**group.parameters, **options.parameters},
        parameter_file=options.parameter_file or parameter_file_of(vehicle, file),
        mission=None if group.mission is None else mission_of_scenario(file, group.mission),
        arguments=group.arguments,
        python=_python_of(group, file, options),
    )


def parameter_file_of(vehicle: ScenarioVehicle, file: Path) -> ParameterFile | None:
    """A vehicle's parameter file, relative to the scenario."""
    group = vehicle.specification
    return load_parameters(group.params and file.parent / group.params, wins=group.params_win)


def controller_of(vehicle: ScenarioVehicle, file: Path) -> str | None:
    """The controller of a vehicle; a file of the user's own is relative to the scenario."""
    name = vehicle.specification.controller
    return None if name is None else beside(name, file.parent.resolve())


def _python_of(group: VehicleSpecification, file: Path, options: FlightOptions) -> Path | None:
    """Interpreter of a vehicle's own script; plans have none."""
    if group.mission is None or (group.mission.suffix == ".plan" and group.python is None):
        return None
    return _python(group.python, file, options)


def _python(name: str | None, file: Path, options: FlightOptions) -> Path | None:
    """Interpreter of a script: the command line's, else the file's; its path is relative to the file."""
    if options.python is not None or name is None:
        return options.python
    try:
        return find_interpreter(name, file.parent)
    except UserError as error:
        fault = str(error).removeprefix("--python: ")
        raise ConfigurationError(str(file), [f"python: {fault}"]) from error


def _avoidance(
    scenario: LoadedScenario, options: FlightOptions, vehicles: tuple[VehicleSettings, ...]
) -> AvoidanceSpecification | None:
    """The avoidance of a scenario, with the attitude model that is identified for its flight stack."""
    if scenario.avoidance is None:
        return None
    builtin = all(choose_autopilot(vehicle.autopilot, options.px4).px4 is None for vehicle in vehicles)
    known = identified_model(scenario.vehicles[0].airframe_name, "builtin" if builtin else "px4")
    return scenario.avoidance if known is None else scenario.avoidance.with_model(known.model)


def _script(scenario: LoadedScenario, file: Path, options: FlightOptions) -> tuple[str, ...] | None:
    """Arguments of the interpreter for the script of all vehicles; None if each has its own mission."""
    specification = scenario.specification
    if specification.mission is None:
        return None
    script = mission_of_scenario(file, specification.mission)
    if script.suffix == ".plan":
        raise scenario.document.error(
            ("mission",), "a plan is for one vehicle; set it as mission of each vehicle"
        )
    try:
        check_mission(script, (), scenario.world.origin, _python(specification.python, file, options))
    except UserError as error:
        lines = [scenario.document.fault(("mission",), fault) for fault in faults_of(error)]
        raise ConfigurationError(str(file), lines) from error
    return (str(script), *specification.arguments, *options.arguments)
