"""A keyed task in the worker, seen from the JVM's end of the socket."""

from __future__ import annotations

import pickle
import sys
import threading
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pillarbox as pb
from pillarbox import columns
from worker.keyed_driver import KEEP, NONE, KeyedInProcess, KeyedOwnProcess, Store

LOG: list[str] = []


class Count(pb.KeyedProcessFunction):
    def open(self, ctx):
        LOG.append("open")
        self.n = ctx.value_state("n", "bigint")

    def process(self, row, ctx):
        n = (self.n.value() or 0) + row.x
        if n == 13:
            raise ValueError("thirteen")
        self.n.update(n)
        yield row.k, n

    def on_timer(self, timestamp, ctx):
        raise KeyError(timestamp)

    def close(self):
        LOG.append("close")


class Keys(Count):
    def process(self, row, ctx):
        yield ctx.key, next(super().process(row, ctx))[1]


@pytest.fixture
def keyed() -> Iterator[KeyedInProcess]:
    LOG.clear()
    one = KeyedInProcess()
    yield one
    one.close()


def row(key, x, time=NONE):
    return 0, key, time, (key, x)


def test_state_goes_out_and_comes_back_changed(keyed):
    store = Store(keyed.start_keyed(Count()))
    assert store.run([row("a", 5), row("b", 6), row("a", 1)]) == [
        ("a", 5),
        ("b", 6),
        ("a", 6),
    ]
    assert store.cells == {("n", "a"): ({"value": 6}, 0), ("n", "b"): ({"value": 6}, 0)}
    assert store.run([row(None, 1), row("b", 1)]) == [(None, 1), ("b", 7)]
    assert keyed.end()


def test_held_keys_come_once_and_their_state_goes_back_at_the_end(keyed):
    store = Store(keyed.start_keyed(Keys()))
    store.cells = {("n", "b"): ({"value": 10}, 0)}
    assert store.run([row("a", 1), row(None, 2)], flags=KEEP) == [("a", 1), (None, 2)]
    assert store.run([row("b", 1), row(None, 2)], flags=KEEP) == [("b", 11), (None, 4)]
    assert store.cells == {("n", "b"): ({"value": 10}, 0)}
    assert store.run([row("a", 4)]) == [("a", 5)]
    assert store.sent == [["a", None], ["b"], []]
    assert store.cells == {
        ("n", "a"): ({"value": 5}, 0),
        ("n", None): ({"value": 4}, 0),
        ("n", "b"): ({"value": 11}, 0),
    }
    assert store.run([row("c", 1), row("a", 1)]) == [("c", 1), ("a", 6)]
    assert store.sent[-1] == ["c", "a"]


def test_the_end_of_a_stage_may_be_a_frame_without_events(keyed):
    class Adds(pb.KeyedProcessFunction):
        def open(self, ctx):
            self.seen = ctx.list_state("seen", "bigint")

        def process(self, row, ctx):
            self.seen.add(row.x)

    store = Store(keyed.start_keyed(Adds()))
    store.run([row("a", 1)], flags=KEEP)
    store.run([row("b", 2), row("a", 3)], flags=KEEP)
    assert store.run([]) == []
    values = {key: [value["value"] for value, _ in cell] for (_, key), cell in store.cells.items()}
    assert values == {"a": [1, 3], "b": [2]}


def test_frames_that_do_not_fit_to_what_is_held_are_refused(keyed):
    keyed.start_keyed(Count())
    keyed.send_frame([], [(0, 0, NONE, ("a", 1))], [b""], [], held=1)
    kind, failure = keyed.receive()
    assert kind == "T"
    assert "1 held keys instead of 0" in str(failure)


