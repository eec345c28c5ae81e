"""The running count and sum in PyFlink. Runs in PyFlink's own environment, as a script:
``pyflink_job.py MODE BACKEND KEYS ROWS…`` prints the net run time in seconds for each of ROWS, as a
JSON list.

It imports nothing of ours: that environment has PyFlink alone.
"""

import json
import sys

from pyflink.common import Configuration, Types, WatermarkStrategy
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.datastream.state import ValueStateDescriptor

TASKS = 2
SCATTER = 2654435761  # Knuth's multiplicative hash: keys come in no order


class RunningCount(KeyedProcessFunction):
    def open(self, runtime_context):
        counts = Types.TUPLE([Types.LONG(), Types.LONG()])
        self.state = runtime_context.get_state(ValueStateDescriptor("count", counts))

    def process_element(self, value, ctx):
        n, total = self.state.value() or (0, 0)
        n, total = n + 1, total + value % 1000
        self.state.update((n, total))
        yield ctx.get_current_key(), n, total


def run(mode, backend, keys, rows):
    settings = Configuration()
    settings.set_string("python.executable", sys.executable)
    settings.set_string("python.client.executable", sys.executable)
    settings.set_string("python.execution-mode", mode)
    settings.set_string("state.backend.type", backend)
    settings.set_integer("python.fn-execution.bundle.size", 100_000)
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    env.set_parallelism(TASKS)
    source = NumberSequenceSource(0, rows - 1)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
    counts = numbers.key_by(lambda i: i * SCATTER % keys, Types.LONG()).process(
        RunningCount(), Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG()])
    )
    counts._j_data_stream.sinkTo(discarding_sink())
    return env.execute("counts").get_net_runtime() / 1000


def discarding_sink():
    from pyflink.java_gateway import get_gateway

    return get_gateway().jvm.org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink()


if __name__ == "__main__":
    mode, backend, keys, *sizes = sys.argv[1:]
    print(json.dumps([run(mode, backend, int(keys), int(rows)) for rows in sizes]))
