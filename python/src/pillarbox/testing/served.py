"""The HTTP server of a :class:`FakeService`, of the standard library alone."""

from __future__ import annotations

import json
import math
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from ..retry import RetryAfter, http_status

Answered = Callable[[Any, Callable[[float], None]], Any]


@contextmanager
def serving(answered: Answered) -> Iterator[str]:
    """Serve on a free port until the end of the ``with``, and give the URL.

    ``answered(request, wait)`` gives the answer of a request, or raises.
    """
    server = _Server(answered)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), name="fake-service")
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.end()
        thread.join()


class _Server(ThreadingHTTPServer):
    """A thread for each connection; ``end`` closes all of them and waits for their threads."""

    daemon_threads = False
    request_queue_size = 1024

    def __init__(self, answered: Answered) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answered = answered
        self.ended = threading.Event()
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()

    def end(self) -> None:
        self.ended.set()
        self.shutdown()
        with self._lock:
            for connection in self._connections:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        self.server_close()

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that has gone."""


class _Ended(Exception):
    """The server ends before the answer is due."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self._answer(self.path)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            request = json.loads(body) if body else None
        except ValueError:
            self._send(400, f"the body is no JSON: {body[:100]!r}".encode())
            return
        self._answer(request)

    do_PUT = do_POST

    def _answer(self, request: Any) -> None:
        try:
            answer = self.server.answered(request, self._wait)
            body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        except _Ended:
            self.close_connection = True
        except ConnectionError:
            self._break_off()
        except RetryAfter as busy:
            self._send(429, str(busy).encode(), {"Retry-After": str(math.ceil(busy.delay_s))})
        except Exception as problem:
            text = f"{type(problem).__name__}: {problem}"
            self._send(http_status(problem) or 500, text.encode())
        else:
            self._send(200, body)

    def _wait(self, delay_s: float) -> None:
        if self.server.ended.wait(delay_s) if delay_s else False:
            raise _Ended

    def _break_off(self) -> None:
        """Promise more bytes than are sent."""
        self._send(200, b'{"', {}, promised=100)
        self.close_connection = True

    def _send(
        self,
        status: int,
        body: bytes,
        headers: dict[str, str] | None = None,
        promised: int | None = None,
    ) -> None:
        self.send_response(status)
        kind = "application/json" if status == 200 else "text/plain; charset=utf-8"
        told = {"Content-Type": kind, "Content-Length": str(promised or len(body))}
        for name, value in {**told, **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Write no log to the test's output."""
