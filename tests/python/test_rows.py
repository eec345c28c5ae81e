"""The rows that functions get: like pyspark's own, only cheaper."""

import copy
import datetime as dt
import pickle
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import Row
from pyspark.sql import types as t
from pyspark.sql.conversion import ArrowTableToRowsConversion
from pyspark.sql.pandas.types import to_arrow_schema

import pillarbox as pb
from pillarbox._arrow.ddl import parse_type
from pillarbox._arrow.row_class import row_class
from pillarbox._arrow.rows import RowReader, Unreadable
from pillarbox._base.spark_versions import in_utc

SCHEMA = t.StructType().add("origin", "string").add("hour", "long").add("count", "long")


def read(schema, *rows):
    arrow = to_arrow_schema(schema, **in_utc(to_arrow_schema))
    columns = list(zip(*rows, strict=True)) or [[] for _ in arrow]
    arrays = [pa.array(list(column), type=f.type) for column, f in zip(columns, arrow, strict=True)]
    return RowReader(schema).read(pa.RecordBatch.from_arrays(arrays, schema=arrow))


@pytest.fixture
def row():
    return read(SCHEMA, ("JFK", 7, 3))[0]


def test_a_row_is_read_by_name_by_index_and_by_attribute(row):
    assert (row.origin, row["origin"], row[0], row[-1], row[:2]) == (
        "JFK", "JFK", "JFK", 3, ("JFK", 7),
    )  # fmt: skip


def test_a_row_is_a_pyspark_row_in_every_respect_that_shows(row):
    plain = Row(origin="JFK", hour=7, count=3)
    assert isinstance(row, Row)
    assert row == plain
    assert hash(row) == hash(plain)
    assert repr(row) == repr(plain)
    assert row.asDict() == plain.asDict()
    assert row.__fields__ == plain.__fields__
    assert ("origin" in row, "JFK" in row) == ("origin" in plain, "JFK" in plain)
    assert type(pickle.loads(pickle.dumps(row))) is Row
    assert copy.copy(row) == plain


def test_tuple_methods_win_over_columns_of_their_name_as_in_pyspark(row):
    assert row.count("JFK") == 1
    assert row["count"] == 3


def test_an_unknown_name_is_told_with_the_nearest_and_all_there_are(row):
    message = r"no column 'orgin'; the nearest is origin, and there are origin, hour, count"
    with pytest.raises(pb.NoSuchColumn, match=message):
        row.orgin  # noqa: B018
    with pytest.raises(pb.NoSuchColumn, match=message):
        row["orgin"]
    assert getattr(row, "dest", None) is None
    assert not hasattr(row, "__arrow_array__")
    with pytest.raises(ValueError, match="dest"):
        row["dest"]
    with pytest.raises(IndexError):
        row[7]
    with pytest.raises(pb.NoSuchColumn, match="no column None"):
        row[None]


def test_a_row_cannot_be_changed(row):
    with pytest.raises(Exception, match="READ_ONLY"):
        row.origin = "LGA"


def test_names_that_are_no_identifiers_or_come_twice_are_read_like_in_pyspark():
    make = row_class(("a b", "__x", "a", "a"))
    row = tuple.__new__(make, (1, 2, 3, 4))
    assert (row["a b"], getattr(row, "a b"), row["__x"], row.a) == (1, 1, 2, 3)


def test_rows_without_columns_are_counted():
    batch = pa.RecordBatch.from_pydict({"x": [1, 2, 3]}).select([])
    assert len(RowReader(t.StructType()).read(batch)) == 3


def interval(micros):
    return dt.timedelta(microseconds=micros)


LEAVES = {
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "boolean": st.booleans(),
    "string": st.text(max_size=5),
    "binary": st.binary(max_size=5),
    "date": st.dates(),
    "timestamp": st.datetimes(
        dt.datetime(1900, 1, 2), dt.datetime(2100, 1, 1), timezones=st.just(dt.timezone.utc)
    ),
    "timestamp_ntz": st.datetimes(),
    "interval day to second": st.integers(-(2**62), 2**62).map(interval),
    "decimal(20,3)": st.decimals(-(10**15), 10**15, places=3),
}
leaves = st.sampled_from(list(LEAVES)).map(lambda name: (parse_type(name, "t"), LEAVES[name]))


def nested(inner):
    def array_of(element):
        return t.ArrayType(element[0]), st.lists(st.none() | element[1], max_size=4)

    def struct_of(field):
        values = st.fixed_dictionaries({"a": st.none() | field[1]})
        return t.StructType().add("a", field[0]), values

    def map_of(key, item):
        entries = st.lists(st.tuples(key[1], st.none() | item[1]), max_size=4)
        return t.MapType(key[0], item[0]), entries

    return inner.map(array_of) | inner.map(struct_of) | st.builds(map_of, leaves, inner)


@given(st.recursive(leaves, nested, max_leaves=3), st.sampled_from([1, 20]), st.data())
def test_values_of_any_type_are_those_that_pyspark_makes_few_or_many(column, times, data):
    schema = t.StructType().add("c", column[0])
    values = data.draw(st.lists(st.none() | column[1], max_size=5)) * times
    arrow = to_arrow_schema(schema, **in_utc(to_arrow_schema))
    table = pa.table([pa.array(values, type=arrow[0].type)], schema=arrow)
    for part in (table, table.slice(1, len(table) - 2 if len(table) > 2 else 0)):
        expected = ArrowTableToRowsConversion.convert(part, schema)
        batch = part.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], arrow)]
        found = RowReader(schema).read(batch[0])
        assert repr(found) == repr(expected)


@pytest.mark.parametrize(
    ("type_", "arrow"),
    [("date", pa.date32()), ("timestamp_ntz", pa.timestamp("us"))],
)
@pytest.mark.parametrize("odd", ["least", "late"])
def test_a_time_beyond_pythons_years_is_the_failure_of_its_row_among_many(type_, arrow, odd):
    bits = arrow.bit_width
    number = -(2 ** (bits - 1)) if odd == "least" else 2 ** (bits - 2)
    numbers = pa.array([0] * 30 + [number] + [0] * 30, pa.int32() if bits == 32 else pa.int64())
    batch = pa.record_batch([numbers.view(arrow)], names=["c"])
    rows = RowReader(t.StructType().add("c", parse_type(type_, "t"))).read_each(batch)
    assert [i for i, row in enumerate(rows) if isinstance(row, Unreadable)] == [30]


def test_nested_values_are_rows_lists_and_dicts():
    inner = t.StructType().add("a", "long")
    schema = (
        t.StructType()
        .add("s", inner)
        .add("l", t.ArrayType(inner))
        .add("m", t.MapType(t.StringType(), t.LongType()))
        .add("d", t.DecimalType(5, 2))
    )
    (row,) = read(schema, ({"a": 1}, [{"a": 2}, None], [("k", 3)], Decimal("1.25")))
    assert row == (Row(a=1), [Row(a=2), None], {"k": 3}, Decimal("1.25"))
    assert row.s.a == 1


def test_nulls_are_none_in_every_column():
    schema = (
        t.StructType().add("a", "long").add("b", "timestamp").add("c", t.ArrayType(t.LongType()))
    )
    assert read(schema, (None, None, None)) == [(None, None, None)]
