package io.pillarbox.spark.checkpoint

import java.io.IOException
import java.net.URI
import java.util.concurrent.{CountDownLatch, TimeUnit}

import io.pillarbox.files.LocalFilesInProcess
import org.apache.hadoop.fs.Path

/**
 * The local file system under `held:`, on which a test holds one writer up while it renames its file, and
 * lets it go on later: an executor that everybody has given up.
 */
class HeldFileSystem extends LocalFilesInProcess.Raw {
  override def getUri: URI = URI.create("held:///")

  override def getScheme: String = "held"

  override def rename(from: Path, to: Path): Boolean = {
    HeldFileSystem.meet(to)
    val done = (HeldFileSystem.replaces || !exists(to)) && super.rename(from, to)
    if (done) HeldFileSystem.ends()
    done
  }

  override def delete(path: Path, recursive: Boolean): Boolean = {
    // It gives up.
    if (path.getName.endsWith(".tmp")) HeldFileSystem.ends()
    super.delete(path, recursive)
  }
}

object HeldFileSystem {
  @volatile private var wanted: Path => Boolean = _ => false
  @volatile private var holder: Thread = _
  @volatile private var held, mayGo, over = new CountDownLatch(1)

  /** What rename does where there is a file: replaces it, as those of stores do, or nothing, as others. */
  @volatile var replaces = false

  /** The first writer that renames its file to such a path is held up. */
  def hold(path: Path => Boolean): Unit = {
    holder = null
    held = new CountDownLatch(1)
    mayGo = new CountDownLatch(1)
    over = new CountDownLatch(1)
    wanted = path
  }

  def awaitHeld(): Unit = assert(held.await(60, TimeUnit.SECONDS), "nobody came")

  /** Returns when the writer has its file where it is to be, or has died on the way. */
  def letGo(): Unit = {
    mayGo.countDown()
    assert(over.await(60, TimeUnit.SECONDS), "the writer does not go on")
  }

  private def meet(to: Path): Unit = synchronized {
    if (holder == null && wanted(to)) {
      holder = Thread.currentThread
      wanted = _ => false
      true
    } else false
  } match {
    case true =>
      held.countDown()
      awaitWhateverComes()
    case false if Thread.currentThread eq holder =>
      // It has renamed once and tries again: its process dies in between.
      ends()
      throw new IOException("the process was killed")
    case false => ()
  }

  private def ends(): Unit = if (Thread.currentThread eq holder) {
    holder = null
    over.countDown()
  }

  /** Nobody reaches it, so it is not killed either. */
  private def awaitWhateverComes(): Unit =
    try mayGo.await()
    catch { case _: InterruptedException => awaitWhateverComes() }
}
