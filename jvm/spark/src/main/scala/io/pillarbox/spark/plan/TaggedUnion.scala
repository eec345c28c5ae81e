package io.pillarbox.spark.plan

import org.apache.spark.sql.catalyst.expressions.{ArrayPosition, Attribute, Expression, Literal}
import org.apache.spark.sql.types.{ArrayType, StringType}

/** What Python's `tagged_union` marks in its result: the time, and the tag with all tags in their order. */
private[pillarbox] object TaggedUnion {
  private val Tags = "pillarbox.tags"
  private val Time = "pillarbox.time"

  /** Returns the column of the time; none if `columns` are no tagged union, or have lost the time. */
  def time(columns: Seq[Attribute]): Option[Attribute] =
    tag(columns).flatMap(_ => columns.find(_.metadata.contains(Time)))

  /** Returns the place of a row's input among the inputs; none if `columns` are no tagged union. */
  def place(columns: Seq[Attribute]): Option[Expression] =
    tag(columns).map { tag =>
      val tags = tag.metadata.getStringArray(Tags).toSeq
      ArrayPosition(Literal.create(tags, ArrayType(StringType, containsNull = false)), tag)
    }

  private def tag(columns: Seq[Attribute]): Option[Attribute] =
    columns.find(column => column.metadata.contains(Tags) && column.dataType == StringType)
}
