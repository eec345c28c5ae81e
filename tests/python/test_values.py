"""Which values the texts of errors show: by their names, or none at all."""

from __future__ import annotations

import dataclasses
import datetime
import types
from collections import namedtuple
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row
from pyspark.sql.pandas.types import to_arrow_schema

import pillarbox as pb
from pillarbox._arrow.ddl import parse_columns
from pillarbox._arrow.results import ResultEncoder
from pillarbox._arrow.row_class import row_class
from pillarbox._arrow.rows import RowReader
from pillarbox._async.failed_attempts import refused_result
from pillarbox._base.report import report_of
from pillarbox._base.spark_versions import in_utc
from pillarbox._base.values import HIDDEN, Values, row_text, shown_value, use
from pillarbox.testing import KeyedHarness


@pytest.fixture(autouse=True)
def default() -> Iterator[None]:
    yield
    use(Values())


@dataclasses.dataclass
class Login:
    user: str
    password: str


@dataclasses.dataclass(slots=True)
class Slots:
    token: str


class Client:
    def __init__(self) -> None:
        self._secret = "sk-1"

    def __repr__(self) -> str:
        return f"<Client {self._secret}>"


Pair = namedtuple("Pair", "n token")
Plain = namedtuple("Plain", "a b")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"n": 1, "token": "sk-1"}, f"{{'n': 1, 'token': {HIDDEN}}}"),
        ({"a": [{"Password": "sk-1"}, 2]}, f"{{'a': [{{'Password': {HIDDEN}}}, 2]}}"),
        (Pair(1, "sk-1"), f"Pair(n=1, token={HIDDEN})"),
        ((1, Row(secret="sk-1")), f"(1, Row(secret={HIDDEN}))"),
        (row_class(("n", "my_token"))(1, "sk-1"), f"Row(n=1, my_token={HIDDEN})"),
        (Login("u", "sk-1"), HIDDEN),
        (Slots("sk-1"), HIDDEN),
        (Client(), HIDDEN),
        ([Login("u", "sk-1")], f"[{HIDDEN}]"),
        (types.SimpleNamespace(token="sk-1"), HIDDEN),
        (pa.RecordBatch.from_pydict({"token": ["sk-1"]}), HIDDEN),
    ],
)
def test_what_has_a_name_that_spark_redacts_is_hidden(value: Any, text: str) -> None:
    assert shown_value(value) == text


@pytest.mark.parametrize(
    "value",
    [None, "a password", b"token", 1.5, (1,), (), [None], {1: {2}}, {}, Plain(1, "x"), Row(a=1),
     Row(1, 2), {"time": datetime.datetime(2024, 1, 2)}, row_class(())(),
     types.SimpleNamespace(a=1), row_class(("_fields", "_asdict"))(1, 2)],
)  # fmt: skip
def test_other_values_are_shown_as_python_shows_them(value: Any) -> None:
    assert shown_value(value) == repr(value)


def test_all_is_hidden_where_values_are_not_shown_or_the_pattern_is_not_pythons() -> None:
    for values in (Values(show=False), Values(redaction=r"\p{Lu}")):
        use(values)
        assert shown_value({"n": 1}, ["n"]) == HIDDEN
    use(Values(show=False))
    assert (row_text(Row(a=1)), shown_value(1), shown_value(None)) == (HIDDEN,) * 3


def test_a_value_that_cannot_be_shown_never_fails_a_message() -> None:
    circle: list[Any] = [{"token": "sk-1"}]
    circle.append(circle)
    assert shown_value(circle) == "<list whose repr failed: RecursionError>"


def encoded(columns: str, answer: Any, explode: bool = False) -> Any:
    schema = parse_columns(columns, "returns")
    arrow = to_arrow_schema(schema, **in_utc(to_arrow_schema))
    return ResultEncoder(schema, arrow, explode).encode([answer]).mismatches[0]


MISFITS: list[Callable[[], Exception]] = [
    lambda: encoded("token int", "sk-1"),
    lambda: encoded("token int", ("sk-1",)),
    lambda: encoded("n int, token string", (1, "sk-1", 2)),
    lambda: encoded("n int, token string", {"n": 1, "tokn": "sk-1"}),
    lambda: encoded("n int, s struct<a: struct<token: string>>", (1, (("sk-1", 2),))),
    lambda: encoded("n int, s array<struct<token: int>>", (1, [{"token": "sk-1"}])),
    lambda: encoded("n int, s struct<token: string>", [1, "sk-1"]),
    lambda: encoded("n int, token string", "sk-1", explode=True),
    lambda: encoded("n int, v int", {"a": 1, "token": "sk-1"}),
    lambda: encoded("token int", 10**12),
    lambda: encoded("token binary", "sk-1"),
]


