"""The remote cache in Redis; speaks its protocol over a socket, so no package is needed.

    knobs.redis.host, knobs.redis.port          where
    knobs.redis.key_format                      "triton:{key}:{filename}": the name of a file in Redis

A command must be answered completely within DEADLINE seconds.
"""

from __future__ import annotations

import socket
import time
from typing import TypeAlias
from weakref import finalize

from tilewright.runtime.cache.remote import RemoteCacheBackend
from tilewright.support import knobs

CONNECT_SECONDS = 0.5
DEADLINE = 1.0
MAX_LINE = 1 << 16
MAX_ANSWER = 1 << 30

Answer: TypeAlias = "bytes | int | list[Answer] | None"


class RedisError(OSError):
    """The server is not Redis, or refuses the command."""


class RedisRemoteCacheBackend(RemoteCacheBackend):
    """Files in Redis, at `knobs.redis`. One connection for each key, made with the first command."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self._name = knobs.redis.key_format
        self._address = (knobs.redis.host, knobs.redis.port)
        self._connection: _Connection | None = None

    def get(self, filenames: list[str]) -> dict[str, bytes]:
        """The contents of those files that are there.

        Raises:
            OSError: Redis cannot be reached, is too slow, or is none.
        """
        answer = self._command(b"MGET", *map(self._name_of, filenames))
        if not isinstance(answer, list) or len(answer) != len(filenames):
            raise RedisError("an answer that does not fit the question")
        return {name: data for name, data in zip(filenames, answer, strict=True) if isinstance(data, bytes)}

    def put(self, filename: str, data: bytes) -> None:
        """Keep a file.

        Raises:
            OSError: Redis cannot be reached, is too slow, refuses, or is none.
        """
        if self._command(b"SET", self._name_of(filename), data) != b"OK":
            raise RedisError("the file was not stored")

    def _name_of(self, filename: str) -> bytes:
        return self._name.format(key=self.key, filename=filename).encode()

    def _command(self, *words: bytes) -> Answer:
        if self._connection is None:
            self._connection = _Connection(self._address)
        return self._connection.ask(words)


class _Connection:
    """A socket, and what was received on it and not yet read."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address, timeout=CONNECT_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        finalize(self, self._socket.close)
        self._received = bytearray()
        self._deadline = 0.0

    def ask(self, words: tuple[bytes, ...]) -> Answer:
        """The answer to one command."""
        self._deadline = time.monotonic() + DEADLINE
        self._socket.settimeout(DEADLINE)
        self._socket.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))
        return self._answer()

    def _answer(self, depth: int = 0) -> Answer:
        line = self._line()
        kind, text = line[:1], line[1:]
        if kind == b"+":
            return text
        if kind == b"-":
            raise RedisError(text.decode(errors="replace"))
        if kind == b":":
            return _number(text)
        if kind == b"$":
            return self._bulk(_number(text))
        if kind == b"*" and depth == 0:
            return [self._answer(depth + 1) for _ in range(max(0, _number(text)))]
        raise RedisError(f"{line[:40]!r} is no answer of Redis")

    def _bulk(self, size: int) -> bytes | None:
        if size < 0:
            return None
        if size > MAX_ANSWER:
            raise RedisError(f"an answer of {size} bytes")
        return self._take(size + 2)[:-2]

    def _line(self) -> bytes:
        while (end := self._received.find(b"\r\n")) < 0:
            if len(self._received) > MAX_LINE:
                raise RedisError("a line that does not end")
            self._receive()
        return self._take(end + 2)[:-2]

    def _take(self, size: int) -> bytes:
        while len(self._received) < size:
            self._receive()
        taken = bytes(self._received[:size])
        del self._received[:size]
        return taken

    def _receive(self) -> None:
        remaining = self._deadline - time.monotonic()
        if remaining <= 0:
            raise TimeoutError("Redis did not answer in time")
        self._socket.settimeout(remaining)
        chunk = self._socket.recv(1 << 18)
        if not chunk:
            raise ConnectionResetError("Redis closed the connection")
        self._received += chunk


def _number(text: bytes) -> int:
    try:
        return int(text)
    except ValueError:
        raise RedisError(f"{text[:40]!r} is no number") from None
