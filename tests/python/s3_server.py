"""S3 by moto, on loopback: ``python s3_server.py PORT BUCKET``.

``GET /--fail/N`` has it answer N of 100 requests by 503, half of them after it has done what was
asked; ``/--failed`` tells how many those were, and ``/--requests`` all by their kind.
"""

from __future__ import annotations

import logging
import random
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import boto3
from moto import mock_aws
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple

BUSY = b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>by chance</Message></Error>"


class Unsteady:
    """The store behind a client that fails at random."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.lock = threading.Lock()
        self.random = random.Random(7)
        self.percent = 0
        self.seen: Counter[str] = Counter()

    def __call__(self, environ: dict[str, Any], respond: Callable[..., Any]) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path.startswith("/--"):
            return self.told(path[3:], respond)
        with self.lock:
            self.seen[kind_of(environ)] += 1
            fails = self.random.randrange(100) < self.percent
            done = self.random.random() < 0.5
            self.seen["failed"] += fails
        if fails and done:
            self.drain(environ)
        if fails:
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0) if not done else 0)
            respond("503 Slow Down", [("Content-Type", "application/xml")])
            return [BUSY]
        answer: Iterable[bytes] = self.store(environ, respond)
        return answer

    def drain(self, environ: dict[str, Any]) -> None:
        """Does what was asked, and nobody is told."""
        for _ in self.store(environ, lambda *_: lambda _: None):
            pass

    def told(self, what: str, respond: Callable[..., Any]) -> Iterable[bytes]:
        with self.lock:
            text = ""
            if what.startswith("fail/"):
                self.percent = int(what.rsplit("/", 1)[1])
            elif what == "failed":
                text = str(self.seen["failed"])
            else:
                text = "".join(f"{kind} {count}\n" for kind, count in self.seen.items())
        respond("200 OK", [("Content-Type", "text/plain")])
        return [text.encode()]


def kind_of(environ: dict[str, Any]) -> str:
    method = str(environ["REQUEST_METHOD"])
    if method == "PUT" and "HTTP_X_AMZ_COPY_SOURCE" in environ:
        return "COPY"
    if method == "GET" and "list-type=2" in environ["QUERY_STRING"]:
        return "LIST"
    return method


def main() -> None:
    port, bucket = int(sys.argv[1]), sys.argv[2]
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    with mock_aws():
        boto3.client(
            "s3", region_name="us-east-1", aws_access_key_id="none", aws_secret_access_key="none"
        ).create_bucket(Bucket=bucket)
        store = DomainDispatcherApplication(create_backend_app)
        run_simple("localhost", port, Unsteady(store), threaded=True)


if __name__ == "__main__":
    main()
