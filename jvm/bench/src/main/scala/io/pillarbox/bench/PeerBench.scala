package io.pillarbox.bench

import java.util.concurrent.TimeUnit

import org.openjdk.jmh.annotations._

/**
 * What all benchmarks share that measure Flink and us in one run. JMH takes annotations and parameters from
 * super classes.
 */
@State(Scope.Thread)
@BenchmarkMode(Array(Mode.AverageTime))
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Fork(value = 2, jvmArgsAppend = Array("-Xmx3g"))
@Warmup(iterations = 5, time = 1)
@Measurement(iterations = 5, time = 1)
abstract class PeerBench {

  @Param(Array("flink", "pillarbox"))
  var of: String = _
}
