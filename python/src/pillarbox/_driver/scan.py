"""``scan``: state and output as SQL expressions, without Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from .._base.checks import invalid, needs_other
from .._base.keywords import takes
from .._keyed.options import KeyedOptions, ScanKeywords
from .._keyed.ttl import StateTtl, as_ttl
from ..errors import PillarboxError, error
from .failure_of import reported

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from typing_extensions import Unpack

    from ..options import Duration


@takes(ScanKeywords)
def scan(
    df: DataFrame,
    *,
    by: str | Sequence[str],
    state: Mapping[str, tuple[str, str]],
    select: Sequence[str] | None = None,
    ttl: Duration | StateTtl | None = None,
    **keywords: Unpack[ScanKeywords],
) -> DataFrame:
    """Fold the rows of each key into state, and return a row for each input row.

    ``pb.scan(df, by="k", state={"n": ("0L", "n + 1"), "total": ("0D", "total + v")})`` is a
    running count and sum. Nothing of it runs in Python: Catalyst compiles the expressions.

    Parameters
    ----------
    state: for each name an expression for the value before a key's first row (whose columns it may
        use) and one for the value after a row, over the row's columns and the states *before* it.
        All states are updated at the same time. The type is the smallest that holds both without
        loss; a cast in the second expression chooses another.
    select: expressions over the row's columns and the states after it, as in ``selectExpr``; all
        columns of the row and all states by default. ``old.n`` is the state ``n`` before the row,
        in a key's first row the initial value, unless a column or state has the name ``old``.
    ttl: a :class:`StateTtl` or a duration; all states of a key expire together.
    on_late: as in :func:`process_keyed`. With "process", ``select`` may use the column ``is_late``,
        unless the input has one of this name.
    initial_state: as in :func:`process_keyed`; a DataFrame has a column for each state, and stored
        state has the name "scan".
    by: as in :func:`process_keyed`.
    name: the operator's name in plans, metrics and messages; "scan" by default.
    {keywords}

    Raises as :func:`process_keyed`. An expression that doesn't resolve raises Spark's
    AnalysisException. Nondeterministic expressions, windows, subqueries, Python functions and types
    that don't fit each other raise its IllegalArgumentException. The current time is the
    micro-batch's, also when it is replayed.
    """
    from .engine import require_jvm
    from .initial import initial_state as initial_rows
    from .keyed_input import check_input
    from .specs import keyed_spec

    found = check_input(df, KeyedOptions.of("scan", by, keywords))
    life = as_ttl(ttl)
    _check_ttl(life, found.has_event_time)
    folds = {
        "state": _states(state, df.columns, found.case_sensitive),
        "select": _expressions(select) or [],
        "ttl": None if life is None else life._to_spec(),
    }
    initial = initial_rows(df.sparkSession, found, list(state))
    client = require_jvm(df.sparkSession)
    spec = keyed_spec(found, "scan", None, None, [], initial, scan=folds)
    with reported():
        return client.process_keyed(df, None, spec, None if initial is None else initial.rows)


def _states(state: object, columns: list[str], case_sensitive: bool) -> list[dict[str, str]]:
    from .._arrow.schema import claim, folded

    if not isinstance(state, Mapping) or not state:
        raise _no_states(state)
    taken = {folded(column, case_sensitive): "the input" for column in columns}
    states = []
    for name, pair in state.items():
        is_pair = isinstance(pair, (tuple, list)) and len(pair) == 2
        if not isinstance(name, str) or not is_pair or not all(map(_is_text, pair)):
            raise _no_states(state)
        claim(taken, name, "state", case_sensitive)
        states.append({"name": name, "init": pair[0], "update": pair[1]})
    return states


def _no_states(state: object) -> PillarboxError:
    expected = "a dict of (initial, update) expressions by name"
    return invalid("state", expected, state, '{"n": ("0L", "n + 1")}')


def _expressions(select: object) -> list[str] | None:
    if select is None:
        return None
    if isinstance(select, (list, tuple)) and select and all(map(_is_text, select)):
        return list(select)
    raise invalid("select", "a list of SQL expressions", select, '["k", "n"]')


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _check_ttl(ttl: StateTtl | None, event_time: bool) -> None:
    if ttl is None:
        return
    if ttl.on_expire is not None:
        raise needs_other(
            "ttl.on_expire", ttl.on_expire, "in scan, which runs no Python", "Leave on_expire out."
        )
    if ttl.time_domain == "event_time" and not event_time:
        raise error("TTL_WITHOUT_WATERMARK", state="scan")
