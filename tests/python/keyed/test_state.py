"""What state handles keep, give and refuse; without TTL."""

import dataclasses
import datetime
import decimal
import re
from typing import Annotated

import numpy as np
import pytest
from pyspark.ml.linalg import Vectors, VectorUDT
from pyspark.sql import Row
from pyspark.sql import types as t

import pillarbox as pb
from keyed.support import AtKeys

PLAIN = [
    ("bigint", 5, 5),
    ("int", np.int64(5), 5),
    ("double", 5, 5.0),
    ("float", 0.1, 0.10000000149011612),
    ("string", "ü", "ü"),
    ("binary", bytearray(b"x"), b"x"),
    ("boolean", True, True),
    ("decimal(6,2)", 5, decimal.Decimal("5.00")),
    ("date", datetime.date(2026, 1, 2), datetime.date(2026, 1, 2)),
    ("array<int>", (1, None), [1, None]),
    ("map<string,float>", {"a": 0.1}, {"a": 0.10000000149011612}),
    ("struct<a: int, b: array<string>>", {"a": 1, "b": ["x"]}, Row(a=1, b=["x"])),
    ("struct<>", {}, Row()),
    ("dest string, n bigint", ("JFK", 3), Row(dest="JFK", n=3)),
    ("dest string, n bigint", Row(n=3, dest="JFK"), Row(dest="JFK", n=3)),
    ("dest string, n bigint", {"n": 3}, Row(dest=None, n=3)),
]


def value_of(type):
    return AtKeys(lambda ctx: ctx.value_state("s", type))


@pytest.mark.parametrize(("type", "written", "read"), PLAIN)
def test_a_value_is_read_as_it_would_come_back_from_storage(type, written, read):
    state = value_of(type).at()
    state.update(written)
    assert state.value() == read
    assert isinstance(state.value(), read.__class__)


def test_a_timestamp_in_the_hour_that_comes_twice_is_kept_apart():
    state = value_of("timestamp").at()
    for utc_hour in (0, 1):
        moment = datetime.datetime(2026, 10, 25, utc_hour, 30, tzinfo=datetime.timezone.utc)
        state.update(moment)
        assert state.value().astimezone(datetime.timezone.utc) == moment
        state.update(state.value())
        assert state.value().astimezone(datetime.timezone.utc) == moment


