package io.pillarbox.spark.state

import java.lang.management.ManagementFactory
import javax.management.ObjectName

import scala.util.control.NonFatal

import org.slf4j.LoggerFactory

/**
 * The memory that native code of this process, such as RocksDB, has from the C library. What a block cache
 * gives back and takes again, in pieces of other sizes, is kept by glibc for later: it grows to as much again
 * as the cache, and beyond the limit of a container.
 */
private[state] object NativeHeap {
  private val log = LoggerFactory.getLogger(getClass)
  private val commands = new ObjectName("com.sun.management:type=DiagnosticCommand")
  private val operation = "systemTrimNativeHeap"

  /** True where the JVM can do it: from 17.0.9 on, on Linux with glibc. */
  lazy val canTrim: Boolean =
    try
      ManagementFactory.getPlatformMBeanServer
        .getMBeanInfo(commands)
        .getOperations
        .exists(_.getName == operation)
    catch { case NonFatal(_) => false }

  /** Gives what is free to the system, by glibc's `malloc_trim`: some hundredths of a second. Any thread. */
  def trim(): Unit = if (canTrim)
    try
      log.debug(
        String.valueOf(ManagementFactory.getPlatformMBeanServer.invoke(commands, operation, null, null))
      )
    catch { case NonFatal(e) => log.warn("Could not give free native memory to the system", e) }
}
