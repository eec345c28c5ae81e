"""The words that others have for the options of Pillarbox, by function or option object."""

from __future__ import annotations


def _words(answers: dict[str, str]) -> dict[str, str]:
    """Return the answer to each word, from the words of each answer.

    An answer that is a sentence is given as it is, and any other names the option that is meant.
    """
    return {
        word: answer if answer.endswith(".") else f"Meant is {answer}."
        for answer, words in answers.items()
        for word in words.split()
    }


_CALLS = _words(
    {
        'timeout=pb.Timeout("30s", attempt="5s")': "attempt_timeout",
        'timeout="5s", or pb.Timeout("30s", attempt="5s")': (
            "timeout_ms timeout_s timeout_seconds deadline"
        ),
        "retry=pb.Retry(max_attempts=...), which counts the first attempt too": (
            "max_retries retries max_attempts"
        ),
        "retry=pb.Retry(3, backoff=...)": "backoff",
        "retry=pb.Retry(3, on=...)": "retry_on",
        'on_error=pb.ErrorColumn("error")': "error_column",
        'on_error="raise", "null", "column" or a pb.ErrorColumn': "on_failure",
        'on_error="null" or "column"': "ignore_errors",
        'on_error="column"': "return_exceptions",
        "resource=, a function that gives a context manager": "session client",
    }
)
_FUNCTION = _words({"function": "fn func udf"})
_RETURNS = _words(
    {
        'returns, such as returns="price double"': (
            "schema return_type returnType outputStructType output output_type"
        )
    }
)
_KEY = _words({"by": "key keys key_by partition_by group_by groupBy on"})
_KEYED = _KEY | _words(
    {
        "timestamp, the name of a column": "event_time eventTimeColumnName",
        'backend=pb.Backend("rocksdb", timers="heap")': "timers",
        "backend": "state_backend",
        "initial_state": "initialState",
        "There is none: event- and processing-time timers are there together.": "timeMode",
        "There is none: it is an option of writeStream.": "outputMode",
        "There is none: a micro-batch ends when its rows and calls are done.": "carry_over",
        "inputs": "columns input",
        'side_outputs, such as side_outputs={"bad": "id bigint"}': "tags outputs",
        "order_by": "sort_by",
        'on_late="drop", "process" or "output"': "late late_rows allowed_lateness",
    }
)
_CALL_OPTIONS = " ".join(("capacity limit timeout retry on_error resource budget usage", *_CALLS))
_NO_CALLS = _words({"Its function makes no calls; use pb.process_keyed_async.": _CALL_OPTIONS})
_ASYNC_IO_ONLY = _words(
    {
        "A keyed function has none; pb.async_io has this option.": "batch_size ordered explode",
        "There is none: an answer goes with the state that it has changed; pb.async_io has it.": (
            "share_calls journal"
        ),
        "There is none: a key has one call at a time.": "per_key",
    }
)
_ARROW = _words(
    {
        "The column form has no order of rows; use pb.process_keyed.": "time_sorted",
        "The column form has one output; use pb.process_keyed.": "side_outputs tags outputs",
        "The column form drops late rows; use pb.process_keyed.": "on_late",
    }
)
_HARNESS = {
    **_KEY,
    **_FUNCTION,
    **_words(
        {
            'schema, such as schema="k string, v bigint"': "input",
            'returns, such as returns="k string, n bigint"': "output",
            "timestamp, the name of a column": "event_time",
            "There is none: a harness keeps all keys in memory.": "backend",
            "There is none: process the rows that make it, or restore a snapshot.": "initial_state",
        }
    ),
}
_SPENDING = _words(
    {
        "limit=pb.Limit(concurrency=...)": "max_concurrency max_concurrent",
        "limit=pb.Limit(concurrency=...); capacity counts rows of a task": "concurrency",
        "limit=pb.Limit(per_second=...), or per_minute, per_hour, per_day": "rate_limit",
        "limit=pb.Limit(per_second=...)": "requests_per_second qps per_second",
        "limit=pb.Limit(per_minute=...)": "per_minute",
        "limit, which takes a list too": "limits",
        "limit=pb.Limit(concurrency=..., scope=...)": "scope",
        "limit=pb.Limit(concurrency=..., adaptive=True)": "adaptive",
        "budget=pb.Budget(max_calls=...)": "max_calls max_requests",
        "budget=pb.Budget(max_failed=...)": "max_failed max_errors max_errored",
    }
)
_ASYNC_IO = _SPENDING | _words(
    {
        'limit=pb.Limit(concurrency=..., scope="key"), with by': "per_key",
        "batch_size=pb.BatchSize(8, wait=...)": "batch_wait batch_timeout",
        "batch_size": "max_batch_size",
        "carry_over=pb.CarryOver(max_lag=...)": "max_lag",
        "carry_over=pb.CarryOver(max_rows=...)": "max_carried",
        "carry_over=pb.CarryOver(slots=...)": "slots",
        "journal=pb.Journal(path, ttl=...)": "journal_ttl ttl",
        "journal=pb.Journal(path, version=...)": "version",
        "pb.Ticketed(submit, collect, poll=...) in the place of the function": (
            "submit collect poll poll_interval on_pending max_pending"
        ),
        "journal, the path of a folder": "cache",
        "call_key, with name; pb.call_id() gives the key of a call": "idempotency_key",
        "inputs": "columns input",
        "ordered=True": "ordered_wait",
        "There is none: a plain function runs in capacity threads.": "threads",
    }
)
_UDF = _words(
    {
        'It needs the jar; pb.async_io has engine="python".': "engine",
        'Pass the columns in the call: score("text").': "inputs columns input",
        "With a journal the arguments name a call.": "call_key idempotency_key",
        "Rows keep their order, as in Spark's UDFs; pb.async_io has ordered=False.": "ordered",
        "A function of values has none; pb.async_io has it.": (
            "by key keys key_by partition_by group_by groupBy on explode carry_over max_lag "
            "max_carried slots per_key ordered_wait call_column"
        ),
        "Use asNondeterministic() of what it makes.": "deterministic",
        "There is none: results travel as Arrow anyway.": "useArrow use_arrow",
    }
)
_SCAN = _words(
    {
        "A scan makes no calls; use pb.process_keyed_async.": _CALL_OPTIONS,
        "select": "emit",
        "select, the expressions of the output": "returns",
        "There is none: expressions name the columns that they use.": "inputs input columns",
        "There is none: a scan is given by expressions; use pb.process_keyed.": "fn function",
        "A scan has one output; use pb.process_keyed.": "side_outputs tags outputs",
    }
)

