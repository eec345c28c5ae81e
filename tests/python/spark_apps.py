"""Runs whole applications with settings of their own, which one shared session can't have."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pillarbox as pb

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


def run_app(app: Callable[..., Any], *arguments: Any) -> Any:
    """What ``app(*arguments)`` returns in a driver of its own."""
    return answer_of([sys.executable, "-c", app_text(app, *arguments)], environment(SOURCES))


def app_text(app: Callable[..., Any], *arguments: Any) -> str:
    """``app`` as a script. It sees ``build``, ``pb`` and the modules above, nothing of the test."""
    return _APP.format(
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
