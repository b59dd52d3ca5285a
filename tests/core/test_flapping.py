"""Flapping blades against closed forms of helicopter theory and a blade integrated turn by turn."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from support.dynamics_vehicles import held_at_motion

from sitl_bridge.base.errors import ConfigurationError
from sitl_bridge.core.dynamics.flapping import disc_push, disc_tilt
from sitl_bridge.core.dynamics.rotor import CoefficientRotor
from sitl_bridge.core.dynamics.rotor_laws import rotor_loads
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.vehicle.airframe_file import load_airframe

DENSITY = 1.225
RADIUS, CHORD, BLADES, LIFT_SLOPE = 0.128, 0.0215, 2, 5.0
PITCH = 0.22
"""rad, of the whole blade."""
SPEED, THROUGH = 806.0, 5.5
INERTIA = 1.2e-5
"""kg m^2, of one blade."""
LOCK = DENSITY * LIFT_SLOPE * CHORD * RADIUS**4 / INERTIA
SLOPE = 0.25 * DENSITY * LIFT_SLOPE * BLADES * CHORD * SPEED * RADIUS**2
LIFT = 2.0 / 3.0 * SLOPE * SPEED * RADIUS * PITCH


def tilt(
    across: float,
    stiffness: float,
    spin: float = 1.0,
    roll: float = 0.0,
    pitch: float = 0.0,
    inertia: float = INERTIA,
) -> tuple[float, float, float]:
    """Tilt forward and to the left of the rotor above, and coning, without cyclic induced flow."""
    hub, whole = 0.5 * BLADES * stiffness, BLADES * inertia
    return disc_tilt(
        LIFT, SLOPE, 0.0, RADIUS, SPEED, THROUGH, across, spin, hub, whole, 0.0, roll, pitch
    )  # fmt: skip


@pytest.mark.parametrize("advance", [0.02, 0.1, 0.2])
def test_free_blades_flap_as_the_closed_form_has_it(advance: float) -> None:
    # a_1 = mu (8/3 theta - 2 lambda)/(1 - mu^2/2), b_1 = 4/3 mu a_0/(1 + mu^2/2) with the coning
    # a_0 = Lock (theta/8 - lambda/6), for a blade without twist (Johnson, Helicopter Theory, chapter 5).
    tip = SPEED * RADIUS
    inflow = THROUGH / tip
    backward, left, angle = tilt(advance * tip, 0.0)
    coning = LOCK * (PITCH / 8.0 - inflow / 6.0)
    assert angle == pytest.approx(coning)
    assert -backward == pytest.approx(advance * (8.0 / 3.0 * PITCH - 2.0 * inflow) / (1.0 - 0.5 * advance**2))
    assert -left == pytest.approx(4.0 / 3.0 * advance * coning / (1.0 + 0.5 * advance**2))


def test_a_free_disc_lags_a_turning_hub_by_sixteen_over_lock_number_and_speed() -> None:
    # A shaft that pitches at q leaves the disc behind by 16 q/(Lock w) (Johnson, Helicopter Theory).
    rate = 0.7
    forward, left, _ = tilt(0.0, 0.0, roll=rate * BLADES * INERTIA * SPEED)
    assert forward == pytest.approx(16.0 * rate / (LOCK * SPEED))
    assert left == pytest.approx(0.0)


class Blade(NamedTuple):
    """Means over a turn: first harmonics of flapping, and loads of all blades in N and N m."""

    backward: float
    left: float
    in_plane: float
    sideways: float
    torque: float


def turned(across: float, stiffness: float) -> Blade:
    """A blade in steps of half a degree until it repeats itself; lift normal to the flow, no drag."""
    steps, turns = 720, 60
    radii = (np.arange(60) + 0.5) / 60 * RADIUS
    scale = 0.5 * DENSITY * LIFT_SLOPE * CHORD * RADIUS / 60

    def flow(azimuth: float, angle: float, rate: float) -> tuple[Any, Any]:
        tangential = SPEED * radii + across * math.sin(azimuth)
        return tangential, THROUGH + rate * radii + across * angle * math.cos(azimuth)

    def acceleration(azimuth: float, angle: float, rate: float) -> float:
        tangential, normal = flow(azimuth, angle, rate)
        moment = float((radii * scale * (tangential**2 * PITCH - tangential * normal)).sum())
        return (moment - stiffness * angle) / INERTIA - SPEED**2 * angle

    h = 2.0 * math.pi / steps / SPEED
    angle = rate = 0.0
    rows = []
    for k in range(steps * turns):
        azimuth = SPEED * h * k
        if k >= steps * (turns - 1):
            tangential, normal = flow(azimuth, angle, rate)
            lift = scale * (tangential**2 * PITCH - tangential * normal)
            drag = scale * (tangential * normal * PITCH - normal**2)
            sine, cosine = math.sin(azimuth), math.cos(azimuth)
            in_plane = float((drag * sine - angle * lift * cosine).sum())
            aside = float((drag * cosine + angle * lift * sine).sum())
            rows.append((angle * cosine, angle * sine, in_plane, aside, float((drag * radii).sum())))
        k1 = acceleration(azimuth, angle, rate)
        k2 = acceleration(azimuth + 0.5 * SPEED * h, angle + 0.5 * h * rate, rate + 0.5 * h * k1)
        k3 = acceleration(
            azimuth + 0.5 * SPEED * h, angle + 0.5 * h * rate + 0.25 * h * h * k1, rate + 0.5 * h * k2
        )
        k4 = acceleration(azimuth + SPEED * h, angle + h * rate + 0.5 * h * h * k2, rate + h * k3)
        angle += h * rate + h * h / 6.0 * (k1 + k2 + k3)
        rate += h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
    mean = np.array(rows).mean(axis=0)
    return Blade(-2.0 * mean[0], -2.0 * mean[1], BLADES * mean[2], BLADES * mean[3], BLADES * mean[4])


@pytest.mark.parametrize(
    "stiffness",
    [0.0, pytest.param(1.0, marks=pytest.mark.slow), 4.0, pytest.param(30.0, marks=pytest.mark.slow)],
)
def test_a_blade_integrated_turn_by_turn_flaps_alike(stiffness: float) -> None:
    across = 10.0
    blade = turned(across, stiffness)
    forward, left, coning = tilt(across, stiffness)
    size = math.hypot(blade.backward, blade.left)
    assert math.hypot(forward + blade.backward, left + blade.left) < 0.02 * size
    # Blades without drag: the in-plane force of rigid ones, and that of the tilt.
    thrust = LIFT * (1.0 + 1.5 * (across / (SPEED * RADIUS)) ** 2) - SLOPE * THROUGH
    rigid = 1.5 * LIFT * THROUGH * across / (SPEED * RADIUS) ** 2
    push, aside = disc_push(LIFT, thrust, SLOPE, RADIUS, SPEED, THROUGH, across, 1.0, forward, left, coning)
    assert rigid - push == pytest.approx(blade.in_plane, rel=0.03)
    assert aside == pytest.approx(blade.sideways, abs=0.03 * abs(blade.in_plane))
    assert (thrust * THROUGH + push * across - rigid * across) / SPEED == pytest.approx(
        blade.torque, rel=0.01
    )


def soft(stiffness: float | None, **changes: Any) -> Airframe:
    """The iris with a spring at the root of its blades, or rigid."""
    airframe = load_airframe("iris")
    fields = airframe.rotor_model.model_dump() | {"rolling_moment": None, "drag": None} | changes
    if stiffness is not None:
        fields |= {"flap_stiffness": stiffness, "blade_inertia": INERTIA}
    made = airframe.model_copy(update={"rotor_model": CoefficientRotor(**fields)})
    made.__dict__.pop("record", None)
    return made


def held(
    airframe: Airframe,
    velocity: tuple[float, float, float],
    turn: tuple[float, float, float] = (0.0, 0.0, 0.0),
) -> tuple[NDArray[np.float64], NDArray[np.float64], Any]:
    """Force in N and moment in N m on a level vehicle that is held at a motion, and its state."""
    vehicle = airframe.vehicle()[()]
    state = held_at_motion(airframe, velocity, turn).states[0]
    force = float(vehicle["mass"]) * np.array(state["specific_force"])
    return force, vehicle["inertia"] @ state["angular_acceleration"], state


@pytest.mark.parametrize("uneven", [False, True])
def test_stiff_blades_are_rigid(uneven: bool) -> None:
    motion = (8.0, -3.0, 1.0), (0.6, -0.4, 0.2)
    rigid = held(soft(None, uneven_inflow=uneven), *motion)
    stiff = held(soft(1e9, uneven_inflow=uneven), *motion)
    assert stiff[0] == pytest.approx(rigid[0], rel=1e-6, abs=1e-6)
    assert stiff[1] == pytest.approx(rigid[1], rel=1e-6, abs=1e-7)


def test_soft_blades_lean_the_thrust_back_and_pitch_by_their_place_alone() -> None:
    across = 8.0
    rigid, _, _ = held(soft(None), (across, 0.0, 0.0))
    force, moment, state = held(soft(0.0), (across, 0.0, 0.0))
    wanted = 0.0
    vehicle = soft(0.0).vehicle()[()]
    for k in range(4):
        speed, through = float(state["rotor_speed"][k]), float(state["induced_velocity"][k])
        thrust, radius = float(state["rotor_thrust"][k]), float(vehicle["rotor_radius"][k])
        slope = 0.25 * 1.163 * float(vehicle["blade_slope"][k]) * speed * radius**2
        advance = across / (speed * radius)
        lift = (thrust + slope * through) / (1.0 + 1.5 * advance**2)
        angle = 4.0 * (lift - 0.5 * slope * through) / (slope * speed * radius) * advance
        wanted += (thrust - 0.5 * slope * through) * angle / (1.0 - 0.5 * advance**2)
    assert rigid[0] - force[0] == pytest.approx(wanted, rel=0.02)
    assert wanted > 0.2
    # Hinges without stiffness carry no moment: only the thrusts' and forces' levers are left.
    levers = sum(
        float(vehicle["rotor_position"][k][0]) * float(state["rotor_thrust"][k]) for k in range(4)
    ) + float(vehicle["rotor_position"][0][2]) * float(force[0] + 0.0)
    drag = airframe_drag(across)
    levers -= float(vehicle["rotor_position"][0][2]) * drag
    assert moment[1] == pytest.approx(levers, abs=0.01)


def airframe_drag(speed: float) -> float:
    """Drag of the iris's body along its x axis, N."""
    vehicle = load_airframe("iris").vehicle()[()]
    return -float(vehicle["drag_force"][0]) * speed**2 * 1.163 / float(vehicle["drag_density"])


