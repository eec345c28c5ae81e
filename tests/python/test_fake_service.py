"""The fake service: what it answers when, what it counts, and its HTTP server."""

import asyncio
import http.client
import itertools
import json
import pickle
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import aiohttp
import pytest
from virtual_clock import run_virtually

import pillarbox as pb
from pillarbox.testing import FakeService


async def outcomes(service, requests):
    """Each call's answer, or the exception, one call after the other."""
    found = []
    for request in requests:
        try:
            found.append(await service(request))
        except Exception as problem:
            found.append(problem)
    return found


def get(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)


def test_it_answers_with_a_value_or_what_a_function_says_of_the_request():
    assert run_virtually(FakeService({"price": 3})()) == {"price": 3}
    assert run_virtually(FakeService(lambda n: n * 2)(4)) == 8

    async def slowly(n):
        await asyncio.sleep(1)
        return n + 1

    service = FakeService(slowly)
    assert run_virtually(service(4)) == 5
    assert service.calls == [4]


def test_latency_goes_by_the_clock_of_the_loop():
    async def ended():
        service = FakeService(1, latency=lambda n: f"{n} seconds", script=[None, "1 minute"])
        await service(3)
        await service(7)
        return asyncio.get_running_loop().time()

    assert run_virtually(ended()) == pytest.approx(70)


def test_the_script_is_played_once_a_call_and_then_come_answers():
    script = [None, 503, pb.RetryAfter("2s"), ConnectionError, lambda n: [n, "wrong"]]
    service = FakeService("good", script=script)
    first, status, busy, broken, wrong, last = run_virtually(outcomes(service, range(6)))
    assert (first, wrong, last) == ("good", [4, "wrong"], "good")
    assert (status.status, pb.transient(status)) == (503, True)
    assert busy.delay_s == 2
    assert type(broken) is ConnectionError
    assert service.calls == [*range(6)]


def test_an_endless_script_is_played_for_all_calls():
    service = FakeService(1, script=itertools.cycle([None, 404]))
    found = run_virtually(outcomes(service, range(4)))
    assert [one if one == 1 else one.status for one in found] == [1, 404, 1, 404]
    assert not pb.transient(found[1])


def test_a_call_whose_script_fails_is_over():
    def script():
        yield None
        raise ZeroDivisionError

    service = FakeService(1, script=script())
    found = run_virtually(outcomes(service, range(3)))
    assert [type(one) for one in found] == [int, ZeroDivisionError, int]
    assert (service.calls, service.most_in_flight) == ([0, 1, 2], 1)


def test_calls_at_the_same_time_are_counted_also_when_they_are_cancelled():
    async def calls():
        service = FakeService(1, latency="1 second")
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.gather(*map(service, range(5))), 0.5)
        await asyncio.gather(service(5), service(6))
        return service

    service = run_virtually(calls())
    assert service.most_in_flight == 5
    assert service.calls == [*range(7)]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"latency": 5}, "latency"),
        ({"script": "500"}, "script"),
        ({"script": 500}, "script"),
        ({"delay": "1s"}, r"pb\.testing\.FakeService has no option delay"),
    ],
)
def test_bad_options_are_refused(options, named):
    with pytest.raises(pb.InvalidOption, match=named):
        FakeService(1, **options)


@pytest.mark.parametrize("step", [200, 3.5, True, {"price": 1}])
def test_a_step_that_says_nothing_is_refused(step):
    with pytest.raises(pb.InvalidOption, match="a step of script"):
        FakeService(1, script=[None, step])
    with pytest.raises(pb.InvalidOption, match="a step of script"):
        run_virtually(FakeService(1, script=iter([step]))())


def test_it_is_not_sent_to_workers_where_its_calls_would_be_lost():
    with pytest.raises(TypeError, match=r"the url of serve\(\)"):
        pickle.dumps(FakeService(1))


def test_its_server_answers_with_json_and_counts_the_calls():
    service = FakeService(lambda request: {"asked": request})
    with service.serve() as url:
        assert get(f"{url}/price?id=3") == {"asked": "/price?id=3"}
        posted = urllib.request.Request(url, json.dumps({"id": 4}).encode())
        assert get(posted) == {"asked": {"id": 4}}
    assert service.calls == ["/price?id=3", {"id": 4}]
    with pytest.raises(urllib.error.URLError):
        get(url)


def test_its_server_answers_with_what_can_go_wrong():
    script = [pb.RetryAfter("1500 ms"), 500, 404, lambda _: b"<html>", ConnectionError, KeyError]
    service = FakeService(1, script=script)

    async def asked():
        found = []
        async with aiohttp.ClientSession() as http:
            for _ in range(7):
                async with http.get(url) as answer:
                    try:
                        body = await answer.text()
                    except aiohttp.ClientPayloadError:
                        body = "broken off"
                    found.append((answer.status, answer.headers.get("Retry-After"), body))
        return found

    with service.serve() as url:
        busy, *others = asyncio.run(asked())
    assert busy[:2] == (429, "2")
    assert [(status, body) for status, _, body in others] == [
        (500, "HTTPError: HTTP Error 500: Internal Server Error"),
        (404, "HTTPError: HTTP Error 404: Not Found"),
        (200, "<html>"),
        (200, "broken off"),
        (500, "KeyError: "),
        (200, "1"),
    ]


def test_its_server_answers_many_at_a_time_and_late_where_it_shall():
    together = threading.Barrier(4)

    async def answer(request):
        together.wait(10)
        return request

    service = FakeService(answer, latency="20 ms")
    with service.serve() as url, ThreadPoolExecutor(4) as threads:
        begun = time.monotonic()
        assert list(threads.map(get, [f"{url}/{n}" for n in range(4)])) == ["/0", "/1", "/2", "/3"]
        assert time.monotonic() - begun >= 0.02
    assert service.most_in_flight == 4


def test_closing_the_server_ends_calls_that_would_take_hours():
    asked = threading.Event()

    def hours(_):
        asked.set()
        return "5 hours"

    with ThreadPoolExecutor(1) as thread, FakeService(1, latency=hours).serve() as url:
        waiting = thread.submit(get, url)
        assert asked.wait(10)
    with pytest.raises(http.client.RemoteDisconnected):
        waiting.result(10)


def test_a_body_that_is_no_json_is_the_callers_mistake_and_no_call():
    service = FakeService(1)
    with service.serve() as url, pytest.raises(urllib.error.HTTPError, match="400") as raised:
        urllib.request.urlopen(url, b"{", timeout=10)
    raised.value.close()  # it holds the socket
    assert service.calls == []
