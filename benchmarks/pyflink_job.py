"""PyFlink's AsyncDataStream over the same calls. Runs in PyFlink's own environment, as a script:
``pyflink_job.py CAPACITY BUNDLE FEW.npy MANY.npy…``; prints seconds of each as a JSON list.

It imports nothing of ours: that environment has PyFlink alone.
"""

import asyncio
import json
import sys

import numpy as np
from pyflink.common import Configuration, Time, Types, WatermarkStrategy
from pyflink.datastream import AsyncDataStream, AsyncFunction, StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource

TASKS = 2


class Sleep(AsyncFunction):
    def __init__(self, path):
        self.path = path

    def open(self, context):
        self.seconds = np.load(self.path).tolist()

    async def async_invoke(self, value):
        seconds = self.seconds[value]
        await asyncio.sleep(seconds)
        return [seconds]


def run(path, capacity, bundle):
    """Net run time, in seconds, of the calls whose latencies are in `path`."""
    settings = Configuration()
    settings.set_string("python.executable", sys.executable)
    settings.set_string("python.client.executable", sys.executable)
    settings.set_integer("python.fn-execution.bundle.size", bundle)
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    env.set_parallelism(TASKS)
    # One contiguous half a reader: the assignment that everyone else has.
    source = NumberSequenceSource(0, len(np.load(path)) - 1)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "ids", Types.LONG())
    answers = AsyncDataStream.unordered_wait(
        numbers, Sleep(path), Time.seconds(120), capacity, Types.DOUBLE()
    )
    answers._j_data_stream.sinkTo(discarding_sink())
    return env.execute("calls").get_net_runtime() / 1000


def discarding_sink():
    from pyflink.java_gateway import get_gateway

    return get_gateway().jvm.org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink()


if __name__ == "__main__":
    capacity, bundle, *paths = sys.argv[1:]
    print(json.dumps([run(path, int(capacity), int(bundle)) for path in paths]))
