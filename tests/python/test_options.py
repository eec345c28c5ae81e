"""The option objects, what plain values of options mean, and unknown keywords."""

import inspect
import pickle
from datetime import timedelta
from pathlib import Path

import pytest

import pillarbox as pb
from pillarbox import limits, options
from pillarbox._async.options import AsyncOptions
from pillarbox._base.unknown_options import answers_unknown
from pillarbox._base.words import WORDS

HALVES = pb.Ticketed(lambda row: "", lambda ticket: None, max_pending=5)
OBJECTS = [
    pb.Timeout("30s", attempt="10s"),
    pb.Timeout(timedelta(seconds=5)),
    pb.ErrorColumn("why"),
    pb.BatchSize(8, wait="20ms"),
    pb.Limit(concurrency=50, per_minute=500, scope="executor", adaptive=True),
    pb.CarryOver(max_lag="1 minute", max_rows=10, slots=4),
    pb.Journal("hdfs:///journals", ttl="30 days", version="model 3"),
    pb.Backend("rocksdb", timers="heap"),
    pb.Retry(5, backoff="1s"),
]


@pytest.mark.parametrize("one", OBJECTS, ids=lambda one: type(one).__name__)
def test_options_compare_by_value_and_can_be_pickled(one):
    assert pickle.loads(pickle.dumps(one)) == one
    with pytest.raises(AttributeError):
        one.name = "other"


@pytest.mark.parametrize(
    ("made", "named"),
    [
        (lambda: pb.Timeout("no"), "timeout must be a positive duration"),
        (lambda: pb.Timeout(5), "timeout must be a positive duration"),
        (lambda: pb.Timeout(attempt=5), "timeout.attempt must be a positive duration"),
        (lambda: pb.Timeout("1s", attempt="2s"), "TIMEOUT_BELOW_ATTEMPT_TIMEOUT"),
        (lambda: pb.ErrorColumn(""), "on_error.name must be a name"),
        (lambda: pb.BatchSize(0), "batch_size must be a whole number"),
        (lambda: pb.BatchSize(8, wait="-1s"), "batch_size.wait must be a positive duration"),
        (lambda: pb.BatchSize(8, wait=None), "batch_size.wait must be a positive duration"),
        (lambda: pb.Limit(), "EMPTY_LIMIT"),
        (lambda: pb.Limit(scope="task"), "EMPTY_LIMIT"),
        (lambda: pb.Limit(concurrency=0), "limit.concurrency must be a whole number"),
        (lambda: pb.Limit(per_minute=0), "limit.per_minute must be a number above 0"),
        (lambda: pb.Limit(concurrency=1, scope="all"), "limit.scope must be one of"),
        (lambda: pb.Limit(per_day=1, adaptive=True), "limit.adaptive=True .*without conc"),
        (
            lambda: pb.Limit(per_day=1, unit="t", adaptive=True),
            "limit.adaptive=True has no meaning with unit='t'. Give it in another",
        ),
        (lambda: pb.Limit(concurrency=1, adaptive=1), "limit.adaptive must be True or False"),
        (lambda: pb.Limit(per_hour=1, scope="key"), 'limit.per_hour=1 .*scope="key"'),
        (lambda: pb.Limit(concurrency=1, adaptive=True, scope="key"), "limit.adaptive=True"),
        (lambda: pb.Limit(per_day=1, unit=""), "limit.unit must be a name"),
        (lambda: pb.Limit(per_day=0, unit="usd"), "limit.per_day must be a number above 0"),
        (lambda: pb.Limit(concurrency=1, unit="usd"), "limit.concurrency=1 .*unit='usd'"),
        (lambda: pb.Limit(per_day=1, estimate=1), "limit.estimate=1 .*without unit"),
        (lambda: pb.Limit(per_day=1, unit="usd", estimate=2), "limit.estimate must be at most"),
        (
            lambda: pb.Limit(per_day=1, unit="usd", estimate=[2]),
            "limit.estimate must be a number, a SQL expression .*, or a function of the row",
        ),
        (lambda: pb.Limit(per_day=1, estimate=len), "limit.estimate=.*without unit"),
        (lambda: pb.Limit(per_day=1, unit="usd", scope="key"), 'limit.per_day=1 .*scope="key"'),
        (lambda: pb.Limit(per_day=1, name=""), "limit.name must be a name"),
        (lambda: pb.Limit(per_day=1, name="a", scope="task"), 'limit.name.* .*scope="task"'),
        (lambda: pb.Limit(per_day=1, scope="application"), "limit.scope.* .*without name"),
        (lambda: pb.Limit(per_day=1, key=""), "limit.key must be the name of a column"),
        (
            lambda: pb.Limit(concurrency=1, scope="key", key="tenant"),
            "limit.key='tenant' .*with scope=\"key\"",
        ),
        (lambda: pb.CarryOver(max_lag="0s"), "carry_over.max_lag must be a positive"),
        (lambda: pb.CarryOver(max_lag=None), "carry_over.max_lag must be a positive"),
        (lambda: pb.CarryOver(max_rows=0), "carry_over.max_rows must be a whole number"),
        (lambda: pb.CarryOver(slots=10**9), "carry_over.slots must be at most 10000"),
        (lambda: pb.Journal(""), "journal must be the path of a folder"),
        (lambda: pb.Journal(5), "journal must be the path of a folder"),
        (lambda: pb.Journal(Path("hdfs:///a")), 'has a scheme.*Path.*journal="hdfs:///'),
        (lambda: pb.Journal("x", ttl="soon"), "journal.ttl must be a positive duration"),
        (lambda: pb.Journal("x", version=3), "journal.version must be a text"),
        (lambda: pb.Backend("disk"), "backend must be one of"),
        (lambda: pb.Backend(timers="disk"), "backend.timers must be one of"),
    ],
)
def test_an_option_that_cannot_work_is_refused_by_its_name(made, named):
    with pytest.raises(pb.InvalidOption, match=named):
        made()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"concurrency": 5}, {"concurrency": 5}),
        ({"per_second": 5, "per_hour": 9}, {"per_hour": 9}),
        ({"per_day": 5, "unit": "usd", "estimate": 1}, {"per_day": 5, "unit": "usd"}),
        ({"per_day": 5, "unit": "usd", "estimate": len}, {"per_day": 5, "unit": "usd"}),
        ({"per_day": 5, "key": "a"}, {"per_day": 5, "key": "a"}),
    ],
)
def test_one_limit_in_two_places_of_a_list_is_refused(first, second):
    with pytest.raises(pb.InvalidOption, match=r"twice in the list.*leave one of them out"):
        limits.as_limits([pb.Limit(**first), pb.Limit(**second)])
    named = pb.Limit(**{"estimate": None, **second}, name="other")
    assert len(limits.as_limits([pb.Limit(**first), named])) == 2


