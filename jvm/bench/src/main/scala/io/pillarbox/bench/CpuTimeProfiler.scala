package io.pillarbox.bench

import java.lang.management.ManagementFactory
import java.util

import com.sun.management.OperatingSystemMXBean
import org.openjdk.jmh.infra.{BenchmarkParams, IterationParams}
import org.openjdk.jmh.profile.InternalProfiler
import org.openjdk.jmh.results.{AggregationPolicy, IterationResult, ScalarResult}

/**
 * Reports the CPU time of the whole process, all its threads included, in nanoseconds per operation.
 *
 * It holds better than throughput on a machine that others use, and it counts what a design costs on the threads that
 * the benchmark does not measure: senders, executors, wake-ups.
 */
final class CpuTimeProfiler extends InternalProfiler {
  private[this] val system =
    ManagementFactory.getOperatingSystemMXBean.asInstanceOf[OperatingSystemMXBean]
  private[this] var before = 0L

  override def getDescription: String = "CPU time of the process per operation"

  override def beforeIteration(benchmark: BenchmarkParams, iteration: IterationParams): Unit =
    before = system.getProcessCpuTime

  override def afterIteration(
      benchmark: BenchmarkParams,
      iteration: IterationParams,
      result: IterationResult
  ): util.Collection[ScalarResult] = {
    val nanos = (system.getProcessCpuTime - before).toDouble
    val operations = result.getMetadata.getAllOps.toDouble
    val perOperation = if (operations == 0) Double.NaN else nanos / operations
    util.List.of(new ScalarResult("cpu", perOperation, "ns/op", AggregationPolicy.AVG))
  }
}
