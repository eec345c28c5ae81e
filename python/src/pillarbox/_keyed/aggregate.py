"""The aggregates that users write for aggregating states."""

from __future__ import annotations

from typing import Generic

from .typevars import Accumulator, In, Out


class AggregateFunction(Generic[In, Accumulator, Out]):
    """The fold of an aggregating state over its elements; the names are PyFlink's.

    ``AggregateFunction[float, Row, float]`` tells type checkers the types of the elements, the
    accumulator and the result.
    """

    def create_accumulator(self) -> Accumulator:
        """Return the accumulator of no elements, of the state's accumulator type."""
        raise NotImplementedError(f"{type(self).__name__}.create_accumulator")

    def add(self, value: In, accumulator: Accumulator) -> Accumulator:
        """Return the accumulator with ``value`` in it; ``accumulator`` itself may be changed."""
        raise NotImplementedError(f"{type(self).__name__}.add")

    def get_result(self, accumulator: Accumulator) -> Out:
        """Return the result that ``get()`` of the state returns."""
        raise NotImplementedError(f"{type(self).__name__}.get_result")
