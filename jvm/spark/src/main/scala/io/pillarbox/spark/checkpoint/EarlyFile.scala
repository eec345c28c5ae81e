package io.pillarbox.spark.checkpoint

import java.io.{ByteArrayOutputStream, OutputStream}
import java.util.concurrent._

import org.apache.spark.sql.pillarbox.Spark41.CheckpointFileManager.CancellableFSDataOutputStream

/**
 * A file that another thread creates meanwhile: what is written before waits in memory, up to a limit. For one
 * thread.
 *
 * @param create
 *   runs at once, on another thread
 */
private final class EarlyFile(create: () => CancellableFSDataOutputStream) extends OutputStream {
  private val created: Future[CancellableFSDataOutputStream] = EarlyFile.threads.submit(() => create())
  private var waiting = new ByteArrayOutputStream
  private var file: CancellableFSDataOutputStream = _

  override def write(byte: Int): Unit = target.write(byte)

  override def write(bytes: Array[Byte], from: Int, length: Int): Unit = target.write(bytes, from, length)

  override def flush(): Unit = (opened: OutputStream).flush()

  private def target: OutputStream =
    if (file == null && !created.isDone && waiting.size <= EarlyFile.MostWaiting) waiting else opened

  /** Gives the file its name, and returns its bytes. */
  def finish(): Long = {
    val size = opened.getPos
    file.close()
    size
  }

  /** Leaves no file behind; does nothing where none could be created, or it has its name. */
  def cancel(): Unit =
    try created.get().cancel()
    catch {
      case _: ExecutionException => ()
      // The task was killed, and waits for nothing any more.
      case _: InterruptedException =>
        EarlyFile.threads.execute(() => created.get().cancel())
        Thread.currentThread.interrupt()
    }

  private def opened: CancellableFSDataOutputStream = {
    if (file == null) {
      file =
        try created.get()
        catch { case failed: ExecutionException => throw failed.getCause }
      waiting.writeTo(file)
      waiting = null
    }
    file
  }
}

private object EarlyFile {
  private final val MostWaiting = 1 << 20

  private val factory: ThreadFactory = { action =>
    val thread = new Thread(action, "pillarbox checkpoint")
    thread.setDaemon(true)
    thread
  }

  /** As many as files are created at a time: those of the tasks of this executor. */
  private lazy val threads = Executors.newCachedThreadPool(factory)
}
