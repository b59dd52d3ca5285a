"""Computes the values of ``check`` from an airframe, a world, a scenario, a campaign or a plan."""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import combinations
from pathlib import Path

import numpy as np

from sitl_bridge.autopilot.control.user_controller import user_controller
from sitl_bridge.base.errors import ConfigurationError, UserError, about, did_you_mean, shorten
from sitl_bridge.base.input_file import exists, read_text
from sitl_bridge.base.json_data import JsonObject
from sitl_bridge.base.shipped_files import shipped_names
from sitl_bridge.base.user_file import class_at
from sitl_bridge.base.yaml_file import place_faults, read
from sitl_bridge.cli.schema import file_kind
from sitl_bridge.core.dynamics.contact import standing_pose
from sitl_bridge.core.dynamics.custom_rotor import CustomRotor
from sitl_bridge.core.dynamics.performance import (
    Performance,
    figure_of_merit,
    motor_lag,
    performance,
    static_thrusts,
)
from sitl_bridge.core.dynamics.rotor_laws import thrust_and_torque
from sitl_bridge.core.dynamics.stability import check_stability
from sitl_bridge.core.sensors.custom import CustomSpecification
from sitl_bridge.core.sensors.error_model import SensorSpecification
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.vehicle.airframe_file import (
    Inheritance,
    find_airframe,
    inheritance,
    load_airframe,
)
from sitl_bridge.core.vehicle.figure_sources import DERIVED, figure_paths, find_unsourced
from sitl_bridge.core.vehicle.propellers import propellers_of_size
from sitl_bridge.core.vehicle.px4_models import px4_model_in_words
from sitl_bridge.core.world.atmosphere import air
from sitl_bridge.core.world.records import HEIGHT_MAP, MESH, PLANE, VOXELS
from sitl_bridge.core.world.scene import Scene
from sitl_bridge.core.world.sdf_world import SUFFIXES as SDF_SUFFIXES
from sitl_bridge.core.world.world import World, WorldSpecification
from sitl_bridge.core.world.world_file import find_world, load_world
from sitl_bridge.link.px4.airframe_parameters import (
    DEFAULTS,
    THRUST_RESERVE,
    Parameters,
    parameters_for,
    reason_of,
)
from sitl_bridge.session.settings import FlightOptions, VehicleSettings, choose_autopilot

Facts = JsonObject
LITTLE_THRUST = 1.5
"""Thrust over weight below which gusts and steep turns leave too little thrust for attitude control."""
NEAR_LIMIT = THRUST_RESERVE**-1.5
"""Share of the controllers' current above which less than the reserve of thrust is left: a rotor's power goes
with the power 1.5 of its thrust."""
SLOW = 5.0
"""Top speed in m/s below which the drag is probably in another unit."""
STEP = 0.004
"""s between PX4's inertial samples, the step of the simulation."""
SHORT_FLIGHT = 300.0
"""Endurance in s of hover that is too short for an ordinary mission."""
FIGURES_OF_MERIT = 0.25, 0.8
"""Of real propellers: the 158 static tests of the UIUC data base in propellers.csv have 0.29 to 0.71."""
LARGEST_GYRATION = 2.0
"""Radius of gyration by the distance of the blades' tips.  Airframes here have 0.9 at most; g m^2 makes it 32
times as large."""
SMALLEST_GYRATION = 0.1
"""Likewise; the shipped airframes have 0.25 at least."""
OFF_CENTRE = 0.15
"""Of the rotors' mean distance: how far their centre may be from the centre of gravity without a note."""
MOST_NAMES = 12
"""Names of objects of a scene that are listed."""


