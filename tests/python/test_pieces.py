"""Arrow batches of bounded size."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_schema

from pillarbox._arrow.pieces import FrameSize, TooLarge, TooMuch, cut
from pillarbox._arrow.results import ResultEncoder
from pillarbox._base.spark_versions import in_utc
from pillarbox._keyed.output import RowsEncoder

TEXTS = t.StructType().add("v", "string")
ARROW = to_arrow_schema(TEXTS, **in_utc(to_arrow_schema))
SIZE = FrameSize(cut=1000, most=3000)


def batch(texts: list[str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(texts, pa.string())], schema=ARROW)


@given(st.lists(st.integers(0, 2500).map("x".__mul__), max_size=30))
def test_every_piece_is_within_the_bound_or_one_item_and_nothing_is_lost(texts: list[str]) -> None:
    pieces = cut(len(texts), lambda start, stop: batch(texts[start:stop]), SIZE)
    assert [text for piece in pieces for text in piece.column(0).to_pylist()] == texts
    assert all(piece.nbytes <= SIZE.cut or piece.num_rows == 1 for piece in pieces)


def test_what_one_array_cannot_hold_is_laid_out_in_several() -> None:
    texts = [str(i) for i in range(100)]

    def build(start: int, stop: int) -> pa.RecordBatch:
        if stop - start > 7:
            raise TooMuch
        return batch(texts[start:stop])

    pieces = cut(len(texts), build, SIZE)
    assert [text for piece in pieces for text in piece.column(0).to_pylist()] == texts


def test_an_item_beyond_the_limit_is_named_by_its_place_and_size() -> None:
    texts = ["a"] * 50 + ["x" * 4000] + ["b"] * 50
    with pytest.raises(TooLarge) as caught:
        cut(len(texts), lambda start, stop: batch(texts[start:stop]), SIZE)
    assert caught.value.index == 50
    assert 4000 <= caught.value.size < 4100


@given(st.lists(st.one_of(st.none(), st.integers(0, 4000)), max_size=25))
def test_an_answer_that_is_too_large_fails_alone(sizes: list[int | None]) -> None:
    answers = [None if size is None else "x" * size for size in sizes]
    encoder = ResultEncoder(TEXTS, ARROW, explode=False)
    seen: list[object] = []
    for first, last, encoded in encoder.pieces(answers, SIZE):
        assert first == len(seen)
        assert len(encoded.counts) == last - first
        rows = iter(encoded.batch.column(0).to_pylist())
        for index, count in enumerate(encoded.counts):
            if index in encoded.mismatches:
                seen.append(encoded.mismatches[index].condition)
            else:
                seen.append(next(rows) if count == 1 else None)
    limit = 3000 - 16  # offsets and validity
    expected = [a if a is None or len(a) <= limit else "RESULT_TOO_LARGE" for a in answers]
    unsure = {i for i, a in enumerate(answers) if a is not None and limit < len(a) <= 3000}
    assert [s for i, s in enumerate(seen) if i not in unsure] == [
        e for i, e in enumerate(expected) if i not in unsure
    ]


def test_the_rows_of_one_answer_stay_together() -> None:
    encoder = ResultEncoder(TEXTS, ARROW, explode=True)
    answers = [["x" * 300] * 5, ["y"], [], ["z" * 300] * 6]
    counts = [encoded.counts for _, _, encoded in encoder.pieces(answers, SIZE)]
    assert len(counts) > 1
    assert [count for own in counts for count in own] == [5, 1, 0, 6]


def test_a_mismatch_beside_large_answers_stays_with_its_own() -> None:
    encoder = ResultEncoder(TEXTS, ARROW, explode=False)
    answers = ["x" * 900, object(), "y" * 900]
    names = {}
    for first, _, encoded in encoder.pieces(answers, SIZE):
        names.update({first + i: error.condition for i, error in encoded.mismatches.items()})
    assert names == {1: "RESULT_TYPE_MISMATCH"}


def test_rows_and_side_outputs_are_cut_in_their_order() -> None:
    sides = {"side": TEXTS}
    wire = t.StructType().add("tag", "string").add("v", "string").add("side", TEXTS)
    encoder = RowsEncoder(TEXTS, sides, to_arrow_schema(wire, **in_utc(to_arrow_schema)))
    rows = [("r" * 400 + str(i),) for i in range(5)]
    side_rows = [("side", 0, ("s" * 400 + str(i),)) for i in range(5)]
    pieces = encoder.batches(rows, side_rows, SIZE)
    assert len(pieces) > 4
    values = [row for piece in pieces for row in piece.to_pylist()]
    assert [row["v"] for row in values[:5]] == [row[0] for row in rows]
    assert [row["side"]["v"] for row in values[5:]] == [row[2][0] for row in side_rows]
