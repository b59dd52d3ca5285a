"""The truth of a flight as arrays: recorded in this process, or read from a run's truth.npy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from sitl_bridge.base.arrays import AnyArray, Bytes, Floats, Mask, Records, Singles
from sitl_bridge.base.closing import Closing
from sitl_bridge.base.errors import UserError
from sitl_bridge.record.records import ROW, convert_rows, flat, row_type
from sitl_bridge.record.truth_log import TruthLog, as_rows, read_truth

if TYPE_CHECKING:
    import pandas
    import xarray


_AXES = {
    "position": "ned",
    "velocity": "ned",
    "wind": "ned",
    "attitude": "wxyz",
    "angular_velocity": "frd",
    "specific_force": "frd",
    "rotor_speed": "rotor",
    "rotor_thrust": "rotor",
    "control": "channel",
}
_LABELS = {"ned": ["north", "east", "down"], "wxyz": ["w", "x", "y", "z"], "frd": ["x", "y", "z"]}
_KEYS = ("time", "vehicle")


class TruthTable:
    """The true motion of n vehicles, step by step, and the commands that led to it.

    Positions are NED in m from the world's origin, body axes are FRD.

    Args:
        rows: (steps * n,) of a ``row_type``, all vehicles of a step together.
        names: of the vehicles.
        start: us of simulated time from which ``time`` counts.
        alone: whether the arrays of a single vehicle are without the vehicle axis.
    """

    def __init__(self, rows: Records, names: Sequence[str], start: int = 0, *, alone: bool = False) -> None:
        self.names = tuple(names)
        self._start = start
        self._rows = rows
        self._alone = alone

    def select(self, numbers: Sequence[int], names: Sequence[str], *, alone: bool = False) -> TruthTable:
        """The rows of some of the vehicles.

        Args:
            numbers: of the vehicles.
            names: of the vehicles.
            alone: whether the arrays of a single vehicle are without the vehicle axis.
        """
        return TruthTable(self.rows[:, list(numbers)].reshape(-1), names, self._start, alone=alone)

    def since(self, moment: int) -> TruthTable:
        """The rows after a moment in us of simulated time, from which their times count."""
        return TruthTable(self.rows[self.rows["time"][:, 0] > moment].reshape(-1), self.names, moment)

    def __getitem__(self, name: str) -> Any:
        """A column by name: ``truth["battery_voltage"]``; as the property of that name where there is one.

        Raises:
            UserError: for a column that the table does not have.
        """
        if name not in (ROW.names or ()):
            raise UserError(f"there is no column {name!r}; there are {', '.join(ROW.names or ())}")
        return getattr(self, name) if hasattr(type(self), name) else self._column(name)

    @classmethod
    def load(cls, file: str | Path, names: Sequence[str] | None = None) -> Self:
        """The truth of a run from its ``truth.npy``.

        Args:
            file: written by ``record``, ``fly`` or ``serve``.
            names: of the vehicles; None numbers them.

        Raises:
            UserError: when the file is missing or is no such table.
        """
        rows = _read(Path(file))
        count = int(rows["vehicle"].max(initial=0)) + 1
        return cls(rows, names or [str(i) for i in range(count)])

    @property
    def rows(self) -> Records:
        """(steps, n) record array with all columns."""
        rows = self._rows
        return rows.reshape(-1, len(self.names))

    def __len__(self) -> int:
        """Steps."""
        return len(self.rows)

    def _column(self, name: str) -> AnyArray:
        rows = np.asarray(self.rows[name])
        return rows[:, 0] if self._alone else rows

    @property
    def time(self) -> Floats:
        """(steps,) s of simulated time since the start, at the end of each step."""
        stamps: Floats = (self.rows["time"][:, 0] - self._start) * 1e-6
        return stamps

    @property
    def position(self) -> Floats:
        """(steps, n, 3) m NED from the world's origin, of the centre of gravity."""
        return self._column("position")

    @property
    def velocity(self) -> Floats:
        """(steps, n, 3) m/s NED."""
        return self._column("velocity")

    @property
    def attitude(self) -> Floats:
        """(steps, n, 4) quaternion w, x, y, z, body FRD to NED."""
        return self._column("attitude")

    @property
    def angular_velocity(self) -> Floats:
        """(steps, n, 3) rad/s, body FRD."""
        return self._column("angular_velocity")

    @property
    def specific_force(self) -> Floats:
        """(steps, n, 3) m/s^2, body FRD: what an ideal accelerometer measures."""
        return self._column("specific_force")

    @property
    def wind(self) -> Singles:
        """(steps, n, 3) m/s NED, velocity of the air at the vehicle."""
        return self._column("wind")

    @property
    def rotor_speed(self) -> Singles:
        """(steps, n, m) rad/s of the rotors of the vehicle that has most; 0 beyond those of another."""
        return self._column("rotor_speed")

    @property
    def rotor_thrust(self) -> Singles:
        """(steps, n, m) N."""
        return self._column("rotor_thrust")

    @property
    def control(self) -> Singles:
        """(steps, n, m) motor commands 0..1, held over the step that ends at ``time``."""
        return self._column("control")

    @property
    def armed(self) -> Mask:
        """(steps, n)."""
        armed: Mask = self._column("armed") != 0
        return armed

    def to_pandas(self) -> pandas.DataFrame:
        """A table with one scalar column a component (``position_north`` ...), by time in s and vehicle.

        Raises:
            UserError: where pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise UserError("to_pandas needs pandas, which is not installed: pip install pandas") from error
        columns = self.rows.reshape(-1)
        columns = columns.view(flat(columns.dtype))
        names = columns.dtype.names or ()
        index = pd.MultiIndex.from_product([self.time, self.names], names=_KEYS)
        return pd.DataFrame({name: columns[name] for name in names if name not in _KEYS}, index=index)

    def to_xarray(self) -> xarray.Dataset:
        """A data set with the dimensions ``time`` (s), ``vehicle`` and, for vectors, their axes.

        Raises:
            UserError: where xarray is not installed.
        """
        try:
            import xarray as xr
        except ImportError as error:
            raise UserError("to_xarray needs xarray, which is not installed: pip install xarray") from error
        variables = {}
        for name in ROW.names or ():
            if name not in _KEYS:
                axis = [_AXES[name]] if name in _AXES else []
                variables[name] = ((*_KEYS, *axis), self.rows[name])
        return xr.Dataset(variables, coords={"time": self.time, "vehicle": list(self.names), **_LABELS})


class Recording(Closing, TruthTable):
    """The truth of a flight while it is recorded; the arrays hold what has been recorded so far.

    Args:
        names: of the vehicles.
        start: us from which ``time`` counts.
        rotors: of the vehicle that has most.
        interval: us between the rows that are kept; 0 keeps every step.
        file: new file for the table, from which the arrays are then read; None keeps it in memory.
        end: called when the recording ends.

    Raises:
        UserError: when the file is there already or cannot be written.
    """

    def __init__(
        self,
        names: Sequence[str],
        start: int,
        rotors: int,
        interval: int,
        file: Path | None,
        end: Callable[[], None],
    ) -> None:
        super().__init__(np.zeros(0, row_type(rotors)), names, start)
        self.file = file
        self._interval = interval
        self._blocks: list[Records] = []
        self._log = None if file is None else TruthLog(file, self._rows.dtype)
        self._end: Callable[[], None] | None = end
        self._stale = False

    def write(
        self,
        rows: Records,
        _frames: Bytes | None = None,
        _steps: Records | None = None,
    ) -> None:
        """Take the rows of whole steps; frames and wall times are not kept.

        Raises:
            UserError: when the file can no longer be written; the rows before stay readable.
        """
        if self._interval:
            rows = rows[(rows["time"] - self._start) % self._interval == 0]
        if not len(rows):
            return
        self._stale = True
        if self._log is not None:
            self._log.write(rows)
        else:
            self._blocks.append(np.array(convert_rows(rows, self._rows.dtype)))

    @property
    def rows(self) -> Records:
        """(steps, n) record array with all columns."""
        if self._stale and self.file is not None:
            self._rows = _read(self.file)
        elif self._stale:
            # As bytes: numpy compares the types of records block by block.
            joined = np.concatenate([block.view(np.uint8) for block in self._blocks])
            self._rows = joined.view(self._rows.dtype)
            self._blocks = [self._rows]
        self._stale = False
        return super().rows

    def close(self) -> None:
        """End the recording; safe to call twice."""
        end, self._end = self._end, None  # it holds the flight, which holds the recording
        if end is not None:
            end()
        if self._log is not None:
            self._log.close()


def _read(file: Path) -> Records:
    return as_rows(read_truth(file), file)