def airframe_facts(airframe: Airframe) -> Facts:
    """Derived figures of an airframe at PX4's default home: performance, and PX4's parameters."""
    world = World()
    environment = world.environment[0]
    _, _, density = air(environment, 0.0)
    check_stability(airframe.record, density, STEP)
    if airframe.record["contact_count"]:
        with about("contact"):
            standing_pose(airframe.record, float(environment["gravity"]))
    result = performance(airframe.record, density, float(environment["gravity"]))
    hover = result.hover
    having, lacking = airframe.rotor_model.effects()
    parameters = parameters_for(airframe, world)
    return {
        "name": airframe.name,
        "description": airframe.description,
        "air": air_fact(airframe, world, density),
        "mass_kg": airframe.mass,
        **({"including_payload_kg": airframe.carried.mass} if airframe.carried else {}),
        "inertia_kg_m2": airframe.inertia.matrix().tolist(),
        "rotors": len(airframe.rotors),
        **propeller_fact(airframe),
        "thrust_to_weight": result.thrust_to_weight,
        "hover_rotor_speed_rad_s": float(np.mean(hover.rotor_speed)),
        "hover_throttle": float(np.mean(hover.command)),
        "highest_hover_throttle": float(np.max(hover.command)),
        "hover_thrust": hover_thrust_fact(airframe, parameters),
        "yaw_acceleration_deg_s2": yaw_acceleration(airframe, result, density),
        "hover_power_w": hover.motor_power,
        "figure_of_merit": figure_of_merit(airframe.record, hover, density),
        "motor_lag_ms": 1e3 * motor_lag(airframe.record, hover, density),
        "hover_battery_current_a": hover.battery_current,
        "endurance_min": result.endurance / 60.0,
        "top_speed_m_s": result.top_speed if airframe.rotor_model.limits_speed else None,
        "rotors_in_moving_air": having,
        "not_modelled": lacking,
        "sensors": [f"{sensor.kind} {sensor.instance}, {sensor.rate:g} Hz" for sensor in airframe.sensors],
        **({"python_files": code_of(airframe)} if code_of(airframe) else {}),
        "derived_figures": derived_figures(airframe),
        "px4_parameters": parameters,
        "px4_reasons": {name: reason_of(name, airframe) for name in parameters},
        "warnings": airframe_warnings(airframe, result, density)
        + yaw_warning(airframe, result, density, parameters),
    }


def yaw_acceleration(airframe: Airframe, result: Performance, density: float) -> float:
    """The deg/s^2 by which saturated rotors turn a vehicle that keeps its height, the weaker way round.

    Those of one direction of rotation carry all that they can, those of the other the rest.  Motors that
    reverse also push downwards.  Density in kg/m^3.
    """
    record, hover, count = airframe.record, result.hover, len(airframe.rotors)
    loads = [thrust_and_torque(record, k, float(result.full_speed[k]), 0.0, density) for k in range(count)]
    full, torque = np.array(loads).T
    least = static_thrusts(record, 1e-3, density)
    if getattr(airframe.motor, "reversible", False):
        least = -full * getattr(airframe.rotor_model, "reverse_thrust", 1.0)
    lift, turns = float(hover.rotor_thrust.sum()), np.array(record["rotor_direction"][:count])
    found = []
    for up in (turns > 0, turns < 0):
        if up.all() or not up.any():
            return 0.0
        carried = min(lift - float(least[~up].sum()), float(full[up].sum()))
        share = (torque / full)[up].mean() * carried - (torque / full)[~up].mean() * (lift - carried)
        found.append(float(share))
    return math.degrees(max(min(found), 0.0) * float(record["inertia_inverse"][2, 2]))


def yaw_warning(airframe: Airframe, result: Performance, density: float, parameters: Parameters) -> list[str]:
    """A note where PX4 plans turns for which the rotors saturate; density in kg/m^3."""
    most = yaw_acceleration(airframe, result, density)
    planned = parameters.get("MPC_YAWRAUTO_ACC", DEFAULTS["MPC_YAWRAUTO_ACC"])
    if most >= planned:
        return []
    return [
        f"rotors: at their limits they turn the hovering vehicle with {most:.0f} deg/s² only; PX4 plans turns"
        f" with {planned:g} (MPC_YAWRAUTO_ACC), in which the yaw saturates"
    ]


