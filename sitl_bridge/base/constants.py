"""Constants of nature and of standards."""

from __future__ import annotations

STANDARD_GRAVITY = 9.80665
"""m/s^2 (3rd CGPM, 1901)."""
