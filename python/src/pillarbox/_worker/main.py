"""Serves one task: Spark's preamble, INIT, then a session."""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import Any, BinaryIO

from pyspark.errors import PySparkRuntimeError
from pyspark.taskcontext import TaskContext
from pyspark.worker_util import (
    check_python_version,
    setup_broadcasts,
    setup_memory_limits,
    setup_spark_files,
)

from .._async.call_context import CallContext
from .._async.column_command import ColumnCommand
from .._base.failures import message_of
from .._base.report import Reported
from .._base.spark_versions import set_task_context
from .._base.values import Values, use
from ..errors import error
from . import accumulators, stderr
from .channel import Channel
from .frames import Init, read_init
from .gc_tuning import collect_less_often, freeze_imports
from .keyed_calls import JvmCalls
from .keyed_functions import OpenedFunction
from .lru_cache import FunctionKey
from .process import WorkerProcess, current
from .session import Session, run_watched, send_fatal

# A thousand calls in flight have about as many objects. With a lower threshold the garbage
# collector takes a third of the time; with a higher one, errors in cycles could fill the memory.
_YOUNG_OBJECTS = 10_000


def main(infile: BinaryIO, outfile: BinaryIO) -> None:
    """Serve one task. Raises SystemExit(-1) unless the worker may serve another one.

    Spark ends an idle worker by closing ``infile`` where a task would begin.
    """
    stderr.capture()
    process = current()
    process.handle_signals()
    channel = Channel(infile.fileno(), process.loop)
    try:
        clean = _serve(infile, process, channel)
    except (EOFError, Reported):  # the JVM has gone, or fails the task and logs why
        clean = False
    except BaseException as problem:
        print(f"Pillarbox worker: {message_of(problem)}", file=sys.stderr, flush=True)
        clean = False
    finally:
        process.leave_if_told()
        TaskContext._setTaskContext(None)  # type: ignore[arg-type]
        channel.close()
    if not clean or not os.environ.get("SPARK_REUSE_WORKER"):
        process.close()
    if not clean:
        sys.exit(-1)
    freeze_imports()


def _serve(infile: BinaryIO, process: WorkerProcess, channel: Channel) -> bool:
    try:
        _read_preamble(infile)
        init = read_init(infile)
        use(Values(**init.spec["values"]))
        accumulators.begin_task()
        _set_task_context(init.spec["task"])
        if init.spec.get("kind") == "keyed":
            return _serve_keyed(infile, process, channel, init)
        return _serve_calls(process, channel, init)
    except (EOFError, Reported):
        raise
    except BaseException as problem:
        raise send_fatal(channel, problem) from problem


def _serve_calls(process: WorkerProcess, channel: Channel, init: Init) -> bool:
    key = FunctionKey.of(init.command)
    command = process.command(key, init.command)
    if isinstance(command, ColumnCommand):
        command = command.for_task(init.spec)
    session = Session(process.loop, channel, init, command)

    async def open_resource() -> tuple[Any, CallContext]:
        opened = None, CallContext()
        if command.resource is not None:
            opened = await process.resource(key, len(init.command), command.resource)
        await process.make_room()
        collect_less_often(_YOUNG_OBJECTS)
        return opened

    return session.run(open_resource)


def _serve_keyed(infile: BinaryIO, process: WorkerProcess, channel: Channel, init: Init) -> bool:
    from . import keyed_session

    key = FunctionKey.of(init.command)

    def open_function(made: JvmCalls) -> OpenedFunction:
        opened = process.function(key, init)
        calls = opened.command.calls
        if calls is not None:
            run = partial(run_watched, process.loop, channel, init.spec["blocked_loop_ms"])
            resource: tuple[Any, CallContext | None] = None, None
            if calls.options.resource is not None:
                opening = process.resource(key, len(init.command), calls.options.resource)
                resource = run(opening)
            opened.begin_task(run, *resource, made.make)
        if process.needs_room():
            process.loop.run_until_complete(process.make_room())
        return opened

    return keyed_session.serve(infile, channel, init, open_function)


def _read_preamble(infile: BinaryIO) -> None:
    setup_memory_limits(int(os.environ.get("PYSPARK_EXECUTOR_MEMORY_MB", "-1")))
    try:
        check_python_version(infile)
    except PySparkRuntimeError as problem:
        raise error("PYTHON_VERSION_MISMATCH", reason=message_of(problem)) from None
    setup_spark_files(infile)
    setup_broadcasts(infile)


def _set_task_context(task: dict[str, Any]) -> None:
    set_task_context(
        stageId=task["stage"],
        partitionId=task["partition"],
        attemptNumber=task["attempt"],
        taskAttemptId=task["task_attempt_id"],
        localProperties={},
    )
