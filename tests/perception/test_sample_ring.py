"""Samples in shared memory, read by this and by another process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sitl_bridge as sb
from sitl_bridge.perception.sample_ring import PLACE, PREFIX, SLOTS, SampleRing

NAME = f"test-{os.getpid()}"
READER = """
import sys
import sitl_bridge as sb
with sb.SampleReader(sys.argv[1], timeout=30) as reader:
    print("ready", flush=True)
    for sample in reader:
        print(sample.number, round(sample.time * 1e6), int(sample.arrays["image"].sum()), flush=True)
"""


def sample(k: int) -> dict[str, np.ndarray]:
    return {"image": np.full((6, 8, 3), k, np.uint8), "ranges": np.arange(5, dtype=np.float32) + k}


def test_another_process_reads_every_sample_until_the_end() -> None:
    ring = SampleRing(NAME, sample(0))
    environment = {**os.environ, "PYTHONPATH": str(Path(sb.__file__).parent.parent)}
    reader = subprocess.Popen(
        [sys.executable, "-c", READER, NAME], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert reader.stdout is not None
    assert reader.stdout.readline() == "ready\n"
    for k in range(3):
        ring.put(k * 100_000, sample(k))
    lines = [reader.stdout.readline().split() for _ in range(3)]
    ring.close()
    assert reader.wait(30) == 0
    reader.stdout.close()
    assert lines == [[str(k), str(k * 100_000), str(144 * k)] for k in range(3)]
    assert not (PLACE / (PREFIX + NAME)).exists()


def test_a_reader_gets_the_latest_sample_and_never_one_that_is_overwritten() -> None:
    ring = SampleRing(NAME, sample(0))
    with sb.SampleReader(NAME) as reader:
        assert reader.latest() is None
        for k in range(3 * SLOTS):
            ring.put(k, sample(k))
        latest = reader.latest()
        assert latest is not None
        assert latest.number == 3 * SLOTS - 1
        assert latest.arrays["ranges"].tolist() == sample(latest.number)["ranges"].tolist()
        ring.close()
        assert [s.number for s in reader] == list(range(2 * SLOTS + 1, 3 * SLOTS))


def test_a_name_in_use_and_a_sensor_that_is_not_there_are_named() -> None:
    ring = SampleRing(NAME, sample(0))
    with pytest.raises(sb.UserError, match="another simulation"):
        SampleRing(NAME, sample(0))
    ring.close()
    with pytest.raises(sb.UserError, match="share: true"):
        sb.SampleReader(NAME)


def test_a_sample_of_another_shape_is_refused() -> None:
    ring = SampleRing(NAME, sample(0))
    with pytest.raises(sb.UserError, match="has changed"):
        ring.put(0, {"image": np.zeros((2, 2, 3), np.uint8), "ranges": np.zeros(5, np.float32)})
    ring.close()
