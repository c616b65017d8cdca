"""The parts of knobs: a descriptor for each kind of value, groups of knobs, chains of hooks.

    class demo_knobs(base_knobs):
        name = env_str("DEMO_NAME", "nobody", "who is greeted")
        loud = env_bool("DEMO_LOUD", description="in capitals")

    demo = demo_knobs()
    demo.name                       # "nobody", or the present value of DEMO_NAME
    demo.name = "Ann"               # holds until it is deleted; DEMO_NAME is set too, for child processes
    del demo.name                   # or demo.name = env: the environment applies again
    with demo.scope(): ...          # afterwards, knobs and environment are as before

An empty variable counts as unset. The groups are in `support.knobs`. Names are Triton's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, overload

from tilewright.support.named_tuple import NamedTuple

if TYPE_CHECKING:
    from typing import Generic
else:

    class Generic:
        """`typing.Generic` without a record of its parameters, which is unused and takes long to make."""

        def __class_getitem__(cls, _parameters: Any) -> type:
            return cls


Value = TypeVar("Value")
Given = TypeVar("Given")
Hook = TypeVar("Hook", bound=Callable[..., Any])

TRUE_WORDS = frozenset(("1", "true", "yes", "on", "y"))


class KnobError(ValueError, RuntimeError):
    """An environment variable has a value that it cannot have. (Triton raises RuntimeError.)"""


class Env:
    """The value that, assigned to a knob, lets the environment decide again."""


env = Env()


class Propagation:
    """Whether knobs that are set also set their environment variables."""

    on = True


_observers: list[Callable[[], None]] = []


def observe(callback: Callable[[], None]) -> None:
    """Register `callback`, called when a knob was set, reset or deleted, or a chain of hooks became empty or non-empty.

    A change of the environment itself is not noticed; `refresh_knobs` reports it.
    """
    _observers.append(callback)


def changed() -> None:
    """Notify the observers."""
    for callback in _observers:
        callback()


def setenv(key: str, value: str | None) -> None:
    """Set an environment variable, or unset it for None; nothing while `propagate_env` is false."""
    if Propagation.on:
        _write(key, value)


def _write(key: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(key, None)
    else:
        os.environ[key] = value


def getenv(key: str) -> str | None:
    """The variable's text; None when it is unset or empty."""
    return os.environ.get(key) or None


def environment() -> dict[str, str]:
    """A copy of all environment variables, to start a process with."""
    return dict(os.environ)


def toenv(value: Any) -> tuple[str | None] | None:
    """The text of a knob's value in the environment, as a tuple of one; None when it cannot be said as text."""
    if isinstance(value, bool):
        return (str(int(value)),)
    if value is None or isinstance(value, str):
        return (value,)
    return (str(value),) if isinstance(value, int) else None


class env_base(Generic[Given, Value]):
    """A knob: takes `Given` when it is set, is read as `Value`.

    Attributes:
        key: the environment variable.
        description: what it does here, for docs/settings.md.
    """

    default: Any = None

    def __init__(self, key: str, description: str = "") -> None:
        self.key = key
        self.description = description
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, group: None, owner: type) -> Self: ...
    @overload
    def __get__(self, group: base_knobs, owner: type) -> Value: ...
    def __get__(self, group: base_knobs | None, owner: type) -> Self | Value:
        if group is None:
            return self
        if self.name in group.__dict__:
            return self.transform(group.__dict__[self.name])
        text = getenv(self.key)
        return self.default_in(group) if text is None else self.parse(text)

    def __set__(self, group: base_knobs, value: Given | Env) -> None:
        if isinstance(value, Env):
            group.__dict__.pop(self.name, None)
            return
        if isinstance(value, os.PathLike):
            value = os.fspath(value)
        group.__dict__[self.name] = value
        text = toenv(value)
        if text:
            setenv(self.key, text[0])

    def __delete__(self, group: base_knobs) -> None:
        group.__dict__.pop(self.name, None)

    def get(self) -> Value:
        """The value from the environment, apart from any group.

        Raises:
            KnobError: something that this knob cannot be.
        """
        text = getenv(self.key)
        return self.default_in(None) if text is None else self.parse(text)

    def default_in(self, group: base_knobs | None) -> Value:
        """The value where neither a program nor the environment sets one."""
        return self.default  # type: ignore[no-any-return]  # kinds declare it with their own type

    def parse(self, text: str) -> Value:
        """The value that a variable's text stands for."""
        raise NotImplementedError

    def transform(self, value: Given) -> Value:
        """The value that is read after `value` was set."""
        return value  # type: ignore[return-value]  # one type, except where this is overridden

    def error(self, text: str, expected: str) -> KnobError:
        """The error for a text that this knob cannot have."""
        return KnobError(f"{self.key}={text!r}: expected {expected} ({self.description})")