def test_what_is_not_touched_is_not_sent_back(keyed):
    class Looks(pb.KeyedProcessFunction):
        def open(self, ctx):
            self.value = ctx.value_state("value", "int")
            self.other = ctx.map_state("other", "string", "int")

        def process(self, row, ctx):
            return (row.k, row.x if self.value.value() is None else 0)

    keyed.start_keyed(Looks())
    frame = keyed.send_frame(["a"], [(0, 0, NONE, ("a", 1))], [b"", b"\0"], [])
    kind, body = keyed.receive()
    assert kind == "U"
    update = keyed.parse_update(body)
    assert update == {
        "id": frame, "rows": [("a", 1)], "changes": [[], []], "timers": [], "fired": (0, 0),
    }  # fmt: skip


def test_a_function_lives_on_across_tasks_and_is_closed_with_the_worker(keyed, monkeypatch):
    monkeypatch.setenv("SPARK_REUSE_WORKER", "1")
    for _ in range(3):
        store = Store(keyed.start_keyed(Count()))
        assert store.run([row("a", 2)]) == [("a", 2)]  # nothing is left of the other tasks
        assert keyed.end()
    assert LOG == ["open"]
    keyed.close()
    assert LOG == ["open", "close"]


def test_keys_that_a_task_has_left_are_none_of_the_next_ones(keyed):
    Store(keyed.start_keyed(Keys())).run([row("a", 1), row("b", 2)], flags=KEEP)
    assert keyed.end()
    store = Store(keyed.start_keyed(Keys()))
    assert store.run([row("c", 4), row("a", 8)]) == [("c", 4), ("a", 8)]
    assert store.cells == {("n", "c"): ({"value": 4}, 0), ("n", "a"): ({"value": 8}, 0)}
    assert LOG == ["open"]


def test_a_function_that_lives_on_goes_by_the_sizes_of_each_task(keyed):
    kinds = []
    for cut in (1 << 20, 1, 1 << 20):
        keyed.start_keyed(Count(), frame_bytes={"cut": cut, "most": 1 << 30})
        keyed.send_frame(["a", "b"], [(0, 0, NONE, ("a", 1)), (0, 1, NONE, ("b", 2))], [b""], [])
        kinds.append("")
        while not kinds[-1].endswith("U"):
            kinds[-1] += keyed.receive()[0]
        assert keyed.end()
    assert kinds == ["U", "PPU", "U"]
    assert LOG == ["open"]


def test_a_worker_closes_the_function_that_it_has_not_used_for_longest(keyed):
    for name in range(17):
        keyed.start_keyed(Count(), name=str(name))
        assert LOG.count("close") == (name == 16)
        assert keyed.end()


def test_several_frames_may_be_under_way(keyed):
    keyed.start_keyed(Count())
    for key in "abc":
        keyed.send_frame([key], [(0, 0, NONE, (key, 1))], [b""], [])
    updates = [keyed.parse_update(keyed.receive()[1]) for _ in range(3)]
    assert [(update["id"], update["rows"]) for update in updates] == [
        (1, [("a", 1)]), (2, [("b", 1)]), (3, [("c", 1)]),
    ]  # fmt: skip


def test_a_frame_that_comes_before_an_answer_waits_for_its_turn(keyed):
    class Words(pb.KeyedProcessFunction):
        def open(self, ctx):
            self.words = ctx.map_state("words", "string", "int")

        def process(self, row, ctx):
            return row.k, self.words.get("w") or 0

    keyed.start_keyed(Words())
    keyed.big = frozenset(["words"])
    for key in "ab":
        keyed.send_frame([key], [(0, 0, NONE, (key, 1))], [b"\1"], [])
    for key in "ab":
        kind, _ = keyed.receive()
        assert kind == "Q"
        frame = 1 if key == "a" else 2
        keyed.send(b"A", frame.to_bytes(8, "little") + bytes(8))
        kind, body = keyed.receive()
        assert (kind, keyed.parse_update(body)["rows"]) == ("U", [(key, 0)])


FAR = 2**62  # microseconds: the year 148,000


class Plain(pb.KeyedProcessFunction):
    def process(self, row, ctx):
        return str(ctx.key)