_ALL_OF_ASYNC_IO = {**_CALLS, **_FUNCTION, **_RETURNS, **_KEY, **_ASYNC_IO}

WORDS: dict[str, dict[str, str]] = {
    "async_io": _ALL_OF_ASYNC_IO,
    "async_udf": {**_ASYNC_IO, **_CALLS, **_FUNCTION, **_RETURNS, **_UDF},
    "process_keyed": {**_KEYED, **_FUNCTION, **_RETURNS, **_NO_CALLS},
    "process_keyed_async": {
        **{**_KEYED, **_FUNCTION, **_RETURNS, **_CALLS},
        **{**_SPENDING, **_ASYNC_IO_ONLY},
    },
    "process_keyed_arrow": {**_KEYED, **_FUNCTION, **_RETURNS, **_NO_CALLS, **_ARROW},
    "KeyedHarness": _HARNESS
    | _words({"Its function makes no calls; use pb.testing.AsyncKeyedHarness.": _CALL_OPTIONS}),
    "AsyncKeyedHarness": _HARNESS | _CALLS | _SPENDING,
    "AsyncHarness": {
        **{name: told for name, told in _ALL_OF_ASYNC_IO.items() if name != "schema"},
        **_words({"schema": "input", "Give the rows to run(rows).": "df rows"}),
    },
    "scan": _KEYED | _SCAN,
    "tagged_union": _KEY | _words({"timestamp, the name of a column": "event_time time at"}),
    "read_journal": _words({"name": "operator", "path": "journal folder"}),
    "purge_journal": _words(
        {
            "name": "operator",
            "path": "journal folder",
            "older_than": "ttl retention before age",
            "where": "condition filter key",
        }
    ),
    "read_offsets": _words(
        {
            "batch_id: the offsets after that micro-batch": "version",
            "batch_id": "batchId",
            "checkpoint": "path",
        }
    ),
    "read_state": _words(
        {
            "state, the name of the state; operator names the operator": "name",
            "batch_id: the state after that micro-batch": "version",
            "batch_id": "batchId",
            "operator": "operatorId",
            "state": "stateVarName",
            "checkpoint": "path",
        }
    ),
    "Retry": _words(
        {
            "max_attempts, which counts the first attempt too": "max_retries retries",
            "max_attempts": "attempts stop_after_attempt",
            "on": "retry_on exceptions should_retry",
            "if_result": "retry_if_result",
            "backoff": "initial_delay delay initial_interval",
            "max_backoff": "max_delay max_retry_delay",
            "multiplier": "backoff_coefficient backoff_rate",
        }
    ),
    "Timeout": _words({"attempt": "attempt_timeout per_attempt", "total": "timeout"}),
    "Limit": _words(
        {
            "concurrency": "max_concurrency max_concurrent",
            "per_second, per_minute, per_hour or per_day": "rate rate_limit max_rate period",
            "per_second": "requests_per_second qps",
            "per_minute": "rpm",
            "key, the name of a column": "by per_key partition_key group_by",
        }
    ),
    "Budget": _words(
        {
            "max_calls": "calls max_requests requests",
            "max_failed": "failed max_errors errors max_failures",
            "on_exceeded": "on_error on_spent",
        }
    ),
    "Breaker": _words({"failures": "threshold count", "pause": "timeout reset_timeout cooldown"}),
    "BatchSize": _words({"wait": "timeout batch_wait", "rows": "size"}),
    "RetryAfter": _words({"delay": "seconds delay_s retry_after"}),
    "JvmFunction": _words({"class_name": "name", "options": "config"}),
    "CarryOver": _words({"max_rows": "max_carried capacity"}),
    "Journal": _words({"ttl": "journal_ttl", "path": "folder"}),
    "ErrorColumn": _words({"name": "error_column column"}),
    "Backend": _words({"state": "backend state_backend", "timers": "timer"}),
    "StateTtl": _words(
        {
            'time_domain="event_time" or "processing_time"': "time",
            "duration": "ttl ttlDurationMs",
            "update": "update_type",
            "on_expire": "listener",
        }
    ),
}
