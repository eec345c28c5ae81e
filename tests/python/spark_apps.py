"""Runs whole applications with settings of their own, which one shared session can't have."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pillarbox as pb
from spark_support import eventually

SOURCES = str(Path(pb.__file__).parents[1])
_MARK = "ANSWER "

_APP = """
import asyncio, json, os, signal, sys
from pyspark.sql import SparkSession, functions as F
import pillarbox as pb

def build(settings):
    builder = SparkSession.builder.config("spark.ui.enabled", "false")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder

{tools}
{body}

if __name__ == "__main__":
    try:
        print({mark!r} + json.dumps({name}(*{arguments!r})), flush=True)
    finally:
        # A cluster that is not stopped starts its executors again while the driver goes down.
        session = SparkSession.getActiveSession()
        if session is not None:
            session.stop()
"""


def note(path: str, line: object) -> None:
    """Appends a line, whole, whoever else writes there."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{line}\n".encode())
    os.close(file)


def is_first(path: str) -> bool:
    """Whether nobody has asked so before."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
        return True
    except FileExistsError:
        return False


def parent_of(process: int) -> int:
    with open(f"/proc/{process}/stat") as stat:
        return int(stat.read().rsplit(")", 1)[1].split()[1])


def kill_executor() -> None:
    """The one of the worker that asks: of its parent, Spark's daemon, it is the parent."""
    os.kill(parent_of(os.getppid()), signal.SIGKILL)


# Applications see them, too.
_TOOLS = "\n\n".join(map(inspect.getsource, (note, is_first, parent_of, kill_executor)))


def run_app(app: Callable[..., Any], *arguments: Any) -> Any:
    """What ``app(*arguments)`` returns in a driver of its own."""
    return answer_of([sys.executable, "-c", app_text(app, *arguments)], environment(SOURCES))


def app_text(app: Callable[..., Any], *arguments: Any) -> str:
    """``app`` as a script. It sees ``build``, ``pb``, the modules and the functions above, nothing
    of the test."""
    return _APP.format(
        tools=_TOOLS,
        body=textwrap.dedent(inspect.getsource(app)),
        mark=_MARK,
        name=app.__name__,
        arguments=arguments,
    )


def environment(sources: str | None) -> dict[str, str]:
    """Of a driver: workers on this interpreter, and our sources on its path or not at all."""
    env = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    env.pop("PYTHONPATH", None)
    if sources is not None:
        env["PYTHONPATH"] = sources
    return env


def give(answer: Any) -> None:
    """What an application that is a file of its own ends with."""
    print(_MARK + json.dumps(answer), flush=True)


def answer_of(command: list[str], env: dict[str, str], limit_s: float = 120) -> Any:
    """Runs an application; fails with the end of its output if it gives no answer."""
    done = subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=limit_s, check=False
    )
    return answer_in(done.stdout, done.stderr)


def answer_in(output: str, errors: str) -> Any:
    """The answer in an application's output; fails with the end of both if there is none."""
    answers = [line for line in output.splitlines() if line.startswith(_MARK)]
    assert len(answers) == 1, f"{output[-2000:]}\n{errors[:3000]}\n{errors[-6000:]}"
    return json.loads(answers[0][len(_MARK) :])


class Job:
    """A driver of its own with an application, which is killed with all that it has started."""

    def __init__(self, app: Callable[..., Any], env: dict[str, str], *arguments: Any) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", app_text(app, *arguments)],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def waits(self, condition: Callable[[], bool], what: str, limit_s: float = 240) -> None:
        """For a condition, while the application runs."""
        eventually(lambda: condition() or self.process.poll() is not None, what, limit_s)
        if self.process.poll() is not None:
            self.answer()
            raise AssertionError(f"it has ended before {what}")

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()

    def answer(self, logs: Callable[[], str] = str, line: str | None = None) -> Any:
        """What the application returns, which has read a line. ``logs`` are told without one."""
        with self:
            output, errors = self.process.communicate(line, timeout=240)
        return answer_in(output, errors + logs())