class Awaited(pb.AsyncKeyedProcessFunction):
    async def process(self, row, ctx):
        return str(ctx.key)


@pytest.mark.parametrize("function", [Plain(), Awaited()], ids=["row", "async"])
@pytest.mark.parametrize(
    ("by", "key", "x", "column", "row"),
    [
        ("k timestamp", 0, FAR, "x", "x=<unreadable>"),
        ("k timestamp", FAR, 0, "k", "k=<unreadable>"),
        ("k timestamp, n int", (FAR, 7), 0, "k", "k=<unreadable>, n=7"),
    ],
)
def test_a_time_that_python_can_not_hold_is_named_and_no_function_is_blamed(
    keyed, function, by, key, x, column, row
):
    calls = {} if isinstance(function, Awaited) else None
    spec = {"by": by, "inputs": "x timestamp", "returns": "y string", "calls": calls}
    store = Store(keyed.start_keyed(function, name="rotations", **spec))
    ((kind, failure),) = store.run([(0, key, NONE, (x,))])
    assert (kind, failure["condition"]) == ("T", "INPUT_NOT_READABLE")
    assert f"column {column}, a timestamp" in failure["text"]
    assert failure["row"] == row
    assert keyed.join() == -1


class Seen(pb.KeyedProcessFunction):
    def open(self, ctx):
        moments = ctx.value_state("moment", "timestamp")
        points = ctx.list_state("points", "n int, at timestamp")
        keys = ctx.map_state("keys", "timestamp", "int")
        ends = ctx.map_state("ends", "string", "timestamp")
        self.reads = [
            moments.value, points.get, lambda: list(keys.items()), lambda: ends.get("here")
        ]  # fmt: skip

    def process(self, row, ctx):
        return row.k, len(repr(self.reads[row.x]()))


class SeenAsync(pb.AsyncKeyedProcessFunction):
    open = Seen.open

    async def process(self, row, ctx):
        return row.k, len(repr(self.reads[row.x]()))


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("is_big", [False, True])
@pytest.mark.parametrize("function", [Seen(), SeenAsync()], ids=["row", "async"])
@pytest.mark.parametrize(
    ("x", "state", "stored", "told"),
    [
        (0, "moment", lambda v: ({"value": v}, 0), "value that can't be represented in Python"),
        (1, "points", lambda v: [({"n": 7, "at": v}, 0)], "element that"),
        (
            2,
            "keys",
            lambda v: {pickle.dumps({"value": v}): ({"value": 7}, 0)},
            "map key that",
        ),
        (
            3,
            "ends",
            lambda v: {pickle.dumps({"value": "here"}): ({"value": v}, 0)},
            "map value that",
        ),
    ],
)
def test_a_stored_time_that_python_can_not_hold_is_named_with_its_state_and_key(
    keyed, function, x, state, stored, told, is_big, held
):
    calls = {} if isinstance(function, SeenAsync) else None
    store = Store(keyed.start_keyed(function, name="seen", calls=calls))
    keyed.big = frozenset([state] if is_big and x else [])
    store.cells = {(state, "fine"): stored(0), (state, "bad"): stored(FAR)}
    if held:
        ((key, _),) = store.run([row("fine", x)], flags=KEEP)
        assert key == "fine"
    ((kind, failure),) = store.run([row("bad", x)])
    assert (kind, failure["condition"]) == ("T", "STATE_NOT_READABLE")
    assert f"The state '{state}' of the key 'bad' holds a {told}" in failure["text"]
    column = "at" if state == "points" else "value"
    assert f"its {column}, a timestamp, gives" in failure["text"]
    assert keyed.join() == -1


