package io.pillarbox.spark.state

import io.pillarbox.api.{Compatibility, InputView}
import org.apache.spark.sql.catalyst.expressions.{Left => _, Right => _, _}
import org.apache.spark.sql.pillarbox.LosslessTypes
import org.apache.spark.sql.types._

/**
 * Converts rows of an older schema to a newer one. Fields are matched by name; a new field must be nullable
 * and is null; a number may become one of a type that holds all numbers of its own. In arrays and maps nulls
 * may be allowed, and nothing else. Any other change is refused, with both schemas in the reason.
 */
private[pillarbox] object RowEvolution {

  /** Tells if rows of `old` can be read as rows of `now`. */
  def between(old: StructType, now: StructType): Compatibility[UnsafeRow] =
    convert(
      old,
      now,
      ordinal => BoundReference(ordinal, old(ordinal).dataType, old(ordinal).nullable)
    ) match {
      case Right(fields) => Compatibility.afterMigration(reader(old.length, fields)(_))
      case Left(problem) =>
        Compatibility.incompatible(s"$problem; it was <${old.toDDL}>, it is now <${now.toDDL}>")
    }

  private def reader(numFields: Int, fields: Seq[Expression]): InputView => UnsafeRow = {
    val projection = UnsafeProjection.create(fields)
    in => projection(UnsafeRowSerializer.read(in, numFields)).copy()
  }

  private def convert(
      old: StructType,
      now: StructType,
      read: Int => Expression
  ): Either[String, Seq[Expression]] = {
    val dropped = old.fieldNames.filterNot(now.fieldNames.contains)
    if (dropped.nonEmpty) Left(s"${dropped.mkString(", ")} is no longer there")
    else
      now.foldLeft[Either[String, Vector[Expression]]](Right(Vector.empty)) { (done, field) =>
        for (fields <- done; next <- convertField(old, field, read)) yield fields :+ next
      }
  }

  private def convertField(
      old: StructType,
      now: StructField,
      read: Int => Expression
  ): Either[String, Expression] =
    old.fieldNames.indexOf(now.name) match {
      case -1 if now.nullable => Right(Literal(null, now.dataType))
      case -1 => Left(s"the new field ${now.name} can't be null")
      case at if old(at).nullable && !now.nullable => Left(s"${now.name} could be null and can no longer")
      case at => convertValue(now.name, old(at).dataType, now.dataType, read(at))
    }

  private def convertValue(
      name: String,
      old: DataType,
      now: DataType,
      value: Expression
  ): Either[String, Expression] =
    (old, now) match {
      case (_: NumericType, _: NumericType) if old != now && LosslessTypes.canBecome(old, now) =>
        Right(Cast(value, now))
      case (from: StructType, to: StructType) =>
        convert(from, to, at => GetStructField(value, at)).map { fields =>
          val struct =
            CreateNamedStruct(to.fieldNames.toSeq.zip(fields).flatMap { case (n, e) => Seq(Literal(n), e) })
          If(IsNull(value), Literal(null, struct.dataType), struct)
        }
      case _ if LosslessTypes.isWider(old, now) => Right(value)
      case _ => Left(s"$name can't go from ${old.sql} to ${now.sql}")
    }
}
