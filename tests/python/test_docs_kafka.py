"""The code of the docs that wants a Kafka broker runs, and prints what its page says.

Blocks marked ``<!-- kafka -->`` run after all others, with ``servers`` and ``checkpoint``.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from kafka_broker import broker, connector_jars

from spark_apps import SOURCES, answer_of, app_text, environment

pytestmark = pytest.mark.kafka
PAGE = Path(__file__).resolve().parents[2] / "docs/cookbook/kafka.md"
BLOCK = re.compile(
    r"<!-- (?:runnable|kafka) -->\n```python\n(.*?)^```$"
    r"(?:\s*<!-- output -->\s*```text\n(.*?)^```$)?",
    re.DOTALL | re.MULTILINE,
)


def test_the_program_of_the_cookbook_goes_from_kafka_to_kafka(tmp_path: Path) -> None:
    def app(jars, servers, checkpoint, blocks):  # type: ignore[no-untyped-def]
        import contextlib
        import io

        settings = {"spark.jars": jars, "spark.sql.shuffle.partitions": "2"}
        builder = build(settings)  # type: ignore[name-defined] # noqa: F821
        import pillarbox as pb

        spark = pb.configure(builder.master("local[2]")).getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        names = {
            "__name__": "__main__",
            "spark": spark,
            "servers": servers,
            "checkpoint": checkpoint,
        }
        printed = []
        for block in blocks:
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(block, names)
            printed.append(out.getvalue())
        return printed

    blocks, said = zip(*BLOCK.findall(PAGE.read_text("utf-8")), strict=True)
    assert len(blocks) == 3
    with broker(tmp_path) as address:
        command = app_text(app, connector_jars(), address, str(tmp_path / "checkpoint"), blocks)
        printed = answer_of([sys.executable, "-c", command], environment(SOURCES), 240)
    assert [text.strip() for text in printed] == [text.strip() for text in said]