@pytest.mark.parametrize(
    ("events", "words"),
    [
        (
            [row("b", 1), row("a", 5), row("a", 8), row("b", 3)],
            ["'a'", "process(Row(k='a', x=8", "ValueError: thirteen"],
        ),
        (
            [row("b", 1), row("a", 13), row("a", 9), (1, "b", 50, None)],
            ["'a'", "process(Row(k='a', x=13", "ValueError: thirteen"],
        ),
        ([(1, "a", 77, None)], ["'a'", "on_timer(77) in event time", "KeyError: 77"]),
        (
            [(2, "b", 78, None)],
            ["'b'", "on_timer(78) in processing time", "KeyError: 78"],
        ),
    ],
)
def test_an_error_names_key_and_event_and_shows_the_users_frames(keyed, capfd, events, words):
    store = Store(keyed.start_keyed(Count(), name="rotations"))
    ((kind, failure),) = store.run(events, watermark=100, processing_time=100)
    assert (kind, failure["condition"]) == ("T", "KEYED_CALL_FAILED")
    for word in words:
        assert word in failure["text"]
    assert f"{failure['kind']}: {failure['message']}" == words[-1]
    assert "test_keyed_session.py" in failure["traceback"]
    assert "pillarbox/_keyed" not in failure["traceback"]
    assert keyed.join() == -1
    assert "Pillarbox worker" not in capfd.readouterr().err  # the JVM logs it


def test_a_row_that_does_not_fit_names_the_key_it_came_from(keyed):
    class Wrong(pb.KeyedProcessFunction):
        def process(self, row, ctx):
            yield row.k, row.x
            yield row.k, "x" if row.k == "b" else 0

    store = Store(keyed.start_keyed(Wrong()))
    ((_, failure),) = store.run([row("a", 1), row("b", 1), row("c", 1)])
    for word in ("'b'", "column y", "bigint", "'x'"):
        assert word in failure["text"]


@pytest.mark.parametrize(
    ("problem", "name", "word"),
    [
        (ValueError("no"), "KEYED_OPEN_FAILED", "ValueError: no"),
        (SystemExit(3), "FUNCTION_EXITED", "3"),
    ],
)
def test_an_open_that_fails_is_told(keyed, problem, name, word):
    class Fails(pb.KeyedProcessFunction):
        def open(self, ctx):
            raise problem

        def process(self, row, ctx):
            return None

    letter, body = keyed.start_keyed(Fails())
    assert (letter, body["condition"], body["kind"]) == ("T", name, type(problem).__name__)
    assert word in body["text"]


def test_an_event_time_timer_needs_a_watermark(keyed):
    class Timer(pb.KeyedProcessFunction):
        def process(self, row, ctx):
            ctx.timers.register_event_time(5)

    store = Store(keyed.start_keyed(Timer(), event_time=False))
    ((_, failure),) = store.run([row("a", 1)])
    assert "withWatermark" in failure["text"]


class TimerScript(pb.KeyedProcessFunction):
    """Row x=1 sets 10 and 20, x=2 lists, x=3 deletes 10 and lists, x=4 deletes 20, x=5 sets 20."""

    def on_timer(self, timestamp, ctx):
        return None

    def process(self, row, ctx):
        timers = ctx.timers
        if row.x == 1:
            timers.register_event_time(10)
            timers.register_processing_time(20)
        if row.x in (3, 6):
            timers.delete_event_time(10)
        if row.x == 4:
            timers.delete_processing_time(20)
        if row.x in (5, 6):
            timers.register_event_time(30)
        if row.x == 7:
            timers.delete_all()
        if row.x in (2, 3, 6):
            yield row.k, sum(timer.timestamp for timer in timers.list())


