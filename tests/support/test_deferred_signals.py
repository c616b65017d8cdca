"""Signals whose handlers wait until a block is left. Only signals that every system has are sent."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tilewright.support.deferred_signals import deferred_signals

INTERRUPT, TERMINATE = signal.SIGINT, signal.SIGTERM


class Raised(Exception):
    """The error that a handler of these tests raises."""


@pytest.fixture
def handled() -> Iterator[list[int]]:
    """The numbers of signals that were handled; afterwards the handlers are those from before."""
    seen: list[int] = []

    def note(number: int, frame: Any) -> None:
        seen.append(number)

    before = {number: signal.signal(number, note) for number in (INTERRUPT, TERMINATE)}
    yield seen
    for number, handler in before.items():
        signal.signal(number, handler)


def test_handlers_run_when_the_block_is_left(handled: list[int]) -> None:
    handlers = [signal.getsignal(number) for number in (INTERRUPT, TERMINATE)]
    with deferred_signals():
        signal.raise_signal(TERMINATE)
        signal.raise_signal(INTERRUPT)
        assert handled == []
    assert handled == [TERMINATE, INTERRUPT]
    assert [signal.getsignal(number) for number in (INTERRUPT, TERMINATE)] == handlers


def test_blocks_inside_of_others(handled: list[int]) -> None:
    with deferred_signals():
        with deferred_signals():
            signal.raise_signal(INTERRUPT)
        assert handled == []
    assert handled == [INTERRUPT]


def test_what_a_handler_raises_keeps_no_other_from_running(handled: list[int]) -> None:
    def fail(number: int, frame: Any) -> None:
        raise Raised

    def block() -> None:
        with deferred_signals():
            signal.raise_signal(INTERRUPT)
            signal.raise_signal(TERMINATE)

    signal.signal(INTERRUPT, fail)
    with pytest.raises(Raised):
        block()
    assert handled == [TERMINATE]
    assert signal.getsignal(INTERRUPT) is fail


def test_an_exception_of_the_block_stays_the_cause(handled: list[int]) -> None:
    def block(number: int) -> None:
        with deferred_signals():
            if number:
                signal.raise_signal(number)
            raise Raised

    signal.signal(INTERRUPT, signal.default_int_handler)
    with pytest.raises(KeyboardInterrupt) as error:
        block(INTERRUPT)
    assert isinstance(error.value.__context__, Raised)
    with pytest.raises(Raised):
        block(0)


def test_a_handler_that_stands_in_is_as_the_one_before(monkeypatch: pytest.MonkeyPatch, handled: list[int]) -> None:
    """Another signal may raise while handlers are put back, and some stay: they do what those before them did."""
    real, left = signal.signal, []

    def leave(number: int, handler: Any) -> None:
        left.append(number)

    with deferred_signals():
        monkeypatch.setattr(signal, "signal", leave)
    monkeypatch.setattr(signal, "signal", real)
    assert {INTERRUPT, TERMINATE} <= set(left)
    signal.raise_signal(INTERRUPT)
    assert handled == [INTERRUPT]


def test_other_threads_change_no_handler(handled: list[int]) -> None:
    found: list[Any] = []

    def work() -> None:
        with deferred_signals():
            found.append(signal.getsignal(INTERRUPT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [signal.getsignal(INTERRUPT)]
