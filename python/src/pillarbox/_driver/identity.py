"""Names the operators of ``async_io``, so that their calls have ids that tell them apart.

An id is made of the operator, the micro-batch if there is one, the partition and the row. What an
operator is depends on where ``async_io`` is called:

- on a streaming DataFrame: its place in the query, which is the same when the query is restarted;
- inside ``foreachBatch``: which of its kind it is in this micro-batch, counted from 0; the same
  when the micro-batch is run again;
- anywhere else, and inside ``foreachBatch`` on Spark Connect, which doesn't tell the micro-batch:
  a name by chance, which belongs to the DataFrame.

What stands in front of the numbers of partition and row has no meaning for users and may change.
"""

from __future__ import annotations

import hashlib
import threading
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .door import MicroBatch, door_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class Identity:
    """``signature`` is alike for operators of one kind, in every run of a program.

    ``operator`` is for limits, which hold over micro-batches; ``calls`` starts the ids of calls.
    ``calls`` is None on a streaming DataFrame, which belongs to no query yet.
    """

    signature: str
    operator: str
    calls: str | None


def identify(
    df: DataFrame, name: str, returns: StructType, inputs: Sequence[str] | None
) -> Identity:
    """The identity of an operator that is being made over ``df``, on the driver."""
    told = "|".join([name, returns.json(), *(inputs or ["*"])])
    signature = hashlib.blake2s(told.encode(), digest_size=6).hexdigest()
    if df.isStreaming:
        return Identity(signature, uuid.uuid4().hex, None)
    batch = door_of(df.sparkSession).micro_batch()
    if batch is None:
        operator = uuid.uuid4().hex
        return Identity(signature, operator, operator)
    place = f"{signature}-f{_counters.next(batch, signature)}"
    return Identity(signature, f"{batch.query}-{place}", f"{batch.query}-{batch.number}-{place}")


class _Counters:
    """Counts the operators of a kind in the micro-batch that each query is at."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._current: dict[str, tuple[MicroBatch, Counter[str]]] = {}

    def next(self, batch: MicroBatch, signature: str) -> int:
        with self._lock:
            known, counts = self._current.get(batch.query, (None, Counter[str]()))
            if known != batch:
                counts = Counter()
                self._current[batch.query] = batch, counts
            counts[signature] += 1
            return counts[signature] - 1


_counters = _Counters()
