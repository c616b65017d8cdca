"""`return` inside a loop."""

import tilewright as tw

SIGNATURE = {"n": "i32"}
STAYS = True


@tw.jit
def kernel(n):
    for i in range(n):
        if i > 3:
            return
