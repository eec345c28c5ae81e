package io.pillarbox.spark.task

import java.util.concurrent.TimeUnit

import scala.annotation.tailrec

/** Waits that an interrupt does not cut short. */
private[pillarbox] object Uninterruptibly {

  /**
   * Waits up to `limitMs` even if the thread is interrupted, as Spark does to a killed task, sometimes twice:
   * the task's resources must be released all the same. The thread is interrupted afterwards.
   *
   * @param await waits for at most so many ms; false if in vain
   */
  def within(limitMs: Long)(await: Long => Boolean): Boolean = {
    val deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(limitMs)
    var interrupted = Thread.interrupted()
    @tailrec def loop(): Boolean = {
      val outcome =
        try Some(await(TimeUnit.NANOSECONDS.toMillis(math.max(0L, deadline - System.nanoTime()))))
        catch {
          case _: InterruptedException =>
            interrupted = true
            None
        }
      outcome match {
        case Some(done) => done
        case None => loop()
      }
    }
    try loop()
    finally if (interrupted) Thread.currentThread().interrupt()
  }
}
