"""Wrappers of kernels; and `@heuristics`, which computes constants from the other arguments.

@heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@jit
def add(x, n, BLOCK: tl.constexpr, EVEN: tl.constexpr): …
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from tilewright.runtime.parameters import KernelInterface
from tilewright.runtime.pickling import is_importable


class Launchable(Protocol):
    """A kernel, or a wrapper around one."""

    fn: Any
    arg_names: list[str]

    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any: ...

    def warmup(self, *args: Any, grid: Any, **kwargs: Any) -> Any: ...


class KernelWrapper(KernelInterface):
    """A kernel around another one.

    Attributes:
        fn: the kernel inside, which may be a wrapper too.
        base_fn: the Python function at the bottom.
    """

    def __init__(self, fn: Launchable, arg_names: Sequence[str]) -> None:
        self.fn = fn
        self.arg_names = list(arg_names)
        self.base_fn: Any = fn
        while not inspect.isfunction(self.base_fn):
            self.base_fn = self.base_fn.fn
        self.__name__, self.__doc__ = self.base_fn.__name__, self.base_fn.__doc__
        self.__module__, self.__qualname__ = self.base_fn.__module__, self.base_fn.__qualname__
        self.__signature__ = inspect.signature(self.base_fn)

    @property
    def kernel(self) -> Any:
        """The kernel in the middle: what `@jit` made."""
        inner = self.fn
        while isinstance(inner, KernelWrapper):
            inner = inner.fn
        return inner

    def named(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments by name."""
        return dict(zip(self.arg_names, args, strict=False)) | dict(kwargs)

    def __call__(self, *_args: Any, **_kwargs: Any) -> Any:
        """Raises: kernels are launched.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError(f"kernels are launched on a grid: {self.__name__}[grid](...)")

    def __reduce__(self) -> str | tuple[Any, ...]:
        """By reference where other processes can import it, else by what it consists of."""
        if is_importable(self):
            return self.__qualname__
        return _remade, (type(self), self.sendable())

    def sendable(self) -> dict[str, Any]:
        """The attributes that another process gets."""
        return {name: value for name, value in vars(self).items() if name not in ("base_fn", "__signature__")}

    def arrive(self) -> None:
        """Set the other attributes, in the process that the kernel was sent to."""
        self.base_fn = self.kernel.fn
        self.__signature__ = inspect.signature(self.base_fn)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.__module__}:{self.__qualname__})"


class Heuristics(KernelWrapper):
    """A kernel some of whose constants are computed from its arguments."""

    def __init__(
        self, fn: Launchable, arg_names: Sequence[str], values: Mapping[str, Callable[[dict[str, Any]], Any]]
    ) -> None:
        super().__init__(fn, arg_names)
        if not isinstance(values, Mapping):
            raise TypeError(f"heuristics of {self.__name__} takes a dict of functions by parameter; got {values!r}")
        self.values = dict(values)
        for name, compute in self.values.items():
            if not callable(compute):
                raise TypeError(f"heuristics of {self.__name__} computes {name!r} by a function; got {compute!r}")

    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        for name, compute in self.values.items():
            kwargs[name] = compute(self.named(args, kwargs))
        return self.fn.run(*args, grid=grid, warmup=warmup, **kwargs)


def names_of(fn: Any, decorator: str) -> list[str]:
    """The names of the parameters of a kernel.

    Raises:
        TypeError: `fn` is no kernel.
    """
    if not hasattr(fn, "arg_names"):
        kind = type(fn).__name__
        raise TypeError(f"@{decorator} stands above @jit, which makes the kernel; it got {fn!r}, of type {kind}")
    names: list[str] = fn.arg_names
    return names


def _remade(kind: type[KernelWrapper], attributes: dict[str, Any]) -> KernelWrapper:
    made = kind.__new__(kind)
    vars(made).update(attributes)
    made.arrive()
    return made


def heuristics(values: Mapping[str, Callable[[dict[str, Any]], Any]]) -> Callable[[Any], Heuristics]:
    """Compute constants of a kernel from its other arguments.

    Args:
        values: a function of the arguments (a dict by name) for each parameter.

    Example:
        >>> @tw.heuristics({"BLOCK": lambda args: tw.next_power_of_2(args["n"])})
        ... @tw.jit
        ... def total(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
        ...     i = tl.arange(0, BLOCK)
        ...     tl.store(out_ptr, tl.sum(tl.load(x_ptr + i, mask=i < n, other=0.0)))
        >>> out = np.zeros(1)
        >>> kernel = total[(1,)](np.ones(100), out, 100)
        >>> out
        array([100.])
    """
    return lambda fn: Heuristics(fn, names_of(fn, "heuristics"), values)