def air_fact(airframe: Airframe, world: World, density: float) -> str:
    """The air in which the figures hold, beside that of the rotors' coefficients; density in kg/m^3."""
    less = density / airframe.rotor_model.reference_density - 1.0
    altitude = world.specification.origin.altitude
    return (
        f"{density:.4g} kg/m³ at PX4's home, {altitude:g} m: thrusts are {less:+.1%} from their coefficients"
    )


def propeller_fact(airframe: Airframe) -> Facts:
    """The measured propellers of the size that an airframe names, and their scatter."""
    size = getattr(airframe.rotor_model, "propeller", None)
    if size is None:
        return {}
    found = propellers_of_size(size)
    return {"propeller": f"{size}: {', '.join(t.file for t in found.tests)}; {found.scatter()}"}


def hover_thrust_fact(airframe: Airframe, parameters: Parameters) -> str:
    """MPC_THR_HOVER beside the hover throttle: PX4's thrust setpoint is a command only without a curve."""
    factor, hover = parameters.get("THR_MDL_FAC", 0.0), parameters["MPC_THR_HOVER"]
    text = f"MPC_THR_HOVER {hover:g}"
    if {"THR_MDL_FAC", "MPC_THR_HOVER"} & set(airframe.px4.parameters):
        return f"{text}, THR_MDL_FAC {factor:g}, as the file gives them"
    if factor == 0.0:
        return f"{text}, the hover throttle"
    return f"{text}: thrust T = f c² + (1-f) c of the hover throttle c, f = THR_MDL_FAC {factor:g}"


def airframe_warnings(airframe: Airframe, result: Performance, density: float) -> list[str]:
    """Suspicious figures that are allowed; density in kg/m^3."""
    found = [*([] if airframe.caveat is None else [airframe.caveat]), *without_source(airframe)]
    merit = figure_of_merit(airframe.record, result.hover, density)
    if not FIGURES_OF_MERIT[0] <= merit <= FIGURES_OF_MERIT[1]:
        found.append(
            f"rotor_model: the figure of merit is {merit:.2f}; real propellers have"
            f" {FIGURES_OF_MERIT[0]:g} to {FIGURES_OF_MERIT[1]:g}: check radius, thrust and torque"
        )
    if not airframe.inertia.of_a_body():
        found.append("inertia: one principal moment exceeds the sum of the other two, which no body allows")
    reach = (
        max(float(np.linalg.norm(rotor.position)) for rotor in airframe.rotors) + airframe.rotor_model.radius
    )
    gyration = math.sqrt(np.linalg.eigvalsh(airframe.inertia.matrix())[2] / airframe.mass) / reach
    if gyration > LARGEST_GYRATION:
        found.append(
            f"inertia: the radius of gyration is {gyration:.3g} times the distance of the blades' tips; is it"
            " in another unit than kg m²?"
        )
    if gyration < SMALLEST_GYRATION:
        found.append(
            f"inertia: the radius of gyration is only {gyration:.2g} times the distance of the blades' tips:"
            " no vehicle of this mass and size is so compact"
        )
    found += rotor_warnings(airframe)
    if result.thrust_to_weight < LITTLE_THRUST:
        found.append(
            f"thrust to weight is only {result.thrust_to_weight:.2f}; little thrust is left for control"
        )
    if result.current_share > NEAR_LIMIT:
        found.append(
            f"esc.current_limit: a hover takes {result.current_share:.0%} of the current that a speed"
            " controller allows; little is left for control"
        )
    if not airframe.rotor_model.limits_speed:
        found.append(
            "rotor_model: thrust does not change with the flow through the rotors, so no top speed follows; "
            "`inflow: momentum` computes it"
        )
    elif result.top_speed < SLOW:
        found.append(f"drag: the top speed is only {result.top_speed:.1f} m/s; is the drag in another unit?")
    if result.endurance < SHORT_FLIGHT:
        found.append(f"the battery lasts for only {result.endurance / 60.0:.1f} min of hover")
    for sensor in airframe.sensors:
        if isinstance(sensor, SensorSpecification) and any(sensor.rotation):
            angles = ", ".join(f"{angle:g}" for angle in sensor.rotation)
            found.append(
                f"sensors.{sensor.kind} is rotated by {angles} deg and measures in its own axes; both flight "
                "stacks take that for a mounting error, unless SENS_BOARD_ROT, SENS_BOARD_*_OFF or "
                "CAL_MAG*_ROT of PX4 are set"
            )
    feet = np.array(airframe.contact.points)
    lowest = feet[feet[:, 2] > feet[:, 2].max() - 0.02]
    if len(lowest) < 3:
        found.append(
            "contact.points: fewer than three points lie within 2 cm of the lowest; it would tip over"
        )
    return found