@pytest.mark.parametrize(
    ("type", "value", "named"),
    [
        ("bigint", "5", "state s must be bigint"),
        ("bigint", 2**63, "9223372036854775808"),
        ("bigint", True, "True"),
        ("tinyint", 128, "128"),
        ("string", 5, "state s must be string"),
        ("string", "\ud800", "state s must be string"),
        ("a int, b string", (1, 2), "state s.b must be string"),
        ("a int, b string", (2**31, "x"), "state s.a must be int"),
        ("a int, b string", (1,), "state s must be struct<a:int,b:string>"),
        ("array<int>", [1, "x"], "state s[] must be int"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_at_once_and_changes_nothing(type, value, named):
    state = value_of(type).at()
    with pytest.raises(pb.ResultTypeMismatch) as problem:
        state.update(value)
    assert named in str(problem.value)
    assert state.value() is None


def test_keys_do_not_see_each_other_and_none_clears():
    keys = value_of("bigint")
    keys.at("a").update(1)
    keys.at(None).update(2)
    assert (keys.at("a").value(), keys.at(None).value(), keys.at("b").value()) == (
        1,
        2,
        None,
    )
    keys.at("a").update(None)
    assert (keys.at("a").value(), keys.at(None).value()) == (None, 2)
    keys.at(None).clear()
    assert keys.at(None).value() is None


def test_changing_what_was_read_or_written_does_not_change_the_state():
    state = value_of("a int, b array<int>").at()
    mine = [1]
    state.update((1, mine))
    mine.append(2)
    state.value().b.append(3)
    assert state.value().b == [1]


class Bag:
    """Its copies by Python are no bags, as those of Spark's vectors are no vectors."""

    def __init__(self, label, *items):
        self.label, self.items = label, list(items)

    def __eq__(self, other):
        return isinstance(other, Bag) and vars(self) == vars(other)

    __hash__ = None

    def __deepcopy__(self, memo):
        return self.items


class BagType(t.UserDefinedType):
    @classmethod
    def sqlType(cls):
        items = t.ArrayType(t.IntegerType())
        return t.StructType().add("label", "string").add("items", items).add("on", "date")

    def serialize(self, obj):
        return {"label": obj.label, "items": obj.items}

    def deserialize(self, datum):
        return Bag(datum.label, *datum["items"])


KINDS = {
    "value": lambda ctx, type: ctx.value_state("s", type),
    "list": lambda ctx, type: ctx.list_state("s", type),
    "map": lambda ctx, type: ctx.map_state("s", "int", type),
    "reducing": lambda ctx, type: ctx.reducing_state("s", type, lambda one, other: other),
    "aggregating": lambda ctx, type: ctx.aggregating_state("s", type, Latest()),
}


class Latest(pb.AggregateFunction):
    def create_accumulator(self):
        return Bag("none")

    def add(self, value, accumulator):
        return value

    def get_result(self, accumulator):
        return accumulator


def through(kind, state, value):
    """Write a value, and return what is read of it."""
    if kind == "map":
        state.put_all({1: value})
        return state.get(1)
    if kind == "value":
        state.update(value)
        return state.value()
    state.add(value)
    return state.get()[0] if kind == "list" else state.get()


@pytest.mark.parametrize("kind", KINDS)
def test_an_object_of_a_user_defined_type_is_copied_by_its_own_serialisation(kind):
    state = AtKeys(lambda ctx: KINDS[kind](ctx, BagType())).at()
    given = Bag("x", 1, 2)
    first = through(kind, state, given)
    assert first == given
    first.items.append(9)
    given.items.append(8)
    second = state.get(1) if kind == "map" else (state.value if kind == "value" else state.get)()
    assert (second[0] if kind == "list" else second) == Bag("x", 1, 2)


@pytest.mark.parametrize("kind", sorted({*KINDS} - {"aggregating"}))
def test_a_vector_of_spark_ml_is_one_afterwards(kind):
    state = AtKeys(lambda ctx: KINDS[kind](ctx, VectorUDT())).at()
    for vector in (Vectors.dense([1.0, 2.0]), Vectors.sparse(3, [0, 2], [1.0, 3.0])):
        read = through(kind, state, vector)
        assert type(read) is type(vector)
        assert read == vector
        if kind == "list":
            state.clear()


@dataclasses.dataclass
class Tagged:
    tag: str
    inside: Annotated[list, t.ArrayType(BagType())]


def test_a_user_defined_type_in_a_field_of_a_class_is_copied_by_its_serialisation():
    state = value_of(Tagged).at()
    state.update(Tagged("a", [Bag("x", 1), None]))
    state.value().inside[0].items.append(9)
    assert state.value() == Tagged("a", [Bag("x", 1), None])


def test_a_list_keeps_its_order_and_its_copies():
    state = AtKeys(lambda ctx: ctx.list_state("l", "array<int>")).at()
    assert state.get() == []
    state.add([1])
    state.add_all([[2], (3,)])
    state.get()[0].append(9)
    assert state.get() == [[1], [2], [3]]
    state.update([[4]])
    assert state.get() == [[4]]
    state.clear()
    assert state.get() == []


def test_a_list_takes_all_of_the_new_elements_or_none():
    state = AtKeys(lambda ctx: ctx.list_state("l", "int")).at()
    state.add(1)
    with pytest.raises(pb.ResultTypeMismatch):
        state.add_all([2, "x"])
    with pytest.raises(pb.ResultTypeMismatch):
        state.update([3, "x"])
    with pytest.raises(pb.StateError, match="null is not a value"):
        state.add(None)
    assert state.get() == [1]


def test_a_map_is_a_map():
    state = AtKeys(lambda ctx: ctx.map_state("m", "string", "array<int>")).at()
    assert state.is_empty()
    assert state.get("x") is None
    state.put("x", [1])
    state.put_all({"y": [2], "z": [3]})
    state.get("x").append(9)
    assert state.get("x") == [1]
    assert state.contains("y")
    assert dict(state.items()) == {"x": [1], "y": [2], "z": [3]}
    assert set(state.keys()) == {"x", "y", "z"}
    assert sorted(state.values()) == [[1], [2], [3]]
    state.remove("y")
    state.remove("absent")
    assert not state.contains("y")
    state.clear()
    assert state.is_empty()
    assert list(state.items()) == []


@pytest.mark.parametrize("bad", [{"y": "text"}, {"y": None}, {None: 3}, {5: 3}])
def test_a_map_takes_all_of_the_new_entries_or_none(bad):
    state = AtKeys(lambda ctx: ctx.map_state("m", "string", "int")).at()
    state.put("x", 1)
    with pytest.raises(pb.PillarboxError):
        state.put_all({"x": 2, "a": 3, **bad, "z": 4})
    assert dict(state.items()) == {"x": 1}


def test_iterating_a_map_is_not_disturbed_by_changes():
    state = AtKeys(lambda ctx: ctx.map_state("m", "int", "int")).at()
    state.put_all({1: 1, 2: 2})
    for key, _ in state.items():
        state.remove(key)
        state.put(key + 10, key)
    assert dict(state.items()) == {11: 1, 12: 2}


def test_map_keys_are_equal_where_spark_holds_them_equal():
    state = AtKeys(lambda ctx: ctx.map_state("m", "double", "int")).at()
    state.put(float("nan"), 1)
    state.put(-0.0, 2)
    assert (state.get(float("nan")), state.get(0.0), state.get(0)) == (1, 2, 2)
    structs = AtKeys(lambda ctx: ctx.map_state("m", "a double, b string", "int")).at()
    structs.put((float("nan"), "x"), 1)
    assert structs.get({"a": float("nan"), "b": "x"}) == 1


def test_a_map_refuses_none_and_what_does_not_fit():
    state = AtKeys(lambda ctx: ctx.map_state("m", "string", "int")).at()
    for arguments in ((None, 1), ("x", None)):
        with pytest.raises(pb.StateError, match="null is not a value"):
            state.put(*arguments)
    with pytest.raises(pb.ResultTypeMismatch, match=r"state m\{key\} must be string"):
        state.get(5)
    with pytest.raises(pb.ResultTypeMismatch, match=r"state m\{value\} must be int"):
        state.put("x", "y")


class Mean(pb.AggregateFunction):
    def create_accumulator(self):
        return [0, 0]

    def add(self, value, accumulator):
        accumulator[0] += value
        accumulator[1] += 1
        return accumulator

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]


def test_reducing_and_aggregating_states_fold_what_is_added():
    reducing = AtKeys(lambda ctx: ctx.reducing_state("r", "bigint", max)).at()
    assert reducing.get() is None
    for value in (3, 5, 4):
        reducing.add(value)
    assert reducing.get() == 5
    mean = AtKeys(lambda ctx: ctx.aggregating_state("m", "array<bigint>", Mean())).at()
    assert mean.get() is None
    for value in (1, 2, 6):
        mean.add(value)
    assert mean.get() == 3.0
    mean.clear()
    assert mean.get() is None
    for state in (reducing, mean):
        with pytest.raises(pb.StateError, match="null is not a value"):
            state.add(None)


def test_state_is_out_of_reach_without_a_key():
    keys = AtKeys(lambda ctx: (ctx.value_state("v", "int"), ctx.list_state("l", "int")))
    keys.at()
    keys.runtime.end()
    value, elements = keys.function.handle
    for use in (value.value, value.clear, elements.get, elements.clear):
        with pytest.raises(pb.StateError, match="no current key"):
            use()
    for use in (value.update, elements.add):
        with pytest.raises(pb.StateError, match="no current key"):
            use(1)
    with pytest.raises(pb.StateError, match="no current key"):
        keys.runtime.timers.list()


@pytest.mark.parametrize(
    ("declare", "call"),
    [
        (lambda ctx: ctx.value_state("s", "boolean"), "value()"),
        (lambda ctx: ctx.list_state("s", "int"), "get()"),
        (lambda ctx: ctx.map_state("s", "int", "int"), "is_empty()"),
        (lambda ctx: ctx.reducing_state("s", "int", max), "get()"),
        (lambda ctx: ctx.aggregating_state("s", "array<bigint>", Mean()), "get()"),
    ],
)
def test_a_handle_is_no_condition_and_names_the_call_that_is_one(declare, call):
    keys = AtKeys(declare)
    handle = keys.at()
    for ask in (lambda: bool(handle), lambda: not handle, lambda: handle or 1):
        with pytest.raises(pb.StateError, match=re.escape(f"state.{call}")) as told:
            ask()
        assert told.value.condition == "HANDLE_AS_CONDITION"


def test_timers_are_no_condition():
    keys = AtKeys(lambda ctx: ctx.value_state("s", "int"))
    keys.at()
    with pytest.raises(pb.StateError, match=r"ctx.timers stands .*timers.list\(\)"):
        bool(keys.runtime.context.timers)


def open_with(declare):
    return AtKeys(declare)


def test_a_name_is_one_state():
    same = open_with(lambda ctx: [ctx.value_state("n", "bigint") for _ in range(2)])
    assert same.function.handle[0] is same.function.handle[1]
    for other in (
        lambda ctx: ctx.value_state("n", "int"),
        lambda ctx: ctx.list_state("n", "bigint"),
        lambda ctx: ctx.value_state("n", "bigint", ttl="1 day"),
    ):
        with pytest.raises(pb.StateError, match="declared as value state of bigint and again as"):
            open_with(lambda ctx, other=other: (ctx.value_state("n", "bigint"), other(ctx)))


class Halves(pb.AggregateFunction):
    add = 0.5

    def create_accumulator(self):
        return 0

    def get_result(self, accumulator):
        return accumulator


class Thirds(Halves):
    def add(self, value, accumulator):
        return accumulator

    def get_result(self):
        return 0


def test_state_is_declared_in_open_only():
    kept = []
    open_with(kept.append)
    with pytest.raises(pb.StateError, match="outside of open"):
        kept[0].value_state("late", "int")


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda ctx: ctx.value_state("", "int"), "name must be the name of the state"),
        (lambda ctx: ctx.value_state("n", "integr"), "'integr' is not a type"),
        (lambda ctx: ctx.value_state("n", 5), "neither a string nor a DataType"),
        (lambda ctx: ctx.value_state("n", "int", ttl=5), "ttl must be a pb.StateTtl"),
        (lambda ctx: ctx.map_state("n", "array<int>", "int"), "no equality in Python"),
        (
            lambda ctx: ctx.map_state("n", "a map<int,int>", "int"),
            "no equality in Python",
        ),
        (
            lambda ctx: ctx.map_state("n", "a int, b string collate UNICODE", "int"),
            "MAP_KEY_COLLATION",
        ),
        (
            lambda ctx: ctx.map_state("n", t.StringType("UTF8_BINARY_RTRIM"), "int"),
            r'one spelling: key.lower() where case is ignored, key.rstrip(" ") for _RTRIM',
        ),
        (
            lambda ctx: ctx.reducing_state("n", "int", 5),
            "must be callable with two values",
        ),
        (
            lambda ctx: ctx.reducing_state("n", "int", lambda one: one),
            "must be callable with two values",
        ),
        (lambda ctx: ctx.aggregating_state("n", "int", Halves()), "Halves.add must be a method"),
        (
            lambda ctx: ctx.aggregating_state("n", "int", Thirds()),
            "Thirds.get_result() can't be called as Thirds.get_result(accumulator)",
        ),
        (
            lambda ctx: ctx.aggregating_state("n", "int", max),
            "must be a pb.AggregateFunction",
        ),
        (lambda ctx: ctx.value_state("n", "interval year"), "intervals of year"),
    ],
)
def test_a_declaration_that_can_not_work_is_refused(declare, message):
    with pytest.raises(pb.PillarboxError) as problem:
        open_with(declare)
    assert message in str(problem.value)


@pytest.mark.parametrize("values", ["abc", b"abc", None, 5])
@pytest.mark.parametrize("method", ["add_all", "update"])
def test_what_is_no_list_of_elements_is_refused_by_the_name_of_the_state(method, values):
    state = AtKeys(lambda ctx: ctx.list_state("seen", "string")).at()
    state.add("a")
    with pytest.raises(pb.ResultTypeMismatch, match=r"seen.* elements in a list"):
        getattr(state, method)(values)
    assert state.get() == ["a"]


@pytest.mark.parametrize("entries", [[("a", 1)], None, "ab"])
def test_what_is_no_dict_of_entries_is_refused_by_the_name_of_the_state(entries):
    state = AtKeys(lambda ctx: ctx.map_state("seen", "string", "int")).at()
    with pytest.raises(pb.ResultTypeMismatch, match=r"seen.* entries in a dict"):
        state.put_all(entries)
    assert state.is_empty()
