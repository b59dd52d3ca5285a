"""Methods that were attributes before: a program that still reads one is told what to write."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn, ParamSpec, TypeVar, cast

from sitl_bridge.base.errors import UserError

P = ParamSpec("P")
R = TypeVar("R")


def was_attribute(function: Callable[P, R]) -> Callable[P, R]:
    """Make a method that refuses to be used as the attribute it was, with a UserError."""
    return cast("Callable[P, R]", _Method(function))


class _Method:
    def __init__(self, function: Callable[..., object]) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    def __get__(self, owner: object, kind: type) -> Callable[..., object]:
        bound: Callable[..., object] = self._function.__get__(owner, kind)
        return bound if owner is None else _Bound(bound)


class _Bound:
    def __init__(self, call: Callable[..., object]) -> None:
        self.__wrapped__ = call

    def __call__(self, *args: object, **named: object) -> object:
        return self.__wrapped__(*args, **named)

    def _refuse(self, *_: object) -> NoReturn:
        name = self.__wrapped__.__name__
        raise UserError(f"{name} is a method now: write {name}() instead of {name}")

    __str__ = __format__ = __iter__ = __len__ = __getitem__ = __bool__ = __eq__ = _refuse
    __hash__ = None  # type: ignore[assignment]

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        self._refuse()