@pytest.mark.parametrize("on_demand", [True, False])
def test_timers_are_the_same_whether_listed_ahead_or_on_demand(keyed, on_demand):
    store = Store(keyed.start_keyed(TimerScript()), timers_on_demand=on_demand)
    store.run([row("a", 1), row("b", 1)])
    assert store.timers == {("a", 1, 10), ("a", 2, 20), ("b", 1, 10), ("b", 2, 20)}
    assert store.run([row("a", 2)]) == [("a", 30)]
    assert store.run([row("a", 3), row("b", 4)]) == [("a", 20)]
    assert store.timers == {("a", 2, 20), ("b", 1, 10)}
    store.run([row("b", 3), row("b", 5), row("a", 4), row("a", 1)])
    assert store.timers == {("a", 1, 10), ("a", 2, 20), ("b", 1, 30)}
    assert store.run([row("a", 6)]) == [("a", 50)]
    assert store.timers == {("a", 1, 30), ("a", 2, 20), ("b", 1, 30)}
    store.run([row("a", 5), row("a", 7), row("a", 1)])
    assert store.timers == {("a", 1, 10), ("a", 2, 20), ("b", 1, 30)}


def test_timers_on_demand_are_asked_for_once_a_key_and_only_when_listed(keyed):
    store = Store(keyed.start_keyed(TimerScript()), timers_on_demand=True)
    store.run([row("a", 1), row("b", 1), row("a", 4)])
    assert store.queries == []
    store.run([row("a", 2), row("a", 3), row("b", 4)])
    assert store.queries == [("timers", 0)]


def test_side_outputs_travel_in_their_own_columns(keyed):
    class Split(pb.KeyedProcessFunction):
        def process(self, row, ctx):
            if row.x < 0:
                ctx.output("bad", {"why": f"{row.x}"})
            else:
                yield row.k, row.x

    from worker.keyed_driver import schema_of

    store = Store(keyed.start_keyed(Split(), side_outputs={"bad": schema_of("why string")}))
    assert store.run([row("a", 1), row("a", -1), row("b", 2)]) == [
        ("main", "a", 1, None),
        ("main", "b", 2, None),
        ("bad", None, None, {"why": "-1"}),
    ]


def test_a_tag_that_was_not_declared_is_refused(keyed):
    class Tag(pb.KeyedProcessFunction):
        def process(self, row, ctx):
            ctx.output("late", (1,))

    ((_, failure),) = Store(keyed.start_keyed(Tag())).run([row("a", 1)])
    assert "no side output 'late'; declared are none" in failure["text"]


class RunningCount(pb.ArrowKeyedProcessFunction):
    ttl: object = None

    def open(self, ctx):
        ctx.value_state("n", "bigint", ttl=self.ttl)
        ctx.value_state("last", "x bigint, k string")

    def process(self, batch, state, ctx):
        count = columns.running_count(state.index, state["n"])
        state["n"] = columns.group_last(count, state.index)
        return {"k": batch["k"], "y": count}


def test_the_column_form_counts_in_three_lines(keyed):
    store = Store(keyed.start_keyed(RunningCount(), form="arrow"))
    assert store.run([row("a", 5), row("b", 6), row("a", 1)]) == [
        ("a", 1),
        ("b", 1),
        ("a", 2),
    ]
    assert store.run([row("a", 0), row(None, 0)]) == [("a", 3), (None, 1)]
    assert store.cells == {
        ("n", "a"): ({"value": 3}, 0),
        ("n", "b"): ({"value": 1}, 0),
        ("n", None): ({"value": 1}, 0),
    }  # fmt: skip


ENDED = threading.Event()
THREADS: list[threading.Thread] = []
RAISED: list[str] = []


class Late(RunningCount):
    """A thread uses the state when the call has ended."""

    def __init__(self, use):
        self.use = use

    def process(self, batch, state, ctx):
        THREADS.append(threading.Thread(target=self.late, args=[state]))
        THREADS[-1].start()
        return super().process(batch, state, ctx)

    def late(self, state):
        ENDED.wait(60)
        try:
            if self.use == "read":
                state["n"]
            else:
                state["n"] = [7]
        except pb.StateError as problem:
            RAISED.append(problem.condition)