def rotor_warnings(airframe: Airframe) -> list[str]:
    """Rotors whose places and directions contradict one another, or the centre of gravity."""
    found = []
    hubs = np.array([rotor.position for rotor in airframe.rotors])
    models = [rotor.combine_with(airframe.rotor_model) for rotor in airframe.rotors]
    arm = float(np.linalg.norm(hubs[:, :2], axis=1).mean())
    off = float(np.linalg.norm(hubs[:, :2].mean(axis=0)))
    if off > OFF_CENTRE * arm:
        found.append(
            f"rotors: their centre is {100.0 * off:.1f} cm from the centre of gravity, the origin of all"
            " positions; is the origin another one?"
        )
    pairs = []
    for i, j in combinations(range(len(hubs)), 2):
        apart = float(np.linalg.norm((hubs[i] - hubs[j])[:2]))
        level = abs(hubs[i, 2] - hubs[j, 2]) < 0.1 * models[i].radius
        if level and apart < 0.98 * (models[i].radius + models[j].radius):
            pairs.append(f"{i + 1} and {j + 1} ({apart:.3g} m apart)")
    if pairs:
        found.append(f"rotors: discs of the same height overlap: {', '.join(pairs)}")
    turning = [1 if rotor.direction == "ccw" else -1 for rotor in airframe.rotors]
    if sum(turning) != 0:
        found.append(
            f"rotors: {turning.count(1)} turn ccw and {turning.count(-1)} cw: their torques do not cancel"
        )
    return found


def without_source(airframe: Airframe) -> list[str]:
    """A note on the figures without a source, which only a published airframe must have."""
    names = find_unsourced(airframe.model_dump(exclude_defaults=True, by_alias=True))
    if not names:
        return []
    first = ", ".join(names[:3]) + (" ..." if len(names) > 3 else "")
    return [f"{len(names)} figures have no source ({first}); to publish the file, name them under `sources`"]


CHANGED_TOGETHER = (
    ("mass", "inertia"),
    ("rotors", "inertia"),
    ("rotors", "contact.points"),
    ("rotor_model.radius", "rotor_model.thrust_c2"),
    ("rotor_model.radius", "rotor_model.inertia"),
    ("battery.cells", "battery.nominal_voltage"),
    ("battery.cells", "motor.speed_range"),
)
"""Figures of one part: where a file changes the first, the second of its base no longer fits."""


def base_warnings(taken: Inheritance) -> list[str]:
    """Figures of the base that no longer fit, and those that are computed in place of the base's."""
    found = []
    for changed, left in CHANGED_TOGETHER:
        gives = any(name.split("[")[0] == changed for name in taken.changed)
        if gives and any(left == name or left.startswith(f"{name}.") for name in taken.kept):
            of = f"{taken.base}, which weighs {taken.mass:.4g} kg" if changed == "mass" else taken.base
            found.append(f"{changed} changed, but {left} is still of {of}")
    if taken.computed:
        found.append(f"computed from this file, not taken from {taken.base}: {', '.join(taken.computed)}")
    return found


