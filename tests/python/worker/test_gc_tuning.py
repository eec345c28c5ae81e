"""What the garbage collector visits in a worker, where Spark's daemon runs it behind each task."""

from __future__ import annotations

import gc
import sys
import types
import weakref

from pillarbox._worker.gc_tuning import collect_frozen

MANY = 100_000


def test_a_collection_behind_a_task_visits_no_modules_that_tasks_before_have_imported(process):
    def visited(row):
        if row.x == 0:
            sys.modules["large"] = types.ModuleType("large")
            sys.modules["large"].objects = [[] for _ in range(MANY)]
        return len(gc.get_objects())

    process.start(visited)
    process.call(0)
    ((during,),) = process.collect(1)[0]
    assert during > MANY
    assert process.end()
    process.start(visited)
    process.call(1, ids=[0])
    ((after,),) = process.collect(1)[0]
    assert after < MANY // 10
    assert process.end()


def test_garbage_that_was_frozen_is_collected_with_the_functions_that_are_dropped():
    class Cycle:
        pass

    one = Cycle()
    one.itself = one
    dropped = weakref.ref(one)
    gc.freeze()
    try:
        del one
        gc.collect()
        assert dropped() is not None
        collect_frozen()
        assert dropped() is None
    finally:
        gc.unfreeze()
