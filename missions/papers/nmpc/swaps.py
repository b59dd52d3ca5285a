"""Six vehicles that swap places, in space, as figures 9 and 10 draw them."""

from __future__ import annotations

from pathlib import Path

from comparison import Row, new_figure, save

from .flights import flown, least, solve_times, variants


def compare(scenario: str, picture: Path, quick: bool) -> list[Row]:
    """Fly a swap, draw the trajectories, evaluate distances and computation times."""
    flight = flown(scenario)
    figure = new_figure(6.0, 5.0)
    axes = figure.add_subplot(projection="3d")
    for i in range(len(flight.names)):
        colour = f"C{i}"
        path = flight.state[:, i, :3]
        wanted = flight.reference[:, i]
        axes.plot(wanted[:, 1], wanted[:, 0], -wanted[:, 2], ":", color=colour, lw=0.8)
        axes.plot(path[:, 1], path[:, 0], -path[:, 2], color=colour, lw=1.2)
        axes.scatter(path[-1, 1], path[-1, 0], -path[-1, 2], color=colour, s=60)
    axes.set(xlabel="x [m]", ylabel="y [m]", zlabel="z [m]", zlim=(4.0, 6.0))
    save(figure, picture)
    return [
        Row("least distance", "m", "> 0.9", least(flight), digits=2),
        Row("all have swapped by", "s", "", float(flight.arrival().max()), digits=1),
        Row("effort, mean of the vehicles", "m²/s³", "", float(flight.effort().mean()), digits=1),
        *solve_times(flight),
        *variants(scenario, quick),
    ]
