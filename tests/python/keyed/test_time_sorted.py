"""``time_sorted``: one answer for a data set, however it is cut."""

from __future__ import annotations

import itertools
from collections import Counter
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pillarbox as pb
from pillarbox.testing import KeyedHarness

EPOCH = datetime(2026, 11, 1, tzinfo=timezone.utc)


class Turnaround(pb.KeyedProcessFunction):
    """An arrival opens a stay, a departure ends it; a timer tells who stays too long."""

    def open(self, ctx):
        ttl = pb.StateTtl("40 ms", time_domain="event_time")
        self.since = ctx.value_state("since", "bigint")
        self.seen = ctx.list_state("seen", "string", ttl=ttl)

    def process(self, row, ctx):
        since = self.since.value()
        self.seen.add(row.what)
        if row.what == "in":
            self.since.update(ctx.timestamp)
            ctx.timers.register_event_time(ctx.timestamp + 7)
        elif since is not None:
            ctx.timers.delete_event_time(since + 7)
            self.since.clear()
        yield row.k, ctx.timestamp, row.what, since, len(self.seen.get())

    def on_timer(self, timestamp, ctx):
        yield ctx.key, timestamp, "late", self.since.value(), len(self.seen.get())


def oracle(rows, end):
    """Row by row over each key's rows in the order of time."""
    return Counter(told for key in {row[0] for row in rows} for told in of_key(key, rows, end))


def of_key(key, rows, end):
    since, due, seen = None, [], []
    events = sorted((micros, what) for k, micros, what in rows if k == key)
    for micros, what in [*events, ((end + 1) * 1000, None)]:
        time = -(-micros // 1000)
        for timer in sorted(due):
            if timer < time:
                due.remove(timer)
                yield key, timer, "late", since, sum(one + 40 > timer for one in seen)
        if what is None:
            return
        alive = sum(one + 40 > time - 1 for one in seen) + 1
        yield key, time, what, since, alive
        seen.append(time)
        if what == "in":
            since = time
            due = sorted({*due, time + 7})
        elif since is not None:
            due = [timer for timer in due if timer != since + 7]
            since = None


def harness():
    return KeyedHarness(
        Turnaround(), by="k", schema="k string, ts timestamp, what string", timestamp="ts",
        returns="k string, t bigint, what string, since bigint, seen int", time_sorted=True,
    )  # fmt: skip


START_MS = int(EPOCH.timestamp() * 1000)
ROWS = st.lists(
    st.tuples(
        st.sampled_from("ab"),
        st.integers(0, 120).map(lambda half: START_MS * 1000 + half * 500),
        st.sampled_from(["in", "out"]),
    ),
    max_size=14,
)


def as_row(row):
    return row[0], EPOCH + timedelta(microseconds=row[1] - START_MS * 1000), row[2]


@settings(max_examples=200)
@given(ROWS, st.lists(st.integers(0, 14), max_size=6), st.randoms(), st.integers(0, 20))
def test_any_cutting_gives_the_rows_of_the_oracle(rows, cuts, random, delay):
    """Rows are shuffled as far as the watermark's delay allows, and cut anywhere."""
    rows = sorted(rows, key=lambda row: row[1] + random.randint(0, delay * 1000))
    stream, out, latest = harness(), [], None
    bounds = sorted({0, *(cut for cut in cuts if cut < len(rows)), len(rows)})
    for start, end in itertools.pairwise(bounds):
        batch = rows[start:end]
        out += stream.run_micro_batch([as_row(row) for row in batch])
        latest = max([*(row[1] for row in batch), *([] if latest is None else [latest])])
        out += stream.advance_watermark(latest // 1000 - delay - 1)
    assert stream.late_rows == 0
    end = START_MS + 1000
    out += stream.advance_watermark(end)
    assert Counter(map(tuple, out)) == oracle(rows, end)


@settings(max_examples=100)
@given(ROWS)
def test_a_batch_gives_them_too(rows):
    out = harness().run_batch([as_row(row) for row in rows])
    assert Counter(map(tuple, out)) == oracle(rows, START_MS + 10**6)


@settings(max_examples=50)
@given(ROWS, st.integers(0, 60))
def test_waiting_rows_live_through_a_restart(rows, at):
    stream = harness()
    stream.run_micro_batch([as_row(row) for row in rows])
    out = stream.advance_watermark(START_MS + at)
    again = KeyedHarness.restore(
        stream.snapshot(), Turnaround(), by="k", schema="k string, ts timestamp, what string",
        timestamp="ts", returns="k string, t bigint, what string, since bigint, seen int",
        time_sorted=True,
    )  # fmt: skip
    out += again.advance_watermark(START_MS + 1000)
    assert Counter(map(tuple, out)) == oracle(rows, START_MS + 1000)


def test_a_row_needs_a_time():
    with pytest.raises(pb.CallFailed, match="ts is null"):
        harness().process(("a", None, "in"))
    with pytest.raises(pb.InvalidOption, match="neither timestamp nor a watermark"):
        KeyedHarness(Turnaround(), by="k", schema="k string", returns="k string", time_sorted=True)
