"""A worker keeps functions and resources for its next tasks, within bounds."""

from __future__ import annotations

import hashlib
import os
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

_MOST_BYTES = 32 << 20


@dataclass(frozen=True)
class FunctionKey:
    """Tells functions apart, and the same function with the files of other broadcasts too.

    ``broadcasts`` are pairs of id and path; a broadcast that came over a socket has the path None.
    """

    digest: bytes
    broadcasts: tuple[tuple[int, str | None], ...]

    @staticmethod
    def of(pickled: bytes) -> FunctionKey:
        """The key of a function of the present task, whose broadcasts are set up."""
        broadcasts = tuple((bid, path) for bid, path in sorted(_present().items()))
        return FunctionKey(hashlib.sha256(pickled).digest(), broadcasts)

    def size(self) -> int:
        """Bytes of the broadcasts as they are pickled, as far as that can be told."""
        return sum(_size_of(path) for _, path in self.broadcasts if path is not None)

    def is_alive(self) -> bool:
        """True if a task may still come with these broadcasts: those of a destroyed one have gone.

        Of one without a file nothing can be told: it lives as long as the present task has it.
        """
        present = _present()
        return all(bid in present or _is_there(path) for bid, path in self.broadcasts)


def _present() -> dict[int, str | None]:
    from pyspark.core.broadcast import _broadcastRegistry

    return {bid: getattr(one, "_path", None) for bid, one in _broadcastRegistry.items()}


def _size_of(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def _is_there(path: str | None) -> bool:
    return path is not None and os.path.exists(path)


class LruCache(Generic[T]):
    """Things by key, of which those that were unused for longest make room.

    At most ``most``, whose functions and broadcasts together have at most 32 MiB as pickled; the
    one used last is kept whatever its size. What belongs to a destroyed broadcast is not kept.
    The caller that takes things out closes them.
    """

    def __init__(self, most: int, most_bytes: int = _MOST_BYTES) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._things: OrderedDict[Hashable, tuple[FunctionKey, int, T]] = OrderedDict()
        self._bytes = 0

    @property
    def bytes(self) -> int:
        """The size of all functions, as pickled."""
        return self._bytes

    def get(self, key: Hashable) -> T | None:
        """The thing of ``key``, which is now the one used last."""
        if key not in self._things:
            return None
        self._things.move_to_end(key)
        return self._things[key][2]

    def put(self, key: Hashable, function: FunctionKey, pickled_bytes: int, thing: T) -> None:
        """Keeps ``thing``, which was made of ``function``."""
        size = pickled_bytes + function.size()
        self._things[key] = function, size, thing
        self._bytes += size

    def pop(self, key: Hashable) -> T:
        """Takes a thing out."""
        _, size, thing = self._things.pop(key)
        self._bytes -= size
        return thing

    def take_surplus(self) -> list[T]:
        """Takes out what is beyond the bounds or belongs to what is gone."""
        dead = [key for key, (function, _, _) in self._things.items() if not function.is_alive()]
        surplus = [self.pop(key) for key in dead]
        while len(self._things) > 1 and self._is_too_much():
            surplus.append(self.pop(next(iter(self._things))))
        return surplus

    def take_all(self) -> list[T]:
        """Takes everything out."""
        return [self.pop(key) for key in list(self._things)]

    def _is_too_much(self) -> bool:
        return len(self._things) > self._most or self._bytes > self._most_bytes
