"""Identities of the operators of ``async_io``, which the ids of their calls are made of.

An id is made of the operator, the micro-batch if there is one, the partition, the row and what the
function sees of it. The operator is known by

- its place in the query on a streaming DataFrame, which is the same when the query is restarted;
- its number among the operators of its kind in the micro-batch inside ``foreachBatch``, which is
  the same when the micro-batch is run again;
- a random name elsewhere, and inside ``foreachBatch`` on Spark Connect, which doesn't tell the
  micro-batch. The name belongs to the DataFrame.
"""

from __future__ import annotations

import hashlib
import threading
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .client import MicroBatch, client_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from .._keyed_async.options import KeyedCalls


@dataclass(frozen=True)
class Identity:
    """The identity of one operator.

    ``signature`` is equal for operators of one kind, in every run of a program. ``operator`` is for
    limits, which hold over micro-batches. The ids of calls are made of ``calls``; it is None on a
    streaming DataFrame, which belongs to no query yet.
    """

    signature: str
    operator: str
    calls: str | None


def identify(
    df: DataFrame, name: str, returns: StructType, inputs: Sequence[str] | None
) -> Identity:
    """Return the identity of a new operator over ``df``. Runs on the driver."""
    told = "|".join([name, returns.json(), *(inputs or ["*"])])
    signature = hashlib.blake2s(told.encode(), digest_size=6).hexdigest()
    if df.isStreaming:
        return Identity(signature, uuid.uuid4().hex, None)
    batch = client_of(df.sparkSession).micro_batch()
    if batch is None:
        operator = uuid.uuid4().hex
        return Identity(signature, operator, operator)
    place = f"{signature}-f{_counters.next(batch, signature)}"
    return Identity(signature, f"{batch.query}-{place}", f"{batch.query}-{batch.number}-{place}")


def identify_calls(df: DataFrame, calls: KeyedCalls) -> Identity:
    """Return the identity of the calls of a new keyed operator over ``df``. Runs on the driver."""
    return identify(df, f"process_keyed {calls.options.name}", calls.returns, None)


class _Counters:
    """The number of operators of each kind in the current micro-batch of each query."""

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
