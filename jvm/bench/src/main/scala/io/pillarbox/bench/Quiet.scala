package io.pillarbox.bench

import java.lang.management.ManagementFactory

import com.sun.management.OperatingSystemMXBean

/**
 * Waits until the process rests, so that the compaction that filling a database left behind isn't counted as
 * anybody's access.
 */
object Quiet {
  private final val LookMillis = 500L
  private final val LimitNanos = 60L * 1000 * 1000 * 1000
  private val system = ManagementFactory.getOperatingSystemMXBean.asInstanceOf[OperatingSystemMXBean]

  /**
   * Returns once the process took less than a twentieth of a processor for half a second, at the latest after
   * a minute.
   */
  def await(): Unit = {
    val deadline = System.nanoTime() + LimitNanos
    while (System.nanoTime() < deadline && busyShare() > 0.05) ()
  }

  private def busyShare(): Double = {
    val (cpu, wall) = (system.getProcessCpuTime, System.nanoTime())
    Thread.sleep(LookMillis)
    (system.getProcessCpuTime - cpu).toDouble / (System.nanoTime() - wall)
  }
}
