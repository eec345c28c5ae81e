"""A service that answers as a test says: a fake to await, and a small HTTP server of it."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from .._base.checks import invalid
from .._base.durations import milliseconds
from .._base.unknown_options import answers_unknown

if TYPE_CHECKING:
    from ..options import Duration


@answers_unknown
class FakeService:
    """A service for tests: ``await service(request)`` answers by ``answer``, or by its script.

    The first calls do what ``script`` says, each one step, in the order in which they begin; calls
    after it get the answer. A step is

    - None: the answer;
    - a duration such as "5 seconds": the answer, so much later;
    - a whole number from 400 to 599: that HTTP status, as a ``urllib.error.HTTPError``;
    - an exception: it is raised, such as ``pb.RetryAfter("2s")``, or ``ConnectionError()`` for an
      answer that breaks off;
    - a function of the request: what it returns is the answer of this call.

    It waits with ``asyncio.sleep``, and so in virtual time in an :class:`AsyncHarness`, which takes
    it as a function too. ``serve`` answers over HTTP, for functions in workers of Spark: calls are
    counted in this process, so the object itself can't be pickled. For any thread.

    Parameters
    ----------
    answer: a value, or a function of the request that returns it; it may be ``async def``.
    latency: the time of each call: a duration, or a function of the request that returns one.
    script: the steps of the first calls; an endless iterator, such as ``itertools.cycle``, is one
        for all calls.

    Raises :class:`InvalidOption`; a bad step of an iterator raises it in its call.
    """

    def __init__(
        self,
        answer: Any = None,
        *,
        latency: Duration | Callable[[Any], Duration] | None = None,
        script: Iterable[Any] = (),
    ) -> None:
        self._answer = answer
        self._latency = latency
        if latency is not None and not callable(latency):
            milliseconds(latency, "latency")
        if isinstance(script, (str, bytes)) or not isinstance(script, Iterable):
            raise invalid("script", "a list of steps", script, "[500, None]")
        if isinstance(script, (list, tuple)):
            for step in script:
                _check_step(step)
        self._script = iter(script)
        self._lock = threading.Lock()
        self._calls: list[Any] = []
        self._in_flight = self._most = 0

    @property
    def calls(self) -> list[Any]:
        """The requests so far, in the order in which their calls began, failed ones too."""
        with self._lock:
            return list(self._calls)

    @property
    def most_in_flight(self) -> int:
        """The most calls that ran at the same time so far."""
        with self._lock:
            return self._most

    async def __call__(self, request: Any = None) -> Any:
        """Answer one call. Raises what the script says."""
        with self._served(request) as step:
            delay_s, answer = self._planned(step, request)
            if delay_s:
                await asyncio.sleep(delay_s)
            found = answer(request)
            return await found if inspect.isawaitable(found) else found

    @contextmanager
    def serve(self) -> Iterator[str]:
        """Answer over HTTP on a free port of this machine, and give the URL without a slash at its
        end; closed at the end of the ``with``.

        The request is the decoded JSON of a POST or PUT, and the path of a GET, such as
        "/price?id=3". Answers are sent as JSON, bytes as they are: ``lambda request: b"<html>"`` in
        the script is a broken answer. A :class:`RetryAfter` is the status 429 with the header
        Retry-After, an exception with a status that status, a ``ConnectionError`` an answer that
        breaks off in its middle, and any other exception the status 500.
        """
        from .served import serving

        with serving(self._answered) as url:
            yield url

    def _answered(self, request: Any, wait: Callable[[float], None]) -> Any:
        """Answer one call in a thread of the server; ``wait`` waits so many seconds."""
        with self._served(request) as step:
            delay_s, answer = self._planned(step, request)
            wait(delay_s)
            found = answer(request)
            return asyncio.run(_awaited(found)) if inspect.isawaitable(found) else found

    @contextmanager
    def _served(self, request: Any) -> Iterator[Any]:
        with self._lock:
            self._calls.append(request)
            step = next(self._script, None)
            self._in_flight += 1
            self._most = max(self._most, self._in_flight)
        try:
            yield step
        finally:
            with self._lock:
                self._in_flight -= 1

    def _planned(self, step: Any, request: Any) -> tuple[float, Callable[[Any], Any]]:
        """Return the seconds that a call takes, and what then answers it."""
        latency = self._latency(request) if callable(self._latency) else self._latency
        delay_ms = 0 if latency is None else milliseconds(latency, "latency")
        usual = self._answer if callable(self._answer) else lambda _: self._answer
        if isinstance(step, (str, timedelta)):
            return (delay_ms + milliseconds(step, "script")) / 1000, usual
        return delay_ms / 1000, usual if step is None else _answer_of(step)

    def __reduce__(self) -> str | tuple[Any, ...]:
        raise TypeError(
            "a FakeService counts calls in the process that made it: "
            "give the function the url of serve()"
        )


def _check_step(step: Any) -> None:
    if isinstance(step, (str, timedelta)):
        milliseconds(step, "script")
    elif step is not None:
        _answer_of(step)


def _answer_of(step: Any) -> Callable[[Any], Any]:
    if isinstance(step, BaseException) or (
        isinstance(step, type) and issubclass(step, BaseException)
    ):
        return lambda _: _raise(step)
    if type(step) is int and 400 <= step <= 599:
        return lambda _: _raise(_of_status(step))
    if not callable(step):
        expected = "a duration, a status from 400 to 599, an exception, a function or None"
        raise invalid("a step of script", expected, step, "500")
    called: Callable[[Any], Any] = step
    return called


def _of_status(status: int) -> Exception:
    from email.message import Message
    from http import HTTPStatus
    from urllib.error import HTTPError

    known = status in HTTPStatus.__members__.values()
    phrase = HTTPStatus(status).phrase if known else "Unknown"
    return HTTPError("http://service", status, phrase, Message(), None)


def _raise(problem: BaseException | type[BaseException]) -> Any:
    raise problem


async def _awaited(work: Any) -> Any:
    return await work
