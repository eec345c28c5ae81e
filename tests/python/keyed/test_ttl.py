"""State that expires: what is seen, renewed and removed; both clocks."""

import functools

import pytest

import pillarbox as pb
from keyed.support import AtKeys
from pillarbox._harness.memory import dump
from pillarbox._keyed.context import FOREVER, UNKNOWN

SHOWN_ONCE = "return_expired_if_not_cleaned_up"
ON_READ = "on_read_and_write"


def value(**ttl):
    return AtKeys(lambda ctx: ctx.value_state("v", "int", ttl=pb.StateTtl("10 ms", **ttl)))


def elements(**ttl):
    return AtKeys(lambda ctx: ctx.list_state("l", "int", ttl=pb.StateTtl("10 ms", **ttl)))


def entries(**ttl):
    return AtKeys(lambda ctx: ctx.map_state("m", "string", "int", ttl=pb.StateTtl("10 ms", **ttl)))


def test_expired_is_ttl_after_the_write_or_later():
    keys = value()
    keys.at(now=5).update(1)
    assert keys.at(now=14).value() == 1
    assert keys.at(now=15).value() is None
    assert keys.at(now=14).value() is None  # it is gone, not hidden


def test_a_write_renews_and_a_read_does_so_only_if_asked():
    for options, expected in (({}, None), ({"update": ON_READ}, 1)):
        keys = value(**options)
        keys.at(now=0).update(1)
        assert keys.at(now=9).value() == 1
        assert keys.at(now=12).value() == expected
    keys = value()
    keys.at(now=0).update(1)
    keys.at(now=9).update(2)
    assert keys.at(now=18).value() == 2


def test_an_expired_value_may_be_shown_once_more():
    keys = value(visibility=SHOWN_ONCE, update=ON_READ)
    keys.at(now=0).update(1)
    assert keys.at(now=50).value() == 1
    assert keys.at(now=50).value() is None


def test_a_life_beyond_the_end_of_time_never_ends():
    keys = value()
    keys.at(now=FOREVER - 3).update(1)
    assert keys.at(now=FOREVER).value() == 1
    keys.at(now=FOREVER - 10).update(2)
    assert keys.at(now=FOREVER).value() is None
    old = value()
    old.at(now=UNKNOWN + 1).update(3)
    assert old.at(now=UNKNOWN + 2).value() == 3


def test_event_time_counts_from_the_row_and_goes_by_the_watermark():
    keys = value(time_domain="event_time")
    keys.at(timestamp=100, watermark=50, now=10**9).update(1)
    assert keys.at(watermark=109).value() == 1
    keys.at(timestamp=90, watermark=80).update(2)  # an older row does not shorten the life
    assert keys.at(watermark=109).value() == 2
    assert keys.at(watermark=110).value() is None
    keys.at(timestamp=None, watermark=200).update(3)
    assert keys.at(watermark=209).value() == 3
    assert keys.at(watermark=210).value() is None


def test_an_entry_that_on_expire_puts_anew_or_removes_is_shown_as_it_is_then():
    told = []

    def tell(key, first, entry):
        told.append((first, entry))
        if len(told) == 1:
            second, third = [name for name in "xyz" if name != first][:2]
            keys.at(now=50).put(second, 99)
            keys.at(now=50).remove(third)

    keys = entries(on_expire=tell)
    for name in "xyz":
        keys.at(now=0).put(name, 1)
    assert list(keys.at(now=50).items()) == [("y", 99)]
    assert told == [("x", 1)]
    assert list(keys.at(now=59).items()) == [("y", 99)]


def test_a_value_without_a_known_time_lives_from_the_first_watermark_whenever_it_is_met():
    for keys, write, read in (
        (value(time_domain="event_time"), lambda h: h.update(1), lambda h: h.value()),
        (elements(time_domain="event_time"), lambda h: h.add(1), lambda h: h.get() or None),
        (entries(time_domain="event_time"), lambda h: h.put("x", 1), lambda h: h.get("x")),
    ):
        for key in "ab":
            write(keys.at(key))
            assert read(keys.at(key, timestamp=300)) is not None  # no read before it starts it
        keys.runtime.context._first_watermark = 500
        assert read(keys.at("a", watermark=509)) is not None
        assert read(keys.at("b", watermark=510)) is None
        assert read(keys.at("a", watermark=510)) is None


def test_a_late_row_takes_no_life_from_what_was_written_before_any_watermark():
    keys = value(time_domain="event_time")
    keys.at().update(1)
    keys.runtime.context._first_watermark = 500
    keys.at(watermark=500, timestamp=450).update(2)
    assert keys.at(watermark=509).value() == 2
    assert keys.at(watermark=510).value() is None


def test_a_value_without_a_known_time_starts_its_life_when_it_is_met():
    keys = value(time_domain="event_time")
    keys.at().update(1)
    assert keys.at(watermark=1000).value() == 1
    assert keys.at(watermark=1009).value() == 1
    assert keys.at(watermark=1010).value() is None


def test_each_element_of_a_list_lives_by_itself():
    keys = elements()
    keys.at(now=0).add(1)
    keys.at(now=5).add_all([2, 3])
    assert keys.at(now=10).get() == [2, 3]
    assert keys.at(now=15).get() == []


