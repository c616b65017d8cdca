"""`try` in a kernel that has a `with`, too, whose instructions look alike."""

from typing import Any

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*i32", "n": "i32"}


class Named:
    """A context manager that does nothing."""

    __triton_builtin__ = True

    def __init__(self, _semantic: Any = None) -> None:
        pass

    def __enter__(self, _semantic: Any = None) -> None:
        pass

    def __exit__(self, kind: object, value: object, trace: object, _semantic: Any = None) -> None:
        pass


@tw.jit
def kernel(x, n):
    with Named():
        tl.store(x, n)
    try:
        tl.store(x + 1, n)
    except ValueError:
        tl.store(x + 2, n)
