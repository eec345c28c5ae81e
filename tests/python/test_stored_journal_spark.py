"""``read_journal`` and ``purge_journal``: what a journal holds, as a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import pillarbox as pb
from spark_support import by_value

by_value(__name__)


@pytest.fixture
def journal(tmp_path: Path) -> str:
    return str(tmp_path / "journal")


async def rate(row: Any) -> tuple[float, str]:
    return row.amount / 2, f"rated {row.customer} {pb.call_id()}"


def rated(df: DataFrame, journal: str, version: str | None = None, **more: Any) -> DataFrame:
    more = {"returns": "risk double, text string", "name": "risk", "engine": "jvm", **more}
    kept = pb.Journal(journal, version=version)
    return df.transform(pb.async_io, rate, inputs=["customer", "amount"], journal=kept, **more)


def claims(spark: SparkSession, count: int) -> DataFrame:
    return spark.sql(
        f"select concat('person ', id % 10) customer, id amount from range(0, {count}, 1, 3)"
    )


def texts_in(journal: str) -> bytes:
    return b"".join(file.read_bytes() for file in Path(journal).iterdir())


@pytest.mark.smoke
def test_answers_are_read_with_their_keys_and_calls(spark: SparkSession, journal: str) -> None:
    made = {row.amount: row.text for row in rated(claims(spark, 40), journal).collect()}
    rated(claims(spark, 5), journal, "model 3", name="other").collect()

    all_of_it = pb.read_journal(spark, journal)
    assert all_of_it.dtypes == [
        ("name", "string"),
        ("version", "string"),
        ("call_id", "string"),
        ("written_at", "timestamp"),
        ("attempts", "int"),
        ("usage", "map<string,double>"),
    ]
    counts = all_of_it.groupBy("name", "version").count().orderBy("name").collect()
    assert [tuple(row) for row in counts] == [("other", "model 3", 5), ("risk", None, 40)]

    risk = pb.read_journal(spark, journal, name="risk")
    assert dict(risk.dtypes)["key"] == "struct<customer:string,amount:bigint>"
    assert dict(risk.dtypes)["answer"] == "struct<risk:double,text:string>"
    rows = risk.where("written_at > current_timestamp() - interval 1 hour").collect()
    assert len(rows) == 40
    for row in rows:
        assert row.answer.text == made[row.key.amount] == f"rated {row.key.customer} {row.call_id}"
        assert (row.answer.risk, row.attempts, row.usage) == (row.key.amount / 2, 1, {})

    own = spark.read.format("pillarbox-journal").option("name", "other").load(journal)
    assert own.select("key.customer").distinct().count() == 5
    with pytest.raises(Exception, match="pillarbox-journal has no option nmae"):
        _ = spark.read.format("pillarbox-journal").option("nmae", "other").load(journal).schema
    spark.sql(
        "create or replace temporary view kept using `pillarbox-journal` "
        f"options (path '{journal}', name 'risk')"
    )
    sums = spark.sql("select sum(answer.risk) from kept where key.customer = 'person 1'").collect()
    assert sums[0][0] == sum(n / 2 for n in range(40) if n % 10 == 1)
    rated(claims(spark, 41), journal).collect()
    assert risk.count() == 41, "it is read whenever it is asked"


def test_what_an_answer_has_cost_is_read_with_it(spark: SparkSession, journal: str) -> None:
    async def asked(row: Any) -> int:
        pb.current_call().report_usage(tokens=row.id + 1)
        if row.id == 2 and pb.current_call().attempt < 3:
            raise ConnectionError
        return int(row.id)

    calls = spark.range(0, 4, 1, 1).transform(
        pb.async_io,
        asked,
        returns="n int",
        name="asked",
        usage=["tokens", "usd"],
        retry=pb.Retry(3, backoff="1ms"),
        journal=journal,
        engine="jvm",
    )
    assert calls.count() == 4
    read = pb.read_journal(spark, journal, name="asked").orderBy("key.id").collect()
    assert [(row.attempts, row.usage) for row in read] == [
        (1, {"tokens": 1.0}),
        (1, {"tokens": 2.0}),
        (3, {"tokens": 9.0}),
        (1, {"tokens": 4.0}),
    ]


def test_answers_of_many_rows_and_of_changed_operators_are_read_together(
    spark: SparkSession, journal: str
) -> None:
    async def words(row: Any) -> list[str]:
        return ["word"] * int(row.id)

    async def length(row: Any) -> int:
        return int(row.id)

    rows = spark.range(0, 3, 1, 1)
    kept: dict[str, Any] = {"name": "words", "journal": journal, "engine": "jvm"}
    rows.transform(pb.async_io, words, returns="word string", explode=True, **kept).collect()
    rows.transform(pb.async_io, length, returns="length int not null", **kept).collect()
    read = pb.read_journal(spark, journal, name="words")
    found = read.select("key.id", "answer.word", "answer.length").collect()
    assert sorted(map(str, found)) == sorted(
        [f"Row(id={n}, word=None, length={n})" for n in range(3)]
        + [f"Row(id={n}, word='word', length=None)" for n in (1, 2, 2)]
        + ["Row(id=0, word=None, length=None)"]
    )
    assert pb.read_journal(spark, journal).count() == 6

    other = pb.Journal(journal, version="2")
    changed = {**kept, "journal": other}
    rows.transform(pb.async_io, words, returns="length array<string>", **changed).collect()
    with pytest.raises(pb.InvalidOption, match=r"JOURNAL_COLUMNS_DIFFER.*length.*array<string>"):
        pb.read_journal(spark, journal, name="words")
    assert pb.read_journal(spark, journal, name="words", version="2").count() == 3


@pytest.mark.connect
def test_a_folder_on_an_unknown_file_system_is_refused_before_any_work(spark: SparkSession) -> None:
    unknown = r"JOURNAL_UNREACHABLE.* nosuch://a/b: No FileSystem for scheme"
    with pytest.raises(pb.InvalidOption, match=unknown):
        rated(claims(spark, 1), "nosuch://a/b")
    with pytest.raises(pb.InvalidOption, match=unknown):
        pb.read_journal(spark, "nosuch://a/b")
    same = pb.async_udf(rate, returns="double", name="same", journal="nosuch://a/b")
    with pytest.raises(pb.InvalidOption, match=unknown):
        same("id")
    with pytest.raises(pb.InvalidOption, match=unknown):
        same.register(spark)


def test_what_is_not_there_is_said(spark: SparkSession, journal: str, tmp_path: Path) -> None:
    with pytest.raises(pb.InvalidOption, match=f"NO_JOURNAL\\].*{tmp_path}/journal"):
        pb.read_journal(spark, journal)
    Path(journal).mkdir()
    assert pb.read_journal(spark, journal).count() == 0
    with pytest.raises(
        pb.InvalidOption, match=r"NO_JOURNAL_OPERATOR.*of risk; there are .* no operator"
    ):
        pb.read_journal(spark, journal, name="risk")
    rated(claims(spark, 1), journal, "3").collect()
    for missing in ("risk of the version 2", "the version 2"):
        there = rf"of {missing}; there are those of risk \(version 3\)"
        name = "risk" if "risk" in missing else None
        with pytest.raises(pb.InvalidOption, match=there):
            pb.read_journal(spark, journal, name=name, version="2")
    (tmp_path / "a.file").write_text("")
    with pytest.raises(pb.InvalidOption, match=r"NO_JOURNAL\].*/a.file"):
        pb.read_journal(spark, tmp_path / "a.file")
    with pytest.raises(pb.InvalidOption, match=there):
        pb.purge_journal(spark, journal, name="risk", version="2")
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "a.calls").write_bytes(b"PBXCALLS\0\0\0\2")
    with pytest.raises(pb.StateError, match=r"JOURNAL_FAILED.*has format version 2, this"):
        pb.read_journal(spark, tmp_path / "old", name="risk")


@pytest.mark.smoke
def test_a_purge_takes_one_person_from_all_files_and_no_more(
    spark: SparkSession, journal: str
) -> None:
    first = rated(claims(spark, 40), journal).collect()
    assert b"rated person 7" in texts_in(journal)
    assert pb.purge_journal(spark, journal, name="risk", where="key.customer = 'person 7'") == 4
    assert b"person 7" not in texts_in(journal)
    assert pb.read_journal(spark, journal).count() == 36
    assert pb.purge_journal(spark, journal, name="risk", where="key.customer = 'person 7'") == 0
    # A session that has used the journal keeps those that were asked for again beside the others.
    assert sorted(rated(claims(spark, 40), journal).collect()) == sorted(first)
    again = pb.read_journal(spark, journal, name="risk")
    assert again.count() == 40
    assert again.where("key.customer = 'person 7'").count() == 4


def test_a_purge_by_name_version_and_age(spark: SparkSession, journal: str) -> None:
    for version in (None, "1", "2"):
        rated(claims(spark, 10), journal, version).collect()
    rated(claims(spark, 10), journal, "2", name="other").collect()
    assert pb.purge_journal(spark, journal, older_than="1 hour") == 0
    assert pb.purge_journal(spark, journal, version="1") == 10
    assert pb.purge_journal(spark, journal, name="risk", version="2") == 10
    where = "answer.risk > 4 and exists(array(1), x -> x = 1)"
    assert pb.purge_journal(spark, journal, name="other", where=where) == 1
    assert pb.purge_journal(spark, journal, name="other", older_than="1 ms") == 9
    assert [row.name for row in pb.read_journal(spark, journal).collect()] == ["risk"] * 10
    assert pb.purge_journal(spark, journal, name="risk") == 10
    assert list(Path(journal).iterdir()) == []


def test_answers_that_cannot_be_read_together_can_be_purged(
    spark: SparkSession, journal: str
) -> None:
    rated(claims(spark, 10), journal).collect()

    async def text(row: Any) -> tuple[str, str]:
        return str(row.amount), row.customer

    kept = {"returns": "risk string, text string", "name": "risk", "journal": journal}
    inputs = {"inputs": ["customer", "amount"], "engine": "jvm"}
    claims(spark, 10).transform(pb.async_io, text, **kept, **inputs).collect()
    with pytest.raises(pb.InvalidOption, match=r"JOURNAL_COLUMNS_DIFFER.*risk has.*double and str"):
        pb.read_journal(spark, journal, name="risk")

    def purged(**what: Any) -> int:
        return pb.purge_journal(spark, journal, name="risk", **what)

    assert purged(where="key.customer = 'person 7' and answer.text is not null") == 2
    with pytest.raises(pb.InvalidOption, match=r"JOURNAL_COLUMNS_DIFFER.*risk has.*double and str"):
        purged(where="answer.risk = '1'")
    with pytest.raises(Exception, match="FIELD_NOT_FOUND"):
        purged(where="answer.rsk = '1'")
    assert purged(older_than="1 hour") == 0
    assert purged() == 18


def test_a_purge_without_an_aim_is_refused(spark: SparkSession, journal: str) -> None:
    rated(claims(spark, 3), journal).collect()
    with pytest.raises(pb.InvalidOption, match="PURGE_OF_EVERYTHING"):
        pb.purge_journal(spark, journal)
    with pytest.raises(pb.InvalidOption, match=r"where.*without name"):
        pb.purge_journal(spark, journal, where="key.customer = 'person 1'")
    with pytest.raises(Exception, match=r"UNRESOLVED_COLUMN|FIELD_NOT_FOUND"):
        pb.purge_journal(spark, journal, name="risk", where="key.person = 'person 1'")
    assert pb.read_journal(spark, journal).count() == 3
