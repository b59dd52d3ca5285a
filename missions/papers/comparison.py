"""What the programs of missions/papers return: the paper's values beside those of this version.

``scripts/papers`` runs the programs and writes their tables and pictures into docs/papers.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

NEAR = 0.1
"""Relative difference from the paper's value up to which a value needs no explanation."""


@dataclass(frozen=True)
class Row:
    """A quantity as the paper gives it, beside its value here.

    Attributes:
        quantity: in words.
        unit: SI, or as the paper has it.
        paper: the printed value with its digits, a bound such as ``"> 0.9"``, or empty where the paper
            prints none.
        here: the value of this version; nan for what did not happen.
        reason: why the two differ, of a row that differs by more than ``near`` or misses its bound.
        digits: behind the point; None takes those of the paper.
        near: relative difference up to which the two agree.
    """

    quantity: str
    unit: str
    paper: str
    here: float
    reason: str = ""
    digits: int | None = None
    near: float = NEAR

    @property
    def value(self) -> float:
        """The paper's number; nan without one."""
        return float(self.paper.lstrip("<> ")) if self.paper else math.nan

    @property
    def agrees(self) -> bool:
        """Whether the value here keeps the bound, or is within ``near`` and the paper's last digit."""
        if not self.paper:
            return True
        if self.paper[0] in "<>":
            return self.here < self.value if self.paper[0] == "<" else self.here > self.value
        last = 10.0 ** -len(self.paper.partition(".")[2])
        return abs(self.here - self.value) <= self.near * abs(self.value) + 0.5 * last

    @property
    def shown(self) -> str:
        """The value here, with the digits of the paper's."""
        if math.isnan(self.here):
            return "none"
        digits = len(self.paper.partition(".")[2]) if self.digits is None else self.digits
        text = f"{self.here:.{digits}f}"
        return text.removeprefix("-") if float(text) == 0.0 else text

    @property
    def difference(self) -> str:
        """The relative difference, and its reason."""
        told = ""
        if self.paper and self.paper[0] not in "<>" and self.value and math.isfinite(self.here):
            percent = round(100.0 * (self.here / self.value - 1.0))
            told = f"{percent:+d} %" if percent else "0 %"
        return ": ".join(part for part in (told, self.reason) if part)


Reproduce = Callable[[Path, bool], list[Row]]
"""``reproduce(picture, quick)`` of a program: draws the figure into a PNG file and returns its rows."""


def new_figure(width: float = 8.0, height: float = 3.2) -> Figure:
    """An empty figure, inches, for ``save``."""
    figure = Figure(figsize=(width, height), dpi=90, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save(figure: Figure, picture: Path) -> None:
    """Write a figure as a small PNG file of 256 colours."""
    buffer = io.BytesIO()
    figure.savefig(buffer)
    Image.open(buffer).convert("RGB").quantize(256).save(picture, optimize=True)
