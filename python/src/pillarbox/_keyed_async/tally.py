"""What the calls of a task have cost, in counts that are told now and then."""

from __future__ import annotations


class Tally:
    """The counts since they were taken last; ``usage`` has amounts by unit.

    The counts have the meaning of the operator's metrics of the same names. ``latencies`` are the
    microseconds from the start of each attempt to its answer.
    """

    __slots__ = ("calls", "errors", "latencies", "rate_limited", "retries", "timeouts", "usage")

    def __init__(self) -> None:
        self.calls = self.retries = self.timeouts = self.errors = self.rate_limited = 0
        self.usage: dict[str, float] = {}
        self.latencies: list[int] = []

    @property
    def counts(self) -> tuple[int, int, int, int, int]:
        """The counts, in the order in which they are sent."""
        return self.calls, self.retries, self.timeouts, self.errors, self.rate_limited

    def taken(self) -> Tally | None:
        """Return what there is, and begin anew; None for nothing."""
        if not any(self.counts) and not self.usage and not self.latencies:
            return None
        found = Tally()
        for name in self.__slots__:
            setattr(found, name, getattr(self, name))
        self.calls = self.retries = self.timeouts = self.errors = self.rate_limited = 0
        self.usage = {}
        self.latencies = []
        return found
