"""The tab of the library in Spark's UI, while a job runs."""

from __future__ import annotations

import re
import shutil
from typing import Any

import pytest

from spark_apps import run_app


def _look_while_it_runs() -> "Any":  # noqa: UP037
    import re
    import threading
    import time
    import urllib.request

    async def slow(row: "Any") -> int:  # noqa: UP037
        await asyncio.sleep(0.5)  # type: ignore[name-defined]  # noqa: F821
        return int(row.id)

    settings = {
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.executor.heartbeatInterval": "500ms",
        "spark.master": "local[1]",
    }
    spark = pb.configure(build(settings)).getOrCreate()  # type: ignore[name-defined]  # noqa: F821
    df = pb.async_io(  # type: ignore[name-defined]  # noqa: F821
        spark.range(0, 600, 1, 1), slow, returns="x bigint", name="look_up", capacity=20
    )

    def page_of(path: str) -> str:
        with urllib.request.urlopen(spark.sparkContext.uiWebUrl + path) as answer:
            return str(answer.read().decode())

    def lines(path: str) -> list[dict[str, str]]:
        """The rows of the only table, by the titles of its columns."""
        page = page_of(path)

        def cells(tag: str) -> list[str]:
            found = re.findall(f"(?s)<{tag}[ >].*?</{tag}>", page)
            return [re.sub("<[^>]*>", "", cell).strip() for cell in found]

        titles, values = cells("th"), cells("td")
        starts = range(0, len(values), max(len(titles), 1))
        return [dict(zip(titles, values[at:], strict=False)) for at in starts]

    job = threading.Thread(target=lambda: df.write.format("noop").mode("overwrite").save())
    job.start()
    seen = []
    while job.is_alive():
        seen += lines("/pillarbox/operator/?id=1")
        time.sleep(0.2)
    end = time.monotonic() + 60
    while (line := lines("/pillarbox/")[0])["Rows out"] != "600" and time.monotonic() < end:
        time.sleep(0.2)

    class Ask(pb.AsyncKeyedProcessFunction):  # type: ignore[name-defined]  # noqa: F821
        async def process(self, row, ctx):  # type: ignore[no-untyped-def]
            await asyncio.sleep(0.022)  # type: ignore[name-defined]  # noqa: F821
            return row.id

    asked = pb.process_keyed_async(  # type: ignore[name-defined]  # noqa: F821
        spark.range(40), Ask(), by="id", returns="id bigint", name="ask"
    )
    assert asked.count() == 40
    page = ""
    while not (tables := re.split("(?=<h4>)", page))[2:] and time.monotonic() < end + 60:
        time.sleep(0.2)
        page = page_of("/pillarbox/")
    return {"meanwhile": seen, "operator": line, "keyed": tables[-1]}


@pytest.mark.nightly
def test_a_running_task_shows_its_calls() -> None:
    shown = run_app(_look_while_it_runs)
    running = [row for row in shown["meanwhile"] if 0 < int(row["Calls"]) < 600]
    assert len({row["Calls"] for row in running}) > 2
    assert "20" in {row["In flight"] for row in running}
    operator = shown["operator"]
    assert [operator[title] for title in ("Operator", "Rows out", "Calls")] == [
        "look_up",
        "600",
        "600",
    ]
    assert re.search("p50 [0-9.]+ .?s, p99 ", operator["Latency, last 5 min"])
    # Those of the calls of a keyed function are told by its worker.
    assert "Keyed functions" in shown["keyed"]
    assert "p50 2" in shown["keyed"]


def _browse_a_running_query() -> "Any":  # noqa: UP037
    import html
    import re
    import subprocess
    import tempfile
    import time

    class Count(pb.KeyedProcessFunction):  # type: ignore[name-defined]  # noqa: F821
        def open(self, ctx):  # type: ignore[no-untyped-def]
            self.n = ctx.value_state("n", "bigint")

        def process(self, row, ctx):  # type: ignore[no-untyped-def]
            self.n.update((self.n.value() or 0) + 1)
            yield row.k, self.n.value()

    async def look_up(row):  # type: ignore[no-untyped-def]
        await asyncio.sleep(0.05)  # type: ignore[name-defined]  # noqa: F821
        return row.value % 3

    settings = {
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.executor.heartbeatInterval": "500ms",
        "spark.sql.shuffle.partitions": "2",
    }
    spark = pb.configure(build(settings)).getOrCreate()  # type: ignore[name-defined]  # noqa: F821
    rates = spark.readStream.format("rate").option("rowsPerSecond", 20).load()
    keyed = pb.process_keyed(  # type: ignore[name-defined]  # noqa: F821
        pb.async_io(rates, look_up, returns="k bigint", name="look_up"),  # type: ignore[name-defined]  # noqa: F821
        Count(), by="k", returns="k bigint, n bigint", name="count",
    )  # fmt: skip
    folder = tempfile.mkdtemp()
    query = keyed.writeStream.format("noop").option("checkpointLocation", folder).start()

    def page(path: str) -> str:
        """What a browser shows once the page's scripts have run."""
        command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
        command += ["--no-first-run", "--disable-background-networking", "--disable-sync"]
        command += ["--disable-component-update", f"--user-data-dir={tempfile.mkdtemp()}"]
        address = spark.sparkContext.uiWebUrl + path
        shown = subprocess.run([*command, address], capture_output=True, text=True, timeout=60)
        return shown.stdout

    def cells(shown: str, tag: str) -> list[str]:
        found = re.findall(f"(?s)<{tag}[ >].*?</{tag}>", shown)
        return [html.unescape(re.sub("<[^>]*>", "", cell)).strip() for cell in found]

    end = time.monotonic() + 80
    tab = ""
    names = {"count", "look_up"}
    while not (names <= set(cells(tab, "a")) and "Hottest key" in tab) and time.monotonic() < end:
        time.sleep(1)
        tab = page("/pillarbox/")
    links = re.findall('href="[^"]*(/pillarbox/operator/[^"]*)"', tab)
    partitions = page(html.unescape(links[0])) if links else ""
    query.stop()
    return {
        "titles": cells(tab, "h4"),
        "columns": cells(tab, "th"),
        "cells": cells(tab, "td"),
        "links": re.findall('href="([^"]*)"', tab),
        "bars": tab.count("<rect"),
        "of a partition": cells(partitions, "th"),
    }


@pytest.mark.nightly
@pytest.mark.skipif(not shutil.which("chromium"), reason="there is no chromium on the PATH")
def test_a_browser_shows_the_tab_of_a_running_query() -> None:
    shown = run_app(_browse_a_running_query)
    assert shown["titles"] == ["Calls", "Keyed functions"]
    assert {"Calls", "In flight", "Waiting", "Oldest call (ms)"} <= set(shown["columns"])
    assert {"Latency, last 5 min", "Timers waiting", "Hottest key"} <= set(shown["columns"])
    assert {"look_up", "count"} <= set(shown["cells"])
    # Three keys of equal weight; the first report may have a few rows only.
    assert any(re.fullmatch(r"[012], about \d+ %", cell) for cell in shown["cells"])
    assert shown["bars"] > 0
    assert any("/StreamingQuery/statistics/?id=" in link for link in shown["links"])
    assert shown["of a partition"][0] == "Partition"
