"""Scalar types of C by their names in PX4's logs and events and in MAVLink, with codes of ``struct``."""

from __future__ import annotations

CODES = {
    "int8_t": "b",
    "uint8_t": "B",
    "int16_t": "h",
    "uint16_t": "H",
    "int32_t": "i",
    "uint32_t": "I",
    "int64_t": "q",
    "uint64_t": "Q",
    "float": "f",
    "double": "d",
    "bool": "?",
    "char": "c",
}
