"""Places in the checkout."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
AIRFRAMES, MISSIONS, DOCS = ROOT / "airframes", ROOT / "missions", ROOT / "docs"
DATA = ROOT / "tests" / "data"