class env_default(env_base[Value, Value]):
    """A value with a default."""

    def __init__(self, key: str, default: Value | None = None, description: str = "") -> None:
        super().__init__(key, description)
        if default is not None:
            self.default = default


class env_str(env_default[str]):
    """A text."""

    default = ""

    def parse(self, text: str) -> str:
        return text


class env_str_callable_default(env_str):
    """A text whose default is computed from the group when it is asked for."""

    def __init__(self, key: str, default_factory: Callable[[Any], str], description: str = "") -> None:
        super().__init__(key, "", description)
        self.default_factory = default_factory

    def default_in(self, group: base_knobs | None) -> str:
        return self.default_factory(group)


def _working_folder() -> str:
    """The current folder; nothing where it was removed."""
    try:
        return os.getcwd()
    except OSError:
        return ""


_started_in = _working_folder()


class env_folder(env_str_callable_default):
    """A folder, as an absolute path, so that it stays the same when the program goes to another folder.

    A relative path in the environment begins where the process was when this was imported, and one that a program
    sets, where it is at that moment. A leading `~` stays for those who use the path.
    """

    def parse(self, text: str) -> str:
        return _absolute(text, _started_in)

    def __set__(self, group: base_knobs, value: str | Env) -> None:
        absolute = value if isinstance(value, Env) else _absolute(os.fspath(value), _working_folder())
        super().__set__(group, absolute)


def _absolute(path: str, folder: str) -> str:
    return path if path.startswith("~") else os.path.join(folder, path)


class env_opt_str(env_base[str | None, str | None]):
    """A text or None."""

    def parse(self, text: str) -> str:
        return text


class env_bool(env_default[bool]):
    """A flag; 1, true, yes, on and y in any case are true, everything else is false."""

    default = False

    def parse(self, text: str) -> bool:
        return text.strip().lower() in TRUE_WORDS


class env_opt_bool(env_base[bool | None, bool | None]):
    """A flag or None."""

    def parse(self, text: str) -> bool:
        return text.strip().lower() in TRUE_WORDS


class env_int(env_default[int]):
    """A whole number, not below `least`."""

    default = 0

    def __init__(self, key: str, default: int = 0, description: str = "", *, least: int | None = None) -> None:
        super().__init__(key, default, description)
        self.least = least

    def parse(self, text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise self.error(text, "int") from None
        if self.least is not None and number < self.least:
            raise self.error(text, f"{self.least} or more")
        return number


class env_size(env_default[int]):
    """A number of bytes; in the environment also as `500M`, `2G` or `2GiB`, in powers of 1024."""

    units: ClassVar = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}

    def parse(self, text: str) -> int:
        found = re.fullmatch(r"\s*(\d+)\s*([KMGT]?)(?:i?B)?\s*", text, re.IGNORECASE)
        if not found:
            raise self.error(text, "a number of bytes such as 500M")
        return int(found[1]) << self.units[found[2].upper()]


