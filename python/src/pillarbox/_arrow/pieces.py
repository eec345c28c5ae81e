"""Arrow batches of bounded size, each for one frame."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa

T = TypeVar("T")

ARROWS_MOST = 2**31 - 2  # the largest offset of Arrow


@dataclass(frozen=True)
class FrameSize:
    """The bounds that the JVM sends in INIT, in bytes.

    A batch larger than ``cut`` has one row, and no row is larger than ``most``.
    """

    cut: int = 64 << 20
    most: int = 1 << 30

    @staticmethod
    def of(spec: dict[str, Any]) -> FrameSize:
        return FrameSize(**spec["frame_bytes"]) if "frame_bytes" in spec else FrameSize()


class TooMuch(Exception):
    """One Arrow array can't hold the values."""


class TooLarge(Exception):
    """The item at ``index`` is larger than a frame may be."""

    def __init__(self, index: int, size: int) -> None:
        super().__init__(index, size)
        self.index = index
        self.size = size


def array_of(values: Sequence[Any], arrow_type: pa.DataType) -> pa.Array:
    """Return one array. Raises ``TooMuch`` where ``pa.array`` returns several."""
    try:
        array = pa.array(values, type=arrow_type)
    except pa.ArrowCapacityError as overflow:
        raise TooMuch from overflow
    if isinstance(array, pa.ChunkedArray):
        raise TooMuch
    return array


def cut(
    count: int, build: Callable[[int, int], pa.RecordBatch], size: FrameSize
) -> list[pa.RecordBatch]:
    """Cut the rows of ``build(0, count)``, one an item, into batches of bounded size.

    Raises ``TooLarge`` if an item is larger than a batch may be.
    """
    pieces = []
    for start, _, batch in halves(0, count, build) if count else ():
        if batch is None:
            raise TooLarge(start, ARROWS_MOST + 1)
        for first, last in spans(batch, range(len(batch) + 1), size):
            piece = batch.slice(first, last - first)
            # Of more rows than one it is within the cut, and bytes take long to count.
            if last - first == 1 and piece.nbytes > size.most:
                raise TooLarge(start + first, piece.nbytes)
            pieces.append(piece)
    return pieces


def halves(
    start: int, stop: int, build: Callable[[int, int], T]
) -> Iterator[tuple[int, int, T | None]]:
    """Yield the parts that Arrow can hold, with their bounds; None for an item that it can't."""
    try:
        built = build(start, stop)
    except TooMuch:
        if stop - start == 1:
            yield start, stop, None
            return
        middle = (start + stop) // 2
        yield from halves(start, middle, build)
        yield from halves(middle, stop, build)
    else:
        yield start, stop, built


def spans(
    batch: pa.RecordBatch, bounds: Sequence[int], size: FrameSize
) -> Iterator[tuple[int, int]]:
    """Yield the first and last index in ``bounds`` of each part of a batch that fits a frame.

    ``bounds[i]`` to ``bounds[i + 1]`` are the rows of item i, which stay together.
    """
    first, last = 0, len(bounds) - 1
    if last < 1:
        return
    waiting = [(first, last)]
    while waiting:
        first, last = waiting.pop()
        rows = bounds[last] - bounds[first]
        if last - first == 1 or batch.slice(bounds[first], rows).nbytes <= size.cut:
            yield first, last
        else:
            middle = (first + last) // 2
            waiting += [(middle, last), (first, middle)]
