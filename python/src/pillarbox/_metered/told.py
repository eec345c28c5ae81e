"""The way from tasks of Spark's own workers to the driver, which is an accumulator's."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from pyspark.accumulators import Accumulator, AccumulatorParam

Lines = list[Any]
"""Tuples of an operator's id, a kind and a text; of the JVM texts alone."""


class Collected(AccumulatorParam[Lines]):
    """Collects what is told, in a task."""

    def zero(self, value: Lines) -> Lines:
        return []

    def addInPlace(self, value1: Lines, value2: Lines) -> Lines:
        return [*value1, *value2]


class ToldByTasks:
    """Tells the driver of an operator's failed calls, when their task has ended without an error.

    Without an accumulator it tells nothing.
    """

    def __init__(self, accumulator: Accumulator[Lines] | None) -> None:
        self._accumulator = accumulator
        self._operator = uuid4().hex

    def add(self, first_failures: list[tuple[str, str]]) -> None:
        """Tell the kinds and texts of a task's first failures."""
        if self._accumulator is not None and first_failures:
            self._accumulator.add([(self._operator, *told) for told in first_failures])