def derived_figures(airframe: Airframe) -> list[str]:
    """Figures that no source gives, by their paths in ``sources``."""
    names = figure_paths(airframe.model_dump(exclude_defaults=True, by_alias=True))
    return [name for name in names if airframe.source(name).startswith(DERIVED)]


def world_facts(specification: WorldSpecification) -> Facts:
    """Derived figures of a world at its origin."""
    world = World(specification)
    environment = world.environment[0]
    temperature, pressure, density = air(environment, 0.0)
    north, east, down = (float(x) * 1e9 for x in environment["magnetic_field"])
    return {
        **specification.model_dump(mode="json", exclude={"wind", "scene", "magnetic_field"}),
        "gravity_m_s2": float(environment["gravity"]),
        "temperature_k": temperature,
        "pressure_pa": pressure,
        "density_kg_m3": density,
        "magnetic_field_nt": [north, east, down],
        "magnetic_field_of": "WMM2025" if specification.magnetic_field is None else "the file",
        "declination_deg": math.degrees(math.atan2(east, north)),
        "inclination_deg": math.degrees(math.atan2(down, math.hypot(north, east))),
        "wind": specification.wind.model_dump(mode="json", exclude_defaults=True) or "none",
        "scene": scene_facts(world.scene) or "level ground alone",
        "warnings": list(specification.scene.notes),
    }


def plan_facts(path: Path) -> Facts:
    """Contents of a plan."""
    from sitl_bridge.plan.plan_file import MAX_FILE_BYTES, parse_plan  # MAVLink, which only missions need

    plan = parse_plan(read_text(path, MAX_FILE_BYTES), str(path), fence=None)
    return {
        **({} if plan.items else {"what": "a geofence without a mission, for --fence of fly and start"}),
        "items": len(plan.items),
        "legs": len(plan.legs),
        "length_m": plan.length,
        "fence_circles": len(plan.circles),
        "fence_polygons": len(plan.polygons),
        "rally_points": len(plan.rally_points),
        "warnings": list(plan.notes),
    }


def _find_mission(name: str) -> Path:
    from sitl_bridge.session.mission_file import find_mission  # likewise

    return find_mission(Path(name))


def parameter_facts(source: str, vehicles: Sequence[VehicleSettings], px4: Path | None) -> Facts:
    """Describe what vehicles fly of parameters that are given to them; as far as their flight stack is known.

    Raises:
        ConfigurationError: for those that the flight stack does not take.
    """
    faults, notes, listed = list[str](), list[str](), JsonObject()
    for vehicle in vehicles:
        try:
            choice = choose_autopilot(vehicle.autopilot, px4)
        except UserError as error:
            notes.append(f"parameters of {vehicle.airframe.name} are not checked: {error}")
            continue
        found = vehicle.parameter_faults(choice)
        fallback = choice.kind == "builtin" and vehicle.autopilot == "auto"
        (notes if fallback else faults).extend(found)
        chosen = vehicle.choose_parameters(choice, World())
        if chosen is not None:
            listed[vehicle.name] = asdict(chosen)
        notes += vehicle.parameter_notes(choice, World())
    if faults:
        raise ConfigurationError(source, list(dict.fromkeys(faults)))
    return {"parameters": listed, "warnings": list(dict.fromkeys(notes))}


