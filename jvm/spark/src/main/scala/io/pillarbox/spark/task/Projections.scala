package io.pillarbox.spark.task

import java.util

import scala.ref.SoftReference

import org.apache.spark.sql.catalyst.expressions.{BoundReference, Expression, UnsafeProjection}
import org.apache.spark.sql.types.StructType

/**
 * The projections of a task. Spark writes and compiles the code of one anew wherever it is made, which takes
 * longer than a small task; so the tasks of a run in an executor lend each other theirs, one at a time. One
 * thread only.
 *
 * @param run names the run of a streaming query, or the action of a batch; None where nobody lends any
 */
private[pillarbox] final class Projections(run: Option[String]) {
  private var used = List.empty[(Projections.Key, UnsafeProjection)]

  /** Returns a projection of bound expressions that this task has alone until [[giveBack]]. */
  def of(expressions: Seq[Expression]): UnsafeProjection =
    run.filter(_ => expressions.forall(_.deterministic)) match {
      case None => UnsafeProjection.create(expressions)
      case Some(lending) =>
        val key = Projections.Key(lending, expressions)
        val projection = Projections.take(key).getOrElse(UnsafeProjection.create(expressions))
        used ::= key -> projection
        projection
    }

  /** Returns a projection to rows of Spark's own kind. */
  def of(schema: StructType): UnsafeProjection =
    of(schema.fields.toSeq.zipWithIndex.map { case (field, i) =>
      BoundReference(i, field.dataType, field.nullable)
    })

  /** Lends the projections to other tasks. They must not be used any more, nor the rows that they have made. */
  def giveBack(): Unit = {
    used.foreach { case (key, projection) => Projections.add(key, projection) }
    used = Nil
  }
}

private object Projections {

  /** Those of some runs; the least recently used ones go. */
  private final val Most = 64

  final case class Key(run: String, expressions: Seq[Expression])

  /** Each has a buffer of twice its largest row, which goes where memory is short. */
  private type Idle = util.ArrayDeque[SoftReference[UnsafeProjection]]

  private val idle = new util.LinkedHashMap[Key, Idle](Most, 0.75f, true) {
    override def removeEldestEntry(eldest: util.Map.Entry[Key, Idle]): Boolean = size > Most
  }

  private def take(key: Key): Option[UnsafeProjection] = synchronized {
    Option(idle.get(key)).flatMap(those =>
      Iterator.continually(those.poll()).takeWhile(_ != null).flatMap(_.get).nextOption()
    )
  }

  private def add(key: Key, projection: UnsafeProjection): Unit = synchronized {
    idle.computeIfAbsent(key, _ => new util.ArrayDeque).push(new SoftReference(projection))
  }
}
