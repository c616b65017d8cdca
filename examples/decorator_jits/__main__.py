"""The three decorators on one function: `python examples/decorator_jits`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from decorator_jits.from_bytecode import bytecodejit
from decorator_jits.from_source import astjit
from decorator_jits.from_trace import tracejit


def expression(a, b, c, d):
    return (a + d) * (10 - c) + b + d / c


def main() -> None:
    for name, jit in {"source": astjit, "bytecode": bytecodejit, "trace": tracejit}.items():
        fast = jit(expression)
        print(f"from {name:9} {fast(2, 16, 3, 4)}")
    print(fast.compiled().text)


if __name__ == "__main__":
    main()
