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
 * It holds better than throughput on a machine that others use, and it counts what a design costs on the
 * threads that the benchmark does not measure: senders, executors, wake-ups. JMH asks it after an iteration's
 * tear-down; what is not to count there goes through [[CpuTimeProfiler.leaveOut]] and is a separate result.
 */
final class CpuTimeProfiler extends InternalProfiler {
  import CpuTimeProfiler.{leftOut, system}
  private var before = 0L

  override def getDescription: String = "CPU time of the process per operation"

  override def beforeIteration(benchmark: BenchmarkParams, iteration: IterationParams): Unit = {
    leftOut = 0L
    before = system.getProcessCpuTime
  }

  override def afterIteration(
      benchmark: BenchmarkParams,
      iteration: IterationParams,
      result: IterationResult
  ): util.Collection[ScalarResult] = {
    val nanos = system.getProcessCpuTime - before
    val operations = result.getMetadata.getAllOps.toDouble
    def perOperation(of: Long) = if (operations == 0) Double.NaN else of / operations
    val cpu = new ScalarResult("cpu", perOperation(nanos - leftOut), "ns/op", AggregationPolicy.AVG)
    if (leftOut == 0) util.List.of(cpu)
    else
      util.List.of(cpu, new ScalarResult("left-out", perOperation(leftOut), "ns/op", AggregationPolicy.AVG))
  }
}

object CpuTimeProfiler {
  private val system = ManagementFactory.getOperatingSystemMXBean.asInstanceOf[OperatingSystemMXBean]
  @volatile private var leftOut = 0L

  /** The CPU time of the process while this runs is none of the benchmark's. One thread at a time. */
  def leaveOut(action: => Unit): Unit = {
    val before = system.getProcessCpuTime
    action
    leftOut += system.getProcessCpuTime - before
  }
}
