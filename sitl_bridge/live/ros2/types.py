"""ROS 2's message types as DDS sees them: types of cyclonedds, their names and RIHS01 hashes.

Names by rmw's mangling (design.ros2.org, topic and service names): ``package::msg::dds_::Type_``.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache

from cyclonedds.idl import IdlStruct, make_idl_struct, types

from sitl_bridge.analysis.export.cdr_layout import DEFINITIONS, fields_of, schema_name
from sitl_bridge.base.json_data import JsonObject

_BASIC = {
    "bool": 15, "int8": 2, "uint8": 3, "char": 13, "int16": 4, "uint16": 5, "int32": 6, "uint32": 7,
    "int64": 8, "uint64": 9, "float32": 10, "float64": 11, "string": 17,
}  # fmt: skip
"""type_id of REP 2011 (type_description_interfaces/msg/FieldType)."""
_OTHER_NAMES = {"bool": bool, "char": types.uint8, "string": str}
"""Types of cyclonedds that have other names."""
_NESTED, _ARRAY, _SEQUENCE = 1, 48, 144
"""type_id of a message in a message; what arrays and unbounded sequences add."""
_BOUNDED_STRING = 21
"""type_id."""


def dds_name(name: str) -> str:
    """The DDS type of ``package/Type``; those of services are ``package/srv/Type_Request``."""
    *package, kind = name.split("/")
    middle = package[1] if len(package) > 1 else "msg"
    return f"{package[0]}::{middle}::dds_::{kind}_"


class Received:
    """A received part of a service, in CDR.

    Attributes:
        data: its bytes.
    """

    sample_info: object = None  # where it comes from; set by cyclonedds

    def __init__(self, data: bytes) -> None:
        self.data = data


@cache
def dds_type(name: str) -> type[IdlStruct]:
    """The type of ``package/Type``, from its definition."""
    fields: JsonObject = {}
    for kind, count, field in fields_of(name):
        basic = kind.partition("<=")[0]
        one = dds_type(kind) if kind in DEFINITIONS else _OTHER_NAMES.get(basic) or getattr(types, basic)
        fields[field] = (
            types.sequence[one] if count is None else one if count == 1 else types.array[one, count]
        )
    dotted = dds_name(name).replace("::", ".")
    made: type[IdlStruct] = make_idl_struct(name.rpartition("/")[2], dotted, fields)
    plain = made.serialize

    def serialize(self: IdlStruct, *options: object, **named: object) -> bytes:
        encoded: bytes = self.__dict__.get("encoded") or plain(self, *options, **named)
        return encoded

    made.serialize = serialize
    if "/srv/" in name:
        made.deserialize = classmethod(lambda _type, data, *_options, **_named: Received(bytes(data)))
    return made


def encode(name: str, data: bytes) -> IdlStruct:
    """A message of ``package/Type`` that is CDR already."""
    kind = dds_type(name)
    made: IdlStruct = object.__new__(kind)
    made.encoded = data
    return made


def type_hash(name: str) -> str:
    """RIHS01 of ``package/Type`` (REP 2016): SHA-256 of its description and those of the types in it."""
    found: JsonObject = {}

    def describe(kind: str) -> JsonObject:
        fields = [_describe(*field) for field in fields_of(kind)]
        for inner, _, _ in fields_of(kind):
            if inner in DEFINITIONS and inner not in found:
                found[inner] = describe(inner)
        return {"type_name": schema_name(kind), "fields": fields}

    main = describe(name)
    described = {
        "type_description": main,
        "referenced_type_descriptions": [found[inner] for inner in sorted(found)],
    }
    return f"RIHS01_{hashlib.sha256(json.dumps(described).encode()).hexdigest()}"


def _describe(kind: str, count: int | None, field: str) -> JsonObject:
    nested = kind in DEFINITIONS
    kind, bounded, longest = kind.partition("<=")
    number = _NESTED if nested else _BOUNDED_STRING if bounded else _BASIC[kind]
    number += _SEQUENCE if count is None else _ARRAY if count > 1 else 0
    return {
        "name": field,
        "type": {
            "type_id": number,
            "capacity": count if count is not None and count > 1 else 0,
            "string_capacity": int(longest or 0),
            "nested_type_name": schema_name(kind) if nested else "",
        },
    }