@pytest.mark.parametrize("misfit", MISFITS)
def test_an_answer_for_columns_that_are_hidden_is_hidden(misfit: Callable[[], Exception]) -> None:
    told = report_of(misfit())
    assert "sk-1" not in told.told()
    assert str(10**12) not in told.told()
    assert HIDDEN in told.text


@pytest.mark.parametrize("names", [["n", "token"], []])
def test_a_refused_result_is_hidden_as_its_columns_are(names: list[str]) -> None:
    failure = refused_result("sk-1", lambda answer: True, names)
    assert failure is not None
    assert ("sk-1" in failure.message) == (not names)


def test_a_row_that_cannot_be_read_tells_neither_the_value_nor_what_refused_it() -> None:
    schema = parse_columns("id int, token timestamp, v string", "schema")
    beyond = pa.array([2**62], pa.timestamp("us", "UTC"))
    batch = pa.RecordBatch.from_arrays([pa.array([7]), beyond, pa.array(["x"])], schema.names)
    reader = RowReader(schema)
    (row,) = reader.read_each(batch)
    assert row_text(row) == "id=7, token=<unreadable>, v='x'"
    with pytest.raises(pb.CallFailed) as strict:
        reader.read_strictly(batch)
    for problem in (strict.value, row.error()):
        told = report_of(problem)
        assert f": {HIDDEN}." in told.text
        assert str(2**62) not in told.told()
        assert problem.__cause__ is None
    use(Values(show=False))
    assert row_text(row) == HIDDEN
    assert row.failure.message.count(HIDDEN) == 1  # what refused it


class Keeps(pb.KeyedProcessFunction):
    def __init__(self, what: Callable[[Any, Any], Any]) -> None:
        self.what = what

    def open(self, ctx: Any) -> None:
        self.token = ctx.value_state("token", "bigint")
        self.login = ctx.list_state("logins", "struct<user: string, password: string>")
        self.n = ctx.map_state("n", "string", "bigint")

    def process(self, row: Any, ctx: Any) -> Any:
        return self.what(self, ctx)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        return None


@pytest.mark.parametrize(
    "what",
    [
        lambda self, ctx: self.token.update("sk-1"),
        lambda self, ctx: self.login.add(("u", "sk-1", 3)),
        lambda self, ctx: self.login.add_all("sk-1"),
        lambda self, ctx: ("a", "sk-1", 3),
        lambda self, ctx: {"k": "a", "tokn": "sk-1"},
    ],
)
def test_state_and_rows_of_hidden_names_are_hidden(what: Any) -> None:
    harness = KeyedHarness(Keeps(what), schema="k string", by="k", returns="k string, token int")
    with pytest.raises(pb.ResultTypeMismatch) as raised:
        harness.process(("a",))
    assert "sk-1" not in str(raised.value)
    assert HIDDEN in str(raised.value)


@pytest.mark.parametrize(
    "what",
    [
        lambda self, ctx: self.n.put("x", "sk-1"),
        lambda self, ctx: self.n.put_all(["sk-1"]),
        lambda self, ctx: ctx.timers.register_event_time("sk-1"),
        lambda self, ctx: ("sk-1",),
        lambda self, ctx: ("a", "sk-1"),
    ],
)
def test_with_values_hidden_no_text_has_one(what: Any) -> None:
    use(Values(show=False))
    harness = KeyedHarness(Keeps(what), schema="k string", by="k", returns="k string, v int")
    with pytest.raises(pb.PillarboxError) as raised:
        harness.process(("a",))
    assert "sk-1" not in str(raised.value)
    assert HIDDEN in str(raised.value)


def test_rows_without_a_time_are_hidden() -> None:
    harness = KeyedHarness(
        Keeps(lambda self, ctx: None),
        schema="k string, token string, at timestamp",
        by="k",
        returns="k string",
        timestamp="at",
        time_sorted=True,
    )
    with pytest.raises(pb.CallFailed, match="TIMESTAMP_MISSING") as raised:
        harness.process(("a", "sk-1", None))
    assert f"Row(k='a', token={HIDDEN}, at=None)" in str(raised.value)
