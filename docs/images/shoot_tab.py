"""Takes the picture of the tab in Spark's UI: ``python docs/images/shoot_tab.py`` writes tab.png.

It needs the jar, and Chromium on the PATH.
"""

from __future__ import annotations

import asyncio
import random
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import pillarbox as pb

CHROMIUM = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
CHROMIUM += ["--no-first-run", "--disable-background-networking", "--disable-component-update"]
CHROMIUM += ["--disable-sync", "--window-size=1760,640"]


async def price(row: Any) -> float:
    await asyncio.sleep(random.lognormvariate(-2, 0.5))
    if row.value % 97 == 0:
        raise ConnectionError("the service is gone")
    return float(row.value)


class Spent(pb.KeyedProcessFunction):
    def open(self, ctx: pb.OpenContext) -> None:
        self.total = ctx.value_state("total", "double", ttl="1 hour")

    def process(self, row: Any, ctx: pb.Context) -> Any:
        if self.total.value() is None:
            ctx.timers.register_processing_time(int(time.time() * 1000) + 600_000)
        self.total.update((self.total.value() or 0.0) + (row.price or 0.0))
        yield row.account, self.total.value()

    def on_timer(self, timestamp: int, ctx: pb.Context) -> Any:
        self.total.clear()


def main() -> None:
    builder = SparkSession.builder.master("local[4]").appName("orders")
    settings = {"spark.executor.heartbeatInterval": "1s", "spark.sql.shuffle.partitions": "4"}
    spark = pb.configure(builder.config(map=settings)).getOrCreate()
    orders = spark.readStream.format("rate").option("rowsPerSecond", 400).load()
    priced = pb.async_io(
        orders, price, returns="price double", retry=2, timeout="5s", on_error="null"
    ).selectExpr("*", "IF(value % 3 = 0, 7, value % 500) AS account")
    spent = pb.process_keyed(priced, Spent(), by="account", returns="account bigint, spent double")
    with tempfile.TemporaryDirectory() as folder:
        writer = spent.writeStream.format("noop").option("checkpointLocation", folder)
        query = writer.start()
        backfill = spark.range(0, 20_000, 1, 8).withColumnRenamed("id", "value")
        pb.async_io(
            backfill, price, returns="price double", on_error="null", name="backfill"
        ).limit(3).collect()
        time.sleep(45)
        picture = Path(__file__).with_name("tab.png")
        address = f"{spark.sparkContext.uiWebUrl}/pillarbox/"
        profile = f"--user-data-dir={folder}/chromium"
        subprocess.run([*CHROMIUM, profile, f"--screenshot={picture}", address], check=True)
        query.stop()


if __name__ == "__main__":
    main()