def test_a_list_read_on_read_lives_on_and_shows_the_expired_once_in_place():
    keys = elements(update=ON_READ, visibility=SHOWN_ONCE)
    keys.at(now=0).add(1)
    keys.at(now=5).add(2)
    assert keys.at(now=12).get() == [1, 2]
    assert keys.at(now=21).get() == [2]
    assert keys.at(now=31).get() == [2]  # expired by now, and shown for the last time
    assert keys.at(now=31).get() == []


def test_reading_a_list_writes_no_element_back():
    keys = elements(update=ON_READ)
    keys.at(now=0).add_all(range(100))
    cells, _ = keys.function.handle.cells()
    cells[0].ops.clear()
    keys.at(now=5).add(7)
    assert len(keys.at(now=6).get()) == 101
    assert keys.at(now=11).get()[0] == 0
    assert len([op for op in cells[0].ops if op[1] is not None]) == 1
    assert len(cells[0].ops) <= 3


def test_each_entry_of_a_map_lives_by_itself():
    keys = entries()
    keys.at(now=0).put("x", 1)
    keys.at(now=5).put("y", 2)
    state = keys.at(now=10)
    assert not state.is_empty()
    assert (state.get("x"), state.contains("x"), state.get("y")) == (None, False, 2)
    assert dict(state.items()) == {"y": 2}
    assert keys.at(now=15).is_empty()
    assert list(keys.at(now=15).keys()) == []


def test_an_empty_map_is_told_without_counting_the_expired():
    keys = entries(visibility=SHOWN_ONCE)
    keys.at(now=0).put("x", 1)
    assert keys.at(now=10).is_empty()
    assert keys.at(now=10).get("x") == 1
    assert keys.at(now=10).get("x") is None


def test_reading_a_map_renews_only_what_is_read():
    keys = entries(update=ON_READ)
    keys.at(now=0).put_all({"x": 1, "y": 2})
    assert keys.at(now=9).get("x") == 1
    assert dict(keys.at(now=12).items()) == {"x": 1}


@pytest.mark.parametrize(("visibility", "after"), [("never_return_expired", 5), (SHOWN_ONCE, 6)])
def test_adding_to_an_expired_aggregate(visibility, after):
    ttl = pb.StateTtl("10 ms", visibility=visibility)
    keys = AtKeys(lambda ctx: ctx.reducing_state("r", "int", lambda a, b: a + b, ttl=ttl))
    keys.at(now=0).add(1)
    keys.at(now=10).add(5)
    assert keys.at(now=10).get() == after
    assert keys.at(now=19).get() == after
    assert keys.at(now=20).get() == (None if visibility == "never_return_expired" else after)


def test_what_expires_is_told_once_with_its_key():
    told = []
    options = {"on_expire": lambda *what: told.append(what)}
    for keys, write in (
        (value(**options), lambda state: state.update(1)),
        (elements(**options), lambda state: state.add(1)),
        (entries(**options), lambda state: state.put("x", 1)),
    ):
        write(keys.at("k", now=0))
        for _ in range(2):
            state = keys.at("k", now=10)
            getattr(state, "value", getattr(state, "get", None))(
                *(["x"] if keys.function.handle.declaration.kind == "map" else [])
            )
    assert told == [("k", None, 1), ("k", None, 1), ("k", "x", 1)]


def test_looking_from_outside_touches_nothing():
    keys = value()
    keys.at("k", now=0).update(1)
    before = dump(keys.function.handle, 0)
    keys.at("k", now=50)
    assert dump(keys.function.handle, 0) == before


def test_event_time_needs_a_watermark():
    with pytest.raises(pb.StateError, match="withWatermark"):
        AtKeys(
            lambda ctx: ctx.value_state(
                "v", "int", ttl=pb.StateTtl("1 s", time_domain="event_time")
            ),
            event_time=False,
        )


@pytest.mark.parametrize(
    "options",
    [
        {"duration": 5},
        {"duration": "0 s"},
        {"duration": "-1 s"},
        {"duration": "1 s", "update": "always"},
        {"duration": "1 s", "visibility": True},
        {"duration": "1 s", "time_domain": "event"},
        {"duration": "1 s", "on_expire": 5},
        {"duration": "1 s", "on_expire": lambda key, value: None},
    ],
)
def test_a_ttl_that_can_not_work_is_refused(options):
    with pytest.raises(pb.InvalidOption):
        pb.StateTtl(**options)


async def tells_later(key, map_key, value): ...


def tells_by_and_by(key, map_key, value):
    yield key


class TellsLater:
    async def __call__(self, key, map_key, value): ...


@pytest.mark.parametrize(
    "on_expire",
    [tells_later, tells_by_and_by, functools.partial(tells_by_and_by, "a"), TellsLater()],
)
def test_an_on_expire_whose_call_would_run_nothing_is_refused(on_expire):
    with pytest.raises(pb.InvalidOption, match="on_expire must be a plain function"):
        pb.StateTtl("1 s", on_expire=on_expire)
