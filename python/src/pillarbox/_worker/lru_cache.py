"""The bounded cache in which a worker keeps functions and resources for its next tasks."""

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
    """The identity of a function together with the files of its broadcasts.

    ``broadcasts`` are pairs of id and path; a broadcast that came over a socket has the path None.
    """

    digest: bytes
    broadcasts: tuple[tuple[int, str | None], ...]

    @staticmethod
    def of(pickled: bytes) -> FunctionKey:
        """Return the key of a function of the current task, whose broadcasts are set up."""
        broadcasts = tuple((bid, path) for bid, path in sorted(_present().items()))
        return FunctionKey(hashlib.sha256(pickled).digest(), broadcasts)

    def size(self) -> int:
        """Return the pickled bytes of the broadcasts, as far as they are known."""
        return sum(_size_of(path) for _, path in self.broadcasts if path is not None)

    def is_alive(self) -> bool:
        """Return True if a task may still use these broadcasts: their files exist.

        A broadcast without a file counts as alive as long as the current task has it.
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
    """A cache by key that drops the least recently used things first.

    It keeps at most ``most`` things, whose functions and broadcasts have at most 32 MiB as pickled;
    the last used thing is kept whatever its size, and things of a destroyed broadcast are not kept.
    The caller closes the things that it takes out.
    """

    def __init__(self, most: int, most_bytes: int = _MOST_BYTES) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._things: OrderedDict[Hashable, tuple[FunctionKey, int, T]] = OrderedDict()
        self._bytes = 0

    @property
    def bytes(self) -> int:
        """The pickled size of all functions."""
        return self._bytes

    def get(self, key: Hashable) -> T | None:
        """Return the thing of ``key``, and mark it as used last."""
        if key not in self._things:
            return None
        self._things.move_to_end(key)
        return self._things[key][2]

    def put(self, key: Hashable, function: FunctionKey, pickled_bytes: int, thing: T) -> None:
        """Keep ``thing``, which was made of ``function``."""
        size = pickled_bytes + function.size()
        self._things[key] = function, size, thing
        self._bytes += size

    def pop(self, key: Hashable) -> T:
        _, size, thing = self._things.pop(key)
        self._bytes -= size
        return thing

    def has_surplus(self) -> bool:
        """Return True if there are things for ``take_surplus``."""
        return bool(self._dead()) or (len(self._things) > 1 and self._is_too_much())

    def take_surplus(self) -> list[T]:
        """Take out things beyond the bounds, and those of destroyed broadcasts."""
        surplus = [self.pop(key) for key in self._dead()]
        while len(self._things) > 1 and self._is_too_much():
            surplus.append(self.pop(next(iter(self._things))))
        return surplus

    def take_all(self) -> list[T]:
        return [self.pop(key) for key in list(self._things)]

    def _dead(self) -> list[Hashable]:
        return [key for key, (function, _, _) in self._things.items() if not function.is_alive()]

    def _is_too_much(self) -> bool:
        return len(self._things) > self._most or self._bytes > self._most_bytes