def test_limits_of_two_keys_are_two_unless_their_values_are_shared_by_name():
    of_keys = [pb.Limit(per_day=5, key=key) for key in ("a", "b", None)]
    assert limits.as_limits(of_keys) == tuple(of_keys)
    shared = [pb.Limit(per_day=5, key=key, name="n") for key in ("a", "b")]
    with pytest.raises(pb.InvalidOption, match=r"twice in the list"):
        limits.as_limits(shared)
    assert limits.as_limits([shared[0], pb.Limit(per_day=5, name="n")])


@pytest.mark.parametrize(
    ("rates", "binding"),
    [
        ({"per_second": 5}, 0.2),
        ({"per_minute": 300}, 0.2),
        ({"per_second": 10, "per_minute": 300}, 0.2),
        ({"per_second": 1, "per_minute": 300}, 1),
        ({"per_hour": 100, "per_minute": 2}, 36),
        ({"per_day": 5}, 17280),
        ({"concurrency": 5}, 0),
    ],
)
def test_the_slowest_rate_of_a_limit_counts(rates, binding):
    assert pb.Limit(**rates)._interval_s == binding


@pytest.mark.parametrize(
    ("read", "value", "meaning"),
    [
        (options.as_timeout, None, pb.Timeout()),
        (options.as_timeout, "5s", pb.Timeout("5s")),
        (options.as_timeout, timedelta(seconds=5), pb.Timeout(timedelta(seconds=5))),
        (options.as_timeout, pb.Timeout(attempt="1s"), pb.Timeout(attempt="1s")),
        (options.as_retry, None, None),
        (options.as_retry, 3, pb.Retry(3)),
        (options.as_retry, pb.Retry(5), pb.Retry(5)),
        (options.as_batch_size, None, None),
        (options.as_batch_size, 8, pb.BatchSize(8)),
        (options.as_batch_size, pb.BatchSize(8, wait="1s"), pb.BatchSize(8, wait="1s")),
        (options.as_carry_over, False, None),
        (options.as_carry_over, True, pb.CarryOver()),
        (options.as_carry_over, pb.CarryOver(slots=2), pb.CarryOver(slots=2)),
        (options.as_journal, None, None),
        (options.as_journal, False, None),
        (options.as_journal, True, pb.Journal()),
        (options.as_journal, "/answers", pb.Journal("/answers")),
        (options.as_journal, Path("/answers"), pb.Journal(Path("/answers"))),
        (options.as_journal, pb.Journal(ttl="1 day"), pb.Journal(ttl="1 day")),
        (options.as_backend, "heap", pb.Backend("heap")),
        (options.as_backend, pb.Backend("heap", timers="rocksdb"), None),
        (limits.as_limits, None, ()),
        (limits.as_limits, pb.Limit(concurrency=1), (pb.Limit(concurrency=1),)),
        (limits.as_limits, [pb.Limit(concurrency=1)], (pb.Limit(concurrency=1),)),
        (options.as_on_error, "raise", "raise"),
        (options.as_on_error, "null", "null"),
        (options.as_on_error, "column", pb.ErrorColumn()),
        (options.as_on_error, pb.ErrorColumn("why"), pb.ErrorColumn("why")),
    ],
)
def test_what_a_plain_value_means(read, value, meaning):
    assert read(value) == (value if meaning is None and value else meaning)


