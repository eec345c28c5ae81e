"""What others call the options of Pillarbox: by function or option object, then by their word."""

from __future__ import annotations

_ATTEMPTS = "Meant is retry=pb.Retry(max_attempts=...), which counts the first attempt too."
_TIMEOUT = 'Meant is timeout="5s", or pb.Timeout("30s", attempt="5s").'

_CALLS = {
    "attempt_timeout": 'Meant is timeout=pb.Timeout("30s", attempt="5s").',
    "timeout_ms": _TIMEOUT,
    "timeout_s": _TIMEOUT,
    "timeout_seconds": _TIMEOUT,
    "deadline": _TIMEOUT,
    "max_retries": _ATTEMPTS,
    "retries": _ATTEMPTS,
    "max_attempts": _ATTEMPTS,
    "backoff": "Meant is retry=pb.Retry(3, backoff=...).",
    "retry_on": "Meant is retry=pb.Retry(3, on=...).",
    "error_column": 'Meant is on_error=pb.ErrorColumn("error").',
    "on_failure": 'Meant is on_error="raise", "null", "column" or a pb.ErrorColumn.',
    "ignore_errors": 'Meant is on_error="null" or "column".',
    "return_exceptions": 'Meant is on_error="column".',
    "session": "Meant is resource=, a function that gives a context manager.",
    "client": "Meant is resource=, a function that gives a context manager.",
}
_FUNCTION = {"fn": "Meant is function.", "func": "Meant is function.", "udf": "Meant is function."}
_RETURNS = dict.fromkeys(
    ("schema", "return_type", "returnType", "outputStructType", "output", "output_type"),
    'Meant is returns, such as returns="price double".',
)
_KEY = dict.fromkeys(
    ("key", "keys", "key_by", "partition_by", "group_by", "groupBy", "on"), "Meant is by."
)
_KEYED = {
    **_KEY,
    "event_time": "Meant is timestamp, the name of a column.",
    "eventTimeColumnName": "Meant is timestamp, the name of a column.",
    "timers": 'Meant is backend=pb.Backend("rocksdb", timers="heap").',
    "state_backend": "Meant is backend.",
    "initialState": "Meant is initial_state.",
    "timeMode": "There is none: event- and processing-time timers are there together.",
    "outputMode": "There is none: it is an option of writeStream.",
    "carry_over": "There is none: a micro-batch ends when its rows and calls are done.",
    "columns": "Meant is inputs.",
    "input": "Meant is inputs.",
    "tags": 'Meant is side_outputs, such as side_outputs={"bad": "id bigint"}.',
    "outputs": 'Meant is side_outputs, such as side_outputs={"bad": "id bigint"}.',
    "sort_by": "Meant is order_by.",
}
_NO_CALLS = dict.fromkeys(
    (
        *("capacity", "limit", "timeout", "retry", "on_error", "resource", "budget", "usage"),
        *_CALLS,
    ),
    "Its function makes no calls; use pb.process_keyed_async.",
)
_ASYNC_IO_ONLY = dict.fromkeys(
    (
        *("limit", "limits", "max_concurrency", "concurrency", "rate_limit", "per_key", "scope"),
        *("adaptive", "batch_size", "call_key", "share_calls", "journal", "ordered", "explode"),
    ),
    "A keyed function has none; capacity bounds its calls, and pb.async_io has this option.",
)
_ARROW = {
    "time_sorted": "The column form has no order of rows; use pb.process_keyed.",
    **dict.fromkeys(
        ("side_outputs", "tags", "outputs"), "The column form has one output; use pb.process_keyed."
    ),
}
_HARNESS = {
    **_KEY,
    **_FUNCTION,
    "input": 'Meant is schema, such as schema="k string, v bigint".',
    "output": 'Meant is returns, such as returns="k string, n bigint".',
    "event_time": "Meant is timestamp, the name of a column.",
    "backend": "There is none: a harness keeps all keys in memory.",
    "initial_state": "There is none: process the rows that make it, or restore a snapshot.",
}

