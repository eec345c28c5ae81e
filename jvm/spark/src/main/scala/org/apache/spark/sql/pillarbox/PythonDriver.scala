package org.apache.spark.sql.pillarbox

import java.util.concurrent.CompletableFuture

import scala.util.control.NonFatal

import net.razorvine.pickle.Pickler
import org.apache.spark.api.python.PythonAccumulatorV2
import org.slf4j.LoggerFactory

/**
 * The Python process of a classic session's driver. It can be told something at any time by its server of
 * accumulators, to which Spark itself sends updates when a task has ended. Written for Spark 4.2.
 */
object PythonDriver {
  private val log = LoggerFactory.getLogger(getClass)

  @volatile private var listens = Option.empty[(PythonAccumulatorV2, Long)]

  /**
   * From now on `say` adds to the accumulator of this number.
   *
   * @param server PySpark's `_javaAccumulator`
   */
  def listen(server: AnyRef, accumulator: Long): Unit = server match {
    case python: PythonAccumulatorV2 => listens = Some(python -> accumulator)
    case _ => ()
  }

  private var said: CompletableFuture[Void] = CompletableFuture.completedFuture(null)

  /** Adds a text, without waiting, behind all earlier ones, if anybody listens. Any thread. */
  def say(text: String): Unit = synchronized(listens.foreach { case (server, accumulator) =>
    said = said.thenRunAsync { () =>
      try {
        val update = server.copyAndReset()
        update.add(new Pickler().dumps(Array[Any](accumulator, java.util.List.of(text))))
        server.merge(update)
      } catch { case NonFatal(e) => log.debug("Python was not told", e) }
    }
  })
}
