"""`return` inside a loop."""

SIGNATURE = {"n": "i32"}


def kernel(n):
    for i in range(n):
        if i > 3:
            return
