"""Timers of one key by the thousand: the earliest is found without a look at all."""

import random

import pytest

import pillarbox as pb
from pillarbox._keyed.context import EVENT_TIMER, FOREVER, PROCESSING_TIMER, KeyedContext
from pillarbox._keyed.timers import KeyTimers
from pillarbox.testing import KeyedHarness

COUNT = 4_000


class Time(int):
    """A time that counts how often it is compared."""

    compared = 0

    def __lt__(self, other):
        Time.compared += 1
        return int.__lt__(self, other)

    def __gt__(self, other):
        Time.compared += 1
        return int.__gt__(self, other)

    def __le__(self, other):
        Time.compared += 1
        return int.__le__(self, other)

    __hash__ = int.__hash__


def key_timers():
    context = KeyedContext("test", {})
    context.enter(0)
    return KeyTimers(context)


def test_all_that_are_set_at_once_fire_with_few_comparisons():
    timers = key_timers()
    for time in random.Random(1).sample(range(COUNT), COUNT):
        timers.hand_over(0, EVENT_TIMER, Time(time))
    Time.compared = 0
    fired = []
    while (due := timers.next_due(0, EVENT_TIMER, FOREVER)) is not None:
        timers.take(0, EVENT_TIMER, due)
        fired.append(due)
    assert fired == list(range(COUNT))
    assert Time.compared < 40 * COUNT


def test_looking_at_each_row_while_each_row_sets_one_compares_little():
    timers = key_timers()
    Time.compared = 0
    for time in range(COUNT):
        assert timers.next_due(0, EVENT_TIMER, time) is None
        timers.hand_over(0, EVENT_TIMER, Time(COUNT + time))
        timers.delete_event_time(COUNT + time - 2)
    for time in range(COUNT):
        assert timers.next_due(0, EVENT_TIMER, 0) is None
        timers.hand_over(0, EVENT_TIMER, Time(3 * COUNT + time))
    assert Time.compared < 40 * COUNT


@pytest.mark.parametrize("seed", range(20))
def test_the_earliest_is_that_of_a_plain_search(seed):
    timers, model, chance = key_timers(), set(), random.Random(seed)
    for _ in range(3_000):
        time, what = chance.randrange(60), chance.random()
        if what < 0.5:
            timers.register_processing_time(time)
            model.add(time)
        elif what < 0.7:
            timers.delete_processing_time(time)
            model.discard(time)
        elif what < 0.702:
            timers.delete_all()
            model.clear()
        else:
            limit = chance.randrange(60)
            due = timers.next_due(0, PROCESSING_TIMER, limit)
            assert due == min((time for time in model if time <= limit), default=None)
            if due is not None and chance.random() < 0.6:
                timers.take(0, PROCESSING_TIMER, due)
                model.discard(due)
    assert [timer.timestamp for timer in timers.of(0)] == sorted(model)


class SetsMany(pb.KeyedProcessFunction):
    def process(self, row, ctx):
        for time in range(20):
            ctx.timers.register_processing_time(1_000 - time)

    def on_timer(self, timestamp, ctx):
        if timestamp == 985:
            ctx.timers.delete_processing_time(986)
            ctx.timers.register_processing_time(984)
        return timestamp


def test_what_a_firing_sets_or_deletes_counts_among_many():
    one = KeyedHarness(SetsMany(), by="k", schema="k string", returns="at bigint")
    one.process(("a",))
    fired = [row.at for row in one.advance_processing_time(5_000)]
    assert fired == [*range(981, 986), 984, *range(987, 1_001)]
