"""The tab of the library in Spark's UI, while a job runs."""

from __future__ import annotations

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

    def cells(path: str) -> list[str]:
        with urllib.request.urlopen(spark.sparkContext.uiWebUrl + path) as answer:
            page = answer.read().decode()
        return [re.sub("<[^>]*>", "", cell).strip() for cell in re.findall("(?s)<td.*?</td>", page)]

    job = threading.Thread(target=lambda: df.write.format("noop").mode("overwrite").save())
    job.start()
    seen = []
    while job.is_alive():
        seen.append(cells("/pillarbox/operator/?id=1"))
        time.sleep(0.2)
    end = time.monotonic() + 60
    while (all_of_it := cells("/pillarbox/"))[4:5] != ["600"] and time.monotonic() < end:
        time.sleep(0.2)
    return {"meanwhile": seen, "operators": all_of_it}


@pytest.mark.whole
def test_a_running_task_shows_its_calls() -> None:
    shown = run_app(_look_while_it_runs)
    running = [row for row in shown["meanwhile"] if row and 0 < int(row[2].replace(",", "")) < 600]
    assert len({row[2] for row in running}) > 2
    assert "20" in {row[7] for row in running}  # in flight
    assert shown["operators"][0] == "look_up"
    assert shown["operators"][4:6] == ["600", "600"]