def scenario_facts(path: Path, given: FlightOptions) -> Facts:
    """Contents of a scenario, checked as before a flight; without PX4, on the built-in stack.

    Raises:
        ConfigurationError: with every error of the file, and of the files that it names.
    """
    from sitl_bridge.session.scenario import load_scenario  # imports modules that only scenarios need
    from sitl_bridge.session.scenario_settings import settings_of

    scenario = load_scenario(path)
    settings = settings_of(scenario, path, replace(given, autopilot="builtin", px4=None))
    choices = [vehicle.specification.autopilot for vehicle in scenario.vehicles]
    chosen = [replace(v, autopilot=one) for v, one in zip(settings.vehicles, choices, strict=True)]
    given_facts = parameter_facts(str(path), chosen, given.px4)
    plain = tuple(replace(vehicle, parameters={}) for vehicle in settings.vehicles)
    replace(settings, vehicles=plain).check()
    airframes = Counter(vehicle.airframe.name for vehicle in scenario.vehicles)
    scene = Scene(scenario.world.scene)
    if scenario.formation is not None:
        patterns = [move.name for move in scenario.formation.choreography.moves[1:]]
        flown = {"mission": "formation", "patterns": patterns, "duration_s": scenario.formation.duration}
    elif scenario.avoidance is not None:
        flown = {"mission": "avoidance", "duration_s": scenario.avoidance.duration}
    elif scenario.specification.mission is not None:
        flown = {"mission": str(scenario.specification.mission)}
    else:
        flown = {"mission": "one for each vehicle"}
    return {
        "name": scenario.name,
        "seed": scenario.seed,
        "vehicles": [f"{count} x {name}" for name, count in airframes.items()],
        **flown,
        "events": [f"{event.at:g} s: {event.kind}" for event in scenario.specification.events],
        "wind": scenario.world.wind.model_dump(mode="json", exclude_defaults=True) or "none",
        "scene": scene_facts(scene) or "level ground alone",
        "parameters": given_facts["parameters"],
        "warnings": [*scenario.world.scene.notes, *given_facts["warnings"]],
    }


def campaign_facts(path: Path) -> Facts:
    """Contents of a campaign, checked with its scenario at all corners.

    Raises:
        ConfigurationError: with the errors of the file, and of the scenarios that it makes.
    """
    from sitl_bridge.lab.campaign import CampaignSpace  # imports what only campaigns need

    space = CampaignSpace.load(path)
    space.check()
    made = space.specification
    return {
        "name": space.name,
        "scenario": str(space.scenario),
        "varied": {one.name: str(one.distribution) for one in space.varied},
        "design": made.design if made.search is None else made.search.kind,
        "runs": space.size,
        "stages": list(made.stages),
        "limits": {name: limit for name, limit in space.limits.items() if limit is not None} or "none",
        "warnings": [],
    }


def derive_facts(file: str, flight: Path | None = None, given: FlightOptions | None = None) -> Facts:
    """Validate a file and return its derived figures; the kind of file follows from its content.

    Raises:
        ConfigurationError: with every error of the file.
        UserError: if there is no such file, or the flight of an airframe cannot be read.
    """
    given = given or FlightOptions()
    if file.endswith(".plan"):
        return plan_facts(_find_mission(file))
    if file.endswith(".py"):
        raise UserError(f"{file}: a Python file is checked with the file that names it; `fly` flies a script")
    if Path(file).suffix.lower() in SDF_SUFFIXES:
        return world_facts(load_world(Path(file)))
    path = _find(file)
    if path.suffix.lower() not in (".yaml", ".yml"):  # missions of other ground stations are no YAML
        from sitl_bridge.plan.plan_file import MAX_FILE_BYTES, validate_format  # as in plan_facts

        validate_format(read_text(path, MAX_FILE_BYTES), str(path))
    document = read(path)
    if document.data.get("fileType") == "Plan":
        return plan_facts(path)
    kind = file_kind(document.data)
    with place_faults(document):
        if kind == "campaign":
            return campaign_facts(path)
        if kind == "scenario":
            return scenario_facts(path, given)
        if kind == "world":
            return world_facts(load_world(path))
        airframe = load_airframe(path)
        _run_own_code(airframe)
        beside: Facts = {}
        if flight is not None:
            from sitl_bridge.lab.validation import facts_of_flight  # imports what only --flight needs

            beside = facts_of_flight(airframe, flight)
        vehicle = VehicleSettings(airframe, parameters=given.parameters, parameter_file=given.parameter_file)
        given_facts = parameter_facts(str(path), [vehicle], given.px4)
        facts, taken = airframe_facts(airframe) | beside, inheritance(path)
        facts |= {
            "parameters": given_facts["parameters"],
            "warnings": facts["warnings"] + given_facts["warnings"],
        }
        if taken is not None:
            facts |= {"base": taken.base, "still_from_the_base": list(taken.kept)}
            facts["warnings"] = base_warnings(taken) + facts["warnings"]
        return facts