@pytest.mark.parametrize("use", ["read", "write"])
def test_a_thread_that_outlives_its_call_can_not_use_the_state_of_the_column_form(keyed, use):
    ENDED.clear(), THREADS.clear(), RAISED.clear()
    store = Store(keyed.start_keyed(Late(use), form="arrow"))
    assert store.run([row("a", 5)]) == [("a", 1)]
    ENDED.set()
    THREADS[0].join(60)
    assert RAISED == ["NO_CURRENT_KEY"]
    assert store.cells == {("n", "a"): ({"value": 1}, 0)}


@pytest.mark.parametrize("time", ["processing_time", "event_time"])
def test_columns_of_state_expire(keyed, time):
    class Expires(RunningCount):
        ttl = pb.StateTtl("10 ms", time_domain=time)

    store = Store(keyed.start_keyed(Expires(), form="arrow"))

    def run(now, *events):
        return store.run(list(events), processing_time=now, watermark=now)

    assert run(0, row("a", 0, 0), row("b", 0, 5)) == [("a", 1), ("b", 1)]
    later = [("a", 1), ("b", 2 if time == "event_time" else 1)]
    assert run(10, row("a", 0, 10), row("b", 0, 10)) == later
    assert store.cells["n", "a"] == ({"value": 1}, 10)


def test_structs_are_state_columns_too(keyed):
    class Last(RunningCount):
        def process(self, batch, state, ctx):
            before = pc.struct_field(state["last"], "x").take(state.index)
            state["last"] = [
                {"x": 7, "k": None if key == "b" else key} for key in state.keys.to_pylist()
            ]
            return {"k": batch["k"], "y": before}

    store = Store(keyed.start_keyed(Last(), form="arrow"))
    assert store.run([row("a", 1), row("b", 1)]) == [("a", None), ("b", None)]
    assert store.run([row("a", 1), row("c", 1)]) == [("a", 7), ("c", None)]
    assert store.cells["last", "b"] == ({"x": 7, "k": None}, 0)


@pytest.mark.parametrize("made", [np.array, pd.Series])
def test_a_column_of_state_is_what_it_was_when_it_was_written(keyed, made):
    class Reuses(RunningCount):
        def process(self, batch, state, ctx):
            counts = made([1, 2])
            state["n"] = counts
            counts[0] = 99
            return {"k": batch["k"], "y": state["n"]}

    store = Store(keyed.start_keyed(Reuses(), form="arrow"))
    assert store.run([row("a", 1), row("b", 2)]) == [("a", 1), ("b", 2)]
    assert store.cells["n", "a"] == ({"value": 1}, 0)


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        (lambda batch, state: {"k": batch["k"]}, "column y"),
        (lambda batch, state: {"k": batch["k"], "y": batch["k"]}, "column y must be bigint"),
        (lambda batch, state: {"k": batch["k"], "Y": [1, 2]}, "'Y' is no column; the nearest is y"),
        (lambda batch, state: {"k": batch["k"], "y": [1]}, "columns of one length"),
        (lambda batch, state: 5, "a RecordBatch, a Table or a dict of columns"),
        (
            lambda batch, state: pa.table([batch["k"], [1, 2], [3, 4]], names=["k", "y", "y"]),
            "columns of different names",
        ),
        (lambda batch, state: state["m"], "no state 'm'; declared are 'n', 'last'"),
        (lambda batch, state: state.__setitem__("n", [1, 2, 3]), "2 values, one a key"),
        (lambda batch, state: state.__setitem__("n", ["x", "y"]), "state n"),
    ],
)
def test_columns_that_do_not_fit_are_refused(keyed, answer, word):
    class Wrong(RunningCount):
        def process(self, batch, state, ctx):
            return answer(batch, state)

    ((_, failure),) = Store(keyed.start_keyed(Wrong(), form="arrow")).run(
        [row("a", 1), row("b", 2)]
    )
    assert failure["type"] in ("ResultTypeMismatch", "StateError")
    assert word in failure["text"]


