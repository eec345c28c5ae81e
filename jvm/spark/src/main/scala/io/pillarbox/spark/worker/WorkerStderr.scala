package io.pillarbox.spark.worker

import java.nio.ByteBuffer
import java.nio.channels.FileChannel
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path, StandardOpenOption}

import scala.util.Using
import scala.util.control.NonFatal

import org.apache.spark.sql.pillarbox.PythonWorkers

/**
 * The files in which workers keep the end of their stderr, so that a message can show it after their death.
 *
 * A worker that ends by itself removes its file; for one that was killed `remove` does.
 */
private[pillarbox] object WorkerStderr {

  /** The bytes of it that a message shows. */
  private[worker] val TailBytes = 16384

  /** Returns the end of the process's stderr; empty if there is none or it can't be read. Any thread. */
  def tail(pid: Long): String =
    try tailOf(file(pid))
    catch { case NonFatal(_) => "" }

  private[worker] def tailOf(file: Path): String =
    Using.resource(FileChannel.open(file, StandardOpenOption.READ)) { channel =>
      val bytes = ByteBuffer.allocate(TailBytes)
      channel.position(math.max(0L, channel.size - TailBytes))
      while (bytes.hasRemaining && channel.read(bytes) >= 0) {}
      UTF_8.decode(bytes.flip()).toString.strip
    }

  /** Removes the file of a process that is gone, or about to be. */
  def remove(pid: Long): Unit =
    try {
      Files.deleteIfExists(file(pid))
      ()
    } catch { case NonFatal(_) => () }

  private def file(pid: Long): Path = PythonWorkers.stderrFolder.resolve(s"pillarbox-stderr-$pid")
}