def test_the_law_of_the_trim_has_the_same_force_and_power() -> None:
    across, speed = 8.0, 700.0
    rigid, free = soft(None).vehicle()[()], soft(0.0).vehicle()[()]
    before = rotor_loads(rigid, 0, speed, 0.5, across, DENSITY)
    after = rotor_loads(free, 0, speed, 0.5, across, DENSITY)
    assert after[0] == before[0]
    assert after[2] > 1.1 * before[2]
    assert after[3] == 0.0
    # Shaft and drag power go to the flow and the sections, however the blades flap.
    power = [torque * speed + drag * across**2 for _, torque, drag, _ in (before, after)]
    assert power[1] == pytest.approx(power[0], rel=1e-9)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"blade_inertia": None}, "needs both flap_stiffness and blade_inertia"),
        ({"inflow": "none"}, "flap_stiffness needs inflow: momentum"),
        ({"rolling_moment": 1e-6}, "rolling_moment is measured with the blades' flapping"),
        ({"blade_inertia": 1e-3}, "blade_inertia: 2 blades have 0.002 kg m"),
    ],
)
def test_what_contradicts_flapping_is_refused(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        soft(None, **({"flap_stiffness": 2.0, "blade_inertia": INERTIA} | changes))


def test_inherited_drag_is_removed_with_null(tmp_path: Path) -> None:
    """The message for a field that the base gives says how, and following it makes the file valid."""
    file = tmp_path / "soft.yaml"

    def write(removed: str) -> None:
        model = f"inflow: momentum, flap_stiffness: 2.0, blade_inertia: {INERTIA}{removed}"
        text = f"base: iris\nname: soft\ndescription: soft blades\nrotor_model: {{{model}}}\n"
        file.write_text(text, encoding="utf-8")

    write("")
    with pytest.raises(ConfigurationError, match="drag: null removes that of a base"):
        load_airframe(file)
    write(", drag: null")
    with pytest.raises(ConfigurationError, match="rolling_moment: null removes that of a base"):
        load_airframe(file)
    write(", drag: null, rolling_moment: null")
    model = load_airframe(file).rotor_model
    assert isinstance(model, CoefficientRotor)
    assert (model.drag, model.rolling_moment) == (None, None)


def test_check_names_flapping_among_the_effects() -> None:
    assert "flapping" in soft(2.0).rotor_model.effects()[0]
    assert "flapping" in soft(None).rotor_model.effects()[1]
