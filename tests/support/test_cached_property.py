"""Cached properties: computed once, kept on the instance, and free of locks that a fork would leave locked."""

from __future__ import annotations

import os
import signal
import threading

from tilewright.support.cached_property import cached_property


class Slow:
    """A property whose computation can be held up."""

    def __init__(self) -> None:
        self.started, self.may_end, self.calls = threading.Event(), threading.Event(), 0

    @cached_property
    def value(self) -> object:
        """A new object."""
        self.calls += 1
        self.started.set()
        assert self.may_end.wait(30)
        return object()


def test_the_value_is_computed_once_and_kept_on_the_instance() -> None:
    slow = Slow()
    slow.may_end.set()
    assert slow.value is slow.value is vars(slow)["value"]
    assert slow.calls == 1
    assert isinstance(Slow.value, cached_property)
    assert Slow.value.__doc__ == "A new object."


def test_threads_that_ask_at_once_see_one_value() -> None:
    slow, seen = Slow(), list[object]()
    threads = [threading.Thread(target=lambda: seen.append(slow.value)) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert slow.started.wait(30)
    slow.may_end.set()
    for thread in threads:
        thread.join(30)
    assert len(seen) == 4
    assert len(set(map(id, seen))) == 1


def test_a_child_forked_while_another_thread_computes_reads_the_property() -> None:
    held, other = Slow(), Slow()
    other.may_end.set()
    thread = threading.Thread(target=lambda: held.value)
    thread.start()
    assert held.started.wait(30)
    child = os.fork()
    if child == 0:
        signal.alarm(10)  # kills a child that hangs
        os._exit(0 if other.value is not None else 1)
    held.may_end.set()
    thread.join(30)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
