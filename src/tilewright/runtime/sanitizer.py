"""Launches of sanitized kernels, which check their own accesses, and the decoding of their reports.

table of extents and shadows  →  the kernel, with the table as its last argument  →  reports  →  SanitizerError

Shadow memory has two stamps for each element that a launch may store to. Stamps increase from launch to launch, so
memory that an earlier launch used needs no clearing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from tilewright.backends.cpu.options import CHECKS
from tilewright.backends.cpu.sanitize import layout
from tilewright.runtime.arrays import ArrayView
from tilewright.runtime.drivers.cpu.python_memory import array_address
from tilewright.runtime.extents import Extent, extent_of
from tilewright.runtime.findings import Access, Finding, SanitizerError
from tilewright.runtime.unwritten import written_of
from tilewright.support.locks import fork_safe_lock
from tilewright.support.source import Span

_WASTE = 2
UNBOUNDED = 2**62
"""Size in bytes of an argument that does not say how large it is."""


class _Site(NamedTuple):
    """An access of the kernel; see `backends.cpu.sanitize.instrument.Site`."""

    kind: str
    shape: list[int]
    size: int
    places: list[list[Any]]
    arguments: list[int]

    @property
    def span(self) -> Span:
        span = Span.of(self.places)
        assert span is not None, "an access has a place"
        return span


class _Facts(NamedTuple):
    """See `backends.cpu.sanitize.instrument.Facts`."""

    checks: list[str]
    sites: list[_Site]
    sizes: list[int | None]
    stored: list[int]
    syncs: bool


@lru_cache(maxsize=256)
def _facts(text: str) -> _Facts:
    checks, sites, sizes, stored, syncs = json.loads(text).values()
    return _Facts(checks, [_Site(*site) for site in sites], sizes, stored, syncs)


class Launch(NamedTuple):
    """A launch to be checked.

    Attributes:
        facts: what the compiler said about the kernel and its checks, as JSON.
        names, values: those of the run-time arguments.
        run: runs the kernel with the table as one more argument.
    """

    facts: str
    grid: Sequence[int]
    names: Sequence[str]
    values: Sequence[int | float | ArrayView]
    run: Callable[[int], None]


def run_checked(**fields: Any) -> None:
    """Run the kernel of a `Launch` with these fields.

    Raises:
        SanitizerError: it did what it must not.
        ValueError: the grid is too large to look for races.
    """
    launch = Launch(**fields)
    facts, programs = _facts(launch.facts), prod(launch.grid)
    extents = _extents(launch)
    in_races = {number: extent for number, extent in extents.items() if "races" in facts.checks}
    reported = len(facts.sites) * len(CHECKS) * layout.CHECK
    synced = layout.STATES + programs * layout.STATE if facts.syncs else 1
    words = np.zeros(reported + synced + _WASTE, np.int64)  # reports, what the programs know, words to waste
    reports, sync, waste = (array_address(words) + 8 * start for start in (0, reported, reported + synced))
    stamps_per_program = layout.program_stamps(len(facts.sites))
    with stamps_for(in_races, facts.stored, programs * stamps_per_program) as stamps:
        table = _table(facts, extents, stamps)
        table[[layout.REPORTS, layout.SYNC, layout.WASTE]] = reports, sync, waste
        launch.run(array_address(table))
    if words[:reported].any():
        raise SanitizerError(list(_Reader(launch, facts, extents, stamps.base).findings(words[:reported])))


def _extents(launch: Launch) -> dict[int, Extent]:
    """The extents of those arguments that have one."""
    found: dict[int, Extent] = {}
    for number, (name, value) in enumerate(zip(launch.names, launch.values, strict=True)):
        extent = extent_of(name, value) if isinstance(value, ArrayView) else None
        if extent is not None:
            found[number] = extent
    return found


def _table(facts: _Facts, extents: dict[int, Extent], stamps: Stamps) -> np.ndarray[Any, Any]:
    rows: list[list[int]] = []
    for number, size in enumerate(facts.sizes):
        if size is None:
            continue
        extent = extents.get(number)
        if extent is None:
            rows.append([0, UNBOUNDED, 0, 0, 0])
            continue
        planes = stamps.addresses.get(number, (0, 0))
        rows.append([extent.low, extent.high - extent.low, *planes, written_of(extent)])
    header = [0] * layout.HEADER
    header[layout.BASE] = stamps.base
    return np.array([*header, *(word for row in rows for word in row)], np.int64)


class _Reader:
    """Turns the words of reports into findings."""

    def __init__(self, launch: Launch, facts: _Facts, extents: dict[int, Extent], base: int) -> None:
        self.launch, self.facts, self.extents, self.base = launch, facts, extents, base

    def findings(self, reports: np.ndarray[Any, Any]) -> Iterator[Finding]:
        words = reports.reshape(len(self.facts.sites), len(CHECKS), layout.CHECK)
        for (number, site), (position, check) in product(enumerate(self.facts.sites), enumerate(CHECKS)):
            count, *records = words[number, position].tolist()
            if count:
                starts = range(0, min(count, layout.SLOTS) * layout.RECORD, layout.RECORD)
                first = min(records[start : start + layout.RECORD] for start in starts)
                yield self._finding(site, check, first, count)

    def _finding(self, site: _Site, check: str, record: list[int], count: int) -> Finding:
        address = record[layout.ADDRESS]
        extent = self._argument(site, address)
        access = Access(site.kind, site.span, self._program(record[layout.PROGRAM]))
        return Finding(
            check=check,
            access=access,
            lane=tuple(map(int, np.unravel_index(record[layout.LANE], site.shape))) if site.shape else (),
            argument=extent.name if extent else "",
            element=extent.element_at(address) if extent else (),
            shape=extent.shape if extent else (),
            times=count,
            other=self._other(record) if check == "races" else None,
        )

    def _argument(self, site: _Site, address: int) -> Extent | None:
        """The argument that the address lies in, or is nearest to."""
        possible = [self.extents[number] for number in site.arguments if number in self.extents]
        return min(possible, key=lambda e: max(e.low - address, address - e.high + 1, 0), default=None)

    def _other(self, record: list[int]) -> Access:
        sites = layout.rounded_sites(len(self.facts.sites))
        program, rest = divmod(record[layout.OTHER] - self.base, layout.program_stamps(len(self.facts.sites)))
        number = rest // 2 % sites
        if not 0 <= program < prod(self.launch.grid) or number >= len(self.facts.sites):
            return Access("store", None, None)
        site = self.facts.sites[number]
        own = program == record[layout.PROGRAM]
        return Access(site.kind, site.span, None if own else self._program(program))

    def _program(self, number: int) -> tuple[int, int, int]:
        x, y, _ = self.launch.grid
        return number % x, number // x % y, number // (x * y)


Plane: TypeAlias = "np.ndarray[Any, Any]"
"""One stamp for each element."""

PLANES = 2
FIRST = 2
"""The least stamp of all: more than 0, which is no stamp, and even, because bit 0 has a meaning."""
LARGEST = 2**31 - 1
KEPT_BYTES = 1 << 28
"""Max bytes of shadows that are kept after a launch."""


class Stamps(NamedTuple):
    """The stamps of one launch.

    Attributes:
        addresses: for each argument where the stamps of its lowest element are, in each plane.
    """

    base: int
    addresses: dict[int, tuple[int, ...]]


class _Pool:
    """A pool of free shadow memory, with the least stamp that is unused."""

    def __init__(self) -> None:
        self.lock = fork_safe_lock()
        self.free: list[Plane] = []
        self.next = FIRST
        self.generation = 0

    def stamps(self, count: int) -> tuple[int, int]:
        """The first of `count` new stamps, and the generation that they belong to."""
        if self.next + count > LARGEST:
            self.free, self.next, self.generation = [], FIRST, self.generation + 1
        first, self.next = self.next, self.next + count
        return first, self.generation

    def take(self, count: int) -> Plane:
        """Memory for `count` stamps, in which all are less than the next one."""
        fitting = [place for place, plane in enumerate(self.free) if plane.size >= count]
        if not fitting:
            return np.zeros(count, np.int32)
        return self.free.pop(min(fitting, key=lambda place: self.free[place].size))

    def give_back(self, planes: Sequence[Plane], generation: int) -> None:
        with self.lock:
            if generation == self.generation:
                self.free = sorted([*self.free, *planes], key=len)
            while sum(plane.nbytes for plane in self.free) > KEPT_BYTES:
                self.free.pop()


_pool = _Pool()


@contextmanager
def stamps_for(extents: dict[int, Extent], stored: Sequence[int], count: int) -> Iterator[Stamps]:
    """Shadows for the arguments that share memory with one that is `stored`."""
    if count >= LARGEST:
        raise ValueError("the grid is too large to look for races; launch it in parts")
    taken: list[Plane] = []
    addresses: dict[int, tuple[int, ...]] = {}
    with _pool.lock:  # memory that a later launch gives back has later stamps than this one
        base, generation = _pool.stamps(count)
        for region in _regions(extents):
            if any(number in stored for number in region):
                found, planes = _shadows({number: extents[number] for number in region})
                addresses |= found
                taken += planes
    try:
        yield Stamps(base, addresses)
    finally:
        _pool.give_back(taken, generation)


def _shadows(region: dict[int, Extent]) -> tuple[dict[int, tuple[int, ...]], list[Plane]]:
    """Addresses of stamps for arguments that share memory, and the memory that the stamps are in.

    Arguments whose elements do not lie on each other have planes of their own.
    """
    low, high = min(extent.low for extent in region.values()), max(extent.high for extent in region.values())
    planes: dict[tuple[int, int], list[Plane]] = {}
    addresses: dict[int, tuple[int, ...]] = {}
    for number, extent in region.items():
        place, phase = divmod(extent.low - low, extent.size)
        if (extent.size, phase) not in planes:
            planes[extent.size, phase] = [_pool.take((high - low) // extent.size + 1) for _ in range(PLANES)]
        addresses[number] = tuple(array_address(plane) + 4 * place for plane in planes[extent.size, phase])
    return addresses, [plane for group in planes.values() for plane in group]


def _regions(extents: dict[int, Extent]) -> list[list[int]]:
    """The arguments, in groups that share memory."""
    groups: list[list[int]] = []
    end = 0
    for number in sorted(extents, key=lambda n: extents[n].low):
        extent = extents[number]
        if extent.low == extent.high:
            continue
        if groups and extent.low < end:
            groups[-1].append(number)
        else:
            groups.append([number])
        end = max(end, extent.high)
    return groups