def test_the_column_form_has_value_states_only(keyed):
    class Lists(RunningCount):
        def open(self, ctx):
            ctx.list_state("l", "int")

    letter, body = keyed.start_keyed(Lists(), form="arrow")
    assert letter == "T"
    assert "the column form has value states only" in body["message"]


def test_a_worker_that_is_told_to_leave_closes_its_functions():
    worker = KeyedOwnProcess()
    try:

        class Closes(pb.KeyedProcessFunction):
            def process(self, row, ctx):
                return row.k, row.x

            def close(self):
                print("closed", file=sys.stderr)

        assert Store(worker.start_keyed(Closes())).run([row("a", 1)]) == [("a", 1)]
        worker.process.terminate()
        _, stderr = worker.join()
        assert "closed" in stderr
    finally:
        worker.close()


def test_the_connection_may_end_at_any_time(keyed):
    keyed.start_keyed(Count())
    keyed.send(b"K", b"")  # cut short: the JVM died while it wrote
    keyed.close()
    assert keyed.exit_code == -1
    assert LOG == ["open", "close"]


class Large(pb.KeyedProcessFunction):
    """Does what ``x`` says to state that is given on demand only."""

    def open(self, ctx):
        self.list = ctx.list_state("list", "int")
        self.map = ctx.map_state("map", "string", "int")

    def process(self, row, ctx):
        out = STEPS[row.x](self.list, self.map)
        yield row.k, out if isinstance(out, int) else len(out or [])


STEPS = [
    lambda elements, entries: (elements.update([1, 2]), entries.put_all({"x": 1, "y": 2})),
    lambda elements, entries: elements.add(3),
    lambda elements, entries: sum(elements.get()),
    lambda elements, entries: entries.get("x"),
    lambda elements, entries: int(entries.contains("absent")),
    lambda elements, entries: int(entries.is_empty()),
    lambda elements, entries: sum(value for _, value in entries.items()),
    lambda elements, entries: entries.remove("y"),
    lambda elements, entries: entries.put("z", 9),
    lambda elements, entries: (elements.clear(), entries.clear()),
]
FILL, ADD, SUM, GET, CONTAINS, IS_EMPTY, ITEMS, REMOVE, PUT, CLEAR = range(len(STEPS))


@pytest.mark.parametrize(
    ("steps", "answers", "queries"),
    [
        ([ADD], [0], []),
        ([SUM, SUM], [3, 3], [("list", 0)]),
        ([ADD, SUM], [0, 6], [("list", 0)]),
        ([GET, GET, CONTAINS], [1, 1, 0], [("map", 1), ("map", 1)]),
        ([IS_EMPTY], [0], [("map", 2)]),
        ([ITEMS, GET, IS_EMPTY], [3, 1, 0], [("map", 0)]),
        ([REMOVE, ITEMS], [0, 1], [("map", 0)]),
        ([PUT, IS_EMPTY, ITEMS], [0, 0, 12], [("map", 0)]),
        ([REMOVE, PUT, ITEMS, GET], [0, 0, 10, 1], [("map", 0)]),
        ([CLEAR, SUM, ITEMS, GET, IS_EMPTY], [2, 0, 0, 0, 1], []),
    ],
)
def test_large_state_is_asked_for_by_entry_and_written_by_change(keyed, steps, answers, queries):
    store = Store(keyed.start_keyed(Large()))
    store.run([row("a", FILL)])
    keyed.big = frozenset(["list", "map"])
    assert [y for _, y in store.run([row("a", step) for step in steps])] == answers
    assert store.queries == queries
    keyed.big = frozenset()
    whole = {(SUM, 3), (SUM, 6)} & set(zip(steps, answers, strict=True))
    if whole:
        assert store.run([row("a", SUM)]) == [("a", max(answers))]
    if ITEMS in steps:
        expected = answers[steps.index(ITEMS)]
        assert store.run([row("a", ITEMS)]) == [("a", expected)]