def _find(file: str) -> Path:
    """The file of a path, or of the name of a shipped airframe, world or scenario."""
    try:
        return find_airframe(file)
    except UserError:
        for find in (find_world, _find_mission):
            with contextlib.suppress(UserError):
                return find(file)
        if Path(file).suffix or exists(Path(file)):
            raise
    meant = px4_model_in_words(file, shipped_names("airframes"))
    if meant:
        raise UserError(f"no airframe, world or scenario is called {shorten(file)!r}: {meant}")
    names = {"airframes": shipped_names("airframes"), "worlds": shipped_names("missions/worlds")}
    names["scenarios"] = {f"{name}.yaml" for name in shipped_names("missions")}
    near = did_you_mean(file, set().union(*names.values()))
    known = "; ".join(f"{kind}: {', '.join(sorted(found))}" for kind, found in names.items() if found)
    raise UserError(f"no airframe, world or scenario is called {shorten(file)!r}{near}; there are {known}")


def _run_own_code(airframe: Airframe) -> None:
    """Create the custom rotor law, sensors and controller of an airframe, as a flight would."""
    with about("rotor_model"):
        airframe.vehicle()
    for i, sensor in enumerate(airframe.sensors):
        if isinstance(sensor, CustomSpecification):
            with about("sensors", i):
                sensor.load()
    if class_at(airframe.controller.kind) is not None:
        with about("controller"):
            user_controller(airframe, World())


def code_of(airframe: Airframe) -> list[str]:
    """Python files that an airframe names; they run with the rights of the user."""
    own = class_at(airframe.controller.kind)
    files = [*(sensor.file for sensor in airframe.custom_sensors()), *(own[:1] if own else ())]
    if isinstance(airframe.rotor_model, CustomRotor):
        files.append(airframe.rotor_model.file)
    return list(dict.fromkeys(str(file) for file in files))


def scene_facts(scene: Scene) -> JsonObject:
    """Counts, extent, triangles and memory of a scene; empty for level ground alone."""
    if not scene:
        return {}
    shapes = scene.shapes
    kinds = Counter(item.kind for item in scene.specification.objects)
    names = [
        *scene.names[:MOST_NAMES],
        *([f"and {len(scene.names) - MOST_NAMES} more"] if len(scene.names) > MOST_NAMES else []),
    ]
    facts: JsonObject = {
        "ground": "level at height 0" if scene.specification.ground else "none",
        "objects": [f"{count} x {kind}" for kind, count in kinds.items()],
        "names": ", ".join(names),
    }
    bounded = shapes[shapes["kind"] != PLANE]
    if len(bounded):
        low, high = bounded["low"].min(axis=0), bounded["high"].max(axis=0)
        facts["extent_m"] = [
            f"{axis} {low[i]:.1f} to {high[i]:.1f}" for i, axis in enumerate(("north", "east", "down"))
        ]
    moving = int(np.count_nonzero(shapes["path"]))
    if moving:
        facts["moving"] = moving
    for name, kind, count in (
        ("triangles", MESH, shapes["triangle_count"]),
        ("heights", HEIGHT_MAP, shapes["rows"] * shapes["columns"]),
        ("cells", VOXELS, shapes["rows"] * shapes["columns"] * shapes["layers"]),
    ):
        total = int(count[shapes["kind"] == kind].sum())
        if total:
            facts[name] = total
    facts["memory_mb"] = scene.memory / 1e6
    return facts
