"""The aggregates that users write for aggregating states."""

from __future__ import annotations

from typing import Generic

from .typevars import Accumulator, In, Out


class AggregateFunction(Generic[In, Accumulator, Out]):
    """How an aggregating state folds elements into an accumulator; PyFlink's names.

    ``AggregateFunction[float, Row, float]`` tells type checkers the types of the elements, the
    accumulator and the result.
    """

    def create_accumulator(self) -> Accumulator:
        """The accumulator of no elements; of the state's accumulator type."""
        raise NotImplementedError(f"{type(self).__name__}.create_accumulator")

    def add(self, value: In, accumulator: Accumulator) -> Accumulator:
        """The accumulator with ``value`` in it; it may be ``accumulator`` itself, changed."""
        raise NotImplementedError(f"{type(self).__name__}.add")

    def get_result(self, accumulator: Accumulator) -> Out:
        """What ``get()`` of the state gives."""
        raise NotImplementedError(f"{type(self).__name__}.get_result")