WORDS: dict[str, dict[str, str]] = {
    "async_io": {
        **_CALLS,
        **_FUNCTION,
        **_RETURNS,
        **_KEY,
        "max_concurrency": "Meant is limit=pb.Limit(concurrency=...).",
        "concurrency": "Meant is limit=pb.Limit(concurrency=...); capacity counts rows of a task.",
        "max_concurrent": "Meant is limit=pb.Limit(concurrency=...).",
        "rate_limit": "Meant is limit=pb.Limit(per_second=...), or per_minute, per_hour, per_day.",
        "requests_per_second": "Meant is limit=pb.Limit(per_second=...).",
        "qps": "Meant is limit=pb.Limit(per_second=...).",
        "limits": "Meant is limit, which takes a list too.",
        "per_key": 'Meant is limit=pb.Limit(concurrency=..., scope="key"), with by.',
        "scope": "Meant is limit=pb.Limit(concurrency=..., scope=...).",
        "adaptive": "Meant is limit=pb.Limit(concurrency=..., adaptive=True).",
        "batch_wait": "Meant is batch_size=pb.BatchSize(8, wait=...).",
        "batch_timeout": "Meant is batch_size=pb.BatchSize(8, wait=...).",
        "max_batch_size": "Meant is batch_size.",
        "max_lag": "Meant is carry_over=pb.CarryOver(max_lag=...).",
        "max_carried": "Meant is carry_over=pb.CarryOver(max_rows=...).",
        "slots": "Meant is carry_over=pb.CarryOver(slots=...).",
        "journal_ttl": "Meant is journal=pb.Journal(path, ttl=...).",
        "cache": "Meant is journal, the path of a folder.",
        "idempotency_key": "Meant is call_key, with name; pb.call_id() gives the key of a call.",
        "columns": "Meant is inputs.",
        "input": "Meant is inputs.",
        "ordered_wait": "Meant is ordered=True.",
        "threads": "There is none: a plain function runs in capacity threads.",
        "per_second": "Meant is limit=pb.Limit(per_second=...).",
        "per_minute": "Meant is limit=pb.Limit(per_minute=...).",
        "ttl": "Meant is journal=pb.Journal(path, ttl=...).",
        "version": "Meant is journal=pb.Journal(path, version=...).",
    },
    "process_keyed": {**_KEYED, **_FUNCTION, **_RETURNS, **_NO_CALLS},
    "process_keyed_async": {**_KEYED, **_FUNCTION, **_RETURNS, **_CALLS, **_ASYNC_IO_ONLY},
    "process_keyed_arrow": {**_KEYED, **_FUNCTION, **_RETURNS, **_NO_CALLS, **_ARROW},
    "KeyedHarness": {
        **_HARNESS,
        **dict.fromkeys(
            _NO_CALLS, "Its function makes no calls; use pb.testing.AsyncKeyedHarness."
        ),
    },
    "AsyncKeyedHarness": {**_HARNESS, **_CALLS},
    "scan": {
        **_KEYED,
        **dict.fromkeys(_NO_CALLS, "A scan makes no calls; use pb.process_keyed_async."),
        "emit": "Meant is select.",
        "returns": "Meant is select, the expressions of the output.",
        **dict.fromkeys(
            ("inputs", "input", "columns"),
            "There is none: expressions name the columns that they use.",
        ),
        "fn": "There is none: a scan is given by expressions; use pb.process_keyed.",
        "function": "There is none: a scan is given by expressions; use pb.process_keyed.",
        **dict.fromkeys(
            ("side_outputs", "tags", "outputs"), "A scan has one output; use pb.process_keyed."
        ),
    },
    "read_offsets": {
        "version": "Meant is batch_id: the offsets after that micro-batch.",
        "batchId": "Meant is batch_id.",
        "path": "Meant is checkpoint.",
    },
    "read_state": {
        "name": "Meant is state, the name of the state; operator names the operator.",
        "version": "Meant is batch_id: the state after that micro-batch.",
        "batchId": "Meant is batch_id.",
        "operatorId": "Meant is operator.",
        "stateVarName": "Meant is state.",
        "path": "Meant is checkpoint.",
    },
    "Retry": {
        "max_retries": "Meant is max_attempts, which counts the first attempt too.",
        "attempts": "Meant is max_attempts.",
        "retries": "Meant is max_attempts, which counts the first attempt too.",
        "stop_after_attempt": "Meant is max_attempts.",
        "retry_on": "Meant is on.",
        "exceptions": "Meant is on.",
        "should_retry": "Meant is on.",
        "retry_if_result": "Meant is if_result.",
        "initial_delay": "Meant is backoff.",
        "delay": "Meant is backoff.",
        "initial_interval": "Meant is backoff.",
        "max_delay": "Meant is max_backoff.",
        "max_retry_delay": "Meant is max_backoff.",
        "backoff_coefficient": "Meant is multiplier.",
        "backoff_rate": "Meant is multiplier.",
    },
    "Timeout": {
        "attempt_timeout": "Meant is attempt.",
        "per_attempt": "Meant is attempt.",
        "timeout": "Meant is total.",
    },
    "Limit": {
        "max_concurrency": "Meant is concurrency.",
        "max_concurrent": "Meant is concurrency.",
        "rate": "Meant is per_second, per_minute, per_hour or per_day.",
        "rate_limit": "Meant is per_second, per_minute, per_hour or per_day.",
        "max_rate": "Meant is per_second, per_minute, per_hour or per_day.",
        "requests_per_second": "Meant is per_second.",
        "qps": "Meant is per_second.",
        "rpm": "Meant is per_minute.",
        "period": "Meant is per_second, per_minute, per_hour or per_day.",
    },
    "BatchSize": {
        "timeout": "Meant is wait.",
        "size": "Meant is rows.",
        "batch_wait": "Meant is wait.",
    },
    "RetryAfter": dict.fromkeys(("seconds", "delay_s", "retry_after"), "Meant is delay."),
    "JvmFunction": {"name": "Meant is class_name.", "config": "Meant is options."},
    "CarryOver": {"max_carried": "Meant is max_rows.", "capacity": "Meant is max_rows."},
    "Journal": {"journal_ttl": "Meant is ttl.", "folder": "Meant is path."},
    "ErrorColumn": {"error_column": "Meant is name.", "column": "Meant is name."},
    "Backend": {
        "backend": "Meant is state.",
        "timer": "Meant is timers.",
        "state_backend": "Meant is state.",
    },
    "StateTtl": {
        "time": 'Meant is time_domain="event_time" or "processing_time".',
        "ttl": "Meant is duration.",
        "ttlDurationMs": "Meant is duration.",
        "update_type": "Meant is update.",
        "listener": "Meant is on_expire.",
    },
}
