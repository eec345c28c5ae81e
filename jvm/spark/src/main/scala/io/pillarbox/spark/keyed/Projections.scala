package io.pillarbox.spark.keyed

import java.util
import java.util.UUID

import org.apache.spark.sql.catalyst.expressions.{BoundReference, Expression, UnsafeProjection}
import org.apache.spark.sql.types.StructType

/**
 * The projections of a task. Spark writes and compiles the code of one anew wherever it is made, which takes
 * longer than a small task; so the tasks of a query in an executor lend each other theirs, one at a time. The
 * task's thread only.
 *
 * @param query the run of the query; None where nobody lends any
 */
private[keyed] final class Projections(query: Option[UUID]) {
  private var used = List.empty[(Projections.Key, UnsafeProjection)]

  /** Returns a projection of bound expressions that this task has alone until [[giveBack]]. */
  def of(expressions: Seq[Expression]): UnsafeProjection =
    query.filter(_ => expressions.forall(_.deterministic)) match {
      case None => UnsafeProjection.create(expressions)
      case Some(run) =>
        val key = Projections.Key(run, expressions)
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

  /** Those of some queries; the least recently used ones go. */
  private final val Most = 64

  final case class Key(run: UUID, expressions: Seq[Expression])

  private val idle = new util.LinkedHashMap[Key, util.ArrayDeque[UnsafeProjection]](Most, 0.75f, true) {
    override def removeEldestEntry(eldest: util.Map.Entry[Key, util.ArrayDeque[UnsafeProjection]]): Boolean =
      size > Most
  }

  private def take(key: Key): Option[UnsafeProjection] =
    synchronized(Option(idle.get(key)).flatMap(those => Option(those.poll())))

  private def add(key: Key, projection: UnsafeProjection): Unit =
    synchronized(idle.computeIfAbsent(key, _ => new util.ArrayDeque).push(projection))
}