class env_class(env_base[type[Value] | None, type[Value] | None]):
    """A class, in the environment as `module:Class`, with a base class called `base`; or None."""

    def __init__(self, key: str, base: str, description: str = "") -> None:
        super().__init__(key, description)
        self.base = base

    def parse(self, text: str) -> type[Value]:
        module, colon, name = text.partition(":")
        if not colon:
            raise self.error(text, "MODULE:CLASS")
        try:
            found = getattr(import_module(module), name)
        except (ImportError, AttributeError) as error:
            raise self.error(text, "a class that can be imported") from error
        if not any(base.__name__ == self.base for base in found.__mro__):
            raise self.error(text, f"a subclass of {self.base}")
        return found  # type: ignore[no-any-return]  # checked by name: its class is in a higher layer


class base_knobs:
    """A group of knobs."""

    def __repr__(self) -> str:
        values = (f"{name}={value!r}" for name, value in self.knobs.items())
        return f"{type(self).__name__}({', '.join(values)})"

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        changed()

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        changed()

    @property
    def knob_descriptors(self) -> dict[str, env_base[Any, Any]]:
        """The knobs of this group that the environment can set, by name."""
        return {name: knob for name, knob in vars(type(self)).items() if isinstance(knob, env_base)}

    @property
    def knobs(self) -> dict[str, Any]:
        """The values of the knobs."""
        return {name: getattr(self, name) for name in self.knob_descriptors}

    def copy(self) -> Self:
        """A group of its own with the same values."""
        made = type(self)()
        made.__dict__.update(self.__dict__)
        return made

    def reset(self) -> Self:
        """Let the environment decide all knobs; hooks stay. Returns the group."""
        for name in self.knob_descriptors:
            self.__dict__.pop(name, None)
        changed()
        return self

    @contextmanager
    def scope(self) -> Iterator[None]:
        """A context for `with`: on leaving, the group and its environment variables are as they were."""
        variables = {knob.key: os.environ.get(knob.key) for knob in self.knob_descriptors.values()}
        values = dict(self.__dict__)
        try:
            yield
        finally:
            self.__dict__.clear()
            self.__dict__.update(values)
            for key, text in variables.items():
                _write(key, text)
            changed()


class HookChain(Generic[Hook]):
    """Functions that are called one after the other with the same arguments.

    Args:
        reversed: call the last one added first.
    """

    def __init__(self, reversed: bool = False) -> None:
        self.calls: list[Hook] = []
        self.reversed = reversed

    def add(self, func: Hook) -> None:
        """Append a function that is not yet in the chain."""
        if func not in self.calls:
            self.calls.append(func)
            if len(self.calls) == 1:
                changed()

    def remove(self, func: Hook) -> None:
        """Take a function out, if it is there."""
        if func in self.calls:
            self.calls.remove(func)
            if not self.calls:
                changed()

    def __bool__(self) -> bool:
        """Whether there is a function; where there is none, torch asks for no metadata of launches."""
        return bool(self.calls)

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Call them all; a copy is walked, so a hook may remove itself."""
        for call in self.calls[::-1] if self.reversed else self.calls[:]:
            call(*args, **kwargs)


def chain_of(hook: HookChain[Hook] | Hook | None, *, like: HookChain[Hook]) -> HookChain[Hook]:
    """The chain for what is assigned to one: a function makes a chain that has only it, None an empty one."""
    if isinstance(hook, HookChain):
        return hook
    made: HookChain[Hook] = HookChain(reversed=like.reversed)
    if hook is not None:
        if not callable(hook):
            raise TypeError(f"a hook is a function, a HookChain or None, and {hook!r} is a {type(hook).__name__}")
        made.calls.append(hook)
    return made


class CompileTimes(NamedTuple):
    """The times that the parts of a compilation took, in microseconds; `compilation.listener` gets them.

    Attributes:
        ir_initialization: the time until there is a first IR.
        lowering_stages: stage and time, in order.
        store_results: writing to the cache.
    """

    ir_initialization: int
    lowering_stages: list[tuple[str, int]]
    store_results: int

    @property
    def total_lowering(self) -> int:
        """The time of all stages, in microseconds."""
        return sum(time for _, time in self.lowering_stages)

    @property
    def total(self) -> int:
        """The time of everything, in microseconds."""
        return self.ir_initialization + self.total_lowering + self.store_results