@pytest.mark.parametrize(
    ("read", "value"),
    [
        (options.as_timeout, 5),
        (options.as_timeout, pb.Retry()),
        (options.as_retry, "3"),
        (options.as_retry, True),
        (options.as_batch_size, 1.5),
        (options.as_batch_size, False),
        (options.as_carry_over, None),
        (options.as_carry_over, "yes"),
        (options.as_journal, 5),
        (options.as_journal, ""),
        (options.as_backend, None),
        (limits.as_limits, 50),
        (limits.as_limits, []),
        (limits.as_limits, [50]),
        (options.as_on_error, "drop"),
        (options.as_on_error, None),
    ],
)
def test_a_plain_value_that_means_nothing_is_refused(read, value):
    with pytest.raises(pb.InvalidOption, match=repr(value)[:3].replace("[", r"\[")):
        read(value)


def test_an_unknown_keyword_is_answered_with_the_right_word():
    with pytest.raises(pb.InvalidOption, match=r"UNKNOWN_OPTION.*max_retries.*max_attempts, which"):
        pb.Retry(max_retries=3)


def test_an_unknown_keyword_that_nobody_uses_is_answered_with_the_nearest():
    with pytest.raises(pb.InvalidOption, match=r"pb.Limit has no option per_minut\..*per_minute"):
        pb.Limit(per_minut=5)


def test_no_word_of_the_table_is_an_option_of_its_function():
    for name, words in WORDS.items():
        made = getattr(pb, name, None) or getattr(pb.testing, name)
        checked = made.__init__ if isinstance(made, type) else made
        if not hasattr(checked, "__wrapped__"):
            continue  # lead: goes when all functions answer
        names = set(inspect.signature(made).parameters)
        assert not names & set(words), name


def test_the_signature_stays_and_so_does_the_name():
    @answers_unknown
    def enrich(df, *, returns, capacity=100):
        return df, returns, capacity

    assert enrich(1, returns="x") == (1, "x", 100)
    assert enrich.__name__ == "enrich"
    with pytest.raises(pb.InvalidOption, match=r"pb\.enrich has no option capcity.*capacity"):
        enrich(1, returns="x", capcity=5)


@pytest.mark.parametrize(
    ("given", "held"),
    [
        ({}, 70),
        ({"capacity": 1_000_000_000}, 2**31 - 1),
        ({"ordered": False}, 0),
        ({"carry_over": pb.CarryOver()}, 70),
        ({"carry_over": pb.CarryOver(max_rows=9)}, 9),
        ({"ticketed": HALVES}, 0),
        ({"ticketed": HALVES, "carry_over": pb.CarryOver(max_lag="25 hours")}, 50),
    ],
)
def test_in_order_a_task_holds_ten_times_what_it_has_in_flight(given, held):
    halves = given.pop("ticketed", None)
    kept = {"journal": "/answers"} if halves else {}
    asked = AsyncOptions.of("f", {"name": "a", "capacity": 7, **kept, **given}, halves)
    assert asked.max_waiting == asked.to_spec()["figures"]["max_waiting"] == held
