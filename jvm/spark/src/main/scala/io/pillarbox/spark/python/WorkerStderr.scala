package io.pillarbox.spark.python

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.Files

import scala.util.control.NonFatal

import org.apache.spark.sql.pillarbox.PythonWorkers

/** The files in which workers keep the end of their stderr, so that a dead worker's last words can be shown. */
object WorkerStderr {

  /** How much of it a message shows, in bytes. */
  private val TailBytes = 4096

  /** The last bytes that the process wrote to stderr; empty if it wrote none or they can't be read. */
  def tail(pid: Long): String =
    try {
      val bytes = Files.readAllBytes(PythonWorkers.stderrFolder.resolve(s"pillarbox-stderr-$pid"))
      new String(bytes.takeRight(TailBytes), UTF_8).strip
    } catch { case NonFatal(_) => "" }
}
