"""A Kafka broker in KRaft mode, from the jars that ``make test-kafka`` has fetched."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from java_jars import listed_jars, tool
from ports import free_ports, listens
from spark_support import eventually

CLUSTER = "4L6g3nShT-eMCtK--X86sw"


def connector_jars() -> str:
    """Spark's source and sink, as ``spark.jars`` wants them."""
    return ",".join(listed_jars("kafkaConnector"))


@contextmanager
def broker(folder: Path) -> Iterator[str]:
    """Its address, while it runs; data and logs are in ``folder``."""
    port, controller = free_ports(2)
    settings = folder / "broker.properties"
    settings.write_text(
        f"""process.roles=broker,controller
node.id=1
controller.quorum.voters=1@localhost:{controller}
listeners=PLAINTEXT://localhost:{port},CONTROLLER://localhost:{controller}
advertised.listeners=PLAINTEXT://localhost:{port}
controller.listener.names=CONTROLLER
log.dirs={folder}/logs
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
"""
    )
    jars = ":".join(listed_jars("kafkaBroker"))
    java = [tool("java"), "-Xmx512m", "-cp", jars]
    storage = [*java, "kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(settings)]
    with (folder / "broker.log").open("w") as log:
        subprocess.run(storage, stdout=log, stderr=log, check=True)
        process = subprocess.Popen(
            [*java, "kafka.Kafka", str(settings)], stdout=log, stderr=log, cwd=folder
        )
        try:
            eventually(lambda: process.poll() is not None or listens(port), "the broker listens")
            assert process.poll() is None, (folder / "broker.log").read_text()[-3000:]
            yield f"localhost:{port}"
        finally:
            process.kill()
            process.wait()
