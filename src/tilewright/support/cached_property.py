"""`functools.cached_property` without the lock that it has before Python 3.12.

That lock is one for all instances of a class, and a thread holds it while it computes. If a fork happens meanwhile, the
child waits for it for ever. Here two threads that access the property at once may both compute; the first to finish
sets the value.

    class Circle:
        @cached_property
        def area(self) -> float: ...
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class cached_property(Generic[T]):  # noqa: N801 - named like the decorator that it replaces
    """An attribute that the decorated method computes when it is first read, and that stays on the instance."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> cached_property[T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> cached_property[T] | T:
        if instance is None:
            return self
        value = self._compute(instance)
        kept: T = vars(instance).setdefault(self._name, value)
        return kept
